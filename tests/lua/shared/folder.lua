-- folder.lua - folders that go with a test, and what is in them; a variable to
-- be saved there.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local td = require "tide"

local folder = {}

-- A folder that goes with the test: dir "model" is a path in it.
function folder.temp()
  local path = os.tmpname()
  os.remove(path)
  core.mkdirs(path)
  return setmetatable({path = path}, {
    __call = function(_, name) return path .. "/" .. name end,
    __close = function() os.execute("rm -rf '" .. path .. "'") end,
  })
end

-- Names in a folder, sorted, but for locks.
function folder.names(dir)
  local list = {}
  for name in core.list(dir.path):gmatch "([^\0]+)\0" do
    if not name:find "%.lock$" then list[#list + 1] = name end
  end
  table.sort(list)
  return table.concat(list, " ")
end

-- The steps of the checkpoints that are there: "3 4 5".
function folder.steps(dir)
  local list = {}
  for name in core.list(dir.path):gmatch "([^\0]+)\0" do
    list[#list + 1] = math.tointeger(name:match "%-(%d+)%.index$")
  end
  table.sort(list)
  return table.concat(list, " ")
end

function folder.read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

function folder.write(path, bytes)
  local f <close> = assert(io.open(path, "wb"))
  f:write(bytes)
end

-- What f(...) says on stderr, and gives.
function folder.told(f, ...)
  local text, stderr = {}, io.stderr
  rawset(io, "stderr", {flush = function() end, write = function(_, ...)
    text[#text + 1] = table.concat{...}
  end})
  local result = table.pack(pcall(f, ...))
  rawset(io, "stderr", stderr)
  if not result[1] then error(result[2], 0) end
  return table.concat(text), table.unpack(result, 2, result.n)
end

-- A variable w of 4 floats that counts up, its session and step.
function folder.counter(o)
  local w = td.variable({0.0, 1.0, 2.0, 3.0}, "w")
  local sess = td.session(o)
  sess:init()
  return w, sess, w:assign_add{1.0, 1.0, 1.0, 1.0}.op
end

return folder
