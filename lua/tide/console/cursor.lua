--- console/cursor.lua - text and cursors as the protocol counts them.
--
-- Cursors come and go in code points, Lua counts bytes. A byte that is no UTF-8
-- counts as one code point.
-- SPDX-License-Identifier: Apache-2.0

local cursor = {}

--- `text` with a control character for each byte that is no UTF-8: as long as
-- before.
function cursor.sound(text)
  if utf8.len(text) then return text end
  local parts, at = {}, 1
  while at <= #text do
    local len, bad = utf8.len(text, at)
    if len then bad = #text + 1 end
    parts[#parts + 1] = text:sub(at, bad - 1)
    if bad <= #text then parts[#parts + 1] = "\127" end
    at = bad + 1
  end
  return table.concat(parts)
end

--- How many bytes of sound text are before a cursor; one past an end, or none
-- at all, is at the end. Clients write numbers as they like: 3.0, -1e20.
function cursor.bytes(text, points)
  points = type(points) ~= "number" and math.maxinteger
    or math.tointeger(points // 1)
    or points < 0 and 0 or math.maxinteger
  if points <= 0 then return 0 end
  if points >= #text then points = math.min(points, utf8.len(text)) end
  local at = utf8.offset(text, points + 1)
  return at and at - 1 or #text
end

--- The cursor behind that many bytes of sound text.
function cursor.points(text, bytes)
  return utf8.len(text:sub(1, bytes)) or bytes
end

--- The last line of a text.
function cursor.last_line(text)
  return text:match "^.*\n([^\n]*)$" or text
end

return cursor
