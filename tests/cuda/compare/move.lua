-- move.lua - ops that move elements, rows by number, order, resizing: see
-- compare.lua.
-- SPDX-License-Identifier: Apache-2.0

local sizes = {"float32", "half", "int8", "float64", "complex128"}
local numbers = {"float32", "bfloat16", "int32", "uint8"}
local reals = {"float32", "half", "int16", "uint64", "float64"}

local function ints(...)
  return {value = {...}, dtype = "int32"}
end
local function int(k)
  return {value = k, dtype = "int32"}
end

-- n indices below `most`, the same each time.
local function below(most, n, k)
  local v, seed = {}, 12345
  for i = 1, n do
    seed = (seed * 1103515245 + 12345) % 2147483648
    v[i] = seed // 65536 % most
  end
  if k then
    local rows = {}
    for i = 1, n // k do
      rows[i] = {table.unpack(v, (i - 1) * k + 1, i * k)}
    end
    v = rows
  end
  return {value = v, dtype = "int32"}
end
local function sorted(most, n)
  local t = below(most, n)
  table.sort(t.value)
  return t
end

local one = {{{0, 4}, ints(1, 0)}, {{1, 1}, ints(1, 0)},
  {{31, 33}, ints(1, 0)}, {{33, 31}, ints(1, 0)}, {{64, 7}, ints(1, 0)},
  {{7, 200}, ints(1, 0)}, {{100, 129}, ints(1, 0)}}

return {
  {"Transpose", dtypes = sizes, shapes = one},
  {"Transpose", dtypes = {"float32", "uint8"}, shapes = {
    {{3, 17, 33}, ints(2, 1, 0)}, {{3, 17, 33}, ints(0, 2, 1)},
    {{3, 17, 33}, ints(1, 0, 2)}, {{2, 9, 11, 16}, ints(0, 3, 1, 2)},
    {{2, 9, 11, 16}, ints(0, 2, 3, 1)},
    {{4, 5, 6, 7, 8}, ints(4, 2, 0, 3, 1)}}},
  {"ConjugateTranspose", dtypes = {"complex64", "complex128", "float32"},
    shapes = one},
  {"Slice", dtypes = sizes, shapes = {
    {{40}, ints(3), ints(31)}, {{9, 33}, ints(1, 2), ints(7, 29)},
    {{9, 33}, ints(2, 0), ints(3, 33)},
    {{5, 6, 7}, ints(1, 2, 3), ints(-1, 0, 2)},
    {{5000}, ints(3), ints(4800)}}},
  {"StridedSlice", dtypes = sizes, shapes = {
    {{40}, ints(38), ints(1), ints(-3)},
    {{9, 33}, ints(8, 1), ints(0, 30), ints(-2, 2)},
    {{9, 33}, ints(0, 32), ints(9, 0), ints(1, -1)},
    {{0, 3}, ints(0, 0), ints(0, 3), ints(1, 1)}}},
  {"StridedSliceGrad", dtypes = sizes, shapes = {
    {ints(40), ints(38), ints(1), ints(-3), {13}},
    {ints(9, 33), ints(8, 1), ints(0, 30), ints(-2, 2), {4, 15}}}},
  {"Pad", dtypes = sizes, shapes = {
    {{0}, {value = {{1, 2}}, dtype = "int32"}},
    {{33}, {value = {{3, 1}}, dtype = "int32"}},
    {{5, 31}, {value = {{0, 1}, {2, 3}}, dtype = "int32"}},
    {{2, 3, 5}, {value = {{1, 0}, {0, 0}, {4, 5}}, dtype = "int32"}}}},
  {"MirrorPad", dtypes = sizes,
    attrs = {{mode = "REFLECT"}, {mode = "SYMMETRIC"}},
    shapes = {{{33}, {value = {{3, 1}}, dtype = "int32"}},
      {{5, 31}, {value = {{0, 1}, {2, 3}}, dtype = "int32"}},
      {{4, 3, 5}, {value = {{1, 2}, {0, 0}, {0, 0}}, dtype = "int32"}}}},
  {"MirrorPadGrad", dtypes = numbers, units = 2,
    attrs = {{mode = "REFLECT"}, {mode = "SYMMETRIC"}},
    shapes = {{{37}, {value = {{3, 1}}, dtype = "int32"}},
      {{6, 36}, {value = {{0, 1}, {2, 3}}, dtype = "int32"}},
      {{7, 3, 5}, {value = {{1, 2}, {0, 0}, {0, 0}}, dtype = "int32"}}}},
  {"Tile", dtypes = sizes, shapes = {{{33}, ints(5)}, {{3, 5}, ints(2, 3)},
    {{1, 7, 1}, ints(4, 1, 9)}, {{3, 5}, ints(0, 1)}}},
  {"ReverseV2", dtypes = sizes, shapes = {{{33}, ints(0)}, {{9, 31}, ints(1)},
    {{9, 31}, ints(0, 1)}, {{3, 4, 5}, ints(1)}, {{0, 5}, ints(1)}}},
  {"ReverseSequence", dtypes = sizes, attrs = {seq_dim = 1, batch_dim = 0},
    shapes = {{{3, 33, 5}, {value = {0, 33, 17}, dtype = "int64"}},
      {{1, 1}, {value = {1}, dtype = "int64"}}}},
  {"ReverseSequence", dtypes = sizes, attrs = {seq_dim = 0, batch_dim = 2},
    shapes = {{{31, 2, 3, 2}, {value = {5, 31, 1}, dtype = "int64"}}}},
  {"Roll", dtypes = sizes, shapes = {{{33}, int(40), int(0)},
    {{9, 31}, ints(-3, 2), ints(0, 1)}, {{3, 4, 5}, int(1), int(1)}}},
  {"SpaceToDepth", dtypes = sizes, attrs = {block_size = 3},
    shapes = {{{2, 6, 9, 5}}, {{1, 3, 3, 33}}}},
  {"DepthToSpace", dtypes = sizes, attrs = {block_size = 2},
    shapes = {{{2, 5, 7, 12}}, {{1, 1, 1, 4}}}},
  {"SpaceToBatchND", dtypes = sizes, shapes = {
    {{3, 7, 9, 5}, ints(2, 3), {value = {{1, 2}, {0, 3}}, dtype = "int32"}},
    {{2, 8}, ints(4), {value = {{0, 0}}, dtype = "int32"}}}},
  {"BatchToSpaceND", dtypes = sizes, shapes = {
    {{12, 5, 4, 3}, ints(2, 3), {value = {{1, 2}, {0, 3}}, dtype = "int32"}},
    {{8, 3}, ints(4), {value = {{0, 1}}, dtype = "int32"}}}},
  {"MatrixBandPart", dtypes = sizes, shapes = {{{33, 31}, int(2), int(3)},
    {{3, 9, 17}, int(-1), int(0)}, {{5, 1}, int(0), int(-1)}}},
  {"MatrixDiag", dtypes = sizes, shapes = {{{33}}, {{3, 7}}, {{0}}}},
  {"MatrixDiagPart", dtypes = sizes, shapes = {{{33, 31}}, {{3, 7, 9}}}},
  {"MatrixSetDiag", dtypes = sizes, shapes = {{{33, 31}, {31}},
    {{3, 7, 9}, {3, 7}}}},
  {"Gather", dtypes = sizes, shapes = {{{50}, below(50, 33)},
    {{7, 31}, below(7, 40)}, {{9, 3, 5}, below(9, 1)},
    {{300, 16}, below(300, 257)}}},
  {"GatherV2", dtypes = sizes, shapes = {{{7, 31}, below(31, 40), int(1)},
    {{4, 9, 3}, below(9, 12, 3), int(1)}}},
  {"GatherNd", dtypes = sizes, shapes = {{{9, 8, 5}, below(8, 40, 2)},
    {{9, 8}, below(8, 66, 2)}, {{50}, below(50, 33, 1)}}},
  {"ScatterNd", dtypes = numbers, units = 8, shapes = {
    {below(8, 40, 2), {20, 5}, ints(9, 8, 5)},
    {below(50, 133, 1), {133}, ints(50)},
    {below(3, 2100, 1), {2100, 3}, ints(4, 3)}}},
  {"TensorScatterUpdate", dtypes = sizes, shapes = {
    {{9, 8, 5}, below(8, 40, 2), {20, 5}}, {{50}, below(50, 133, 1), {133}}}},
  {"TensorScatterAdd", dtypes = numbers, units = 8, shapes = {
    {{9, 8, 5}, below(8, 40, 2), {20, 5}}, {{50}, below(50, 133, 1), {133}}}},
  {"TensorScatterSub", dtypes = numbers, units = 8, shapes = {
    {{9, 8, 5}, below(8, 40, 2), {20, 5}}, {{50}, below(50, 133, 1), {133}}}},
  {"TensorScatterMax", dtypes = numbers, special = true, shapes = {
    {{9, 8, 5}, below(8, 40, 2), {20, 5}}, {{50}, below(50, 133, 1), {133}}}},
  {"UnsortedSegmentSum", dtypes = numbers, units = 8, shapes = {
    {{133}, below(20, 133), int(21)}, {{257, 33}, below(9, 257), int(11)},
    {{0, 3}, {value = {}, dtype = "int32"}, int(4)},
    {{3000}, below(2, 3000), int(2)}}},
  {"UnsortedSegmentProd", dtypes = {"float32", "int32"}, units = 16, shapes = {
    {{60, 3}, below(20, 60), int(21)}}},
  {"UnsortedSegmentMax", dtypes = reals, special = true, shapes = {
    {{133}, below(20, 133), int(25)}, {{257, 33}, below(9, 257), int(11)}}},
  {"UnsortedSegmentMin", dtypes = reals, special = true, shapes = {
    {{133}, below(20, 133), int(25)}}},
  {"SegmentSum", dtypes = numbers, units = 8, shapes = {
    {{133}, sorted(20, 133)}, {{257, 33}, sorted(9, 257)},
    {{1, 5}, sorted(3, 1)}}},
  {"SegmentMean", dtypes = {"float32", "half", "float64"}, units = 8, shapes = {
    {{133}, sorted(20, 133)}, {{257, 33}, sorted(9, 257)}}},
  {"SegmentMax", dtypes = numbers, special = true, shapes = {
    {{133}, sorted(20, 133)}, {{257, 33}, sorted(9, 257)}}},
  {"Where", dtypes = {"bool", "float32", "int8", "complex64"},
    low = 0, high = 2,
    special = true, shapes = {{{0}}, {{1}}, {{33}}, {{2049}}, {{5, 31, 3}}}},
  {"DynamicPartition", dtypes = sizes, attrs = {num_partitions = 5}, shapes = {
    {{33}, below(5, 33)}, {{2100, 3}, below(4, 2100)}}},
  {"TopKV2", dtypes = reals, special = true, shapes = {{{33}, int(33)},
    {{9, 31}, int(3)}, {{2, 2100}, int(5)}, {{3, 1}, int(1)},
    {{2, 5}, int(0)}}},
  {"NthElement", dtypes = reals, attrs = {{reverse = true}, {reverse = false}},
    shapes = {{{33}, int(7)}, {{9, 31}, int(30)}}},
  {"InTopK", special = true, attrs = {k = 3},
    shapes = {{{33, 10}, below(10, 33)},
    {{3, 257}, below(257, 3)}, {{1, 1}, below(1, 1)}}},
  {"ResizeNearestNeighbor", dtypes = {"float32", "uint8", "half"},
    attrs = {{}, {align_corners = true}, {half_pixel_centers = true}},
    shapes = {{{2, 7, 9, 3}, ints(13, 5)}, {{1, 33, 31, 1}, ints(16, 62)}}},
  {"ResizeNearestNeighborGrad", dtypes = {"float32", "half"}, units = 4,
    attrs = {{}, {align_corners = true}, {half_pixel_centers = true}},
    shapes = {{{2, 7, 9, 3}, ints(13, 5)}, {{1, 33, 31, 1}, ints(16, 62)}}},
  {"ResizeBilinear", dtypes = {"float32", "uint8", "half"}, units = 8,
    attrs = {{}, {align_corners = true}, {half_pixel_centers = true}},
    shapes = {{{2, 7, 9, 3}, ints(13, 5)}, {{1, 33, 31, 1}, ints(16, 62)}}},
  {"ResizeBilinearGrad", units = 8,
    attrs = {{}, {align_corners = true}, {half_pixel_centers = true}},
    shapes = {{{2, 7, 9, 3}, {2, 13, 5, 3}}, {{1, 33, 31, 1}, {1, 16, 62, 1}}}},
  {"ExtractImagePatches", dtypes = {"float32", "uint8"},
    attrs = {{ksizes = {1, 3, 2, 1}, strides = {1, 2, 1, 1},
      rates = {1, 1, 2, 1}, padding = "SAME"}, {ksizes = {1, 3, 2, 1},
      strides = {1, 1, 1, 1}, rates = {1, 2, 1, 1}, padding = "VALID"}},
    shapes = {{{2, 7, 9, 3}}, {{1, 8, 31, 1}}}},
  {"LowerBound", dtypes = {"int32", "float64"}, shapes = {{{1, 1}, {1, 33}}}},
  {"Bucketize", dtypes = {"float32", "float64", "int32", "int64"},
    attrs = {boundaries = {-2.5, -1, 0, 0.5, 2}}, shapes = {{{0}}, {{33}},
    {{9, 31}}}},
}
