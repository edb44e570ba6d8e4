--- console/cell.lua - the text of a cell as a chunk to run.
--
-- A cell is Lua with three liberties: its last statement may be an expression,
-- whose values are the result (a semicolon after it hides them); lines may be
-- commands (%time, !ls, ?name); and what is `local` at its top level is seen by
-- later cells. For the last, `local` is cut from such statements, and the cells
-- run in an environment of their own: these names live in it, all others are
-- the true globals that modules see too. Lines stay where they are.
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"
local sources = require "tide.console.sources"
local syntax = require "tide.console.syntax"

local cell = {}

-- ---- the environment --------------------------------------------------------

local globals = _G
local declared = {} -- names that were local in a cell
local absent = {}   -- of these, nil while there is a global of that name
local meta = {__index = globals}

--- The environment of cells. Raw in it: names that were `local`, _, Out, ...
cell.env = setmetatable({}, meta)

--- Names in cell.env that nobody typed.
cell.hidden = {}

local function find(_, name)
  if absent[name] then return nil end
  return globals[name]
end

-- Only the names that a cell declared are kept apart from the globals.
function meta.__newindex(env, name, value)
  if not declared[name] then
    globals[name] = value
  elseif value ~= nil then
    rawset(env, name, value)
  else
    cell.env.__absent(name)
  end
end

--- Puts a name into cell.env that the user did not make.
function cell.provide(name, value)
  cell.hidden[name] = true
  rawset(cell.env, name, value)
end

-- Makes names nil, whatever globals are called so.
cell.provide("__absent", function(...)
  for _, name in ipairs{...} do
    rawset(cell.env, name, nil)
    absent[name] = globals[name] ~= nil
    if absent[name] then meta.__index = find end
  end
end)

--- Names that were `local` in a cell and have values: a sorted list.
function cell.names()
  local list = {}
  for name in pairs(cell.env) do
    if declared[name] then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

--- Forgets the names that were `local`.
function cell.reset()
  for name in pairs(declared) do rawset(cell.env, name, nil) end
  declared, absent, meta.__index = {}, {}, globals
end

-- In front of a cell's result: no tail call, so that its line stays known.
cell.provide("__values", function(...) return ... end)

-- ---- commands ---------------------------------------------------------------

local opening = {["("] = 1, ["["] = 1, ["{"] = 1,
                 [")"] = -1, ["]"] = -1, ["}"] = -1}

local LONGEST_NAME = 200 -- bytes of a line that asks for help

-- The text up to its last character that is no space.
local function trimmed(text) return text:match "^.*%S" or "" end

-- What the line asks for: the command and its text; nil where it is Lua.
local function command_of(line)
  if #line <= LONGEST_NAME then
    local mark, text = line:match "^%s*(%?%??)%s*([^%s?]*)%s*$"
    if not mark then
      text, mark = line:match "^%s*([%a_][%w_.:]*)(%?%??)%s*$"
    end
    if mark then return mark == "?" and "help" or "source", text end
  end
  local shell = line:match "^%s*!(.*)$"
  if shell then return "shell", shell end
  local name, text = line:match "^%s*%%(%a[%w_]*)%s*(.*)$"
  return name, text and trimmed(text)
end

-- Goes on to the line of `code` in which byte `at` is, and reads it: `name` and
-- `text` of the command that it may be.
local function go_to(line, code, at)
  if at <= line.to then return end
  repeat
    line.from = line.to + 1
    line.to = code:find("\n", line.from, true) or #code + 1
  until at <= line.to
  line.name, line.text = command_of(code:sub(line.from, line.to - 1))
end

local operands = {name = true, number = true, string = true}

-- Behind an operand, % is the remainder, unless it is a command that there is.
local function is_operator(name, kind, word)
  return not package.preload["tide.commands." .. name]
    and (operands[kind] or word == ")" or word == "]" or word == "}")
end

-- The commands of `code`, {from, to, name, text}, in order: lines that begin
-- with a mark outside of brackets, strings and comments. What is in their lines
-- is not read as Lua.
local function find_commands(code)
  local list, line, depth, at = {}, {from = 1, to = 0}, 0, 1
  local before, last = nil, nil -- the word before: its kind, itself
  while true do
    local kind, start, stop = frontend.word(code, at)
    if kind == "end" then return list end
    local word = code:sub(start, stop)
    if kind == "symbol" then depth = depth + (opening[word] or 0) end
    local mark = depth <= 0
      and (word == "%" or kind == "broken" and word:find "^[?!]")
    if mark then go_to(line, code, start) end
    at = stop + 1
    if mark and line.name and not is_operator(line.name, before, last) then
      list[#list + 1] = {line.from, line.to - 1, line.name, line.text}
      depth, before, at = 0, nil, math.max(line.to, at)
    elseif kind ~= "comment" then
      before, last = kind, word
    end
  end
end

local function apply(code, edits)
  local parts, at = {}, 1
  for _, e in ipairs(edits) do
    parts[#parts + 1] = code:sub(at, e[1] - 1)
    parts[#parts + 1] = e[3]
    at = e[2] + 1
  end
  parts[#parts + 1] = code:sub(at)
  return table.concat(parts)
end

--- `code` with its command lines as calls.
function cell.with_commands(code)
  if not code:find "[%%!?]" then return code end
  local edits, line, at = {}, 1, 1
  for k, c in ipairs(find_commands(code)) do
    line = line + select(2, code:sub(at, c[1] - 1):gsub("\n", ""))
    at = c[1]
    edits[k] = {c[1], c[2], ("__command(%q, %q, %d)"):format(c[3], c[4], line)}
  end
  return apply(code, edits)
end

--- Command, text, body and the body's first line of a cell that begins with
-- %%name; nil for others.
function cell.cell_command(code)
  local space, name, text, rest =
    code:match "^(%s*)%%%%(%a[%w_]*)[ \t]*([^\n]*)(.*)$"
  if not name then return nil end
  return name, trimmed(text), rest:sub(2), select(2, space:gsub("\n", "")) + 2
end

-- ---- from a cell to Lua -----------------------------------------------------

local function is_promoted(s)
  if not s.names then return false end
  for _, n in ipairs(s.names) do
    local plain = n.attrib == nil or n.attrib == "const"
    if not plain or n.name == "_ENV" then return false end
  end
  return true
end

local function blank(n) return (" "):rep(n) end

-- Replacements {from, to, text} for one `local` statement.
local function promote(edits, s)
  if not s.values then
    local list = {}
    for i, n in ipairs(s.names) do list[i] = '"' .. n.name .. '"' end
    local call = "__absent(" .. table.concat(list, ", ") .. ")"
    local _, lines = s.text:gsub("\n", "")
    edits[#edits + 1] = {s.start, s.stop, call .. ("\n"):rep(lines)}
    return
  end
  edits[#edits + 1] = {s.start, s.start + 4, blank(5)}
  for _, n in ipairs(s.names) do
    if n.attrib then
      edits[#edits + 1] = {n.start, n.stop, blank(n.stop - n.start + 1)}
    end
  end
end

local results = {call = true, place = true, value = true, list = true}

-- The Lua of a cell's statements, and the names it declares.
local function rewrite(code, list)
  local edits, names = {}, {}
  for _, s in ipairs(list) do
    if is_promoted(s) then
      s.text = code:sub(s.start, s.stop)
      promote(edits, s)
      for _, n in ipairs(s.names) do names[#names + 1] = n.name end
    end
  end
  local last = list[#list]
  if last and results[last.kind] then
    edits[#edits + 1] = {last.start, last.start - 1, "return __values("}
    edits[#edits + 1] = {last.stop + 1, last.stop, ")"}
  end
  return apply(code, edits), names
end

-- load; its message is a text also where a stack was exhausted, which
-- frontend.protected sees first.
local function load_text(code, name)
  local chunk, why = load(code, name, "t", cell.env)
  if type(why) == "table" then why = tostring(why[1]) end
  return chunk, why
end

-- Why it is no Lua. An expression that is cut off is judged as one.
local function complain(code, name, wrong)
  if not wrong.assigns then
    code = code:sub(1, wrong.statement - 1) .. "return "
      .. code:sub(wrong.statement)
  end
  local chunk, why = load_text(code, name)
  if chunk then why = name:sub(2) .. ": nested too deeply" end
  return nil, why
end

-- The chunk of Lua with commands, whether its result is hidden, the names it
-- declares; nil, the message, and true when more text could make it Lua.
local function compile(code, name)
  local list, wrong = syntax.parse(code)
  if not list then
    local _, why = complain(code, name, wrong)
    return nil, why, wrong.kind == "end" or wrong.kind == "open"
  end
  local lua, names = rewrite(code, list)
  local chunk, why = load_text(lua, name)
  if not chunk then return nil, why end
  local last = list[#list]
  return chunk, last and last.semicolon or false, names
end

--- Is `code` a cell? Its chunk; or nil, why not, and true when more text could
-- make it one.
function cell.check(code)
  return compile(cell.with_commands(code), "=cell")
end

--- The chunk of `code`, named name ("=In[3]"), whose results are its values,
-- and whether they are hidden; nil and the message where it is no Lua. `at` is
-- the number of its first line (1).
function cell.load(code, name, at)
  local command, text, body, from = cell.cell_command(code)
  if command then
    return function()
      return cell.env.__command(command, text, from, body, name)
    end
  end
  code = cell.with_commands(("\n"):rep((at or 1) - 1) .. code)
  local chunk, hidden, names = compile(code, name)
  if not chunk then return nil, hidden end
  for _, n in ipairs(names) do declared[n] = true end
  return chunk, hidden
end

--- The same for a cell that is run: its source is kept.
function cell.open(code, name)
  sources.keep(name:sub(2), code)
  return cell.load(code, name)
end

return cell
