--- console/system.lua - Lua's own io and os where a console runs them.
--
-- In a notebook standard input is whoever sits in front of it, who may not be
-- asked, and os.exit ends the cell, not the kernel. Children (os.execute,
-- io.popen) are groups of processes that an interrupt ends.
-- SPDX-License-Identifier: Apache-2.0

local frontend = require "tide.frontend"
local lines = require "tide.frontend.lines"

local system = {}

local installed = false

local function replace(library, name, f) library[name] = f end

-- ---- standard input ---------------------------------------------------------

local function may_ask()
  if lines.current().allow_stdin == false then
    error("no input here: whoever runs this cell takes no questions "
          .. "(allow_stdin is false)", 0)
  end
end

--- Asks the user for a line: its text; nil and why there is none.
function system.ask(prompt, password)
  may_ask()
  io.stdout:flush()
  return frontend.input(prompt, password)
end

-- What reads standard input first sees whether it may.
local function install_input()
  local methods = getmetatable(io.stdin).__index
  for _, f in ipairs{{methods, "read"}, {methods, "lines"}, {io, "read"},
                     {io, "lines"}} do
    local library, name = f[1], f[2]
    local old = library[name]
    replace(library, name, function(...)
      local file = library == methods and ... or io.input()
      local named = library == io and name == "lines" and ... ~= nil
      if file == io.stdin and not named then may_ask() end
      return old(...)
    end)
  end
end

-- ---- leaving ----------------------------------------------------------------

local exit = setmetatable({}, {__name = "SystemExit"})
exit.__index = exit
exit.__name = "SystemExit"

function exit.__tostring(e) return "exit " .. e.code end

local function leave(code)
  if code == nil or code == true then code = 0 end
  if code == false then code = 1 end
  error(setmetatable({code = tostring(math.tointeger(code) or code)}, exit))
end

--- The code, as text, of what os.exit raised in a notebook; nil for others.
function system.exit_code(err)
  return getmetatable(err) == exit and err.code or nil
end

-- ---- children ---------------------------------------------------------------

--- Puts ours in place, once.
function system.install()
  if installed then return end
  replace(os, "execute", frontend.execute)
  replace(io, "popen", frontend.popen)
  if frontend.kind == "notebook" then
    install_input()
    replace(os, "exit", leave)
  end
  installed = true
end

return system
