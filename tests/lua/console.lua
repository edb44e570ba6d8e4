-- console.lua - service "execute": counts, errors of every kind, input, exits.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local json = require "tide.base.json"
local notebook = require "shared.notebook"
local bare = require "helper".bare

local tests = {}

local function plain(reply)
  return bare(table.concat(reply.traceback, "\n"))
end

-- ---- counts and what is shown -----------------------------------------------

-- A cell, options, then: the count, the types of messages.
local counted = {
  {"1", {}, 1, "execute_input execute_result"},
  {"x = 1", {}, 2, "execute_input"},
  {"1", {silent = true}, 2, ""},
  {"1", {store_history = false}, 2, "execute_input execute_result"},
  {"error 'x'", {silent = true}, 2, ""},
  {"error 'x'", {}, 3, "execute_input error"},
  {"", {}, 3, "execute_input"},
  {"x =", {}, 4, "execute_input error"},
  {"1", {silent = true, store_history = true}, 4, ""},
  {"2;", {}, 5, "execute_input"},
}

function tests.counts()
  local nb <close> = notebook.open()
  for i, row in ipairs(counted) do
    local reply = nb:run(row[1], row[2])
    lu.assertEquals(reply.execution_count, row[3], "row " .. i)
    lu.assertEquals(nb:types(), row[4], "row " .. i)
    for _, m in ipairs(nb.shown) do
      if m.type ~= "error" then
        lu.assertEquals(m.content.execution_count, row[3])
      end
    end
  end
  local list = nb:call("history", {hist_access_type = "tail", n = 10}).history
  lu.assertEquals(#list, 5) -- neither the silent nor the empty ones
  nb:run "Out[1]"
  lu.assertEquals(nb:result(), "1")
end

function tests.every_reply_has_its_fields()
  local nb <close> = notebook.open()
  local reply = nb:run "x = 1"
  lu.assertEquals(reply.status, "ok")
  lu.assertEquals(json.encode(reply.payload), "[]")
  lu.assertEquals(json.encode(reply.user_expressions), "{}")
  reply = nb:run "error 'no'"
  for _, key in ipairs{"ename", "evalue", "traceback", "execution_count"} do
    lu.assertNotNil(reply[key], key)
  end
  for _, request in ipairs{{}, {code = 3}, {code = json.null},
                           {code = "1", user_expressions = 3}} do
    lu.assertEquals(nb:call("execute", request).status, "ok")
  end
end

-- ---- errors -----------------------------------------------------------------

-- A cell, the error's name, what its value has.
local raised = {
  {"error 'text'", "Error", "In[1]:1: text"},
  {"error('text', 0)", "Error", "text"},
  {"error()", "Error", "nil"}, {"error(42)", "Error", "42"},
  {"error(true)", "Error", "true"}, {"error(print)", "Error", "function"},
  {"error({})", "Error", "a table without __tostring"},
  {"error(setmetatable({}, {__tostring = function() return 'mine' end}))",
   "Error", "mine"},
  {"error(setmetatable({}, {__name = 'Mine', __tostring = function() return "
   .. "'mine' end}))", "Mine", "mine"},
  {"error(setmetatable({}, {__tostring = function() error 'again' end}))",
   "Error", "__tostring fails"},
  {"error(setmetatable({}, {__tostring = function() return 5 end}))",
   "Error", "5"},
  {"error(setmetatable({}, {__tostring = function() error({}) end}))",
   "Error", "__tostring fails"},
  {"error(setmetatable({}, {__metatable = false}))", "Error", "table"},
  {"error('\\xff\\xfe bad')", "Error", "\u{FFFD}\u{FFFD} bad"},
  {"error(coroutine.create(print))", "Error", "thread"},
  {"error(io.stdout)", "FILE*", "file"},
  {"nil + 1", "Error", "arithmetic"},
  {"local x <close> = setmetatable({}, {__close = function() error 'shut' "
   .. "end})", "Error", "shut"},
  {"local x <close> = setmetatable({}, {__close = function() error 'shut' "
   .. "end}) error 'first'", "Error", "shut"},
  {"local function f() return f() + 1 end f()", "Error", "stack overflow"},
  {"string.rep('x', 1 << 60)", "Error", "resulting string too large"},
  {"td.matmul(td.value.ones{2, 3}, td.value.ones{2, 3})",
   "InvalidArgumentError", "cannot multiply"},
  {"td.nosuch", "InvalidArgumentError", "td has no"},
  {"td.load_npy '/nowhere'", "NotFoundError", "/nowhere"},
  {"error(setmetatable({code = 3}, debug.getregistry()['tide.error']))",
   "tide.error", "3"},
  {"coroutine.wrap(function() error 'inside' end)()", "Error", "inside"},
  {"x = =", "SyntaxError", "near '='"},
}

function tests.errors()
  for _, row in ipairs(raised) do
    local nb <close> = notebook.open()
    local reply = nb:run(row[1])
    lu.assertEquals(reply.status, "error", row[1])
    lu.assertEquals(reply.ename, row[2], row[1])
    lu.assertStrContains(reply.evalue, row[3])
    lu.assertEquals(nb:types(), "execute_input error", row[1])
    lu.assertEquals(nb:message "error".evalue, reply.evalue)
    lu.assertTrue(#reply.traceback > 0)
    lu.assertEquals(nb.out .. nb.err, "")
    lu.assertEquals(nb:run("6 * 7").status, "ok")
    lu.assertEquals(nb:result(), "42")
  end
end

function tests.an_error_in_gc_is_no_error_of_the_cell()
  local nb <close> = notebook.open()
  local reply = nb:run("do local x = setmetatable({}, {__gc = function() "
                       .. "error 'late' end}) end collectgarbage() 1")
  lu.assertEquals(reply.status, "ok")
  lu.assertEquals(nb:result(), "1")
end

function tests.a_finalizer_that_does_not_return_closes_its_variables()
  local nb <close> = notebook.open()
  nb:run [[
    closed = {}
    local function finalizer(leave)
      return {__gc = function()
        local x <close> = setmetatable({}, {__close = function(_, e)
          closed[#closed + 1] = tostring(e)
        end})
        leave("gone", 0)
      end}
    end
    setmetatable({}, finalizer(error))
    setmetatable({}, finalizer(coroutine.yield))
    setmetatable({}, finalizer(function() end))
    collectgarbage()]]
  nb:run "table.sort(closed) table.concat(closed, ' ')"
  lu.assertEquals(nb:result(),
    '"attempt to yield across a C-call boundary gone nil"')
end

function tests.many_finalizers_need_no_memory()
  local nb <close> = notebook.open()
  nb:run [[
    local n, all, before = 0, {}
    local meta = {__gc = function() n = n + 1 end}
    for i = 1, 20000 do all[i] = setmetatable({}, meta) end
    before, all = collectgarbage "count", nil
    collectgarbage()
    fits = n == 20000 and collectgarbage "count" - before < 4000]]
  nb:run "fits"
  lu.assertEquals(nb:result(), "true")
end

function tests.tracebacks_show_the_users_lines()
  local nb <close> = notebook.open()
  nb:run "function deep(x)\n  -- adds\n  return x + 1\nend"
  local text = plain(nb:run "local y = 2\n\ndeep(nil)")
  for _, part in ipairs{"In[1]:3, in deep", "  --> 3   return x + 1",
                        "      2   -- adds", "In[2]:3", "  --> 3 deep(nil)"} do
    lu.assertStrContains(text, part)
  end
  lu.assertNil(text:find("[C]", 1, true))
  lu.assertNil(text:find("[tide]", 1, true))
end

function tests.tracebacks_show_where_a_node_was_made()
  local nb <close> = notebook.open()
  nb:run "x = td.placeholder('float32', {-1})\ny = td.check_numerics(x, 'bad')"
  local reply = nb:run "td.session():run(y, {[x] = {0/0}})"
  lu.assertEquals(reply.ename, "InvalidArgumentError")
  lu.assertStrContains(plain(reply), "made at In[1]:2")
  lu.assertStrContains(plain(reply), "--> 2 y = td.check_numerics(x, 'bad')")
end

-- Every way to run a step.
local steps = {
  "td.session():run(out, {[x] = {0/0}})",
  "td.session():callable({out}, {x})({0/0})",
  "td.session():start(out, {[x] = {0/0}}):wait()",
  "v = td.variable({0/0}, {name = 'x'}) local s = td.session() s:init() "
    .. "out = td.check_numerics(v, 'bad') * 2 "
    .. "s:loop(out, {threads = 2, steps = 5}):wait()",
  "p = td.session():partial_run_setup({x * 1, out}, {x}) "
    .. "p:run({}, {[x] = {0/0}}) p:run(out)",
}

function tests.debug_tells_of_a_step_that_failed()
  for _, step in ipairs(steps) do
    local nb <close> = notebook.open()
    nb:run "x = td.placeholder('float32', {-1}, 'x')\n"
    nb:run "out = td.check_numerics(x, 'bad') * 2"
    lu.assertEquals(nb:run(step).ename, "InvalidArgumentError", step)
    lu.assertEquals(nb:run("%debug").status, "ok", step)
    local text = bare(nb.out)
    for _, part in ipairs{"CheckNumerics", "input 1: ", "nan",
                          "to what was fetched", "Mul", "[C], in"} do
      lu.assertStrContains(text, part)
    end
  end
end

function tests.errors_in_files_show_their_lines()
  local nb <close> = notebook.open()
  local path = os.tmpname()
  core.write_file(path, "local t = nil\n\nprint(t.x)\n")
  local text = plain(nb:run("%run " .. path))
  os.remove(path)
  lu.assertStrContains(text, ":3")
end

function tests.results_of_every_kind()
  local nb <close> = notebook.open()
  for _, code in ipairs{"'\\xff\\xfe'", "('x'):rep(1e6)", "{}", "0/0", "1/0",
      "setmetatable({}, {__tostring = function() error 'no' end})",
      "setmetatable({}, {__repr_html = function() error 'no' end})",
      "setmetatable({}, {__index = function() error 'no' end})",
      "setmetatable({}, {__pairs = function() error 'no' end})",
      "setmetatable({}, {__metatable = 5})", "coroutine.running()", "io.stdout",
      "td", "_G", "_ENV", "td.session()", "'\\0'", "string.rep", "-0.0"} do
    local reply = nb:run(code)
    lu.assertEquals(reply.status, "ok", code)
    lu.assertEquals(type(nb:result()), "string", code)
  end
end

-- ---- user_expressions -------------------------------------------------------

function tests.user_expressions()
  local nb <close> = notebook.open()
  local reply = nb:run("local a = 20", {user_expressions = json.object{
    sum = "a + 1", bad = "nosuch.field", wrong = "1 +", none = "nil"}})
  local got = reply.user_expressions
  lu.assertEquals(reply.status, "ok")
  lu.assertEquals(got.sum.status, "ok")
  lu.assertEquals(got.sum.data["text/plain"], "21")
  lu.assertEquals(json.encode(got.sum.metadata), "{}")
  lu.assertEquals(got.none.data["text/plain"], "nil")
  lu.assertEquals(got.bad.status, "error")
  lu.assertStrContains(got.bad.evalue, "nosuch")
  lu.assertEquals(got.wrong.ename, "SyntaxError")
  lu.assertEquals(nb:types(), "execute_input")
  reply = nb:run("error 'x'", {user_expressions = json.object{
    s = "rawset(_G, 'ran', true)"}})
  lu.assertEquals(json.encode(reply.user_expressions), "{}")
  lu.assertNil(rawget(_G, "ran"))
end

-- ---- exits and input --------------------------------------------------------

function tests.exits()
  for _, row in ipairs{{"os.exit()", "0"}, {"os.exit(true)", "0"},
                       {"os.exit(false)", "1"}, {"os.exit(3)", "3"},
                       {"os.exit(0, true)", "0"},
                       {"local function f() os.exit(4) end f()", "4"}} do
    local nb <close> = notebook.open()
    local reply = nb:run(row[1])
    lu.assertEquals({reply.status, reply.ename, reply.evalue},
                    {"error", "SystemExit", row[2]})
    lu.assertEquals(reply.payload[1].source, "ask_exit")
    lu.assertEquals(nb:run("1").status, "ok")
  end
end

function tests.input()
  local nb <close> = notebook.open()
  nb.answers = {"Bo", "secret"}
  nb:run "td.input 'name? '"
  lu.assertEquals({nb:result(), nb.asked.prompt}, {'"Bo"', "name? "})
  nb:run "td.getpass 'word: '"
  lu.assertEquals(nb:result(), '"secret"')
  lu.assertEquals(nb.asked, {prompt = "word: ", password = true})
  nb:run "td.input()"
  lu.assertEquals(nb:result(), 'nil\t"the input has ended"')
  for _, code in ipairs{"io.read()", "td.input()", "io.stdin:read 'n'",
                        "io.lines()", "io.stdin:lines()", "td.getpass()"} do
    local reply = nb:run(code, {allow_stdin = false})
    lu.assertStrContains(reply.evalue or "", "allow_stdin is false")
  end
  lu.assertEquals(nb:run("for l in io.lines '/dev/null' do end",
                         {allow_stdin = false}).status, "ok")
end

-- ---- pages, display, children -----------------------------------------------

function tests.pages()
  local nb <close> = notebook.open()
  for _, code in ipairs{"?", "?matmul", "matmul?", "td.matmul?", "??print",
                        "?%time", "?sess:run"} do
    local reply = nb:run(code)
    lu.assertEquals(reply.status, "ok", code)
    lu.assertEquals(#reply.payload, 1, code)
    lu.assertEquals(reply.payload[1].source, "page")
    lu.assertEquals(type(reply.payload[1].data["text/plain"]), "string")
    lu.assertEquals(nb:types(), "execute_input")
  end
  nb:run "local function mine(a)\n  return a -- so\nend"
  local text = nb:run "??mine".payload[1].data["text/plain"]
  lu.assertStrContains(bare(text), "return a -- so")
end

function tests.displays()
  local nb <close> = notebook.open()
  nb:run "td.display(1) td.display(2, {id = 'i'}) td.update_display('i', 3) 4"
  lu.assertEquals(nb:types(), "execute_input display_data display_data "
                  .. "update_display_data execute_result")
  nb:run "td.clear_output{wait = true}"
  lu.assertEquals(nb:message "clear_output", {wait = true})
end

function tests.children()
  local nb <close> = notebook.open()
  nb:run "!echo out; echo err >&2; exit 3"
  lu.assertEquals({nb.out, nb.err}, {"out\n[exit 3]\n", "err\n"})
  for _, row in ipairs{
    {"os.execute()", "true"}, {"os.execute 'exit 4'", 'nil\t"exit"\t4'},
    {"os.execute 'kill -9 $$'", 'nil\t"signal"\t9'},
    {"io.popen('echo x'):read()", '"x"'},
    {"local p = io.popen('cat >/dev/null', 'w') p:write 'x' p:close()",
     'true\t"exit"\t0'},
    {"local p = io.popen 'exit 5' p:read 'a' p:close()", 'nil\t"exit"\t5'},
    {"io.popen('echo $HOME'):read() == os.getenv 'HOME'", "true"},
    {"pcall(io.popen, 'x', 'rw')", nil},
  } do
    lu.assertEquals(nb:run(row[1]).status, "ok", row[1])
    if row[2] then lu.assertEquals(nb:result(), row[2], row[1]) end
  end
  nb:run "for i = 1, 50 do io.popen 'echo many' end collectgarbage()"
  lu.assertEquals(nb:run("os.execute 'true'").status, "ok")
end

-- ---- start ------------------------------------------------------------------

function tests.the_start_file()
  local nb <close> = notebook.open()
  local start = require "tide.services.start"
  local path = os.tmpname()
  core.write_file(path, "local mine = 5\neverywhere = 6\n")
  lu.assertTrue(start.run(path))
  nb:run "mine + everywhere"
  lu.assertEquals(nb:result(), "11")
  for _, code in ipairs{"error 'in it'", "x = = 1"} do
    nb.shown = {}
    core.write_file(path, code)
    lu.assertFalse(start.run(path))
    lu.assertEquals(nb:types(), "error")
  end
  os.remove(path)
  lu.assertFalse(start.run(path))
  lu.assertEquals(nb:call("start", {}).status, "ok")
  lu.assertEquals(rawget(_G, "td"), td)
end

return tests
