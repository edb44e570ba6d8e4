--- ops/parsing.lua - records of bytes and lines of text, as tensors.
--
-- What is wanted of an Example is a table by key. A feature of a known size is
-- one dense tensor; one of any size is sparse, in the form of
-- embedding_lookup_sparse: {indices =, values =, dense_shape =}.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local namespace = require "tide.ops"

local ops = namespace.ops
local fail = errors.invalid

namespace.not_methods{"fixed_len_feature", "var_len_feature", "ragged_feature",
                      "fixed_len_sequence_feature", "decode_csv",
                      "decode_padded_raw", "parse_example",
                      "parse_sequence_example", "parse_single_example",
                      "parse_single_sequence_example", "parse_tensor"}

-- ---- what is wanted -------------------------------------------------------

-- Features are tables with this.
local meta = {__name = "feature"}

local dtypes = {"float32", "int64", "string"}

local function wanted(what, feature)
  if not args.holds(dtypes, feature.dtype) then
    fail("%s: the dtype is \"float32\", \"int64\" or \"string\", not %s", what,
         tostring(feature.dtype))
  end
  return setmetatable(feature, meta)
end

local function check_shape(shape, what)
  args.check_list(shape, what .. ": the shape")
  for i, n in ipairs(shape) do
    if math.type(n) ~= "integer" or n < 0 then
      fail("%s: size %d of the shape is a known one, not %s", what, i - 1,
           tostring(n))
    end
  end
  return shape
end

--- A feature with as many values in every Example: one dense tensor.
-- @param shape of it in one Example, {} for a scalar
-- @param dtype "float32", "int64" or "string"
-- @param[opt] default for Examples that lack it, of that shape or one number;
-- without one it must be there
-- @usage td.parse_example({td.example{x = 3}}, {
--   x = td.fixed_len_feature({}, "int64"),
--   y = td.fixed_len_feature({2}, "float32", 0.5)}).y  --> 0.5 0.5
function ops.fixed_len_feature(shape, dtype, default)
  local what = "fixed_len_feature"
  return wanted(what, {form = "dense", shape = check_shape(shape, what),
                       dtype = dtype, default = default})
end

--- A feature with any number of values: {indices =, values =, dense_shape =}.
-- @param dtype "float32", "int64" or "string"
-- @usage td.parse_example({td.example{x = {3, 4}}}, {
--   x = td.var_len_feature "int64"}).x.values  --> 3 4
function ops.var_len_feature(dtype)
  return wanted("var_len_feature", {form = "sparse", dtype = dtype})
end

--- A feature with any number of rows: one dense tensor, as long as the longest.
-- @param shape of one row, {} for a number
-- @param dtype "float32", "int64" or "string"
-- @param[opt] default an element, with which shorter ones are filled up (0 or
-- "")
-- @usage td.parse_example({td.example{x = {3, 4}}, td.example{}}, {
--   x = td.fixed_len_sequence_feature({}, "int64", -1)}).x  --> 3 4 -1 -1
function ops.fixed_len_sequence_feature(shape, dtype, default)
  local what = "fixed_len_sequence_feature"
  return wanted(what, {form = "dense", rows = true, dtype = dtype,
                       shape = {-1, table.unpack(check_shape(shape, what))},
                       default = default})
end

--- A feature with any number of values, one Example's after the other:
-- {values =, row_splits =}. Those of Example i begin at row_splits[i].
-- @param dtype "float32", "int64" or "string"
-- @param[opt="int64"] splits the dtype of row_splits, or "int32"
-- @usage td.parse_example({td.example{x = {3, 4}}, td.example{x = 5}}, {
--   x = td.ragged_feature "int64"}).x.row_splits  --> 0 2 3
function ops.ragged_feature(dtype, splits)
  return wanted("ragged_feature", {form = "ragged", dtype = dtype,
                                   splits = splits or "int64"})
end

-- The default of a dense feature: of its shape; none has no elements.
local function preset(f)
  local x = f.default
  if f.rows and x == nil then x = f.dtype == "string" and "" or 0 end
  if x == nil then return core.tensor({}, f.dtype) end
  if not args.is_tensor(x) then x = core.tensor(x, f.dtype) end
  if f.rows or core.kind(x) ~= "tensor" then return x end
  local shape, scalar = core.tensor(f.shape, "int32"), core.tensor({}, "int32")
  local reshape = core.op "Reshape"
  return x.size == 1 and core.op "Fill"(shape, reshape(x, scalar))
    or reshape(x, shape)
end

-- The features of a table, by form: keys, dtypes, shapes, defaults, in the
-- order of their keys.
local function sort_out(features, what)
  if not args.plain(features) then
    fail("%s: features are a table by key, not a %s", what, args.what(features))
  end
  local by = {}
  for _, form in ipairs{"sparse", "dense", "ragged"} do
    by[form] = {keys = {}, dtypes = {}, shapes = {}, defaults = {}, splits = {}}
  end
  for _, key in ipairs(args.sorted_keys(features)) do
    local f = features[key]
    if getmetatable(f) ~= meta then
      fail("%s: feature \"%s\" is a td.fixed_len_feature, var_len_feature, "
        .. "fixed_len_sequence_feature or ragged_feature, not a %s", what, key,
        args.what(f))
    end
    local form = by[f.form]
    local n = #form.keys + 1
    form.keys[n], form.dtypes[n] = key, f.dtype
    form.shapes[n], form.splits[n] = f.shape, f.splits
    form.defaults[n] = f.form == "dense" and preset(f) or nil
  end
  return by.sparse, by.dense, by.ragged
end

-- ---- Examples -------------------------------------------------------------

local function keys(form) return core.tensor(form.keys, "string") end

-- The results of an op as a table by key.
local function by_key(sparse, dense, ragged, indices, values, shapes, whole,
                      parts, splits)
  local t = {}
  for i, key in ipairs(sparse.keys) do
    t[key] = {indices = indices[i], values = values[i],
              dense_shape = shapes[i]}
  end
  for i, key in ipairs(dense.keys) do t[key] = whole[i] end
  for i, key in ipairs(ragged.keys) do
    t[key] = {values = parts[i], row_splits = splits[i]}
  end
  return t
end

--- A batch of serialized Examples as tensors.
-- @param serialized a vector of strings, as td.example makes them
-- @param features a table by key: td.fixed_len_feature and its like
-- @param[opt] o names (a vector of strings, told in errors), name
-- @return a table by the same keys: tensors whose first axis is the batch, or
-- {indices =, values =, dense_shape =}, or {values =, row_splits =}.
-- invalid_argument when an Example lacks what has no default, or has it of
-- another kind or size: Example and key are told.
-- @usage td.parse_example({td.example{x = 1}, td.example{x = 2}}, {
--   x = td.fixed_len_feature({}, "int64")}).x  --> 1 2
function ops.parse_example(serialized, features, o)
  o = args.read(o, {"names", "name"}, "parse_example")
  local sparse, dense, ragged = sort_out(features, "parse_example")
  return by_key(sparse, dense, ragged, core.op "ParseExampleV2"(
    serialized, o.names or core.tensor({}, "string"), keys(sparse),
    keys(dense), keys(ragged), dense.defaults,
    {num_sparse = #sparse.keys, sparse_types = sparse.dtypes,
     Tdense = dense.dtypes, dense_shapes = dense.shapes,
     ragged_value_types = ragged.dtypes, ragged_split_types = ragged.splits,
     name = o.name}))
end

--- One serialized Example as tensors, without an axis for a batch.
-- @param serialized a string
-- @param features as td.parse_example's, but ragged ones
-- @param[opt] o name
-- @return a table by the same keys
-- @usage td.parse_single_example(td.example{x = {1.5, 2}}, {
--   x = td.fixed_len_feature({2}, "float32")}).x  --> 1.5 2
function ops.parse_single_example(serialized, features, o)
  o = args.read(o, {"name"}, "parse_single_example")
  local sparse, dense, ragged = sort_out(features, "parse_single_example")
  if ragged.keys[1] then
    fail("parse_single_example: feature \"%s\" is ragged, which one Example "
      .. "alone is not: take a td.var_len_feature", ragged.keys[1])
  end
  return by_key(sparse, dense, ragged, core.op "ParseSingleExample"(
    serialized, dense.defaults,
    {num_sparse = #sparse.keys, sparse_keys = sparse.keys,
     sparse_types = sparse.dtypes, dense_keys = dense.keys,
     Tdense = dense.dtypes, dense_shapes = dense.shapes, name = o.name}))
end

-- ---- SequenceExamples -------------------------------------------------------

-- The features of the context and of the lists, by form. A dense list is of any
-- number of steps, so that it is a fixed_len_sequence_feature; a default says
-- that it may lack.
local function sort_out_both(o, what)
  local context = {sort_out(o.context or {}, what)}
  for key, f in pairs(args.plain(o.sequence) and o.sequence or {}) do
    if getmetatable(f) == meta and f.form == "dense" and not f.rows then
      fail("%s: list \"%s\" has steps: take a td.fixed_len_sequence_feature",
           what, key)
    end
  end
  local lists = {sort_out(o.sequence or {}, what)}
  for _, key in ipairs(args.sorted_keys(o.context or {})) do
    if o.context[key].rows then
      fail("%s: \"%s\" of the context is of any length: take a "
        .. "td.var_len_feature", what, key)
    end
  end
  local dense = lists[2]
  dense.lacks = {}
  for i, key in ipairs(dense.keys) do
    local f = o.sequence[key]
    if f.default ~= nil and f.default ~= 0 and f.default ~= "" then
      fail("%s: list \"%s\" is filled up with zeros or \"\"; its default is "
        .. "one of these or none", what, key)
    end
    dense.shapes[i] = {table.unpack(f.shape, 2)}
    dense.lacks[i] = f.default ~= nil
  end
  return context, lists
end

-- The attributes that both ops have.
local function attributes_of(context, lists, name)
  return {
    Ncontext_sparse = #context[1].keys,
    context_sparse_types = context[1].dtypes,
    context_dense_shapes = context[2].shapes,
    Tcontext_dense = context[2].dtypes,
    Nfeature_list_sparse = #lists[1].keys,
    feature_list_sparse_types = lists[1].dtypes,
    Nfeature_list_dense = #lists[2].keys,
    feature_list_dense_types = lists[2].dtypes,
    feature_list_dense_shapes = lists[2].shapes, name = name}
end

local function both_by_key(context, lists, c, l)
  local of_context = by_key(context[1], context[2], context[3], c[1], c[2],
                            c[3], c[4], c[5], c[6])
  local of_lists = by_key(lists[1], lists[2], lists[3], l[1], l[2], l[3], l[4],
                          l[6], l[7])
  local lengths = {}
  for i, key in ipairs(lists[2].keys) do lengths[key] = l[5][i] end
  for i, key in ipairs(lists[3].keys) do
    of_lists[key].inner_splits = l[8][i]
  end
  return of_context, of_lists, lengths
end

--- SequenceExamples as tensors.
-- @param serialized a vector of strings, as td.sequence_example makes them
-- @param features context and sequence, tables by key (either may be left out).
-- Of the context as td.parse_example's, of a known size, any number or ragged.
-- Of the sequence, whose steps have values each: a
-- td.fixed_len_sequence_feature of a step's shape (with default 0 or "" it may
-- lack), a td.var_len_feature or a td.ragged_feature
-- @param[opt] o names (a vector of strings, told in errors), name
-- @return a table of the context by key, one of the sequence by key, and one
-- with how many steps the dense ones have, {batch} each. Dense is {batch, most
-- steps, ...}, filled up with zeros or ""; sparse has places {example, step,
-- value}; ragged {values =, row_splits = steps of each example, inner_splits =
-- values of each step}. invalid_argument as td.parse_example
-- @usage local _, x, lengths = td.parse_sequence_example(
--   {td.sequence_example{feature_lists = {w = {3, 4}}}},
--   {sequence = {w = td.fixed_len_sequence_feature({}, "int64")}})
-- x.w  --> 3 4
function ops.parse_sequence_example(serialized, features, o)
  local what = "parse_sequence_example"
  o = args.read(o, {"names", "name"}, what)
  local context, lists = sort_out_both(
    args.read(features, {"context", "sequence"}, what), what)
  local a = attributes_of(context, lists, o.name)
  a.context_ragged_value_types = context[3].dtypes
  a.context_ragged_split_types = context[3].splits
  a.feature_list_ragged_value_types = lists[3].dtypes
  a.feature_list_ragged_split_types = lists[3].splits
  local y = table.pack(core.op "ParseSequenceExampleV2"(
    serialized, o.names or core.tensor({}, "string"), keys(context[1]),
    keys(context[2]), keys(context[3]), keys(lists[1]), keys(lists[2]),
    keys(lists[3]), core.tensor(lists[2].lacks, "bool"), context[2].defaults,
    a))
  return both_by_key(context, lists, y, {table.unpack(y, 7, 14)})
end

--- One SequenceExample as tensors, without an axis for a batch.
-- @param serialized a string
-- @param features as td.parse_sequence_example's, but ragged ones
-- @param[opt] o name
-- @return the context by key, the sequence by key, and how many steps the dense
-- ones have
-- @usage local _, x = td.parse_single_sequence_example(
--   td.sequence_example{feature_lists = {w = {{1, 2}, {3}}}},
--   {sequence = {w = td.var_len_feature "int64"}})
-- x.w.values  --> 1 2 3
function ops.parse_single_sequence_example(serialized, features, o)
  local what = "parse_single_sequence_example"
  o = args.read(o, {"name"}, what)
  local context, lists = sort_out_both(
    args.read(features, {"context", "sequence"}, what), what)
  for _, side in ipairs{context, lists} do
    if side[3].keys[1] then
      fail("%s: feature \"%s\" is ragged, which one SequenceExample alone is "
        .. "not: take a td.var_len_feature", what, side[3].keys[1])
    end
  end
  local lack = {}
  for i, key in ipairs(lists[2].keys) do
    if lists[2].lacks[i] then lack[#lack + 1] = key end
  end
  local a = attributes_of(context, lists, o.name)
  a.Ncontext_dense = #context[2].keys
  local y = table.pack(core.op "ParseSingleSequenceExample"(
    serialized, core.tensor(lack, "string"), context[1].keys, context[2].keys,
    lists[1].keys, lists[2].keys, context[2].defaults, "", a))
  local lengths = {}
  for i, x in ipairs(y[8]) do
    lengths[i] = core.op "StridedSlice"(core.op "Shape"(x), {0}, {1}, {1},
                                        {shrink_axis_mask = 1})
  end
  return both_by_key(context, lists, y, {y[5], y[6], y[7], y[8], lengths})
end

-- ---- other bytes ----------------------------------------------------------

--- The tensor that td.serialize_tensor made a string of.
-- @param serialized a string
-- @param dtype of the tensor; another is invalid_argument
-- @param[opt] o name
-- @usage td.parse_tensor(td.serialize_tensor({1.5, 2}), "float32")  --> 1.5 2
function ops.parse_tensor(serialized, dtype, o)
  o = args.options(o, "parse_tensor")
  o.out_type = dtype or o.out_type
  return core.op "ParseTensor"(serialized, o)
end

--- The numbers in the first bytes of each string, along a new last axis; zeros
-- where it is shorter.
-- @param bytes strings
-- @param length how many bytes of each
-- @param dtype "uint8" or another number dtype
-- @param[opt] o little_endian (true), name
-- @usage td.decode_padded_raw({"ab", "c"}, 2, "uint8")  --> 97 98 99 0
function ops.decode_padded_raw(bytes, length, dtype, o)
  o = args.options(o, "decode_padded_raw")
  o.out_type = dtype or o.out_type
  return core.op "DecodePaddedRaw"(bytes, length, o)
end

--- Records of comma separated fields as tensors, one for each column.
-- @param records strings, a record each, without line ends
-- @param defaults a list: for each column what an empty field is, whose dtype
-- is the column's; td.tensor({}, dtype) where a field must not be empty
-- @param[opt] o field_delim (","), use_quote_delim (true), na_value (""): what
-- else stands for an empty field, select_cols: the columns that are wanted,
-- counted from 0, in their order; name
-- @return a list of tensors, each of the shape of the records.
-- invalid_argument, with the record's number and the field's, where a field is
-- no number or there are too many or too few
-- @usage local age, name = table.unpack(
--   td.decode_csv({"7,moon", ",tide"}, {-1, "nobody"}))
-- age  --> 7 -1
function ops.decode_csv(records, defaults, o)
  args.check_list(defaults, "decode_csv: the defaults")
  return core.op "DecodeCSV"(records, defaults, args.options(o, "decode_csv"))
end
