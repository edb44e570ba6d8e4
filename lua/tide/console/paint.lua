--- console/paint.lua - colours of text, where they can be shown.
--
-- ANSI's eight, so that every theme decides what they are. Notebooks know them;
-- a terminal does unless TERM is dumb, NO_COLOR is set or output goes to no
-- terminal.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local frontend = require "tide.frontend"

local paint = {}

--- Are colours shown?
function paint.on()
  if frontend.kind == "notebook" then return true end
  local no, term = os.getenv "NO_COLOR", os.getenv "TERM" or "dumb"
  return core.isatty(1) and not (no and no ~= "") and term ~= "dumb"
end

local function with(code)
  return function(text)
    if not paint.on() then return text end
    return ("\27[%sm%s\27[0m"):format(code, text)
  end
end

paint.failure = with "1;31"
paint.arrow = with "1;31"
paint.place = with "36"
paint.name = with "34"
paint.number = with "32"
paint.strong = with "1"
paint.faint = with "2"

local kinds = {keyword = "35", string = "33", number = "36", comment = "2"}

--- Lua source with its words in colours.
function paint.lua(text)
  if not paint.on() then return text end
  local words, parts, at = frontend.words(text), {}, 1
  for i = 1, #words, 3 do
    local code = kinds[words[i]]
    local from, to = words[i + 1], words[i + 2]
    parts[#parts + 1] = text:sub(at, from - 1)
    local word = text:sub(from, to)
    parts[#parts + 1] = code and ("\27[%sm%s\27[0m"):format(code, word) or word
    at = to + 1
  end
  parts[#parts + 1] = text:sub(at)
  return table.concat(parts)
end

return paint
