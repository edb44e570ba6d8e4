-- console_commands.lua - each % command, in cells.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local commands = require "tide.console.commands"
local notebook = require "shared.notebook"
local bare = require "helper".bare

local tests = {}

-- Cells in a row; what the last one prints must have, and its result (false:
-- none, true: any).
local rows = {
  {"%time 6 * 7", "processor time", "42"},
  {"%%time\nlocal a = 1\na + 1", "processor time", "2"},
  {"%timeit -n 5 -r 2 local x = 1", "(2 runs of 5 loops)", false},
  {"%%timeit -n 2 -r 1 k = 3\nk = k + 1", "(1 runs of 2 loops)", false},
  {"%who nosuchpattern", "no names yet", false},
  {"local wh1, wh2 = 5, td.tensor{1}", "%who wh", "wh1", false},
  {"local wh1, wh2 = 5, td.tensor{1}", "%who wh", "tensor", false},
  {"whq = td.fifo_queue(32, 'int32', {}, 'whq')",
   "td.session():run(whq:enqueue_many{1, 2, 3})", "%who whq",
   "queue        whq: 3 of 32 elements\n", false},
  {"whr = td.fifo_queue(-1, 'int32', {}, 'whr')",
   "td.session():run(whr:close())", "%who whr",
   "queue        whr: 0 elements, closed\n", false},
  {"b = td.train.batch(td.constant(1), 2)", "td.session()", "%who batch",
   "queue        batch/fifo_queue: 0 of 32 elements\n", false},
  {"td.fifo_queue(8, {'int32', 'string'}, nil, 'whs')", "",
   'Queue "whs" fifo of 8: int32, string'},
  {"%lsmagic", "%timeit", false}, {"%lsmagic", "%%file", false},
  {"%keys", "Ctrl-R", false},
  {"%seed 7", "", false}, {"%devices", "CPU:0", false},
  {"%devices", "threads", false}, {"%mem", "tensors", false},
  {"%mem", "process", false}, {"%ls /", "etc", false},
  {"%env TIDE_TEST_NAME = a b", "%env TIDE_TEST_NAME", "", '"a b"'},
  {"%env TIDE_TEST_NAME = a b", "!echo $TIDE_TEST_NAME", "a b", false},
  {"%env", "HOME=", false}, {"%env NO_SUCH_NAME", "", "nil"},
  {"!echo $((3 * 4))", "12", false}, {"!exit 2", "[exit 2]", false},
  {"x = 1", "%history", "   1: x = 1", false},
  {"%history 5", "%history 5", false}, {"%history -g *zz", "*zz", false},
  {"%graph", "", true}, {"%graph td.graph()", "", true},
  {"x = td.zeros{2, 3}", "%cells", "", true},
  {"%tour 2", "2/11  ops", true},
  {"%tour", "1/11  a tensor", true}, {"%tour", "%tour", "2/11", true},
  {"%prun local t = 0 for i = 1, 2e6 do t = i end", "In[1]:1", false},
  {"%time 5", "processor time", "5"}, {"%time 5;", "processor time", false},
  {"%prun 5", "over before", "5"}, {"%debug", "there was no error", false},
  {"error 'so'", "%debug", "first:\n  [C], in error\n  In[1]:1\n", false},
  {"%%capture c\nprint 'hidden'\n7", "c.stdout == 'hidden\\n'", "", "true"},
  {"%%capture c\ntd.display(5)\n7", "c.result, #c.outputs", "", "7\t1"},
  {"%%capture\nprint 'hidden'", "", false},
  {"%%capture c\nio.stderr:write 'e'\nos.execute 'echo o'",
   "c.stdout == 'o\\n', c.stderr", "", 'true\t"e"'},
  {"%profile 5", "no step", false},
  {"%profile td.session():run(td.ones{2} * 2)", "", true},
  {"%reset -f", "", false},
  {"local gone = 1 gone2 = 2", "%reset -f", "gone, gone2", "", "nil\tnil"},
  {"%autoreload", "", false}, {"%autoreload off", "", false},
}

function tests.commands()
  for _, row in ipairs(rows) do
    local nb <close> = notebook.open()
    local last, printed, result = #row - 2, row[#row - 1], row[#row]
    local said = table.concat(row, " / ", 1, last)
    local reply
    for i = 1, last do reply = nb:run(row[i]) end
    lu.assertEquals(reply.status, "ok", said .. ": " .. (reply.evalue or ""))
    lu.assertStrContains(bare(nb.out), printed, false, said)
    if result ~= true then
      lu.assertEquals(nb:result() or false, result, said)
    end
  end
end

-- Cells with commands that fail, and what they say.
local wrong = {
  {"%seed x", "whole number"}, {"%run", "needs the name"},
  {"%run /no/such.lua", "cannot open"}, {"%load", "needs the name"},
  {"%load /no/such", "/no/such"}, {"%save", "needs the name"},
  {"%save /tmp/x y", "numbers like"}, {"%history x", "takes a number"},
  {"%cd /no/such", "cannot go to /no/such"}, {"%autoreload x", "on or off"},
  {"%%file", "stands at the top"}, {"%file /tmp/x", "stands at the top"},
  {"%capture c", "stands at the top"}, {"%%capture a b", "stands at the top"},
  {"%tour 12", "steps 1 to 11"}, {"%timeit x +", "near <eof>"},
  {"%time error 'timed'", "In[1]:1: timed"}, {"%prun error 'p'", "p"},
  {"%%capture c\nerror 'caught'", "In[1]:2: caught"},
  {"%profile error 'prof'", "prof"},
  {"??nosuch", "no help"},
}

function tests.mistakes()
  for _, row in ipairs(wrong) do
    local nb <close> = notebook.open()
    local reply = nb:run(row[1])
    lu.assertEquals(reply.status, "error", row[1])
    lu.assertStrContains(reply.evalue, row[2])
    nb:run "print 'seen' 1"
    lu.assertEquals({nb.out, nb:result()}, {"seen\n", "1"}, row[1])
  end
end

function tests.every_command_is_described()
  local names = commands.names()
  lu.assertTrue(#names >= 25)
  for _, name in ipairs(names) do
    local call, text = commands.about(name)
    lu.assertStrContains(call or "", "%" .. name)
    lu.assertTrue(#(text or "") > 10, name)
  end
end

function tests.the_whole_tour()
  local nb <close> = notebook.open()
  for n = 1, 11 do
    local reply = nb:run "%tour"
    lu.assertEquals(reply.status, "ok", n .. ": " .. (reply.evalue or ""))
    lu.assertStrContains(bare(nb.out), n .. "/11")
  end
end

-- ---- files ------------------------------------------------------------------

local function in_folder(f)
  local dir, here = os.tmpname(), core.cwd()
  os.remove(dir)
  core.mkdirs(dir)
  local nb <close> = notebook.open()
  local ok, why = pcall(f, nb, dir)
  core.chdir(here)
  os.execute("rm -r '" .. dir .. "'")
  if not ok then error(why, 0) end
end

function tests.files()
  in_folder(function(nb, dir)
    nb:run("%cd " .. dir)
    nb:run "%pwd"
    lu.assertStrContains(nb:result(), dir)
    nb:run "%%file a.lua\nprint(...)\nran = (ran or 0) + 1\n"
    nb:run "%%file -a a.lua\nreturn arg[1]"
    nb:run "%run a.lua one 'two words'"
    lu.assertEquals({nb.out, nb:result()}, {"one\ttwo words\n", '"one"'})
    nb:run "ran"
    lu.assertEquals(nb:result(), "1")
    local payload = nb:run "%load a.lua".payload[1]
    lu.assertEquals(payload.source, "set_next_input")
    lu.assertEquals(payload.text,
                    "print(...)\nran = (ran or 0) + 1\nreturn arg[1]\n")
    nb:run "%save b.lua 6 1-2"
    lu.assertEquals(core.read_file "b.lua", "ran\n%cd " .. dir .. "\n%pwd\n")
    nb:run "%cd /"
    nb:run "%cd -"
    lu.assertStrContains(nb.out, dir)
    nb:run "%ls"
    lu.assertEquals(nb.out, "a.lua\nb.lua\n")
  end)
end

function tests.autoreload()
  in_folder(function(nb, dir)
    core.write_file(dir .. "/reloaded.lua", "return {f = function() return 1 "
                    .. "end, old = 1}")
    nb:run("package.path = " .. ("%q"):format(dir .. "/?.lua;")
           .. " .. package.path; local m = require 'reloaded'; local f = m")
    nb:run "%autoreload on"
    nb:run "m.f()"
    lu.assertEquals(nb:result(), "1")
    core.write_file(dir .. "/reloaded.lua", "return {f = function() return 2 "
                    .. "end}")
    nb:run "f.f(), m.old"
    lu.assertEquals(nb:result(), "2\tnil")
    core.write_file(dir .. "/reloaded.lua", "return x x")
    lu.assertEquals(nb:run("1").status, "error")
    core.write_file(dir .. "/reloaded.lua", "return {f = function() return 3 "
                    .. "end}")
    nb:run "m.f()"
    lu.assertEquals(nb:result(), "3")
    nb:run "%autoreload off"
    nb:run "package.path = package.path:gsub('^[^;]*;', '')"
    package.loaded.reloaded = nil
  end)
end

return tests
