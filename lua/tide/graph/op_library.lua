--- graph/op_library.lua - op libraries: ops, kernels and gradients from a file.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local td = require "tide"

local op_library = {}

local loaded = {} -- by name

--- Loads an op library (tutorials/extend/op). Its ops are td.NAME and
-- td.raw.Type from then on. Returns its name; loading it again does nothing.
function op_library.load_library(path)
  local gradients, name = core.library_load(path)
  if loaded[name] then return name end
  if gradients and gradients ~= "" then
    local chunk, problem = load(gradients, "=" .. name .. " gradients", "t")
    if not chunk then
      core.error("invalid_argument", ("%s: its gradients are no Lua: %s")
        :format(path, problem))
    end
    chunk(td)
  end
  loaded[name] = true
  return name
end

return op_library
