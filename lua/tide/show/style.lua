--- show/style.lua - what the place that text is shown in can do: width, colour,
-- and which frontend it is.
--
-- Colour is for terminals only: text/plain of a notebook is also read by tools.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local json = require "tide.base.json"

local style = {}

local has_frontend, frontend = pcall(require, "tide.frontend")

--- "notebook", "terminal", or "script".
function style.frontend()
  return has_frontend and frontend.kind or "script"
end

--- Columns to fill, at most 120.
function style.width()
  if style.frontend() == "notebook" then return 80 end
  return math.max(20, math.min(core.width() - 1, 120))
end

--- All columns of the terminal; 80 where there is none.
function style.terminal_width()
  return style.frontend() == "notebook" and 80 or core.width()
end

--- May escape sequences for colours be written?
function style.colour()
  return style.frontend() == "terminal" and core.isatty(1)
    and not os.getenv "NO_COLOR" and os.getenv "TERM" ~= "dumb"
end

local codes = {red = "31", grey = "90", bold = "1", blue = "34", green = "32"}

--- The text in a colour, where there are colours.
function style.paint(colour, text)
  if not style.colour() then return text end
  return ("\27[%sm%s\27[0m"):format(codes[colour], text)
end

-- Ranges of code points that take two columns, or none, in order.
local wide = {{0x1100, 0x115F}, {0x2E80, 0xA4CF}, {0xAC00, 0xD7A3},
              {0xF900, 0xFAFF}, {0xFE30, 0xFE6F}, {0xFF00, 0xFF60},
              {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
              {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}}
local none = {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF},
              {0xFE00, 0xFE0F}}

local function within(ranges, code)
  for _, range in ipairs(ranges) do
    if code < range[1] then return false end
    if code <= range[2] then return true end
  end
end

local function columns_of(code)
  return within(none, code) and 0 or within(wide, code) and 2 or 1
end

--- How many columns a text of UTF-8 takes on a terminal.
function style.columns(s)
  if not s:find "[\xCC-\xFF]" then return utf8.len(s) or #s end
  if not utf8.len(s) then return #s end
  local n = 0
  for _, code in utf8.codes(s) do n = n + columns_of(code) end
  return n
end

--- As much of s as n columns take, with … where it was longer.
function style.cut(s, n)
  s = json.utf8(s)
  if style.columns(s) <= n then return s end
  local used, stop = 0, 1
  for at, code in utf8.codes(s) do
    used = used + columns_of(code)
    if used > n - 1 then break end
    stop = utf8.offset(s, 2, at)
  end
  return s:sub(1, stop - 1) .. "…"
end

--- s filled up with blanks to n columns: behind it, before it where `left`.
function style.pad(s, n, left)
  local blanks = (" "):rep(n - style.columns(s))
  return left and blanks .. s or s .. blanks
end

--- 36,000 for 36000.
function style.count(n)
  local text = ("%d"):format(n)
  local sign, digits = text:match "^(-?)(%d+)$"
  digits = digits:reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return sign .. digits:gsub("^,", "")
end

--- "1.5 MB" of a number of bytes.
function style.bytes(n)
  local units = {"B", "kB", "MB", "GB", "TB", "PB"}
  local at = 1
  while n >= 1000 and at < #units do
    n, at = n / 1000, at + 1
  end
  return (at == 1 and "%d %s" or "%.3g %s"):format(n, units[at])
end

--- "1.20 ms" of a number of seconds.
function style.seconds(s)
  if s ~= s or s < 0 then return "?" end
  if s == 0 then return "0 s" end
  if s < 1e-6 then return ("%.0f ns"):format(s * 1e9) end
  if s < 1e-3 then return ("%.3g us"):format(s * 1e6) end
  if s < 1 then return ("%.3g ms"):format(s * 1e3) end
  if s < 100 then return ("%.3g s"):format(s) end
  s = math.floor(s + 0.5)
  if s < 3600 then return ("%d:%02d"):format(s // 60, s % 60) end
  return ("%d:%02d:%02d"):format(s // 3600, s // 60 % 60, s % 60)
end

return style
