-- loops.lua - gradients through cond and while_loop against central differences
-- in float64.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function f64(list) return td.tensor(list, "float64") end

local W = f64{{0.5, 0.25}, {-0.125, 0.75}}
local V = f64{{1.0, -0.5}}

-- The body, repeated n times: body(i, v...).
local function times(n, body, vars, o)
  local list = {td.constant(0), table.unpack(vars)}
  local out = table.pack(td.while_loop(function(i) return i:less(n) end,
    function(i, ...) return i + 1, body(i, ...) end, list, o))
  return table.unpack(out, 2)
end

local function even(i) return (i % 2):equal(0) end

-- name, function, arguments, and whether it asks for known shapes
local rows = {
  {"cond", function(w, v)
    return td.cond(v:sum():less(1), function() return v:matmul(w) end,
                   function() return v end)
  end, {W, V}},
  {"cond_one_side", function(w, v)
    return td.cond(v:sum():less(1), function() return td.ones_like(v) end,
                   function() return v:matmul(w) end)
  end, {W, V}},
  {"cond_in_cond", function(w, v)
    return td.cond(v:sum():less(1), function()
      local p, q = td.cond(w:sum():less(1), function() return v * 2, w end,
                           function() return v:matmul(w), w * w end)
      return p:matmul(q)
    end, function() return v end)
  end, {W, V}},
  {"while", function(w, v)
    return (times(4, function(_, h) return td.tanh(h:matmul(w)) end, {v}))
  end, {W, V}},
  {"while_zero_times", function(w, v)
    return (times(0, function(_, h) return h:matmul(w) end, {v}))
  end, {W, V}},
  {"several_variables", function(w, v)
    return times(3, function(_, a, b, c)
      return b * 2, td.tanh(a:matmul(w)), c + a * b
    end, {v, v * v, v})
  end, {W, V}},
  {"counter_in_the_value", function(v)
    return (times(3, function(i, a)
      return a * (i:cast(a.dtype) + 0.5)
    end, {v}))
  end, {V}},
  {"cond_in_while", function(w, v)
    return (times(5, function(i, h)
      return td.cond(even(i), function() return td.tanh(h:matmul(w)) end,
                     function() return h * h end)
    end, {v}))
  end, {W, V}},
  {"cond_in_while_by_value", function(w, v)
    return (times(5, function(_, h)
      return td.cond(h:sum():less(0.3), function() return h:matmul(w) + 1 end,
                     function() return td.sin(h) * w:sum() end)
    end, {v}))
  end, {W, V}},
  {"while_in_cond", function(w, v)
    return td.cond(v:sum():less(1), function()
      return (times(3, function(_, h) return td.tanh(h:matmul(w)) end, {v}))
    end, function() return v end)
  end, {W, V}},
  {"while_in_a_branch_not_taken", function(w, v)
    return td.cond(v:sum():greater(1), function()
      return (times(3, function(_, h) return td.tanh(h:matmul(w)) end, {v}))
    end, function() return v * w:sum() end)
  end, {W, V}},
  {"while_in_while", function(w, v)
    return (times(3, function(i, h)
      local inner = times(i, function(_, u)
        return td.tanh(u:matmul(w) + h)
      end, {h})
      return inner * h
    end, {v}))
  end, {W, V}},
  {"while_in_cond_in_while", function(w, v)
    return (times(4, function(i, h)
      return td.cond(even(i), function()
        return (times(2, function(j, u)
          return td.cond(even(i + j), function() return td.sin(u * h) end,
                         function() return u:matmul(w) end)
        end, {h}))
      end, function() return h * w:sum() end)
    end, {v}))
  end, {W, V}},
  {"three_deep", function(w, v)
    return (times(2, function(_, a)
      return (times(2, function(_, b)
        return (times(2, function(_, c)
          return td.sin(c:matmul(w) + a * b)
        end, {b})) * a
      end, {a}))
    end, {v}))
  end, {W, V}},
  {"shapes_that_grow", function(v)
    return (times(3, function(_, a)
      return td.concat({a * a, a["0:1"]}, 0)
    end, {v:reshape{-1, 2}}, {shape_invariants = {{}, {-1, 2}}}))
  end, {V}},
  {"broadcast_inside", function(w, v)
    return (times(3, function(_, a) return td.sin(a * w:sum(0)) end, {v}))
  end, {W, V}},
  {"gradient_in_the_body", function(w, v)
    return (times(3, function(_, a)
      local y = td.tanh(a:matmul(w)):sum()
      return a - td.gradients(y, a) * 0.5
    end, {v}))
  end, {W, V}},
}

for _, row in ipairs(rows) do
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
