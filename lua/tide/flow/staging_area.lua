--- flow/staging_area.lua - td.staging_area: tuples of tensors that one step
-- puts and a later one gets.
--
-- As a queue of one kind and without batches: for what is made ahead, such as
-- the next step's operands. An area is known by its name to the ops that use
-- it; there is no handle.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local resource = require "tide.flow.resource"
local shapes = require "tide.tensor.shape"

local staging_area = {}
local methods = {}
local meta = resource.class("staging area", methods, "its :get() or :size()")

local fail = errors.invalid

--- An area for tuples of tensors with these dtypes and shapes.
-- @param dtypes a list of dtypes, or one
-- @param[opt] of the shapes, as many
-- @param[opt] o capacity: tuples, above which put waits; memory_limit: the same
-- in bytes; shared_name: those of one name are one area; name
-- @usage td.staging_area("float32", {2}).name  --> staging_area
function staging_area.staging_area(dtypes, of, o)
  o = args.read(o, {"capacity", "memory_limit", "shared_name", "name"},
                "staging_area")
  local types, list = resource.components(dtypes, of, "staging_area")
  local here = core.scope()
  local name = here.graph:unique(here.prefix .. (o.name or "staging_area"))
  return setmetatable({name = name, dtypes = types, shapes = list or false,
    attrs = {dtypes = types, capacity = o.capacity or 0,
             memory_limit = o.memory_limit or 0,
             shared_name = o.shared_name or name,
             container = here.container or ""}}, meta)
end

local function add(self, type, inputs, name)
  local attrs = {}
  for key, value in pairs(self.attrs) do attrs[key] = value end
  return core.add(type, inputs, attrs, name)
end

--- An op that puts a tuple, once there is room.
function methods:put(...)
  local given = table.pack(...)
  if given.n == 1 and #self.dtypes > 1 and args.plain(given[1]) then
    given = table.pack(table.unpack(given[1]))
  end
  if given.n ~= #self.dtypes then
    fail("put: staging area \"%s\" holds tuples of %d, given %d", self.name,
         #self.dtypes, given.n)
  end
  local list = {}
  for i, dtype in ipairs(self.dtypes) do
    list[i] = resource.value(given[i], dtype, ("put: component %d of staging "
      .. "area \"%s\""):format(i, self.name))
    local want = self.shapes and self.shapes[i]
    if want and not shapes.compatible(want, list[i].shape) then
      fail("put: component %d of staging area \"%s\" is of shape %s, given %s",
           i, self.name, shapes.text(want), shapes.text(list[i].shape))
    end
  end
  return add(self, "Stage", {list}, "put")
end

local function shaped(self, list)
  for i, x in ipairs(list) do
    resource.shaped(x, self.shapes and self.shapes[i])
  end
  return table.unpack(list)
end

--- The oldest tuple, once there is one; its tensors as several results.
function methods:get()
  return shaped(self, add(self, "Unstage", {}, "get"))
end

--- Tuple i, counted from 0, the oldest; it stays.
function methods:peek(i)
  return shaped(self, add(self, "StagePeek", {i}, "peek"))
end

--- How many tuples are there, int32.
function methods:size()
  return add(self, "StageSize", {}, "size")
end

--- An op that drops all of them.
function methods:clear()
  return add(self, "StageClear", {}, "clear")
end

function meta.__tostring(self)
  return ("StagingArea \"%s\": %s"):format(self.name,
    table.concat(self.dtypes, ", "))
end

return staging_area
