-- ranks.lua - tensors of every rank there can be, from literals to files, and
-- ops where TensorFlow stops earlier.
--
-- What TensorFlow answers at ranks 0 to 15 is in tests/golden/ranks. An op that
-- it refuses above 5 or 8 is compared with itself here: the sizes 2 and 3 stand
-- at two axes of many, all others are 1, so that the elements of a result and
-- of a gradient are those of the matrix.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local bundle = require "tide.show.bundle"
local helper = require "helper"

local raises = helper.raises
local raw = td.raw
local MOST = 16
local tests = {}

-- n sizes: 2 at every fifth axis, 3 at the last, else 1.
local function sizes(n)
  local s = {}
  for k = 1, n do s[k] = k == n and 3 or k % 5 == 1 and 2 or 1 end
  return s
end

-- Nested tables of these sizes; element i is of(i), from 1 on.
local function nested(s, of)
  local i = 0
  local function level(k)
    if k > #s then
      i = i + 1
      return of(i)
    end
    local t = {}
    for j = 1, s[k] do t[j] = level(k + 1) end
    return t
  end
  return level(1)
end

local function number(i) return i + 0.5 end

-- ---- values ----------------------------------------------------------------

local elements = {
  float32 = number,
  int32 = function(i) return i end,
  bool = function(i) return i % 2 == 0 end,
  string = function(i) return "s" .. i end,
}

function tests.literals_come_back()
  for n = 0, MOST do
    for dtype, of in pairs(elements) do
      local s = sizes(n)
      local t = td.tensor(nested(s, of))
      lu.assertEquals(t.dtype, dtype)
      lu.assertTrue(t.shape == s, tostring(t.shape))
      lu.assertEquals(n == 0 and t:item() or t:table(), nested(s, of))
      if n > 0 then
        local shape = tostring(td.shape(t))
        lu.assertEquals(shape, ("int32 {%d} %s"):format(n,
          table.concat(s, " ")))
        lu.assertStrContains(tostring(t), "{" .. table.concat(s, ", ") .. "}")
      end
      lu.assertStrContains(bundle(t).data["text/plain"], dtype == "string"
        and "s1" or dtype == "bool" and "false" or "1")
    end
  end
end

-- Edges in nested tables are packed, level by level.
function tests.edges_in_tables()
  for n = 1, MOST do
    td.reset()
    local s = sizes(n)
    local x = td.constant(1.0)
    local y = td.add(nested(s, function(i) return x * i end), 0.5)
    lu.assertTrue(y.shape == s)
    lu.assertEquals(td.session():run(y):table(), nested(s, number))
  end
end

function tests.files()
  local path = os.tmpname()
  for n = 0, MOST do
    local t = td.tensor(nested(sizes(n), number))
    td.save_npy(path, t)
    lu.assertTrue(core.same(td.load_npy(path), t), "rank " .. n)
    td.save_npz(path, {t = t})
    lu.assertTrue(core.same(td.load_npz(path).t, t), "rank " .. n)
  end
  os.remove(path)
end

-- ---- graphs ----------------------------------------------------------------

function tests.graphs_as_bytes()
  for n = 0, MOST do
    td.reset()
    local s, value = sizes(n), td.tensor(nested(sizes(n), number))
    local x = td.placeholder("float32", s, "x")
    local y = td.add(x, value, {name = "y"})
    local bytes = core.graph():save_bytes()
    local want = td.session():run(y, {[x] = value})
    td.reset()
    local g = core.graph()
    g:import_bytes(bytes)
    lu.assertTrue(g:edge("x").shape == s)
    helper.gives(want, td.session():run(g:edge "y", {[g:edge "x"] = value}))
    lu.assertEquals(g:save_bytes(), bytes)
  end
end

function tests.steps_variables_and_loops()
  for n = 0, MOST do
    td.reset()
    local s, list = sizes(n), nested(sizes(n), number)
    local t = td.tensor(list)
    local total = td.reduce_sum(t):item()
    local x = td.placeholder("float32", s)
    local v = td.variable(t)
    local i, y = td.while_loop(function(i) return i:less(3) end,
      function(i, z) return i + 1, z + v end, {td.constant(0), x})
    local either = td.cond(i:greater(2), function() return y * 2 end,
                           function() return x end)
    local all = td.stack{td.reduce_sum(either), td.reduce_sum(x)}
    local sess = td.session()
    sess:run(v.initializer)
    sess:run(v:assign_add(t))
    for _, given in ipairs{t, list} do
      local got = sess:run({either, all}, {[x] = given})
      helper.gives(t * 14, got[1], "rank " .. n)
      lu.assertEquals(got[2]:table(), {14 * total, total})
    end
    helper.gives(t, sess:run(v:assign(list)))
  end
end

-- ---- ops -------------------------------------------------------------------

local MATRIX = td.tensor({{1, -2, 3}, {4, 5, -6}}, "float64")

-- n values: `other` but at axes p and q (from 1).
local function at_two(n, p, q, a, b, other)
  local list = {}
  for k = 1, n do list[k] = k == p and a or k == q and b or other end
  return list
end

local function ints(list) return core.tensor(list, "int32", {#list}) end

local function pairs_of(n, p, q, a, b, other)
  local list = at_two(n, p, q, a, b, other)
  return td.tensor(list, "int32")
end

-- Of x, whose axes p and q of n are those of a matrix.
local functions = {
  Slice = function(x, n, p, q)
    return raw.Slice(x, ints(at_two(n, p, q, 1, 0, 0)),
                     ints(at_two(n, p, q, 1, 2, -1)))
  end,
  StridedSlice = function(x, n, p, q)
    return raw.StridedSlice(x, ints(at_two(n, p, q, -1, 0, 0)),
      ints(at_two(n, p, q, -9, 3, 1)), ints(at_two(n, p, q, -1, 2, 1)))
  end,
  Pad = function(x, n, p, q)
    return raw.Pad(x, pairs_of(n, p, q, {1, 0}, {0, 2}, {0, 0}))
  end,
  PadV2 = function(x, n, p, q)
    return raw.PadV2(x, pairs_of(n, p, q, {1, 0}, {0, 2}, {0, 0}),
                     td.tensor(7, "float64"))
  end,
  MirrorPad = function(x, n, p, q)
    return raw.MirrorPad(x, pairs_of(n, p, q, {1, 0}, {0, 2}, {0, 0}),
                         {mode = "REFLECT"})
  end,
  ReverseV2 = function(x, _, p, q) return raw.ReverseV2(x, {p - 1, q - 1}) end,
  Tile = function(x, n, p, q)
    return raw.Tile(x, ints(at_two(n, p, q, 2, 3, 1)))
  end,
  BroadcastTo = function(x, n, p, q)
    return raw.BroadcastTo(raw.Slice(x, ints(at_two(n, p, q, 0, 0, 0)),
                                     ints(at_two(n, p, q, -1, 1, 1))),
                           ints(at_two(n, p, q, 2, 4, 1)))
  end,
  Mul = function(x, n, p, q)
    return x * raw.Slice(x, ints(at_two(n, p, q, 0, 1, 0)),
                         ints(at_two(n, p, q, -1, 1, 1)))
  end,
  SelectV2 = function(x, n, p, q)
    local row = raw.Slice(x, ints(at_two(n, p, q, 1, 0, 0)),
                          ints(at_two(n, p, q, 1, -1, 1)))
    return raw.SelectV2(x:greater(0), x, row)
  end,
  Sum = function(x, _, p) return raw.Sum(x, {p - 1}) end,
  Max = function(x, _, _, q) return raw.Max(x, {q - 1}) end,
  ArgMax = function(x, _, _, q) return raw.ArgMax(x, q - 1) end,
  Cumsum = function(x, _, _, q) return raw.Cumsum(x, q - 1) end,
  GatherNd = function(x, n, p, q)
    return raw.GatherNd(x, td.stack{ints(at_two(n, p, q, 1, 2, 0)),
                                    ints(at_two(n, p, q, 0, 1, 0))})
  end,
  ScatterNd = function(x, n, p, q)
    return raw.ScatterNd(td.stack{ints(at_two(n, p, q, 1, 2, 0))},
                         td.reshape(raw.Sum(x, {p - 1, q - 1}), {1}),
                         ints(at_two(n, p, q, 2, 3, 1)))
  end,
  Where = function(x, _, p, q)
    return raw.GatherV2(raw.Where(x:greater(0)), {p - 1, q - 1}, 1)
  end,
  Concat = function(x, _, _, q) return raw.ConcatV2({x, x}, q - 1) end,
  Unpack = function(x, _, p)
    return td.concat(raw.Unpack(x, {num = 2, axis = p - 1}), 0)
  end,
  Roll = function(x, _, p, q)
    return raw.Roll(x, {1, -1}, {p - 1, q - 1})
  end,
  LogSoftmax = function(x) return raw.LogSoftmax(x) end,
  Softmax = function(x) return raw.Softmax(x) end,
  BatchMatMulV2 = function(x)
    return raw.BatchMatMulV2(x, x, {adj_y = true})
  end,
}

-- What f gives of the matrix at axes p and q of n, and its gradient, flat.
local function run_at(f, n, p, q)
  td.reset()
  local x = td.placeholder("float64", at_two(n, p, q, 2, 3, 1))
  local y = f(x, n, p, q)
  local flat = td.cast(td.reshape(y, {-1}), "float64")
  local fetches = {flat}
  if y.dtype == "float64" then
    local w = td.cast(td.range(1, td.size(flat) + 1), "float64")
    fetches[2] = td.reshape(td.gradients(td.reduce_sum(flat * w), x), {-1})
  end
  return td.session():run(fetches, {
    [x] = core.tensor(MATRIX, nil, at_two(n, p, q, 2, 3, 1))})
end

for name, f in pairs(functions) do
  tests["every_rank_" .. name] = function()
    local want = run_at(f, 2, 1, 2)
    for n = 3, MOST do
      for _, at in ipairs{{1, n}, {n - 1, n}, {n // 2, n // 2 + 1}} do
        local p, q = at[1], at[2]
        local last = name:find "Softmax" or name == "BatchMatMulV2"
        if not last or p == n - 1 then
          for i, y in ipairs(run_at(f, n, p, q)) do
            lu.assertEquals(y:table(), want[i]:table(), ("%s, rank %d, axes "
              .. "%d and %d, result %d"):format(name, n, p, q, i))
          end
        end
      end
    end
  end
end

-- ---- what is too much ------------------------------------------------------

local function deep(n) return td.zeros(sizes(n)) end

local ones = {}
for k = 1, MOST + 1 do ones[k] = 1 end

-- Each asks for 17 dimensions: of constants, of inputs of that shape, and where
-- only the run tells.
local too_deep = {
  Reshape = function() return raw.Reshape({1.0}, ones) end,
  ExpandDims = function(x) return raw.ExpandDims(x, 0) end,
  Pack = function(x) return raw.Pack{x, x} end,
  OneHot = function(x) return raw.OneHot(td.cast(x, "int32"), 3, 1, 0) end,
  GatherV2 = function(x)
    return raw.GatherV2(x, td.zeros({1, 1}, "int32"), 0)
  end,
  GatherNd = function(x)
    return raw.GatherNd(x, td.zeros({1, 1, 1}, "int32"))
  end,
  StridedSlice = function(x)
    return raw.StridedSlice(x, {0}, {1}, {1}, {new_axis_mask = 1})
  end,
  MatrixDiag = function(x) return raw.MatrixDiag(x) end,
  Bitcast = function(x) return raw.Bitcast(x, {type = "int16"}) end,
  Fill = function() return raw.Fill(ones, 1) end,
  BroadcastTo = function() return raw.BroadcastTo(1, ones) end,
  UnsortedSegmentSum = function(x)
    return raw.UnsortedSegmentSum(x, td.constant(0), 2)
  end,
  DynamicStitch = function(x)
    return raw.DynamicStitch({td.constant(0)}, {x})
  end,
  DecodeRaw = function(x)
    return raw.DecodeRaw(td.as_string(x), {out_type = "uint8"})
  end,
  RandomUniform = function()
    return raw.RandomUniform(ones, {dtype = "float32"})
  end,
}

for name, f in pairs(too_deep) do
  tests["too_deep_" .. name] = function()
    td.reset()
    for _, make in ipairs{deep, function(n)
      return td.placeholder("float32", sizes(n))
    end} do
      local e = raises("17 dimensions: at most 16", f, make(MOST))
      helper.contains(tostring(e), name, "node \"", "ranks.lua:")
      lu.assertEquals(e.code, "unimplemented")
    end
    local x = td.placeholder "float32"
    local value = td.tensor(nested(sizes(MOST), number))
    local e = raises("17 dimensions: at most 16", function()
      td.session():run(f(x), {[x] = value})
    end)
    helper.contains(tostring(e), name)
  end
end

function tests.too_deep_elsewhere()
  raises("nest deeper than 16", td.tensor, nested(ones, number))
  raises("rank 17 is over 16", td.placeholder, "float32", ones)
  raises("17 dimensions: at most 16", td.zeros, ones)
end

return tests
