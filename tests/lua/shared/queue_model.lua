-- queue_model.lua - what a queue may have done, told from a history of what
-- threads saw (tests/kernels/queue_stress.c writes it).
--
-- A line "queue TYPE CAPACITY WAY" begins a round; each line after it is an
-- operation: "put|put_many|take|many|up_to|close THREAD BEGIN END CODE STOPPED
-- GONE ID...". BEGIN and END count the beginnings and ends of all threads.
--
-- The model of a FIFO queue puts the elements in an order in which all of them
-- may have passed, and then lets them pass: each is put and taken at a moment
-- within the operations that did it, none before the one ahead of it.
-- SPDX-License-Identifier: Apache-2.0

local queue_model = {}

local CANCELLED, OUT_OF_RANGE, DATA_LOSS = 1, 11, 15
local FAILED = 2 -- WAY

-- ---- reading ----------------------------------------------------------------

local function read_operation(line)
  local words = {}
  for word in line:gmatch "%S+" do words[#words + 1] = word end
  local o = {act = words[1], thread = words[2], begin = tonumber(words[3]),
             ["end"] = tonumber(words[4]), code = tonumber(words[5]),
             stopped = words[6] == "1", gone = tonumber(words[7]), ids = {}}
  for i = 8, #words do o.ids[i - 7] = math.tointeger(words[i]) end
  o.puts = o.act == "put" or o.act == "put_many"
  return o
end

--- The rounds of a history: lists of operations, with `type` and so on.
function queue_model.read(lines)
  local rounds = {}
  for line in lines do
    local type, capacity, way = line:match "^queue (%S+) (%S+) (%S+)$"
    if type then
      rounds[#rounds + 1] = {type = type, capacity = tonumber(capacity),
                             way = tonumber(way)}
    else
      local round = rounds[#rounds]
      round[#round + 1] = read_operation(line)
    end
  end
  return rounds
end

-- ---- elements ---------------------------------------------------------------

-- Elements that were put and taken: put and took are the operations,
-- after_put and after_took the elements before them in the same ones.
local function elements_of(round, complain)
  local by_id, passed, missing, gone = {}, {}, 0, 0
  for _, o in ipairs(round) do
    for i, id in ipairs(o.puts and o.ids or {}) do
      if by_id[id] then complain("%d was put twice", id) end
      by_id[id] = {id = id, put = o, after_put = by_id[o.ids[i - 1]]}
    end
  end
  for _, o in ipairs(round) do
    gone = gone + o.gone
    local last
    for _, id in ipairs(o.puts and {} or o.ids) do
      local e = by_id[id]
      if not e then
        complain("%d was taken and never put", id)
      elseif e.took then
        complain("%d was taken twice", id)
      else
        e.took, e.after_took = o, last
        passed[#passed + 1], last = e, e
      end
    end
  end
  for _, e in pairs(by_id) do
    if not e.took and e.put.code == 0 then missing = missing + 1 end
    if e.took and e.put.code ~= 0 and e.put.act == "put" then
      complain("%d was taken, and its enqueue failed", e.id)
    end
  end
  if missing > gone then
    complain("%d are lost, and %d went with steps", missing, gone)
  end
  return passed
end

-- ---- first in, first out ----------------------------------------------------

-- When the first of the puts (takes) of those that are left must be over.
local function earliest(left, of)
  local first = math.huge
  for e in pairs(left) do first = math.min(first, e[of]["end"]) end
  return first
end

-- An element that no other must be ahead of, or nil. What was taken was put
-- before that, however long its enqueue went on.
local function next_of(left)
  local put, took = earliest(left, "put"), earliest(left, "took")
  for e in pairs(left) do
    local first = e.put.begin < math.min(put, took) and e.took.begin < took
    if first and not left[e.after_put] and not left[e.after_took] then
      return e
    end
  end
end

local function check_fifo(elements, complain)
  local left, n, put, took = {}, #elements, -1, -1
  for _, e in ipairs(elements) do
    left[e] = true
    -- what was put before it in one operation and never seen is no hindrance
    if e.after_put and not e.after_put.took then e.after_put = nil end
    e.after_put, e.after_took = e.after_put or false, e.after_took or false
  end
  for i = 1, n do
    local e = next_of(left)
    if not e then
      complain("there is no order for the last %d of %d elements", n - i + 1, n)
      return
    end
    left[e] = nil
    put = math.max(put, e.put.begin)
    took = math.max(took, put, e.took.begin)
    if put > e.put["end"] or took > e.took["end"] then
      complain("%d can pass at no moment", e.id)
      return
    end
  end
end

-- ---- smallest first ---------------------------------------------------------

local function check_ranks(elements, complain)
  table.sort(elements, function(a, b) return a.id < b.id end)
  for k, b in ipairs(elements) do
    for i = 1, k - 1 do
      local a = elements[i]
      if a.put.code == 0 and a.put["end"] < b.took.begin and
         b.took["end"] < a.took.begin then
        complain("%d was taken while %d was there", b.id, a.id)
      end
    end
  end
end

-- ---- errors -----------------------------------------------------------------

local function check_errors(round, complain)
  local closing
  for _, o in ipairs(round) do
    if o.act == "close" then closing = o.begin end
  end
  for _, o in ipairs(round) do
    local late = o.puts and CANCELLED or OUT_OF_RANGE
    if round.way == FAILED then late = DATA_LOSS end
    local allowed = o.code == 0 or o.act ~= "close" and
                    (o.code == late and o["end"] > closing or
                     o.code == CANCELLED and o.stopped)
    if not allowed then
      complain("%s from %d to %d ended with code %d", o.act, o.begin, o["end"],
               o.code)
    end
  end
end

--- What in a round no queue could have done: a list of sentences.
function queue_model.check(round)
  local found = {}
  local function complain(fmt, ...) found[#found + 1] = fmt:format(...) end
  local elements = elements_of(round, complain)
  check_errors(round, complain)
  if round.type:match "FIFO" then check_fifo(elements, complain) end
  if round.type == "PriorityQueueV2" then check_ranks(elements, complain) end
  return found
end

return queue_model
