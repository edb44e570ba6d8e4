--- base/autoload.lua - modules that are loaded when they are first used.
--
--   local summary = autoload "tide.insight.summary"
--
-- stands for the module: fields are found in it, a call calls it. A start must
-- be quick and small, so what most programs never need is named so, at the top
-- of a file like all else that it needs; no function has a `require` inside.
-- SPDX-License-Identifier: Apache-2.0

local loaded = package.loaded
local meta = {}

local function module_of(stub)
  local name = rawget(stub, meta)
  return loaded[name] or require(name)
end

function meta.__index(stub, key) return module_of(stub)[key] end

function meta.__call(stub, ...) return module_of(stub)(...) end

--- What stands for the module of that name.
return function(name)
  return setmetatable({[meta] = name}, meta)
end
