--- cli/ops.lua - `tide ops [NAME | --json]`: what there is to compute with.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"
local gradients = require "tide.autodiff.gradients"
local help = require "tide.help.help"
local json = require "tide.base.json"

-- One op as a program reads it: names, operands, dtypes, documentation.
local function record(type)
  local info = core.op_info(type)
  return {name = info.name, lua = info.lua, inputs = info.inputs,
          outputs = info.outputs, attrs = info.attrs,
          dtypes = {CPU = info.dtypes},
          gradient = gradients.rule(type) and true or false,
          section = info.section, doc = info.doc}
end

local function print_json()
  local rows = {}
  for i, type in ipairs(core.op_names()) do
    rows[i] = json.encode(record(type))
  end
  print("[" .. table.concat(rows, ",\n") .. "]")
end

local function print_list()
  for _, type in ipairs(core.op_names()) do
    local info = core.op_info(type)
    if type:sub(1, 1) ~= "_" then
      print(("%-36s %-28s %s"):format(type, info.lua ~= "" and "td." .. info.lua
                                      or "td.raw." .. type, info.doc))
    end
  end
end

local USAGE = "usage: tide ops [NAME | --json]"

--- Runs the command; returns its exit code.
return function(args)
  if #args > 1 then
    io.stderr:write(USAGE, "\n")
    return 2
  end
  local what = args[1]
  if not what then
    print_list()
  elseif what == "--json" then
    print_json()
  elseif what == "--help" then
    print(USAGE)
  elseif what:sub(1, 1) == "-" then
    io.stderr:write(USAGE, "\n")
    return 2
  else
    local text = help.text(what)
    if not text then
      io.stderr:write("no op \"", what, "\"",
                      errors.did_you_mean(what, core.op_names()), "\n")
      return 1
    end
    print(text)
  end
  return 0
end
