-- opfuzz_args.lua - random arguments for any op, from its signature.
--
-- An argument is a dtype, a shape and, where chance would seldom be right, the
-- integers that fit the rest of the call: `hints` has those by argument name,
-- or by "Op.argument". Everything else is bytes out of a pool. A hint is left
-- out now and then, so that each is wrong as well.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local random = math.random
local args = {}

local sizes = {0, 1, 1, 2, 2, 3, 4, 5, 7, 17}
local ranks = {0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 8}
local vast = {{0, 1 << 40}, {1 << 62, 0, 1 << 62}, {0, 1 << 31, 3},
  {1 << 33, 0}, {1 << 33, 0, 0}}
local any_dtype = {"float32", "float32", "int32", "int32", "int64", "float64",
  "bool", "string", "variant",
  "uint8", "int8", "int16", "float16", "bfloat16", "complex64", "complex128",
  "uint16", "uint32",
  "uint64", "qint8", "quint8", "qint16", "quint16", "qint32"}
local width = {float32 = 4, int32 = 4, int64 = 8, float64 = 8, bool = 1,
  uint8 = 1, int8 = 1,
  int16 = 2, float16 = 2, bfloat16 = 2, complex64 = 8, complex128 = 16,
  uint16 = 2, uint32 = 4,
  uint64 = 8, qint8 = 1, quint8 = 1, qint16 = 2, quint16 = 2, qint32 = 4}
local half = {float16 = true, bfloat16 = true}

local function pick(list) return list[random(#list)] end
local function chance(percent) return random(100) <= percent end
args.pick, args.chance = pick, chance

-- Of what a hint made out of a vast empty shape, only a scalar is left.
local MOST = 200000

local function count(s)
  local n = 1.0
  for _, d in ipairs(s) do n = n * d end
  return n <= MOST and math.tointeger(n) or MOST + 1
end

-- ---- values ----------------------------------------------------------------

local small = {-2, -1, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 9}
local extreme = {-2147483648, -9223372036854775807 - 1, 2147483647,
  9223372036854775807, -100, 255,
  65536, -1, 0, 1, 1 << 40}
local finite = {0.0, 1.0, -1.5, 0.5, 3.25, -0.25, 2.0, 7.0, -1e-3}
local wild = {0.0, -0.0, 1e30, -1e-30, 1 / 0, -1 / 0, 0 / 0, 1e-40, 65504.0,
  0.1}
local words = {"", "a", "tide", "\0x", "\195\188", ("long "):rep(50)}
local POOL = 1 << 15 -- bytes of a pool

local function bytes_of(dtype, usual)
  local w, parts = width[dtype], {}
  local integers, floats = usual and small or extreme, usual and finite or wild
  local code = ({float32 = "<f", float64 = "<d", complex64 = "<f",
    complex128 = "<d"})[dtype]
  local bits = dtype:find("complex") and w // 2 or w
  for i = 1, POOL // bits do
    if dtype == "bool" then
      parts[i] = string.char(random(0, 1))
    elseif code then
      parts[i] = string.pack(code, pick(floats))
    elseif half[dtype] then
      parts[i] = string.pack("<I2", usual
        and pick{0, 0x3c00, 0xbc00, 0x3f80, 0x4000}
        or random(0, 65535))
    else
      parts[i] = string.pack("<I" .. w,
        pick(integers) & (w < 8 and (1 << 8 * w) - 1 or -1))
    end
  end
  return table.concat(parts)
end

local pools = {}

-- Filled before the calls, so that no call's value depends on another's.
function args.fill_pools()
  for _, dtype in ipairs(any_dtype) do
    if width[dtype] then
      pools[dtype] = {bytes_of(dtype, true), bytes_of(dtype, true),
        bytes_of(dtype, false)}
    end
  end
end

local function texts(shape)
  local flat = {}
  for i = 1, count(shape) do flat[i] = pick(words) end
  return core.tensor(flat, "string", shape)
end

local function from_integers(list, dtype, shape)
  local w = width[dtype]
  if not dtype:find("int") then return core.tensor(list, dtype, shape) end
  local mask, parts = w < 8 and (1 << 8 * w) - 1 or -1, {}
  for i, v in ipairs(list) do parts[i] = string.pack("<I" .. w, v & mask) end
  return core.from_bytes(table.concat(parts), dtype, shape)
end

--- A value of that dtype and shape; `list` are its integers, if they matter.
function args.value(dtype, shape, list)
  if count(shape) > MOST then shape, list = {}, nil end
  if dtype == "resource" or dtype == "variant" then return args.handle end
  if list and type(list[1]) == "string" then
    return core.tensor(list, "string", shape)
  end
  if dtype == "string" then return texts(count(shape) > 200 and {} or shape) end
  if list and dtype ~= "bool" then return from_integers(list, dtype, shape) end
  local pool, want = pick(pools[dtype]), count(shape) * width[dtype]
  if want > #pool // 2 then pool = pool:rep(2 * want // #pool + 1) end
  local at = random(0, (#pool - want) // width[dtype]) * width[dtype]
  return core.from_bytes(pool:sub(at + 1, at + want), dtype, shape)
end

-- ---- shapes ----------------------------------------------------------------

--- Any shape, of few elements mostly.
function args.shape(low, high)
  if chance(1) then return {random(200, 400), random(50, 100)} end
  if chance(1) then return pick(vast) end
  local s, n = {}, 1
  local rank = pick(ranks)
  if low then rank = math.max(low, math.min(high, rank)) end
  for i = 1, rank do
    s[i] = pick(sizes)
    if n * s[i] > 3000 then s[i] = 1 end
    n = n * s[i]
  end
  return s
end

-- Like s, but some sizes are 1 or the first are gone.
local function narrowed(s)
  local t = {}
  for i = random(2) == 1 and 1 or random(#s + 1), #s do
    t[#t + 1] = random(2) == 1 and 1 or s[i]
  end
  return t
end

local function other_shape(c)
  local r = random(100)
  if r <= 50 then return c.like end
  if r <= 72 then return {} end
  if r <= 82 then return {random(0, 3)} end
  if r <= 92 then return narrowed(c.like) end
  return args.shape()
end

--- A declared shape that s has: sizes unknown, the rank too, seldom another.
function args.declared(s)
  if chance(50) then return false end
  if chance(8) then return args.shape() end
  local t = {}
  for i, d in ipairs(s) do t[i] = chance(40) and -1 or d end
  return t
end

-- ---- hints: (call, index in its list) -> shape, integers -------------------

local function tail(s, from)
  local t = {}
  for i = from, #s do t[#t + 1] = s[i] end
  return t
end

local function joined(a, b)
  local t = table.move(a, 1, #a, 1, {})
  return table.move(b, 1, #b, #t + 1, t)
end

local function vector(list) return {#list}, list end

local function many(n, low, high)
  local list = {}
  high = math.max(low, high)
  for i = 1, math.min(n, 10000) do list[i] = random(low, high) end
  return list
end

local function scalar(low, high)
  return function() return {}, {random(low, high)} end
end

local function axis(c) return {}, {c.axis} end
local function dims(c) return vector(c.like) end
local function a_scalar() return {} end
local function new_shape(c)
  return vector(chance(50) and c.like or many(random(0, 4), 0, 6))
end

local function order(n)
  local list = {}
  for i = 1, n do table.insert(list, random(#list + 1), i - 1) end
  return list
end

local function axes(c)
  local list = order(#c.like)
  for i = #list, 1, -1 do
    if chance(50) then
      table.remove(list, i)
    elseif chance(30) then
      list[i] = list[i] - #c.like
    end
  end
  return vector(list)
end

local function per_dim(f)
  return function(c)
    local list = {}
    for i, d in ipairs(c.like) do list[i] = f(c, d, i) end
    return vector(list)
  end
end

local function rows(c) return joined(c.index, tail(c.like, 2)) end
local function row_numbers(c)
  return c.index, many(count(c.index), 0, (c.like[1] or 1) - 1)
end
local function sorted_rows(c)
  local shape, list = row_numbers(c)
  table.sort(list)
  return shape, list
end
local function nd_rows(c) return joined(c.index, tail(c.like, c.depth + 1)) end
local function nd_numbers(c)
  local least = math.huge
  for i = 1, c.depth do least = math.min(least, c.like[i]) end
  local s = joined(c.index, {c.depth})
  return s, many(count(s), 0, least == math.huge and 0 or least - 1)
end
local function class_numbers(c)
  return {c.like[1]}, many(c.like[1], 0, c.like[2] - 1)
end
local function segments(c)
  if c.op:find("^SparseSegment") then return sorted_rows(c) end
  local s = {table.unpack(c.like, 1, math.min(#c.like, 1))}
  return s, many(count(s), 0, (c.options.num_partitions or 4) - 1)
end

local function parts(c)
  local left, list, n = c.like[c.at] or 0, {},
    math.min(c.options.num_split or 1, 20)
  for i = 1, n do
    list[i] = i == n and left or random(0, left)
    left = left - list[i]
  end
  return vector(list)
end

local function along_axis(c)
  local s = table.move(c.like, 1, #c.like, 1, {})
  if s[c.at] then s[c.at] = random(0, 4) end
  return s
end

local function matrix(first, second)
  return function(c)
    local s = tail(c.like, 1)
    local swapped = c.options[first] or c.options[second]
    if swapped then s[#s], s[#s - 1] = s[#s - 1], s[#s] end
    return s
  end
end
local function right_matrix(first, second)
  return function(c)
    local s = tail(c.like, 1)
    s[#s - 1], s[#s] = c.like[#c.like], c.columns
    local swapped = c.options[first] or c.options[second]
    if swapped then s[#s], s[#s - 1] = s[#s - 1], s[#s] end
    return s
  end
end

local function begin(c)
  local within = per_dim(function(_, d) return random(0, math.min(d, 9)) end)
  local shape, list = within(c)
  c.begin = list
  return shape, list
end

local function diagonal(c)
  local s = {table.unpack(c.like, 1, #c.like - 1)}
  s[#s] = math.min(s[#s], c.like[#c.like])
  return s
end
local function one_diagonal() return {}, {chance(70) and 0 or random(-3, 3)} end

-- Squares of pixels: sizes that a block of any size divides.
local function blocks(c)
  local b = c.options.block_size
  b = b and b >= 1 and b < 4 and b or 2
  return {b * b, b * random(1, 2), b * random(1, 2), b * b}
end
local function no_margin() return {2, 2}, {0, 0, 0, 0} end

-- What a window of c.options makes of c.like.
local function pooled(c)
  local s = {}
  for i, n in ipairs(c.like) do
    local k, step = c.options.ksize[i], c.options.strides[i]
    local room = c.options.padding == "SAME" and n - 1 or n - k
    s[i] = room // step + 1
  end
  return s
end

-- A convolution of c.like: where its channels are, its filter, its result.
local function channels_at(c)
  local format = c.options.data_format
  return format and format:sub(2, 2) == "C" and 2 or #c.like
end

local function filter_of(c)
  if not c.filter then
    c.filter = many(#c.like - 2, 1, 3)
    local deep = c.like[channels_at(c)]
    if deep % 2 == 0 and deep > 0 and chance(20) then deep = deep // 2 end
    c.filter[#c.like - 1], c.filter[#c.like] = deep, 2 * random(0, 2)
  end
  return c.filter
end

local function convolved(c)
  local k, o, s = filter_of(c), c.options, {c.like[1]}
  local at = channels_at(c)
  local first = at == 2 and 2 or 1
  s[at] = c.op:find("^Depth") and c.like[at] * k[#k] or k[#k]
  for i = 1, #c.like - 2 do
    local a, pads = first + i, o.explicit_paddings or {}
    local reach = (k[i] - 1) * (o.dilations and o.dilations[a] or 1)
    local room = c.like[a] - 1
    if o.padding ~= "SAME" then
      room = room - reach + (pads[2 * a - 1] or 0) + (pads[2 * a] or 0)
    end
    s[a] = room // o.strides[a] + 1
  end
  return s
end

local hints = {
  filter_sizes = function(c) return vector(filter_of(c)) end,
  input_sizes = dims, out_backprop = convolved,
  orig_output = pooled, grad = pooled, argmax = pooled, orig_input_shape = dims,
  ["MaxPoolGradGrad.grad"] = function(c) return c.like end,
  ["MaxPool3DGradGrad.grad"] = function(c) return c.like end,
  ksize = function() return {4}, {1, random(1, 2), random(1, 3), 1} end,
  ["MaxPoolV2.strides"] = function() return {4}, {1, 2, 1, 1} end,
  ["MaxPoolGradV2.ksize"] = function() return {4}, {1, 1, 1, 1} end,
  ["MaxPoolGradV2.strides"] = function() return {4}, {1, 1, 1, 1} end,
  ["MaxPoolGradV2.orig_output"] = function(c) return c.like end,
  ["MaxPoolGradV2.grad"] = function(c) return c.like end,
  ["SpaceToDepth.input"] = blocks, ["DepthToSpace.input"] = blocks,
  ["SpaceToBatch.input"] = blocks, ["BatchToSpace.input"] = blocks,
  ["SpaceToBatchND.input"] = blocks, ["BatchToSpaceND.input"] = blocks,
  ["SpaceToBatch.paddings"] = no_margin, crops = no_margin,
  ["SpaceToBatchND.paddings"] = no_margin,
  block_shape = function() return {2}, {2, chance(50) and 1 or 2} end,
  seq_lengths = function(c)
    return {c.like[1]}, many(c.like[1], 0, c.like[2])
  end,
  axis = axis, dim = axis, dimension = axis, concat_dim = axis,
  split_dim = axis,
  reduction_indices = axes, ["ReverseV2.axis"] = axes,
  perm = function(c) return vector(order(#c.like)) end,
  ["InvertPermutation.x"] = function() return vector(order(random(0, 9))) end,
  paddings = function(c) return {#c.like, 2}, many(2 * #c.like, 0, 3) end,
  multiples = function(c) return vector(many(#c.like, 0, 3)) end,
  begin = begin, size = scalar(0, 9),
  ["Slice.size"] = per_dim(function(c, d, i)
    return chance(20) and -1
      or random(0, math.min(9, math.max(0, d - (c.begin[i] or 0))))
  end),
  ["end"] = per_dim(function(c, d, i)
    return c.op == "StridedSliceGrad" and (c.begin[i] or 0) + math.max(1, d)
      or random(-9, math.min(d, 9))
  end),
  strides = function(c)
    if c.op == "StridedSliceGrad" then return vector(many(#c.like, 1, 1)) end
    local list = many(#c.like, 1, 3)
    if #list > 0 and chance(20) then list[random(#list)] = -1 end
    return vector(list)
  end,
  ["StridedSliceGrad.shape"] = per_dim(function(_, d) return d + 10 end),
  ["Reshape.shape"] = function(c)
    local list = {count(c.like)}
    if chance(60) then
      list = chance(50) and {-1, 1} or table.move(c.like, 1, #c.like, 1, {})
    end
    return vector(list)
  end,
  shape = dims, dims = new_shape, s0 = dims, s1 = dims,
  ["RandomUniform.shape"] = new_shape,
  ["RandomStandardNormal.shape"] = new_shape,
  ["TruncatedNormal.shape"] = new_shape, ["RandomUniformInt.shape"] = new_shape,
  ["ConcatOffset.shape"] = dims,
  minval = scalar(-3, 3), maxval = scalar(4, 9),
  start = scalar(0, 3), limit = scalar(0, 20), delta = scalar(1, 3),
  stop = scalar(0, 9),
  num = scalar(1, 9), depth = scalar(0, 6), k = scalar(0, 3),
  num_segments = scalar(0, 9),
  indices = row_numbers, updates = rows,
  ["GatherNd.indices"] = nd_numbers, ["ScatterNd.indices"] = nd_numbers,
  ["ScatterNd.updates"] = nd_rows,
  partitions = segments, segment_ids = segments,
  ["InplaceUpdate.v"] = rows, ["InplaceAdd.v"] = rows,
  ["InplaceSub.v"] = rows,
  ["UniqueV2.axis"] = function(c) return {1}, {c.axis} end,
  ["UniqueWithCountsV2.axis"] = function(c) return {1}, {c.axis} end,
  i = function(c)
    c.index = {c.index[1] or 2}
    return row_numbers(c)
  end,
  n = scalar(0, 2), ["Empty.shape"] = new_shape,
  pattern = a_scalar, rewrite = a_scalar, default_value = a_scalar,
  sparse_indices = function() return {2}, {0, 3} end,
  output_shape = function() return {1}, {5} end,
  sparse_values = function() return {2} end,
  a_indices = function() return {2, 2}, many(4, 0, 1) end,
  a_values = function() return {2} end, a_shape = function()
    return {2}, {2, 2}
  end,
  ["SparseTensorDenseMatMul.b"] = function() return {2, 2} end,
  input_indices = function(c)
    local n = #c.like
    return {3, n}, many(3 * n, 0, 1)
  end,
  input_values = function() return {3} end,
  input_shape = function(c) return vector(many(#c.like, 2, 3)) end,
  ["ParallelDynamicStitch.indices"] = function() return {2}, many(2, 0, 5) end,
  ["ParallelDynamicStitch.data"] = function(c)
    return joined({2}, tail(c.like, 2))
  end,
  ["DynamicStitch.indices"] = function() return {2}, many(2, 0, 5) end,
  ["DynamicStitch.data"] = function(c) return joined({2}, tail(c.like, 2)) end,
  size_splits = parts, ["Concat.values"] = along_axis,
  ["ConcatV2.values"] = along_axis,
  ["MatMul.a"] = matrix("transpose_a"),
  ["MatMul.b"] = right_matrix("transpose_b"),
  ["BatchMatMul.x"] = matrix("adj_x"),
  ["BatchMatMul.y"] = right_matrix("adj_y"),
  ["BatchMatMulV2.x"] = matrix("adj_x"),
  ["BatchMatMulV2.y"] = right_matrix("adj_y"),
  bias = function(c)
    return {c.options.data_format == "NCHW" and c.like[2] or c.like[#c.like]}
  end,
  ["InTopK.targets"] = class_numbers, ["InTopKV2.targets"] = class_numbers,
  ["SparseSoftmaxCrossEntropyWithLogits.labels"] = class_numbers,
  num_lower = scalar(-1, 4), num_upper = scalar(-1, 4),
  num_rows = scalar(-1, 9),
  num_cols = scalar(-1, 9), padding_value = a_scalar,
  ["MatrixSetDiag.diagonal"] = diagonal,
  ["MatrixSetDiagV3.diagonal"] = diagonal,
  ["MatrixDiagPartV3.k"] = one_diagonal, ["MatrixSetDiagV3.k"] = one_diagonal,
  ["MatrixDiagV3.k"] = one_diagonal,
  num_samples = scalar(0, 5), seed = function() return {2} end,
  ["Bincount.arr"] = function(c) return c.like, many(count(c.like), 0, 5) end,
  value_range = function() return {2}, {random(-3, 0), random(1, 9)} end,
  nbins = scalar(1, 9),
  means = scalar(-1, 1), stdevs = scalar(1, 3), minvals = scalar(-3, 0),
  maxvals = scalar(1, 4),
  ["ParameterizedTruncatedNormal.shape"] = new_shape,
  output_dim0 = function(c) return {}, {c.like[1] or 0} end,
  delimiter = a_scalar, index = scalar(0, 3),
  ["TensorArrayGatherV3.indices"] = function() return {2}, many(2, 0, 2) end,
  ["TensorArrayScatterV3.indices"] = function() return {2}, {0, 1} end,
  ["TensorArrayScatterV3.value"] = function(c) return joined({2}, c.like) end,
  ["TensorArraySplitV3.lengths"] = function() return {3}, {1, 0, 2} end,
  ["TensorArraySplitV3.value"] = function(c) return joined({3}, c.like) end,
  shape_to_prepend = new_shape,
  ["DiagPart.input"] = function(c) return joined(c.like, c.like) end,
}
local scalars = "lr rho momentum epsilon alpha beta1 beta2 beta1_power "
  .. "beta2_power on_value off_value constant_values"
for name in scalars:gmatch("%S+") do
  hints[name] = a_scalar
end
for name, hint in pairs{lr_power = scalar(-1, 0), l1 = scalar(0, 1),
                        l2 = scalar(0, 1), l2_shrinkage = scalar(0, 1)} do
  hints[name] = hint
end
for _, op in ipairs{"Ftrl.lr", "FtrlV2.lr", "ProximalAdagrad.lr",
                    "ProximalGradientDescent.alpha"} do
  hints["ResourceSparseApply" .. op] = scalar(1, 2)
end
for _, how in ipairs{"Update", "Add", "Sub", "Min", "Max"} do
  for _, op in ipairs{"TensorScatter" .. how, "ResourceScatterNd" .. how} do
    hints[op .. ".indices"], hints[op .. ".updates"] = nd_numbers, nd_rows
  end
end
local function of_channels(c)
  local first = (c.options.data_format or ""):sub(2, 2) == "C"
  return {c.like[first and 2 or #c.like]}
end
local normalisations = {"FusedBatchNorm", "FusedBatchNormV2",
  "FusedBatchNormV3", "FusedBatchNormGrad", "FusedBatchNormGradV2",
  "FusedBatchNormGradV3"}
for _, op in ipairs(normalisations) do
  for arg in ("scale offset mean variance reserve_space_1 reserve_space_2")
             :gmatch("%S+") do
    hints[op .. "." .. arg] = of_channels
  end
end
hints.sequence_length = function(c)
  return {c.like[2]}, many(c.like[2], 0, c.like[1])
end
hints.labels_indices = function(c)
  local n, list = math.min(c.like[2], 9), {}
  for i = 1, n do list[2 * i - 1], list[2 * i] = i - 1, 0 end
  return {n, 2}, list
end
hints.labels_values = function(c)
  local n = math.min(c.like[2], 9)
  return {n}, many(n, 0, 1)
end
hints.true_classes = function(c)
  local n = c.options.num_true
  return {3, n}, many(3 * n, 0, math.min(9, c.options.range_max or 2) - 1)
end
hints.sampled_candidates = function() return {4}, many(4, 0, 9) end
for _, op in ipairs{"BatchNormWithGlobalNormalization",
                    "BatchNormWithGlobalNormalizationGrad"} do
  for arg in ("m v beta gamma"):gmatch("%S+") do
    hints[op .. "." .. arg] = of_channels
  end
end
-- Recurrent cells: sizes as the letters of kernels/recurrent.h.
local function recurrent(letters)
  return function(c)
    local r, n, s = #c.like, c.columns, {}
    local size = {T = c.like[1], B = c.like[r - 1], I = c.like[r], N = n,
                  S = c.like[r] + n, ["2"] = 2 * n, ["4"] = 4 * n}
    for letter in letters:gmatch(".") do s[#s + 1] = size[letter] end
    return s
  end
end
local cells = {LSTMBlockCell = 2, BlockLSTM = 3, BlockLSTMV2 = 3,
               GRUBlockCell = 2, LSTMBlockCellGrad = 2, BlockLSTMGrad = 3,
               BlockLSTMGradV2 = 3, GRUBlockCellGrad = 2}
for op, rank in pairs(cells) do
  local function each(names, letters)
    for arg in names:gmatch("%S+") do
      hints[op .. "." .. arg] = recurrent(letters)
    end
  end
  each("x", rank == 3 and "TBI" or "BI")
  each("cs_prev h_prev", "BN")
  each("w", "S4"); each("b", "4"); each("wci wcf wco b_c", "N")
  each("w_ru", "S2"); each("w_c", "SN"); each("b_ru", "2")
  each("i cs f o ci co h cs_grad h_grad r u c d_h",
       rank == 3 and "TBN" or "BN")
end
hints.seq_len_max = function(c) return {}, {random(0, c.like[1])} end
-- Pictures: files of a few pixels, some with a changed byte; boxes.
local files = {}
local function a_file(kind)
  if kind == "Bmp" then
    return string.pack("<c2i4i4i4i4i4i4i2i2i4i4i4i4i4i4BBBB", "BM", 58, 0, 54,
                       40, 1, 1, 1, 24, 0, 0, 0, 0, 0, 0, 3, 2, 1, 0)
  end
  local pixels = core.from_bytes(("\0\40\99"):rep(12), "uint8", {4, 3, 3})
  return core.op("Encode" .. kind)(pixels):item()
end
hints.contents = function(c)
  local kind = c.op:match "Jpeg" or c.op:match "Bmp" or "Png"
  files[kind] = files[kind] or a_file(kind)
  local text = files[kind]
  if chance(30) then
    local at = random(#text)
    text = text:sub(1, at - 1) .. string.char(random(0, 255))
           .. text:sub(at + 1)
  end
  return {}, {text}
end
hints.crop_window = function()
  return {4}, {0, random(0, 1), 2, random(1, 2)}
end
local function pair() return vector(many(2, 1, 6)) end
local function same_pictures(c)
  return {c.like[1], random(1, 5), random(1, 5), c.like[4]}
end
for _, how in ipairs{"Bilinear", "Bicubic", "NearestNeighbor", "Area"} do
  local op = "Resize" .. how
  hints[op .. ".size"], hints[op .. "Grad.size"] = pair, pair
  hints[op .. "Grad.original_image"] = same_pictures
end
hints.crop_size = pair
hints.box_ind = function(c) return {3}, many(3, 0, c.like[1] - 1) end
for _, of in ipairs{"", "GradImage", "GradBoxes"} do
  hints["CropAndResize" .. of .. ".boxes"] = function() return {3, 4} end
  hints["CropAndResize" .. of .. ".grads"] = function(c)
    return {3, 2, 2, c.like[4]}
  end
end
hints.image_size = function(c)
  if c.op:find "^Crop" then return vector(c.like) end
  return vector{random(1, 99), random(1, 99), 3}
end
hints.bounding_boxes = function() return {1, 2, 4}, {0, 0, 1, 1, 0, 0, 1, 1} end
hints.min_object_covered = scalar(0, 1)
hints["DrawBoundingBoxes.boxes"] = function(c) return {c.like[1], 2, 4} end
local function colored(c)
  local s = tail(c.like, 1)
  s[#s] = 3
  return s
end
for _, op in ipairs{"DrawBoundingBoxes", "AdjustHue", "AdjustSaturation",
                    "RGBToHSV", "HSVToRGB"} do
  hints[op .. ".images"] = colored
end
hints["EncodeJpeg.image"] = function(c) return {c.like[1], c.like[2], 3} end
hints["AdjustSaturation.scale"], hints.contrast_factor = a_scalar, a_scalar
for _, of in ipairs{"", "V2", "V3", "V4"} do
  local op = "NonMaxSuppression" .. of
  hints[op .. ".boxes"] = function(c) return {c.like[1], 4} end
  hints[op .. ".scores"] = function(c) return {c.like[1]} end
end
hints.max_output_size = scalar(0, 5)
hints.iou_threshold, hints.score_threshold = scalar(0, 1), scalar(0, 1)
hints["Fill.value"], hints["Assert.condition"] = a_scalar, a_scalar
hints["LoopCond.input"], hints["Switch.pred"] = a_scalar, a_scalar
hints["ExtractGlimpse.size"] = pair
hints.offsets = function(c) return {c.like[1], 2} end
hints.cond, hints.branch_index = a_scalar, scalar(-1, 3)
-- Transforms and numbers from a key.
hints.fft_length = function(c)
  local n = tonumber(c.op:match "(%d)D$") or 1
  return {n}, many(n, 0, 6)
end
hints.key, hints.counter = function() return {1} end, function() return {2} end
hints.alg = scalar(1, 3)
for _, of in ipairs{"Normal", "Uniform", "UniformInt", "UniformFullInt"} do
  hints["StatelessRandom" .. of .. "V2.shape"] = new_shape
end
hints["StatelessTruncatedNormalV2.shape"] = new_shape
hints["RandomIndexShuffle.seed"] = function() return {3} end
hints.max_index = scalar(3, 9)
-- Lists of three tensors like c.like (opfuzz.lua makes them).
hints.element_shape = function(c)
  if chance(50) then return {}, {-1} end
  return vector(c.like)
end
hints.num_elements, hints.max_num_elements = scalar(-1, 4), scalar(-1, 6)
hints.item = function(c) return c.like end
hints["TensorListPushBack.tensor"] = hints.item
hints["TensorListGather.indices"] = function() return {2}, many(2, 0, 2) end
for _, of in ipairs{"V2", "IntoExistingList"} do
  local op = "TensorListScatter" .. of
  hints[op .. ".indices"] = function() return {2}, {0, 1} end
  hints[op .. ".tensor"] = function(c) return joined({2}, c.like) end
end
hints.lengths = function() return {3}, {1, 0, 2} end
hints["TensorListSplit.tensor"] = function(c) return joined({3}, c.like) end
hints.leading_dims = function(c) return {3}, many(3, c.like[1], c.like[1]) end
hints.input_handles = function() return {2} end
hints["TensorListPushBackBatch.tensor"] = function(c)
  return joined({2}, c.like)
end

-- The rank of what the op works on.
local rank_of = {MatMul = {2, 2}, BatchMatMul = {2, 4}, BatchMatMulV2 = {2, 4},
  BiasAdd = {2, 5},
  BiasAddGrad = {2, 5}, InTopK = {2, 2}, InTopKV2 = {2, 2}, Split = {1, 4},
  SplitV = {1, 4},
  Concat = {1, 4}, ConcatV2 = {1, 4}, ConcatOffset = {1, 4}, Unpack = {1, 4},
  Diag = {1, 3},
  DiagPart = {1, 2}, Unique = {1, 1}, UniqueWithCounts = {1, 1},
  Softmax = {1, 4},
  LogSoftmax = {1, 4}, SoftmaxCrossEntropyWithLogits = {2, 2}, TopK = {1, 4},
  TopKV2 = {1, 4},
  SparseSoftmaxCrossEntropyWithLogits = {2, 2}, Gather = {1, 4},
  GatherV2 = {1, 4},
  InplaceUpdate = {1, 4}, InplaceAdd = {1, 4}, InplaceSub = {1, 4},
  NthElement = {1, 4}, BiasAddV1 = {2, 5}, UniqueV2 = {1, 4}, ListDiff = {1, 1},
  UniqueWithCountsV2 = {1, 4},
  SparseReorder = {1, 4},
  MatrixBandPart = {2, 4}, MatrixDiagV3 = {1, 4}, MatrixDiagPartV3 = {2, 4},
  MatrixSetDiag = {2, 4}, MatrixSetDiagV3 = {2, 4}, GatherNd = {1, 4},
  Multinomial = {2, 2}, StatelessMultinomial = {2, 2}, StringSplit = {1, 1},
  SpaceToDepth = {4, 4}, DepthToSpace = {4, 4}, SpaceToBatch = {4, 4},
  BatchToSpace = {4, 4}, SpaceToBatchND = {4, 4}, BatchToSpaceND = {4, 4},
  ReverseSequence = {2, 4},
  TensorArrayConcatV3 = {1, 4}, Einsum = {2, 2}, ScatterNd = {1, 4},
    ReverseV2 = {0, 8}}
rank_of.LRN, rank_of.LRNGrad = {4, 4}, {4, 4}
for _, how in ipairs{"Bilinear", "Bicubic", "NearestNeighbor", "Area"} do
  rank_of["Resize" .. how], rank_of["Resize" .. how .. "Grad"] = {4, 4}, {4, 4}
end
for _, op in ipairs{"CropAndResize", "CropAndResizeGradImage",
                    "CropAndResizeGradBoxes", "DrawBoundingBoxes",
                    "ExtractImagePatches", "ExtractGlimpse"} do
  rank_of[op] = {4, 4}
end
for _, of in ipairs{"FFT", "IFFT", "RFFT", "IRFFT"} do
  rank_of[of], rank_of[of .. "2D"], rank_of[of .. "3D"] = {1, 3}, {2, 4}, {3, 5}
end
rank_of.TensorListConcat, rank_of.TensorListConcatV2 = {1, 4}, {1, 4}
for _, op in ipairs{"AdjustHue", "AdjustSaturation", "AdjustContrastv2",
                    "EncodeJpeg"} do
  rank_of[op] = {3, 4}
end
for _, op in ipairs{"RGBToHSV", "HSVToRGB", "NonMaxSuppression",
                    "NonMaxSuppressionV2", "NonMaxSuppressionV3",
                    "NonMaxSuppressionV4"} do
  rank_of[op] = {1, 4}
end
rank_of.BatchNormWithGlobalNormalization = {4, 4}
rank_of.BatchNormWithGlobalNormalizationGrad = {4, 4}
rank_of.CTCLoss, rank_of.CTCGreedyDecoder = {3, 3}, {3, 3}
rank_of.CTCBeamSearchDecoder = {3, 3}
for _, op in ipairs{"FractionalMaxPool", "FractionalAvgPool"} do
  rank_of[op], rank_of[op .. "Grad"] = {4, 4}, {4, 4}
  hints[op .. "Grad.orig_input"] = function(c) return c.like end
  hints[op .. "Grad.orig_output"] = function(c)
    return {c.like[1], 1, 1, c.like[4]}
  end
  hints[op .. "Grad.out_backprop"] = hints[op .. "Grad.orig_output"]
end
hints.orig_input_tensor_shape = dims
hints.row_pooling_sequence = function(c) return {2}, {0, c.like[2]} end
hints.col_pooling_sequence = function(c) return {2}, {0, c.like[3]} end
for _, op in ipairs(normalisations) do rank_of[op] = {4, 4} end
for op, rank in pairs(cells) do rank_of[op] = {rank, rank} end
for _, op in ipairs{"Max", "Avg"} do
  for _, of in ipairs{"", "V2", "WithArgmax", "GradWithArgmax", "Grad",
                      "GradV2", "GradGrad", "GradGradV2"} do
    rank_of[op .. "Pool" .. of] = {4, 4}
    rank_of[op .. "Pool3D" .. of] = {5, 5}
  end
end

for _, op in ipairs{"Conv2D", "Conv3D", "DepthwiseConv2dNative"} do
  for _, of in ipairs{"", "BackpropInput", "BackpropFilter", "BackpropInputV2",
                      "BackpropFilterV2"} do
    local rank = op == "Conv3D" and 5 or 4
    rank_of[op .. of] = {rank, rank}
    hints[op .. of .. ".filter"] = filter_of
    hints[op .. of .. ".input"] = function(c) return c.like end
  end
end
hints["BiasAddGrad.out_backprop"] = function(c) return c.like end
for _, of in ipairs{"", "BackpropInput", "BackpropFilter"} do
  rank_of["Dilation2D" .. of] = {4, 4}
  hints["Dilation2D" .. of .. ".filter"] = function(c)
    return {1, 2, c.like[4]}
  end
end

-- ---- attributes ------------------------------------------------------------

local whole = {-9223372036854775807 - 1, -2, -1, 0, 0, 1, 1, 2, 2, 3, 5, 100,
  2147483647,
  2147483648, 9223372036854775807}

-- Sizes of windows: 1 for batch and channels.
local function inside(list)
  list[1], list[#list] = 1, 1
  return list
end

local attr_hints = {
  num_split = function(c)
    local d = c.like[c.at] or 1
    return d > 0 and pick{1, d} or 2
  end,
  num = function(c) return c.like[c.at] end,
  num_partitions = function() return random(1, 5) end,
  axis = function(c) return c.axis end,
  k = function(c) return random(0, c.like[#c.like] or 0) end,
  batch_dims = function() return random(0, 1) end,
  squeeze_dims = function(c)
    local list = {}
    for i, d in ipairs(c.like) do if d == 1 then list[#list + 1] = i - 1 end end
    return list
  end,
  shape = function(c) return args.declared(c.like) end,
  parallel_iterations = function() return random(1, 20) end,
  frame_name = function() return pick{"f", "g"} end,
  bad_indices_policy = function()
    return pick{"", "DEFAULT", "ERROR", "IGNORE", "x"}
  end,
  num_true = function() return random(1, 3) end,
  num_sampled = function() return random(1, 9) end,
  range_max = function() return random(5, 1000) end,
  vocab_file = function() return "" end,
  num_reserved_ids = function() return random(0, 1) end,
  num_shards = function() return 1 end, shard = function() return 0 end,
  unigrams = function(c)
    local n = math.min(c.options.range_max, 1000)
    return many(n - (c.options.num_reserved_ids or 0), 1, 3)
  end,
  ksize = function(c) return inside(many(#c.like, 1, 3)) end,
  strides = function(c) return inside(many(#c.like, 1, 2)) end,
  dilations = function(c) return inside(many(#c.like, 1, 2)) end,
  ksizes = function(c) return inside(many(#c.like, 1, 3)) end,
  rates = function(c) return inside(many(#c.like, 1, 2)) end,
  channels = function() return pick{0, 0, 1, 3, 4, 7} end,
  ratio = function() return pick{1, 2, 8, 3} end,
  dct_method = function() return pick{"", "INTEGER_FAST", "x"} end,
  quality = function() return random(-1, 101) end,
  compression = function() return random(-2, 10) end,
  iou_threshold = function() return pick{0.0, 0.5, 1.0, 2.0} end,
  max_attempts = function() return random(0, 20) end,
  aspect_ratio_range = function() return pick{{0.5, 2.0}, {1.0, 0.5}, {}} end,
  area_range = function() return pick{{0.1, 1.0}, {0.1, 2.0}, {0.5}} end,
  min_object_covered = function() return pick{0.0, 0.5, 1.0, -1.0} end,
  explicit_paddings = function(c)
    if c.options.padding ~= "EXPLICIT" then return {} end
    local at = 2 * channels_at(c)
    local list = many(2 * #c.like, 0, 2)
    list[1], list[2], list[at - 1], list[at] = 0, 0, 0, 0
    return list
  end,
  equation = function(c)
    local e = pick{"ij->ji", "ij,jk->ik", "ij,ij->", "ii->i", "...j,...j->...",
      "ij->"}
    c.lengths.N = e:find(",") and 2 or 1
    return e
  end,
  block_size = function() return random(2, 3) end,
  pooling_ratio = function()
    return {1.0, pick{1.0, 1.5}, pick{1.0, 1.4}, 1.0}
  end,
  beam_width = function() return random(1, 9) end,
  top_paths = function() return random(1, 2) end,
  seq_dim = function() return 1 end, batch_dim = function() return 0 end,
  first_n = function() return random(-1, 1) end,
  pattern = function()
    return pick{"a", "[a-z]*", "(i|d)e?", "", "x+?$", "("}
  end,
  rewrite = function() return pick{"", "b", "<\\0>", "\\1"} end,
  noise = function() return pick{"uniform", "gaussian", "zero", "x"} end,
  rounds = function() return pick{4, 4, 6, 1} end,
}
for _, of in ipairs{"begin", "end", "ellipsis", "new_axis", "shrink_axis"} do
  attr_hints[of .. "_mask"] = function(c)
    return chance(60) and 0 or random(0, (1 << #c.like) - 1)
  end
end

local makers = {
  bool = function() return chance(50) end,
  int = function() return pick(whole) end,
  float = function() return pick(chance(50) and finite or wild) end,
  string = function() return pick(words) end,
  shape = function() return args.declared(args.shape()) end,
  tensor = function(c)
    return args.value(c.type or pick(any_dtype), args.shape())
  end,
  type = function() return pick(any_dtype) end,
}

-- The dtypes that a type attribute should have: those with a kernel, mostly.
local function draw_type(info, a, is_first)
  local usable = info.dtypes
  if is_first and #usable > 0 and chance(92) then return pick(usable) end
  return a.allowed and chance(97) and pick(a.allowed) or pick(any_dtype)
end

local function attribute(c, a)
  local of = a.type:match("^list%((.+)%)$")
  local hint = attr_hints[a.name]
  if hint and not chance(12) then return hint(c) end
  if a.allowed and chance(90) then return pick(a.allowed) end
  if not of then return makers[a.type] and makers[a.type](c) end
  local list = {}
  for i = 1, random(0, 3) do list[i] = makers[of] and makers[of](c) end
  return list
end

local function options(c)
  for _, a in ipairs(c.info.attrs) do
    if a.type == "type" then
      c.types[a.name] = draw_type(c.info, a, next(c.types) == nil)
      c.type = c.type or c.types[a.name]
    end
  end
  for _, a in ipairs(c.info.attrs) do
    local wanted = not a.deduced
      and (not a.default or attr_hints[a.name] or chance(30))
    if wanted and a.type == "type" then
      if not a.default or c.used[a.name] == nil then
        c.options[a.name] = c.types[a.name]
      end
    elseif wanted then
      c.options[a.name] = attribute(c, a)
    end
  end
end

-- ---- calls -----------------------------------------------------------------

local function dtype_of(c, arg)
  local name = arg.type:match("%*(.+)$") or arg.type
  if chance(1) then return pick(any_dtype) end
  if chance(1) and args.handle then return "resource" end
  if c.types[name] then return c.types[name] end
  local fixed = width[name] or name == "string" or name == "resource"
    or name == "variant"
  return fixed and name or pick(any_dtype) -- else a list(type)
end

local function one(c, arg, k)
  local hint = hints[c.op .. "." .. arg.name] or hints[arg.name]
  if hint and c.hinted then
    local ok, shape, list = pcall(hint, c, k)
    if ok and not chance(#c.info.inputs > 6 and 2 or 6) then
      return {name = arg.name, dtype = dtype_of(c, arg), shape = shape,
        list = list}
    end
  end
  return {name = arg.name, dtype = dtype_of(c, arg),
    shape = c.like_all and c.like or other_shape(c)}
end

local function lists_length(c, arg)
  local name = arg.type:match("^(.-)%*") or arg.type
  c.lengths[name] = c.lengths[name] or pick{0, 1, 2, 2, 2, 3, 4}
  return chance(3) and random(0, 4) or c.lengths[name]
end

--- What an op is called with: {op, options, inputs}, an input being
-- {name, dtype, shape, list} or a list of these.
function args.call(op, info)
  local range = rank_of[op]
  local like = args.shape(table.unpack(range or {}))
  local c = {op = op, info = info, like = like, types = {}, options = {},
    inputs = {}, used = {},
    lengths = {}, hinted = not chance(8), like_all = chance(50),
    columns = pick(sizes),
    index = many(random(0, 2), 0, 4), depth = random(0, #like), begin = {}}
  if op:find("^Sparse") or op:find("SparseApply") then
    c.index = {random(0, 4)}
  end
  if op == "Einsum" then like[2] = like[1] end
  c.at = random(math.max(1, #like))
  c.axis = chance(40) and c.at - 1 - #like or c.at - 1
  for _, arg in ipairs(info.inputs) do
    c.used[arg.type:match("%*(.+)$") or arg.type] = true
  end
  options(c)
  for i, arg in ipairs(info.inputs) do
    if arg.list then
      local list = {is_list = true}
      for k = 1, lists_length(c, arg) do list[k] = one(c, arg, k) end
      c.inputs[i] = list
    else
      c.inputs[i] = one(c, arg)
    end
  end
  return c
end

return args
