--- services/debug.lua - service "debug": the Debug Adapter Protocol.
--
-- What a client may ask, with what it gives checked: whatever is wrong is told
-- in the response. The state is that of tide.debug.halts. Source: the Debug
-- Adapter Protocol; "debug request" in Jupyter's messaging protocol, which adds
-- debugInfo, dumpCell, inspectVariables, richInspectVariables, copyToGlobals.
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"
local json = require "tide.base.json"
local breakpoints = require "tide.debug.breakpoints"
local cell = require "tide.console.cell"
local files = require "tide.debug.files"
local halts = require "tide.debug.halts"
local variables = require "tide.debug.variables"

local debugger = {}

-- ---- arguments --------------------------------------------------------------

local function given(a, name)
  local x = a[name]
  if x == json.null then return nil end
  return x
end

-- The argument `name`, which is of that type; nil only where it is optional.
local function argument(a, name, kind, is_optional)
  local x = given(a, name)
  if x == nil and is_optional then return nil end
  if type(x) ~= kind then
    error(("%s: a %s is expected, not %s"):format(
      name, kind == "table" and "list or object" or kind,
      x == nil and "nothing" or "a " .. type(x)), 0)
  end
  return x
end

local function text(a, name, is_optional)
  return argument(a, name, "string", is_optional)
end

local function whole(a, name, is_optional)
  local x = argument(a, name, "number", is_optional)
  local n = math.tointeger(x)
  if x and not n then
    error(("%s: a whole number is expected, not %s"):format(name, x), 0)
  end
  return n
end

local function path_of(a)
  return text(argument(a, "source", "table"), "path")
end

-- What names mean in the frame that is asked about; nil without one.
local function environment(a, name)
  local id = whole(a, name, true)
  if not id then return nil end
  local place, frame = halts.frame(id)
  return variables.environment(place.co, frame)
end

-- ---- a session --------------------------------------------------------------

local requests = {}

local filters = json.array{
  {filter = "uncaught", label = "Uncaught errors", default = false,
   description = "Halt where an error is raised that ends the cell"}}

-- The session begins here, not with attach: a client that asks for debugInfo
-- between the two takes "not started" for the end of its session.
function requests.initialize(a)
  variables.typed = text(a, "clientID", true) ~= "jupyterlab"
  halts.start(true)
  return {supportsConfigurationDoneRequest = true,
          supportsEvaluateForHovers = true, supportsSetVariable = true,
          supportsConditionalBreakpoints = true,
          supportsHitConditionalBreakpoints = true, supportsLogPoints = true,
          supportsExceptionInfoRequest = true,
          supportsTerminateRequest = true, supportsModulesRequest = true,
          exceptionBreakpointFilters = filters}
end

function requests.attach()
  halts.start(true)
  halts.event("initialized")
end

requests.launch = requests.attach

function requests.configurationDone() end

function requests.disconnect()
  if not halts.started() then return end
  halts.start(false)
  variables.typed = true
  halts.event("terminated")
end

requests.terminate = requests.disconnect

function requests.debugInfo()
  return {isStarted = halts.started(), hashMethod = "Murmur2",
          hashSeed = files.seed, tmpFilePrefix = files.prefix,
          tmpFileSuffix = files.suffix, breakpoints = breakpoints.list(),
          stoppedThreads = halts.list(), richRendering = true,
          exceptionPaths = json.array{}, copyToGlobals = true}
end

-- ---- breakpoints ------------------------------------------------------------

-- They halt nobody before the client has attached.
function requests.setBreakpoints(a)
  local path = path_of(a)
  local list = argument(a, "breakpoints", "table", true) or {}
  return {breakpoints = halts.set_breakpoints(path, list)}
end

function requests.setExceptionBreakpoints(a)
  local wanted, answers = false, json.array{}
  for i, name in ipairs(argument(a, "filters", "table", true) or {}) do
    local known = name == "uncaught"
    wanted = wanted or known
    answers[i] = {verified = known,
                  message = not known and "there is no such filter" or nil}
  end
  halts.set_uncaught(wanted)
  return {breakpoints = answers}
end

function requests.exceptionInfo(a)
  local place = halts.place(whole(a, "threadId"))
  if not place.exception then error("it was no error that halted it", 0) end
  return {exceptionId = "error", description = place.text,
          breakMode = "unhandled"}
end

-- ---- files ------------------------------------------------------------------

function requests.dumpCell(a)
  return {sourcePath = files.dump(text(a, "code"))}
end

function requests.source(a)
  local path = path_of(a)
  local content = files.text(path)
  if not content then error("no source of " .. path .. " is known", 0) end
  return {content = content, mimeType = "text/x-lua"}
end

function requests.modules()
  local list = files.modules()
  return {modules = list, totalModules = #list}
end

-- ---- what is halted ---------------------------------------------------------

function requests.threads()
  local list = json.array{}
  for name, id in pairs(halts.threads) do
    list[#list + 1] = {id = id, name = name == "" and "main" or name}
  end
  table.sort(list, function(x, y) return x.id < y.id end)
  return {threads = list}
end

function requests.stackTrace(a)
  local frames = halts.place(whole(a, "threadId")).frames
  local from, n = whole(a, "startFrame", true) or 0, whole(a, "levels", true)
  local list = json.array{}
  for i, f in ipairs(frames) do
    if i > from and (not n or n <= 0 or i <= from + n) then
      list[#list + 1] = {
        id = f.id, name = f.name, line = f.line, column = 1,
        source = {path = f.path, name = f.path:match "[^/]*$"}}
    end
  end
  return {stackFrames = list, totalFrames = #frames}
end

function requests.scopes(a)
  local place, frame = halts.frame(whole(a, "frameId"))
  return {scopes = variables.scopes(place.co, frame)}
end

function requests.variables(a)
  return {variables = variables.list(whole(a, "variablesReference"),
                                     whole(a, "start", true),
                                     whole(a, "count", true))}
end

function requests.setVariable(a)
  return variables.set(whole(a, "variablesReference"), text(a, "name"),
                       text(a, "value"))
end

function requests.evaluate(a)
  local result = variables.evaluate(text(a, "expression"),
                                    environment(a, "frameId"))
  if a.context ~= "hover" then halts.changed() end
  return result
end

-- ---- going on ---------------------------------------------------------------

requests["continue"] = function(a)
  halts.go_on(whole(a, "threadId"))
  return {allThreadsContinued = false}
end

function requests.next(a) halts.go_on(whole(a, "threadId"), "next") end
function requests.stepIn(a) halts.go_on(whole(a, "threadId"), "in") end
function requests.stepOut(a) halts.go_on(whole(a, "threadId"), "out") end

function requests.pause(a)
  local thread = whole(a, "threadId")
  if not halts.started() then
    error("there is no debugging session: attach comes first", 0)
  end
  for _, id in pairs(halts.threads) do
    if id == thread then return halts.pause(thread) end
  end
  error(("there is no thread %d"):format(thread), 0)
end

-- ---- variables, as a notebook shows them ------------------------------------

function requests.inspectVariables()
  if #halts.list() == 0 then variables.forget() end
  return {variables = variables.globals()}
end

function requests.richInspectVariables(a)
  return variables.rich(text(a, "variableName"), environment(a, "frameId"))
end

function requests.copyToGlobals(a)
  local from, to = text(a, "srcVariableName"), text(a, "dstVariableName")
  local env = environment(a, "srcFrameId")
  if not env then error("srcFrameId: a number is expected, not nothing", 0) end
  cell.env[to] = env[from]
end

-- ---- the door ---------------------------------------------------------------

local function answer(request)
  local f = requests[request.command]
  if not f then
    error("there is no such request: " .. tostring(request.command), 0)
  end
  local a = argument(request, "arguments", "table", true)
  return f(a or {})
end

--- A request of the Debug Adapter Protocol; its response.
function debugger.debug(request)
  local ok, body = frontend.protected(answer, request)
  local command, of = request.command, math.tointeger(request.seq)
  local response = {seq = halts.next_seq(), type = "response",
                    request_seq = of or 0, success = ok,
                    command = type(command) == "string" and command or ""}
  if ok then
    response.body = json.object(body or {})
  else
    response.message = json.utf8(tostring(body))
    response.body = json.object{error = {id = 1, format = response.message}}
  end
  return response
end

return debugger
