--- flow/tables.lua - td.hash_table, td.mutable_table, td.vocabulary: lookup
-- tables.
--
-- A table is a handle (HashTableV2, ...), a default for keys that it lacks and,
-- where it is filled once, an initializer, which stands in the collection
-- "table_initializer". sess:init() runs those of the tables that have nothing
-- yet: each has its size as a node for that. Like variables', a table's nodes
-- stand outside all control flow and functions.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local tables = {}
local methods = {}
local meta = {__forms = "lookup_table"}

local fail = errors.invalid

-- ---- operands -------------------------------------------------------------

-- x as a graph tensor of that dtype; `what` names it in messages.
local function operand(x, dtype, what)
  local edge = core.edge(x, not args.is_tensor(x) and dtype or nil)
  if edge.dtype ~= dtype then
    fail("%s must be %s, given %s; use td.cast", what, dtype, edge.dtype)
  end
  return edge
end

local function checked(self, what)
  if getmetatable(self) ~= meta then
    fail("%s is called with a colon: t:%s(...); given %s where the table "
      .. "should be", what, what, args.what(self))
  end
  return self
end

local function keys_of(self, k, what)
  checked(self, what)
  return operand(k, self.key_dtype, what .. ": the keys of this table")
end

-- ---- looking up -----------------------------------------------------------

-- A number for each string that the table lacks, behind those of the table.
local function in_buckets(self, keys, found)
  local buckets = ops.string_to_hash_bucket_fast(keys,
                                                 {num_buckets = self.oov})
  return ops.where(ops.equal(found, self.default), buckets + self:size(),
                   found)
end

--- The values of keys of any shape; the default where there is none.
-- @param k keys: a tensor or literal
-- @param[opt] default another default, one or one for each key
-- @raise failed_precondition while the table is not initialized
function methods:find(k, default)
  local keys = keys_of(self, k, "find")
  local other = default ~= nil
  default = other and operand(default, self.value_dtype, "find: the default")
            or self.default
  local found = core.add("LookupTableFindV2", {self.handle, keys, default})
  if self.oov == 0 or other then return found end
  return in_buckets(self, keys, found)
end

--- An int64 scalar: how many keys there are.
function methods:size()
  return core.add("LookupTableSizeV2", {checked(self, "size").handle})
end

--- All keys, and their values, in the same order.
function methods:export()
  checked(self, "export")
  return core.add("LookupTableExportV2", {self.handle},
                  {Tkeys = self.key_dtype, Tvalues = self.value_dtype})
end

-- ---- changing -------------------------------------------------------------

local function changeable(self, what)
  if self.initializer then
    fail("%s: table \"%s\" is filled once, by its initializer; "
      .. "td.mutable_table makes one that changes", what, self.name)
  end
end

--- An op that sets the values of keys: v is one value for each.
function methods:insert(k, v)
  local keys = keys_of(self, k, "insert")
  changeable(self, "insert")
  return core.add("LookupTableInsertV2", {self.handle, keys,
    operand(v, self.value_dtype, "insert: the values of this table")})
end

--- An op that removes keys; those that the table lacks are left out.
function methods:remove(k)
  local keys = keys_of(self, k, "remove")
  changeable(self, "remove")
  return core.add("LookupTableRemoveV2", {self.handle, keys})
end

-- ---- fields ---------------------------------------------------------------

local fields = {"name", "handle", "initializer", "key_dtype", "value_dtype",
                "value_shape", "default", "op"}

function meta.__index(self, key)
  if methods[key] then return methods[key] end
  if key == "op" then return self.handle.op end
  for _, name in ipairs(fields) do
    if key == name then return nil end
  end
  local known = args.sorted_keys(methods)
  table.move(fields, 1, #fields, #known + 1, known)
  fail("no field or method \"%s\" on a lookup table%s", tostring(key),
       errors.did_you_mean(tostring(key), known))
end

--- Only tensors come out of a step.
function meta.__fetch(self)
  fail("the lookup table \"%s\" cannot be fetched; fetch its :find(k), "
    .. ":size() or :export()", self.name)
end

function meta.__tostring(self)
  local values = self.value_dtype
  if #self.value_shape > 0 then
    values = values .. " " .. shapes.text(self.value_shape)
  end
  return ("Table \"%s\" %s to %s"):format(self.name, self.key_dtype, values)
end

--- Is x a lookup table?
function tables.is(x)
  return type(x) == "table" and getmetatable(x) == meta
end

-- ---- making ---------------------------------------------------------------

-- Outside all control flow and functions, `f(name)` adds the nodes of a table.
local function outside(name, f)
  local full = core.scope().prefix .. name
  local _ <close> = core.push{graph = graph.owner(), flow = 0, capture = false,
                              pivot = false, clear_controls = true}
  return f(core.graph():unique(full))
end

-- t, with its handle; its other nodes are added by `rest(t)`.
local function made(t, op, attributes, rest)
  attributes.key_dtype, attributes.value_dtype = t.key_dtype, t.value_dtype
  t.handle = core.add(op, {}, attributes, t.name, true)
  t.oov = t.oov or 0
  local _ <close> = core.push{prefix = t.name .. "/", colocate = t.handle.op}
  rest(t)
  return setmetatable(t, meta)
end

-- `initializer` fills the table once, and has its place among the others.
local function filled_by(t, initializer)
  local state = graph.state()
  t.initializer = initializer
  state.table_sizes = state.table_sizes or setmetatable({}, {__mode = "k"})
  state.table_sizes[initializer] = core.add("LookupTableSizeV2", {t.handle},
                                            nil, "size")
  graph.add_to_collection("table_initializer", initializer)
end

local function constant(x, dtype, name)
  return core.add("Identity", {operand(x, dtype, "the default of a table")},
                  nil, name)
end

local function vector(x, what)
  local edge = core.edge(x)
  if edge.rank and edge.rank ~= 1 then
    fail("hash_table: the %s must be a vector, not of shape %s", what,
         shapes.text(edge.shape))
  end
  return edge
end

--- A table that is filled once, by sess:init() or td.tables_initializer().
-- @param keys a vector of int32, int64 or string
-- @param values a vector, one for each key
-- @param default the value of every other key
-- @param[opt] o name, or {name =}
-- @usage local t = td.hash_table({"a", "b"}, {1, 2}, -1)
-- td.session():init()
-- t:find{"b", "x"}  --> 2 -1
function tables.hash_table(keys, values, default, o)
  o = args.read(o, {"name"}, "hash_table")
  if default == nil then
    fail("hash_table: give a default, the value of keys that it lacks")
  end
  return outside(o.name or "hash_table", function(name)
    local k, v = vector(keys, "keys"), vector(values, "values")
    local t = {name = name, key_dtype = k.dtype, value_dtype = v.dtype,
               value_shape = shapes.of{}}
    return made(t, "HashTableV2", {}, function()
      t.default = constant(default, t.value_dtype, "default")
      filled_by(t, core.add("InitializeTableV2", {t.handle, k, v}, nil,
                            "initialize"))
    end)
  end)
end

local nothing = {string = "", bool = false}

--- A table that steps insert into and remove from.
-- @param key_dtype "int32", "int64" or "string"
-- @param value_dtype any but "resource" and "variant"
-- @param[opt] default the value of keys that it lacks (0, "" or false); its
-- shape is that of each value
-- @param[opt] o name, or {name =}
-- @usage local t = td.mutable_table("string", "float32", {0.0, 0.0})
-- td.session():run(t:insert({"a"}, {{1.0, 2.0}}))
-- t:find "a"  --> 1 2
function tables.mutable_table(key_dtype, value_dtype, default, o)
  for _, row in ipairs{{"key", key_dtype}, {"value", value_dtype}} do
    if not dtypes.is_name(row[2]) then
      fail("mutable_table: the dtype of a %s is one such as \"int64\", not %s",
           row[1], args.what(row[2]))
    end
  end
  o = args.read(o, {"name"}, "mutable_table")
  if default == nil then default = nothing[value_dtype] end
  return outside(o.name or "mutable_table", function(name)
    local edge = operand(default == nil and 0 or default, value_dtype,
                         "mutable_table: the default")
    local t = {name = name, key_dtype = key_dtype, value_dtype = value_dtype,
               value_shape = edge.shape}
    if not edge.shape or shapes.count(edge.shape) == nil then
      fail("mutable_table: the default has shape %s, which must be known",
           shapes.text(edge.shape))
    end
    local many = #edge.shape > 0
    return made(t, many and "MutableHashTableOfTensorsV2"
                   or "MutableHashTableV2",
                {value_shape = many and edge.shape or nil},
                function() t.default = edge end)
  end)
end

-- ---- vocabularies ---------------------------------------------------------

-- A table between the lines of the file and their numbers.
local function from_lines(path, size, name, t, indices)
  t.name = name
  t.value_shape = shapes.of{}
  return made(t, "HashTableV2", {}, function()
    t.default = constant(t.default, t.value_dtype, "default")
    indices.vocab_size = size or -1
    filled_by(t, core.add("InitializeTableFromTextFileV2",
      {t.handle, operand(path, "string", "vocabulary: the path")}, indices,
      "initialize"))
  end)
end

--- The words of a text file, one a line, and their numbers from 0 (int64). A
-- word that it lacks is -1, or, with `oov` buckets, a number behind all others
-- that follows from its hash.
-- @param path of the file, or a graph tensor
-- @param[opt] o oov (0); size: only so many lines; name
-- @raise by sess:init(): not_found; with the file's name and the line,
-- invalid_argument where it is empty, failed_precondition where its word came
-- before
function tables.vocabulary(path, o)
  o = args.expect_all(args.read(o, {"oov", "size", "name"}, "vocabulary"),
                      {oov = "integer", size = "integer"})
  if (o.oov or 0) < 0 then fail("vocabulary: oov is %d", o.oov) end
  return outside(o.name or "vocabulary", function(name)
    local t = from_lines(path, o.size, name, {key_dtype = "string",
      value_dtype = "int64", default = -1, oov = o.oov},
      {key_index = -2, value_index = -1})
    rawset(t, "lines", {path = path, size = o.size})
    return t
  end)
end

--- Of a vocabulary: the table from numbers to words.
-- @param[opt="UNK"] default the word of any other number
function methods:inverse(default)
  local lines = rawget(checked(self, "inverse"), "lines")
  if not lines then
    fail("inverse: table \"%s\" is no vocabulary", self.name)
  end
  return outside(self.name .. "_inverse", function(name)
    return from_lines(lines.path, lines.size, name, {key_dtype = "int64",
      value_dtype = "string", default = default or "UNK"},
      {key_index = -1, value_index = -2})
  end)
end

-- ---- all of them ----------------------------------------------------------

--- An op that fills all tables of the graph. sess:init() fills those that have
-- nothing yet, too.
function tables.tables_initializer(o)
  return scope.group(graph.get_collection "table_initializer",
                     o or "init_all_tables")
end

return tables
