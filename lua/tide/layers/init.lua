--- layers/init.lua - td.layers: networks in a few words.
--
-- td.layers.dense(x, units, o) makes a layer and applies it; without x it is
-- the layer, a function whose further calls share its variables. Variables are
-- called <name>/kernel, <name>/bias and obey variable_scope; names are dense,
-- dense_1, ... unless option name says otherwise. All layers take name,
-- trainable = false, which keeps their variables from optimizers, and reuse;
-- a layer has its variables in a list `variables`, and by their names, as in
-- layer.kernel. layer(x, {training = true}) matters to dropout and
-- batch_normalization. Each layer is a file of tide/layers/.
-- SPDX-License-Identifier: Apache-2.0

local errors = require "tide.base.errors"
local modules = require "tide.base.modules"
local elsewhere = require "tide.base.elsewhere"

local names = modules "layers"
local known = {}
for _, name in ipairs(names) do known[name] = true end

return setmetatable({}, {
  __index = function(t, name)
    if not known[name] then
      errors.invalid("td.layers has no \"%s\"%s; it has %s", tostring(name),
        elsewhere.hint(name, names), table.concat(names, ", "))
    end
    local f = require("tide.layers." .. name)
    rawset(t, name, f)
    return f
  end,
  __complete = names,
})
