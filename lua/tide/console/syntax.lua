--- console/syntax.lua - the statements of Lua source, without running it.
--
-- Lua 5.4's grammar (manual, section 9) by recursive descent, as far as it says
-- where statements begin and end; precedence and meaning are left to `load`,
-- which judges in the end. Besides Lua's own, the last statement may be a list
-- of expressions: the result of a cell. What is not whole is refused here, and
-- the place told; completion, which must make sense of it, has parse.lua.
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"

local syntax = {}

local DEEPEST = 400 -- Lua itself gives up at 200

-- ---- words ------------------------------------------------------------------

-- Goes to the next word that is no comment.
local function advance(p)
  local words, at = p.words, p.at
  p.last = p.stop
  repeat at = at + 3 until words[at] ~= "comment"
  p.at = at
  p.kind = words[at] or "end"
  p.start = words[at + 1] or #p.text + 1
  p.stop = words[at + 2] or #p.text
  p.word = p.text:sub(p.start, p.stop)
end

local function fail(p)
  error({syntax = true, at = p.start, kind = p.kind, statement = p.statement,
         assigns = p.assigns}, 0)
end

-- Is the current word this symbol or keyword?
local function is(p, word)
  return p.word == word and (p.kind == "symbol" or p.kind == "keyword")
end

local function take(p, word)
  if not is(p, word) then return false end
  advance(p)
  return true
end

local function need(p, word)
  if not take(p, word) then fail(p) end
end

local function name(p)
  if p.kind ~= "name" then fail(p) end
  local word = p.word
  advance(p)
  return word
end

-- f(p) one level deeper.
local function deeper(p, f)
  p.depth = p.depth + 1
  if p.depth > DEEPEST then fail(p) end
  local result = f(p)
  p.depth = p.depth - 1
  return result
end

-- ---- expressions ------------------------------------------------------------

local unary = {["-"] = true, ["#"] = true, ["~"] = true, ["not"] = true}
local binary = {["and"] = true, ["or"] = true, [".."] = true}
for op in ("+ - * / // % ^ & | ~ << >> == ~= < <= > >="):gmatch "%S+" do
  binary[op] = true
end
local constants = {["nil"] = true, ["true"] = true, ["false"] = true,
                   ["..."] = true}

local block, expression

local function expressions(p)
  local kind = deeper(p, expression)
  while take(p, ",") do
    deeper(p, expression)
    kind = "list"
  end
  return kind
end

local function fields(p)
  need(p, "{")
  while not is(p, "}") do
    if take(p, "[") then
      deeper(p, expression)
      need(p, "]")
      need(p, "=")
      deeper(p, expression)
    else
      deeper(p, expression)
      if take(p, "=") then deeper(p, expression) end
    end
    if not take(p, ",") and not take(p, ";") and not is(p, "}") then fail(p) end
  end
  need(p, "}")
end

-- From the parameters to `end`.
local function body(p)
  need(p, "(")
  if not is(p, ")") then
    repeat
      if take(p, "...") then break end
      name(p)
    until not take(p, ",")
  end
  need(p, ")")
  deeper(p, block)
  need(p, "end")
end

local function arguments(p)
  if p.kind == "string" then return advance(p) end
  if is(p, "{") then return fields(p) end
  need(p, "(")
  if not is(p, ")") then expressions(p) end
  need(p, ")")
end

-- What follows a name or a parenthesis: "call" when that ends with arguments.
local function suffixes(p)
  local kind = "place"
  while true do
    if take(p, ".") then
      name(p)
      kind = "place"
    elseif take(p, "[") then
      deeper(p, expression)
      need(p, "]")
      kind = "place"
    elseif take(p, ":") then
      name(p)
      arguments(p)
      kind = "call"
    elseif is(p, "(") or is(p, "{") or p.kind == "string" then
      arguments(p)
      kind = "call"
    else
      return kind
    end
  end
end

local function operand(p)
  if p.kind == "name" then
    advance(p)
    return suffixes(p)
  elseif take(p, "(") then
    deeper(p, expression)
    need(p, ")")
    return suffixes(p)
  elseif p.kind == "string" or p.kind == "number"
         or constants[p.word] and (p.kind == "keyword" or p.kind == "symbol")
  then
    advance(p)
  elseif is(p, "{") then
    deeper(p, fields)
  elseif take(p, "function") then
    body(p)
  else
    fail(p)
  end
  return "value"
end

-- "place" (what can be assigned to), "call" or "value".
function expression(p)
  local kind
  repeat
    local signs = false
    while unary[p.word] and p.kind ~= "string" do
      advance(p)
      signs = true
    end
    local one = operand(p)
    kind = (kind or signs) and "value" or one
    local more = binary[p.word] and p.kind ~= "string"
    if more then advance(p) end
  until not more
  return kind
end

-- ---- statements -------------------------------------------------------------

local statements = {}

statements["if"] = function(p)
  repeat
    expression(p)
    need(p, "then")
    block(p)
  until not take(p, "elseif")
  if take(p, "else") then block(p) end
  need(p, "end")
end

statements["while"] = function(p)
  expression(p)
  need(p, "do")
  block(p)
  need(p, "end")
end

statements["do"] = function(p)
  block(p)
  need(p, "end")
end

statements["for"] = function(p)
  name(p)
  if not take(p, "=") then
    while take(p, ",") do name(p) end
    need(p, "in")
  end
  expressions(p)
  need(p, "do")
  block(p)
  need(p, "end")
end

statements["repeat"] = function(p)
  block(p)
  need(p, "until")
  expression(p)
end

statements["function"] = function(p)
  name(p)
  while take(p, ".") do name(p) end
  if take(p, ":") then name(p) end
  body(p)
end

statements["local"] = function(p, s)
  if take(p, "function") then
    s.names = {{name = name(p)}}
    s.values = true
    return body(p)
  end
  s.names = {}
  repeat
    local n = {name = name(p), start = p.start}
    if take(p, "<") then
      n.attrib = name(p)
      need(p, ">")
      n.stop = p.last
    end
    s.names[#s.names + 1] = n
  until not take(p, ",")
  s.values = take(p, "=")
  if s.values then expressions(p) end
end

statements["return"] = function(p)
  if p.kind ~= "end" and not is(p, ";") and not is(p, "end")
     and not is(p, "else") and not is(p, "elseif") and not is(p, "until") then
    expressions(p)
  end
end

statements["goto"] = function(p) name(p) end
statements["break"] = function() end

statements["::"] = function(p)
  name(p)
  need(p, "::")
end

-- An assignment, a call or, for the last of a cell, expressions.
local function plain(p, s)
  s.kind = expressions(p)
  if is(p, "=") and s.kind ~= "call" and s.kind ~= "value" then
    p.assigns = true
    advance(p)
    expressions(p)
    s.kind = "assignment"
  end
end

local function statement(p)
  local s = {start = p.start, kind = p.word}
  p.statement, p.assigns = p.start, false
  local read = (p.kind == "keyword" or p.kind == "symbol")
    and statements[p.word]
  -- A function without a name is a value.
  local at = p.at + 3
  while p.words[at] == "comment" do at = at + 3 end
  if read and not (p.word == "function" and p.words[at] == "symbol") then
    p.assigns = true
    advance(p)
    read(p, s)
  else
    plain(p, s)
  end
  s.stop = p.last
  while take(p, ";") do s.semicolon = true end
  return s
end

local closers = {["end"] = true, ["else"] = true, ["elseif"] = true,
                 ["until"] = true}
local results = {place = true, value = true, list = true}

local function ends(p)
  return p.kind == "end" or closers[p.word] and p.kind == "keyword"
end

-- Statements up to what closes the block.
function block(p)
  return deeper(p, function()
    while take(p, ";") do end
    while not ends(p) do
      local from = p.statement
      local s = statement(p)
      p.statement = from
      if results[s.kind] then fail(p) end
      if s.kind == "return" and not ends(p) then fail(p) end
    end
  end)
end

local function parse(p)
  local list = {}
  advance(p)
  while take(p, ";") do end
  while p.kind ~= "end" do
    local s = statement(p)
    list[#list + 1] = s
    if (results[s.kind] or s.kind == "return") and p.kind ~= "end" then
      fail(p)
    end
  end
  return list
end

--- The statements of `text`: {{kind =, start =, stop =, semicolon =}, ...}, in
-- bytes. kind is the keyword it begins with, or "assignment", "call", and for
-- the last one "place", "value" or "list" of expressions. A local one has names
-- ({{name =, attrib =, start =, stop =}}, the attribute's place) and values
-- (has it any?).
-- nil and {at =, kind =} of the first wrong word where it is no Lua; kind "end"
-- and "open": the text is cut off there. `statement` is where that begins which
-- is wrong, `assigns` false when it began as an expression.
function syntax.parse(text)
  local p = {text = text, words = frontend.words(text), at = -2, stop = 0,
             depth = 0}
  local ok, got = pcall(parse, p)
  if ok then return got end
  if type(got) == "table" and got.syntax then return nil, got end
  error(got, 0)
end

return syntax
