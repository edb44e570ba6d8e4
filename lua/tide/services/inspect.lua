--- services/inspect.lua - service "inspect": what is the thing at the cursor?
--
-- The word at the cursor; where it says nothing, the function whose call the
-- cursor is in. Detail 0 gives the call, the text and what a value is; detail 1
-- adds the source, and for ops attributes, dtypes, shape rule and gradient.
-- SPDX-License-Identifier: Apache-2.0

local json = require "tide.base.json"
local html = require "tide.show.html"
local cell = require "tide.console.cell"
local cursor = require "tide.console.cursor"
local describe = require "tide.assist.describe"
local escapes = require "tide.console.escapes"
local infer = require "tide.assist.infer"
local keywords = require "tide.assist.keywords"
local options = require "tide.assist.options"
local parse = require "tide.assist.parse"
local within = require "tide.assist.within"

-- ---- finding --------------------------------------------------------------

-- The text of the words i..j as it stands.
local function between(source, i, j)
  return source.text:sub(source.starts[i], source.stops[j])
end

-- The page of the expression that ends with word n.
local function of_expression(source, n)
  local thing, i = infer.ending(source, n)
  if not thing then return nil end
  local label = between(source, i, n):gsub("%s+", " ")
  if #label > 60 then label = source.words[n] end
  return describe.thing(thing, label, source)
end

-- The page of an option's name, in a call.
local function of_option(source, n)
  local brackets = source:brackets()
  if not brackets[1] or brackets[1].first ~= n then return nil end
  local call = brackets[1].open == "{" and options.call(source, brackets, 1)
  local option = call and call.name
    and options.find(call.name, source.words[n])
  if not option then return nil end
  return {head = ("%s: %s"):format(option.name, options.text(option)),
          text = "An option of " .. call.name .. ".", rows = {}}
end

local function of_word(source)
  local n = source.n
  local kind = source.kinds[n]
  if source.stops[n] ~= #source.text then return nil end
  if kind == "keyword" then return keywords.page(source.words[n]) end
  if kind ~= "name" then return nil end
  return of_option(source, n) or of_expression(source, n)
end

-- The page of the node that a string at the cursor names.
local function of_string(source, after)
  local graph, name = within.node(source)
  if not graph then return nil end
  return describe.node(graph, name .. after:match "^[%w_]*([%w_/.]*)")
end

-- The page of the function whose call is open.
local function of_call(source)
  for _, frame in ipairs(source:brackets()) do
    local page = frame.callee and of_expression(source, frame.callee)
    if page then return page end
  end
end

local function page_at(text, after)
  local rest = after:match "^[%w_]*"
  local escape = escapes.page(text .. rest)
  if escape then return escape end
  local source = parse.read(escapes.lua(text .. rest), false)
  source.env, source.after = cell.env, after:sub(#rest + 1)
  if source.n == 0 then return nil end
  return of_string(source, after) or of_word(source)
    or escapes.help_page(text .. rest) or of_call(source)
end

-- ---- showing --------------------------------------------------------------

local BOLD, FAINT, PLAIN = "\27[1m", "\27[2m", "\27[0m"

local function plain_text(page, detail)
  local lines = {BOLD .. page.head .. PLAIN}
  local function add(text)
    if text and text ~= "" then lines[#lines + 1] = text end
  end
  add(page.text)
  for _, row in ipairs(page.rows) do
    if row[2] and row[2] ~= "" then
      add(("%s%s:%s %s"):format(FAINT, row[1], PLAIN, row[2]))
    end
  end
  if page.origin then add(FAINT .. "defined in " .. PLAIN .. page.origin) end
  if detail > 0 then
    add(page.facts and "\n" .. table.concat(page.facts, "\n"))
    add(page.source and "\n" .. page.source)
  end
  add(page.example and page.example ~= "" and "\n" .. page.example)
  return table.concat(lines, "\n")
end

local function markup(page, detail)
  local parts = {html.tag("pre", nil, html.tag("b", nil,
                                               html.escape(page.head)))}
  local function add(text) parts[#parts + 1] = text end
  for text in ((page.text or "") .. "\n\n"):gmatch "(.-)\n\n" do
    if text ~= "" then
      add(html.tag("p", {style = "white-space: pre-line"}, html.escape(text)))
    end
  end
  local rows = {table.unpack(page.rows)}
  if page.origin then rows[#rows + 1] = {"defined in", page.origin} end
  if #rows > 0 then add(html.card("", rows)) end
  if detail > 0 then
    if page.facts then add(html.pre(table.concat(page.facts, "\n"))) end
    if page.source then add(html.pre(page.source)) end
  end
  if page.example and page.example ~= "" then add(html.pre(page.example)) end
  return table.concat(parts)
end

--- {found =, data =, metadata =} of request.code at request.cursor_pos, for
-- request.detail_level.
return function(request)
  local text = cursor.sound(type(request.code) == "string" and request.code
                            or "")
  local at = cursor.bytes(text, request.cursor_pos)
  local detail = math.tointeger(request.detail_level) or 0
  local ok, page = pcall(page_at, text:sub(1, at), text:sub(at + 1))
  local found = ok and page ~= nil
  return {status = "ok", found = found,
          metadata = json.object{tide_problem = not ok and tostring(page)
                                 or nil},
          data = json.object(found and {
            ["text/plain"] = plain_text(page, detail),
            ["text/html"] = markup(page, detail)} or {})}
end
