--- commands/run.lua - %run: a script.
--
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"
local traceback = require "tide.console.traceback"

-- Words; quotes hold those together that have blanks.
local function split(text)
  local words, at = {}, 1
  while true do
    at = text:find("%S", at)
    if not at then return words end
    local quoted, stop = text:match("^['\"]([^'\"]*)['\"]()", at)
    if not quoted then quoted, stop = text:match("^(%S+)()", at) end
    words[#words + 1] = quoted
    at = stop
  end
end

local function call(chunk, words)
  return chunk(table.unpack(words))
end

local function finish(before, ok, ...)
  _G.arg = before
  if ok then return ... end
  traceback.raise(...)
end

--- %run FILE.lua [arguments]: runs a script, which finds them in `arg`; its
-- globals stay.
return function(text)
  local words = split(text)
  local path = table.remove(words, 1)
  if not path then error("%run needs the name of a file", 0) end
  local chunk, why = loadfile(path)
  if not chunk then error(why, 0) end
  local before = rawget(_G, "arg")
  words[0] = path
  _G.arg = words
  return finish(before, frontend.protected(call, chunk, words))
end
