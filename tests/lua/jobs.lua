-- jobs.lua - signals that tell a job to go, and what is written of a run.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local signals = require "tide.script.signals"

local raises = helper.raises
local tests = {}

local function send(name)
  os.execute(("kill -%s $PPID"):format(name))
end

-- ---- signals ---------------------------------------------------------------

function tests.signals()
  for _, name in ipairs{"TERM", "USR1"} do
    local heard = signals.open()
    lu.assertNil(heard:asked())
    send(name)
    lu.assertEquals(heard:asked(), "SIG" .. name)
    send "TERM"
    lu.assertEquals(heard:asked(), "SIG" .. name, "the first counts")
    lu.assertEquals(heard:close(), "SIG" .. name)
    lu.assertEquals(heard:close(), "SIG" .. name)
    lu.assertEquals(heard:asked(), "SIG" .. name)
  end
end

-- Several are open: each hears, and the handlers stay until the last is closed.
function tests.signals_counted()
  local one, two = signals.open(), signals.open()
  lu.assertNil(one:close())
  lu.assertNil(one:close())
  send "TERM"
  lu.assertEquals(two:asked(), "SIGTERM")
  lu.assertNil(one:asked())
  do
    local _ <close> = signals.open()
    send "TERM"
  end
  lu.assertEquals(two:close(), "SIGTERM")
  local fresh <close> = signals.open()
  lu.assertNil(fresh:asked(), "what came before is forgotten")
end

-- One that nobody closed is closed by the collector.
function tests.signals_forgotten()
  signals.open()
  collectgarbage()
  collectgarbage()
  local first <close> = signals.open()
  send "USR1"
  lu.assertEquals(first:asked(), "SIGUSR1")
end

-- A step that runs is not interrupted, nor is a wait for one.
function tests.signals_leave_steps_alone()
  local heard <close> = signals.open()
  local n = td.while_loop(function(i) return i:less(20000) end,
                          function(i) return i + 1 end, {0})
  local sess = td.session()
  os.execute "pid=$PPID; (sleep 0.02; kill -TERM $pid; kill -USR1 $pid) &"
  local runs = 0
  repeat
    lu.assertEquals(sess:run(n), 20000)
    runs = runs + 1
  until heard:asked() or runs == 1000
  lu.assertEquals(heard:asked(), "SIGTERM")
  lu.assertEquals(sess:run(n), 20000)
end

function tests.exit_codes()
  lu.assertEquals(signals.exit_code(), 0)
  raises("0 to 255", signals.exit_with, 256)
  raises("must be an integer", signals.exit_with, "1")
  signals.exit_with(0)
  lu.assertEquals(signals.AGAIN, 75)
end

return tests
