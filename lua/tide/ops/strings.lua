--- ops/strings.lua - strings; td.strings has its short names.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local namespace = require "tide.ops"

local ops = namespace.ops

namespace.not_methods{"string_join", "string_format"}

--- The numbers in the bytes of each string, along a new last axis.
-- @param dtype "uint8" or another number dtype
-- @param[opt] o little_endian (true)
-- @usage td.decode_raw("ab", "uint8")  --> 97 98
function ops.decode_raw(bytes, dtype, o)
  o = args.options(o, "decode_raw")
  o.out_type = dtype or o.out_type
  return core.op "DecodeRaw"(bytes, o)
end

--- The number that each string is.
-- @param[opt="float32"] dtype of the result
-- @usage td.string_to_number{"1.5", "2"}  --> 1.5 2
function ops.string_to_number(x, dtype, o)
  if args.plain(dtype) then dtype, o = nil, dtype end
  o = args.options(o, "string_to_number")
  o.out_type = dtype or o.out_type
  return core.op "StringToNumber"(x, o)
end

--- Each string cut at `sep` (at white space without it): indices, values and
-- shape of a sparse matrix with a row for each. Option maxsplit.
function ops.string_split(x, sep, o)
  if args.plain(sep) then sep, o = nil, sep end
  return core.op "StringSplitV2"(x, sep or "", args.options(o, "string_split"))
end

--- The strings along `axes` (all), joined. Options separator, keep_dims.
-- @usage td.reduce_join({{"a", "b"}, {"c", "d"}}, {1})  --> ab cd
function ops.reduce_join(x, axes, o)
  if args.has_names(axes) and o == nil then axes, o = nil, axes end
  o = args.options(o, "reduce_join")
  if math.type(axes) == "integer" then axes = {axes} end
  if axes == nil then
    local rank = args.is_tensor(x) and x.rank
                 or not args.is_tensor(x) and core.tensor(x).rank
    axes = {}
    for i = 1, rank or 0 do axes[i] = rank - i end
    if not rank then axes = ops.range(ops.rank(x) - 1, -1, -1) end
  end
  if type(axes) == "table" and #axes == 0 then
    axes = core.tensor(axes, "int32")
  end
  return core.op "ReduceJoin"(x, axes, o)
end

--- A text with values in it: each "{}" of the template stands for one. Of each
-- axis of an array the first and the last three elements are written.
-- @param template
-- @param values a list, or one tensor
-- @param[opt] o placeholder ("{}"); summarize (3), negative for all
-- @usage td.string_format("{} of {}", {{1, 2}, 3})  --> [1 2] of 3
function ops.string_format(template, values, o)
  o = args.options(o, "string_format")
  o.template = args.expect(template, "string", "string_format: the template")
  o.placeholder = o.placeholder or "{}"
  if args.is_tensor(values) or type(values) ~= "table" then
    values = {values}
  end
  return core.op "StringFormat"(values, o)
end
