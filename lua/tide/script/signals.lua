--- script/signals.lua - a job that is told to go: SIGTERM and SIGUSR1.
--
--   local heard = signals.open()
--   while not heard:asked() do train() end
--   save()
--   if heard:close() then signals.exit_with(signals.AGAIN) end
--
-- While one is open, neither signal ends the process: it is only noted, and a
-- step that runs goes on. Asking costs a function call, so it can be done at
-- each step. In a notebook the kernel hears SIGTERM all the same, and shuts
-- down in its own way.
--
-- `tide FILE.lua` ends with the code of exit_with when the script has come to
-- its end without an error. The prompt and the notebook are not ended by it,
-- nor is it for os.exit, which has a code of its own. Under a stock lua5.4 the
-- script has to call os.exit(signals.exit_code()).
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local has_frontend, frontend = pcall(require, "tide.frontend")

local signals = {}
local heard = {__name = "signals"}
heard.__index = heard

--- The exit code of a job that saved its state and wants to be started again
-- (the EX_TEMPFAIL that mailers know).
signals.AGAIN = 75

local code = 0

--- Hears SIGTERM and SIGUSR1 from now on. Several may be open; what was there
-- before comes back when the last is closed.
-- @return an object with :asked(), :close() and __close
function signals.open()
  local notebook = has_frontend and frontend.kind == "notebook"
  return setmetatable({handle = core.signals_open(notebook)}, heard)
end

--- "SIGTERM" or "SIGUSR1", whichever came first since signals were opened; nil.
function heard:asked()
  if self.handle then return core.signals_asked() end
  return self.last
end

--- Hears no more. Gives what :asked() would: a signal that came after the last
-- question is not lost.
function heard:close()
  if self.handle then
    self.last = core.signals_close(self.handle)
    self.handle = nil
  end
  return self.last
end

function heard:__close()
  self:close()
end

function heard:__tostring()
  return ("Signals, %s%s"):format(self.handle and "heard" or "closed",
    self:asked() and ": " .. self:asked() .. " came" or "")
end

--- The process is to end with this code once the script has ended well.
-- @param n 0 to 255
function signals.exit_with(n)
  args.expect(n, "integer", "exit_with: the code")
  args.expect_number(n, "exit_with: the code", 0, 255)
  code = n
end

--- The code that exit_with set, 0 without one.
function signals.exit_code()
  return code
end

return signals
