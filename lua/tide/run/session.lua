--- run/session.lua - runs graphs: sess:run, eval, callables, init.
--
-- The session itself is the binding's; here are the forms its calls take, and
-- which session is the default one.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local fetch = require "tide.run.fetch"
local graph = require "tide.graph.graph"
local scope = require "tide.graph.scope"
local tensor = require "tide.tensor.tensor"

local session = {}
local methods = {}

-- What td.config sets for sessions made later.
session.defaults = {}

-- ---- the default session --------------------------------------------------

--- Those that are not closed, as a set.
session.open = setmetatable({}, {__mode = "k"})

local latest -- the one made last that is still open
local inner = setmetatable({}, {__mode = "k"}) -- coroutine -> as_default's
local closed = setmetatable({}, {__mode = "k"})

local registry = debug.getregistry()
local close_raw = registry["tide.session"].__close

local known = {"graph", "target", "threads", "cpu_devices", "soft_placement",
               "passes_off", "cache", "queued_bytes", "verify",
               "roundtrip", "key", "name", "outlive", "timeout", "compress"}
local types = {target = "string", threads = "integer", cpu_devices = "integer",
               soft_placement = "boolean", passes_off = "table",
               cache = "integer", queued_bytes = "integer", verify = "boolean",
               roundtrip = "boolean", key = "string", name = "string",
               outlive = "boolean", timeout = "number"}
session.types = types

-- Makes a session of another process's (remote/far.lua), which is above.
session.far = nil

-- One whose master is in the process at o.target.
local function open_far(o)
  if session.far.joins(o) and o.graph then
    errors.invalid("session: \"%s\" is joined, and has a graph of its own; "
      .. "leave graph out, and fetch its nodes by name", o.name)
  end
  local g = session.far.joins(o) and core.graph_new() or o.graph or core.graph()
  local s = core.session(g, o)
  local ok, why = pcall(session.far.open, s, g, o)
  if ok then return s end
  close_raw(s)
  error(why, 0)
end

local SLOW = 150 -- MB/s: what 1 Gbit/s gives is less

-- Of `compress`: bytes a second, below which a link is slow.
local function slow_link(compress)
  if compress == nil then return nil end
  local most = compress == "slow" and SLOW or compress
  if math.type(most) == nil or not (most > 0 and most <= 1e9) then
    errors.invalid("session: compress is \"slow\" or a number of MB/s up to "
      .. "1e9, not %s", args.what(compress))
  end
  return math.tointeger(most * 1e6 // 1)
end

local function only_far(o)
  for _, name in ipairs{"key", "name", "outlive", "timeout"} do
    if o[name] ~= nil then
      errors.invalid("session: %s is for a session at a target", name)
    end
  end
end

-- What the design names and sessions cannot do: what does instead.
local instead = {
  placement = "td.device(spec, f) says where nodes go, by a function of the op "
    .. "too, and sess:explain_placement() where they are",
  listen = "a session that others are to find is one at a server: td.server"
    .. "{listen = \"ipc://..\"}, or tide worker, then td.session{target = "
    .. "server.target, name = \"job\", outlive = true}",
}

local function refuse(o)
  for name, remedy in pairs(args.plain(o) and instead or {}) do
    if o[name] ~= nil then
      errors.raise("unimplemented", "session: there is no %s =; %s", name,
                   remedy)
    end
  end
end

--- A session: session{graph =, threads =, cpu_devices =, soft_placement =}. It
-- becomes the default one. Close it with :close() or by `<close>`. cache: how
-- many signatures stay planned (256); queued_bytes: what results of steps may
-- hold that were started and not waited for (2^30).
--
-- compress = "slow": on an edge to a process to which less than 150 MB/s were
-- seen to go (a number: so many), float32 values beyond 64 KiB travel as
-- bfloat16, half the bytes and eight bits of each mantissa. What goes so
-- depends on how long earlier values took: bits differ from run to run. Shared
-- memory, feeds and fetches keep all. td.traffic().slowed counts them.
--
-- target = "tcp://host:port" or "ipc:///path": planning, variables and loops
-- are in that process, a `tide worker` or td.server; key, timeout as for
-- sess:attach. outlive = true: the session goes on when this process is gone,
-- under name = (a random one). A name alone joins the session of that name:
-- its graph comes along, nodes are fetched by name, sess:variables() are its
-- variables; sess:as_default has td.train.saver{} save them. Closing a session
-- ends it for all; sess:leave() does not.
-- @raise not_found names the sessions there are; already_exists for outlive
-- with the name of one
function session.session(o)
  if core.kind(o) == "graph" then
    core.error("invalid_argument", "session: a graph is an option, "
      .. "td.session{graph = g}")
  end
  refuse(o)
  o = args.expect_all(args.read(o, known, "session"), types)
  if o.graph ~= nil and core.kind(o.graph) ~= "graph" then
    core.error("invalid_argument", ("session: graph is one such as td.graph() "
      .. "gives, not %s"):format(args.what(o.graph)))
  end
  for key, value in pairs(session.defaults) do
    if o[key] == nil then o[key] = value end
  end
  o.slow_link = slow_link(o.compress)
  if o.target and o.target ~= "" then
    latest = open_far(o)
  else
    only_far(o)
    latest = core.session(o.graph or core.graph(), o)
  end
  session.open[latest] = true
  return latest
end

--- The default session, or nil.
function session.get_default_session()
  local s = inner[coroutine.running()] or latest
  if s and closed[s] then return nil end
  return s
end

--- The default session; made for the current graph when there is none.
function session.default()
  return session.get_default_session() or session.session()
end

--- Closes the default session, if any.
function session.close_default()
  local s = session.get_default_session()
  if s then s:close() end
  latest = nil
end

--- A fresh default graph; the default session is closed.
function session.reset()
  session.close_default()
  core.set_default_graph(core.graph_new())
end

--- Computes x in the default session.
function tensor.methods.eval(x, feeds, o)
  return session.default():run(x, feeds, o)
end

--- Runs the op in the default session.
function tensor.op_methods.run(op, feeds, o)
  return session.default():run(op, feeds, o)
end

--- Ends the session: running steps are cancelled, its variables are dropped.
function methods:close()
  closed[self] = true
  session.open[self] = nil
  if latest == self then latest = nil end
  close_raw(self)
end
registry["tide.session"].__close = methods.close

--- Lets go of a session that another process keeps: one that was made to
-- outlive its maker goes on, others end.
function methods:leave()
  closed[self] = true
  session.open[self] = nil
  if latest == self then latest = nil end
  self:core_leave()
end

registry["tide.session"].__tostring = function(self)
  if closed[self] then return "Session (closed)" end
  local name, task = core.far_name(self)
  if name then
    return ("Session \"%s\" at %s"):format(name, (task:gsub("/replica:0", "")))
  end
  return ("Session of a %s"):format(tostring(self:core_graph()):lower())
end

local guard_meta = {__close = function(guard)
  inner[guard.thread] = guard.outer
  core.pop(guard.token)
end}

--- self is the default session, and its graph the default graph, inside f.
function methods:as_default(f, ...)
  local thread = coroutine.running()
  local guard = setmetatable({thread = thread, outer = inner[thread],
    token = core.push{graph = self:core_graph()}}, guard_meta)
  inner[thread] = self
  return scope.guarded(guard, f, ...)
end

--- Ends every as_default of this coroutine: after an interrupt that did not
-- wait for its __close.
function session.leave_defaults()
  inner[coroutine.running()] = nil
end

-- ---- running --------------------------------------------------------------

local run_types = {timeout = "number", trace = "boolean",
                   as_values = "boolean", check_numerics = "boolean"}

--- The session's graph. A method called with a dot gets something else.
function session.graph_of(self, what)
  if core.kind(self) ~= "session" then
    core.error("invalid_argument", ("%s is called with a colon: sess:%s(...); "
      .. "given %s in place of the session"):format(what, what,
      args.what(self)))
  end
  return self:core_graph()
end

-- Options of a run, those of the list `allowed`; nil without any.
local function read_options(o, allowed, what)
  if o == nil then return nil end
  return args.expect_all(args.read(o, allowed, what), run_types)
end

-- A console looks on at the runs: a function of `run` and its arguments, called
-- in its place; and at callables: a function of one, what it is known by and
-- {session =, fetches =, edges =}, called when it is made.
session.observer = nil
session.on_callable = nil

-- Makes of the binding's trace of a step what run gives: show/profile.lua's.
session.profile_of = nil

--- Gives sessions a method: for what is built on sessions and need not be known
-- here, such as displays. It asks session.graph_of.
function session.add_method(name, f) methods[name] = f end

--- f is called when a callable fails, of what it is known by and the values it
-- was given; and when a handle's wait or a partial run does, of {session =,
-- fetches =, edges =, values =}. A text that f gives is added to the error.
function session.on_failure(f)
  registry["tide.failed"] = f
end

-- Steps of a session were taken, and nodes of these lines added before each of
-- `times` of them (lua/bind_growth.h).
registry["tide.growing"] = function(lines, times, nodes)
  errors.warn("the graph grows in a loop: %d times nodes were added between "
    .. "two steps, each time by %s; it has %d now, and steps become slow. Make "
    .. "ops once, before the loop, and feed what changes (td.placeholder); "
    .. "after g:finalize() adding one is an error",
    times, table.concat(lines, ", "), nodes)
end

-- What a step is known by when it fails; nothing, and no values are kept, while
-- nobody looks on.
local function known_by(self, fetches, edges, values)
  return session.observer and {session = self, fetches = fetches,
                               edges = edges, values = values} or nil
end

-- Of a step that was traced: what it gave, or its error with what had run.
local function traced(ok, results, trace)
  if ok then return results, session.profile_of(trace) end
  if type(results) == "table" and results.trace then
    results.trace = session.profile_of(results.trace)
  end
  error(results, 0)
end

local function run(self, fetches, feeds, o)
  local g = session.graph_of(self, "run")
  local handles, plan = fetch.read(g, fetches)
  local edges, values = fetch.feeds(g, feeds)
  o = read_options(o, {"timeout", "trace", "as_values", "check_numerics"},
                   "run")
  if not (o and o.trace) then
    return fetch.rebuild(plan, self:core_run(handles, edges, values, o))
  end
  local results, trace = traced(pcall(self.core_run, self, handles, edges,
                                      values, o))
  return fetch.rebuild(plan, results), trace
end

--- Computes what is fetched.
-- @param fetches a tensor, op, variable or name, or tables of them
-- @param[opt] feeds {[x] = value, ["labels"] = value}
-- @param[opt] o timeout (seconds), trace = true, as_values = true;
-- check_numerics = true: the first node to give a NaN or infinity is an error
-- that names it, its line, its iteration in a loop, and shows its inputs
-- @return results in the form of the fetches (an op gives true, a tensor of
-- rank 0 a number), and if asked for the trace: it displays as lanes of time
-- and totals, has .events, .arrows (values between devices), .launches (from
-- nodes to the work that they enqueued on a card, whose events have a stream),
-- .tasks (of other processes: clock and error in ns, dropped events), .totals,
-- .chrome, and :save(path) for Perfetto
-- @raise deadline_exceeded, cancelled, and whatever the ops raise; where a
-- trace was asked for the error has it as .trace, of what had run until then:
-- events of nodes that failed say failed = true
-- @usage local x = td.placeholder("float32", {})
-- td.session():run({double = x * 2}, {[x] = 4}).double  --> 8.0
function methods:run(fetches, feeds, o)
  if session.observer then
    return session.observer(run, self, fetches, feeds, o)
  end
  return run(self, fetches, feeds, o)
end

--- A planned step: callable({loss, train}, {x, y}) gives a function of the fed
-- values, which returns the results one by one. The fast way.
-- @usage local x = td.placeholder("float32", {})
-- td.session():callable(x * 2, {x})(4)  --> 8.0
function methods:callable(fetches, feeds)
  local g = session.graph_of(self, "callable")
  local handles, edges = fetch.list(g, fetches), fetch.feed_list(g, feeds)
  local f, key = self:core_callable(handles, edges)
  if session.on_callable then
    session.on_callable(f, key, {session = self, fetches = handles,
                                 edges = edges})
  end
  return f
end

--- Starts a step and returns at once: h:wait(seconds), h:done(), h:cancel().
-- @raise resource_exhausted once steps that were started and not waited for
-- hold queued_bytes of the session
function methods:start(fetches, feeds, o)
  local g = session.graph_of(self, "start")
  local edges, values = fetch.feeds(g, feeds)
  o = read_options(o, {"timeout"}, "start")
  local handles = fetch.list(g, fetches)
  return self:core_start(handles, edges, values,
                         known_by(self, handles, edges, values), o)
end

-- Names and tensors of a log, by name; and what a logged step fetches: those,
-- and what every step does.
local function read_log(g, log, handles)
  local names, logged = args.sorted_keys(log), {}
  for i, name in ipairs(names) do
    local list = fetch.list(g, log[name])
    if #list ~= 1 or core.kind(list[1]) ~= "edge" then
      errors.invalid("log.%s must be a tensor", name)
    end
    logged[i] = list[1]
  end
  table.move(handles, 1, #handles, #logged + 1, logged)
  return names, logged
end

--- A loop of what is fetched, for modules that know more than sess:loop takes:
-- more, at_end, at_error and error_feeds (lua/bind_callable.c).
function session.begin_loop(self, fetches, options)
  return self:core_loop(fetches, known_by(self, fetches, {}, {}), options)
end

--- Runs a step again and again in the background: loop(train, {threads = 4,
-- steps = 100}); threads are the steps in flight. log = {loss = l} keeps the
-- loss of each step, of every tenth with every = 10. Gives a handle as start
-- does; h:steps() are those done, h:log() what was kept. wait raises the
-- cancelled error after h:cancel(); out_of_range ends a loop well. The session
-- owns it: sess:loops() finds it, closing the session ends it.
function methods:loop(fetches, o)
  o = args.expect_all(args.read(o, {"threads", "steps", "log", "every"},
                                "loop"),
                      {threads = "integer", steps = "integer", log = "table",
                       every = "integer"})
  local g = session.graph_of(self, "loop")
  local handles = fetch.list(g, fetches)
  local options = {threads = o.threads, steps = o.steps, every = o.every}
  if o.log then
    options.names, options.logged = read_log(g, o.log, handles)
  end
  return session.begin_loop(self, handles, options)
end

--- Handles of the loops that go on, the oldest first.
-- @function methods:loops()

--- Waits until the step is over, for `seconds` at most; gives its results one
-- by one, and raises what it raises.
-- @function handle:wait(seconds)

--- Is the step over?
-- @function handle:done()

--- Stops the step: wait raises the cancelled error.
-- @function handle:cancel()

--- How many steps a loop has done.
-- @function handle:steps()

--- What a loop with a log kept, the last ten thousand at most, and no more than
-- 64 MiB: {loss = {steps = {10, 20}, values = {0.5, 0.4}}}; steps count from 1.
-- @function handle:log()

-- ---- what is going on -----------------------------------------------------

--- Which nodes of the running steps wait, and for what, in other processes too:
-- "task:1 waits for x of task:0, whose take waits for queue q". "" when nothing
-- runs. Waits for a second at most, for a process that does not answer.
-- @function methods:why()

--- Where each node runs and why: its device was asked for, it is colocated with
-- a variable, it is the default.
-- @function methods:explain_placement()

--- Names of the devices that the next plan may use. td.load_library adds those
-- of a library to sessions that are there, too.
-- @function methods:devices()

--- Counters: steps, and what the cache of planned steps did.
-- @function methods:stats()

-- ---- partial runs ---------------------------------------------------------

local partial = {}
partial.__index = partial

--- A step in parts: all fetches and feeds that will occur, each once.
-- @usage local x = td.placeholder("float32", {})
-- local y = x * 2
-- td.session():partial_run_setup({y}, {x}):run(y, {[x] = 4})  --> 8.0
function methods:partial_run_setup(fetches, feeds)
  local g = session.graph_of(self, "partial_run_setup")
  local handles = fetch.list(g, fetches)
  local edges = fetch.feed_list(g, feeds)
  local p = {graph = g, fetch_at = {}, feed_at = {},
             known = known_by(self, handles, edges, {})}
  local n = 0
  for _, x in ipairs(handles) do
    if core.kind(x) == "edge" then
      n = n + 1
      p.fetch_at[x] = n
    end
  end
  for i, x in ipairs(edges) do p.feed_at[x] = i end
  p.raw = self:core_partial(handles, edges, p.known)
  return setmetatable(p, partial)
end

local function positions(at, list, what)
  local out = {}
  for i, x in ipairs(list) do
    out[i] = at[x] or core.error("invalid_argument", ("partial run: %s is no "
      .. "%s of partial_run_setup"):format(tostring(x), what))
  end
  return out
end

--- Goes on with the step: run(a, {[x] = 1}).
function partial:run(fetches, feeds, o)
  local handles, plan = fetch.read(self.graph, fetches)
  local edges, values = fetch.feeds(self.graph, feeds)
  o = read_options(o, {"timeout", "as_values"}, "run")
  local fed = positions(self.feed_at, edges, "feed")
  if self.known then
    for i, at in ipairs(fed) do self.known.values[at] = values[i] end
  end
  local results = self.raw:core_run(positions(self.fetch_at, handles, "fetch"),
                                    fed, values, o)
  return fetch.rebuild(plan, results)
end

-- ---- variables ------------------------------------------------------------

-- Variables of `waiting` that `edge` reads, by walking back through the graph.
local function reads(edge, waiting)
  local found, seen, stack = {}, {}, {edge.op}
  while #stack > 0 do
    local op = table.remove(stack)
    if not seen[op] then
      seen[op] = true
      if waiting[op] then found[#found + 1] = waiting[op] end
      for _, x in ipairs(op.inputs) do
        if x then stack[#stack + 1] = x.op end
      end
      for _, x in ipairs(op.control_inputs) do stack[#stack + 1] = x end
    end
  end
  return found
end

-- Those of the list whose initial values read none of the list.
local function ready(list)
  local waiting, now, later = {}, {}, {}
  for _, v in ipairs(list) do waiting[v.op] = v end
  for _, v in ipairs(list) do
    local first = reads(v.initial_value, waiting)[1]
    table.insert(first and later or now, v)
  end
  return now, later
end

-- The variables of a graph, local ones too.
local function all_variables(g)
  local list = {}
  for _, name in ipairs{"variables", "local_variables"} do
    local more = graph.state(g).collections[name] or {}
    table.move(more, 1, #more, #list + 1, list)
  end
  return list
end

local function init_variables(self, list)
  local flags, waiting = {}, {}
  for i, v in ipairs(list) do flags[i] = v.is_initialized end
  local have = #flags > 0 and self:run(flags) or {}
  for i, v in ipairs(list) do
    if not have[i] then waiting[#waiting + 1] = v end
  end
  while #waiting > 0 do
    local now, later = ready(waiting)
    if #now == 0 then
      core.error("failed_precondition", ("the initial values of variables "
        .. "\"%s\" and \"%s\" read each other"):format(waiting[1].name,
        waiting[#waiting].name))
    end
    local ops = {}
    for i, v in ipairs(now) do ops[i] = v.initializer end
    self:run(ops)
    waiting = later
  end
end

-- Fills the lookup tables that have nothing yet; of an imported one it is not
-- known, and to be filled again with the same is allowed.
local function init_tables(self, g)
  local state = graph.state(g)
  local all = state.collections.table_initializer or {}
  local sizes, of, empty = {}, {}, {}
  for _, op in ipairs(all) do
    local size = state.table_sizes and state.table_sizes[op]
    table.insert(size and sizes or empty, size or op)
    if size then of[#sizes] = op end
  end
  local have = #sizes > 0 and self:run(sizes) or {}
  for i, op in ipairs(of) do
    if have[i] == 0 then empty[#empty + 1] = op end
  end
  if #empty > 0 then self:run(empty) end
end

--- Runs the initializers of the variables (all of the graph, or a list) that
-- have no value yet; those that an initial value reads go first. Without a list
-- lookup tables are filled, too.
function methods:init(list)
  local g = session.graph_of(self, "init")
  if not list then
    init_variables(self, all_variables(g))
    return init_tables(self, g)
  end
  init_variables(self, list)
end

--- Drops the contents of the containers of a list, which are this process's and
-- of each worker that takes part, whoever shares them; without it the session's
-- own, at its workers too.
-- @raise unavailable, deadline_exceeded where a worker did not say that it has
function methods:reset(containers)
  if not containers then return self:core_reset() end
  for _, name in ipairs(args.check_list(containers, "reset")) do
    self:core_reset(name)
  end
end

core.set_methods("session", methods)

return session
