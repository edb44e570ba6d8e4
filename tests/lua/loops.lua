-- loops.lua - gradients through cond and while_loop against central differences
-- in float64.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local rows = require "shared.loop_rows"

local raises, gives = helper.raises, helper.gives
local times = rows.times
local tests = {}

for _, row in ipairs(rows.loops) do
  tests["gradient_" .. row[1]] = function()
    for _, known in ipairs{"all", "nothing"} do
      local worst = td.test.gradient(row[2], row[3], {known = known})
      lu.assertTrue(worst < 1e-6, ("known %s: %g"):format(known, worst))
    end
  end
end

-- ---- who has a gradient -----------------------------------------------------

function tests.what_does_not_depend_has_none()
  local x, z = td.constant(2.0), td.constant(3.0)
  local i, y, n = td.while_loop(function(i) return i:less(3) end,
    function(i, y, n) return i + 1, y * x, n + 1 end, {0, x, 0.0})
  lu.assertFalse(td.gradients(y, z))
  lu.assertFalse(td.gradients(n, x))
  gives(32, td.gradients(y + n, x))
  lu.assertFalse(td.gradients(i:cast "float32", x))
end

function tests.stop_gradients()
  local x, z = td.constant(2.0), td.constant(3.0)
  local y = times(2, function(_, v) return v * x * td.stop_gradient(z) end, {x})
  gives(108, td.gradients(y, x))
  lu.assertFalse(td.gradients(y, z))
  gives(72, td.gradients(y, x, {stop_gradients = {z}}) * 2 / 3)
  local t
  y = times(2, function(_, v)
    t = v * x
    return t * x
  end, {x})
  gives(16, td.gradients(y, x, {stop_gradients = {t}}))
end

function tests.no_gradient_on_purpose()
  local x = td.constant(2.0)
  local y = times(2, function(_, v) return v * x end, {x}, {back_prop = false})
  lu.assertFalse(td.gradients(y, x))
end

-- ---- refused ----------------------------------------------------------------

function tests.refused()
  local x, inside = td.constant(2.0), nil
  local y = times(2, function(_, v)
    inside = v * x
    return inside
  end, {x})
  raises("is inside the loop", td.gradients, y, inside)
  raises("only one derivative goes through a loop", td.gradients,
         td.gradients(y, x), x)
  raises("again and again", times, 3, function()
    return td.gradients(y, x)
  end, {x})
end

return tests
