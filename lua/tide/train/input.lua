--- train/input.lua - td.train.batch and its kin: queues that runners fill.
--
-- Each makes a queue and a runner that fills it, and gives tensors (or the
-- queue) that are new in each step. Nothing runs before
-- td.train.start_queue_runners. The end of what they read comes through all of
-- them as out_of_range, an error as its cause.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local control = require "tide.control.control"
local errors = require "tide.base.errors"
local queues = require "tide.flow.queues"
local runners = require "tide.train.queue_runner"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local structure = require "tide.tensor.structure"
local ops = require("tide.ops").ops

local train = {}

local fail = errors.invalid

local types = {threads = "integer", capacity = "integer", seed = "integer",
               min_after_dequeue = "integer", dynamic_pad = "boolean",
               allow_smaller = "boolean", enqueue_many = "boolean",
               shapes = "table", shuffle = "boolean", epochs = "integer",
               shared_name = "string"}

local function read(o, known, what)
  o = args.expect_all(args.read(o, known, what), types)
  for _, key in ipairs{"threads", "capacity", "epochs"} do
    if o[key] and o[key] < 1 then
      fail("%s: %s must be 1 or more, given %d", what, key, o[key])
    end
  end
  return o
end

local function read_size(n, what)
  if args.is_tensor(n) then return n end
  args.expect(n, "integer", what .. ": the number of examples in a batch")
  if n < 1 then fail("%s: a batch has 1 example or more, not %d", what, n) end
  return n
end

-- ---- what goes into the queue ---------------------------------------------

local function flatten(list, what)
  local flat = structure.flatten(list, what .. ": what is batched")
  if #flat == 0 then fail("%s: there is nothing to be batched", what) end
  return flat
end

-- The shape of one example of a tensor, from what is known of it.
local function example_shape(x, o, what)
  local shape = x.shape
  if not shape or not o.enqueue_many then return shape end
  if #shape == 0 then
    fail("%s: \"%s\" is a scalar; with enqueue_many a tensor has a first axis, "
      .. "its examples", what, x.name)
  end
  return shapes.of{table.unpack(shape, 2)}
end

local function check_shape(x, shape, o, what)
  if shape and (o.dynamic_pad or shapes.known(shape)) then return end
  fail("%s: an example of \"%s\" is of shape %s; %s", what, x.name,
       shapes.text(shape), shape and o.pads ~= false and "dynamic_pad = true "
       .. "fills sizes that vary up with zeros"
       or "its sizes must be known: say them by the option shapes")
end

-- dtypes and shapes of the queue for a flat list.
local function layout(flat, o, what)
  local dtypes, of = {}, {}
  if o.shapes and #o.shapes ~= #flat then
    fail("%s: %d shapes for %d tensors", what, #o.shapes, #flat)
  end
  for i, x in ipairs(flat) do
    dtypes[i] = x.dtype
    of[i] = o.shapes and shapes.of(o.shapes[i]) or example_shape(x, o, what)
    check_shape(x, of[i], o, what)
  end
  return dtypes, of
end

local function queue_options(o, name)
  return {shared_name = o.shared_name, name = name}
end

-- Fills q with what is in the list, and gives batches in the form of `list`.
local function batches(q, list, flat, n, o)
  local put = o.enqueue_many and q.enqueue_many or q.enqueue
  local op = put(q, table.unpack(flat))
  runners.add_queue_runner(runners.queue_runner(q, op, {threads = o.threads}))
  local take = o.allow_smaller and q.dequeue_up_to or q.dequeue
  return structure.pack(list, {take(q, n, {name = "batch"})})
end

-- ---- batch ----------------------------------------------------------------

local batch_options = {"threads", "capacity", "dynamic_pad", "allow_smaller",
                       "enqueue_many", "shapes", "shared_name", "name"}

--- Batches of n examples, in the order in which they come.
-- @param list a tensor, a list or a table of them: one example, new in each
-- step
-- @param n examples in a batch
-- @param[opt] o threads: examples on their way at a time (1); capacity: of the
-- queue (32); dynamic_pad: sizes that vary are filled up with zeros;
-- allow_smaller: the last batch has what is left; enqueue_many: the tensors
-- have many examples, along their first axis; shapes: of an example; name
-- @return the form of `list`, with another first axis
-- @raise out_of_range: no batch is left; in the step
-- @usage local q = td.train.range_input_producer(6, {shuffle = false})
-- local i = q:dequeue()
-- local b = td.train.batch({index = i, square = i * i}, 3)
-- local sess = td.session()
-- td.train.start_queue_runners(sess)
-- sess:run(b).square  --> 0 1 4
function train.batch(list, n, o)
  o = read(o, batch_options, "batch")
  n = read_size(n, "batch")
  return scope.name_scope(o.name or "batch", function()
    local flat = flatten(list, "batch")
    local dtypes, of = layout(flat, o, "batch")
    local make = o.dynamic_pad and queues.padding_fifo_queue
      or queues.fifo_queue
    local q = make(o.capacity or 32, dtypes, of, queue_options(o))
    return batches(q, list, flat, n, o)
  end)
end

-- ---- shuffle_batch --------------------------------------------------------

local shuffle_options = {"capacity", "min_after_dequeue", "seed", "threads",
                         "allow_smaller", "enqueue_many", "shapes",
                         "shared_name", "name"}

--- The same in random order.
-- @param list as batch's
-- @param n examples in a batch
-- @param[opt] o min_after_dequeue: the examples among which is chosen (10 n);
-- capacity (min_after_dequeue + 3 n); seed: the same order each time; threads,
-- allow_smaller, enqueue_many, shapes, name as batch's
-- @usage local i = td.train.range_input_producer(1):dequeue()
-- local b = td.train.shuffle_batch(i, 2, {seed = 1})
-- local sess = td.session()
-- td.train.start_queue_runners(sess)
-- sess:run(b)  --> 0 0
function train.shuffle_batch(list, n, o)
  o = read(o, shuffle_options, "shuffle_batch")
  o.pads = false
  n = read_size(n, "shuffle_batch")
  local each = math.type(n) == "integer" and n or 32
  local least = o.min_after_dequeue or 10 * each
  if o.capacity and not o.min_after_dequeue then
    least = math.min(least, o.capacity // 2)
  end
  return scope.name_scope(o.name or "shuffle_batch", function()
    local flat = flatten(list, "shuffle_batch")
    local dtypes, of = layout(flat, o, "shuffle_batch")
    local q = queues.random_shuffle_queue(o.capacity or least + 3 * each,
      dtypes, of, {min_after_dequeue = least, seed = o.seed,
                   shared_name = o.shared_name})
    return batches(q, list, flat, n, o)
  end)
end

-- ---- buckets --------------------------------------------------------------

local function check_bounds(bounds, what)
  args.check_list(bounds, what .. ": the bounds")
  if #bounds == 0 then fail("%s: there are no bounds", what) end
  for i, x in ipairs(bounds) do
    args.expect(x, "integer", what .. ": a bound")
    if i > 1 and x <= bounds[i - 1] then
      fail("%s: bounds grow, but %d follows on %d", what, x, bounds[i - 1])
    end
  end
  return bounds
end

-- How many examples each of the buckets gives at a time.
local function batch_sizes(n, count, what)
  local sizes = {}
  if args.plain(n) and #n ~= count then
    fail("%s: %d bounds make %d buckets, given %d batch sizes", what,
         count - 1, count, #n)
  end
  for i = 1, count do
    sizes[i] = read_size(args.plain(n) and n[i] or n, what)
  end
  return sizes
end

-- A scalar length as int32.
local function length_of(length, what)
  local edge = core.edge(length)
  if not edge.dtype:find "^int" or edge.rank and edge.rank ~= 0 then
    fail("%s: the length is an integer scalar, given %s %s", what, edge.dtype,
         shapes.text(edge.shape))
  end
  return ops.cast(edge, "int32")
end

-- Puts the example into the bucket of that number only.
local function into_bucket(buckets, which, flat)
  local puts = {}
  for i, q in ipairs(buckets) do
    puts[i] = control.cond(ops.equal(which, i - 1), function()
      return q:enqueue(table.unpack(flat))
    end, function() end)
  end
  return scope.group(puts)
end

local function bucket_queues(flat, count, o, what)
  local dtypes, of = layout(flat, o, what)
  local make = o.dynamic_pad and queues.padding_fifo_queue
    or queues.fifo_queue
  local list = {}
  for i = 1, count do
    list[i] = make(o.capacity or 32, dtypes, of,
                   queue_options({}, "bucket_" .. i - 1))
  end
  return list, dtypes, of
end

-- The queue of batches, from whichever bucket, and what fills it.
local function batch_queue(buckets, sizes, dtypes, of, o)
  local shape = {}
  for i, s in ipairs(of) do shape[i] = {-1, table.unpack(s)} end
  local top = queues.padding_fifo_queue(o.capacity or 32, dtypes, shape,
                                        queue_options(o, "batches"))
  local fills = {}
  for i, q in ipairs(buckets) do
    local take = o.allow_smaller and q.dequeue_up_to or q.dequeue
    fills[i] = top:enqueue(take(q, sizes[i]))
  end
  return top, fills
end

local bucket_options = {"threads", "capacity", "allow_smaller", "dynamic_pad",
                        "shapes", "shared_name", "name"}

--- Batches of examples of about the same length, so that little is filled up.
-- Bounds {10, 20} make three buckets: shorter than 10, from 10 to 19, from 20
-- on. Examples wait in the bucket of their length until it has n of them.
-- @param length of the example, an integer scalar
-- @param list the example, as batch's
-- @param n examples in a batch, or a list with one number for each bucket
-- @param bounds a list of integers, ascending
-- @param[opt] o threads, capacity (32, of each queue), allow_smaller, shapes,
-- name as batch's; dynamic_pad = false: all shapes must be known
-- @return the lengths (int32), and the batch in the form of `list`
-- @usage local q = td.train.range_input_producer(4, {shuffle = false})
-- local i = q:dequeue()
-- local n, b = td.train.bucket_by_sequence_length(i, td.ones{i}, 2, {4, 8})
-- local sess = td.session()
-- td.train.start_queue_runners(sess)
-- sess:run(n)  --> 0 1
function train.bucket_by_sequence_length(length, list, n, bounds, o)
  local what = "bucket_by_sequence_length"
  o = read(o, bucket_options, what)
  if o.dynamic_pad == nil then o.dynamic_pad = true end
  local count = #check_bounds(bounds, what) + 1
  local sizes = batch_sizes(n, count, what)
  return scope.name_scope(o.name or "bucket", function()
    local flat = flatten(list, what)
    table.insert(flat, 1, length_of(length, what))
    if o.shapes then o.shapes = {{}, table.unpack(o.shapes)} end
    local which = ops.sum(ops.cast(ops.less_equal(core.edge(bounds, "int32"),
                                                  flat[1]), "int32"))
    local buckets, dtypes, of = bucket_queues(flat, count, o, what)
    local top, fills = batch_queue(buckets, sizes, dtypes, of, o)
    runners.add_queue_runner(runners.queue_runner(buckets,
      into_bucket(buckets, which, flat), {threads = o.threads}))
    runners.add_queue_runner(runners.queue_runner(top, fills))
    local out = {top:dequeue "batch"}
    return table.remove(out, 1), structure.pack(list, out)
  end)
end

-- ---- producers ------------------------------------------------------------

local producer_options = {"epochs", "shuffle", "seed", "capacity",
                          "shared_name", "name"}

-- A vector that is not empty, as a graph tensor.
local function rows_of(x, dtype, what)
  local edge = core.edge(x, not args.is_tensor(x) and dtype or nil)
  if edge.rank == 0 then
    fail("%s takes a tensor with rows, or a list, given a scalar", what)
  elseif edge.shape and edge.shape[1] == 0 then
    fail("%s: there is nothing to be produced: no rows", what)
  elseif edge.shape and edge.shape[1] > 0 then
    return edge
  end
  local look = core.op "Assert"(ops.greater(ops.size(edge), 0),
                                {what .. ": there is nothing to be produced"})
  return scope.control_dependencies({look}, ops.identity, edge)
end

local function produce(x, o, what)
  local rows = x
  if o.shuffle ~= false then
    rows = ops.random_shuffle(rows, {seed = o.seed})
  end
  if not rows.shape or not shapes.known{table.unpack(rows.shape, 2)} then
    fail("%s: the rows are of shape %s and must be known but for their number",
         what, shapes.text(rows.shape))
  end
  local q = queues.fifo_queue(o.capacity or 32, x.dtype,
                              {{table.unpack(rows.shape, 2)}}, queue_options(o))
  runners.add_queue_runner(runners.queue_runner(q, q:enqueue_many(rows),
                                                {steps = o.epochs}))
  return q
end

local function producer(x, dtype, o, what)
  o = read(o, producer_options, what)
  return scope.name_scope(o.name or what, function()
    return produce(rows_of(x, dtype, what), o, what)
  end)
end

--- A queue of the rows of x, again and again.
-- @param x a tensor
-- @param[opt] o epochs: how often, then the queue is closed (without end);
-- shuffle = false: in their order, else another in each epoch; seed: the same
-- orders each time; capacity (32); name
-- @return the queue, whose dequeue() is one row
-- @usage local q = td.train.input_producer({{1, 2}, {3, 4}}, {shuffle = false})
-- local sess = td.session()
-- td.train.start_queue_runners(sess)
-- sess:run(q:dequeue())  --> 1 2
function train.input_producer(x, o)
  return producer(x, nil, o, "input_producer")
end

--- The same with a list of strings, such as names of files.
-- @usage local q = td.train.string_input_producer({"a", "b"}, {seed = 1})
-- q  --> Queue "string_input_producer/fifo_queue" fifo of 32: string {}
function train.string_input_producer(names, o)
  if type(names) == "string" then names = {names} end
  if args.plain(names) and #names == 0 then
    fail "string_input_producer: the list of names is empty"
  end
  return producer(names, "string", o, "string_input_producer")
end

--- A queue of the integers 0 to limit - 1.
function train.range_input_producer(limit, o)
  if not args.is_tensor(limit) then
    args.expect(limit, "integer", "range_input_producer: the limit")
    if limit < 1 then
      fail("range_input_producer: the limit must be 1 or more, given %d", limit)
    end
  end
  return producer(ops.range(limit), "int32", o, "range_input_producer")
end

--- Row i of each tensor of a list (or of one tensor), with i from a
-- range_input_producer.
-- @param list tensors with as many rows each
-- @param[opt] o as input_producer's
-- @return the form of the list, a row for each tensor
-- @usage local x = td.constant{{1, 2}, {3, 4}}
-- local row = td.train.slice_input_producer({x, x * 10}, {shuffle = false})
-- local sess = td.session()
-- td.train.start_queue_runners(sess)
-- sess:run(row)[2]  --> 10 20
function train.slice_input_producer(list, o)
  o = read(o, producer_options, "slice_input_producer")
  local flat = flatten(list, "slice_input_producer")
  for i, x in ipairs(flat) do
    if x.rank == 0 then
      fail("slice_input_producer: tensor %d is a scalar and has no rows", i)
    end
  end
  o.name = o.name or "slice_input_producer"
  local q = train.range_input_producer(flat[1]:dim(0), o)
  local at, rows = q:dequeue(), {}
  for i, x in ipairs(flat) do rows[i] = ops.gather(x, at) end
  return structure.pack(list, rows)
end

return train
