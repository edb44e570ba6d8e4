-- ops.lua - functions of td: fixed positions, operators, what computes at once.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local function A() return td.tensor{{1.0, 2.0}, {3.0, 4.0}} end
local function N() return td.tensor{{1, 2}, {3, 4}} end

-- expected, a function of x: a value, then the same as a graph tensor
local rows = {
  {{{2, 3}, {4, 5}}, function(x) return x + 1 end},
  {{{0, -1}, {-2, -3}}, function(x) return 1 - x end},
  {{{2, 4}, {6, 8}}, function(x) return x * 2 end},
  {{{0.5, 1}, {1.5, 2}}, function(x) return x / 2 end},
  {{{0, 1}, {1, 2}}, function(x) return x // 2 end},
  {{{1, 0}, {1, 0}}, function(x) return x % 2 end},
  {{{1, 4}, {9, 16}}, function(x) return x ^ 2 end},
  {{{-1, -2}, {-3, -4}}, function(x) return -x end},
  {10, function(x) return x:sum() end},
  {{4, 6}, function(x) return x:sum(0) end},
  {{{3}, {7}}, function(x) return x:sum{-1, keep_dims = true} end},
  {{{10}}, function(x) return x:sum{keep_dims = true} end},
  {{{1, 2}, {3, 4}}, function(x) return x:sum{} end},
  {2.5, function(x) return x:mean() end},
  {{1.5, 3.5}, function(x) return td.reduce_mean(x, 1) end},
  {4, function(x) return x:max() end},
  {1, function(x) return x:min() end},
  {24, function(x) return x:prod() end},
  {{7, 10, 15, 22}, function(x) return x:matmul(x):reshape{-1} end},
  {{7, 15}, function(x) return (x:matmul(x))[":, 0"] end},
  {{{1, 3}, {2, 4}}, function(x) return x:transpose() end},
  {{{1, 3}, {2, 4}}, function(x)
    return x:transpose(nil, {conjugate = true})
  end},
  {{{1, 2, 1, 2}, {3, 4, 3, 4}}, function(x) return td.concat({x, x}, 1) end},
  {{{1, 2}}, function(x) return x:split(2)[1] end},
  {{{2}, {4}}, function(x) return x:split({1, 1}, 1)[2] end},
  {{3, 4}, function(x) return x:unstack()[2] end},
  {{1, 3}, function(x) return x:unstack(-1)[1] end},
  {{{{1, 2}, {3, 4}}}, function(x) return td.stack{x} end},
  {{{1, 2}, {3, 4}}, function(x) return td.squeeze(td.stack({x}, 0), 0) end},
  {{{3, 4}, {1, 2}}, function(x) return x:gather({1, 0}) end},
  {{{2}, {4}}, function(x) return x:gather({1}, 1) end},
  {{1, 1}, function(x) return x:argmax(1):cast "float32" end},
  {{2, 4}, function(x) return (x:top_k(1))[":, 0"] end},
  {{{0, 1, 0}, {0, 0, 1}}, function(x)
    return td.one_hot(x[0]:cast "int32", 3)
  end},
  {{{0, 0}, {3, 4}}, function(x)
    return td.where(x:greater(2), x, td.zeros_like(x))
  end},
  {{{0, 0, 0, 0}, {0, 1, 2, 0}, {0, 3, 4, 0}, {0, 0, 0, 0}},
   function(x) return x:pad{{1, 1}, {1, 1}} end},
  {{9, 9, 1, 2, 3, 4},
   function(x) return x:flatten():pad({{2, 0}}, {constant_values = 9}) end},
  {{{3, 4}, {1, 2}}, function(x) return x:reverse(0) end},
  {{{2, 2}, {3, 3}}, function(x) return x:clip_by_value(2, 3) end},
  {4.44019, function(x) return x:logsumexp() end},
  {{{1, 2}, {4, 6}}, function(x) return x:cumsum() end},
  {{{2, 0}, {4, 0}}, function(x)
    return x:cumsum(1, {exclusive = true, reverse = true})
  end},
  {{{1, 2}, {3, 4}}, function(x) return x:ensure_shape{-1, 2} end},
  {{{0, 1}, {0, 1}}, function(x) return td.mod(x - 1, 2) end},
  {{{3, -1}, {7, -1}}, function(x) return td.real(td.rfft(x)) end},
  {{{3, 1, -1}, {7, 3, -1}}, function(x) return td.real(td.rfft(x, 4)) end},
  {{{0, -2, 0}, {0, -4, 0}}, function(x)
    return td.imag(td.signal.rfft(x, {fft_length = {4}}))
  end},
  {{{1}, {3}}, function(x) return td.real(td.spectral.rfft(x, {1})) end},
  {{{10, -2}}, function(x) return td.real(td.rfft2d(x, {2, 2}))["0:1"] end},
  {{{10, 4, -2}}, function(x)
    return td.real(td.rfft2d(x, {2, 4}))["0:1"]
  end},
  {{{1, 2}, {3, 4}}, function(x) return td.irfft(td.rfft(x)) end},
  {{{1, 2}, {3, 4}}, function(x) return td.irfft2d(td.rfft2d(x)) end},
  {{{{1, 2}, {3, 4}}}, function(x)
    return td.irfft3d(td.rfft3d(td.expand_dims(x, 0)))
  end},
  {{{4, 3}, {2, 1}}, function(x) return td.fftshift(x) end},
  {{{2, 1}, {4, 3}}, function(x) return td.ifftshift(x, -1) end},
  {{{{1}, {2}}, {{3}, {4}}}, function(x) return td.signal.frame(x, 1, 1) end},
  {{{{1, 2}, {2, 9}}, {{3, 4}, {4, 9}}}, function(x)
    return td.signal.frame(x, 2, 1, {pad_end = true, pad_value = 9.0})
  end},
  {{1, 5, 4}, function(x) return td.signal.overlap_and_add(x, 1) end},
  {{1, 2, 0, 3, 4}, function(x) return td.signal.overlap_and_add(x, 3) end},
  {{{{3, -1}}, {{7, -1}}}, function(x)
    return td.real(td.signal.stft(x, 2, 2, {window_fn = false}))
  end},
  {{{1, 2}, {1, 2}}, function(x)
    local signal = td.stack({td.range(4), td.range(4)}):cast "float32" + x:sum()
    local window = td.signal.inverse_stft_window_fn(1, td.hamming_window)
    local z = td.signal.stft(signal, 2, 1, {window_fn = td.hamming_window})
    return td.signal.inverse_stft(z, 2, 1, {window_fn = window})[":, 1:3"]
           - x:sum()
  end},
  {{1.3132617, 3.3132617}, function(x)
    return td.nn.sparse_softmax_cross_entropy(x, {0, 0}) * td.tensor{1.0, 1.0}
           + td.tensor{0.0, 2.0}
  end},
}

function tests.on_values_and_nodes()
  for i, row in ipairs(rows) do
    gives(row[1], row[2](A()), "value, row " .. i)
    gives(row[1], row[2](td.constant(A())), "node, row " .. i)
  end
end

-- Of TensorFlow: types 1 to 4, as they are and orthonormal; sizes given.
function tests.cosine_transforms()
  local x = td.tensor{1.0, 2.0, 3.0, 5.0}
  local dct, idct = td.signal.dct, td.signal.idct
  gives({16, -5, 1, -2}, dct(x, {type = 1}))
  gives({22, -8.156404, 1.4142137, -1.2137082}, dct(x))
  gives({12.764994, -10.950703, 4.4654207, -2.2797117}, dct(x, {type = 3}))
  gives({10.571773, -10.557836, 6.6732373, -6.651136}, dct(x, {type = 4}))
  local ortho = {{}, {5.5, -2.883724, 0.5, -0.42911062},
                 {4.659553, -3.7252111, 1.7252114, -0.65955293},
                 {3.737686, -3.7327585, 2.3593457, -2.3515315}}
  for kind = 2, 4 do
    local o = {type = kind, norm = "ortho"}
    gives(ortho[kind], dct(x, o))
    gives({1, 2, 3, 5}, idct(dct(x, o), o))
    gives({8, 16, 24, 40}, idct(dct(x, {type = kind}), {type = kind}))
  end
  gives({6, -1.4142135}, dct(x, {n = 2}))
  gives({22, 3.7250028, -12.124355, 1.4142137, 5, -6.174493}, dct(x, {n = 6}))
  raises("type is 1 to 4", dct, x, {type = 5})
  raises("norm", dct, x, {type = 1, norm = "ortho"})
  raises("last axis", dct, td.zeros{2, 0})
end

function tests.misuse_of_signals()
  raises("float32 or float64", td.rfft, td.tensor({1, 2}, "int32"))
  raises("complex64 or complex128", td.irfft, td.tensor{1.0})
  raises("fft_length", td.rfft, {1.0}, {2, 2})
  for _, odd in ipairs{"x", true, 1.5, print, {"x"}, {{}}} do
    raises("fft_length must be whole numbers", td.rfft, {1.0}, odd)
    raises("fft_length must be whole numbers", td.irfft2d, {{1.0}}, {2, odd})
  end
  raises("negative", td.rfft, {1.0}, -1)
  raises("at least 2 axes", td.rfft2d, {1.0})
  raises("step", td.signal.frame, {1.0}, 1, 0)
  raises("a length", td.hann_window, -1)
end

function tests.integers_divide_truly()
  lu.assertEquals((N() / 2).dtype, "float64")
  lu.assertEquals((N():cast "int8" / td.tensor(2, "int8")).dtype, "float32")
  gives({{0.5, 1}, {1.5, 2}}, N() / 2)
  gives({{2, 1}, {0.66666667, 0.5}}, 2 / N())
  lu.assertEquals(N():mean().dtype, "float64")
  gives(2.5, N():mean())
  lu.assertEquals((N() // 2).dtype, "int32")
end

function tests.bits_and_logic()
  local a, b = td.tensor{12, 10}, td.tensor{10, 6}
  lu.assertEquals((a & b):table(), {8, 2})
  lu.assertEquals((a | b):table(), {14, 14})
  lu.assertEquals((a ~ b):table(), {6, 12})
  lu.assertEquals((~a):table(), {-13, -11})
  lu.assertEquals((a << 1):table(), {24, 20})
  lu.assertEquals((a >> 1):table(), {6, 5})
  local p, q = td.tensor{true, false}, td.tensor{true, true}
  lu.assertEquals((p & q):table(), {true, false})
  lu.assertEquals((p | q):table(), {true, true})
  lu.assertEquals((p ~ q):table(), {false, true})
  lu.assertEquals((~p):table(), {false, true})
end

function tests.comparisons()
  local a = td.tensor{1, 3}
  lu.assertEquals(a:less(2):table(), {true, false})
  lu.assertEquals(a:equal{1, 2}:table(), {true, false})
  raises("a:less(b)", function() return td.constant(1) < td.constant(2) end)
  raises("a:less_equal(b)", function() return a <= 2 end)
  lu.assertTrue(td.tensor(1) < td.tensor(2))
  local x = td.constant(1)
  lu.assertTrue(x == x.op.outputs[1])
  lu.assertFalse(x == td.constant(1))
end

-- expected, a creator called as a node and through td.value
local creators = {
  {{0, 0}, function(c) return c.zeros{2} end},
  {{{1, 1}}, function(c) return c.ones{1, 2, dtype = "float64"} end, "float64"},
  {{0, 0}, function(c) return c.zeros({2}, "int32") end, "int32"},
  {{7, 7}, function(c) return c.fill({2}, 7) end, "int32"},
  {{{1, 0}, {0, 1}}, function(c) return c.eye(2) end, "float32"},
  {{{1, 0, 0}, {0, 1, 0}}, function(c) return c.eye{2, 3, dtype = "int32"} end,
   "int32"},
  {{0, 1, 2}, function(c) return c.range(3) end, "int32"},
  {{1, 3}, function(c) return c.range(1, 5, 2) end, "int32"},
  {{0, 0.5, 1}, function(c) return c.linspace(0, 1, 3) end, "float32"},
  {{1, 2}, function(c) return c.constant({1, 2}, {dtype = "float64"}) end,
   "float64"},
  {{5, 5}, function(c) return c.constant(5, {shape = {2}}) end, "int32"},
}

function tests.creators()
  for i, row in ipairs(creators) do
    local node, value = row[2](td), row[2](td.value)
    lu.assertStrContains(tostring(node), "Tensor \"")
    lu.assertEquals(node.dtype, row[3] or "float32", "row " .. i)
    gives(row[1], node, "node, row " .. i)
    lu.assertEquals(value.dtype, row[3] or "float32", "row " .. i)
    gives(row[1], value, "value, row " .. i)
  end
end

function tests.random()
  local n = 10000
  local u = td.value.random_uniform{n, minval = -1, maxval = 3}
  lu.assertAlmostEquals(u:mean():item(), 1, 0.1)
  lu.assertTrue(u:min():item() >= -1 and u:max():item() < 3)
  local z = td.value.random_normal{n, mean = 2, stddev = 0.5}
  lu.assertAlmostEquals(z:mean():item(), 2, 0.05)
  local t = td.value.truncated_normal{n}
  lu.assertTrue(t:abs():max():item() <= 2)
  local k = td.value.random_uniform({n}, {maxval = 5, dtype = "int32"})
  lu.assertEquals({k:min():item(), k:max():item()}, {0, 4})
  raises("maxval", td.random_uniform, {2}, {dtype = "int32"})
end

function tests.seeds()
  local function draw()
    td.reset()
    td.seed(7)
    local a, b = td.random_uniform{3}, td.random_uniform{3}
    local r = td.session():run{a, b}
    return r[1]:table(), r[2]:table(), td.value.random_uniform{3}:table()
  end
  local a1, b1, v1 = draw()
  local a2, b2, v2 = draw()
  lu.assertEquals({a1, b1, v1}, {a2, b2, v2})
  lu.assertNotEquals(a1, b1)
  lu.assertNotEquals(td.value.random_uniform{3}:table(), v1)
end

-- Working memory follows the result, of which there is none here.
function tests.segments_of_empty_rows()
  local none = td.tensor{{}}
  lu.assertEquals(td.raw.SegmentMean(none, {2147483646}).shape, {2147483647, 0})
  lu.assertEquals(td.raw.SparseSegmentMeanWithNumSegments(none, {0}, {0},
    td.tensor(1 << 40, "int64")).shape, {1 << 40, 0})
end

function tests.misuse()
  raises("did you mean \"keep_dims\"", td.sum, A(), 0, {keep_dim = true})
  raises("did you mean \"minval\"", td.random_uniform, {2}, {minvl = 0})
  raises("did you mean \"matmul\"", function() return td.matmull end)
  raises("did you mean \"MatMul\"", function() return td.raw.MatMull end)
  raises("did you mean \"softmax\"", function() return td.nn.softmx end)
  raises("MatMul", td.matmul, A())
  raises("cast", td.concat, {td.constant(1.0), td.constant{1}}, 0)
  raises("a list", td.concat, A(), 0)
  raises("a list", td.add_n, 3)
  raises("at most 16", td.tile, td.placeholder("int32"),
         {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
  raises("number of parts", td.split, A(), 0.5)
  raises("number of parts", td.split, A(), td.placeholder("int32"))
  raises("number of parts", td.split, A(), td.tensor(2))
  raises("axis must be an integer", td.unstack, A(), {1})
  raises("no field or method", function() return A():concat() end)
  raises("a shape is a list", td.zeros, "2")
  raises("must be known", td.zeros, {-1, 2})
  raises("cast takes 2 arguments", td.cast, A(), "int32", nil, 1)
  raises("name must be a string, not 3", td.zeros, {2, name = 3})
end

function tests.raw()
  local values, indices = td.raw.TopKV2({1.0, 3.0, 2.0}, 2)
  lu.assertEquals(values:table(), {3.0, 2.0})
  lu.assertEquals(indices:table(), {1, 2})
  local parts = td.raw.Split(0, {1, 2, 3, 4}, {num_split = 2})
  lu.assertEquals(parts[2]:table(), {3, 4})
  gives({{1, 2}}, td.raw.Pack({{1, 2}}, {axis = 0}))
  raises("surplus", td.raw.Neg, td.tensor(1), 2)
end

function tests.names_are_options()
  lu.assertEquals(td.add(td.constant(1), 2, "three").name, "three:0")
  lu.assertEquals(td.zeros{2, name = "z"}.name, "z:0")
  lu.assertEquals(td.sum(td.constant{1}, 0, "total").name, "total:0")
  lu.assertEquals(td.constant({1}, "c").name, "c:0")
end

function tests.dim()
  local x = td.placeholder("float32", {-1, 4}, "x")
  lu.assertEquals(x:dim(1), 4)
  lu.assertEquals(x:dim(-1), 4)
  gives(3, td.session():run(x:dim(0), {[x] = td.value.zeros{3, 4}}))
  raises("axis 2", x.dim, x, 2)
end

function tests.losses()
  local x, z = td.tensor{{1.0, 2.0, 3.0}}, td.tensor{{0.0, 0.0, 1.0}}
  gives({0.40760595}, td.nn.softmax_cross_entropy(x, z))
  gives({0.40760595}, td.nn.softmax_cross_entropy{logits = x, labels = z})
  gives({0.40760595}, td.nn.sparse_softmax_cross_entropy(x, {2}))
  gives({{1.3132617, 2.126928, 0.04858735}},
        td.nn.sigmoid_cross_entropy_with_logits(x, z))
  local three = td.tensor({1.0, 2.0, 3.0, 3.0, 2.0, 1.0}, nil, {1, 2, 3})
  gives({{0.40760595, 2.4076059}},
        td.nn.sparse_softmax_cross_entropy(three, {{2, 2}}))
  raises("logits and labels", td.nn.softmax_cross_entropy, x)
end

-- Three lists of one length, and a tensor after them.
function tests.several_lists()
  local x = td.tensor{{{1.0, 5.0, 2.0}}, {{3.0, 1.0, 2.0}}}
  local o = {beam_width = 4, top_paths = 2}
  local function check(indices, values, shapes, scores)
    lu.assertEquals({#indices, #values, #shapes}, {2, 2, 2})
    gives({1, 0}, values[1])
    gives({1}, values[2])
    gives({{0, 0}}, indices[2])
    gives({1, 2}, shapes[1])
    lu.assertEquals(scores.shape, {1, 2})
  end
  check(td.ctc_beam_search_decoder(x, {2}, o))
  check(td.ctc_beam_search_decoder(td.constant(x), {2}, o))
end

return tests
