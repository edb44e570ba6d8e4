-- nn.lua - products, convolutions, pooling, normalisation, cross entropies: see
-- compare.lua.
-- SPDX-License-Identifier: Apache-2.0

local floats = {"float32", "float64", "half", "bfloat16"}
local wide = {"float32", "float64"}
local short = {"float32", "bfloat16"}
local reals = {"float32", "half", "int32", "uint8"}

local function sizes(...)
  return {value = {...}, dtype = "int32"}
end
-- n floats from 1 to 2.
local function floats32(n)
  local v = {}
  for i = 1, n do v[i] = 1 + i * 7 % n / n end
  return {value = v, dtype = "float32"}
end

-- Whole squares and parts of them; sums long enough to be cut.
local products = {{{0, 3}, {3, 2}}, {{2, 0}, {0, 3}}, {{1, 1}, {1, 1}},
  {{31, 33}, {33, 17}}, {{65, 300}, {300, 130}}, {{3, 5000}, {5000, 2}},
  {{70, 2000}, {2000, 66}}}
local turned = {{{33, 31}, {17, 33}}, {{300, 65}, {130, 300}}}

local lines = {
  {"MatMul", dtypes = {"float32", "float64", "half", "bfloat16", "int32",
    "complex64", "complex128"}, shapes = products, units = 300},
  {"MatMul", dtypes = {"float32", "int64", "complex64"}, shapes = turned,
    attrs = {transpose_a = true, transpose_b = true}, units = 300},
  {"BatchMatMulV2", dtypes = {"float32", "complex64"},
    shapes = {{{3, 1, 65, 40}, {2, 40, 70}}, {{5, 3, 2}, {1, 2, 7}}},
    units = 300},
  {"BatchMatMul", shapes = {{{7, 31, 9}, {7, 5, 31}}},
    attrs = {adj_x = true, adj_y = true}, dtypes = {"float32", "complex128"},
    units = 300},
  {"Softmax", dtypes = floats, units = 64, shapes = {{{0, 3}}, {{1}}, {{37, 1}},
    {{37, 31}}, {{3, 1000}}, {{2, 3, 1025}}, {{2, 5001}}}},
  {"LogSoftmax", dtypes = floats, units = 64, shapes = {{{3, 33}},
    {{2, 5001}}}},
  {"SoftmaxCrossEntropyWithLogits", dtypes = floats, units = 300,
    shapes = {{{9, 31}, {9, 31}}, {{2, 1025}, {2, 1025}}, {{9, 31}, {1, 31}},
      {{9, 1}, {9, 31}}, {{5, 3}, {3}}, {{0, 3}, {0, 3}}}},
  {"SparseSoftmaxCrossEntropyWithLogits", dtypes = floats, units = 64,
    shapes = {{{3, 31}, {value = {0, 30, 7}, dtype = "int64"}},
      {{2, 1025}, sizes(1024, 3)}}},
}

local function add(line)
  lines[#lines + 1] = line
end

-- Both layouts: f(images(n, h, w, c), steps(k), data_format).
local function layouts(f)
  f(function(n, h, w, c) return {n, h, w, c} end,
    function(k) return {1, k, k, 1} end, "NHWC")
  f(function(n, h, w, c) return {n, c, h, w} end,
    function(k) return {1, 1, k, k} end, "NCHW")
end

layouts(function(images, steps, format)
  add{"BiasAdd", dtypes = {"float32", "half", "int8", "complex64"}, units = 4,
    attrs = {data_format = format},
    shapes = {{images(3, 5, 7, 33), {33}}, {images(0, 5, 7, 3), {3}}}}
  add{"BiasAddGrad", dtypes = {"float32", "half", "int32", "complex64"},
    units = 1000, attrs = {data_format = format},
    shapes = {{images(5, 39, 21, 37)}, {images(3, 1, 1, 1)},
      {images(0, 1, 1, 3)}}}
  for k = 1, 2 do
    local attrs = {strides = steps(k), padding = "SAME", data_format = format}
    local h, w = (11 + k - 1) // k, (13 + k - 1) // k
    local x, y = images(3, 11, 13, 24), images(3, h, w, 40)
    local z = images(3, h, w, 48)
    local filter, deep = {3, 3, 24, 40}, {3, 3, 24, 2}
    add{"Conv2D", dtypes = floats, units = 300, attrs = attrs,
      shapes = {{x, filter}}}
    add{"Conv2DBackpropInput", dtypes = short, units = 300, attrs = attrs,
      shapes = {{sizes(table.unpack(x)), filter, y}}}
    add{"Conv2DBackpropFilter", dtypes = short, units = 300, attrs = attrs,
      shapes = {{x, sizes(3, 3, 24, 40), y}}}
    add{"DepthwiseConv2dNative", dtypes = floats, units = 100, attrs = attrs,
      shapes = {{x, deep}}}
    add{"DepthwiseConv2dNativeBackpropInput", dtypes = short, units = 100,
      attrs = attrs, shapes = {{sizes(table.unpack(x)), deep, z}}}
    add{"DepthwiseConv2dNativeBackpropFilter", dtypes = short, units = 300,
      attrs = attrs, shapes = {{x, sizes(3, 3, 24, 2), z}}}
    local pool = {ksize = steps(3), strides = steps(k), padding = "SAME",
      data_format = format}
    local p = images(3, h, w, 24)
    add{"MaxPool", dtypes = reals, attrs = pool, shapes = {{x}}}
    add{"MaxPoolGrad", dtypes = reals, attrs = pool, units = 4,
      shapes = {{x, p, p}}}
    add{"AvgPool", dtypes = floats, attrs = pool, units = 8, shapes = {{x}}}
    add{"AvgPoolGrad", dtypes = floats, attrs = pool, units = 8,
      shapes = {{sizes(table.unpack(x)), p}}}
  end
  add{"Conv2D", dtypes = wide, units = 300,
    attrs = {strides = steps(2), padding = "VALID", data_format = format,
      dilations = steps(2)},
    shapes = {{images(2, 13, 9, 24), {3, 2, 8, 60}}}}
  local vector, vectors = floats32(37), {}
  for i = 1, 4 do vectors[i] = vector end
  for _, training in ipairs{true, false} do
    local attrs = {data_format = format, is_training = training}
    local x = images(5, 39, 21, 37)
    add{"FusedBatchNormV3", dtypes = {"float32", "half"}, units = 300, low = 1,
      high = 2, attrs = attrs, shapes = {{x, table.unpack(vectors)}}}
    add{"FusedBatchNormGradV3", dtypes = {"float32", "half"}, units = 1000,
      low = 1, high = 2, attrs = attrs,
      shapes = {{x, x, vector, vector, vector, floats32(0)}}}
  end
end)

for _, beta in ipairs{0.5, 0.75, 1} do
  local attrs = {depth_radius = 2, bias = 1, alpha = 0.3, beta = beta}
  local x = {2, 3, 5, 33}
  add{"LRN", dtypes = {"float32", "half", "bfloat16"}, attrs = attrs,
    units = 16, shapes = {{x}, {{1, 1, 1, 1}}, {{0, 1, 1, 3}}}}
  add{"LRNGrad", dtypes = {"float32", "half", "bfloat16"}, attrs = attrs,
    units = 64, shapes = {{x, x, x}}}
end
add{"LeakyRelu", dtypes = floats, units = 1, special = true,
  attrs = {alpha = 0.3}, shapes = {{{0}}, {{1}}, {{257}}, {{7, 33}}}}
add{"LeakyReluGrad", dtypes = floats, units = 1, special = true,
  shapes = {{{257}, {257}}}}

add{"MaxPoolWithArgmax", dtypes = reals, shapes = {{{3, 11, 13, 5}}},
  attrs = {ksize = {1, 3, 2, 1}, strides = {1, 2, 2, 1}, padding = "SAME"}}

return lines
