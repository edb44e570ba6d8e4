-- parsing.lua - Examples written and read, tensors and tables as text.
--
-- The bytes that td.example writes are those of protobuf's own library, of the
-- same map in the order of its keys.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local function is(want, x) lu.assertEquals(x:table(), want) end

local function hex(s)
  return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- ---- writing --------------------------------------------------------------

function tests.bytes_of_an_example()
  lu.assertEquals(hex(td.example{}), "0a00")
  lu.assertEquals(hex(td.example{a = 1}), "0a0c0a0a0a016112051a030a0101")
  lu.assertEquals(hex(td.example{b = "x", a = {0.5, 2}}),
    "0a1f0a110a0161120c120a0a080000003f000000400a0a0a016212050a030a0178")
  lu.assertEquals(hex(td.example{n = -1}),
    "0a150a130a016e120e1a0c0a0affffffffffffffffff01")
  lu.assertEquals(td.example{a = 3, b = {"x"}, c = {1.5}},
                  td.example{c = 1.5, b = "x", a = {3}})
end

function tests.what_an_example_takes()
  local same = td.example{a = {1, 0, 3}}
  lu.assertEquals(td.example{a = td.tensor({1, 0, 3}, "int32")}, same)
  lu.assertEquals(td.example{a = {true, false, 3}}, same)
  lu.assertEquals(td.example{a = td.tensor{{1.5, 2}, {3, 4}}},
                  td.example{a = {1.5, 2, 3, 4}})
  lu.assertEquals(td.example{a = td.tensor{"b", "c"}},
                  td.example{a = {"b", "c"}})
  lu.assertEquals(hex(td.example{a = td.tensor({}, "float32")}),
                  "0a090a070a016112021200")
  lu.assertEquals(hex(td.example{a = {}}), "0a070a050a01611200")
  raises("feature \"a\": element 2 is a string; the others are numbers",
         td.example, {a = {1, "x"}})
  raises("feature \"a\": element 1 is a function", td.example, {a = print})
  raises("feature \"a\" is a graph tensor", td.example, {a = td.constant(1)})
  raises("keys are strings, not 1", td.example, {5})
  raises("a table by key is needed, not a number", td.example, 5)
  raises("has a hole", td.example, {a = {1, nil, 3}})
end

function tests.bytes_of_a_sequence_example()
  local o = {context = {id = 7}, feature_lists = {w = {"a", {}}}}
  lu.assertEquals(hex(td.sequence_example(o)),
    "0a0d0a0b0a02696412051a030a010712100a0e0a017712090a050a030a01610a00")
  raises("no option \"contxt\"; did you mean \"context\"",
         td.sequence_example, {contxt = {}})
  raises("feature list \"w\" must be a list, not number", td.sequence_example,
         {feature_lists = {w = 5}})
end

-- ---- reading --------------------------------------------------------------

local function batch()
  return {td.example{label = 3, size = {0.5, 2.0}, tags = {"a", "b"},
                     path = {1.0, 2.0, 3.0, 4.0}},
          td.example{label = 4, size = {1.0, 1.5}, tags = "c", other = 1}}
end

local function sequences()
  return {td.sequence_example{context = {id = 7, tags = {"a", "b"}},
                              feature_lists = {w = {3, {4}, 5}, x = {{1.5, 2}},
                                               s = {{"m", "n"}, {}, "o"}}},
          td.sequence_example{feature_lists = {w = {6}, s = {}}}}
end

local listed = {
  w = td.fixed_len_sequence_feature({}, "int64"),
  x = td.fixed_len_sequence_feature({2}, "float32", 0),
  s = td.var_len_feature "string"}

function tests.a_batch_of_sequences()
  local context, x, lengths = td.parse_sequence_example(sequences(), {
    context = {id = td.fixed_len_feature({}, "int64", -1),
               tags = td.ragged_feature "string"},
    sequence = listed})
  is({7, -1}, context.id)
  is({"a", "b"}, context.tags.values)
  is({0, 2, 2}, context.tags.row_splits)
  is({{3, 4, 5}, {6, 0, 0}}, x.w)
  is({{{1.5, 2}}, {{0, 0}}}, x.x)
  is({3, 1}, lengths.w)
  is({1, 0}, lengths.x)
  is({"m", "n", "o"}, x.s.values)
  is({{0, 0, 0}, {0, 0, 1}, {0, 2, 0}}, x.s.indices)
  is({2, 3, 2}, x.s.dense_shape)
  local _, ragged = td.parse_sequence_example(sequences(), {
    sequence = {s = td.ragged_feature("string", "int32")}})
  is({0, 3, 3}, ragged.s.row_splits)
  is({0, 2, 2, 3}, ragged.s.inner_splits)
end

function tests.one_sequence()
  local bytes = sequences()[1]
  local context, x, lengths = td.parse_single_sequence_example(bytes, {
    context = {tags = td.var_len_feature "string"}, sequence = listed})
  is({"a", "b"}, context.tags.values)
  is({3, 4, 5}, x.w)
  is({{0, 0}, {0, 1}, {2, 0}}, x.s.indices)
  lu.assertEquals(lengths.w:item(), 3)
  local node = td.constant(bytes)
  local _, there = td.parse_single_sequence_example(node, {sequence = listed})
  is({{1.5, 2}}, there.x:eval())
end

function tests.wrong_sequences()
  local parse = td.parse_sequence_example
  raises("1, \"n1\": feature list \"x\" (float32, shape {2}) is missing",
         parse, sequences(),
         {sequence = {x = td.fixed_len_sequence_feature({2}, "float32")}},
         {names = {"n0", "n1"}})
  raises("step 0: has values of int64, not of float32", parse, sequences(),
         {sequence = {w = td.var_len_feature "float32"}})
  raises("has steps: take a td.fixed_len_sequence_feature", parse, sequences(),
         {sequence = {w = td.fixed_len_feature({}, "int64")}})
  raises("is of any length", parse, sequences(),
         {context = {w = td.fixed_len_sequence_feature({}, "int64")}})
  raises("filled up with zeros", parse, sequences(),
         {sequence = {w = td.fixed_len_sequence_feature({}, "int64", 5)}})
  raises("no option \"lists\"", parse, sequences(), {lists = {}})
  raises("is ragged", td.parse_single_sequence_example, sequences()[1],
         {sequence = {s = td.ragged_feature "string"}})
end

function tests.a_batch()
  local x = td.parse_example(batch(), {
    label = td.fixed_len_feature({}, "int64"),
    size = td.fixed_len_feature({2}, "float32"),
    rank = td.fixed_len_feature({2, 1}, "int64", {{5}, {6}}),
    score = td.fixed_len_feature({2}, "float32", 0.5),
    far = td.fixed_len_feature({2}, "int64", {1 << 40}),
    tags = td.var_len_feature "string",
    path = td.fixed_len_sequence_feature({2}, "float32", -1)})
  is({3, 4}, x.label)
  is({{0.5, 2}, {1, 1.5}}, x.size)
  is({{{5}, {6}}, {{5}, {6}}}, x.rank)
  is({{0.5, 0.5}, {0.5, 0.5}}, x.score)
  is({{1 << 40, 1 << 40}, {1 << 40, 1 << 40}}, x.far)
  is({"a", "b", "c"}, x.tags.values)
  is({{0, 0}, {0, 1}, {1, 0}}, x.tags.indices)
  is({2, 2}, x.tags.dense_shape)
  is({{{1, 2}, {3, 4}}, {{-1, -1}, {-1, -1}}}, x.path)
end

function tests.ragged()
  local x = td.parse_example(batch(), {
    tags = td.ragged_feature "string", path = td.ragged_feature("float32",
                                                               "int32")})
  is({"a", "b", "c"}, x.tags.values)
  is({0, 2, 3}, x.tags.row_splits)
  lu.assertEquals(x.path.row_splits.dtype, "int32")
  raises("feature \"tags\" is ragged", td.parse_single_example, batch()[1],
         {tags = td.ragged_feature "string"})
end

function tests.one()
  local features = {label = td.fixed_len_feature({}, "int64"),
                    tags = td.var_len_feature "string",
                    path = td.fixed_len_sequence_feature({}, "float32")}
  for _, parse in ipairs{td.parse_example, td.parse_single_example} do
    local x = parse(batch()[1], features)
    lu.assertEquals(x.label:item(), 3)
    is({{0}, {1}}, x.tags.indices)
    is({2}, x.tags.dense_shape)
    is({1, 2, 3, 4}, x.path)
  end
end

function tests.in_a_graph()
  local s = td.placeholder("string", {-1})
  local x = td.parse_example(s, {
    label = td.fixed_len_feature({}, "int64"),
    tags = td.var_len_feature "string",
    path = td.fixed_len_sequence_feature({2}, "float32")}, "parse")
  lu.assertEquals(x.label.shape, {-1})
  lu.assertEquals(x.path.shape, {-1, -1, 2})
  lu.assertEquals(x.tags.indices.shape, {-1, 2})
  lu.assertEquals(x.label.op.name, "parse")
  local got = td.session():run(x, {[s] = batch()})
  is({3, 4}, got.label)
  is({"a", "b", "c"}, got.tags.values)
end

function tests.sparse_ids_are_looked_up()
  local x = td.parse_example({td.example{ids = {1, 2}}, td.example{ids = 0}},
                             {ids = td.var_len_feature "int64"})
  local rows = td.constant{{1.0}, {2.0}, {4.0}}
  is({{3}, {1}}, td.nn.embedding_lookup_sparse(rows, x.ids):eval())
end

function tests.what_is_wrong_with_an_example()
  local good = batch()
  local function parse(feature, o, from)
    return function() td.parse_example(from or good, {size = feature}, o) end
  end
  raises("example 0: feature \"size\" has 2 values, and shape {3} takes 3",
         parse(td.fixed_len_feature({3}, "float32")))
  raises("example 0: feature \"size\" has values of float32, not of int64",
         parse(td.var_len_feature "int64"))
  raises("example 1, \"b.png\": feature \"size\" (float32, shape {2}) is",
         parse(td.fixed_len_feature({2}, "float32"), {names = {"a", "b.png"}},
               {good[1], td.example{}}))
  raises("example 1: its 7 bytes are no whole Example",
         parse(td.var_len_feature "float32", nil, {good[1], "garbage"}))
  raises("names must be empty or of serialized's shape {2}, not {1}",
         parse(td.var_len_feature "float32", {names = {"a"}}))
end

function tests.what_is_wrong_with_a_feature()
  raises("the dtype is \"float32\", \"int64\" or \"string\", not int32",
         td.var_len_feature, "int32")
  raises("the dtype is", td.fixed_len_feature, {2})
  raises("size 0 of the shape is a known one, not -1", td.fixed_len_feature,
         {-1}, "int64")
  raises("the shape must be a list", td.fixed_len_feature, 2, "int64")
  raises("feature \"x\" is a td.fixed_len_feature", td.parse_example, batch(),
         {x = "float32"})
  raises("features are a table by key", td.parse_example, batch(), 3)
  raises("default", td.parse_example, batch(),
         {x = td.fixed_len_sequence_feature({}, "int64", {1, 2})})
  raises("3 element", td.parse_example, batch(),
         {x = td.fixed_len_feature({2}, "int64", {1, 2, 3})})
end

-- ---- other bytes ----------------------------------------------------------

function tests.columns()
  local a, b = table.unpack(td.decode_csv({"1,x", ",\"y,\"\"z\""}, {7, ""}))
  is({1, 7}, a)
  is({"x", "y,\"z"}, b)
  local c = td.decode_csv({"0;1;2"}, {0.5},
                          {field_delim = ";", select_cols = {2}})
  is({2}, c[1])
  raises("record 1, field 0: is empty, and has no default", td.decode_csv,
         {"1", ","}, {td.tensor({}, "int32")}, {select_cols = {0}})
  raises("record 0: has 2 fields, expected are 1", td.decode_csv, {"1,2"}, {0})
  raises("record 1, field 0: \"x\" is no int32", td.decode_csv, {"1", "x"}, {0})
  raises("the defaults must be a list", td.decode_csv, {"1"}, 0)
end

function tests.tensors_as_strings()
  for _, x in ipairs{td.tensor{{1.5, -2.0}}, td.tensor{1, 2, 3},
                     td.tensor{"a", "", "moon"}, td.tensor(true)} do
    local y = td.parse_tensor(td.serialize_tensor(x), x.dtype)
    lu.assertEquals(y.shape, x.shape)
    is(x:reshape{-1}:table(), y:reshape{-1})
  end
  raises("is a tensor of float32, and out_type is int32", td.parse_tensor,
         td.serialize_tensor{1.5}, "int32")
  raises("is no tensor", td.parse_tensor, "moon", "int32")
  is({{97, 98}, {99, 0}}, td.decode_padded_raw({"abc", "c"}, 2, "uint8"))
end

-- What a few bytes stand for has the device's memory, and no more.
function tests.compressed()
  local gzip = "\31\139\8\0\0\0\0\0\2\3\43\201\76\73\5\0\12\35\86\190\4"
    .. "\0\0\0"
  lu.assertEquals(td.decode_compressed("as it is"):item(), "as it is")
  lu.assertEquals(td.decode_compressed(gzip, {compression_type = "GZIP"})
    :item(), "tide")
  local many, zip = {}, {compression_type = "GZIP"}
  for k = 1, 2000 do many[k] = k % 3 == 0 and "" or gzip end
  local all = td.decode_compressed(many, zip)
  lu.assertEquals(all[0]:item(), td.decode_compressed(gzip, zip):item())
  lu.assertEquals(all[1997]:item(), "")
  lu.assertEquals(all[1998]:item(), all[0]:item())
  many[1800], many[900] = "no", "no"
  raises("string 899: ", td.decode_compressed, many, zip)
  raises("string 0: it ends too early", td.decode_compressed, gzip:sub(1, 20),
         {compression_type = "GZIP"})
  raises("must be \"ZLIB\", \"GZIP\" or \"\"", td.decode_compressed, gzip,
         {compression_type = "ZIP"})
  raises("\"ZSTD\" is not supported", td.decode_compressed, gzip,
         {compression_type = "ZSTD"})
end

-- So many that there are several pieces of work.
function tests.many_records()
  local records, names = {}, {}
  for i = 1, 20000 do
    names[i] = ("name %d"):format(i % 97)
    records[i] = ("%d,%s,%d.5"):format(i, i % 5 == 0 and "" or names[i], i)
    if i % 5 == 0 then names[i] = "nobody" end
  end
  local a, b, c = table.unpack(td.decode_csv(records, {0, "nobody", 0.5}))
  lu.assertEquals(a:sum():item(), 20000 * 20001 // 2)
  lu.assertEquals(b:table(), names)
  lu.assertEquals(c[19999]:item(), 20000.5)
  records[15001], records[4001] = "x,y,1", "1,2"
  raises("record 4000: has 2 fields", td.decode_csv, records, {0, "", 0.5})
end

return tests
