--- data/dataset.lua - examples in memory, and batches of them.
--
-- Batches are assembled ahead of use by a thread of the engine. A column of
-- bytes may carry a scale: batches then hold float32(byte) * scale, and the
-- whole column is made so only when it is asked for by name.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local autoload = require "tide.base.autoload"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
local place = require "tide.data.place"

local sources = autoload "tide.data.pipeline_sources"

local dataset = {}
local methods = {}

local function scaled(rows, scale)
  return core.op "Mul"(core.op "Cast"(rows, {DstT = "float32"}), scale)
end

-- d.images: the whole column as batches show it.
local function index(self, name)
  local rows = rawget(self, "rows")[name]
  if not rows then
    if methods[name] then return methods[name] end
    errors.invalid("the data has no column \"%s\"%s; it has %s and :batches, "
      .. ":take, :shuffled, :pipeline", tostring(name),
      errors.did_you_mean(name, self.columns),
      table.concat(self.columns, ", "))
  end
  local scale = self.scales[name]
  local value = scale and scaled(rows, scale) or rows
  rawset(self, name, value)
  return value
end

local meta = {__index = index}

local function check_rows(self, name, rows)
  if rows.rank == 0 then
    core.error("invalid_argument", ("data: \"%s\" is a scalar; a column has "
      .. "one row for each example"):format(name))
  end
  local n = rows.shape[1]
  if self.size and n ~= self.size then
    core.error("invalid_argument", ("data: \"%s\" has %d rows, others %d")
      :format(name, n, self.size))
  end
  return n
end

--- Examples: columns are values with one row each, by name.
-- @param columns {images = value, labels = value}
-- @param[opt] scales {images = 1 / 255}: uint8 columns that are read as float32
-- times this
function dataset.new(columns, scales)
  local self = {columns = {}, rows = {}, scales = scales or {}}
  for _, name in ipairs(args.sorted_keys(columns)) do
    self.size = check_rows(self, name, columns[name])
    self.rows[name] = columns[name]
    table.insert(self.columns, name)
  end
  if not self.size then
    core.error("invalid_argument", "a data set needs a column")
  end
  return setmetatable(self, meta)
end

-- Of data in parts: what only a part has is an error that says so.
local in_parts = {__index = function(_, key)
  if not methods[key] and key ~= "sequences" then return nil end
  return core.error("invalid_argument", ("a data set has parts: write "
    .. "d.train:%s(...), or d.test"):format(key))
end}

-- "train: Dataset of 10: x float32 {10, 2}", a line for each part.
function in_parts.__tostring(d)
  local lines = {}
  for _, key in ipairs(args.sorted_keys(d)) do
    if getmetatable(d[key]) == meta then
      lines[#lines + 1] = key .. ": " .. tostring(d[key])
    end
  end
  return table.concat(lines, "\n")
end

--- The parts of a data set, {train =, test =, ...}.
function dataset.parts(d)
  return setmetatable(d, in_parts)
end

-- ---- batches ----------------------------------------------------------------

local known = {"epochs", "shuffle", "seed", "shard", "drop_remainder"}

local function read_options(size, o)
  o = args.read(o, known, "batches")
  for _, key in ipairs{"shuffle", "drop_remainder"} do
    if o[key] ~= nil then args.expect(o[key], "boolean", "batches: " .. key) end
  end
  if math.type(size) ~= "integer" or size < 1 then
    local given = type(size) == "number" and size or args.what(size)
    core.error("invalid_argument", ("batches: the size must be an integer >= "
      .. "1, as in d:batches(100), not %s"):format(given))
  end
  local epochs = o.epochs or 1
  if epochs == math.huge then
    o.epochs = -1
  else
    o.epochs = math.tointeger(epochs)
    if not o.epochs or o.epochs < 0 then
      core.error("invalid_argument",
        "batches: epochs is a whole number >= 0, or math.huge")
    end
  end
  return o
end

local function read_shard(shard)
  if shard == nil then return 0, 1 end
  if type(shard) ~= "table" or math.type(shard[1]) ~= "integer"
     or math.type(shard[2]) ~= "integer" then
    core.error("invalid_argument",
      "shard is {k, n}: part k of n, counted from 0")
  end
  return shard[1], shard[2]
end

-- An iterator with a length, so that td.progress can show what is left.
local iterator = {}
iterator.__index = iterator

local function named(self, epoch, step, ...)
  if not epoch then return nil end
  local batch = {epoch = epoch, step = step}
  for i, name in ipairs(self.columns) do batch[name] = (select(i, ...)) end
  self.given = step
  return batch
end

function iterator:__call()
  return named(self, self.source:next())
end

-- Of those that come from where it began.
function iterator:__len()
  return self.total and math.max(0, self.total - self.begin)
end

--- Ends it at once; a loop that ends does so too.
function iterator:close()
  self.source:close()
  self.closed = true
end
iterator.__close = iterator.close

-- Has it begin behind `given` batches.
local function begin(self, given)
  local o = self.options
  o.given = given
  local source = core.batches(self.values, self.scales, o)
  if self.source then self.source:close() end
  local epochs = o.epochs
  self.source, self.begin, self.given = source, given, given
  self.total = epochs >= 0 and epochs * source:per_epoch() or nil
  self.closed = false
  return self
end

-- What another loop must have in common with it.
local function facts(self)
  local o = self.options
  return {{"number of examples", self.size}, {"batch", o.size},
          {"shard", o.first}, {"number of shards", o.step},
          {"shuffle (0 or 1)", o.shuffle and 1 or 0},
          {"drop_remainder (0 or 1)", o.drop_remainder and 1 or 0}}
end

--- Where the loop stands, a string: what was given so far is behind it.
function iterator:state()
  if self.closed then errors.invalid("state: the loop is over") end
  return place.pack("batches", facts(self), {self.options.seed, self.given})
end

--- Goes on from a state, of a loop over as many examples with these options;
-- nothing that was given is copied again.
-- @return the iterator
function iterator:restore(s)
  local seed, given = place.unpack(s, "batches", facts(self), 2)
  self.options.seed = seed
  return begin(self, given)
end

--- Batches of `size` examples: for batch in d:batches(100, {epochs = 3}) do.
-- Options: epochs (1; math.huge goes on for ever), shuffle (each epoch anew),
-- seed (of the shuffle; else it follows from td.seed), shard {k, n} (part k of
-- n), drop_remainder (a last batch that is short). A thread keeps two batches
-- ready; it ends with the iterator, which `close` ends at once. The same seed
-- gives the same order.
-- @return an iterator over tables with the columns, epoch, step (both from 1);
-- it has :state(), a string, and :restore(s), which goes on from there
function methods:batches(size, o)
  o = read_options(size, o)
  local first, step = read_shard(o.shard)
  local values, scales = {}, {}
  for i, name in ipairs(self.columns) do
    values[i], scales[i] = self.rows[name], self.scales[name] or 0
  end
  local seed = o.seed or o.shuffle and graph.next_seed() or 0
  local options = {size = size, epochs = o.epochs, first = first, step = step,
    shuffle = o.shuffle, seed = args.expect(seed, "integer", "batches: seed"),
    drop_remainder = o.drop_remainder}
  return begin(setmetatable({columns = self.columns, values = values,
    scales = scales, options = options, size = self.size}, iterator), 0)
end

-- f(e) of a pipeline over the rows: columns with a scale as batches show them.
local function scale_columns(columns, scales)
  return function(e)
    local out = {}
    for _, name in ipairs(columns) do
      out[name] = scales[name] and scaled(e[name], scales[name]) or e[name]
    end
    return out
  end
end

--- A pipeline over the examples (data/pipeline.lua), one by one: for what is
-- done to each, :map, and batches that :batches does not make.
-- Options: shuffle (all of them, each epoch anew), seed, shard {k, n}.
-- @usage d.train:pipeline{shuffle = true}:map(distort):batch(32)
function methods:pipeline(o)
  o = args.read(o, {"shuffle", "seed", "shard"}, "pipeline")
  local p = sources.rows(self.rows, o)
  if not next(self.scales) then return p end
  return p:map(scale_columns(self.columns, self.scales))
end

--- The first n examples, or those from `from` (counted from 0) on.
function methods:take(n, from)
  from = math.min(args.expect(from or 0, "integer", "take: from"), self.size)
  local to = math.min(from + args.expect(n, "integer", "take: n"), self.size)
  if from < 0 or to < from then
    core.error("invalid_argument", "take: neither number may be below 0")
  end
  local rows = {}
  for _, name in ipairs(self.columns) do
    rows[name] = self.rows[name][("%d:%d"):format(from, to)]
  end
  return dataset.new(rows, self.scales)
end

--- The examples in an order of their own, drawn once. Option seed; else it
-- follows from td.seed.
function methods:shuffled(o)
  o = args.read(o, {"seed"}, "shuffled")
  if self.size == 0 then return self end
  local as_they_are = dataset.new(self.rows)
  local all = as_they_are:batches(self.size, {shuffle = true, seed = o.seed})()
  all.epoch, all.step = nil, nil
  return dataset.new(all, self.scales)
end

--- Number of examples.
function meta:__len() return self.size end

function meta:__tostring()
  local parts = {}
  for i, name in ipairs(self.columns) do
    local rows = self.rows[name]
    parts[i] = ("%s %s %s"):format(name,
      self.scales[name] and "float32" or rows.dtype, tostring(rows.shape))
  end
  return ("Dataset of %d: %s"):format(self.size, table.concat(parts, ", "))
end

return dataset
