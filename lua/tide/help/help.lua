--- help/help.lua - what td.help prints.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"
local args = require "tide.base.args"
local reference = require "tide.help.reference"

local help = {}

-- ---- one entry as text ----------------------------------------------------

local function attribute(a)
  local text = "  " .. a.name .. ": " .. a.type
  if a.allowed then
    text = ("%s {%s}"):format(text, table.concat(a.allowed, ", "))
  end
  if a.minimum then text = text .. " >= " .. a.minimum end
  if a.default then text = text .. " = " .. a.default end
  return text .. (a.deduced and "   (from the inputs)" or "")
end

--- How an op is called: "(a, b, {transpose_a = false, name =})".
-- @param info its record, of core.op_info
function help.call(info)
  local words, options = {}, {}
  for i, x in ipairs(info.inputs) do words[i] = x.name end
  for _, a in ipairs(info.attrs) do
    if not a.deduced then
      options[#options + 1] = a.name .. " ="
        .. (a.default and " " .. a.default or "")
    end
  end
  options[#options + 1] = "name ="
  words[#words + 1] = "{" .. table.concat(options, ", ") .. "}"
  return "(" .. table.concat(words, ", ") .. ")"
end

--- Lines about an op: signature, attributes, dtypes, shape rule, gradient.
function help.facts(info)
  local lines = {}
  local function add(...) lines[#lines + 1] = table.concat{...} end
  add("op ", info.signature)
  if #info.attrs > 0 then
    add("attributes:")
    for _, a in ipairs(info.attrs) do add(attribute(a)) end
  end
  for _, device in ipairs{"CPU"} do
    if #info.dtypes > 0 then
      add(device, ": ", table.concat(info.dtypes, ", "))
    end
  end
  if info.shape ~= "" then add("shape: ", info.shape) end
  add("gradient: ", reference.has_gradient(info) and "yes" or "none")
  return lines
end

--- A comment's text: @param, @return and @raise as they read best.
function help.plain(text)
  text = text:gsub("@param%[?%w*%]? (%S+)", "  %1:")
  text = text:gsub("@tparam%[?[^%]%s]*%]? %S+ (%S+)", "  %1:")
  return (text:gsub("@return", "  gives:"):gsub("@raise", "  raises:"))
end

--- The parts of an entry of tide.reference: call, text, facts (a list of lines,
-- about its op), example.
function help.parts(entry)
  local call = entry.kind == "op" and help.call(entry.op) or entry.call
  local text = help.plain(entry.text)
  if entry.also then text = text .. "\nThe same as " .. entry.also .. "." end
  return {call = entry.name .. call, text = text,
          facts = entry.op and help.facts(entry.op) or {},
          example = reference.example(entry)}
end

--- The text about a name; nil when there is none.
function help.text(name)
  local entry = reference.entry(name)
  if not entry then return nil end
  local parts = help.parts(entry)
  local lines = {parts.call, "  " .. parts.text:gsub("\n", "\n  ")}
  if #parts.facts > 0 then
    lines[#lines + 1] = "\n" .. table.concat(parts.facts, "\n")
  end
  if parts.example ~= "" then
    lines[#lines + 1] = "\n> " .. parts.example:gsub("\n", "\n> ")
  end
  return table.concat(lines, "\n")
end

--- `; did you mean "x"?` for an unknown name, or "".
function help.hint(name)
  local all = reference.names()
  local types = core.op_names()
  return errors.did_you_mean(name,
                             table.move(types, 1, #types, #all + 1, all))
end

--- Prints what is known of a name: an op, a function, a method, an error code.
-- At the prompt `?matmul` is the same.
-- @usage td.help "matmul"
function help.help(name)
  if name == nil then
    print('td.help "matmul" or ?matmul tells about an op, a function, a method '
      .. '("sess:run")\nor an error code; tide ops lists the ops')
    return
  end
  args.expect(name, "string", "help: the name")
  local text = help.text(name)
  if text then return print(text) end
  errors.raise("not_found", "no help on \"%s\"%s", name, help.hint(name))
end

return help
