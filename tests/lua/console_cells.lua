-- console_cells.lua - from the text of cells to their values.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local syntax = require "tide.console.syntax"
local notebook = require "shared.notebook"
local bare = require "helper".bare

local tests = {}

-- ---- results ----------------------------------------------------------------

-- Cells in a row, and the text of the last one's result; false: there is none.
local cells = {
  -- what the result is
  {"1 + 1", "2"}, {"x = 1", false}, {"x = 1\nx + 1", "2"}, {"", false},
  {"-- nothing", false}, {"1;", false}, {"1; ", false}, {"1 -- one;", "1"},
  {"return 3", "3"}, {"return 3;", false}, {"1, 2", "1\t2"}, {"nil", "nil"},
  {"(function() return 1, 2 end)()", "1\t2"}, {"(1)", "1"}, {"-2^2", "-4.0"},
  {"not nil", "true"}, {"#'abc'", "3"}, {"2 .. 3", '"23"'}, {"~5", "-6"},
  {"('x'):rep(3)", '"xxx"'}, {"('x')\n:rep(\n2)", '"xx"'},
  {"function() end;", false}, {"...", false}, {"#{1,\n2,\n3}", "3"},
  {"t = {a = 5}\nt.a", "5"}, {"t = {5}\nt[1]", "5"}, {"'%d' ", '"%d"'},
  {"string.format '%%'\n;", false}, {"math.max(1,\n  2)", "2"},
  {"do x = 7 end x", "7"}, {"x = 1 x = x + 1 x", "2"}, {"::a:: 5", "5"},
  {"for i = 1, 2 do end", false}, {"if true then x = 4 end x", "4"},
  {"-- a\n--[[ b\n]] 9", "9"}, {"goto done\nx = 1\n::done::", false},
  {"(x or 1) + 1;\n", false}, {"type(print)", '"function"'},
  {"print == _G.print", "true"}, {"1 == 1.0, 1 < 2", "true\ttrue"},
  -- what `load` gives on, not what would be shown of it
  {"load(('('):rep(300))", 'nil\t"C stack overflow"'},
  {"load('return ' .. ('1 ..'):rep(300))", 'nil\t"C stack overflow"'},
  {"load(function() error('no more', 0) end)", 'nil\t"no more"'},
  {"load(function() error(math) end) == nil", "true"},
  {"select(2, load(function() error(math) end)) == math", "true"},
  -- what is local at the top
  {"local x = 5", "x", "5"}, {"local x = 5 x", "5"},
  {"local x, y = 1, 2", "x + y", "3"}, {"local x", "x", "nil"},
  {"local function f() return 8 end", "f()", "8"},
  {"local function f(n) return n < 1 and 0 or f(n - 1) end", "f(3)", "0"},
  {"local c <const> = 3", "c", "3"}, {"local c<const>, d = 3, 4", "d", "4"},
  {"local function f() return v end local v = 6 return f()", "6"},
  {"local v = 1", "local v = v + 1 v", "2"},
  {"local v = 1", "v = 10", "v", "10"}, {"local v = 1", "_G.v", "nil"},
  {"vv = 1", "_G.vv", "1"}, {"local print = 3", "print", "3"},
  {"local math = math math.pi > 3", "true"},
  {"vv = 1 local vv", "vv", "nil"}, {"local v; v = 3", "v", "3"},
  {"do local inner = 1 end", "inner", "nil"},
  {"for i = 1, 3 do local last = i end", "last", "nil"},
  {"local a, b = (function() return 1, 2 end)()", "b", "2"},
  {"local t = {\n  1,\n  2,\n}", "#t", "2"}, {"local\nq\n=\n5", "q", "5"},
  {"local n = 0 local function f() n = n + 1 return n end f() f()", "2"},
  {"local _ENV = {} z = 1", "z", "nil"},
  {"local function local_() return 1 end return local_()", "1"},
  {"closed = nil local h <close> = setmetatable({}, {__close = function() "
   .. "closed = true end}) closed", "nil"},
  {"local h <close> = setmetatable({}, {__close = function() closed = true "
   .. "end})", "closed", "true"},
  {"local h <close> = nil", "h", "nil"},
  {"g1 = load 'return g2' g2 = 5", "g1()", "5"},
  -- the names of results
  {"40 + 2", "_", "42"}, {"1", "2", "3", "_ + __ * 10 + ___ * 100", "123"},
  {"11", "Out[1]", "11"}, {"local x = 1", "In[1]", '"local x = 1"'},
  {"5;", "_", "nil"}, {"for _, x in ipairs{1} do end", "_", "nil"},
  -- lines that are commands
  {"%time 3", "3"}, {"x = 1\n%time x + 1", "2"}, {"a = 7\n  % 4\na", "3"},
  {"b = 3 a = 7\n%b\na", "1"}, {"x = [[\n%time\n]]\n#x", "6"},
  {"if true then\n  %seed 3\nend", false}, {"!true", false},
  {"!true \"it's [[\"\nx = 5\nx", "5"}, {"!true --[[\n%pwd\n7", "7"},
  {"!true )\n%seed 1\nf = {\n2 % 2}\n#f", "1"},
  {"%%time\n1 + 1", "2"}, {"\n%%time\nlocal c = 3", "c", "3"},
}

function tests.results()
  for _, row in ipairs(cells) do
    local nb <close> = notebook.open()
    local n = #row
    local said = table.concat(row, " / ", 1, n - 1)
    for i = 1, n - 1 do
      local reply = nb:run(row[i])
      lu.assertEquals(reply.status, "ok", said .. ": " .. (reply.evalue or ""))
    end
    lu.assertEquals(nb:result() or false, row[n], said)
  end
end

-- Cells that fail, and what the error says.
local wrong = {
  {"x =", "unexpected symbol near <eof>"}, {"1 +", "near <eof>"},
  {"x y", "near 'y'"}, {"\n\nend", "In[1]:3:"}, {"if x", "'then' expected"},
  {"local 5", "<name> expected near '5'"}, {"goto nowhere", "nowhere"},
  {"break", "break outside"}, {"x = 'abc", "unfinished string"},
  {"[[abc", "unfinished long string"}, {"local x <what> = 1", "what"},
  {"%frob", "no command %frob"}, {"%tim 1", "did you mean %time?"},
  {"f(", "near <eof>"}, {"return 1 x = 2", "near 'x'"},
  {"local x = 1\nx()", "In[1]:2: attempt to call"}, {"?nosuchname", "no help"},
  {("("):rep(300) .. "1" .. (")"):rep(300), "overflow"},
}

function tests.mistakes()
  for _, row in ipairs(wrong) do
    local nb <close> = notebook.open()
    local reply = nb:run(row[1])
    lu.assertEquals(reply.status, "error", row[1])
    lu.assertStrContains(reply.evalue, row[2])
    lu.assertEquals(nb:run("1 + 1").status, "ok")
  end
end

-- ---- lines ------------------------------------------------------------------

function tests.lines_stay()
  local nb <close> = notebook.open()
  nb:run("local x = 1\nlocal y\n%time local z = 3\n"
         .. "w = debug.getinfo(1).currentline")
  nb:run "w"
  lu.assertEquals(nb:result(), "4")
  local reply = nb:run("local a = 1\n\nlocal function f()\n"
                       .. "  error 'here'\nend\nf()")
  lu.assertEquals(reply.evalue, "In[3]:4: here")
  local shown = bare(table.concat(reply.traceback, "\n"))
  lu.assertStrContains(shown, "--> 4   error 'here'")
  lu.assertStrContains(shown, "--> 6 f()")
  reply = nb:run "x = 1\n%time error 'timed'"
  lu.assertEquals(reply.evalue, "In[4]:2: timed")
end

function tests.a_function_knows_its_cell()
  local nb <close> = notebook.open()
  nb:run "function where() return debug.getinfo(1, 'S').source end where()"
  lu.assertEquals(nb:result(), '"=In[1]"')
  local text = require "tide.console.sources".text "In[1]"
  lu.assertStrContains(text, "function where()")
  nb:run "td.placeholder('float32', {}).op.origin"
  lu.assertEquals(nb:result(), '"In[2]:1"')
end

-- ---- the parser -------------------------------------------------------------

-- Text, and its statements: kind and text.
local parsed = {
  {"a = 1; b()", "assignment a = 1|call b()"},
  {"local a <const>, b = f{1}", "local local a <const>, b = f{1}"},
  {"f 'x' {1}:g()", "call f 'x' {1}:g()"},
  {"a.b[c].d, x = e, f", "assignment a.b[c].d, x = e, f"},
  {"repeat local x until x y = 1", "repeat repeat local x until x|"
   .. "assignment y = 1"},
  {"if a then elseif b then else end return", "if if a then elseif b then "
   .. "else end|return return"},
  {"function a.b:c(...) return ... end", "function function a.b:c(...) return "
   .. "... end"},
  {"for k in f do goto x ::x:: end -a", "for for k in f do goto x ::x:: end|"
   .. "value -a"},
  {"x = function(a, ...) end function(b) end", "assignment x = function(a, "
   .. "...) end|value function(b) end"},
  {"a, b.c, 1", "list a, b.c, 1"}, {"a.b:c 'x'.d", "place a.b:c 'x'.d"},
}

function tests.statements()
  for _, row in ipairs(parsed) do
    local parts = {}
    for i, s in ipairs(assert(syntax.parse(row[1]))) do
      parts[i] = s.kind .. " " .. row[1]:sub(s.start, s.stop)
    end
    lu.assertEquals(table.concat(parts, "|"), row[2])
  end
end

-- What load takes, the parser takes: all of the library.
function tests.the_library_is_parsed()
  local n = 0
  for _, root in ipairs{"lua/tide", "tests/lua"} do
    local pipe <close> = assert(io.popen("find " .. root .. " -name '*.lua'"))
    for path in pipe:lines() do
      local file <close> = assert(io.open(path))
      local list, why = syntax.parse(file:read "a")
      lu.assertTrue(list ~= nil, path .. ": " .. tostring(why and why.at))
      n = n + 1
    end
  end
  lu.assertTrue(n > 100)
end

local words = {"and", "do", "else", "elseif", "end", "false", "for", "function",
  "goto", "if", "in", "local", "nil", "not", "or", "repeat", "return", "then",
  "until", "while", "x", "y", "1", "'s'", "[[l]]", "...", "..", "==", "=", "(",
  ")", "[", "]", "{", "}", ",", ";", ":", "::", ".", "+", "-", "#", "<", ">",
  "close", "const", "%", "\n", "!", "?", "%time", "[[", "--[[", "\"", "\\",
  "\xff", "é", "0x", "break"}

-- Random words neither crash nor hang the parser, and it takes no less and no
-- more than Lua, but for what cells may have beside.
function tests.soups_of_words()
  local cell = require "tide.console.cell"
  local is_complete = require "tide.services.is_complete"
  math.randomseed(7)
  for _ = 1, 2000 do
    local soup = {}
    for k = 1, math.random(1, 30) do soup[k] = words[math.random(#words)] end
    local text = table.concat(soup, " ")
    local list, why = syntax.parse(text)
    if load(text) then lu.assertTrue(list ~= nil, text) end
    lu.assertTrue(list ~= nil or why.at <= #text + 1, text)
    local chunk, message = cell.check(text)
    lu.assertTrue(chunk ~= nil or type(message) == "string", text)
    lu.assertStrContains("complete incomplete invalid",
                         is_complete{code = text}.status)
  end
end

function tests.deep_nesting_is_refused()
  for _, pair in ipairs{{"(", ")"}, {"{", "}"}, {"f(", ")"}, {"-", ""},
                        {"do ", " end"}, {"function() return ", " end"}} do
    local text = pair[1]:rep(100000) .. "1" .. pair[2]:rep(100000)
    local list = syntax.parse("x = " .. text)
    lu.assertTrue(list == nil or pair[1] == "-")
  end
end

-- ---- is that all? -----------------------------------------------------------

local unfinished = {
  {"for i = 1, 3 do", "  "}, {"for i = 1, 3 do\n  if i then", "    "},
  {"f(function()", "  "}, {"f(function()\n  x()", "  "}, {"x = {", "  "},
  {"    if a then", "      "}, {"if a then b() else", "  "}, {"x =", ""},
  {"1 +", ""}, {"x = [[", ""}, {"--[[ a", ""}, {"function f(a,", "  "},
  {"local x <", ""}, {"print('a\\", "  "}, {"repeat", "  "}, {"f(1,", "  "},
  {"%%time", ""}, {"%%time\nx = 1", ""}, {"while a", ""}, {"a.", ""},
  {"if a then\n  %time x\n", "  "}, {"x = 'a\\z  \n", ""}, {"not", ""},
}

local complete = {"", "x = 1", "x", "1 + 1", "for i = 1, 2 do end", "f()",
  "%time x", "?x", "??x.y", "x?", "!ls -l 'a", "%%time\nx\n", "%%file a\n[[\n",
  "-- a", "x = 1\nx", "local x <const> = 1", "x;", "%cd ~", "? sess:run "}

local invalid = {"x = = 1", "end", "x y z", "'abc", "f('abc\n", "1 = 2",
  "local 1", "for do", "}", "goto 1", "x = 3x", "@", "if a then end end",
  "f() = 1", "break"}

function tests.is_complete()
  local nb <close> = notebook.open()
  for _, row in ipairs(unfinished) do
    local reply = nb:call("is_complete", {code = row[1]})
    lu.assertEquals(reply, {status = "incomplete", indent = row[2]}, row[1])
  end
  for _, code in ipairs(complete) do
    lu.assertEquals(nb:call("is_complete", {code = code}),
                    {status = "complete"}, code)
  end
  for _, code in ipairs(invalid) do
    lu.assertEquals(nb:call("is_complete", {code = code}).status, "invalid",
                    code)
  end
end

-- The newest are kept, whatever went before.
function tests.sources_have_bounds()
  local sources = require "tide.console.sources"
  local text = ("x"):rep(1 << 20)
  for i = 1, 40 do
    sources.keep("S" .. i, text .. i)
    for k = 1, i do
      lu.assertEquals(sources.text("S" .. k) ~= nil, k > i - 3, k .. "/" .. i)
    end
  end
  sources.keep("S40", "short")
  lu.assertEquals(sources.text "S40", "short")
end

return tests
