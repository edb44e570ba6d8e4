-- markup.lua - checks that HTML and SVG are well-formed and safe.
-- SPDX-License-Identifier: Apache-2.0

local markup = {}

local entity = {lt = true, gt = true, amp = true, quot = true, ["#39"] = true}

local function check_text(text)
  assert(not text:find ">", "a bare > in: " .. text:sub(1, 80))
  for name in text:gmatch "&([^;]*;?)" do
    assert(name:sub(-1) == ";" and entity[name:sub(1, -2)],
           "a bare & in: " .. text:sub(1, 80))
  end
end

local function check_attributes(text)
  local rest = text:gsub('%s+[%w:-]+="([^"<]*)"', function(value)
    check_text(value:gsub(">", ""))
    return ""
  end)
  assert(not rest:find "%S", "wrong attributes: " .. text:sub(1, 80))
end

--- Raises unless `text` is well-formed: every element closed in its order,
-- attributes quoted, nothing bare, UTF-8 of XML's characters; and unless it is
-- free of scripts, handlers and references to elsewhere.
function markup.check(text)
  assert(utf8.len(text), "not UTF-8")
  assert(not text:find "[%z\1-\8\11\12\14-\31]", "a control character")
  local stack, at = {}, 1
  while true do
    local open = text:find("<", at, true)
    check_text(text:sub(at, (open or #text + 1) - 1))
    if not open then break end
    local slash, name, attributes, empty, stop = text:match(
      "^<(/?)([%w]+)([^<>]-)(/?)>()", open)
    assert(name, "no element at: " .. text:sub(open, open + 80))
    if slash == "/" then
      local top = table.remove(stack)
      assert(top == name, ("</%s> closes <%s>"):format(name, tostring(top)))
    else
      check_attributes(attributes)
      if empty == "" then stack[#stack + 1] = name end
    end
    at = stop
  end
  assert(#stack == 0, "not closed: " .. table.concat(stack, " "))
  markup.check_safe(text)
  return text
end

--- Raises for scripts, handlers, and what is fetched from elsewhere.
function markup.check_safe(text)
  local low = text:lower()
  assert(not low:find "<script" and not low:find "javascript:", "a script")
  assert(not low:find "%son%w+=", "a handler")
  for url in low:gmatch '[%w]+="(https?://[^"]*)"' do
    assert(url == "http://www.w3.org/2000/svg", "a reference to " .. url)
  end
  assert(not low:find "url%(", "a reference by url()")
end

local digits = {}
for i = 1, 64 do
  digits[("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    :sub(i, i)] = i - 1
end

--- The bytes of base64 text.
function markup.decode(text)
  assert(#text % 4 == 0, "base64 comes in fours")
  local padding = #text:match "=*$"
  local out = {}
  for i = 1, #text, 4 do
    local n = 0
    for k = i, i + 3 do
      n = n << 6 | (digits[text:sub(k, k)] or 0)
    end
    out[#out + 1] = string.char(n >> 16, n >> 8 & 255, n & 255)
  end
  return table.concat(out):sub(1, -1 - padding)
end

--- Checks HTML and all drawings in it; gives these, as text, in order.
function markup.drawings(text)
  markup.check(text)
  local list = {}
  for data in text:gmatch 'src="data:image/svg%+xml;base64,([^"]*)"' do
    list[#list + 1] = markup.check(markup.decode(data))
  end
  for data in text:gmatch 'src="data:image/png;base64,([^"]*)"' do
    assert(markup.decode(data):sub(1, 8) == "\137PNG\r\n\26\n", "no PNG")
  end
  return list
end

return markup
