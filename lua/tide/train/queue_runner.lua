--- train/queue_runner.lua - what keeps queues filled while other steps run.
--
-- A runner is a loop of steps (sess:loop), which holds no thread and no Lua.
-- When its ops have nothing more to give the queue is closed; when one fails
-- the queue fails, so that whoever waits for elements is told the cause. The
-- engine sees to both: they happen whatever Lua is doing.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
local queues = require "tide.flow.queues"
local scope = require "tide.graph.scope"
local session = require "tide.run.session"

local train = {}
local runner = {__name = "queue runner"}
runner.__index = runner

local fail = errors.invalid

function runner.__tostring(self)
  local names = {}
  for i, q in ipairs(self.queues) do names[i] = q.name end
  return ("Queue runner of \"%s\""):format(table.concat(names, "\", \""))
end

local function queue_list(given)
  local list = queues.is(given) and {given} or given
  if not args.plain(list) or #list == 0 then
    fail("queue_runner takes a queue or a list of queues, not %s",
         args.what(given))
  end
  for i, q in ipairs(args.check_list(list, "queue_runner: the queues")) do
    if not queues.is(q) then
      fail("queue_runner: queue %d is %s", i, args.what(q))
    end
  end
  return {table.unpack(list)}
end

local function op_list(given)
  if core.kind(given) == "op" or args.is_tensor(given) then given = {given} end
  args.check_list(given, "queue_runner: the ops")
  if #given == 0 then fail "queue_runner takes ops to run, given none" end
  local list = {}
  for i, x in ipairs(given) do list[i] = scope.op_of(x, "queue_runner") end
  return list
end

-- The ops that end the queues: close, cancel, fail.
local function add_ends(self)
  local _ <close> = core.push{clear_controls = true,
                              prefix = self.queues[1].name .. "/"}
  self.code = core.add("Placeholder", {}, {dtype = "int32", shape = {}}, "code")
  self.message = core.add("Placeholder", {}, {dtype = "string", shape = {}},
                          "message")
  self.handle = self.code -- a notebook's cell that runs again takes it along
  self.close, self.cancel, self.fail = {}, {}, {}
  for i, q in ipairs(self.queues) do
    self.close[i] = q:close "close"
    self.cancel[i] = q:close{cancel_pending_enqueues = true, name = "cancel"}
    self.fail[i] = core.add("QueueFail", {q.handle, self.code, self.message},
                            nil, "fail")
  end
end

--- What runs ops again and again that fill a queue. Each op has a loop of its
-- own, and ends by its out_of_range (or because its queue was closed); after
-- the last the queue is closed. Any other error ends all at once, and is what
-- whoever dequeues is told.
-- @param q a queue, or a list of queues that the ops fill
-- @param ops an op or a list, such as q:enqueue(x)
-- @param[opt] o threads: steps of each op in flight (1); steps: so many in all
-- @usage local q = td.fifo_queue(4, "float32", {})
-- td.train.add_queue_runner(td.train.queue_runner(q, q:enqueue(1.5)))
-- local sess = td.session()
-- td.train.start_queue_runners(sess)
-- sess:run(q:dequeue(3))  --> 1.5 1.5 1.5
function train.queue_runner(q, ops, o)
  o = args.expect_all(args.read(o, {"threads", "steps"}, "queue_runner"),
                      {threads = "integer", steps = "integer"})
  if o.threads and o.threads < 1 then
    fail("queue_runner: threads must be 1 or more, given %d", o.threads)
  end
  local self = {queues = queue_list(q), ops = op_list(ops),
                threads = o.threads or 1, steps = o.steps,
                running = setmetatable({}, {__mode = "k"})}
  self.graph = self.queues[1].graph
  add_ends(self)
  return setmetatable(self, runner)
end

--- Has start_queue_runners start that runner.
function train.add_queue_runner(r)
  if getmetatable(r) ~= runner then
    fail("add_queue_runner takes what td.train.queue_runner gives, not %s",
         args.what(r))
  end
  graph.add_to_collection("queue_runners", r)
  return r
end

-- Starts it in the session; gives the loop's handle, or nil where one goes on.
function runner:start(sess)
  local running = self.running[sess]
  if running and not running:done() then return nil end
  local more = {}
  for i = 2, #self.ops do more[i - 1] = {self.ops[i]} end
  local loop = session.begin_loop(sess, {self.ops[1]}, {
    threads = self.threads, steps = self.steps,
    more = #more > 0 and more or nil,
    at_end = self.close, at_error = self.fail,
    error_feeds = {self.code, self.message}})
  self.running[sess] = loop
  return loop
end

--- Starts the runners of the session's graph: those that td.train.batch and its
-- kin made, and add_queue_runner's. They go on until their queues are closed,
-- the coordinator stops them or the session is closed.
-- @param[opt] sess the default session
-- @param[opt] coord a td.train.coordinator, which hears of their errors
-- @return a list of their handles, as sess:loop gives; one that runs already is
-- not started again
function train.start_queue_runners(sess, coord)
  sess = sess or session.default()
  if core.kind(sess) ~= "session" then
    fail("start_queue_runners takes a session, not %s", args.what(sess))
  end
  local meta = type(coord) == "table" and getmetatable(coord)
  if coord ~= nil and not (meta and rawget(meta, "__watch")) then
    fail("start_queue_runners takes what td.train.coordinator gives, not %s",
         args.what(coord))
  end
  local g = session.graph_of(sess, "start_queue_runners")
  local handles = {}
  for _, r in ipairs(graph.state(g).collections.queue_runners or {}) do
    local loop = r:start(sess)
    handles[#handles + 1] = loop
    if loop and coord then coord:__watch(sess, r, loop) end
  end
  return handles
end

return train
