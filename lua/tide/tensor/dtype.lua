--- tensor/dtype.lua - the names of dtypes and what follows from them.
--
-- A dtype is a string; `td.float32` is "float32".
-- SPDX-License-Identifier: Apache-2.0

local dtype = {}

dtype.names = {
  "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32",
  "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string",
  "complex64", "complex128", "resource", "variant", "qint8", "quint8",
  "qint16", "quint16", "qint32",
}

local is_name = {}
for _, name in ipairs(dtype.names) do is_name[name] = true end

local floats = {float16 = true, bfloat16 = true, float32 = true, float64 = true}

--- What integers divide to, as TensorFlow's true division does.
dtype.quotient = {
  int8 = "float32", uint8 = "float32", int16 = "float32", uint16 = "float32",
  int32 = "float64", uint32 = "float64", int64 = "float64", uint64 = "float64",
}

--- The dtype of the parts of complex numbers, and the other way round.
dtype.part = {complex64 = "float32", complex128 = "float64"}
dtype.whole = {float32 = "complex64", float64 = "complex128"}

function dtype.is_name(x) return is_name[x] or false end
function dtype.is_float(t) return floats[t] or false end
function dtype.is_complex(t) return t == "complex64" or t == "complex128" end
function dtype.is_integer(t) return dtype.quotient[t] ~= nil end

--- Bytes of one element, nil where they vary.
function dtype.size(t)
  if t == "bool" then return 1 end
  local bits = t:match "%d+$"
  return bits and bits // 8
end

--- Does a gradient flow through tensors of this dtype? Resources carry those
-- of variables, variants those of what is in a list.
function dtype.differentiable(t)
  return floats[t] or dtype.is_complex(t) or t == "resource" or t == "variant"
end

return dtype
