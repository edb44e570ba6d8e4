--- show/timeline.lua - a trace as a drawing: lanes of time, and arrows.
--
-- A lane is a thread of a device, or a stream of a card, a box an op from its
-- start to its end. Of many short ones in a lane those that share a pixel are
-- drawn as one. Lanes of a task stand below its name, when there are several
-- tasks. An arrow is a value that went from a device to another: from the
-- moment when it was sent to that when it was there. Who waits for one is pale:
-- it takes no time of anybody's. A thin line goes from where a node enqueued
-- its work to where a stream began it: what leans far to the right has waited
-- long. Below the lanes of a card is what of its memory was in use.
-- SPDX-License-Identifier: Apache-2.0

local axis = require "tide.show.axis"
local colour = require "tide.show.colour"
local html = require "tide.show.html"
local style = require "tide.show.style"
local svg = require "tide.show.svg"

local timeline = {}

local MOST_LANES = 24
local MOST_ARROWS = 120
local MOST_LAUNCHES = 240
local FAILED = "#d62728"
local WIDTH, LANE, HEADING, LEFT = 760, 22, 20, 110
local STRIP = 36 -- of memory

-- ---- what is drawn ---------------------------------------------------------

--- First start and last end of a trace's events, in ns.
function timeline.span(p)
  local first, last = math.huge, -math.huge
  for _, e in ipairs(p.events) do
    first, last = math.min(first, e.start), math.max(last, e.stop)
  end
  if last < first then return 0, 1 end
  return first, math.max(last, first + 1)
end

-- So that task 10 comes after task 2.
local function order(device)
  return (device:gsub("%d+", function(n) return ("%9s"):format(n) end))
end

--- Sorts a list by its `device`, then its `thread`.
function timeline.sort(list)
  local keys = {}
  for _, x in ipairs(list) do
    keys[x] = order(x.device) .. (x.stream and " ~" or " ")
      .. ("%9d"):format(x.thread or 0)
  end
  table.sort(list, function(a, b) return keys[a] < keys[b] end)
end

--- Lanes {device =, thread =, stream =, task =, events =}, by device, then
-- thread; streams last.
function timeline.lanes(p)
  local known, list = {}, {}
  for _, e in ipairs(p.events) do
    local key = ("%s %s"):format(e.device, e.stream or e.thread)
    if not known[key] then
      known[key] = {device = e.device, thread = e.thread, stream = e.stream,
                    task = e.task or "", events = {}}
      list[#list + 1] = known[key]
    end
    table.insert(known[key].events, e)
  end
  timeline.sort(list)
  return list
end

--- How many tasks have events.
function timeline.count_tasks(p)
  local known, n = {}, 0
  for _, e in ipairs(p.events) do
    local task = e.task or ""
    if not known[task] then known[task], n = true, n + 1 end
  end
  return n
end

--- A device's name without what is the same for most: "CPU:0",
-- "worker/1 CPU:0".
function timeline.short(device)
  local own = device:match "device:(.*)$" or device
  local job, task = device:match "/job:([^/]+).*/task:(%d+)"
  if not job or job == "localhost" then return own end
  return ("%s/%s %s"):format(job, task, own)
end

-- ---- lanes -----------------------------------------------------------------

local WAITS = {_Recv = true, _HostRecv = true, _Send = true, _HostSend = true}
local PALE = "#ccd3dc"

-- A colour for each of the longest ops, grey for the others.
local function inks(totals)
  local ink, n = {}, 0
  for _, row in ipairs(totals) do
    if WAITS[row.op] then
      ink[row.op] = PALE
    elseif not ink[row.op] and n < #colour.series - 1 then
      n = n + 1
      ink[row.op] = colour.series[n]
    end
  end
  return ink
end

-- Boxes of a lane: those of `events` for which wanted(e), those within a pixel
-- as one. An op that begins before the one before it has ended stands lower.
local function draw_boxes(d, events, wanted, y, x, ink)
  local from, to, fill, busy
  local function flush()
    if from then
      d:rect(from, y + 2, math.max(to - from, 0.4), LANE - 5, {fill = fill})
    end
    from = nil
  end
  local function add(e)
    local a, b = x.place(e.start + 0.0), x.place(e.stop + 0.0)
    if e.failed then b = math.max(b, a + 3) end -- it must be seen
    local wide = b - a >= 0.6
    if wide or not from or a - to > 0.6 then flush() end
    if wide then
      local inside = busy and a < busy - 0.6
      d:rect(a, inside and y + 8 or y + 2, b - a, inside and LANE - 11
        or LANE - 5, {fill = e.failed and FAILED or ink[e.op] or "#999999",
                      stroke = "#ffffff", ["stroke-width"] = 0.3})
      if b - a > 7 * #e.op then
        d:text(a + 3, y + 14, e.op, {["font-size"] = 9,
          fill = WAITS[e.op] and "#333333" or "#ffffff"})
      end
    elseif from then
      to = math.max(to, b)
    else
      from, to, fill = a, b, ink[e.op] or "#999999"
    end
    busy = math.max(busy or b, b)
  end
  for _, e in ipairs(events) do
    if wanted(e) then add(e) end
  end
  flush()
end

-- A thread goes on with other work while a value is waited for.
local function draw_lane(d, lane, y, x, ink)
  draw_boxes(d, lane.events, function(e) return WAITS[e.op] end, y, x, ink)
  draw_boxes(d, lane.events, function(e) return not WAITS[e.op] end, y, x, ink)
end

local function draw_axis(d, low, high, bottom)
  local x = axis.new(0, (high - low) * 1e-9, LEFT, WIDTH - 14)
  for _, tick in ipairs(x.ticks) do
    local at = x.place(tick[1])
    d:line(at, 8, at, bottom, {stroke = "#e6e6e6"})
    d:text(at, bottom + 14, style.seconds(tick[1]),
           {["text-anchor"] = "middle", ["font-size"] = 9, fill = "#444444"})
  end
end

local function draw_legend(d, list, ink, y)
  local x, done = LEFT, {}
  for _, row in ipairs(list) do
    if not ink[row.op] or x > WIDTH - 120 then break end
    if done[row.op] then goto continue end
    done[row.op] = true
    d:rect(x, y - 8, 9, 9, {fill = ink[row.op]})
    d:text(x + 13, y, html.cut(row.op, 20), {["font-size"] = 10})
    x = x + 26 + 6.2 * math.min(20, #row.op)
    ::continue::
  end
end

-- ---- tasks -----------------------------------------------------------------

-- What is known of a task's clock: "clock +1.2 ms ± 40 us".
local function clock_text(p, task)
  for _, t in ipairs(p.tasks or {}) do
    if t.task == task and not t.trouble then
      local ahead = math.abs(t.clock) * 1e-9
      return ("clock %s%s ± %s"):format(t.clock < 0 and "−" or "+",
        style.seconds(ahead), style.seconds(t.error * 1e-9))
    end
  end
  return ""
end

-- Where each of the first lanes is, {[lane] = y}; headings {y =, task =};
-- strips of memory {y =, device =, points =}, each below its card's lanes; the
-- end.
local function layout(lanes, n, several, memory)
  local at, headings, strips, y, before = {}, {}, {}, 10, nil
  for k = 1, n do
    local lane = lanes[k]
    if several and lane.task ~= before then
      headings[#headings + 1] = {y = y, task = lane.task}
      y = y + HEADING
    end
    before = lane.task
    at[lane] = y
    y = y + LANE
    local points = memory[lane.device]
    if points and (k == n or lanes[k + 1].device ~= lane.device) then
      strips[#strips + 1] = {y = y, device = lane.device, points = points}
      y = y + STRIP
    end
  end
  return at, headings, strips, y
end

-- Below the arrows, and what is above them: text with a border of the ground.
local function draw_heading(d, h)
  d:rect(4, h.y + 1, WIDTH - 18, HEADING - 3, {fill = "#f2f2f2"})
end

local function draw_heading_text(d, p, h)
  local o = {["font-size"] = 11, fill = "#222222", stroke = "#f2f2f2",
             ["stroke-width"] = 4, ["stroke-linejoin"] = "round",
             ["paint-order"] = "stroke", ["font-weight"] = "bold"}
  d:text(8, h.y + 14, html.cut(h.task, 60), o)
  o["font-size"], o["font-weight"] = 10, false
  o["text-anchor"] = "end"
  d:text(WIDTH - 18, h.y + 14, clock_text(p, h.task), o)
end

-- ---- memory ----------------------------------------------------------------

--- What of each card's memory was in use: {[device] = {{time, bytes}, ...}}, by
-- time.
function timeline.memory(p)
  local out = {}
  for _, e in ipairs(p.events) do
    if e.memory then
      out[e.device] = out[e.device] or {}
      table.insert(out[e.device], {e.stop, e.memory})
    end
  end
  for _, points in pairs(out) do
    table.sort(points, function(a, b)
      if a[1] ~= b[1] then return a[1] < b[1] end
      return a[2] < b[2]
    end)
  end
  return out
end

-- The most of those of one pixel is drawn.
local function draw_strip(d, strip, x, high)
  local most = 1
  for _, v in ipairs(strip.points) do most = math.max(most, v[2]) end
  local bottom, tall = strip.y + STRIP - 3, STRIP - 7
  local function height(bytes) return bottom - tall * bytes / most end
  local path, last, level = {}, x.place(strip.points[1][1] + 0.0), 0
  path[1], path[2], path[3] = "M", last, bottom
  local function go(at, bytes)
    for _, v in ipairs{"L", at, height(level), "L", at, height(bytes)} do
      path[#path + 1] = v
    end
    level = bytes
  end
  local peak = 0
  for _, v in ipairs(strip.points) do
    local at = x.place(v[1] + 0.0)
    peak = math.max(peak, v[2])
    if at - last >= 0.8 or #path == 3 then
      go(at, peak)
      last, peak = at, v[2]
    end
  end
  go(last, strip.points[#strip.points][2])
  go(x.place(high + 0.0), level)
  for _, v in ipairs{"L", x.place(high + 0.0), bottom, "Z"} do
    path[#path + 1] = v
  end
  d:path(path, {fill = "#c7d7ea", stroke = "#6b8fb8", ["stroke-width"] = 0.8})
  local own = strip.device:match "device:(.*)$" or strip.device
  d:text(LEFT - 6, strip.y + 17, html.cut(own, 14) .. ", memory",
         {["text-anchor"] = "end", ["font-size"] = 10})
  d:text(LEFT - 6, strip.y + 28, "at most " .. style.bytes(most),
         {["text-anchor"] = "end", ["font-size"] = 8, fill = "#555555"})
  d:line(4, strip.y + STRIP - 1, WIDTH - 14, strip.y + STRIP - 1,
         {stroke = "#eeeeee"})
end

-- ---- arrows ----------------------------------------------------------------

-- Those that are drawn: the largest, by bytes.
local function largest(arrows)
  local list = table.move(arrows, 1, #arrows, 1, {})
  table.sort(list, function(a, b)
    if a.bytes ~= b.bytes then return a.bytes > b.bytes end
    return a.to < b.to
  end)
  return table.move(list, 1, math.min(#list, MOST_ARROWS), 1, {})
end

-- A line from a point to another, with a head; white below it, so that it is
-- seen on boxes of any colour.
local function draw_arrow(d, ax, ay, bx, by)
  local dx, dy = bx - ax, by - ay
  local len = math.max(1, math.sqrt(dx * dx + dy * dy))
  dx, dy = dx / len, dy / len
  local nx, ny = bx - 6 * dx, by - 6 * dy
  for _, o in ipairs{{"#ffffff", 2.6}, {"#222222", 1}} do
    d:line(ax, ay, nx, ny, {stroke = o[1], ["stroke-width"] = o[2]})
  end
  d:circle(ax, ay, 1.6, {fill = "#222222"})
  d:path({"M", bx, by, "L", nx - 2.6 * dy, ny + 2.6 * dx, "L", nx + 2.6 * dy,
          ny - 2.6 * dx, "Z"}, {fill = "#222222", stroke = "#ffffff",
                                ["stroke-width"] = 0.4})
end

local function draw_arrows(d, p, lanes, at, x)
  local y_of = {}
  for _, lane in ipairs(lanes) do
    for _, e in ipairs(at[lane] and lane.events or {}) do y_of[e] = at[lane] end
  end
  for _, a in ipairs(largest(p.arrows or {})) do
    local from, to = p.events[a.from], p.events[a.to]
    local top, low = y_of[from], y_of[to]
    if top and low then
      local down = low >= top
      draw_arrow(d, x.place(from.start + 0.0), top + (down and LANE - 4 or 3),
                 x.place(to.stop + 0.0), low + (down and 3 or LANE - 4))
    end
  end
end

-- Those that waited longest, as thin lines with a dot where the work began.
local function draw_launches(d, p, lanes, at, x)
  local y_of = {}
  for _, lane in ipairs(lanes) do
    for _, e in ipairs(at[lane] and lane.events or {}) do y_of[e] = at[lane] end
  end
  local list = table.move(p.launches or {}, 1, #(p.launches or {}), 1, {})
  table.sort(list, function(a, b)
    if a.waited ~= b.waited then return a.waited > b.waited end
    return a.to < b.to
  end)
  for i = 1, math.min(#list, MOST_LAUNCHES) do
    local from, to = p.events[list[i].from], p.events[list[i].to]
    local top, low = y_of[from], y_of[to]
    if top and low then
      local left = math.max(from.start, math.min(from.stop, to.ready))
      local ax, bx = x.place(left + 0.0), x.place(to.start + 0.0)
      local ay, by = top + LANE - 6, low + 3
      d:line(ax, ay, bx, by, {stroke = "#333333", ["stroke-width"] = 0.5,
                              ["stroke-opacity"] = 0.55})
      d:circle(bx, by, 1.2, {fill = "#333333"})
    end
  end
end

-- ---- the drawing -----------------------------------------------------------

--- A trace as a drawing, and how many lanes it leaves out.
-- @param totals rows {op =}, longest first
function timeline.drawing(p, totals)
  local lanes, ink = timeline.lanes(p), inks(totals)
  local n = math.min(#lanes, MOST_LANES)
  local low, high = timeline.span(p)
  local at, headings, strips, bottom = layout(lanes, n,
    timeline.count_tasks(p) > 1, timeline.memory(p))
  local d = svg.drawing(WIDTH, bottom + 44)
  draw_axis(d, low, high, bottom)
  local x = axis.new(low, high, LEFT, WIDTH - 14)
  for _, h in ipairs(headings) do draw_heading(d, h) end
  for k = 1, n do
    local lane = lanes[k]
    local y = at[lane]
    local own = lane.device:match "device:(.*)$" or lane.device
    d:text(LEFT - 6, y + 14, ("%s, %s"):format(html.cut(own, 14),
           lane.stream or ("%d"):format(lane.thread)),
           {["text-anchor"] = "end", ["font-size"] = 10})
    draw_lane(d, lane, y, x, ink)
    d:line(4, y + LANE - 1, WIDTH - 14, y + LANE - 1, {stroke = "#eeeeee"})
  end
  for _, strip in ipairs(strips) do draw_strip(d, strip, x, high) end
  draw_launches(d, p, lanes, at, x)
  draw_arrows(d, p, lanes, at, x)
  for _, h in ipairs(headings) do draw_heading_text(d, p, h) end
  draw_legend(d, totals, ink, bottom + 34)
  return d, #lanes - n
end

return timeline
