-- hostile.lua - text that nobody typed: what reads cells takes steps as many as
-- there are bytes, whatever is repeated in them.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
require "tide"
local cell = require "tide.console.cell"

local tests = {}

local BYTES = 4000
local SOAK = os.getenv "TIDE_SOAK"

-- What is repeated: one row a family.
local units = {
  "(", "[", "{", ")", "]", "}", "(]", "{)", "a(", "a[", "a{", "(a, ", "f(x, {",
  "[[", "]]", "[=", "]=", "--[[", "--[==[", "--", '"', "'", "'a'", '"\\z ',
  "a.", "a:", "a:b(", "td.", "td.nn.relu(", "td.constant{", "a.b(c){d}[e]'f' ",
  "function ", "function(", "function a", "function(a, ", "local function f(",
  "x=function() ", "end ", "do ", "if x then ", "repeat ", "until ", "elseif ",
  "for i in ", "for a,", "while ", "else ", "return ", "goto a ", "::a::",
  "local x = ", "local a, ", "local x\n", "local x = x\n", "x = ", "x,",
  "x = 1\n", "x.y = 1\n", "\nlocal x = {", "\nx = (", "x = {", "td.x = {",
  "local f <const> = ", "a = b % c ", "not ", "#", "-", "a and ", "a .. ", "1",
  "%", "!", "?", "a?", "% ", "?a ", "?\n", "!e [[\n", "%a\n", "%t \"\n", "%%a ",
  ".", "..", ":", "=", "~", ";", "\\", " ", "\n", "\t\n", "a", "\255", "\u{e9}",
}

-- The instructions that f(code) takes, in thousands.
local function work(f, code)
  local n = 0
  debug.sethook(function() n = n + 1 end, "", 1000)
  local ok, why = pcall(f, {code = code, cursor_pos = utf8.len(code) or #code,
                            detail_level = 0})
  debug.sethook()
  lu.assertTrue(ok, why)
  return n
end

local services = {load = function(r) return cell.load(r.code, "=In[1]") end}
for _, name in ipairs{"inspect", "complete", "is_complete"} do
  services[name] = require("tide.services." .. name)
end

for name, f in pairs(services) do
  tests[name] = function()
    for _, unit in ipairs(units) do
      for _, last in ipairs{"", "x"} do
        local n = BYTES // #unit
        local once = work(f, unit:rep(n) .. last)
        local twice = work(f, unit:rep(2 * n) .. last)
        lu.assertTrue(twice < 3 * once + 100, ("%s of %q: %d thousand steps, "
          .. "then %d"):format(name, unit, once, twice))
      end
    end
  end
end

-- What patterns of Lua's own could take for ever.
function tests.long_runs()
  local n = SOAK and 1 << 20 or 1 << 18
  local runs = {{'"', "\\", "x"}, {"?", " ", "a b"}, {"%time ", " ", "x y"},
                {"%%time ", " ", "x"}, {"%time x", " ", "y"}, {"", " ", "?"},
                {"", "?", " x"}, {"a", ".", "?"}, {"%", "a", "!"},
                {"", "a:b(", ""}, {"", "(", ""}, {"", "[[", ""}, {"", "a.", ""},
                {"--[[", "-", ""}, {"", "function ", ""}, {"", "%", ""}}
  for _, r in ipairs(runs) do
    local code = r[1] .. r[2]:rep(n // #r[2]) .. r[3]
    for name, f in pairs(services) do
      lu.assertTrue(work(f, code) < 60 * n / 1000,
                    ("%s of %q"):format(name, r[1] .. r[2] .. r[3]))
    end
  end
end

return tests
