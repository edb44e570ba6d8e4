--- console/debugger.lua - service "debug": the Debug Adapter Protocol.
--
-- Lines are looked at only while there are breakpoints or a step is under way.
-- A line that halts waits in front.pause; the debugger's own line reads its
-- stack meanwhile. A cell's file is named by a hash of its text, as Jupyter's
-- clients do it. Source: the Debug Adapter Protocol; "debug request" in
-- Jupyter's messaging protocol.
-- SPDX-License-Identifier: Apache-2.0

local front = require "tide.front"
local json = require "tide.json"
local publish = require "tide.console.publish"
local sources = require "tide.console.sources"
local variables = require "tide.console.variables"

local SEED = 0xc70f6907
local PREFIX, SUFFIX = "/tmp/tide_cells/", ".lua"
local MAIN = 1           -- the number of the first line's thread
local MOST_DUMPED = 1000 -- cells whose text is kept for the debugger

local debugger = {}

local started = false
local breakpoints = {} -- path = {[line] = true}
local dumped = {}      -- path = text of a cell
local dumps = {}       -- their paths, the oldest first
local paths = {}       -- chunk name = {text =, path =}
local threads = {[""] = MAIN}
local halted = {}      -- thread = {thread =, co =, frames =, line =}
local steps = {}       -- thread = {kind =, co =, depth =}
local seq = 0

-- ---- names ------------------------------------------------------------------

-- MurmurHash2 with 32 bits, of Austin Appleby's.
local function murmur(text, seed)
  local m, n = 0x5bd1e995, #text
  local h = (seed ~ n) & 0xffffffff
  for i = 1, n - n % 4, 4 do
    local k = ("<I4"):unpack(text, i) * m & 0xffffffff
    k = (k ~ k >> 24) * m & 0xffffffff
    h = h * m & 0xffffffff ~ k
  end
  if n % 4 > 0 then
    local rest = text:sub(n - n % 4 + 1)
    h = (h ~ ("<I4"):unpack(rest .. ("\0"):rep(4 - #rest))) * m & 0xffffffff
  end
  h = (h ~ h >> 13) * m & 0xffffffff
  return h ~ h >> 15
end

local function cell_path(text)
  return PREFIX .. murmur(text, SEED) .. SUFFIX
end

-- The file of a chunk ("=In[3]", "@file.lua"); nil for Tide's own and C.
local function path_of(name)
  if name:find "^@" then return name:sub(2) end
  if not name:find "^=In%[" then return nil end
  local text = sources.text(name)
  if not text then return nil end
  local known = paths[name]
  if not known or known.text ~= text then
    known = {text = text, path = cell_path(text)}
    paths[name] = known
  end
  return known.path
end

local function thread_of(line)
  if not threads[line] then
    local n = MAIN
    for _ in pairs(threads) do n = n + 1 end
    threads[line] = n
  end
  return threads[line]
end

-- ---- halting ----------------------------------------------------------------

local function event(name, body)
  seq = seq + 1
  publish("debug_event", {seq = seq, type = "event", event = name,
                          body = json.object(body)})
end

local function depth_of(co)
  local low, high = 0, 1
  while debug.getinfo(co, high, "l") do low, high = high, high * 2 end
  while high - low > 1 do
    local middle = (low + high) // 2
    if debug.getinfo(co, middle, "l") then low = middle else high = middle end
  end
  return high
end

local look

-- The level of the user's innermost function: the one below `look`, wherever
-- what is above it has got to.
local function top_of(co)
  local level = 0
  while true do
    local info = debug.getinfo(co, level, "f")
    if not info then error("it runs again", 0) end
    level = level + 1
    if info.func == look then return level end
  end
end

-- The user's frames of what halts, the innermost first.
local function frames_of(co, thread)
  local frames, top = {}, top_of(co)
  for level = top, top + 200 do
    local info = debug.getinfo(co, level, "nSlf")
    if not info then break end
    local path = path_of(info.source)
    if path then
      frames[#frames + 1] = {
        id = thread * 1000 + #frames + 1, path = path,
        level = function() return top_of(co) + level - top end,
        line = info.currentline, func = info.func,
        name = info.name or (info.what == "main" and "cell" or "function")}
    end
  end
  return frames
end

local function halt(reason)
  local co = coroutine.running()
  local thread = thread_of(front.line())
  steps[thread] = nil
  local place = {thread = thread, co = co, reason = reason}
  halted[thread] = place
  event("stopped", {reason = reason, threadId = thread,
                    allThreadsStopped = false})
  while not place.go and not front.interrupted() do front.pause() end
  halted[thread] = nil
  variables.forget()
end

-- Is a step of this thread over at this line?
local function step_ends(thread)
  local step = steps[thread]
  if not step then return false end
  if step.kind == "in" then return true end
  local co = coroutine.running()
  if co ~= step.co then return false end
  local depth = depth_of(co) - 4 -- getinfo, depth_of, this function and look
  return depth < step.depth or (step.kind == "next" and depth == step.depth)
end

-- Called at each line, while there is something to look for.
function look(source, line)
  local path = path_of(source)
  if not path then return end
  local here = breakpoints[path]
  if here and here[line] then
    halt "breakpoint"
  elseif next(steps) and step_ends(thread_of(front.line())) then
    halt "step"
  end
end

local function attend()
  local wanted = started and (next(breakpoints) or next(steps))
  front.trace(wanted and look or nil)
end

-- The place where a thread halted, with its frames.
local function place_of(thread)
  local place = halted[thread]
  if not place then error("thread " .. tostring(thread) .. " runs", 0) end
  if not place.frames then
    place.frames = frames_of(place.co, thread)
    place.depth = depth_of(place.co) - top_of(place.co)
  end
  return place
end

local function frame_of(id)
  local place = place_of((tonumber(id) or 0) // 1000)
  local frame = place.frames[id % 1000]
  if not frame then error("no such frame", 0) end
  return place, frame
end

local function go_on(thread, kind)
  local place = place_of(thread)
  if kind then
    steps[thread] = {kind = kind, co = place.co, depth = place.depth}
  end
  attend()
  place.go = true
  front.resume()
  event("continued", {threadId = thread, allThreadsContinued = false})
end

-- ---- requests ---------------------------------------------------------------

local requests = {}

function requests.initialize()
  return {supportsConfigurationDoneRequest = true,
          supportsEvaluateForHovers = true, supportsSetVariable = false,
          supportsConditionalBreakpoints = false,
          exceptionBreakpointFilters = json.array{}}
end

function requests.attach()
  started = true
  attend()
  event("initialized")
end

function requests.configurationDone() end

function requests.disconnect()
  started, breakpoints, steps = false, {}, {}
  attend()
  for thread in pairs(halted) do go_on(thread) end
end

requests.terminate = requests.disconnect

function requests.debugInfo()
  local list, stopped = json.array{}, json.array{}
  for path, lines in pairs(breakpoints) do
    local points = json.array{}
    for line in pairs(lines) do points[#points + 1] = {line = line} end
    table.sort(points, function(a, b) return a.line < b.line end)
    list[#list + 1] = {source = path, breakpoints = points}
  end
  for thread in pairs(halted) do stopped[#stopped + 1] = thread end
  return {isStarted = started, hashMethod = "Murmur2", hashSeed = SEED,
          tmpFilePrefix = PREFIX, tmpFileSuffix = SUFFIX, breakpoints = list,
          stoppedThreads = stopped, richRendering = true,
          exceptionPaths = json.array{}, copyToGlobals = true}
end

function requests.dumpCell(a)
  local path = cell_path(a.code)
  if not dumped[path] then table.insert(dumps, path) end
  dumped[path] = a.code
  if #dumps > MOST_DUMPED then dumped[table.remove(dumps, 1)] = nil end
  return {sourcePath = path}
end

function requests.setBreakpoints(a)
  local lines, answer = {}, json.array{}
  for i, b in ipairs(a.breakpoints or {}) do
    local line = math.tointeger(b.line)
    if line then lines[line] = true end
    answer[i] = {id = i, verified = line ~= nil, line = b.line,
                 source = a.source}
  end
  breakpoints[a.source.path] = next(lines) and lines or nil
  attend()
  return {breakpoints = answer}
end

function requests.setExceptionBreakpoints()
  return {breakpoints = json.array{}}
end

function requests.source(a)
  local path = a.source and a.source.path or ""
  local text = dumped[path]
  for _, known in pairs(paths) do
    if known.path == path then text = text or known.text end
  end
  text = text or sources.text("@" .. path)
  if not text then error("no source of " .. path .. " is known", 0) end
  return {content = text}
end

function requests.threads()
  local list = json.array{}
  for name, id in pairs(threads) do
    list[#list + 1] = {id = id, name = name == "" and "main" or name}
  end
  table.sort(list, function(x, y) return x.id < y.id end)
  return {threads = list}
end

function requests.stackTrace(a)
  local list = json.array{}
  for i, f in ipairs(place_of(a.threadId).frames) do
    list[i] = {id = f.id, name = f.name, line = f.line, column = 1,
               source = {path = f.path, name = f.path:match "[^/]*$"}}
  end
  return {stackFrames = list, totalFrames = #list}
end

function requests.scopes(a)
  local place, frame = frame_of(a.frameId)
  return {scopes = variables.scopes(place.co, frame)}
end

function requests.variables(a)
  return {variables = variables.list(a.variablesReference)}
end

-- What the names of a stopped frame mean; nil without one: the cells'.
local function environment_of(a)
  if not a.frameId then return nil end
  local place, frame = frame_of(a.frameId)
  return variables.environment(place.co, frame)
end

function requests.evaluate(a)
  return variables.evaluate(a.expression, environment_of(a))
end

requests["continue"] = function(a)
  go_on(a.threadId)
  return {allThreadsContinued = false}
end

function requests.next(a) go_on(a.threadId, "next") end
function requests.stepIn(a) go_on(a.threadId, "in") end
function requests.stepOut(a) go_on(a.threadId, "out") end

function requests.inspectVariables()
  return {variables = variables.globals()}
end

function requests.richInspectVariables(a)
  return variables.rich(a.variableName, environment_of(a))
end

function requests.copyToGlobals(a)
  local place, frame = frame_of(a.srcFrameId)
  local env = variables.environment(place.co, frame)
  _G[a.dstVariableName] = env[a.srcVariableName]
end

function requests.modules()
  return {modules = json.array{}, totalModules = 0}
end

-- ---- the door ---------------------------------------------------------------

--- A request of the Debug Adapter Protocol; its response.
function debugger.debug(request)
  local response = {seq = 0, type = "response", request_seq = request.seq or 0,
                    command = request.command or "", success = true}
  local f = requests[request.command]
  local arguments = request.arguments
  if type(arguments) ~= "table" then arguments = {} end
  local ok, body
  if f then
    ok, body = front.protected(f, arguments)
  else
    ok, body = false, "no such request"
  end
  response.success = ok
  if ok then
    response.body = json.object(body or {})
  else
    response.message = tostring(body)
    response.body = json.object{}
  end
  seq = seq + 1
  response.seq = seq
  return response
end

return debugger
