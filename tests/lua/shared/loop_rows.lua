-- loop_rows.lua - functions made of cond, while_loop, tensor arrays and loops
-- over slices, nested in each other: {name, function, arguments}.
--
-- loops.lua and arrays.lua check their gradients, devices.lua that they are the
-- same wherever they run.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local slices = require "tide.tensor.indexed_slices"

local function f64(list) return td.tensor(list, "float64") end

local X = f64{{1.0, 2.0}, {3.0, -0.5}, {-1.0, 0.25}}
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

local loops = {
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
  {"cond_in_cond_in_while", function(w, v)
    return (times(5, function(i, h)
      return td.cond(even(i), function()
        return td.cond(h:sum():less(0.25), function()
          return (times(i, function(_, u) return td.tanh(u:matmul(w) + h) end,
                        {h * h}))
        end, function() return td.sin(h) * w:sum() end)
      end, function()
        return td.cond(i:less(2), function() return h:matmul(w) end,
                       function() return td.sin(h * h) - h end)
      end)
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

local function product(a, w) return a:expand_dims(0):matmul(w):squeeze{0} end

local arrays = {
  {"read_and_write", function(x)
    local ta = td.tensor_array(x.dtype, 2, {clear_after_read = false})
    ta = ta:write(0, x * x):write(1, td.sin(x))
    return ta:read(0) * ta:read(1) + ta:read(0)
  end, {X}},
  {"gather_and_scatter", function(x)
    local ta = td.tensor_array(x.dtype, 3, {clear_after_read = false})
    ta = ta:unstack(x * x)
    return ta:gather{2, 0} * ta:gather{0, 1}, ta:stack()
  end, {X}},
  {"unused_elements", function(x)
    return td.tensor_array(x.dtype, 3):unstack(x * x):read(1)
  end, {X}},
  {"split_and_concat", function(x)
    local ta = td.tensor_array(x.dtype, 2, {infer_shape = false,
                                            clear_after_read = false})
    ta = ta:split(x * x, {1, 2})
    return ta:concat() * x, ta:read(1)
  end, {X}},
  {"map_fn", function(x, w)
    return td.map_fn(function(v) return td.tanh(product(v, w)) end, x)
  end, {X, W}},
  {"map_fn_in_map_fn", function(x, w)
    return td.map_fn(function(v)
      return td.map_fn(function(u) return td.sin(u * v) * w:sum() end, v)
    end, x)
  end, {X, W}},
  {"map_fn_with_cond", function(x)
    return td.map_fn(function(v)
      return td.cond(v:sum():less(2), function() return v * v end,
                     function() return td.sin(v) end)
    end, x)
  end, {X}},
  {"foldl", function(x, w)
    return td.foldl(function(a, v) return td.tanh(product(a, w) + v) end, x)
  end, {X, W}},
  {"foldr", function(x, w)
    return td.foldr(function(a, v) return td.tanh(product(a, w) * v) end, x,
                    w[0])
  end, {X, W}},
  {"scan", function(x, w)
    return td.scan(function(a, v) return td.tanh(product(a, w) + v) end, x)
  end, {X, W}},
  {"scan_reverse", function(x, w)
    local s = td.scan(function(a, v)
      return {h = td.tanh(product(a.h, w) + v), c = a.c * v}
    end, x, {h = w[0], c = w[1]}, {reverse = true})
    return s.h, s.c
  end, {X, W}},
  {"one_element_many_times", function(x, w)
    local ta = td.tensor_array(x.dtype, 3, {clear_after_read = false})
    ta = ta:unstack(td.sin(x))
    return (times(7, function(i, a)
      local inner = times(3, function(_, b)
        return td.sin(b * ta:read(1) + ta:read(0) * ta:read(1))
      end, {a})
      return td.cond(even(i), function() return inner * ta:read(1) end,
                     function() return inner - ta:read(0) end)
    end, {w[0]}, {parallel_iterations = 32}))
  end, {X, W}},
  {"scan_in_while", function(x, w)
    local _, y = td.while_loop(function(i) return i:less(2) end, function(i, y)
      return i + 1, td.scan(function(a, v)
        return td.tanh(product(a, w) + v)
      end, y)
    end, {0, x})
    return y
  end, {X, W}},
}

-- Gradients of gathers are rows.
local function turn(x, i) return x:gather(i % 3) end
local HALF = f64{0.5, 0.5}

local sparse = {
  {"rows_in_while", function(x)
    return (times(4, function(i, a) return td.sin(a + turn(x, i)) end, {HALF}))
  end, {X}},
  {"rows_zero_times", function(x)
    return times(0, function(i, a) return td.sin(a + turn(x, i)) end, {HALF})
      * x:sum()
  end, {X}},
  {"rows_in_cond", function(x)
    return td.cond(x:sum():less(0), function() return x:gather{0} end,
                   function() return x:gather{2, 1}:sum(0):expand_dims(0) end)
  end, {X}},
  {"rows_in_cond_in_while", function(x)
    return (times(4, function(i, a)
      return td.cond(even(i), function() return td.sin(a + turn(x, i)) end,
                     function() return a * a end)
    end, {HALF}))
  end, {X}},
  {"rows_and_all", function(x)
    return (times(4, function(i, a)
      return td.cond(even(i), function() return td.sin(a + turn(x, i)) end,
                     function() return a * x:sum() end)
    end, {HALF}))
  end, {X}},
  {"rows_in_while_in_while", function(x)
    return (times(2, function(i, a)
      return (times(3, function(j, b) return td.sin(b * turn(x, i + j)) end,
                    {a}))
    end, {HALF}))
  end, {X}},
  {"rows_of_a_variable", function(x)
    return (times(3, function(_, a)
      return td.concat({a:gather{0, 1, 1}, a["0:1"]}, 0):gather{0, 1, 3} * 0.5
    end, {x}))
  end, {X}},
}
table.move(sparse, 1, #sparse, #arrays + 1, arrays)

-- Gradients as tensors. Where there is none there are zeros.
local function dense_gradients(ys, xs)
  local ds = {}
  for i, d in ipairs(td.gradients(ys, xs)) do
    if not d then d = td.zeros_like(xs[i]) end
    ds[i] = slices.is(d) and d:dense() or d
  end
  return ds
end

-- A row's values and the gradients of their sum, as nodes of the current graph,
-- with what is fed.
local function build(row)
  local xs = {}
  for i, v in ipairs(row[3]) do xs[i] = td.placeholder(v.dtype, v.shape) end
  local ys = {row[2](table.unpack(xs))}
  return ys, dense_gradients(ys, xs), xs
end

return {loops = loops, arrays = arrays, times = times, even = even,
        build = build, dense_gradients = dense_gradients}
