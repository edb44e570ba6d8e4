-- console_terminal.lua - messages on a terminal: what is printed, what is drawn
-- over.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local frontend = require "tide.frontend"
local paint = require "tide.console.paint"
local terminal = require "tide.frontend.terminal"
local helper = require "helper"

local tests = {}

-- What f prints, on a terminal of 24 rows and 20 columns or on none.
local function printed(is_terminal, f)
  local isatty, size = core.isatty, core.terminal_size
  core.isatty = function() return is_terminal end
  core.terminal_size = function()
    if is_terminal then return 24, 20 end
  end
  terminal("execute_input", {code = ""})
  local output = frontend.capture()
  local ok, why = pcall(f)
  local text = output:stop()
  core.isatty, core.terminal_size = isatty, size
  assert(ok, why)
  return text
end

local function display(text, id)
  terminal("display_data", {data = {["text/plain"] = text},
                            transient = {display_id = id}})
end

local function update(text, id)
  terminal("update_display_data", {data = {["text/plain"] = text},
                                   transient = {display_id = id}})
end

local up = function(n) return ("\27[%dA\27[J"):format(n) end

-- What happens, and what a terminal and a file get.
local rows = {
  {function() display("a", "1") end, "a\n", "a\n"},
  {function() display("a", "1") update("b", "1") end, "a\n" .. up(1) .. "b\n",
   "a\n"},
  {function() display("a\nb", "1") update("c", "1") update("d\ne", "1") end,
   "a\nb\n" .. up(2) .. "c\n" .. up(1) .. "d\ne\n", "a\nb\n"},
  -- a line that is folded, and colours that take no room
  {function() display(("x"):rep(41), "1") update("y", "1") end,
   ("x"):rep(41) .. "\n" .. up(3) .. "y\n", ("x"):rep(41) .. "\n"},
  {function() display("\27[31mred\27[0m", "1") update("y", "1") end,
   "\27[31mred\27[0m\n" .. up(1) .. "y\n", "\27[31mred\27[0m\n"},
  -- others wrote in between
  {function() display("a", "1") print "p" update("b", "1") end, "a\np\nb\n",
   "a\np\n"},
  {function() display("a", "1") io.write "w\n" update("b", "1") end,
   "a\nw\nb\n", "a\nw\n"},
  {function() display("a", "1") io.stdout:write "w\n" update("b", "1") end,
   "a\nw\nb\n", "a\nw\n"},
  {function() display("a", "1") display("b", "2") update("c", "1") end,
   "a\nb\nc\n", "a\nb\n"},
  {function() display("a", "1") terminal("execute_input", {})
     update("b", "1") end, "a\nb\n", "a\n"},
  -- clearing
  {function() display "a" display "b" terminal("clear_output", {})
     display "c" end, "a\nb\n" .. up(2) .. "c\n", "a\nb\nc\n"},
  {function() display "a" terminal("clear_output", {wait = true})
     display "c" end, "a\n" .. up(1) .. "c\n", "a\nc\n"},
  {function() print "p" terminal("clear_output", {}) display "c" end,
   "p\nc\n", "p\nc\n"},
  {function() display "a" terminal("clear_output", {wait = true}) print "p"
     display "c" end, "a\np\nc\n", "a\np\nc\n"},
  -- what has no text, or is for others
  {function() terminal("display_data", {data = {}}) end, "", ""},
  {function() terminal("comm_msg", {data = {}}) end, "", ""},
  {function() terminal("error", {traceback = {"x", "y"}}) end, "x\ny\n",
   "x\ny\n"},
  {function() terminal("error", {traceback = {}}) end, "", ""},
  {function() terminal("execute_result", {data = {["text/plain"] = "5"}}) end,
   "5\n", "5\n"},
}

function tests.messages()
  for i, row in ipairs(rows) do
    lu.assertEquals(printed(true, row[1]), row[2], "row " .. i)
    lu.assertEquals(printed(false, row[1]), row[3], "row " .. i)
  end
end

function tests.colours()
  local isatty, term = core.isatty, os.getenv "TERM"
  core.isatty = function() return true end
  core.setenv("TERM", "xterm")
  core.setenv "NO_COLOR"
  local text = paint.lua "local x = 'a' -- b\n\xff [[open"
  lu.assertStrContains(text, "\27[35mlocal\27[0m x = \27[33m'a'\27[0m")
  lu.assertEquals(helper.bare(text),
                  "local x = 'a' -- b\n\xff [[open")
  core.setenv("NO_COLOR", "1")
  lu.assertEquals(paint.failure "x", "x")
  core.setenv "NO_COLOR"
  core.setenv("TERM", "dumb")
  lu.assertEquals(paint.failure "x", "x")
  core.setenv("TERM", term)
  core.isatty = isatty
end

return tests
