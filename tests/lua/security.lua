-- security.lua - arguments meant to do harm, by what they try.
--
-- A row is an op with inputs that it must refuse. Each is tried twice: on
-- values, where the shape function sees everything, and fed to a graph that
-- knows nothing of them, where the kernel is alone. Either must say which
-- number or shape is wrong. What every op does with empty, longer, shorter and
-- extreme inputs is tested with the rows of the ops; here is what an attacker
-- aims at.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

local INT32_MIN, INT32_MAX = -2147483648, 2147483647
local INT64_MIN, INT64_MAX = math.mininteger, math.maxinteger
local NAN, INF = 0 / 0, 1 / 0

local function int32(t) return td.tensor(t, "int32") end
local function int64(t) return td.tensor(t, "int64") end

-- Two rows of three, and what is in them.
local x = td.tensor{{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}
local row, one = td.tensor{{1.0, 2.0, 3.0}}, td.tensor{1.0}
local pixel, voxel = td.tensor{{{{1.0}}}}, td.tensor{{{{{1.0}}}}}

-- The op called with placeholders of unknown shape, and what to feed.
local function as_nodes(op, inputs, attrs)
  local feeds, nodes = {}, {}
  local function node(value)
    if type(value) == "table" then
      local list = {}
      for i, v in ipairs(value) do list[i] = node(v) end
      return list
    end
    local p = td.placeholder(value.dtype)
    feeds[p] = value
    return p
  end
  for i, value in ipairs(inputs) do nodes[i] = node(value) end
  nodes[#inputs + 1] = attrs
  return td.raw[op](table.unpack(nodes)), feeds
end

local function refused(what, parts, f, ...)
  local ok, e = pcall(f, ...)
  lu.assertFalse(ok, what .. ": accepted")
  lu.assertEquals(type(e), "table", what .. ": " .. tostring(e))
  lu.assertTrue(e.code == "invalid_argument" or e.code == "out_of_range"
    or e.code == "resource_exhausted" or e.code == "unimplemented",
    what .. ": " .. e.code)
  for _, part in ipairs(parts) do
    lu.assertStrContains(e.message, part, false, false, what)
  end
end

local function refuses(op, inputs, attrs, parts)
  local at_once = {table.unpack(inputs)}
  at_once[#inputs + 1] = attrs
  refused(op, parts, function()
    local y = td.raw[op](table.unpack(at_once))
    return (td.session():run(y)) -- what draws numbers is always a node
  end)
  td.reset()
  refused(op .. " in a graph", parts, function()
    local y, feeds = as_nodes(op, inputs, attrs)
    return (td.session():run(y, feeds))
  end)
  td.reset()
end

-- A row: op, inputs, attributes, parts of the message.
local function all_refuse(rows)
  for _, r in ipairs(rows) do
    refuses(r[1], r[2], r[3], {table.unpack(r, 4)})
  end
end

-- ---- indices --------------------------------------------------------------

-- By op, what it is called with where number `k` of `make` is out of [0, n).
local indexed = {
  Gather = {2, function(k) return {x, k{0, "k"}} end},
  GatherV2 = {3, function(k) return {x, k{"k", 0}, int32(1)} end},
  GatherNd = {3, function(k) return {x, k{{1, "k"}}} end},
  ScatterNd = {2, function(k) return {k{{0}, {"k"}}, x, k{2, 3}} end},
  ScatterNdNonAliasingAdd = {2, function(k) return {x, k{{"k"}}, row} end},
  TensorScatterUpdate = {2, function(k) return {x, k{{"k"}}, row} end},
  TensorScatterMin = {2, function(k) return {x, k{{"k"}}, row} end},
  SparseSegmentSum = {2, function(k) return {x, k{"k"}, int32{0}} end},
  SparseSegmentMeanGrad = {2, function(k)
    return {row, k{"k"}, int32{0}, int32(2)}
  end},
  SparseSegmentSumWithNumSegments = {2, function(k)
    return {x, int32{0}, k{"k"}, int32(2)}
  end},
  SparseSoftmaxCrossEntropyWithLogits = {3, function(k)
    return {x, k{0, "k"}}
  end},
  InvertPermutation = {2, function(k) return {k{0, "k"}} end},
}

local function indices_with(bad, dtype)
  local function put(t)
    local list = {}
    for i, v in ipairs(t) do
      list[i] = type(v) == "table" and put(v) or v == "k" and bad or v
    end
    return list
  end
  return function(t) return td.tensor(put(t), dtype) end
end

tests["an index out of range"] = function()
  local extremes = {int32 = {INT32_MIN, INT32_MAX},
                    int64 = {INT64_MIN, INT64_MAX, 1 << 32}}
  for op, r in pairs(indexed) do
    for dtype, some in pairs(extremes) do
      for _, bad in ipairs{-1, r[1], table.unpack(some)} do
        refuses(op, r[2](indices_with(bad, dtype)), nil, {tostring(bad)})
      end
    end
  end
end

tests["an index out of range where int32 is the only dtype"] = function()
  for _, bad in ipairs{-1, INT32_MIN, INT32_MAX} do
    all_refuse{
      {"DynamicPartition", {x, int32{0, bad}}, {num_partitions = 2},
       tostring(bad)},
      {"UnsortedSegmentSum", {x, int32{0, math.max(bad, 2)}, int32(2)}, nil,
       tostring(math.max(bad, 2))},
    }
    if bad < 0 then
      all_refuse{
        {"DynamicStitch", {{int32{bad}}, {row}}, nil, tostring(bad)},
        {"SegmentSum", {x, int32{bad, 0}}, nil, tostring(bad)},
      }
    end
  end
end

tests["a row of a variable out of range"] = function()
  for _, bad in ipairs{-1, 2, INT64_MIN, INT64_MAX, 1 << 32} do
    local w = td.variable(x, "w")
    local i = td.placeholder("int64")
    local sess = td.session()
    sess:init()
    local some = {w:scatter_add(i, row), w:scatter_update(i, row),
                  w:scatter_mul(i, row), td.gather(w, i)}
    for _, y in ipairs(some) do
      raises(("is %d"):format(bad), sess.run, sess, y, {[i] = {bad}})
    end
    gives({{1, 2, 3}, {4, 5, 6}}, sess:run(w))
    td.reset()
  end
end

tests["ids that are not sorted"] = function()
  for _, op in ipairs{"SegmentSum", "SegmentMean", "SegmentMax", "SegmentProd",
                      "SegmentMin"} do
    refuses(op, {x, int32{1, 0}}, nil, {"segment_ids"})
  end
  refuses("SparseSegmentMean", {x, int32{0, 1}, int32{1, 0}}, nil,
          {"segment_ids"})
end

tests["the same index twice"] = function()
  all_refuse{
    {"InvertPermutation", {int32{0, 0}}, nil, "once"},
    {"Transpose", {x, int32{1, 1}}, nil, "perm"},
    {"ReverseV2", {x, int32{1, -1}}, nil, "axis"},
  }
  gives({{0, 0, 0}, {5, 7, 9}}, td.scatter_nd({{1}, {1}}, x, {2, 3}))
  gives({{6, 9, 12}, {4, 5, 6}},
    td.tensor_scatter_nd_add(x, {{0}, {0}}, {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}))
end

tests["an array's element out of range"] = function()
  local a = td.tensor_array("float32", 2)
  local i = td.placeholder("int32", {})
  local sess = td.session()
  local rows = {a:read(i), a:write(i, 1.0):size(), a:gather(td.stack({i}, 0)),
    a:scatter(td.stack({i}, 0), td.constant{1.0}):size()}
  for _, y in ipairs(rows) do
    for _, bad in ipairs{-1, 2, INT32_MIN, INT32_MAX} do
      raises(tostring(bad), sess.run, sess, y, {[i] = bad})
    end
  end
end

-- ---- axes -----------------------------------------------------------------

tests["an axis out of range"] = function()
  for _, a in ipairs{-4, 3, INT32_MIN, INT32_MAX} do
    local list = {
      {"Sum", {x, int32{a}}}, {"ArgMax", {x, int32(a)}},
      {"ConcatV2", {{x, x}, int32(a)}}, {"Concat", {int32(a), {x, x}}},
      {"Split", {int32(a), x}, {num_split = 1}},
      {"SplitV", {x, int32{2}, int32(a)}, {num_split = 1}},
      {"Pack", {{x, x}}, {axis = a}}, {"Unpack", {x}, {num = 2, axis = a}},
      {"ExpandDims", {x, int32(a)}}, {"Squeeze", {x}, {squeeze_dims = {a}}},
      {"GatherV2", {x, int32{0}, int32(a)}},
      {"GatherV2", {x, int32{0}, int32(1)}, {batch_dims = a}},
      {"OneHot", {int32{0}, int32(2), td.tensor(1.0), td.tensor(0.0)},
       {axis = a}},
      {"Cumsum", {x, int32(a)}}, {"CumulativeLogsumexp", {x, int32(a)}},
      {"ReverseV2", {x, int32{a}}}, {"Roll", {x, int32{1}, int32{a}}},
      {"ReverseSequence", {x, int64{1, 1}}, {seq_dim = a}},
      {"ReverseSequence", {x, int64{1, 1}}, {seq_dim = 1, batch_dim = a}},
      {"UniqueV2", {x, int32{a}}}, {"Transpose", {x, int32{0, a}}},
      {"ReduceJoin", {td.tensor{{"a", "b"}}, int32{a}}},
    }
    for _, r in ipairs(list) do refuses(r[1], r[2], r[3], {}) end
  end
end

-- ---- sizes ----------------------------------------------------------------

tests["a size whose product overflows"] = function()
  for _, s in ipairs{{1 << 33, 1 << 33}, {INT32_MAX, INT32_MAX},
                     {INT64_MAX, 2}, {1 << 62, 4}, {INT64_MIN, 1}} do
    local shape, whole = int64(s), int64(s[1])
    all_refuse{
      {"Fill", {shape, td.tensor(1.0)}},
      {"BroadcastTo", {td.tensor(1.0), shape}},
      {"Reshape", {x, shape}},
      {"Tile", {x, shape}},
      {"ScatterNd", {int64{{0, 0}}, one, shape}},
      {"RandomUniform", {shape}, {dtype = "float32"}},
      {"StatelessRandomUniform", {shape, int32{1, 2}}},
      {"PadV2", {x, int64{s, s}, td.tensor(0.0)}},
      {"MirrorPad", {x, int64{s, s}}, {mode = "REFLECT"}},
      {"Slice", {x, int64{0, 0}, shape}},
      {"SpaceToBatchND", {td.tensor{{{1.0}}}, int32{1}, int64{s}}},
      {"UnsortedSegmentSum", {x, int32{0, 0}, int64(s[1] // 2 * 2)}},
      {"RandomGamma", {shape, one}},
      {"StridedSliceGrad", {shape, int64{0}, int64{1}, int64{1}, one}},
    }
    if s[1] ~= INT32_MAX then refuses("LinSpace", {td.tensor(0.0),
      td.tensor(1.0), whole}, nil, {}) end
  end
end

tests["more memory than there is"] = function()
  local much = int64{1 << 40, 3}
  all_refuse{
    {"Fill", {much, td.tensor(1.0)}, nil, "TiB", "memory limit"},
    {"Tile", {x, int64{1 << 40, 1}}, nil, "TiB", "memory limit"},
    {"SpaceToBatchND", {td.tensor{{{1.0}}}, int32{1}, int64{{1 << 40, 0}}}, nil,
     "TiB", "memory limit"},
    {"RandomUniform", {much}, {dtype = "float32"}, "TiB", "memory limit"},
    {"LinSpace", {td.tensor(0.0), td.tensor(1.0), int64(1 << 40)}, nil, "TiB"},
    {"Range", {int64(0), int64(1 << 40), int64(1)}, nil, "TiB"},
    {"DenseBincount", {int64{0}, int64(1 << 40), td.tensor({}, "float32")}, nil,
     "TiB"},
  }
end

tests["a size below 0"] = function()
  for _, n in ipairs{-1, INT32_MIN} do
    local k, says = int32(n), tostring(n)
    all_refuse{
      {"Fill", {int32{n}, td.tensor(1.0)}, nil, says},
      {"BroadcastTo", {td.tensor(1.0), int32{n}}, nil, says},
      {"Tile", {one, int32{n}}, nil, says},
      {"OneHot", {int32{0}, k, td.tensor(1.0), td.tensor(0.0)}, nil, says},
      {"UnsortedSegmentSum", {x, int32{0, 0}, k}, nil, says},
      {"LinSpace", {td.tensor(0.0), td.tensor(1.0), k}, nil, says},
      {"Bincount", {int32{0}, k, td.tensor({}, "float32")}, nil, says},
      {"TopKV2", {x, k}, nil, says},
      {"HistogramFixedWidth", {one, td.tensor{0.0, 1.0}, k}, nil, says},
      {"Multinomial", {x, k}, nil, says},
      {"SparseSegmentMeanGrad", {row, int32{0}, int32{0}, k}, nil, says},
      {"RandomUniform", {int32{n}}, {dtype = "float32"}, says},
      {"RandomPoissonV2", {int32{n}, one}, nil, says},
      {"PadV2", {one, int32{{n, 0}}, td.tensor(0.0)}, nil, says},
    }
  end
end

tests["a rank of 254"] = function()
  local ones = {}
  for i = 1, 254 do ones[i] = 1 end
  all_refuse{
    {"Reshape", {one, int32(ones)}, nil, "254"},
    {"Fill", {int32(ones), td.tensor(1.0)}, nil, "254"},
    {"BroadcastTo", {one, int32(ones)}, nil, "254"},
    {"RandomUniform", {int32(ones)}, {dtype = "float32"}, "254"},
  }
  raises("254", td.placeholder, "float32", ones)
  raises("254", td.raw.EnsureShape, one, {shape = ones})
  local deep = 1
  for _ = 1, 254 do deep = {deep} end
  raises("deep", td.tensor, deep)
  raises("deep", td.stack, {deep, deep}, 0)
end

tests["a range without end"] = function()
  local function floats(...)
    local list = table.pack(...)
    for i, v in ipairs(list) do list[i] = td.tensor(v, "float32") end
    return list
  end
  all_refuse{
    {"Range", {int32(0), int32(9), int32(0)}, nil, "delta must not be 0"},
    {"Range", {int32(0), int32(9), int32(-1)}, nil, "from start to limit"},
    {"Range", floats(0.0, INF, 1.0), nil, "inf", "2^63-1"},
    {"Range", floats(0.0, 1.0, NAN), nil, "nan"},
    {"Range", floats(0.0, 1.0, 1e-30), nil, "2^63-1"},
    {"Range", {int64(INT64_MIN), int64(INT64_MAX), int64(1)}, nil, "2^63-1"},
  }
end

tests["windows that do not follow each other"] = function()
  local image = td.tensor({{{{1.0}, {2.0}, {3.0}}}}, "float32")
  local two = td.tensor({{{{1.0}, {2.0}}}}, "float32")
  for _, bad in ipairs{{0, 2, 2}, {0, 9, 3}, {-1, 1, 3}, {0, 1, INT64_MAX}} do
    local at = int64(bad)
    refuses("FractionalMaxPoolGrad", {image, two, two, int64{0, 1}, at}, nil,
            {"col_pooling_sequence", "ascend"})
    refuses("FractionalAvgPoolGrad", {int64{1, 1, 3, 1}, two, int64{0, 1}, at},
            nil, {"col_pooling_sequence", "ascend"})
  end
end

tests["a sequence longer than its steps"] = function()
  local w, none = td.tensor{{0.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}},
    td.tensor{0.0}
  local b, long = td.tensor{0.0, 0.0, 0.0, 0.0}, td.tensor{{{1.0}}}
  local state = td.tensor{{0.0}}
  for _, n in ipairs{2, -1, INT64_MIN, INT64_MAX} do
    for _, version in ipairs{"", "V2"} do
      local given = {int64(n), long, state, state, w, none, none, none, b}
      refuses("BlockLSTM" .. version, given, nil, {"seq_len_max", tostring(n)})
      for _ = 1, 9 do given[#given + 1] = long end
      refuses("BlockLSTMGrad" .. version, given, {use_peephole = true},
              {"seq_len_max", tostring(n)})
    end
  end
  refuses("LSTMBlockCell", {td.tensor{{1.0}}, state, state, w, none, x[0], none,
                            b}, {use_peephole = true}, {"wcf", "{3}"})
end

-- ---- numbers that must be positive, lists that must fit --------------------

tests["a stride or block of 0"] = function()
  for _, k in ipairs{0, -1, INT32_MIN} do
    local says, pads = tostring(k), int32{{0, 0}, {0, 0}}
    if k == 0 then
      refuses("StridedSlice", {x, int32{0}, int32{2}, int32{k}}, nil, {says})
    end
    all_refuse{
      {"SpaceToBatchND", {td.tensor{{{1.0}}}, int32{k}, int32{{0, 0}}}, nil,
       says},
      {"BatchToSpaceND", {td.tensor{{{1.0}}}, int32{k}, int32{{0, 0}}}, nil,
       says},
      {"SpaceToDepth", {pixel}, {block_size = k}, says},
      {"DepthToSpace", {pixel}, {block_size = k}, says},
      {"SpaceToBatch", {pixel, pads}, {block_size = k}, says},
      {"BatchToSpace", {pixel, pads}, {block_size = k}, says},
      {"Split", {int32(0), x}, {num_split = k}, says},
      {"DynamicPartition", {x, int32{0, 0}}, {num_partitions = k}, says},
      {"StringToHashBucketFast", {td.tensor{"a"}}, {num_buckets = k}, says},
      {"Conv2D", {pixel, pixel}, {strides = {1, k, 1, 1}, padding = "SAME"},
       "strides", says},
      {"Conv2D", {pixel, pixel}, {strides = {1, 1, 1, 1}, padding = "SAME",
       dilations = {1, 1, k, 1}}, "dilations", says},
      {"Conv2DBackpropInput", {int32{1, 1, 1, 1}, pixel, pixel},
       {strides = {1, k, 1, 1}, padding = "SAME"}, "strides", says},
      {"Conv2DBackpropFilter", {pixel, int32{1, 1, 1, 1}, pixel},
       {strides = {1, k, 1, 1}, padding = "SAME"}, "strides", says},
      {"Conv3D", {voxel, voxel}, {strides = {1, k, 1, 1, 1}, padding = "SAME"},
       "strides", says},
      {"MaxPool", {pixel}, {ksize = {1, k, 1, 1}, strides = {1, 1, 1, 1},
       padding = "SAME"}, "ksize", says},
      {"MaxPool", {pixel}, {ksize = {1, 1, 1, 1}, strides = {1, 1, k, 1},
       padding = "SAME"}, "strides", says},
      {"AvgPool", {pixel}, {ksize = {1, k, 1, 1}, strides = {1, 1, 1, 1},
       padding = "SAME"}, "ksize", says},
      {"AvgPoolGrad", {int32{1, 1, 1, 1}, pixel}, {ksize = {1, k, 1, 1},
       strides = {1, 1, 1, 1}, padding = "SAME"}, "ksize", says},
      {"MaxPoolGrad", {pixel, pixel, pixel}, {ksize = {1, 1, 1, 1},
       strides = {1, k, 1, 1}, padding = "SAME"}, "strides", says},
    }
  end
end

tests["a list of the wrong length"] = function()
  for _, list in ipairs{{}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}} do
    local says = tostring(#list)
    all_refuse{
      {"Conv2D", {pixel, pixel}, {strides = list, padding = "SAME"}, "strides",
       says},
      {"Conv2D", {pixel, pixel}, {strides = {1, 1, 1, 1}, dilations = list,
       padding = "SAME"}, "dilations", says},
      {"Conv2D", {pixel, pixel}, {strides = {1, 1, 1, 1}, padding = "EXPLICIT",
       explicit_paddings = list}, "explicit_paddings", says},
      {"Conv2DBackpropInput", {int32{1, 1, 1, 1}, pixel, pixel},
       {strides = list, padding = "SAME"}, "strides", says},
      {"Conv2DBackpropFilter", {pixel, int32{1, 1, 1, 1}, pixel},
       {strides = list, padding = "SAME"}, "strides", says},
      {"Conv3D", {voxel, voxel}, {strides = list, padding = "SAME"}, "strides"},
      {"MaxPool", {pixel}, {ksize = list, strides = {1, 1, 1, 1},
       padding = "SAME"}, "ksize"},
      {"AvgPool", {pixel}, {ksize = {1, 1, 1, 1}, strides = list,
       padding = "SAME"}, "strides"},
    }
  end
  refuses("ShapeN", {{}}, nil, {"N", "at least 1"})
  refuses("DynamicStitch", {{int32{0}}, {row, row}}, nil, {"data"})
end

tests["a number that is not one"] = function()
  local zero, wide = td.tensor(0.0), td.tensor(1.0)
  for _, bad in ipairs{NAN, -INF, -1.0} do
    local v = td.tensor({bad}, "float32")
    all_refuse{
      {"RandomPoissonV2", {int32{2}, v}, nil, "rate"},
      {"ParameterizedTruncatedNormal", {int32{2}, zero, v[0], zero, wide}, nil,
       "stdevs"},
      {"ParameterizedTruncatedNormal", {int32{2}, zero, wide, v[0], v[0]}, nil,
       "minvals"},
      {"MatrixSolveLs", {x, td.tensor{{1.0}, {2.0}},
       td.tensor(bad, "float64")}, nil, "l2_regularizer"},
    }
    raises("dropout", td.nn.dropout, x, bad)
    raises("timeout", td.session().run, td.session(), td.constant(1), nil,
           {timeout = bad})
    local running = td.session():start(td.constant(1))
    raises("wait takes a number of seconds", running.wait, running, bad)
    running:wait(10)
  end
  refuses("Bucketize", {one}, {boundaries = {NAN, 0.5}}, {"sorted"})
  refuses("HistogramFixedWidth", {one, td.tensor({0.0, NAN}, "float32"),
                                  int32(2)}, nil, {"value_range"})
end

tests["a step's numbers that do not fit"] = function()
  local sess = td.session()
  local function less(i) return i:less(3) end
  local function next_one(i) return i + 1 end
  for _, bad in ipairs{1 << 32, (1 << 32) + 1, -1, 1.5, "x"} do
    raises("threads", td.session, {threads = bad})
    raises("cpu_devices", td.session, {cpu_devices = bad})
    raises("thread", sess.loop, sess, td.no_op(), {threads = bad, steps = 1})
    if math.type(bad) ~= "integer" or bad < 0 then
      raises("steps", sess.loop, sess, td.no_op(), {steps = bad})
      raises("parallel_iterations", td.while_loop, less, next_one, {0},
             {parallel_iterations = bad})
    end
  end
end

tests["an estimate of more than there can be"] = function()
  local long, wide = 1 << 40, 1 << 20
  local a = td.placeholder("float32", {long, wide})
  local b = td.placeholder("float32", {wide, long})
  local y = a:matmul(b)
  local e = td.get_default_graph():estimate(nil, {fetches = y})
  lu.assertEquals(e.flops, 2.0 * long * wide * long)
  lu.assertEquals({e.feeds, e.live}, {8.0 * long * wide, 4.0 * long * long})
  lu.assertStrContains(tostring(e), "flop")
  local again = td.get_default_graph():estimate(nil, {fetches = y,
    shapes = {[a] = {2, wide}, [b] = {wide, 3}}})
  lu.assertEquals(math.type(again.flops), "integer")
  lu.assertEquals(again.flops, 2 * 2 * 3 * wide)
end

-- ---- division -------------------------------------------------------------

tests["a divisor of 0, and the lowest number by -1"] = function()
  local lowest = {int8 = -128, int16 = -32768, int32 = INT32_MIN,
                  int64 = INT64_MIN}
  local ops = {Div = 1, FloorDiv = 1, TruncateDiv = 1, FloorMod = 0,
               TruncateMod = 0, Mod = 0}
  for op, quotient in pairs(ops) do
    for dtype, low in pairs(lowest) do
      local few = dtype == "int8" or dtype == "int16"
      local lacks = few and quotient == 0 -- TensorFlow has no such remainder
      if not lacks then
        local a = td.tensor({low}, dtype)
        refuses(op, {a, td.tensor({0}, dtype)}, nil, {"division by zero"})
        lu.assertEquals(td.raw[op](a, td.tensor({-1}, dtype)):table(),
                        {low * quotient}, op .. " of " .. dtype)
      end
    end
  end
  refuses("Pow", {int32{2}, int32{-1}}, nil, {"negative power"})
  refuses("RandomUniformInt", {int32{1}, int32(3), int32(3)}, nil, {"minval"})
end

-- ---- text -----------------------------------------------------------------

tests["a zero byte in a name"] = function()
  local bad = "a\0b"
  td.constant(1, "a")
  local sess, g = td.session(), td.get_default_graph()
  local calls = {
    function() return (td.constant(1, bad)) end,
    function() return (td.constant(1, {name = bad})) end,
    function() return (td.name_scope(bad, td.no_op)) end,
    function() return (td.device("/cpu:0\0", td.no_op)) end,
    function() return (td.container(bad, td.no_op)) end,
    function() return (sess:run(bad)) end,
    function() return (sess:run("a:0", {[bad] = 1})) end,
    function() return g[bad] end,
    function() return g:op(bad) end,
    function() return (td.variable(1.0, bad)) end,
    function() return (td.load_npy(bad)) end,
    function() return (td.import_graph(bad)) end,
    function() return (td.placeholder "int32\0") end,
    function() return sess:reset{bad} end,
  }
  for i, f in ipairs(calls) do
    local ok, e = pcall(f)
    lu.assertFalse(ok, "call " .. i)
    lu.assertEquals(type(e), "table", "call " .. i .. ": " .. tostring(e))
  end
end

tests["text that is no text"] = function()
  local all = td.tensor{"", "\0", "a\0b", "\xff\xfe", "%s%n%d", "\xc3"}
  local function lengths(unit)
    return td.raw.StringLength(all, {unit = unit}):table()
  end
  lu.assertEquals(lengths "BYTE", {0, 1, 3, 2, 6, 1})
  lu.assertEquals(#lengths "UTF8_CHAR", 6)
  gives({3, 0}, td.tensor{#td.raw.StringJoin({td.tensor("a\0"),
    td.tensor("b")}):item(), #td.raw.StringStrip(td.tensor("")):item()})
  for _, s in ipairs{"", "\0", "1\0", "%s%n", "\xff", "0x"} do
    refuses("StringToNumber", {td.tensor{s}}, nil, {"string 0"})
  end
  for _, s in ipairs{"\0", "a\0b", "%s%n"} do
    refuses("DecodeBase64", {td.tensor{s}}, nil, {"base64"})
    refuses("AsString", {one}, {fill = s}, {"fill"})
  end
  refuses("DecodeRaw", {td.tensor{"abc"}}, {out_type = "int32"}, {"3 bytes"})
  refuses("Substr", {td.tensor{"abc"}, int32{INT32_MIN}, int32{1}}, nil,
          {"pos -2147483648"})
  refuses("AsString", {one}, {precision = INT32_MAX}, {"4096"})
  raises("%s%n", td.session().run, td.session(),
         td.assert(td.constant(false), {"%s%n"}))
  raises("no node \"%s%n\"", td.session().run, td.session(), "%s%n")
end

-- ---- pictures -------------------------------------------------------------

local picture = td.cast(td.reshape(td.value.range(24), {2, 4, 3}), "uint8")

-- Every beginning of a file and every byte of it changed: a picture or an
-- error.
local function spoil(op, file)
  for n = 0, #file - 1 do
    refused(op .. " of a beginning", {}, td.raw[op],
            td.tensor(file:sub(1, n)))
  end
  for n = 1, #file do
    for _, byte in ipairs{0, 255, file:byte(n) ~ 1, file:byte(n) ~ 128} do
      local ok, e = pcall(td.raw[op], td.tensor(file:sub(1, n - 1)
        .. string.char(byte) .. file:sub(n + 1)))
      lu.assertTrue(ok or e.code == "invalid_argument", op .. ": "
        .. tostring(e))
    end
  end
end

tests["a picture cut short, or with a byte changed"] = function()
  spoil("DecodePng", td.raw.EncodePng(picture):item())
  spoil("DecodeJpeg", td.raw.EncodeJpeg(picture):item())
end

tests["a sound cut short, or with a byte changed"] = function()
  spoil("DecodeWav", td.raw.EncodeWav({{0.5, -0.5}, {0.25, 1.0}}, 8000):item())
end

tests["frequencies that a sound cannot have"] = function()
  local spectrum = td.value.ones{1, 1, 129}
  all_refuse{ -- TensorFlow gives zeros for the first
    {"Mfcc", {spectrum, int32(16000)}, {upper_frequency_limit = 9000}, "9000"},
    {"Mfcc", {spectrum, int32(16000)}, {upper_frequency_limit = 1 / 0}, "inf"},
    {"Mfcc", {spectrum, int32(16000)}, {lower_frequency_limit = 0 / 0},
     "frequency_limit"},
    {"Mfcc", {spectrum, int32(16000)}, {filterbank_channel_count = INT32_MAX},
     "filterbank_channel_count"},
    {"AudioSpectrogram", {td.value.ones{4, 1}},
     {window_size = INT32_MAX, stride = 1}, "window_size"},
    {"AudioSpectrogram", {td.value.ones{4, 1}},
     {window_size = -1, stride = 1}, "window_size"},
  }
  lu.assertEquals(td.raw.AudioSpectrogram(td.value.ones{4, 1},
    {window_size = 1 << 20, stride = 1}).shape, {1, 0, (1 << 19) + 1})
end

-- A GIF picture with frames of one pixel, and what else is said of each.
local function gif(...)
  local file = {string.pack("<c6I2I2BBBc6", "GIF89a", 1, 1, 0x80, 0, 0,
                            "\1\2\3\4\5\6")}
  for _, frame in ipairs{...} do
    file[#file + 1] = string.pack("<c1I2I2I2I2B", ",", table.unpack(frame))
      .. "\2\2D\1\0"
  end
  return table.concat(file) .. ";"
end

tests["frames of a picture that claim what cannot be"] = function()
  local whole = {0, 0, 1, 1, 0}
  lu.assertEquals(td.raw.DecodeGif(td.tensor(gif(whole, whole))).shape,
                  {2, 1, 1, 3})
  for _, frame in ipairs{{0, 0, 65535, 65535, 0}, {0, 0, 0, 1, 0},
                         {0, 0, 65535, 1, 0}, {0, 0, 1, 1, 0x87}} do
    refused("gif", {"GIF picture"}, td.raw.DecodeGif, td.tensor(gif(frame)))
    lu.assertEquals(td.raw.DecodeGif(td.tensor(gif(whole, frame))).shape,
                    {1, 1, 1, 3}) -- and what was whole before is there
  end
  local far = td.raw.DecodeGif(td.tensor(gif({65535, 65535, 1, 1, 0}))) -- off
  lu.assertEquals(far:table(), {{{{0, 0, 0}}}})
  local file = gif(whole, whole)
  for n = 1, #file do
    for _, byte in ipairs{0, 255, file:byte(n) ~ 1, file:byte(n) ~ 128} do
      local ok, e = pcall(td.raw.DecodeGif, td.tensor(file:sub(1, n - 1)
        .. string.char(byte) .. file:sub(n + 1)))
      lu.assertTrue(ok or e.code == "invalid_argument", tostring(e))
    end
  end
end

local function crc(s)
  local c = 0xffffffff
  for i = 1, #s do
    c = c ~ s:byte(i)
    for _ = 1, 8 do c = c & 1 == 1 and c >> 1 ~ 0xedb88320 or c >> 1 end
  end
  return ~c & 0xffffffff
end

tests["a picture that says another size than it has"] = function()
  local png = td.raw.EncodePng(picture):item()
  local function sized(width, height, depth, colour)
    local head = "IHDR" .. string.pack(">I4I4BB", width, height, depth or 8,
      colour or 2) .. png:sub(27, 29)
    return png:sub(1, 12) .. head .. string.pack(">I4", crc(head))
      .. png:sub(34)
  end
  lu.assertEquals(td.raw.DecodePng(sized(4, 2)).shape, {2, 4, 3})
  for _, s in ipairs{{0, 2}, {4, 0}, {1 << 31, 1}, {INT32_MAX, INT32_MAX},
                     {40000, 40000}, {1000000, 1000}, {4, 2, 16}, {4, 2, 8, 3},
                     {4, 2, 3}, {5, 2}, {4, 3}} do
    refused("png", {"PNG picture"}, td.raw.DecodePng,
            td.tensor(sized(table.unpack(s))))
  end
  local function bmp(width, height, bits, at)
    return "BM" .. string.pack("<I4I4I4I4i4i4I2I2I4I4I4I4I4I4", 66, 0, at or 54,
      40, width, height, 1, bits, 0, 0, 0, 0, 0, 0) .. ("\1"):rep(12)
  end
  lu.assertEquals(td.raw.DecodeBmp(bmp(1, 1, 24)).shape, {1, 1, 3})
  for _, b in ipairs{{2, 2, 24}, {INT32_MAX, INT32_MAX, 24}, {-1, 1, 24},
                     {0, 0, 24}, {1, INT32_MIN, 24}, {1, 1, 23},
                     {1, 1, 24, 1 << 31}, {65536, 65536, 32}} do
    refused("bmp", {"BMP picture"}, td.raw.DecodeBmp,
            td.tensor(bmp(table.unpack(b))))
  end
end

tests["a picture without pixels, or of no kind"] = function()
  for _, s in ipairs{{0, 0, 3}, {0, 4, 3}, {4, 0, 3}} do
    all_refuse{{"EncodePng", {td.tensor({}, "uint8", s)}, nil, tostring(s[1])},
               {"EncodeJpeg", {td.tensor({}, "uint8", s)}, nil,
                tostring(s[1])}}
  end
  all_refuse{
    {"EncodePng", {td.cast(row, "uint8")}, nil, "{1, 3}"},
    {"DecodePng", {td.tensor ""}, nil, "0 bytes"},
    {"DecodeJpeg", {td.tensor "\0\0\0"}, nil, "3 bytes"},
    {"DecodeBmp", {td.raw.EncodePng(picture)}, nil, "PNG"},
    {"DecodePng", {td.raw.EncodePng(picture)}, {channels = 2}, "channels"},
  }
end

-- ---- resources, variables -------------------------------------------------

tests["a handle of another kind, or of nothing"] = function()
  local stack = td.raw.StackV2(int32(3), {elem_type = "float32"})
  local array = td.tensor_array("float32", 2)
  local w = td.variable(one, "w")
  local sess = td.session()
  sess:init()
  local calls = {
    td.raw.ReadVariableOp(stack, {dtype = "float32"}),
    td.raw.ReadVariableOp(array.handle, {dtype = "float32"}),
    td.raw.StackPopV2(w.handle, {elem_type = "float32"}),
    td.raw.TensorArrayReadV3(w.handle, 0, 0.0, {dtype = "float32"}),
    td.raw.ReadVariableOp(td.raw.VarHandleOp{dtype = "float32", shape = {},
      container = "another", shared_name = "w"}, {dtype = "float32"}),
  }
  for i, y in ipairs(calls) do
    lu.assertFalse((pcall(sess.run, sess, y)), "call " .. i)
  end
  raises("is not initialised", sess.run, sess, calls[5])
  raises("cannot be read as int32", td.raw.ReadVariableOp, w.handle,
         {dtype = "int32"})
  local handle = sess:run(w.handle, nil, {as_values = true})
  sess:run(td.raw.DestroyResourceOp(w.handle))
  raises("is not initialised", sess.run, sess, w)
  raises("variable w is gone", sess.run, sess, w, {[w.handle] = handle})
  raises("variable w is gone", sess.run, sess, w:assign{2.0},
         {[w.handle] = handle})
  lu.assertFalse(sess:run(td.raw.VarIsInitializedOp(w.handle),
                          {[w.handle] = handle}))
end

tests["a variable of another shape than its readers knew"] = function()
  local w = td.raw.VarHandleOp{dtype = "float32", shape = false,
                               shared_name = "w"}
  local value = td.placeholder("float32")
  local assign = td.raw.AssignVariableOp(w, value)
  local read = td.raw.ReadVariableOp(w, {dtype = "float32"})
  local i = td.placeholder("int32")
  local row_of = td.raw.ResourceGather(w, i, {dtype = "float32"})
  local sess = td.session()
  raises("is not initialised", sess.run, sess, read)
  raises("is not initialised", sess.run, sess, row_of, {[i] = {0}})
  sess:run(assign, {[value] = {{1.0, 2.0}, {3.0, 4.0}}})
  gives({{3, 4}}, sess:run(row_of, {[i] = {1}}))
  sess:run(assign, {[value] = {{1.0}}})
  raises("is 1", sess.run, sess, row_of, {[i] = {1}})
  sess:run(assign, {[value] = 1.0})
  raises("rank", sess.run, sess, row_of, {[i] = {0}})
end

tests["a variable reshaped while its rows are read and written"] = function()
  local w = td.raw.VarHandleOp{dtype = "float32", shape = false,
                               shared_name = "w"}
  local sess = td.session{threads = 2}
  local function assign(n)
    return td.raw.AssignVariableOp(w, td.zeros{n, 2})
  end
  local read = td.raw.ResourceGather(w, {0, 1, 2}, {dtype = "float32"})
  local write = td.raw.ResourceScatterAdd(w, {0, 1, 2}, td.ones{3, 2})
  local large, small = assign(300), assign(3)
  sess:run(large)
  local loops = {}
  for i, op in ipairs{large, small, read, write} do
    loops[i] = sess:loop(op, {threads = 1, steps = 100})
  end
  for _, h in ipairs(loops) do h:wait(30) end
  lu.assertEquals(sess:run(read).shape, {3, 2})
end

tests["a long sequence of nothing"] = function()
  local n = 1 << 30
  local none, peep = td.zeros{0, 2}, td.ones{2}
  local start = os.clock()
  local out = table.pack(td.raw.BlockLSTM(td.constant(n, "int64"),
    td.fill({n, 0, 3}, 1.0), none, none, td.ones{5, 8}, peep, peep, peep,
    td.ones{8}))
  lu.assertEquals(td.session():run(out[7]).shape, {n, 0, 2})
  lu.assertTrue(os.clock() - start < 1)
end

tests["one tensor as several inputs, and as the variable's own"] = function()
  gives({{2, 4, 6}, {8, 10, 12}}, td.raw.AddV2(x, x))
  gives({{1, 2, 3}, {4, 5, 6}}, td.raw.TensorScatterUpdate(x, {{0}, {1}}, x))
  local w = td.variable(x, "w")
  local sess = td.session()
  sess:init()
  local read = w:read()
  gives({{2, 4, 6}, {8, 10, 12}}, sess:run(w:assign_add(read)))
  gives({{4, 8, 12}, {16, 20, 24}}, sess:run(w:scatter_add({0, 1}, w:read())))
  gives({{0, 0, 0}, {0, 0, 0}}, sess:run(w:assign_sub(w:read())))
  gives({{0, 0, 0}, {0, 0, 0}}, sess:run(w:assign(w:read())))
  local p = td.placeholder("float32", {2, 3})
  local fed = sess:run({p + p, p, p:relu()}, {[p] = x})
  gives({{1, 2, 3}, {4, 5, 6}}, fed[2])
  gives({{1, 2, 3}, {4, 5, 6}}, x) -- what was fed is untouched
end

return tests
