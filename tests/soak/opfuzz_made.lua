-- opfuzz_made.lua - calls of ops that take what other calls make.
--
-- Random arguments are seldom a handle of a queue that holds something, or the
-- bytes of a sound file. Here stand ways to make them, by the op that takes
-- them: `made[op](c)` gives inputs and options that are right but for what
-- chance spoils, and has run what must come before. What the makers need of the
-- program (core_run, a folder with files) they are given by made.begin.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"

local random = math.random
local calls = {}
local made = {calls = calls}
local args, pick, chance, run
local folder -- of files to be read

-- ---- small things ----------------------------------------------------------

local numbers = {"float32", "int32", "int64", "float64"}
local any = {"float32", "int64", "string", "bool", "int32", "complex64",
  "uint8"}

local function strings(list) return core.tensor(list, "string", {#list}) end
local function text(s) return core.tensor({s}, "string", {}) end
local function int(n, dtype) return core.tensor({n}, dtype or "int32", {}) end
local function with(front, shape)
  return table.move(shape, 1, #shape, #front + 1, table.move(front, 1, #front,
    1, {}))
end

-- The bytes, of which now and then one is another or the last are missing.
local function spoiled(bytes)
  if #bytes == 0 or chance(70) then return bytes end
  local at = random(#bytes)
  if chance(40) then return bytes:sub(1, at - 1) end
  return bytes:sub(1, at - 1) .. string.char(random(0, 255))
    .. bytes:sub(at + 1)
end

local function before(op, ...)
  return run({(core.op(op)(...))}, {}, {}, 0.1)
end

-- ---- queues and readers ----------------------------------------------------

-- A queue of two components with n elements.
local function queue(c, n)
  local types = {pick(any), pick(any)}
  local shapes = {c.like, {}}
  local kind = pick{"FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2",
    "PriorityQueueV2"}
  local handle = core.op(kind){capacity = pick{-1, 4, 9},
    component_types = types, shapes = shapes}
  if kind == "PriorityQueueV2" then
    table.insert(types, 1, "int64")
    table.insert(shapes, 1, {})
  end
  local function element(front)
    local list = {}
    for i, dtype in ipairs(types) do
      list[i] = args.value(dtype, with(front, shapes[i]))
    end
    return list
  end
  for _ = 1, n do before("QueueEnqueueV2", handle, element{}) end
  return handle, types, element
end

function calls.QueueEnqueueV2(c)
  local handle, _, element = queue(c, pick{0, 1, 4})
  return {handle, element{}}
end

function calls.QueueEnqueueManyV2(c)
  local handle, _, element = queue(c, 0)
  return {handle, element{random(0, 4)}}
end

function calls.QueueDequeueV2(c)
  local handle, types = queue(c, pick{1, 2, 2, 0})
  return {handle}, {component_types = types}
end

function calls.QueueDequeueManyV2(c)
  local handle, types = queue(c, 3)
  return {handle, int(pick{0, 1, 3, 2, 4, -1})}, {component_types = types}
end

function calls.QueueDequeueUpToV2(c)
  local handle, types = queue(c, 3)
  if chance(50) then before("QueueCloseV2", handle) end
  return {handle, int(pick{0, 1, 3, 2, 9, -1})}, {component_types = types}
end

function calls.QueueFail(c)
  return {(queue(c, 1)), int(random(0, 17)), text "no more"}
end

for _, op in ipairs{"QueueCloseV2", "QueueSizeV2", "QueueIsClosedV2"} do
  calls[op] = function(c) return {(queue(c, random(0, 2)))} end
end

local function path(name) return folder .. "/" .. name end

-- A reader and a queue of the names of files, closed.
local function reader()
  local kind = pick{"TextLineReaderV2", "WholeFileReaderV2", "IdentityReaderV2",
    "TFRecordReaderV2", "FixedLengthRecordReaderV2"}
  local handle = core.op(kind)(kind:find "^Fixed" and {record_bytes = 3} or {})
  local names = core.op "FIFOQueueV2"{component_types = {"string"}}
  before("QueueEnqueueManyV2", names,
    {strings{path(pick{"lines", "records", "none"}), path "lines"}})
  before("QueueCloseV2", names)
  return handle, names
end

function calls.ReaderReadV2() return {reader()} end
function calls.ReaderReadUpToV2()
  local handle, names = reader()
  return {handle, names, int(pick{1, 2, 9, 0}, "int64")}
end
for _, op in ipairs{"ReaderNumRecordsProducedV2", "ReaderSerializeStateV2",
                    "ReaderNumWorkUnitsCompletedV2", "ReaderResetV2"} do
  calls[op] = function()
    local handle, names = reader()
    if chance(50) then pcall(before, "ReaderReadV2", handle, names) end
    return {handle}
  end
end
function calls.ReaderRestoreStateV2()
  local handle, names = reader()
  pcall(before, "ReaderReadV2", handle, names)
  local state = before("ReaderSerializeStateV2", handle)[1]:table()
  return {handle, text(spoiled(state))}
end

-- ---- tables ----------------------------------------------------------------

-- A table with two keys, its dtypes and the shape of a value.
local function lookup(c, type)
  local key, value, shape = pick{"string", "int64", "int32"}, pick(numbers), {}
  type = type or pick{"MutableHashTableV2", "MutableHashTableOfTensorsV2",
    "MutableDenseHashTableV2"}
  if type ~= "MutableHashTableV2" and type ~= "HashTableV2" then
    shape = #c.like <= 2 and c.like or {2}
  end
  local o = {key_dtype = key, value_dtype = value}
  local handle
  if type == "MutableDenseHashTableV2" then
    o.key_dtype, o.value_shape = nil, shape
    key = "int64"
    handle = core.op(type)(int(-7, key), int(-8, key), o)
  else
    o.value_shape = #shape > 0 and shape or nil
    handle = core.op(type)(o)
  end
  local function keys(n)
    if key == "string" then return args.value(key, {n}) end
    local list = {}
    for i = 1, n do list[i] = random(0, 5) end
    return core.tensor(list, key, {n})
  end
  local function values(n) return args.value(value, with({n}, shape)) end
  if type ~= "HashTableV2" then
    before("LookupTableInsertV2", handle, keys(2), values(2))
  end
  return handle, keys, values, shape, key, value
end

function calls.LookupTableFindV2(c)
  local handle, keys, _, shape, _, value = lookup(c)
  return {handle, keys(random(0, 4)), args.value(value, shape)}
end
for _, op in ipairs{"LookupTableInsertV2", "LookupTableImportV2"} do
  calls[op] = function(c)
    local handle, keys, values = lookup(c)
    local n = random(0, 4)
    return {handle, keys(n), values(n)}
  end
end
function calls.LookupTableRemoveV2(c)
  local handle, keys = lookup(c)
  return {handle, keys(random(0, 4))}
end
function calls.LookupTableSizeV2(c) return {(lookup(c))} end
function calls.LookupTableExportV2(c)
  local handle, _, _, _, key, value = lookup(c)
  return {handle}, {Tkeys = key, Tvalues = value}
end
function calls.InitializeTableV2(c)
  local handle, keys, values = lookup(c, "HashTableV2")
  local n = random(0, 2)
  return {handle, keys(n), values(n)}
end
function calls.InitializeTableFromTextFileV2()
  local handle = core.op "HashTableV2"{key_dtype = "string",
    value_dtype = "int64"}
  return {handle, text(path(pick{"lines", "lines", "none"}))},
    {key_index = pick{-2, -2, 0}, value_index = -1, vocab_size = pick{-1, 3},
     delimiter = pick{"\t", " "}}
end
function calls.MutableDenseHashTableV2()
  local key = pick{"int64", "string", "int32"}
  local function one(i)
    return key == "string" and text("key " .. i) or int(i, key)
  end
  return {one(1), one(chance(90) and 2 or 1)},
    {value_dtype = pick(numbers), value_shape = args.shape(0, 2),
     initial_num_buckets = pick{4, 8, 16, 1, 3},
     max_load_factor = pick{0.5, 0.8, 1.5}}
end

-- ---- accumulators, barriers, mutexes ---------------------------------------

local function gradient(dtype, like, sparse)
  if not sparse then return {args.value(dtype, like)} end
  local shape = {3, table.unpack(like)}
  return {core.tensor({0, 2}, "int64", {2}),
    args.value(dtype, with({2}, like)),
    core.tensor(shape, "int64", {#shape})}
end

-- One of the op's kind; a gradient, with what goes before it, for it.
local function accumulator(c)
  local sparse = c.op:find "Sparse" ~= nil
  local type = (c.op:match "^Ordered" or c.op:match "^Resource" or "")
    .. (sparse and "Sparse" or "") .. "ConditionalAccumulator"
  local dtype = pick{"float32", "float64"}
  local ordered = c.op:find "^Ordered"
  local like = #c.like < 5 and c.like or {2}
  local handle = core.op(type){dtype = dtype, slots = ordered and 2 or nil,
    shape = sparse and with({3}, like) or like,
    reduction_type = pick{"MEAN", "SUM"}}
  local list = gradient(dtype, like, sparse)
  table.insert(list, 1, int(pick{0, 0, 5}, "int64"))
  if ordered then table.insert(list, 1, int(pick{0, 1, 1, 2})) end
  table.insert(list, 1, handle)
  return list, dtype, sparse and {has_known_shape = chance(80)} or nil
end

for _, of in ipairs{"", "Sparse", "Ordered", "OrderedSparse", "Resource"} do
  local apply = of .. "AccumulatorApplyGradient"
  calls[apply] = function(c)
    local list, _, o = accumulator(c)
    return list, o
  end
  calls[of .. "AccumulatorTakeGradient"] = function(c)
    local list, dtype, o = accumulator(c)
    list[#list + 1] = o
    before(apply, table.unpack(list))
    return {list[1], int(pick{1, 1, 1, 2, 0})}, {dtype = dtype}
  end
end

function calls.BarrierInsertMany(c)
  local dtype, n = pick(any), random(0, 3)
  local handle = core.op "Barrier"{component_types = {dtype, "int32"},
    shapes = {c.like, {}}}
  local keys = {}
  for i = 1, n do keys[i] = "key " .. i end
  return {handle, strings(keys), args.value(dtype, with({n}, c.like))},
    {component_index = pick{0, 0, 0, 1, 2}}
end
function calls.ConsumeMutexLock()
  return {core.op "MutexLock"(core.op "MutexV2"())}
end

-- ---- what is found by a name -----------------------------------------------

local number = 0

for _, of in ipairs{"Map", "OrderedMap"} do
  local function staged(c)
    number = number + 1
    local dtypes = {pick(any), pick(any)}
    local o = {dtypes = dtypes, shared_name = "area " .. number}
    local list = {int(7, "int64"), core.tensor({0, 1}, "int32", {2}),
      {args.value(dtypes[1], c.like), args.value(dtypes[2], {})}}
    return list, o
  end
  calls[of .. "Stage"] = staged
  for _, what in ipairs{"Peek", "Unstage", "UnstageNoKey"} do
    calls[of .. what] = function(c)
      local list, o = staged(c)
      before(of .. "Stage", list[1], list[2], list[3], o)
      list[3] = nil
      if what == "UnstageNoKey" then table.remove(list, 1) end
      return list, o
    end
  end
end
for _, op in ipairs{"StagePeek", "Unstage"} do
  calls[op] = function(c)
    number = number + 1
    local dtype = pick(any)
    local o = {shared_name = "area " .. number}
    before("Stage", {args.value(dtype, c.like)}, o)
    o.dtypes = {dtype}
    return op == "Unstage" and {} or {int(pick{0, 0, 0, 1, -1})}, o
  end
end
for _, op in ipairs{"GetSessionTensor", "DeleteSessionTensor"} do
  calls[op] = function(c)
    local dtype = pick(any)
    local handle = before("GetSessionHandle", args.value(dtype, c.like))[1]
    return {text(spoiled(handle:table()))},
      op:find "^Get" and {dtype = dtype} or nil
  end
end
function calls.PipelineNext()
  local d = td.data.lines(path "lines")
  if chance(50) then d = d:batch(2) end
  d:next()
  local o = {pipeline = rawget(d, "live").name, output_types = {},
    output_shapes = {}}
  for i, column in ipairs(d.specs) do
    o.output_types[i] = column.dtype
    o.output_shapes[i] = column.shape or false
  end
  return {}, o
end

-- ---- bytes of a format -----------------------------------------------------

local function example()
  return td.example{d = {random(0, 9) + 0.5, 2.0}, s = {1, 2, 3},
    w = {"a", "bc"}}
end
local function sequence()
  return td.sequence_example{context = {d = {0.5, 2.0}, s = {1, 2}},
    feature_lists = {fs = {{1}, {2, 3}}, fd = {{0.5, 1.5}, {2.5, 3.5}}}}
end
local function several(f)
  local list = {}
  for i = 1, random(0, 3) do list[i] = spoiled(f()) end
  return strings(list), #list
end
local none = strings{}
local defaults = core.from_bytes(string.pack("<ff", 1, 2), "float32", {2})

function calls.ParseExample()
  return {several(example), none, {text "s", text "w"}, {text "d"}, {defaults}},
    {sparse_types = {"int64", "string"}, dense_shapes = {{2}}}
end
function calls.ParseExampleV2()
  local list = chance(30) and text(spoiled(example())) or several(example)
  return {list, none, strings{"s"}, strings{"d"}, strings{"w"}, {defaults}},
    {num_sparse = 1, sparse_types = {"int64"}, dense_shapes = {{2}},
     ragged_value_types = {"string"}, ragged_split_types = {
       pick{"int32", "int64"}}}
end
function calls.ParseSingleExample()
  return {text(spoiled(example())), {defaults}},
    {num_sparse = 1, sparse_keys = {"s"}, dense_keys = {"d"},
     sparse_types = {"int64"}, dense_shapes = {{2}}}
end

local function of_sequence()
  return {context_sparse_types = {"int64"}, context_dense_shapes = {{2}},
    feature_list_dense_types = {"float32"}, feature_list_dense_shapes = {{2}},
    feature_list_sparse_types = {"int64"}}
end
function calls.ParseSequenceExample()
  local o = of_sequence()
  o.feature_list_dense_missing_assumed_empty = chance(50) and {"fd"} or {}
  o.context_sparse_keys, o.context_dense_keys = {"s"}, {"d"}
  o.feature_list_sparse_keys, o.feature_list_dense_keys = {"fs"}, {"fd"}
  o.Ncontext_sparse, o.Ncontext_dense = 1, 1
  o.Nfeature_list_sparse, o.Nfeature_list_dense = 1, 1
  return {several(sequence), none, {defaults}}, o
end
function calls.ParseSequenceExampleV2()
  local o = of_sequence()
  o.Ncontext_sparse, o.Nfeature_list_sparse, o.Nfeature_list_dense = 1, 1, 1
  o.context_ragged_value_types, o.context_ragged_split_types = {}, {}
  o.feature_list_ragged_value_types = {}
  o.feature_list_ragged_split_types = {}
  local list = chance(30) and text(spoiled(sequence())) or several(sequence)
  return {list, none, strings{"s"}, strings{"d"}, none, strings{"fs"},
    strings{"fd"}, none, core.tensor({chance(50)}, "bool", {1}), {defaults}}, o
end
function calls.ParseSingleSequenceExample()
  return {text(spoiled(sequence())), chance(50) and none or strings{"fd"},
    {text "s"}, {text "d"}, {text "fs"}, {text "fd"}, {defaults}, text ""},
    of_sequence()
end

function calls.ParseTensor(c)
  local dtype = pick(any)
  local bytes = core.op "SerializeTensor"(args.value(dtype, c.like))
  return {text(spoiled(bytes:table()))}, {out_type = dtype}
end
function calls.DecodeCSV()
  local list = {}
  for i = 1, random(0, 3) do
    list[i] = pick{"1,2.5,a", "3,,\"b,\"\"c\"", "-7,1e3,", "x,1,a", "1,2"}
  end
  return {strings(list), {core.tensor({0}, "int64", {1}),
    core.tensor(chance(80) and {0.5} or {}, "float32"),
    core.tensor({"z"}, "string", {1})}}
end
local function wav()
  local channels, samples = random(1, 2), ("\1\2"):rep(2 * random(0, 9))
  local rate = 8000
  local form = string.pack("<I2I2I4I4I2I2", 1, channels, rate,
    2 * channels * rate, 2 * channels, 16)
  return "RIFF" .. string.pack("<s4", "WAVEfmt " .. string.pack("<s4", form)
    .. "data" .. string.pack("<s4", samples))
end
function calls.DecodeWav()
  return {text(spoiled(wav()))},
    {desired_channels = pick{-1, 1, 2}, desired_samples = pick{-1, 3, 99}}
end
function calls.EncodeWav()
  return {args.value("float32", {random(0, 9), random(0, 3)}), int(8000)}
end

-- ---- files -----------------------------------------------------------------

function calls.ReadFile()
  return {text(path(pick{"lines", "records", "lines", "none"}))}
end
function calls.RecordInput()
  return {}, {file_pattern = path(pick{"records", "records", "none", "lines"}),
    batch_size = random(1, 3), file_buffer_size = random(1, 5),
    file_parallelism = random(1, 2)}
end
local function name() return pick{"a", "a", "b"} end
function calls.Restore()
  return {text(path "saved"), text(name())}, {dt = "float32"}
end
function calls.RestoreSlice()
  local slice = pick{"", "2 3 0,1:-", "2 3 x"}
  return {text(path "saved"), text(name()), text(slice)}, {dt = "float32"}
end
function calls.RestoreV2()
  return {text(path "saved"), strings{"a", name()},
    strings{"", pick{"", "2 3 0,1:-", "2 3 -:1,1"}}},
    {dtypes = {"float32", "float32"}}
end

-- ---- arguments that must agree ---------------------------------------------

function calls.EditDistance()
  local function sparse(dtype)
    local n = random(1, 3)
    local at = {}
    for i = 1, n do at[2 * i - 1], at[2 * i] = 0, i - 1 end
    return core.tensor(at, "int64", {n, 2}), args.value(dtype, {n}),
      core.tensor({1, 3}, "int64", {2})
  end
  local dtype = pick{"int64", "string", "float32"}
  local list = {sparse(dtype)}
  table.move({sparse(dtype)}, 1, 3, 4, list)
  return list, {normalize = chance(50)}
end
function calls.Mfcc()
  return {args.value("float32", {1, random(1, 3), pick{17, 65}}),
    int(pick{8000, 16000})},
    {upper_frequency_limit = 4000.0, lower_frequency_limit = pick{20.0, -1.0},
     filterbank_channel_count = pick{5, 40},
     dct_coefficient_count = pick{3, 13}}
end

-- ---- the program's side ----------------------------------------------------

-- What is read: lines, records, a checkpoint.
local function write_files()
  local f <close> = io.open(path "lines", "w")
  f:write "one\ntwo three\nfour\n"
  local w <close> = td.record_writer(path "records")
  for i = 1, 5 do w:write(("record %d"):format(i)) end
  local g = core.graph_new()
  local _ <close> = core.push{graph = g}
  local values = core.from_bytes(string.pack("<ffffff", 1, 2, 3, 4, 5, 6),
    "float32", {2, 3})
  local saved = core.op "SaveV2"(text(path "saved"), strings{"a", "b"},
    strings{"", ""}, {values, values})
  local s = core.session(g, {})
  s:core_run({saved}, {}, {}, {})
  s:close()
end

--- Before all calls: `of` has args, and run(fetches, feeds, values, timeout),
-- which the makers' steps are run by.
function made.begin(of)
  args, run = of.args, of.run
  pick, chance = args.pick, args.chance
  folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir '" .. folder .. "'"))
  write_files()
end

--- After all.
function made.finish()
  os.execute("rm -r '" .. folder .. "'")
end

return made
