-- math.lua - element-wise ops, reductions, scans and what makes tensors: see
-- compare.lua.
-- SPDX-License-Identifier: Apache-2.0

local floats = {"float32", "float64", "half", "bfloat16"}
local complex = {"complex64", "complex128"}
local some = {"float32", "half", "complex64", "int32", "int8", "uint64"}
local reals = {"float32", "bfloat16", "int32", "uint8"}

local one = {{{0}}, {{1}}, {{3}}, {{31}}, {{33}}, {{257}}, {{5, 0, 3}},
  {{7, 11, 13}}, {{2051}}}
local two = {{{0}, {0}}, {{1}, {1}}, {{33}, {33}}, {{257}, {257}},
  {{2051}, {2051}}, {{33}, {}}, {{}, {1025}}, {{7, 5}, {5}}, {{7, 5}, {7, 1}},
  {{3, 1, 31}, {1, 33, 31}}, {{2, 1, 3, 1}, {5, 1, 7}}, {{5, 0}, {1, 1}},
  {{1}, {1, 1, 1}}}
local three = {{{0}, {0}, {0}}, {{33}, {33}, {33}}, {{257}, {257}, {257}},
  {{3, 1, 31}, {1, 33, 31}, {31}}, {{7}, {}, {7, 7}}}

-- Folded axes, and what is folded.
local function axes(...)
  return {value = {...}, dtype = "int32"}
end
local folds = {
  {{0}, axes(0)}, {{1}, axes(0)}, {{31}, axes(0)}, {{33}, axes(0)},
  {{1027}, axes(0)}, {{20011}, axes(0)}, {{0, 3}, axes(0)}, {{3, 0}, axes(0)},
  {{300, 3}, axes(1)}, {{300, 3}, axes(0)}, {{3, 700}, axes(1)},
  {{700, 33}, axes(0)}, {{5000, 2}, axes(0)}, {{9, 257}, axes(0)},
  {{2, 600}, axes(0)}, {{5, 7, 11}, axes(0, 2)}, {{5, 7, 11}, axes(1)},
  {{2, 3, 4, 5}, axes(1, 3)}, {{2, 3, 4, 5}, axes(0, 2)},
  {{2, 3, 4, 5}, axes(0, 1, 2, 3)}, {{1, 1}, axes(0)},
  {{33, 40, 3}, axes(0, 1)},
}
local function axis(k)
  return {value = k, dtype = "int32"}
end
local scans = {
  {{0}, axis(0)}, {{1}, axis(0)}, {{15}, axis(0)}, {{33}, axis(0)},
  {{257}, axis(0)}, {{9000}, axis(0)}, {{2, 5003}, axis(1)},
  {{5003, 2}, axis(0)}, {{40, 700}, axis(0)}, {{300, 20}, axis(1)},
  {{3, 17, 5}, axis(1)}, {{4, 0}, axis(1)}, {{0, 4}, axis(1)},
}
local both = {{exclusive = false, reverse = false},
  {exclusive = true, reverse = false}, {exclusive = false, reverse = true},
  {exclusive = true, reverse = true}}

local lines = {}
local function add(line)
  lines[#lines + 1] = line
end

for _, name in ipairs{"Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Sin", "Cos",
  "Atan", "Square", "Neg", "Expm1", "Log1p"} do
  add{name, shapes = one, dtypes = floats, units = 4, special = true}
  add{name, shapes = {{{33}}, {{257}}}, dtypes = complex, units = 8}
end
for _, name in ipairs{"Tan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Acosh",
  "Atanh", "Reciprocal", "Rsqrt", "Sign"} do
  add{name, shapes = {{{257}}}, dtypes = complex, units = 16, low = -20,
    high = 20}
end
for _, name in ipairs{"AddV2", "Sub", "Mul", "SquaredDifference"} do
  add{name, shapes = two, dtypes = {"float32", "half", "complex64", "int32"},
    units = 1}
end
for _, name in ipairs{"Equal", "Maximum", "Less"} do
  add{name, shapes = two, dtypes = {"float32", "half", "uint8"}, special = true,
    low = -1, high = 1}
end
add{"RealDiv", shapes = two, dtypes = {"float32", "bfloat16", "complex128"},
  units = 2, special = true}
for _, name in ipairs{"FloorDiv", "FloorMod", "TruncateDiv"} do
  add{name, shapes = two, dtypes = {"int32", "int8", "uint64"}, low = 1,
    high = 100}
end
add{"Pow", shapes = two, dtypes = {"int32", "int8", "int64"}, low = 0, high = 9}
add{"Pow", shapes = two, dtypes = floats, units = 8, low = 0.1}
add{"Complex", shapes = two, dtypes = {"float32"}, attrs = {Tout = "complex64"}}
add{"Igamma", shapes = {{{33}, {33}}}, dtypes = {"float32"}, low = 0.1,
  units = 8}

-- Of one sign: what nearly cancels says nothing of the sum.
for _, name in ipairs{"Sum", "Mean", "EuclideanNorm"} do
  add{name, shapes = folds, dtypes = some, units = 40, low = 0.4, high = 1.4,
    attrs = {{keep_dims = false}, {keep_dims = true}}}
end
add{"Prod", shapes = folds, dtypes = {"float32", "half", "int32", "uint8"},
  units = 300, low = 0.99, high = 1.01}
add{"Prod", shapes = {{{9, 7}, axes(0)}, {{9, 7}, axes(1)}}, units = 300,
  dtypes = complex, low = 0.9, high = 1.1}
for _, name in ipairs{"Max", "Min"} do
  add{name, shapes = folds, dtypes = reals}
  add{name, shapes = folds, dtypes = floats, special = true}
end
add{"All", shapes = folds, dtypes = {"bool"}}
add{"Any", shapes = folds, dtypes = {"bool"}}
local choices = {}
for _, s in ipairs(folds) do
  local n = s[2].value
  if #n == 1 and s[1][n[1] + 1] > 0 then
    choices[#choices + 1] = {s[1], axis(n[1])}
  end
end
for _, name in ipairs{"ArgMax", "ArgMin"} do
  add{name, shapes = choices, dtypes = reals, low = -4, high = 4}
  add{name, shapes = choices, dtypes = floats, special = true,
    attrs = {output_type = "int32"}}
end

for _, name in ipairs{"Cumsum", "Cumprod"} do
  add{name, shapes = scans, dtypes = {"float32", "half", "complex64", "int32",
    "uint8"}, attrs = both, units = 60, low = -1, high = 1}
end
add{"CumulativeLogsumexp", shapes = scans, dtypes = {"float32", "float64",
  "bfloat16"}, attrs = both, units = 30, special = true}

for _, from in ipairs{"float32", "float64", "half", "int32", "uint8", "int64",
  "bool", "complex64"} do
  for _, to in ipairs{"float32", "half", "bfloat16", "int8", "uint16", "int64",
    "bool", "complex128"} do
    add{"Cast", shapes = {{{0}}, {{33}}, {{1027}}}, dtypes = {from},
      attrs = {DstT = to}, low = -300, high = 300,
      special = true}
  end
end

local conditions = {}
for i, s in ipairs(three) do
  s[1].like = "bool"
  conditions[i] = s
end
add{"SelectV2", shapes = conditions, dtypes = {"float32", "uint8", "half",
  "complex128", "int64"}, special = true}
add{"Select", shapes = {{{33, like = "bool"}, {33, 5}, {33, 5}},
  {{like = "bool"}, {5, 3}, {5, 3}}}, dtypes = {"float32", "int8"}}
add{"ClipByValue", shapes = {{{33}, {}, {}}, {{257}, {257}, {257}},
  {{0}, {}, {}}}, dtypes = {"float32", "half", "int32", "uint8"}}
add{"Betainc", shapes = {{{33}, {33}, {33}}}, dtypes = {"float64"}, low = 0.1,
  high = 0.9, units = 64}
add{"Cross", shapes = {{{3}, {3}}, {{33, 3}, {33, 3}}, {{0, 3}, {0, 3}}},
  dtypes = {"float32", "half", "int32"}, units = 2}
add{"ApproximateEqual", shapes = {{{257}, {257}}}, attrs = {tolerance = 1.0}}
add{"AddN", list = true, shapes = {{{257}}, {{33}, {33}, {33}},
  {{7, 5}, {7, 5}}}, dtypes = some, units = 2}

add{"BroadcastTo", shapes = {{{1}, {value = {33}}}, {{3, 1}, {value = {3, 31}}},
  {{5}, {value = {7, 5}}}, {{1, 5, 1}, {value = {3, 5, 257}}},
  {{2, 3}, {value = {2, 3}}}}, dtypes = {"float32", "int8", "half",
  "complex128"}}
add{"Fill", shapes = {{{value = {33, 7}}, {}}, {{value = {0}}, {}}},
  dtypes = {"float32", "uint8", "complex64", "half"}}
add{"ZerosLike", shapes = one, dtypes = {"float32", "int8", "complex128"}}
add{"OnesLike", shapes = one, dtypes = {"float32", "half", "complex64",
  "int64"}}
add{"OneHot", shapes = {{{33, like = "int32"}, {value = 5}, {}, {}},
  {{3, 7, like = "int64"}, {value = 3}, {}, {}},
  {{0, like = "uint8"}, {value = 3}, {}, {}}},
  dtypes = {"float32", "int8"}, attrs = {{axis = -1}, {axis = 0}}}
add{"Bincount", shapes = {{{300, like = "int32"}, {value = 3}, {300}},
  {{300, like = "int32"}, {value = 7}, {0}}}, low = 0,
  dtypes = {"float32", "int32", "int64", "float64"}, units = 40}
add{"HistogramFixedWidth", shapes = {{{1000}, {value = {-2.0, 2.0},
  dtype = "float32"}, {value = 7}}}}
for _, name in ipairs{"Real", "Imag", "ComplexAbs", "Angle"} do
  add{name, shapes = one, dtypes = {"complex64"}, attrs = {Tout = "float32"},
    units = 2}
end
add{"Conj", shapes = one, dtypes = complex}

return lines
