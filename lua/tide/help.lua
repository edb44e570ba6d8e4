--- help.lua - what td.help prints, and what there is on this machine.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local help = {}

-- Names of the library for ops that the registry knows by another.
local aliases = {
  sum = "Sum", mean = "Mean", prod = "Prod", max = "Max", min = "Min",
  all = "All", any = "Any", truediv = "RealDiv", divide = "RealDiv",
  mod = "FloorMod", random_normal = "RandomStandardNormal",
  softmax_cross_entropy = "SoftmaxCrossEntropyWithLogits",
  sparse_softmax_cross_entropy = "SparseSoftmaxCrossEntropyWithLogits",
}

local function attribute(a)
  local text = "  " .. a.name .. ": " .. a.type
  if a.allowed then
    text = ("%s {%s}"):format(text, table.concat(a.allowed, ", "))
  end
  if a.minimum then text = text .. " >= " .. a.minimum end
  if a.default then text = text .. " = " .. a.default end
  return text .. (a.deduced and "   (from the inputs)" or "")
end

--- The text about an op, by its Lua name or type; nil when there is none.
function help.op_text(name)
  local info = core.op_info(aliases[name] or name)
  if not info then return nil end
  local lines = {info.signature, "", info.doc}
  if info.lua ~= "" then table.insert(lines, 2, "td." .. info.lua) end
  if #info.attrs > 0 then
    lines[#lines + 1] = "\nattributes:"
    for _, a in ipairs(info.attrs) do lines[#lines + 1] = attribute(a) end
  end
  if #info.dtypes > 0 then
    lines[#lines + 1] = "\nCPU: " .. table.concat(info.dtypes, ", ")
  end
  if info.example ~= "" then lines[#lines + 1] = "\n" .. info.example end
  return table.concat(lines, "\n")
end

--- Prints what is known of an op: help "matmul", help "MatMul".
function help.help(name)
  if type(name) ~= "string" then
    print('td.help "matmul" describes an op; tide ops lists them')
    return
  end
  local text = help.op_text(name)
  if text then return print(text) end
  local names = require("tide.ops").names()
  local near = core.nearest(name, names)
  core.error("not_found", ("no help on \"%s\"%s"):format(name, near
    and "; did you mean \"" .. near .. "\"?" or ""))
end

--- Names of the devices a session sees.
function help.devices()
  local session = require "tide.session"
  return core.devices(session.defaults.cpu_devices or 1)
end

--- Defaults for sessions made later: config{threads = 2, cpu_devices = 1,
-- soft_placement = true}. Gives what is set, and the machine's part.
function help.config(o)
  local args = require "tide.args"
  local session = require "tide.session"
  o = args.expect_all(args.read(o, {"threads", "cpu_devices", "soft_placement",
    "passes_off", "cache"}, "config"), session.types)
  for k, v in pairs(o) do session.defaults[k] = v end
  local out = {machine = core.machine()}
  for k, v in pairs(session.defaults) do out[k] = v end
  return out
end

return help
