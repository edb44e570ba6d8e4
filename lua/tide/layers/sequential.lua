--- layers/sequential.lua - layers one after the other.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local layer = require "tide.nn.layer"

local sequential = {kind = "sequential", positions = {"layers"},
                    options = {"training"}}

local function callable(x)
  local meta = type(x) == "table" and getmetatable(x)
  return type(x) == "function" or meta and meta.__call
end

function sequential:check()
  for i, each in ipairs(args.check_list(self.layers, "sequential")) do
    if not callable(each) then
      local hint = args.is_tensor(each)
        and "; give the layer without its input: td.layers.dense(4)" or ""
      layer.fail(self, "item %d is no layer and no function, but a %s%s", i,
                 args.what(each), hint)
    end
  end
end

function sequential:apply(x, _, o)
  local all = {}
  for i, each in ipairs(self.layers) do
    if layer.is(each) then x = each(x, o) else x = each(x) end
    if not args.is_tensor(x) then
      layer.fail(self, "item %d gives no tensor, but a %s", i, args.what(x))
    end
    local own = layer.is(each) and each.variables or {}
    table.move(own, 1, #own, #all + 1, all)
  end
  self.variables = all
  return x
end

local make = layer.define(sequential)

--- A layer made of layers, and functions of a tensor such as td.relu: each
-- takes what the one before gives. Options, in the same table or after it:
-- name; training (false), which every layer is told. model.layers is the list.
-- @function layers.sequential(list, o)
-- @usage local net = td.layers.sequential{td.layers.dense(4), td.relu,
--   td.layers.dense(2)}
-- net(td.ones{3, 5}).shape  --> {3, 2}
return function(list, o)
  local ok = args.plain(list) and (o == nil or not layer.is(o))
  if not ok then
    layer.fail(sequential, "it takes one list, sequential{layer, layer}, and "
      .. "gives a layer to call on x")
  end
  local items, named = args.split(list)
  if #items == 0 then layer.fail(sequential, "the list has no layer") end
  return make(items, next(named) and named or o)
end
