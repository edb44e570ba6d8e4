-- train/batches.lua - the batches that fit, evaluate and predict walk: of a
-- data set in memory, or of a pipeline.
--
-- A pipeline's batches are those that it makes itself (:batch and the like), or
-- of as many elements as fit's `batch` says. Its epochs are those of one loop,
-- so that each is mixed anew and what :cache keeps is used.
-- SPDX-License-Identifier: Apache-2.0

local errors = require "tide.base.errors"

local batches = {}

local fail = errors.raise

--- Is it a pipeline, whose size nobody knows?
function batches.is_pipeline(data)
  local meta = getmetatable(data)
  return type(meta) == "table" and meta.__name == "pipeline"
end

-- A loop over one epoch; `held.loop` is the one of the epochs before.
local function pipeline_epoch(p, n, held)
  if held and held.loop then
    held.loop.epochs = held.loop.epochs + 1
    return held.loop
  end
  local loop = p:batches(not p.batched and (n or 100) or nil)
  if held then held.loop = loop end
  return loop
end

local function rows_of(batch, column)
  local shape = batch[column].shape
  if #shape == 0 then
    fail("invalid_argument", "column \"%s\" of a batch is a scalar; batches "
      .. "have a row for each example", column)
  end
  return shape[1]
end

--- The batches of an epoch, each with .size, the number of its examples.
-- @param n examples of a batch (100)
-- @param[opt] o shuffle, seed, of a data set
-- @param[opt] held a table that keeps a pipeline's loop from epoch to epoch
function batches.epoch(data, n, o, held)
  local column, meta = data.columns[1], {}
  local loop
  if batches.is_pipeline(data) then
    loop = pipeline_epoch(data, n, held)
  else
    loop = data:batches(n or 100, o)
    function meta.__len() return #loop end
  end
  function meta.__call()
    local batch = loop()
    if batch then batch.size = rows_of(batch, column) end
    return batch
  end
  return setmetatable({loop = loop}, meta)
end

--- Has the loop of `held` go on from a state. `over`: the epoch it is in has
-- been walked; the next one is asked for.
function batches.resume(data, n, held, state, over)
  if not batches.is_pipeline(data) or not state then return end
  local loop = pipeline_epoch(data, n, held):restore(state)
  loop.epochs = over and loop.epoch or loop.epoch - 1
end

--- One batch, to try things on.
function batches.sample(data, n, what)
  local held = {}
  local batch = batches.epoch(data, n, nil, held)()
  if held.loop then held.loop:close() end
  if not batch then batches.none(what) end
  return batch
end

--- Says that there was nothing to walk.
function batches.none(what)
  fail("invalid_argument", "%s: the pipeline gives no elements", what)
end

return batches
