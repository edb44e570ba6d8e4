--- train/retention.lua - which checkpoints of a saver stay.
--
-- The newest `max` stay; with `hours`, one that would go stays for good when so
-- much time passed since the last that did; with `best`, the best `max` by
-- their metric stay too, listed in the file `checkpoint_best`, the best last.
--
-- What a folder's files say is all there is to know: a job that was started
-- again goes on where the one before was. A checkpoint is first listed, and
-- leaves the list only when its files are gone, whatever ends the process
-- between. Others' in the folder are left alone.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local state = require "tide.train.checkpoint_state"

local retention = {}
retention.__index = retention

local BEST = "checkpoint_best"
local METRIC = "_tide/metric"

--- The rule of a saver: max (0: all), hours, best ("max" or "min").
function retention.new(o)
  return setmetatable({max = o.max, hours = o.hours, best = o.best,
                       metrics = {}, adopted = {}, owns = {}}, retention)
end

--- The checkpoint of that prefix is the saver's; with `base`, its path before
-- the step, so are all that are called base-<step>.
function retention:claim(prefix, base)
  local folder, name = state.split(prefix)
  local own = self.owns[folder] or {names = {}, bases = {}}
  if base then
    own.bases[select(2, state.split(base))] = true
  else
    own.names[name] = true
  end
  self.owns[folder], self.folder = own, folder
end

-- Is it one that the saver made, or one before it of the same name? Without
-- `own` all are.
local function is_own(row, own)
  if not own then return true end
  local _, name = state.split(row.prefix)
  local base = name:match "^(.*)%-%d+$"
  return own.names[name] or base and own.bases[base] or false
end

local function position(rows, prefix)
  for i, row in ipairs(rows) do
    if row.prefix == prefix then return i end
  end
end

local function drop(rows, prefix)
  local at = position(rows, prefix)
  if at then table.remove(rows, at) end
end

-- The state of a folder; one that is damaged is told and begun anew from what
-- is there.
local function read(folder, own, name)
  local ok, s = pcall(state.read, folder, name)
  if ok then return s end
  state.warn("%s; it is made anew", s.message)
  s = {rows = {}, preserved = 0.0}
  for _, each in ipairs(name and {} or state.indices(folder)) do
    local row = {prefix = state.join(folder, each), time = 0.0}
    if is_own(row, own) then s.rows[#s.rows + 1] = row end
  end
  table.sort(s.rows, function(a, b)
    return (state.step(a.prefix) or -1) < (state.step(b.prefix) or -1)
  end)
  return s
end

-- ---- the best -------------------------------------------------------------

local function as_number(x)
  return math.type(x) and x or x:item()
end

-- The metric that a checkpoint was saved with; NaN when it is not to be had.
local function metric_of(self, prefix)
  local known = self.metrics[prefix]
  if known then return known end
  local ok, x = pcall(function()
    local c <close> = core.checkpoint(prefix)
    return as_number(c:read(METRIC))
  end)
  self.metrics[prefix] = ok and x or 0 / 0
  return self.metrics[prefix]
end

-- Rows that have a metric, the worst first; of equals the older.
local function ranked(self, rows)
  local list, place = {}, {}
  for i, row in ipairs(rows) do
    local x = metric_of(self, row.prefix)
    if x == x then list[#list + 1] = row end
    place[row] = i
  end
  local sign = self.best == "max" and 1 or -1
  table.sort(list, function(a, b)
    local x, y = metric_of(self, a.prefix), metric_of(self, b.prefix)
    if x ~= y then return sign * x < sign * y end
    return place[a] < place[b]
  end)
  return list
end

-- The best that stay, and those that are no longer among them.
local function choose_best(self, folder, own, row)
  local s, mine = read(folder, own, BEST), {}
  drop(s.rows, row.prefix)
  for _, each in ipairs(s.rows) do
    if is_own(each, own) and core.exists(each.prefix .. ".index") then
      mine[#mine + 1] = each
    end
  end
  mine[#mine + 1] = row
  local best, out = ranked(self, mine), {}
  while self.max > 0 and #best > self.max do
    out[#out + 1] = table.remove(best, 1)
  end
  return best, out
end

local function write_best(folder, own, best)
  local s = read(folder, own, BEST)
  local rows = {}
  for _, row in ipairs(s.rows) do
    if not is_own(row, own) then rows[#rows + 1] = row end
  end
  table.move(best, 1, #best, #rows + 1, rows)
  s.rows, s.newest = rows, rows[#rows] and rows[#rows].prefix
  state.write(folder, s, BEST)
end

-- ---- after a save ---------------------------------------------------------

-- What ended before it was whole: prefixes of the saver that have files and no
-- index, and folders of parts that were not merged.
local function remains(folder, own)
  local list, seen = {}, {}
  local function add(prefix, parts)
    if not seen[prefix] and is_own({prefix = prefix}, own)
       and (parts or not core.exists(prefix .. ".index")) then
      list[#list + 1] = {prefix = prefix, parts = parts}
    end
    seen[prefix] = true
  end
  for name in state.names(folder) do
    local of = name:match "^(.+%-%d+)_temp$"
    local stem = name:match "^(.+%-%d+)%.data%-"
      or name:match "^(.+%-%d+)%.lock$"
      or name:match "^(.+%-%d+)%.[%w%-.]+%.tempstate$"
    if of then add(state.join(folder, of), state.join(folder, name)) end
    if stem then add(state.join(folder, stem)) end
  end
  return list
end

-- Removes them, but for what somebody writes at this moment.
local function sweep(folder, own)
  for _, each in ipairs(remains(folder, own)) do
    if each.parts then
      for name in state.names(each.parts) do
        local part = name:match "^(part%-%d+%-of%-%d+)%."
        if part then
          pcall(core.checkpoint_remove, state.join(each.parts, part))
        end
      end
      os.remove(each.parts)
    else
      pcall(core.checkpoint_remove, each.prefix)
    end
  end
end

-- Once a folder, and after a save that was interrupted: those that are later
-- than all that is listed, since who saved them ended before they were, join
-- the list; other remains go.
local function adopt(self, folder, own, s)
  local highest, found = nil, {}
  if self.adopted[folder] then return end
  self.adopted[folder] = true
  for _, row in ipairs(s.rows) do
    local step = is_own(row, own) and state.step(row.prefix)
    if step and step > (highest or -1) then highest = step end
  end
  if not highest then return end
  for _, name in ipairs(state.indices(folder)) do
    local row = {prefix = state.join(folder, name), time = os.time()}
    if is_own(row, own) and (state.step(name) or -1) > highest then
      found[#found + 1] = row
    end
  end
  table.sort(found, function(a, b)
    return state.step(a.prefix) < state.step(b.prefix)
  end)
  table.move(found, 1, #found, #s.rows + 1, s.rows)
  sweep(folder, own)
end

-- Is it time to keep one of the time `at` for good?
local function is_due(self, s, at)
  return self.hours and at - s.preserved >= self.hours * 3600
end

-- The saver's own rows that leave the list. Those kept for good are taken off
-- at once, the others are given.
local function surplus(self, s, own, best)
  local mine, out = {}, {}
  for _, row in ipairs(s.rows) do
    if is_own(row, own) then mine[#mine + 1] = row end
  end
  local n = #mine
  for _, row in ipairs(mine) do
    local is_there = core.exists(row.prefix .. ".index")
    if not is_there then
      out[#out + 1] = row
      n = n - 1
    elseif self.max > 0 and n > self.max then
      n = n - 1
      if position(best, row.prefix) then
        drop(s.rows, row.prefix)
      elseif is_due(self, s, row.time or 0.0) then
        s.preserved = row.time
        drop(s.rows, row.prefix)
      else
        out[#out + 1] = row
      end
    end
  end
  return out
end

-- Removes files; what cannot be stays listed, to be tried again.
local function remove_all(self, s, out)
  for _, row in ipairs(out) do
    local ok, e = pcall(core.checkpoint_remove, row.prefix)
    if ok then
      drop(s.rows, row.prefix)
      self.metrics[row.prefix] = nil
    else
      state.warn("the old checkpoint '%s' cannot be removed: %s", row.prefix,
                 tostring(e))
    end
  end
end

--- To be called before a save. One that did not come to its end may have left
-- a checkpoint all the same, if it was interrupted late: the next add looks.
function retention:begin()
  if self.begun then self.adopted = {} end
  self.begun = true
end

--- Lists a checkpoint that was saved, and is durable by now, in its folder, and
-- removes those that are too many.
function retention:add(prefix, base, metric)
  self.begun = nil
  self:claim(prefix, base)
  local folder = state.split(prefix)
  local own = self.owns[folder]
  local s = read(folder, own)
  local row = {prefix = prefix, time = os.time() + 0.0}
  self.metrics[prefix] = metric
  drop(s.rows, prefix)
  adopt(self, folder, own, s)
  drop(s.rows, prefix)
  s.rows[#s.rows + 1], s.newest = row, prefix
  if self.hours and s.preserved == 0 then s.preserved = row.time end
  local best, worse = {}, {}
  if self.best then best, worse = choose_best(self, folder, own, row) end
  local out = surplus(self, s, own, best)
  for _, each in ipairs(worse) do -- neither among the best nor the newest
    if not position(s.rows, each.prefix) then
      table.insert(s.rows, 1, each)
      out[#out + 1] = each
    end
  end
  state.write(folder, s)
  if self.best then write_best(folder, own, best) end
  if #out == 0 then return end
  remove_all(self, s, out)
  state.write(folder, s)
end

-- ---- looking --------------------------------------------------------------

-- By time; what was made in one second, as it is.
local function in_order(rows)
  local place = {}
  for i, row in ipairs(rows) do place[row] = i end
  table.sort(rows, function(a, b)
    if a.time ~= b.time then return a.time < b.time end
    return place[a] < place[b]
  end)
  return rows
end

--- The saver's checkpoints in a folder that are listed, the oldest first: a
-- list of {prefix =, time =, step =}, and with `best` metric.
function retention:list(folder)
  local own = self.owns[folder]
  local rows, out = read(folder, own).rows, {}
  if self.best then
    local best = read(folder, own, BEST).rows
    for i = #best, 1, -1 do
      if not position(rows, best[i].prefix) then
        table.insert(rows, 1, best[i])
      end
    end
  end
  for _, row in ipairs(rows) do
    if is_own(row, own) and core.exists(row.prefix .. ".index") then
      local metric = self.best and metric_of(self, row.prefix)
      out[#out + 1] = {prefix = row.prefix, time = row.time or 0.0,
                       step = state.step(row.prefix),
                       metric = metric == metric and metric or nil}
    end
  end
  return in_order(out)
end

--- The prefix of the best one in a folder, or nil.
function retention:best_of(folder)
  local own = self.owns[folder]
  local rows = read(folder, own, BEST).rows
  for i = #rows, 1, -1 do
    if is_own(rows[i], own) and core.exists(rows[i].prefix .. ".index") then
      return rows[i].prefix
    end
  end
end

return retention
