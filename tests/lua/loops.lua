-- loops.lua - gradients through cond, while_loop, tensor arrays and loops over
-- slices, in float64: TensorFlow's to 1e-12, central differences to 1e-6.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local slices = require "tide.tensor.indexed_slices"
local helper = require "helper"
local random_program = require "shared.random_program"
local rows = require "shared.loop_rows"

local raises, gives = helper.raises, helper.gives
local times, even = rows.times, rows.even
local tests = {}

-- ---- every row --------------------------------------------------------------

local golden = dofile "tests/golden/loops.lua"

-- What TensorFlow cannot compute.
local ours_alone = {rows_zero_times = true}

-- Within 1e-12 of TensorFlow's, relative to 1.
local function check_golden(name, got, want)
  for i, v in ipairs(want) do
    local ok, e = pcall(td.test.close, got[i], td.tensor(v, "float64"),
                        {rtol = 1e-12, atol = 1e-12})
    lu.assertTrue(ok, ("%s, %d: %s"):format(name, i, tostring(e)))
  end
end

for knowing, list in pairs{nothing = rows.loops, rank = rows.arrays} do
  for _, row in ipairs(list) do
    tests["tensorflow_" .. row[1]] = not ours_alone[row[1]] and function()
      local ys, ds, xs = rows.build(row)
      table.move(ds, 1, #ds, #ys + 1, ys)
      local got = td.session():core_run(ys, xs, row[3], {as_values = true})
      local want = golden[row[1]]
      check_golden("value", got, want.values)
      check_golden("gradient", {table.unpack(got, #want.values + 1)},
                   want.gradients)
    end or nil
    tests["numeric_" .. row[1]] = function()
      for _, known in ipairs{"all", knowing} do
        local worst = td.test.gradient(row[2], row[3], {known = known})
        lu.assertTrue(worst < 1e-6, ("known %s: %g"):format(known, worst))
      end
    end
  end
end



-- ---- second derivatives -----------------------------------------------------

-- The gradients of a row as a function that has gradients.
local function gradients_of(row)
  return function(...)
    local out = {}
    for _, d in ipairs(td.gradients({row[2](...)}, {...})) do
      if d then out[#out + 1] = slices.is(d) and d:dense() or d end
    end
    return table.unpack(out)
  end
end

for _, list in ipairs{rows.loops, rows.arrays} do
  for _, row in ipairs(list) do
    tests["second_" .. row[1]] = function()
      local worst = td.test.gradient(gradients_of(row), row[3])
      lu.assertTrue(worst < 1e-6, ("%g"):format(worst))
    end
    tests["tensorflow_second_" .. row[1]] = golden[row[1]] and function()
      local _, ds, xs = rows.build(row)
      local hs = rows.dense_gradients(ds, xs)
      local got = td.session():core_run(hs, xs, row[3], {as_values = true})
      check_golden("second", got, golden[row[1]].seconds)
    end
  end
end

-- Branches that are taken each time, at times and never, in loops of 0 to 4
-- iterations, of which one or several are in flight.
local deciding = {
  always = function() return td.constant(true) end,
  never = function(i) return i:less(0) end,
  first = function(i) return i:less(1) end,
  by_turns = even,
  by_value = function(_, h) return h:sum():greater(0.4) end,
}

for name, decides in pairs(deciding) do
  tests["second_of_a_cond_decided_" .. name] = function()
    local x = td.tensor({0.7, -0.4}, "float64")
    for n = 0, 4 do
      for _, parallel in ipairs{1, 10} do
        local function f(v)
          return (times(n, function(i, h)
            return td.cond(decides(i, h), function()
              local y = times(i, function(_, u) return td.sin(u * h) + v end,
                              {h * v}, {parallel_iterations = parallel})
              return y * h
            end, function() return td.tanh(h) * v end)
          end, {v * v}, {parallel_iterations = parallel}))
        end
        local worst = td.test.gradient(gradients_of{"", f}, {x})
        lu.assertTrue(worst < 1e-6, ("%d times, %d at once: %g"):format(n,
          parallel, worst))
      end
    end
  end
end

-- What the loop saved is taken by rows there, so its gradient is rows.
function tests.second_of_rows_of_what_was_saved()
  local square = td.custom_gradient(td.square, function(dy, x)
    return td.gather(x, {0, 1}) * 2 * dy
  end)
  local function f(v)
    return (times(3, function(i, h)
      return square(td.cond(even(i), function() return square(h) end,
                            function() return td.sin(h) end))
    end, {v}))
  end
  local worst = td.test.gradient(gradients_of{"", f},
                                 {td.tensor({0.7, -0.9}, "float64")})
  lu.assertTrue(worst < 1e-6, ("%g"):format(worst))
end

-- A gradient that branches by itself: what its own cond makes is there, in the
-- loop that counts back.
function tests.second_of_a_rule_with_a_cond()
  local sine = td.custom_gradient(td.sin, function(dy, given)
    local x = td.identity(given)
    local y = td.cond(x:sum():greater(0), function() return td.sin(x) * 1 end,
                      function() return td.sin(x) end)
    return dy * td.gradients(y, x)
  end)
  local function f(v)
    return (times(3, function(_, h) return sine(h * v) * h end, {v}))
  end
  for _, g in ipairs{f, gradients_of{"", f}} do
    for _, x in ipairs{0.9, -0.8} do
      local worst = td.test.gradient(g, {td.tensor(x, "float64")})
      lu.assertTrue(worst < 1e-6, ("%g: %g"):format(x, worst))
    end
  end
end

function tests.second_of_powers()
  local x = td.constant(2.0, {dtype = "float64"})
  local y = times(4, function(_, v) return v * x end, {x})
  local d = td.gradients(y, x)
  gives(80, d)
  gives(160, td.gradients(d, x))
  raises("through loop \"while\"", td.gradients, td.gradients(d, x), x)
end

-- A loop in the body of a loop, with its gradient: v becomes 4 v.
function tests.second_of_a_derivative_in_a_loop()
  local x = td.constant({1.0, 2.0}, {dtype = "float64"})
  local y = times(2, function(_, v)
    return td.gradients(v * td.map_fn(function(e) return e * 2 end, v), v)
  end, {x})
  gives({16, 32}, y)
  gives({16, 16}, td.gradients(y, x))
end

-- Two gradients go through the array that a branch made.
function tests.second_of_an_array_in_a_branch()
  local x = td.constant({1.0, 2.0}, {dtype = "float64"})
  local y = td.cond(x:sum():greater(0), function()
    return td.map_fn(function(e) return e * e * e end, x)
  end, function() return x end)
  local d = td.gradients(y, x)
  gives({3, 12}, d)
  gives({9, 24}, td.gradients(y + d, x))
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

-- The number of iterations, of which one may ask; what nobody asks for.
function tests.unasked_results()
  local x, most = td.constant(2.0), td.constant(5)
  local _, y, z = td.while_loop(function(i) return i:less(9) end,
    function(i, y, z) return i + 1, y * x, z + y * y end, {0, x, x},
    {maximum_iterations = most})
  lu.assertFalse(td.gradients(y, most:cast "float32"))
  gives(192, td.gradients(y, x)) -- x^6
  gives(1 + 2 * 2 + 4 * 8 + 6 * 32 + 8 * 128 + 10 * 512, td.gradients(z, x))
end

function tests.no_gradient_on_purpose()
  local x = td.constant(2.0)
  local y = times(2, function(_, v) return v * x end, {x}, {back_prop = false})
  lu.assertFalse(td.gradients(y, x))
end

-- ---- programs drawn by chance ----------------------------------------------

local V = td.tensor({{0.31, -0.77, 0.52}, {0.93, 0.11, -0.45}}, "float64")
local point = {V * 1.3 + 0.2, V * 0.47 - 0.31, V * V * 0.31 + 0.25}
local ways = {V, V * -0.71 + 0.13, V * 0.31 - 0.41}

-- The slope of a function at the point, by central differences, where it has
-- one: a program may jump close by.
local function slope_of(f)
  local function over(h)
    local function at(k)
      local xs = {}
      for i, x in ipairs(point) do xs[i] = x + ways[i] * k end
      return (f(table.unpack(xs)))
    end
    return (at(h) - at(-h)) / (2 * h)
  end
  local wide, narrow = over(1e-5), over(1e-6)
  return math.abs(wide - narrow) < 1e-4 * (1 + math.abs(wide)) and wide or nil
end

-- The slope that the gradients of f say.
local function slope_by(f)
  local slope = 0
  for i, d in ipairs{select(2, f(table.unpack(point)))} do
    slope = slope + (d * ways[i]):sum():item()
  end
  return slope
end

function tests.gradients_of_random_programs()
  local many, checked = os.getenv "TIDE_SOAK" and 1000 or 60, 0
  for seed = 1, many do
    local program = random_program.new(seed, {noise = true})
    local f = td.value_and_grad(function(...) return program(...):sum() end)
    local ok, e = pcall(f, table.unpack(point))
    if not ok then
      lu.assertEquals(e.code, "unimplemented", tostring(e))
    else
      local got, want = slope_by(f), slope_of(f)
      local off = math.abs(got - (want or got)) / (1 + math.abs(got))
      lu.assertTrue(off < 1e-5, ("seed %d: %g, not %g"):format(seed, got,
                                                               want or got))
      checked = checked + (want and 1 or 0)
    end
  end
  lu.assertTrue(checked * 20 >= many * 19, checked .. " were checked")
end

-- Programs without derivatives in them have second ones. Functions are left
-- out: on two devices those of an array in a function are refused.
function tests.second_gradients_of_random_programs()
  local many, checked = os.getenv "TIDE_SOAK" and 1000 or 15, 0
  for seed = 1, many do
    td.reset()
    local program = random_program.new(seed, {noise = true, derivative = true,
                                              func = true})
    local f = td.value_and_grad(function(...)
      local xs, total = {...}, 0
      for i, d in ipairs(rows.dense_gradients({program(...)}, xs)) do
        total = (d * td.cos(xs[i])):sum() + total
      end
      return total
    end)
    local got, want = slope_by(f), slope_of(f)
    local off = math.abs(got - (want or got)) / (1 + math.abs(got))
    lu.assertTrue(off < 1e-5, ("seed %d: %g, not %g"):format(seed, got,
                                                             want or got))
    checked = checked + (want and 1 or 0)
  end
  lu.assertTrue(checked * 10 >= many * 8, checked .. " were checked")
end

-- ---- what is saved ----------------------------------------------------------

-- How many stacks the gradient of a body makes.
local function stacks(body)
  td.reset()
  local x = td.placeholder("float32", {2, 2})
  local y = times(3, function(i, v) return body(v, x, i) end, {x})
  lu.assertTrue(core.kind(td.gradients(y, x)) == "edge")
  local n = 0
  for _, op in ipairs(td.get_default_graph():ops()) do
    n = n + (op.type == "StackV2" and 1 or 0)
  end
  return n
end

-- Constants, what is the same in every iteration and what counts are there
-- again; of a sum only shapes count, and of a cond what decided.
function tests.what_is_saved()
  local bodies = {
    {0, function(v) return v * 2 end},
    {0, function(v, x) return v + x end},
    {1, function(v, x) return v * x end},
    {0, function(v, x) return v + x * x end},
    {0, function(v, x, i) return v + td.gather(x, i) end},
    {1, function(v) return td.tanh(v) end},
    {0, function(v) return v + v:sum() end},
    {1, function(v)
      return td.cond(v:sum():less(1), function() return v * 2 end,
                     function() return v end)
    end},
  }
  for i, row in ipairs(bodies) do
    lu.assertEquals(stacks(row[2]), row[1], "row " .. i)
  end
end

-- ---- memory -----------------------------------------------------------------

-- Bytes at most in use in a step of n iterations of a product of 64 KiB, and
-- those in use when it is over.
local function peak(n, fetch)
  td.reset()
  local w = td.placeholder("float32", {128, 128})
  local y = times(n, function(_, h) return td.tanh(h:matmul(w)) end, {w})
  local total, s = fetch(y, w):sum(), td.session()
  local value = td.value.ones{128, 128}
  s:run(total, {[w] = value})
  core.memory()
  s:run(total, {[w] = value})
  return select(2, core.memory())
end

-- What more iterations cost, each. How many of them overlap, and hold a few
-- products more, is up to the threads: there are enough of them for that not to
-- matter.
local function slope(fetch)
  return (peak(450, fetch) - peak(50, fetch)) / 400
end

function tests.memory_forward_is_flat()
  lu.assertTrue(slope(function(y) return y end) < 0x10000 / 16)
end

-- What tanh gave is what the next iteration begins with: saved twice, held
-- once.
function tests.memory_backward_is_what_is_saved()
  local each = slope(function(y, w) return td.gradients(y, w) end)
  lu.assertTrue(math.abs(each / 0x10000 - 1) < 0.1, each .. " bytes")
end

-- A step that fails half way leaves nothing behind.
function tests.memory_after_an_error()
  local w = td.placeholder("float32", {128, 128})
  local y = times(50, function(i, h)
    return td.control_dependencies({td.assert(i:less(40), {i})}, function()
      return td.tanh(h:matmul(w))
    end)
  end, {w})
  local s, total = td.session(), td.gradients(y, w):sum()
  local value = td.value.ones{128, 128}
  local function fails()
    raises("assertion", s.run, s, total, {[w] = value})
    return (core.memory())
  end
  fails()
  local before = fails()
  for _ = 1, 3 do lu.assertTrue(fails() <= before) end
end

-- ---- refused ----------------------------------------------------------------

function tests.refused()
  local x, inside = td.constant(2.0), nil
  local y = times(2, function(_, v)
    inside = v * x
    return inside
  end, {x})
  raises("is inside the loop", td.gradients, y, inside)
  raises("again and again", times, 3, function()
    return td.gradients(y, x)
  end, {x})
end

-- A file tells the nodes of a loop, not what it is made of; its gradient, saved
-- with it, is nodes too.
function tests.imported()
  local x = td.placeholder("float32", {}, "x")
  local y = times(3, function(_, v) return v * x end, {x})
  local z = td.cond(x:less(0), function() return x end,
                    function() return y * 2 end)
  local names = {"x:0", y.name, z.name, td.gradients(z, x).name}
  local path = os.tmpname()
  td.get_default_graph():save(path)
  td.reset()
  local a, b, c, d = td.import_graph(path, {outputs = names})
  os.remove(path)
  lu.assertEquals(td.session():run({b, c, d}, {[a] = 2}), {16, 32, 64})
  for _, f in ipairs{b, c} do
    raises("take the gradient before the graph is saved", td.gradients, f, a)
  end
end

-- Names in the gradient of nested branches grow with the depth, not with its
-- square: at 160 deep they were longer than a name may be.
function tests.names_of_nested_gradients()
  local p, x = td.placeholder("bool", {}), td.placeholder("float64", {})
  local depth = 30
  local function nest(d)
    if d == 0 then return x * x end
    return (td.cond(p, function() return nest(d - 1) end,
                    function() return x end))
  end
  local dx = td.gradients(nest(depth), {x})[1]
  local longest = 0
  for _, op in ipairs(x.graph:ops()) do
    longest = math.max(longest, #op.name)
  end
  lu.assertTrue(longest < 30 * depth, "a name of " .. longest .. " bytes")
  local s <close> = td.session()
  lu.assertEquals(s:run(dx, {[p] = true, [x] = 3}), 6)
  lu.assertEquals(s:run(dx, {[p] = false, [x] = 3}), 1)
end

return tests
