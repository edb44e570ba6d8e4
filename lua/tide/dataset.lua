--- dataset.lua - examples in memory, and batches of them.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local rng = require "tide.rng"

local dataset = {}
local methods = {}
methods.__index = methods

--- Examples: columns are values with one row each, by name.
-- @param columns {images = value, labels = value}
function dataset.new(columns)
  local self = {columns = {}, size = nil}
  for _, name in ipairs(args.sorted_keys(columns)) do
    local value = columns[name]
    local n = value.shape[1]
    if self.size and n ~= self.size then
      core.error("invalid_argument", ("data: \"%s\" has %d rows, others %d")
        :format(name, n, self.size))
    end
    self.size = n
    self[name] = value
    table.insert(self.columns, name)
  end
  return setmetatable(self, methods)
end

-- Row numbers of this shard {k, n}: k, k + n, ...
local function shard_rows(size, shard)
  local first, step = 0, 1
  if shard then first, step = shard[1], shard[2] end
  if math.type(first) ~= "integer" or math.type(step) ~= "integer"
     or step < 1 or first < 0 or first >= step then
    core.error("invalid_argument",
      "shard is {k, n}: part k of n, counted from 0")
  end
  local rows = {}
  for i = first, size - 1, step do rows[#rows + 1] = i end
  return rows
end

local function take(self, rows, from, to)
  local batch = {}
  local index = core.tensor(table.move(rows, from, to, 1, {}), "int32")
  for _, name in ipairs(self.columns) do
    batch[name] = core.op "GatherV2"(self[name], index, 0)
  end
  return batch
end

local known = {"epochs", "shuffle", "seed", "shard", "drop_remainder"}

local function read_options(size, o)
  o = args.read(o, known, "batches")
  if math.type(size) ~= "integer" or size < 1 then
    core.error("invalid_argument", "batches: the size must be an integer >= 1")
  end
  return o
end

-- An iterator with a length, so that td.progress can show what is left.
local iterator = {__call = function(self) return self.next() end,
                  __len = function(self) return self.total end}

--- Batches of `size` examples: for batch in d:batches(100, {epochs = 3}) do.
-- Options: epochs (1), shuffle (each epoch anew), seed (of the shuffle), shard
-- {k, n} (part k of n), drop_remainder (a last batch that is short).
-- @return an iterator over tables with the columns, epoch, step (both from 1)
function methods:batches(size, o)
  o = read_options(size, o)
  local rows = shard_rows(self.size, o.shard)
  local random = o.shuffle and rng.new(o.seed or core.random_bits())
  local epochs = o.epochs or 1
  local per_epoch = #rows / size
  per_epoch = o.drop_remainder and math.floor(per_epoch)
              or math.ceil(per_epoch)
  local step, epoch, at = 0, 0, per_epoch
  local function next_batch()
    if at == per_epoch then
      if epoch == epochs or per_epoch == 0 then return nil end
      epoch, at = epoch + 1, 0
      if random then random:shuffle(rows) end
    end
    local from = at * size + 1
    at, step = at + 1, step + 1
    local batch = take(self, rows, from, math.min(from + size - 1, #rows))
    batch.epoch, batch.step = epoch, step
    return batch
  end
  return setmetatable({next = next_batch,
                       total = math.tointeger(epochs * per_epoch)}, iterator)
end

--- The first n examples, or those from `from` (counted from 0) on.
function methods:take(n, from)
  from = from or 0
  local rows = {}
  for i = from, math.min(from + n, self.size) - 1 do rows[#rows + 1] = i end
  return dataset.new(take(self, rows, 1, #rows))
end

--- Number of examples.
function methods:__len() return self.size end

function methods:__tostring()
  local parts = {}
  for i, name in ipairs(self.columns) do
    parts[i] = ("%s %s %s"):format(name, self[name].dtype,
                                   tostring(self[name].shape))
  end
  return ("Dataset of %d: %s"):format(self.size, table.concat(parts, ", "))
end

return dataset
