-- rows.lua - rows by number where there are many: what is sorted for them, and
-- what few of them are looked through for; sums by subscripts; colours. See
-- compare.lua.
-- SPDX-License-Identifier: Apache-2.0

local floats = {"float32", "half", "float64"}

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
local function int(k)
  return {value = k, dtype = "int32"}
end

return {
  {"Unique", dtypes = {"int32", "float32", "uint8"}, low = 0, high = 40,
    shapes = {{{0}}, {{1}}, {{33}}, {{300}}, {{3000}}}},
  {"Unique", dtypes = floats, special = true, shapes = {{{31}}, {{2500}}}},
  {"UniqueWithCounts", dtypes = {"int64", "int16"}, low = 0, high = 9,
    shapes = {{{1}}, {{257}}, {{2100}}}},
  {"UniqueV2", dtypes = {"int32", "float64"}, low = 0, high = 2,
    shapes = {{{40, 3}, {value = {0}, dtype = "int32"}},
      {{3, 50, 2}, {value = {1}, dtype = "int32"}}}},
  {"ListDiff", dtypes = {"int32", "float32"}, low = 0, high = 40,
    shapes = {{{0}, {3}}, {{33}, {1}}, {{300}, {20}}, {{2100}, {0}}}},
  {"SparseSegmentMean", dtypes = floats, units = 64, shapes = {
    {{9, 5}, below(9, 33), sorted(7, 33)},
    {{31, 33}, below(31, 300), sorted(40, 300)}}},
  {"SparseSegmentSqrtNWithNumSegments", dtypes = floats, units = 64, shapes = {
    {{31, 33}, below(31, 300), sorted(40, 300), int(50)}}},
  {"SparseSegmentMeanGrad", dtypes = floats, units = 64, shapes = {
    {{40, 33}, below(31, 300), sorted(40, 300), int(31)}}},
  {"InplaceAdd", dtypes = {"float32", "int32"}, units = 64,
    shapes = {{{9, 7}, below(9, 40), {40, 7}}}},
  {"Einsum", list = true, units = 600,
    dtypes = {"float32", "half", "float64", "int32", "complex64"},
    attrs = {equation = "bij,bjk->bik"},
    shapes = {{{3, 17, 33}, {3, 33, 20}}, {{1, 65, 40}, {1, 40, 70}},
      {{2, 3, 0}, {2, 0, 4}}}},
  {"Einsum", list = true, dtypes = {"float32"}, units = 600,
    attrs = {equation = "bqhd,bkhd->bhqk"},
    shapes = {{{2, 9, 3, 16}, {2, 11, 3, 16}}}},
  {"Einsum", list = true, dtypes = {"float32"}, units = 600,
    attrs = {equation = "iji->j"}, shapes = {{{5, 33, 5}}}},
  {"Einsum", list = true, dtypes = {"float32"}, units = 600,
    attrs = {equation = "...i,i->..."}, shapes = {{{7, 3, 33}, {33}}}},
  {"ResizeBicubic", dtypes = {"float32", "uint8"}, units = 64, shapes = {
    {{2, 9, 7, 3}, {value = {17, 5}, dtype = "int32"}},
    {{1, 1, 33, 1}, {value = {4, 64}, dtype = "int32"}}}},
  {"ResizeBicubicGrad", dtypes = {"float32"}, units = 64,
    shapes = {{{2, 17, 5, 3}, {2, 9, 7, 3}}, {{1, 4, 64, 1}, {1, 1, 33, 1}}}},
  {"ResizeArea", dtypes = {"float32", "int16"}, units = 64, shapes = {
    {{2, 9, 7, 3}, {value = {4, 5}, dtype = "int32"}}}},
  {"RGBToHSV", dtypes = floats, low = 0, high = 1, units = 8,
    shapes = {{{0, 3}}, {{33, 3}}, {{5, 7, 3}}}},
  {"AdjustContrastv2", dtypes = {"float32", "half"}, units = 16, low = 0,
    high = 1, shapes = {{{2, 17, 19, 3}, {like = "float32"}}}},
}
