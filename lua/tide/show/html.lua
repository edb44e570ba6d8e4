--- show/html.lua - pieces of HTML and SVG, well-formed whatever is in them.
--
-- What is written here shows in an untrusted notebook, in nbconvert and on
-- GitHub: no script, nothing fetched from elsewhere, pictures as data inside of
-- an <img>, folding by <details>.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local json = require "tide.base.json"

local html = {}

local entities = {["<"] = "&lt;", [">"] = "&gt;", ["&"] = "&amp;",
                  ['"'] = "&quot;", ["'"] = "&#39;"}

--- Any text as the content of an element or attribute: what is not UTF-8, and
-- characters that XML does not have, become U+FFFD.
function html.escape(s)
  s = tostring(s)
  if s:find "[^\n\t -%%'-;=?-~]" then
    s = json.utf8(s):gsub("[%z\1-\8\11-\31]", "\u{FFFD}")
    s = s:gsub("\u{FFFE}", "\u{FFFD}"):gsub("\u{FFFF}", "\u{FFFD}")
  end
  return (s:gsub("[<>&\"']", entities))
end

--- The first n characters of s, with … where it was longer.
function html.cut(s, n)
  s = json.utf8(s)
  local stop = utf8.offset(s, n + 1)
  if not stop or stop > #s then return s end
  return s:sub(1, utf8.offset(s, n) - 1) .. "…"
end

--- ' name="value"' of each of the table, sorted; false leaves one out.
function html.attributes(t)
  local names, parts = {}, {}
  for name, value in pairs(t) do
    if value then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do
    parts[i] = (' %s="%s"'):format(name, html.escape(t[name]))
  end
  return table.concat(parts)
end

--- An element; `inner` is markup already, nil for an empty element.
function html.tag(name, attributes, inner)
  local open = "<" .. name .. html.attributes(attributes or {})
  if not inner then return open .. "/>" end
  return ("%s>%s</%s>"):format(open, inner, name)
end

--- A picture as an <img> that holds its data.
-- @param mime "image/svg+xml" or "image/png"
-- @param o alt, width, height
function html.image(mime, bytes, o)
  return html.tag("img", {src = ("data:%s;base64,%s"):format(mime,
    core.base64(bytes)), alt = o.alt or "", width = o.width,
    height = o.height})
end

--- What opens: a line that is always there, and what is behind it.
function html.fold(summary, inner, open)
  return ("<details%s><summary>%s</summary>%s</details>"):format(
    open and ' open="open"' or "", summary, inner)
end

--- A title and rows {name, text} as a small table; rows without text left out.
function html.card(title, rows)
  local lines = {}
  for _, row in ipairs(rows) do
    if row[2] and row[2] ~= "" then
      lines[#lines + 1] = ("<tr><td style=\"text-align: left\">%s</td>"
        .. "<td style=\"text-align: left\"><code>%s</code></td></tr>"):format(
        html.escape(row[1]), html.escape(row[2]))
    end
  end
  return ("<div><b>%s</b><table>%s</table></div>"):format(html.escape(title),
    table.concat(lines))
end

--- Preformatted text.
function html.pre(text)
  return "<pre>" .. html.escape(text) .. "</pre>"
end

return html
