--- flow/queues.lua - queues: td.fifo_queue and its kin.
--
-- A queue holds tuples of tensors between steps, so that one step may put what
-- another takes. All its methods make nodes: a step that finds the queue full,
-- or empty, waits, and holds no thread meanwhile. Tuples are lists, or with
-- `names` tables. The kinds differ in the order in which tuples come out.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
local shapes = require "tide.tensor.shape"

local queues = {}
local methods = {}
local meta = {__name = "queue", __forms = "queue"}

local fail = errors.invalid

local NO_INDEX = {name = true, handle = true, dtypes = true, shapes = true,
                  names = true, capacity = true, graph = true, kind = true}

-- Fields that come from the handle.
local computed = {
  op = function(self) return self.handle.op end,
  device = function(self) return self.handle.device end,
  origin = function(self) return self.handle.origin end,
}

function meta.__index(self, key)
  if methods[key] then return methods[key] end
  if computed[key] then return computed[key](self) end
  if NO_INDEX[key] then return nil end
  local known = args.sorted_keys(methods)
  for _, more in ipairs{NO_INDEX, computed} do
    local keys = args.sorted_keys(more)
    table.move(keys, 1, #keys, #known + 1, known)
  end
  return fail("a queue has no \"%s\"%s", tostring(key),
              errors.did_you_mean(key, known))
end

--- Is x a queue?
function queues.is(x)
  return type(x) == "table" and getmetatable(x) == meta
end

-- ---- what it holds --------------------------------------------------------

-- What component i is called in messages.
local function called(self, i)
  return self.names and ("\"%s\""):format(self.names[i]) or tostring(i)
end

local function component_text(self, i)
  local text = self.dtypes[i]
  if self.shapes then text = text .. " " .. shapes.text(self.shapes[i]) end
  return self.names and self.names[i] .. ": " .. text or text
end

-- "float32 {3}, int32 {}"
local function tuple_text(self)
  local list = {}
  for i = 1, #self.dtypes do list[i] = component_text(self, i) end
  return table.concat(list, ", ")
end

function meta.__tostring(self)
  local room = self.capacity >= 0 and (" of %d"):format(self.capacity) or ""
  return ("Queue \"%s\" %s%s: %s"):format(self.name, self.kind, room,
                                          tuple_text(self))
end

function meta.__fetch(self)
  fail("queue \"%s\" cannot be fetched; fetch its :dequeue() or :size()",
       self.name)
end

-- ---- enqueue --------------------------------------------------------------

local function check_self(self, what)
  if queues.is(self) then return self end
  return fail("%s is called with a colon: q:%s(...); given %s where the queue "
    .. "should be", what, what, args.what(self))
end

-- The shape of what is enqueued, of one tuple of a batch where `many`.
local function shape_of(self, i, edge, many, what)
  local shape = edge.shape
  if not many or not shape then return shape end
  if #shape == 0 then
    fail("%s: component %s of queue \"%s\" is a scalar; a batch has a first "
      .. "axis, its tuples", what, called(self, i), self.name)
  end
  return shapes.of{table.unpack(shape, 2)}
end

local function component(self, i, x, many, what)
  local dtype = self.dtypes[i]
  local edge = core.edge(x, not args.is_tensor(x) and dtype or nil)
  if edge.dtype ~= dtype then
    fail("%s: component %s of queue \"%s\" is %s, given %s; use td.cast", what,
         called(self, i), self.name, dtype, edge.dtype)
  end
  local shape = shape_of(self, i, edge, many, what)
  local want = self.shapes and self.shapes[i]
  if not shapes.compatible(want, shape) then
    fail("%s: component %s of queue \"%s\" is of shape %s, given %s%s", what,
         called(self, i), self.name, shapes.text(want),
         shapes.text(edge.shape),
         many and ", a batch of " .. shapes.text(shape) or "")
  end
  return edge
end

-- A table by names as a list.
local function by_name(self, t, what)
  if not args.has_names(t) then
    fail("%s: queue \"%s\" has names: give one table, {%s = ..}", what,
         self.name, table.concat(self.names, " = .., "))
  end
  local list, seen = {}, {}
  for i, name in ipairs(self.names) do
    if t[name] == nil then
      fail("%s: \"%s\" is missing; queue \"%s\" holds %s", what, name,
           self.name, tuple_text(self))
    end
    list[i], seen[name] = t[name], true
  end
  for _, key in ipairs(args.sorted_keys(t)) do
    if not seen[key] then
      fail("%s: queue \"%s\" has no component \"%s\"%s", what, self.name, key,
           errors.did_you_mean(key, self.names))
    end
  end
  return list
end

-- The components, and what stands behind them, from all arguments.
local function read_components(self, what, ...)
  local n, given = #self.dtypes, table.pack(...)
  if self.names then
    return by_name(self, given[1], what), given[2], given.n > 2
  elseif n > 1 and args.plain(given[1])
         and (given.n == 1 or given.n == 2 and args.has_names(given[2])) then
    args.check_list(given[1], what)
    local o = given[2]
    given = table.pack(table.unpack(given[1]))
    if given.n == n then given[n + 1] = o end
  end
  if given.n < n or given.n > n + 1 then
    fail("%s: queue \"%s\" holds %d component%s (%s), given %d", what,
         self.name, n, n == 1 and "" or "s", tuple_text(self), given.n)
  end
  return given, given[n + 1]
end

local function add_enqueue(self, type, what, many, ...)
  check_self(self, what)
  local given, o, more = read_components(self, what, ...)
  if more then
    fail("%s takes one table, as queue \"%s\" has names, and options", what,
         self.name)
  end
  o = args.read(o, {"name"}, what)
  local list = {}
  for i = 1, #self.dtypes do
    if given[i] == nil then
      fail("%s: component %s is nil", what, called(self, i))
    end
    list[i] = component(self, i, given[i], many, what)
  end
  return core.add(type, {self.handle, list}, {Tcomponents = self.dtypes},
                  o.name or self.name .. "_" .. what)
end

--- An op that puts a tuple into the queue, once there is room. Its tensors are
-- given one by one or as one list; where the queue has names as a table.
-- @raise cancelled: the queue is closed; in the step
-- @usage local q = td.fifo_queue(2, {"float32", "string"}, {{2}, {}})
-- td.session():run(q:enqueue({1.0, 2.0}, "a"))
-- q:size():eval()  --> 1
function methods:enqueue(...)
  return add_enqueue(self, "QueueEnqueueV2", "enqueue", false, ...)
end

--- The same with a batch of tuples, which go in one by one: each tensor has the
-- tuples along its first axis.
-- @usage local q = td.fifo_queue(8, "int32", {})
-- td.session():run(q:enqueue_many{1, 2, 3})
-- q:size():eval()  --> 3
function methods:enqueue_many(...)
  return add_enqueue(self, "QueueEnqueueManyV2", "enqueue_many", true, ...)
end

-- ---- dequeue --------------------------------------------------------------

-- A number of tuples as an int32 scalar.
local function count_of(self, n, what)
  if args.is_tensor(n) then
    local edge = core.edge(n)
    if edge.dtype == "int32" then return edge end
    fail("%s: n is int32, given %s; use td.cast", what, edge.dtype)
  end
  args.expect(n, "integer", what .. ": n")
  if n < 0 then fail("%s: n must be 0 or more, given %d", what, n) end
  if not self.shapes then
    fail("%s: queue \"%s\" was made without shapes, and several tuples can be "
      .. "had only of shapes that are known; dequeue() gives one", what,
      self.name)
  end
  return core.edge(n, "int32")
end

-- The components one by one; where they have names as a table.
local function taken(self, list)
  if not self.names then return table.unpack(list) end
  local out = {}
  for i, name in ipairs(self.names) do out[name] = list[i] end
  return out
end

local function add_dequeue(self, type, what, n, o)
  check_self(self, what)
  o = args.read(o, {"name"}, what)
  local inputs = {self.handle, n ~= nil and count_of(self, n, what) or nil}
  return taken(self, core.add(type, inputs, {component_types = self.dtypes},
                              o.name or self.name .. "_" .. what))
end

--- The tensors of the next tuple, one by one, or as a table where the queue has
-- names; with n the next n tuples, side by side along a new first axis. A step
-- waits until they are there. A padding queue fills up with zeros.
-- @param[opt] n how many, a number or an int32 scalar
-- @param[opt] o name
-- @raise out_of_range: the queue is closed and has too few; in the step. Where
-- a producer failed it is that error.
-- @usage local q = td.fifo_queue(8, "int32", {})
-- td.session():run(q:enqueue_many{1, 2, 3})
-- q:dequeue(2):eval()  --> 1 2
function methods:dequeue(n, o)
  if n == nil or type(n) == "string" or args.plain(n) then
    return add_dequeue(self, "QueueDequeueV2", "dequeue", nil, n or o)
  end
  return add_dequeue(self, "QueueDequeueManyV2", "dequeue", n, o)
end

--- As dequeue(n), but when the queue is closed what is left will do: one tuple
-- at least.
-- @usage local q = td.fifo_queue(8, "int32", {})
-- local sess = td.session()
-- sess:run(q:enqueue_many{1, 2, 3})
-- sess:run(q:close())
-- q:dequeue_up_to(8):eval()  --> 1 2 3
function methods:dequeue_up_to(n, o)
  if n == nil then fail("dequeue_up_to takes n, how many tuples at most") end
  return add_dequeue(self, "QueueDequeueUpToV2", "dequeue_up_to", n, o)
end

-- ---- the queue itself -----------------------------------------------------

--- The number of tuples in it, an int32 scalar.
function methods:size(o)
  o = args.read(o, {"name"}, "size")
  return core.add("QueueSizeV2", {check_self(self, "size").handle}, nil,
                  o.name or self.name .. "_size")
end

--- Was it closed? A bool scalar.
function methods:is_closed(o)
  o = args.read(o, {"name"}, "is_closed")
  return core.add("QueueIsClosedV2", {check_self(self, "is_closed").handle},
                  nil, o.name or self.name .. "_is_closed")
end

--- An op that closes the queue: nothing more is put into it, what is in it can
-- be taken. It comes after those who wait to enqueue; with
-- cancel_pending_enqueues = true their steps fail.
-- @usage local q = td.fifo_queue(8, "int32", {})
-- td.session():run(q:close())
-- q:is_closed():eval()  --> true
function methods:close(o)
  check_self(self, "close")
  o = args.expect_all(args.read(o, {"cancel_pending_enqueues", "name"},
                                "close"), {cancel_pending_enqueues = "boolean"})
  return core.add("QueueCloseV2", {self.handle},
    {cancel_pending_enqueues = o.cancel_pending_enqueues},
    o.name or self.name .. "_close")
end

-- "3 of 32 elements, closed" in the session; nil where it cannot tell. Who
-- looks on at what the user runs does not see it.
function queues.state(q, sess)
  if sess:core_graph() ~= q.graph then return nil end
  local ok, now = pcall(sess.core_run, sess, q.look, {}, {})
  if not ok then return nil end
  return ("%d%s elements%s"):format(now[1], q.capacity >= 0
    and " of " .. q.capacity or "", now[2] and ", closed" or "")
end

-- ---- making ---------------------------------------------------------------

local function dtype_list(given, what)
  local list = type(given) == "string" and {given} or given
  if not args.plain(list) or #list == 0 then
    fail("%s: the dtypes are a list such as {\"float32\", \"int64\"}, not %s",
         what, args.plain(list) and "an empty one" or args.what(given))
  end
  args.check_list(list, what .. ": the list of dtypes")
  for i, name in ipairs(list) do
    if not dtypes.is_name(name) then
      fail("%s: dtype %d is %s, which is none%s", what, i,
           type(name) == "string" and ("\"%s\""):format(name)
           or args.what(name), errors.did_you_mean(name, dtypes.names))
    end
  end
  return {table.unpack(list)}
end

-- The shape of component i, from a list of sizes, a shape, or nil: unknown.
local function one_shape(given, i, what)
  if not given then return false end
  if math.type(given) == "integer" then given = {given} end
  if type(given) ~= "table" then
    fail("%s: shape %d is a list of sizes such as {2, 3}, not %s", what, i,
         args.what(given))
  end
  for k = 1, #given do
    if math.type(given[k]) ~= "integer" then
      fail("%s: size %d of shape %d is a whole number, given %s", what, k, i,
           tostring(given[k]))
    end
  end
  return shapes.of(given)
end

-- Shapes of n components; `plain`: one dtype was given as it is, and so may the
-- shape be.
local function shape_list(given, n, plain, what)
  if given == nil then return nil end
  if type(given) ~= "table" then
    fail("%s: the shapes are a list with one for each dtype, not %s", what,
         args.what(given))
  end
  if plain and type(given[1]) ~= "table" then given = {given} end
  if #given ~= n then
    fail("%s: %d dtype%s and %d shape%s: give one for each, or none", what, n,
         n == 1 and "" or "s", #given, #given == 1 and "" or "s")
  end
  local list = {}
  for i = 1, n do list[i] = one_shape(given[i], i, what) end
  return list
end

local function name_list(names, n, what)
  if names == nil then return nil end
  args.check_list(names, what .. ": names")
  if #names ~= n then
    fail("%s: %d names for %d components", what, #names, n)
  end
  local seen = {}
  for _, name in ipairs(names) do
    args.expect(name, "string", what .. ": a name")
    if seen[name] then
      fail("%s: two components are named \"%s\"", what, name)
    end
    seen[name] = true
  end
  return {table.unpack(names)}
end

local function check_shapes(q, what)
  if not q.shapes then return end
  for i, s in ipairs(q.shapes) do
    if not shapes.known(s or nil) then
      fail("%s: shape %s is %s; a padding_fifo_queue takes sizes that are not "
        .. "known", what, called(q, i), shapes.text(s or nil))
    end
  end
end

local function read_capacity(capacity, what)
  if math.type(capacity) ~= "integer" then
    fail("%s: the capacity is a whole number, -1 for no limit, not %s", what,
         type(capacity) == "number" and tostring(capacity)
         or args.what(capacity))
  end
  if capacity == 0 then fail("%s: nothing fits into a capacity of 0", what) end
  return capacity < 0 and -1 or capacity
end

local function read(what, capacity, given, shape, o)
  local q = {capacity = read_capacity(capacity, what),
             dtypes = dtype_list(given, what)}
  local n = #q.dtypes
  q.shapes = shape_list(shape, n, type(given) == "string", what)
  q.names = name_list(o.names, n, what)
  return q
end

-- The nodes, outside of all control flow; `attrs` is what the kind has more.
local function make(q, type, kind, attrs, o)
  local what = kind:gsub("[ -]", "_") .. "_queue"
  local _ <close> = core.push{graph = graph.owner(), flow = 0, capture = false,
                              pivot = false, clear_controls = true}
  attrs.component_types = attrs.component_types or q.dtypes
  attrs.shapes = attrs.shapes or q.shapes
  attrs.capacity, attrs.shared_name = q.capacity, o.shared_name
  q.handle = core.add(type, {}, attrs, o.name or what)
  q.name, q.graph, q.kind = q.handle.op.name, q.handle.graph, kind
  local _ <close> = core.push{prefix = q.name .. "/",
                                  colocate = q.handle.op}
  q.look = {core.add("QueueSizeV2", {q.handle}, nil, "Size"),
            core.add("QueueIsClosedV2", {q.handle}, nil, "IsClosed")}
  setmetatable(q, meta)
  graph.add_to_collection("queues", q)
  return q
end

local types = {names = "table", shared_name = "string",
               min_after_dequeue = "integer", seed = "integer"}

local options = {"names", "shared_name", "name"}
local shuffle_options = {"min_after_dequeue", "seed", "names", "shared_name",
                         "name"}

local function read_options(o, known, what)
  return args.expect_all(args.read(o, known, what), types)
end

--- A queue that gives tuples in the order in which they came.
-- @param capacity how many tuples it has room for; -1: no limit
-- @param dtypes of the tensors of a tuple; one may be given plain
-- @param[opt] shapes of those; without them tuples come one by one only
-- @param[optchain] o names: of the tensors, tuples are tables by them;
-- shared_name: queues of that name are one queue; name
-- @usage local q = td.fifo_queue(8, {"int32", "string"}, {{}, {}},
--                         {names = {"id", "text"}})
-- td.session():run(q:enqueue{id = 7, text = "seven"})
-- q:dequeue().text:eval()  --> seven
function queues.fifo_queue(capacity, types_of, shape, o)
  o = read_options(o, options, "fifo_queue")
  local q = read("fifo_queue", capacity, types_of, shape, o)
  check_shapes(q, "fifo_queue")
  return make(q, "FIFOQueueV2", "fifo", {}, o)
end

--- A queue whose tuples may differ in size: of what is dequeued together the
-- smaller ones are filled up with zeros ("", false).
-- @param capacity as fifo_queue's
-- @param dtypes of the tensors of a tuple
-- @param shapes of those; -1 is a size that varies
-- @param[opt] o names, shared_name, name
-- @usage local q = td.padding_fifo_queue(8, "int32", {-1})
-- local sess = td.session()
-- sess:run(q:enqueue{1})
-- sess:run(q:enqueue{2, 3})
-- q:dequeue(2):eval()  --> {{1, 0}, {2, 3}}
function queues.padding_fifo_queue(capacity, types_of, shape, o)
  o = read_options(o, options, "padding_fifo_queue")
  local q = read("padding_fifo_queue", capacity, types_of, shape, o)
  if not q.shapes then
    fail("padding_fifo_queue takes shapes: -1 is a size that varies")
  end
  for i, s in ipairs(q.shapes) do
    if not s then
      fail("padding_fifo_queue: how many axes component %s has must be known",
           called(q, i))
    end
  end
  return make(q, "PaddingFIFOQueueV2", "padding fifo", {}, o)
end

--- A queue that gives tuples in random order.
-- @param capacity as fifo_queue's
-- @param dtypes of the tensors of a tuple
-- @param[opt] shapes of those
-- @param[optchain] o min_after_dequeue (0): so many stay in it, for a good
-- mixture, until it is closed; seed: the same order each time; names,
-- shared_name, name
-- @usage local q = td.random_shuffle_queue(8, "int32", {}, {seed = 1})
-- td.session():run(q:enqueue_many{4, 4})
-- q:dequeue():eval()  --> 4
function queues.random_shuffle_queue(capacity, types_of, shape, o)
  local what = "random_shuffle_queue"
  o = read_options(o, shuffle_options, what)
  local q = read(what, capacity, types_of, shape, o)
  check_shapes(q, what)
  local least = o.min_after_dequeue or 0
  if least < 0 or (capacity > 0 and least >= capacity) then
    fail("%s: min_after_dequeue must be from 0 to %d, below the capacity, "
      .. "given %d", what, capacity - 1, least)
  end
  return make(q, "RandomShuffleQueueV2", "random shuffle",
               {min_after_dequeue = least, seed = o.seed}, o)
end

--- A queue that gives the tuple of the lowest rank first. A tuple begins with
-- its rank, an int64 scalar, of which dtypes and shapes do not tell; among
-- names it is "priority".
-- @param capacity as fifo_queue's
-- @param dtypes of the tensors behind the rank
-- @param[opt] shapes of those
-- @param[optchain] o names: of the tensors behind the rank; shared_name, name
-- @usage local q = td.priority_queue(8, "string", {})
-- local sess = td.session()
-- sess:run(q:enqueue_many({2, 1}, {"late", "soon"}))
-- select(2, q:dequeue()):eval()  --> soon
function queues.priority_queue(capacity, types_of, shape, o)
  local what = "priority_queue"
  o = read_options(o, options, what)
  local q = read(what, capacity, types_of, shape, o)
  check_shapes(q, what)
  local attrs = {component_types = q.dtypes, shapes = q.shapes or {}}
  q.dtypes = {"int64", table.unpack(q.dtypes)}
  q.shapes = q.shapes and {shapes.of{}, table.unpack(q.shapes)}
  q.names = q.names and {"priority", table.unpack(q.names)}
  return make(q, "PriorityQueueV2", "priority", attrs, o)
end

return queues
