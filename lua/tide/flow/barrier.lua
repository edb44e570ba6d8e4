--- flow/barrier.lua - td.barrier: elements whose components come at different
-- times.
--
-- An element has a key. One step gives some of its components, others the rest;
-- once all are there it can be taken. So results that arrive in any order are
-- put together again.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local resource = require "tide.flow.resource"
local shapes = require "tide.tensor.shape"

local barrier = {}
local methods = {}
local meta = resource.class("barrier", methods, "its :take(n)")

local fail = errors.invalid

--- A barrier for elements of components with these dtypes and shapes, which are
-- fully known.
-- @param dtypes a list of dtypes, or one
-- @param of the shapes, as many
-- @param[opt] o shared_name: those of one name are one barrier; name
-- @usage td.barrier({"float32", "int32"}, {{}, {2}}).name  --> barrier
function barrier.barrier(dtypes, of, o)
  o = args.read(o, {"shared_name", "name"}, "barrier")
  local types, list = resource.components(dtypes, of, "barrier")
  if not list then fail("barrier: give a shape for each component") end
  local handle = core.add("Barrier", {}, {component_types = types,
    shapes = list, shared_name = o.shared_name}, o.name or "barrier")
  return setmetatable({handle = handle, dtypes = types, shapes = list,
                       name = handle.op.name}, meta)
end

--- An op that gives component i (counted from 1) of the elements with these
-- keys.
-- @param keys strings {n}  @param values {n, ...}
function methods:insert(i, keys, values)
  local dtype = math.type(i) == "integer" and self.dtypes[i]
  if not dtype then
    fail("insert: barrier \"%s\" has components 1 to %d, none of number %s",
         self.name, #self.dtypes, tostring(i))
  end
  values = resource.value(values, dtype, ("insert: component %d of barrier "
    .. "\"%s\""):format(i, self.name))
  local shape = values.shape
  local each = shape and #shape > 0 and shapes.of{table.unpack(shape, 2)}
  if each and not shapes.compatible(self.shapes[i], each) then
    fail("insert: component %d of barrier \"%s\" is of shape %s, given a batch "
      .. "of %s", i, self.name, shapes.text(self.shapes[i]), shapes.text(each))
  end
  return core.add("BarrierInsertMany", {self.handle,
    resource.value(keys, "string", "insert: the keys"), values},
    {component_index = i - 1})
end

--- Takes n elements once all their components are there.
-- @param n how many; a number or a graph scalar
-- @param[opt] o allow_small_batch: once the barrier is closed, fewer are
-- enough; wait_for_incomplete: but not before those are complete that can be;
-- name
-- @return the numbers of the batches in which their keys came, int64 {n}; the
-- keys; then each component, {n, ...}
function methods:take(n, o)
  o = args.read(o, {"allow_small_batch", "wait_for_incomplete", "name"},
                "take")
  local batches, keys, values = core.add("BarrierTakeMany", {self.handle, n}, {
    component_types = self.dtypes, allow_small_batch = o.allow_small_batch,
    wait_for_incomplete = o.wait_for_incomplete}, o.name)
  return batches, keys, table.unpack(values)
end

--- An op after which no new keys come. Incomplete elements can still be
-- completed, unless cancel_pending_enqueues is set.
function methods:close(o)
  o = args.read(o, {"cancel_pending_enqueues", "name"}, "close")
  return core.add("BarrierClose", {self.handle},
    {cancel_pending_enqueues = o.cancel_pending_enqueues}, o.name)
end

--- How many elements are complete, int32.
function methods:ready_size()
  return core.add("BarrierReadySize", {self.handle})
end

--- How many lack a component, int32.
function methods:incomplete_size()
  return core.add("BarrierIncompleteSize", {self.handle})
end

function meta.__tostring(self)
  local list = {}
  for i, dtype in ipairs(self.dtypes) do
    list[i] = dtype .. " " .. shapes.text(self.shapes[i])
  end
  return ("Barrier \"%s\": %s"):format(self.name, table.concat(list, ", "))
end

return barrier
