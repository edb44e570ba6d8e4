--- nn/embedding.lua - rows of tables by number, also of tables in parts.
--
-- Only the rows that are asked for are read, where they are: each part's
-- gather stands beside it. Their gradients are sparse, and stay so up to the
-- optimizer.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local embedding = {}

local fail = errors.invalid

-- ---- which part, which row ------------------------------------------------

-- Part and row of ids that go round the n parts.
local function by_mod(ids, shards)
  return ids % #shards, ids // #shards
end

-- All rows of the parts together: a number, or a tensor like ids.
local function total_rows(ids, shards)
  local total = 0
  for _, shard in ipairs(shards) do
    local rows = shard:dim(0)
    total = total + (type(rows) == "number" and rows
                     or ops.cast(rows, ids.dtype))
  end
  return total
end

-- Part and row of ids that fill one part after the other; the first ones have
-- one row more where they cannot be equal.
local function by_div(ids, shards)
  local n, total = #shards, total_rows(ids, shards)
  local per, extra = total // n, total % n
  local shard = ops.maximum(ids // (per + 1), (ids - extra) // per)
  return shard, ops.where(ops.less(shard, extra), ids % (per + 1),
                          (ids - extra) % per)
end

local strategies = {mod = by_mod, div = by_div}

-- ---- lookup ---------------------------------------------------------------

-- Each row no longer than max_norm.
local function clip(rows, max_norm)
  if not max_norm then return rows end
  local axes = {}
  for axis = 1, rows.rank - 1 do axes[axis] = axis end
  local square = ops.sum(ops.square(rows), axes, {keep_dims = true})
  local norm = ops.sqrt(ops.maximum(square, max_norm * max_norm))
  return rows * (max_norm / norm)
end

local function rows_of(shard, ids, max_norm)
  return scope.colocate_with(shard, function()
    return clip(ops.gather(shard, ids), max_norm)
  end)
end

-- Row ids[k] of all parts, for a vector of ids.
local function gather(shards, ids, o)
  local part, row = strategies[o.strategy or "mod"](ids, shards)
  part = ops.cast(part, "int32")
  local n = {num_partitions = #shards}
  local rows = core.op "DynamicPartition"(row, part, n)
  local places = core.op "DynamicPartition"(ops.range(ops.size(ids)), part, n)
  local found = {}
  for i, shard in ipairs(shards) do
    found[i] = rows_of(shard, rows[i], o.max_norm)
  end
  return core.op "DynamicStitch"(places, found)
end

local function check_shards(params)
  local shards = args.plain(params) and params or {params}
  args.check_list(shards, "embedding_lookup: the parts of the table")
  if #shards == 0 then fail("embedding_lookup: the table has no part") end
  for i, shard in ipairs(shards) do
    if not args.is_tensor(shard) then
      fail("embedding_lookup: part %d is no variable and no tensor, but a %s",
           i, args.what(shard))
    end
    local a, b = shard.shape, shards[1].shape
    if a and b and not shapes.compatible({-1, table.unpack(a, 2)},
                                         {-1, table.unpack(b, 2)}) then
      fail("embedding_lookup: rows of part %d have shape %s, of part 1 %s", i,
        shapes.text(shapes.of{table.unpack(a, 2)}),
        shapes.text(shapes.of{table.unpack(b, 2)}))
    end
  end
  return shards
end

local options = {"strategy", "max_norm", "name"}

local function check_options(o, what)
  if o.strategy and not strategies[o.strategy] then
    fail("%s: strategy is \"mod\" or \"div\", not %s", what,
         tostring(o.strategy))
  end
  return o
end

local function check_ids(ids, what)
  ids = core.edge(ids)
  if ids.dtype ~= "int32" and ids.dtype ~= "int64" then
    fail("%s: ids are int32 or int64, not %s", what, ids.dtype)
  end
  return ids
end

--- Row ids[i...] of a table, for ids of any shape.
-- @param params a variable or tensor, or a list of them: parts of one table
-- @param ids int32 or int64
-- @param[opt] o strategy "mod": id lies in part id % n, "div": parts follow
-- each other; max_norm: longer rows are made that short; name
-- @usage local w = {td.constant{{0.0}, {2.0}}, td.constant{{1.0}, {3.0}}}
-- td.nn.embedding_lookup(w, {3, 0, 2})  --> 3 0 2
function embedding.embedding_lookup(params, ids, o)
  o = check_options(args.read(o, options, "embedding_lookup"),
                    "embedding_lookup")
  return scope.name_scope(o.name or "embedding_lookup", function()
    local shards = check_shards(params)
    ids = check_ids(ids, "embedding_lookup")
    if #shards == 1 then
      local rows = ops.gather(shards[1], ids)
      if not o.max_norm then return rows end
      local flat = rows_of(shards[1], ops.reshape(ids, {-1}), o.max_norm)
      return ops.reshape(flat, ops.shape(rows))
    end
    local rows = gather(shards, ops.reshape(ids, {-1}), o)
    if ids.rank == 1 then return rows end
    local shape = ops.concat({ops.shape(ids), ops.shape(rows)["1:"]}, 0)
    return ops.reshape(rows, shape)
  end)
end

-- ---- sums of rows ---------------------------------------------------------

-- What the sums of weighted rows are divided by.
local divisors = {
  sum = function() return nil end,
  mean = function(weights) return weights end,
  sqrtn = function(weights) return ops.square(weights) end,
}

-- The parts of ids or weights that belong to few places.
local function sparse(x, what, dtype)
  if type(x) ~= "table" or x.indices == nil or x.values == nil
     or x.dense_shape == nil then
    fail("embedding_lookup_sparse: %s are {indices = {n, 2}, values = {n}, "
      .. "dense_shape = {rows, most}}", what)
  end
  local values = core.edge(x.values, not args.is_tensor(x.values) and dtype
                           or nil)
  return core.edge(x.indices), values, core.edge(x.dense_shape)
end

-- Weights as a column, one for each id.
local function weights_for(weights, dtype)
  if weights == nil then return nil end
  local _, values = sparse(weights, "the weights", dtype)
  return ops.cast(values, dtype)
end

-- x in the shape that multiplies rows.
local function beside(x, rows)
  local shape = {-1}
  for i = 2, rows.rank do shape[i] = 1 end
  return ops.reshape(x, shape)
end

--- For each example the sum, mean or mean by lengths ("sqrtn") of the rows of
-- its ids; zeros where it has none.
-- @param params as embedding_lookup's
-- @param ids {indices = {n, 2}, values = {n}, dense_shape = {batch, most}}:
-- values[k] is an id of example indices[k][0]
-- @param[opt] weights in the same form, one for each id (all 1)
-- @param[opt] o combiner ("mean"; "sum", "sqrtn": by the root of the sum of
-- squared weights), strategy, max_norm, name
-- @usage local ids = {indices = {{0, 0}, {0, 1}}, values = {1, 2},
--   dense_shape = {1, 2}}
-- td.nn.embedding_lookup_sparse(td.constant{{0.0}, {2.0}, {4.0}}, ids)  --> 3
function embedding.embedding_lookup_sparse(params, ids, weights, o)
  local what = "embedding_lookup_sparse"
  o = check_options(args.read(o, {"combiner", table.unpack(options)}, what),
                    what)
  local divisor = divisors[o.combiner or "mean"]
  if not divisor then
    fail("%s: combiner is \"sum\", \"mean\" or \"sqrtn\", not %s", what,
         tostring(o.combiner))
  end
  return scope.name_scope(o.name or what, function()
    local indices, values, shape = sparse(ids, "ids", "int64")
    local seen, place = core.op "Unique"(check_ids(values, what))
    local table_rows = embedding.embedding_lookup(params, seen,
      {strategy = o.strategy, max_norm = o.max_norm})
    local rows = ops.gather(table_rows, place)
    local w = weights_for(weights, rows.dtype) or ops.ones(ops.shape(place),
                                                           rows.dtype)
    local example = indices[{":", 0}]
    local function sum(x)
      return core.op "UnsortedSegmentSum"(x, example,
                                          ops.cast(shape[0], "int32"))
    end
    local out, by = sum(rows * beside(w, rows)), divisor(w)
    if not by then return out end
    by = sum(by)
    if o.combiner == "sqrtn" then by = ops.sqrt(by) end
    return ops.div_no_nan(out, beside(by, rows))
  end)
end

return embedding
