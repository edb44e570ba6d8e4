--- assist/describe.lua - what is to be said of a thing: a page.
--
-- A page has a head (one line), text, rows {name, value}, an example, the
-- place where it is defined and its source; any may be missing. Values are
-- shown by a few elements, so that nothing large is walked.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local functions = require "tide.help.functions"
local graph = require "tide.graph.graph"
local help = require "tide.help.help"
local known = require "tide.assist.known"
local library = require "tide.help.lua_library"
local members = require "tide.assist.members"
local reference = require "tide.help.reference"
local dtypes = require "tide.tensor.dtype"
local shapes = require "tide.tensor.shape"
local sources = require "tide.console.sources"
local style = require "tide.show.style"
local value = require "tide.show.value"
local td = require "tide"

local describe = {}

-- So many characters of a text, fields of a table, lines of a source.
local MOST_TEXT, MOST_FIELDS, MOST_LINES = 400, 20, 200

local function cut(text, most)
  text = tostring(text)
  if #text <= most then return text end
  local stop = utf8.len(text) and utf8.offset(text, 0, most) or most + 1
  return text:sub(1, stop - 1) .. "..."
end

-- A simple value as Lua reads it, anything else in a few words.
local function literal(x)
  if type(x) == "string" then return value.quote(x, 60) end
  if type(x) == "number" or type(x) == "boolean" then return tostring(x) end
  if known.is_shape(x) then return shapes.text(x) end
  return members.brief{value = x} or "nil"
end

-- ---- functions ------------------------------------------------------------

-- The comment right above line `at` of a source, without its dashes.
local function comment_above(source, at)
  local lines = sources.lines(source, math.max(1, at - 40), at - 1) or {}
  local text = {}
  for i = #lines, 1, -1 do
    local line = lines[i]:match "^%s*%-%-+ ?(.*)$"
    if not line then break end
    table.insert(text, 1, line)
  end
  return table.concat(text, "\n")
end

-- A function that is written in Lua, somewhere.
local function of_function(f, label)
  local info = debug.getinfo(f, "S")
  local page = {head = label .. members.signature{value = f}, rows = {}}
  if info.what == "C" then
    page.text = "A function written in C."
    return page
  end
  page.origin = ("%s:%d"):format(info.short_src, info.linedefined)
  page.text = comment_above(info.source, info.linedefined)
  local stop = math.min(info.lastlinedefined, info.linedefined + MOST_LINES)
  local lines = sources.lines(info.source, info.linedefined, stop)
  page.source = lines and table.concat(lines, "\n")
  return page
end

-- The comment in a text that ends on the line above word i.
local function comment_before(parse, i)
  local lines, start = {}, parse.starts[i]
  local list = parse.comments[i - 1] or {}
  for k = #list, 1, -1 do
    local from, to = list[k][1], list[k][2]
    if not parse.text:sub(to + 1, start - 1):find "^\n[ \t]*$" then break end
    table.insert(lines, 1, (parse.text:sub(from, to):gsub("^%-+ ?", "")))
    start = from
  end
  return table.concat(lines, "\n")
end

-- A function that stands in the text.
local function of_text(thing, label)
  local parse, i = thing.parse, thing.at
  local first = parse.words[i - 1] == "local" and i - 1 or i
  return {head = label .. members.signature(thing), rows = {},
          text = comment_before(parse, first),
          source = parse.text:sub(parse.starts[first],
                                  parse.stops[parse.match[i] or parse.n])}
end

--- What is known of a function of Tide or of Lua by its public name; nil when
-- there is nothing.
function describe.name(name)
  local row, info = known.row(name), functions.op(name)
  local head = functions.head(name)
  if row then
    return {head = head, text = help.plain(row.text), rows = {},
            example = row.usage ~= "" and row.usage
              or info and info.example or "",
            facts = info and help.facts(info) or nil}
  end
  if info then
    return {head = head, text = info.doc, example = info.example,
            facts = help.facts(info), rows = {}}
  end
  return head and {head = head, text = library.find(name).text, rows = {}}
end

-- ---- Tide's objects -------------------------------------------------------

local pages = {}

local function preview(x)
  local ok, text = pcall(tostring, x)
  return ok and cut(text:gsub("^%S+ %b{} ?", ""), MOST_TEXT) or nil
end

local function type_of(x)
  return ("%s %s"):format(x.dtype, shapes.text(x.shape))
end

function pages.tensor(x)
  return {head = "tensor " .. type_of(x), text = preview(x),
          rows = {{"size", x.size .. " elements"}}}
end

local function names_of(list)
  local names = {}
  for i, each in ipairs(list) do
    if i > 8 then
      names[i] = ("... %d in all"):format(#list)
      break
    end
    names[i] = each and each.name or "?"
  end
  return table.concat(names, ", ")
end

-- What is known of a node.
local function node_rows(op)
  return {{"op", ("%s \"%s\""):format(op.type, op.name)},
          {"inputs", names_of(op.inputs)}, {"made at", op.origin},
          {"device", op.device ~= "" and op.device or "not asked for"}}
end

function pages.edge(x)
  local info = core.op_info(x.op)
  return {head = ("graph tensor \"%s\" %s"):format(x.name, type_of(x)),
          text = info and info.doc, rows = node_rows(x.op),
          facts = info and help.facts(info)}
end

function pages.op(op)
  local info = core.op_info(op)
  local rows = node_rows(op)
  for name, x in pairs(op.attr) do rows[#rows + 1] = {name, literal(x)} end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return {head = ("op \"%s\" %s"):format(op.name, op.type),
          text = info and info.doc, rows = rows,
          facts = info and help.facts(info)}
end

function pages.variable(v)
  local n, size = v.size, dtypes.size(v.dtype)
  return {head = ("variable \"%s\" %s"):format(v.name, type_of(v)),
          rows = {{"bytes", n and n >= 0 and size and style.bytes(n * size)
                            or "known when it has a value"},
                  {"trainable", tostring(v.trainable)},
                  {"begins as", v.initial_value.op.type},
                  {"made at", v.origin},
                  {"device", v.device ~= "" and v.device or "not asked for"}}}
end

function pages.graph(g)
  local state = graph.state(g)
  return {head = ("graph of %d nodes"):format(g:size()),
          rows = {{"variables", tostring(#(state.collections.variables or {}))},
                  {"seed", tostring(g:get_seed() or "none")},
                  {"default", tostring(rawequal(core.graph(), g))}}}
end

function pages.session(s)
  local ok, stats = pcall(s.stats, s)
  return {head = tostring(s), rows = ok and {
            {"steps run", tostring(stats.steps)},
            {"steps planned", tostring(stats.plans)}} or {}}
end

-- ---- other values ---------------------------------------------------------

local function of_table(x)
  local n, names = 0, {}
  for key, each in next, x do
    n = n + 1
    if n > MOST_FIELDS then break end
    names[n] = ("%s: %s"):format(literal(key), members.brief{value = each})
  end
  table.sort(names)
  local meta = debug.getmetatable(x)
  local name = meta and rawget(meta, "__name")
  local length = rawlen(x)
  return {head = (type(name) == "string" and cut(name, 60) or "table")
            .. (length > 0 and (", a list of %d"):format(length) or ""),
          text = table.concat(names, "\n")
            .. (n > MOST_FIELDS and "\n..." or ""), rows = {}}
end

local function of_module(thing)
  local name = thing.module == "" and "td" or "td." .. thing.module
  local file = getmetatable(td).__modules[thing.module]
  local text = reference.about(thing.module == "" and "init"
                               or file and file:sub(6) or "namespaces")
  return {head = name .. ", a module", text = text, rows = {}}
end

-- Of a value that is no function.
local function of_value(thing)
  local x = thing.value
  local kind = thing.is == "W:" and "variable" or core.kind(x)
  if pages[kind] then return pages[kind](x) end
  if known.is_shape(x) then
    return {head = "shape " .. shapes.text(x), rows = {}}
  end
  if type(x) == "table" then return of_table(x) end
  if type(x) == "string" then
    return {head = ("string of %d bytes"):format(#x),
            text = value.quote(x, MOST_TEXT),
            rows = {}}
  end
  local what = math.type(x) or type(x)
  local plain = type(x) == "number" or type(x) == "boolean" or x == nil
  return {head = what .. (plain and " " .. tostring(x) or ""), rows = {}}
end

--- The page of a thing, or nil. `label` is how it stands in the text.
function describe.thing(thing, label)
  if thing.name then
    local page = describe.name(thing.name)
    if page then return page end
  end
  local x = thing.value
  if type(x) == "function" then
    local name = functions.name(x)
    return name and describe.name(name) or of_function(x, label)
  end
  if x ~= nil then
    if thing.module then return of_module(thing) end
    local page = of_value(thing)
    page.head = label .. ": " .. page.head
    return page
  end
  if thing.is == "module" then return of_module(thing) end
  if thing.is == "function" and thing.parse then
    return of_text(thing, label)
  end
  local word = known.words[thing.is]
  return word and {head = ("%s: %s"):format(label, word), rows = {}}
end

--- The page of a node of a graph by its name, or nil.
function describe.node(g, name)
  local op = g:find(name:match "^%^?([^:]*)")
  return op and pages.op(op)
end

return describe
