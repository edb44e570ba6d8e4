--- services/history.lua - service "history": what was typed, in all sessions.
--
-- A log in $XDG_STATE_HOME/tide/history, one record of JSON a line, each added
-- by one write behind a lock, so that neither several kernels nor a crash can
-- harm it: a line that is no record is passed over. An input is recorded before
-- it runs, its output after. Records: {s, n, i} an input, {s, n, o} its output,
-- {s, t} the start of session s. A line's session begins with its first input.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local frontend = require "tide.frontend"
local json = require "tide.base.json"

local history = {}

local MOST = 4 << 20      -- bytes of the file; then the older half goes
local LONGEST = 1 << 20   -- bytes of an input that is kept
local OUTPUT = 2000       -- bytes of an output that are kept

-- What was decoded: by list of lines, by number.
local decoded = setmetatable({}, {__mode = "k"})

-- ---- the file ---------------------------------------------------------------

-- The file, or nil when nothing is written; its lines as far as they were read.
-- `seen` is how far: bytes of the file, and lines of it; one value, so that an
-- interrupt leaves both or neither.
local log = {path = nil, lines = {}, seen = {bytes = 0, lines = 0}, head = ""}

local function default_path()
  local state = os.getenv "XDG_STATE_HOME"
  if not state or state == "" then
    state = (os.getenv "HOME" or "") .. "/.local/state"
  end
  return state:find "^/" and state .. "/tide/history" or nil
end

--- Keeps the history in `path` from now on; nil: only in memory.
function history.use(path)
  log = {path = path, lines = {}, seen = {bytes = 0, lines = 0}, head = "",
         chosen = true}
end

-- Who only pipes text through a prompt leaves no history.
local function choose()
  if log.chosen then return end
  local kept = frontend.kind == "notebook" or core.isatty(0)
  history.use(kept and default_path() or nil)
end

-- Reads what was added since; from the start when the file is another one.
local function refresh()
  choose()
  local file <close> = log.path and io.open(log.path, "rb")
  if not file then return log.lines end
  local head, size = file:read(64) or "", file:seek "end"
  if size < log.seen.bytes or head:sub(1, #log.head) ~= log.head then
    log.seen = {bytes = 0, lines = 0}
  end
  log.head = head
  local bytes, n = log.seen.bytes, log.seen.lines
  for i = #log.lines, n + 1, -1 do log.lines[i] = nil end
  decoded[log.lines] = n > 0 and decoded[log.lines] or nil
  file:seek("set", bytes)
  for line in (file:read(size - bytes) or ""):gmatch "([^\n]*)\n" do
    bytes, n = bytes + #line + 1, n + 1
    log.lines[n] = line
  end
  log.seen = {bytes = bytes, lines = n}
  return log.lines
end

-- Drops the older half, by whole lines.
local function shorten(path)
  local text = core.read_file(path)
  local from = text:find("\n", #text - MOST // 2, true) or #text
  core.write_file(path, text:sub(from + 1))
end

-- ---- records ----------------------------------------------------------------

-- The record of a line of the file, or nil; decoded once.
local function record_at(lines, i)
  local known = decoded[lines]
  if not known then
    known = {}
    decoded[lines] = known
  end
  if known[i] == nil then
    local r = json.decode(lines[i])
    local sound = type(r) == "table" and math.type(r.s) == "integer"
      and (r.t or math.type(r.n) == "integer")
      and (r.i == nil or type(r.i) == "string")
      and (r.o == nil or type(r.o) == "string")
    known[i] = sound and r or false
  end
  return known[i] or nil
end

local function last_session(lines)
  for i = #lines, 1, -1 do
    local r = record_at(lines, i)
    if r and r.t then return r.s end
  end
  return 0
end

-- ---- adding -----------------------------------------------------------------

-- Adds the record that make() gives, called behind the lock. Where the file
-- cannot be written the history stays in memory.
local function append(make)
  local path = log.path
  local ok, why = not path, nil
  if path then
    ok, why = pcall(function()
      core.mkdirs((path:match "^(.*)/"))
      local _ <close> = core.lock_file(path .. ".lock")
      local size = core.append_line(path, json.encode(make()))
      if size > MOST then shorten(path) end
    end)
  end
  if ok and path then return end
  if not ok and frontend.interrupted() then error(why, 0) end
  refresh()
  log.path = nil
  log.lines[#log.lines + 1] = json.encode(make())
end

-- Gives a line its session.
local function begin(line)
  choose()
  append(function()
    line.session = last_session(refresh()) + 1
    return {s = line.session, t = os.time()}
  end)
end

--- Records an input of a line, number n.
function history.add(line, n, text)
  if text:find "^%s*$" or #text > LONGEST then return end
  if not line.session then begin(line) end
  append(function() return {s = line.session, n = n, i = text} end)
end

--- Records what the input n gave, as text without colours.
function history.add_output(line, n, text)
  if not line.session then return end
  text = text:gsub("\27%[[%d;]*m", "")
  if #text > OUTPUT then
    text = text:sub(1, OUTPUT):gsub("[\xC0-\xFF][\x80-\xBF]*$", "") .. "..."
  end
  append(function() return {s = line.session, n = n, o = text} end)
end

-- ---- the service ------------------------------------------------------------

local kinds = {}

-- Inputs from the newest to the oldest that keep(record) wants, n at most; in
-- their order. Those before record `before` of the log; and which was the last
-- that was looked at: 0 when all were.
local function newest(n, keep, before)
  local lines, found, outputs = refresh(), {}, {}
  local i = math.min(#lines, (before or math.huge) - 1)
  while i > 0 and #found < n do
    local r = record_at(lines, i)
    if r and r.o then outputs[r.s .. ":" .. r.n] = r.o end
    if r and r.i and keep(r) then
      found[#found + 1] = {r = r, output = outputs[r.s .. ":" .. r.n]}
    end
    i = i - 1
  end
  local list = {}
  for k = #found, 1, -1 do list[#list + 1] = found[k] end
  return list, i > 0 and i + 1 or 0
end

local function count(x, otherwise)
  local n = math.tointeger(x)
  return n and math.max(n, 0) or otherwise
end

function kinds.tail(request)
  return newest(count(request.n, math.huge), function() return true end,
                math.tointeger(request.before))
end

-- Half open; a session of 0 or less counts back from the line's own.
function kinds.range(request, line)
  local session = math.tointeger(request.session) or 0
  if session <= 0 then
    local own = line.session or last_session(refresh()) + 1
    session = own + session
  end
  local from = count(request.start, 0)
  local to = count(request.stop, math.huge)
  return newest(math.huge, function(r)
    return r.s == session and r.n >= from and r.n < to
  end)
end

-- A piece of a glob without stars as a pattern.
local function pattern_of(piece)
  return (piece:gsub(".", function(c)
    if c == "?" then return utf8.charpattern end
    return c:find "%w" and c or "%" .. c
  end))
end

-- Does a glob match a text? What is between its stars is looked for in turn:
-- all of it in one pattern could take for ever.
local function matcher(glob)
  local pieces = {}
  for piece in (glob .. "*"):gmatch "([^*]*)%*" do
    pieces[#pieces + 1] = pattern_of(piece)
  end
  local n = #pieces
  pieces[1] = "^" .. pieces[1]
  pieces[n] = pieces[n] .. "$"
  return function(text)
    local at = 1
    for _, piece in ipairs(pieces) do
      local _, stop = text:find(piece, at)
      if not stop then return false end
      at = stop + 1
    end
    return true
  end
end

function kinds.search(request)
  local glob = type(request.pattern) == "string" and request.pattern or "*"
  local fits, seen = matcher(glob), {}
  local unique = request.unique == true
  return newest(count(request.n, math.huge), function(r)
    if not fits(r.i) or unique and seen[r.i] then return false end
    seen[r.i] = true
    return true
  end)
end

--- {history = {{session, line, input}, ...}}: hist_access_type is "tail" (n),
-- "range" (session, start, stop) or "search" (pattern, n, unique); with output,
-- the third is {input, output}. The prompt asks for a tail in pieces: with
-- before = the `before` of the last reply, which is 0 when that was all.
function history.history(request, line)
  local kind = kinds[request.hist_access_type] or kinds.tail
  local entries = json.array{}
  local found, before = kind(request, line)
  for i, e in ipairs(found) do
    local text = e.r.i
    if request.output == true then
      text = json.array{text, e.output or json.null}
    end
    entries[i] = json.array{e.r.s, e.r.n, text}
  end
  return {status = "ok", history = entries,
          before = request.before and before or nil}
end

return history
