-- frames.lua - errors of scripts: which of the user's lines led there.
--
-- Programs of two files in a process of their own, by the command and by a
-- stock lua5.4. Lines that must be told are marked in their text.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"

local tests = {}

local binary = io.popen("readlink /proc/$PPID/exe"):read()
local build = binary:match "^(.*)/[^/]+$"

local function write(path, text)
  local f <close> = assert(io.open(path, "w"))
  f:write(text)
end

-- What a command prints, in the folder of a program.
local function output(folder, command)
  local pipe <close> = io.popen(("cd %s && env -u TIDE_TEST %s 2>&1"):format(
    folder, command))
  return pipe:read "a"
end

-- A folder with the two files of a program, and what runs the first there.
local function program(main, helper, run)
  local folder = os.tmpname()
  os.remove(folder)
  os.execute("mkdir " .. folder)
  write(folder .. "/main.lua", main)
  write(folder .. "/helper.lua", helper or "")
  local result = run(folder)
  os.execute("rm -r " .. folder)
  return result
end

-- The lines marked --<1>, --<2>, ... as file and number, in that order.
local function marked(main, helper)
  local list = {}
  for file, text in pairs{["main.lua"] = main, ["helper.lua"] = helper} do
    local n = 0
    for line in text:gmatch "([^\n]*)\n" do
      n = n + 1
      for mark in line:gmatch "%-%-.*" do
        for k in mark:gmatch "<(%d)>" do
          list[tonumber(k)] = ("%s:%d"):format(file, n)
        end
      end
    end
  end
  return list
end

-- The lines that a traceback names, and the text before it.
local function told(text)
  local list = {}
  local head, frames = text:match "^(.-)\nstack traceback:\n(.*)$"
  for place in (frames or ""):gmatch "\t(%S-:%d+):[^\n]*" do
    list[#list + 1] = place
  end
  return list, head or text
end

local HEAD = [[
local td = require "tide"
local helper = require "helper"
]]

-- What the two files hold, and part of the message; only = "tide" where a stock
-- Lua's own message handler stands in the way.
local rows = {
  a_chain = {[[
local function build(x)
  local y = helper.layer(x) --<2>
  return y
end
build(td.ones{2, 4}) --<3>
]], [[
local td = require "tide"
return {layer = function(x)
  local y = x:matmul(td.ones{3, 2}) --<1>
  return y
end}
]], "cannot multiply {2, 4} by {3, 2}"},
  -- A call in the place of a return has its line, too.
  tail_calls = {[[
local function build(x)
  local y = helper.layer(x) --<2>
  return y
end
build(td.ones{2, 4}) --<3>
]], [[
local td = require "tide"
return {layer = function(x)
  return td.matmul(x, td.ones{3, 2}) --<1>
end}
]], "helper.lua:3)"},
  a_tail_call_of_a_method = {[[
local function layer(x)
  return x:matmul(td.ones{3, 2}) --<1>
end
local y = layer(td.ones{2, 4}) --<2>
]], "", "main.lua:4)"},
  a_step = {[[
local x = td.placeholder("float32", {2}, "x")
local y = td.check_numerics(td.log(x), "log") -- made here
local sess = td.session()
local function step()
  local v = sess:run(y, {[x] = {1, -1}}) --<1>
  return v
end
step() --<2>
]], "", "main.lua:4)"},
  a_callable = {[[
local x = td.placeholder("float32", {2}, "x")
local f = td.session():callable(td.check_numerics(td.log(x), "log"), {x})
local function step()
  local v = f{1, -1} --<1>
  return v
end
step() --<2>
]], "", "main.lua:4)"},
  a_missing_value = {[[
local v = td.variable(1.0, "v")
local function look(s)
  local x = s:run(v) --<1>
  return x
end
look(td.session()) --<2>
]], "", "variable v is not initialised"},
  a_loop = {[[
local function body(i, x)
  local y = x:matmul(td.ones{3, 2}) --<1>
  return i + 1, y
end
td.while_loop(function(i) return i:less(3) end, body, --<2>
  {0, td.ones{2, 4}})
]], "", "while/MatMul"},
  a_branch = {[[
local function no() return td.constant(1.0) end
local p = td.placeholder("bool", {})
td.cond(p, function() --<2>
  local y = td.ones{2}:matmul(td.ones{2}) --<1>
  return y
end, no)
]], "", "of rank 2"},
  a_map = {[[
td.map_fn(function(v) --<2>
  local w = v + td.ones{3}:reshape{2, 2} --<1>
  return w
end, td.ones{3})
]], "", "Reshape"},
  a_coroutine = {[[
local it = coroutine.wrap(function()
  coroutine.yield(1)
  local y = td.ones{2}:matmul(td.ones{2}) --<1>
  coroutine.yield(y)
end)
local function take()
  local v = it() --<2>
  return v
end
take()
take() --<3>
]], "", "of rank 2", only = "tide"},
  caught_and_raised_again = {[[
local ok, e = pcall(function() --<2>
  local y = td.ones{2}:matmul(td.ones{2}) --<1>
  return y
end)
error(e)
]], "", "of rank 2"},
  a_hook_of_fit = {[[
local x = td.placeholder("float32", {-1}, "x")
local w = td.variable(0.0, "w")
local loss = ((x * w) ^ 2):mean()
local hook = {step_end = function(_, run)
  run.session:run(x) --<1>
end}
td.train.fit{loss = loss, train = td.train.sgd(0.1):minimize(loss), --<2>
  data = td.data.of{x = {1.0, 2.0}}, hooks = {hook}, quiet = true}
]], "", "\"x\""},
  of_lua = {[[
local function f() --
  local n = nil + 1 --<1>
  return n
end
td.map_fn(function(v) f() return v end, td.ones{3}) --<2> <3>
]], "", "attempt to perform arithmetic on a nil value", only = "tide"},
}

for name, row in pairs(rows) do
  tests[name] = function()
    local main, helper = HEAD .. row[1], row[2]
    local want = marked(main, helper)
    for _, lua in ipairs{binary, row.only and "" or "lua5.4"} do
      if lua ~= "" then
        local text = program(main, helper, function(folder)
          return output(folder, ("LUA_CPATH='%s/?.so' LUA_PATH='?.lua' %s "
            .. "main.lua"):format(build, lua))
        end)
        local lines, head = told(text)
        lu.assertStrContains(head, row[3])
        lu.assertEquals(lines, want, text)
        lu.assertNil(text:find("[tide]", 1, true), text)
        lu.assertNil(text:find("[C]", 1, true), text)
      end
    end
  end
end

-- Where there is one line, and the message has it, nothing follows.
function tests.one_line_is_told_once()
  local text = program(HEAD .. "td.ones{2}:matmul(td.ones{2})\n", "",
    function(folder) return output(folder, binary .. " main.lua") end)
  lu.assertEquals(text, "tide: a must be of rank 2, not {2} (MatMul, node "
    .. "\"MatMul\", main.lua:3)\n")
  text = output(".", binary .. " -e 'local td = require \"tide\" "
    .. "local function f() local y = td.ones{2}:matmul(td.ones{2}) return y "
    .. "end f()'")
  lu.assertStrContains(text, "-e:1)\nstack traceback:\n\t-e:1: in local 'f'\n"
    .. "\t-e:1: in main chunk\n")
end

-- The library's own frames are told where it is to blame.
function tests.a_mistake_of_the_library()
  local text = output(".", binary .. " -e 'local td = require \"tide\" "
    .. "require \"tide.base.args\".read = nil "
    .. "for _ in td.progress(3) do end'")
  lu.assertStrContains(text, "\n\t[tide] ")
  lu.assertStrContains(text, "-e:1: in main chunk")
end

-- What is caught has its frames, and reads as one line.
function tests.error_objects()
  local function f()
    local y = td.ones{2}:matmul(td.ones{2})
    return y
  end
  local ok, e = pcall(f)
  lu.assertFalse(ok)
  lu.assertNil(tostring(e):find "\n")
  lu.assertEquals(e.where:match "^(.*):%d+$", "tests/lua/frames.lua")
  lu.assertStrContains(e.traceback, "traceback:\n\t" .. e.where .. ": in ")
  for _, text in ipairs{tostring(e), ("%s"):format(e), "" .. e} do
    lu.assertEquals(text, tostring(e))
  end
  local _, handled = xpcall(f, function(err) return err end)
  lu.assertEquals(handled.code, "invalid_argument")
  _, handled = xpcall(f, tostring)
  lu.assertNil(handled:find "\n")
  _, handled = xpcall(f, debug.traceback)
  lu.assertEquals(handled.code, "invalid_argument")
end

-- A stack of any depth is told in a few lines.
function tests.deep()
  local function f(n)
    if n == 0 then td.ones{2}:matmul(td.ones{2}) end
    f(n - 1)
    return n
  end
  local _, e = pcall(f, 20000)
  local _, n = e.traceback:gsub("\n", "")
  lu.assertEquals(n, 21)
  lu.assertStrContains(e.traceback, "\n\t...")
end

function tests.an_error_raised_again_for_ever_does_not_grow()
  local _, e = pcall(function() return td.ones{2}:matmul(td.ones{2}) end)
  for _ = 1, 1000 do coroutine.resume(coroutine.create(error), e) end
  lu.assertTrue(#e.traceback < 20000, #e.traceback)
end

return tests
