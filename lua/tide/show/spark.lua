--- show/spark.lua - charts as text.
--
-- SPDX-License-Identifier: Apache-2.0

local axis = require "tide.show.axis"
local html = require "tide.show.html"
local number = require "tide.show.number"
local style = require "tide.show.style"

local spark = {}

local blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

--- Numbers as a line of small bars, `width` at most; one that is not finite is
-- "?".
-- @usage require("tide.show.spark").line({1, 2, 3, 4})  --> ▁▃▆█
function spark.line(list, width, log)
  local low, high = axis.range({list}, log)
  local n = math.min(#list, width or #list)
  local parts = {}
  local a = axis.new(low, high, 0, 1, log)
  for k = 1, n do
    local v = list[1 + (k - 1) * (#list - 1) // math.max(1, n - 1)]
    local at = a.place(v)
    parts[k] = not at and "?"
      or blocks[1 + math.floor(math.max(0, math.min(1, at)) * 7 + 0.5)]
  end
  return table.concat(parts)
end

--- A bar of `share` (0 to 1) of `width` columns, to an eighth of one.
function spark.bar(share, width)
  local eighths = math.floor(math.max(0, math.min(1, share)) * width * 8 + 0.5)
  local parts = {"▏", "▎", "▍", "▌", "▋", "▊", "▉"}
  return ("█"):rep(eighths // 8) .. (parts[eighths % 8] or "")
end

--- Series, a line each: name, bars, the last value and the range.
function spark.series(c, lists, width)
  local lines, widest = {}, 0
  for _, s in ipairs(c.series) do
    widest = math.max(widest, math.min(20, style.columns(html.cut(s.name, 20))))
  end
  local room = math.max(10, math.min(60, (width or style.width()) - widest
                                     - 50))
  for i, s in ipairs(c.series) do
    local text = ("%s %s %s"):format(style.pad(html.cut(s.name, 20), widest),
      spark.line(lists[i][2], room, c.log_y), number.text(s.last or 0 / 0))
    if s.low then
      text = ("%s  (%s to %s, %s points)"):format(text, number.text(s.low),
        number.text(s.high), style.count(s.n))
    end
    lines[i] = text
  end
  return lines
end

--- Names and values as bars.
function spark.bars(names, values, width)
  local lines, widest, _, high = {}, 0, axis.range({values, {0}})
  for i = 1, math.min(#names, 40) do
    widest = math.max(widest, style.columns(html.cut(names[i], 24)))
  end
  local room = math.max(8, (width or style.width()) - widest - 14)
  for i, name in ipairs(names) do
    if i > 40 then
      lines[i] = ("… %d more"):format(#names - 40)
      break
    end
    local v = values[i]
    lines[i] = ("%s %s %s"):format(style.pad(html.cut(name, 24), widest),
      v == v and v > 0 and spark.bar(v / high, room) or "", number.text(v))
  end
  return lines
end

-- ---- dots ------------------------------------------------------------------

-- The bit of each of the 2 x 4 dots of a character of Braille.
local dots = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

--- Points in a frame of characters, with the range of both axes.
function spark.scatter(c, lists, width)
  local columns, rows = math.min(60, (width or style.width()) - 4), 12
  local all_x, all_y = {}, {}
  for i, l in ipairs(lists) do all_x[i], all_y[i] = l[1], l[2] end
  local low_x, high_x = axis.range(all_x, c.log_x)
  local low_y, high_y = axis.range(all_y, c.log_y)
  local x = axis.new(low_x, high_x, 0, columns * 2 - 1, c.log_x)
  local y = axis.new(low_y, high_y, rows * 4 - 1, 0, c.log_y)
  local cells = {}
  for _, l in ipairs(lists) do
    for i = 1, #l[1] do
      local px, py = x.place(l[1][i]), y.place(l[2][i])
      if px and py then
        px, py = math.floor(px + 0.5), math.floor(py + 0.5)
        local at = py // 4 * columns + px // 2
        cells[at] = (cells[at] or 0) | dots[py % 4 + 1][px % 2 + 1]
      end
    end
  end
  local lines = {("y %s to %s"):format(number.text(low_y),
                                       number.text(high_y))}
  for r = 0, rows - 1 do
    local line = {}
    for k = 0, columns - 1 do
      line[k + 1] = utf8.char(0x2800 + (cells[r * columns + k] or 0))
    end
    lines[#lines + 1] = "│" .. table.concat(line)
  end
  lines[#lines + 1] = "└" .. ("─"):rep(columns)
  lines[#lines + 1] = (" x %s to %s"):format(number.text(low_x),
                                             number.text(high_x))
  return lines
end

return spark
