--- console/system.lua - Lua's own io and os where a console runs them.
--
-- In a notebook standard input is whoever sits in front of it, and os.exit ends
-- the cell, not the kernel. Children (os.execute, io.popen) are groups of
-- processes that an interrupt ends.
-- SPDX-License-Identifier: Apache-2.0

local front = require "tide.front"

local system = {}

local function replace(library, name, f) library[name] = f end

-- ---- standard input ---------------------------------------------------------

local pending = "" -- typed and not yet read

local function line_state()
  return require "tide.console".line(front.line())
end

--- Asks the user for a line: its text; nil and why there is none.
function system.ask(prompt, password)
  if line_state().allow_stdin == false then
    error("no input here: whoever runs this cell takes no questions "
          .. "(allow_stdin is false)", 3)
  end
  io.stdout:flush()
  return front.input(prompt, password)
end

-- More text; false at the end of input.
local function more()
  local text = system.ask("", false)
  if text then pending = pending .. text .. "\n" end
  return text ~= nil
end

local function take(n)
  local text = pending:sub(1, n)
  pending = pending:sub(n + 1)
  return text
end

local function read_line(with_end)
  while not pending:find("\n", 1, true) do
    if not more() then break end
  end
  if pending == "" then return nil end
  local stop = pending:find("\n", 1, true)
  local text = take(stop or #pending)
  return with_end and text or (text:gsub("\n$", ""))
end

local function read_bytes(n)
  while #pending < math.max(n, 1) and more() do end
  if pending == "" then return nil end
  return take(n)
end

local function read_number()
  while not pending:find "%S" do
    if not more() then return nil end
  end
  pending = pending:gsub("^%s+", "")
  local word = pending:match "^[+-]?[%w.]+[+-]?[%w.]*"
  while word and not tonumber(word) do
    word = #word > 1 and word:sub(1, -2) or nil
  end
  take(word and #word or 1)
  return word and tonumber(word)
end

local function read_one(format)
  if math.type(format) == "integer" then return read_bytes(format) end
  local kind = tostring(format):gsub("^%*", ""):sub(1, 1)
  if kind == "l" then return read_line(false) end
  if kind == "L" then return read_line(true) end
  if kind == "n" then return read_number() end
  if kind == "a" then
    while more() do end
    return take(#pending)
  end
  error("bad argument to 'read' (invalid format)", 3)
end

local function read(...)
  local formats = table.pack(...)
  if formats.n == 0 then return read_line(false) end
  local got = {}
  for i = 1, formats.n do
    got[i] = read_one(formats[i])
    if got[i] == nil then return table.unpack(got, 1, i) end
  end
  return table.unpack(got, 1, formats.n)
end

local function lines(...)
  local formats = table.pack(...)
  return function() return read(table.unpack(formats, 1, formats.n)) end
end

local function install_input()
  local methods = getmetatable(io.stdin).__index
  local file_read, file_lines, io_lines = methods.read, methods.lines, io.lines
  function methods.read(file, ...)
    if file == io.stdin then return read(...) end
    return file_read(file, ...)
  end
  function methods.lines(file, ...)
    if file == io.stdin then return lines(...) end
    return file_lines(file, ...)
  end
  replace(io, "read", function(...) return io.input():read(...) end)
  replace(io, "lines", function(name, ...)
    if name == nil then return io.input():lines(...) end
    return io_lines(name, ...)
  end)
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

--- Ends the children that this line reads from or writes to.
function system.interrupt()
  front.interrupt_children()
end

--- Puts ours in place, once.
function system.install()
  system.install = function() end
  replace(os, "execute", front.execute)
  replace(io, "popen", front.popen)
  if front.kind ~= "notebook" then return end
  install_input()
  replace(os, "exit", leave)
end

return system
