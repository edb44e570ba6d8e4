--- services/execute.lua - service "execute": runs a cell.
--
-- Whatever happens inside, an interrupt at any instruction included, the
-- request gets its reply and at most one error is shown.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local frontend = require "tide.frontend"
local json = require "tide.base.json"
local bundle = require "tide.show.bundle"
local cell = require "tide.console.cell"
local lines = require "tide.frontend.lines"
local history = require "tide.services.history"
local owner = require "tide.console.owner"
local publish = require "tide.frontend.publish"
local system = require "tide.console.system"
local session = require "tide.run.session"
local traceback = require "tide.console.traceback"
local watch = require "tide.console.watch"
require "tide.console.commands"
require "tide.assist.names" -- which are there before the first cell

local execute = {}

local MOST_OUT = 100   -- results that Out holds
local MOST_IN = 1000   -- inputs that In holds
local MOST_BYTES = 4 << 20 -- of all of them but the newest

--- Functions of the line and the request, called before a cell runs. What they
-- raise is the cell's error.
execute.before = {}

-- ---- _, Out and In ----------------------------------------------------------

-- Sets t[n], and takes away what is too old.
local function keep(t, n, x, most)
  t[n] = x
  t[n - most] = nil
end

-- The same of an input: a few large cells take the place of many.
local function keep_input(line, n, text)
  local sizes = line.sizes or {held = 0, first = n}
  line.sizes = sizes
  line.inputs[n], sizes[n] = text, #text
  sizes.held = sizes.held + #text
  while sizes.first < n
        and (sizes.held > MOST_BYTES or n - sizes.first >= MOST_IN) do
    local old = sizes.first
    sizes.held = sizes.held - (sizes[old] or 0)
    line.inputs[old], sizes[old] = nil, nil
    sizes.first = old + 1
  end
end

-- Puts the line's names into the environment of cells.
local function provide(line)
  line.inputs, line.outputs = line.inputs or {}, line.outputs or {}
  line.last, line.seconds = line.last or {}, line.seconds or {}
  cell.provide("In", line.inputs)
  cell.provide("Out", line.outputs)
  for i, name in ipairs{"_", "__", "___"} do
    cell.provide(name, line.last[i])
  end
end

local function remember(line, counted, value)
  line.last = {value, line.last[1], line.last[2]}
  if counted then keep(line.outputs, line.count, value, MOST_OUT) end
end

-- ---- results ----------------------------------------------------------------

-- The values a cell gave, as the data of a result.
local function show(values)
  if values.n == 1 then
    return bundle(values[1], frontend.kind ~= "notebook")
  end
  local parts = {}
  for i = 1, values.n do
    parts[i] = bundle(values[i], true).data["text/plain"]
  end
  return {data = {["text/plain"] = table.concat(parts, "\t")},
          metadata = json.object{}}
end

local function publish_result(run, values)
  local result = show(values)
  if run.counted then
    history.add_output(run.line, run.line.count, result.data["text/plain"])
  end
  result.execution_count = run.line.count
  publish("execute_result", result)
end

-- ---- errors -----------------------------------------------------------------

-- The reply to a cell that failed; the error is shown, once.
local function failed(run, name, value, trace)
  local content = {ename = name, evalue = value, traceback = json.array(trace)}
  io.stdout:flush()
  if not run.request.silent and not run.told then
    run.told = true
    publish("error", content)
  end
  content.status = "error"
  content.execution_count = run.line.count
  content.payload = json.array(run.line.payload)
  content.user_expressions = json.object{}
  return content
end

local function describe(run, ...)
  local err, frames, interrupted = traceback.first(...)
  local code = system.exit_code(err)
  if code then
    table.insert(run.line.payload, {source = "ask_exit", keepkernel = false})
    return "SystemExit", code, {}
  end
  if interrupted then session.leave_defaults() end
  run.line.failure = {error = err, frames = frames, step = run.line.step}
  return traceback.describe(err, frames, interrupted)
end

-- ---- running ----------------------------------------------------------------

-- One entry of user_expressions: its data, or the error.
local function expression(code)
  if type(code) ~= "string" then code = "" end
  local chunk, why = load("return " .. code, "=expression", "t", cell.env)
  local name, value, trace
  if chunk then
    local got = table.pack(frontend.protected(function()
      return bundle((chunk()))
    end))
    if got[1] then
      got[2].status = "ok"
      return got[2]
    end
    name, value, trace = traceback.describe(table.unpack(got, 2, 4))
  else
    name, value, trace = traceback.syntax(why)
  end
  return {status = "error", ename = name, evalue = value,
          traceback = json.array(trace)}
end

local function expressions(request)
  local out = json.object{}
  if type(request.user_expressions) ~= "table" then return out end
  for name, code in pairs(request.user_expressions) do
    if type(name) == "string" then out[name] = expression(code) end
  end
  return out
end

-- The values of a cell's chunk. How long it took is kept with the line.
local function evaluate(run, chunk)
  for _, f in ipairs(execute.before) do f(run.line, run.request) end
  local start = core.clock()
  local values = table.pack(chunk())
  if run.counted then
    keep(run.line.seconds, run.line.count, core.clock() - start, MOST_IN)
  end
  return values
end

local function serve(run)
  local request, line = run.request, run.line
  local name = run.counted and ("=In[%d]"):format(line.count) or "=In[*]"
  local chunk, hidden = cell.open(request.code, name)
  if not chunk then return failed(run, traceback.syntax(hidden)) end
  local owned = owner.begin(request, line)
  local got = table.pack(frontend.protected(evaluate, run, chunk))
  lines.finish(line)
  owner.finish(owned, got[1])
  if not got[1] then
    return failed(run, describe(run, table.unpack(got, 2, 4)))
  end
  local values = got[2]
  io.stdout:flush()
  if values.n > 0 and not hidden and not request.silent then
    remember(line, run.counted, values[1])
    publish_result(run, values)
  end
  return {status = "ok", execution_count = line.count,
          payload = json.array(line.payload),
          user_expressions = expressions(request)}
end

local function begin(run)
  local request, line = run.request, run.line
  system.install()
  watch.install()
  line.payload = {}
  line.step, line.sink, line.traces = nil, nil, nil
  line.allow_stdin = request.allow_stdin ~= false
  run.counted = not request.silent and request.store_history ~= false
    and request.code:find "%S" ~= nil
  if run.counted then line.count = line.count + 1 end
  provide(line)
  if run.counted then
    keep_input(line, line.count, request.code)
    history.add(line, line.count, request.code)
  end
  if not request.silent then
    publish("execute_input",
            {code = request.code, execution_count = line.count})
  end
  return serve(run)
end

--- Runs request.code; what is shown is published, the reply returned.
function execute.execute(request, line)
  if type(request.code) ~= "string" then request.code = "" end
  request.silent = request.silent == true
  local run = {request = request, line = line}
  local got = table.pack(frontend.protected(begin, run))
  if got[1] then return got[2] end
  line.payload = line.payload or {}
  return failed(run, describe(run, table.unpack(got, 2, 4)))
end

return execute
