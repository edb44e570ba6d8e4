--- debug/files.lua - files as a debugger names them.
--
-- A cell's file is named by a hash of its text, as Jupyter's clients do it;
-- other chunks by their path. Source: "debug request" in Jupyter's messaging
-- protocol.
-- SPDX-License-Identifier: Apache-2.0

local active_lines = require "tide.debug.active_lines"
local cell = require "tide.console.cell"
local json = require "tide.base.json"
local sources = require "tide.console.sources"

local MOST = 1000 -- cells whose text is kept

local files = {}

--- How the file of a cell is named.
files.seed = 0xc70f6907
files.prefix, files.suffix = "/tmp/tide_cells/", ".lua"

local dumped = {} -- path = text of a cell
local dumps = {}  -- their paths, the oldest first
local ran = {}    -- chunk name = {text =, path =}
local n_ran = 0

-- ---- names ------------------------------------------------------------------

-- MurmurHash2 with 32 bits, of Austin Appleby's.
local function murmur(text, seed)
  local m, n = 0x5bd1e995, #text
  local h = (seed ~ n) & 0xffffffff
  for i = 1, n - n % 4, 4 do
    local k = ("<I4"):unpack(text, i) * m & 0xffffffff
    k = (k ~ k >> 24) * m & 0xffffffff
    h = h * m & 0xffffffff ~ k
  end
  if n % 4 > 0 then
    local rest = text:sub(n - n % 4 + 1)
    h = (h ~ ("<I4"):unpack(rest .. ("\0"):rep(4 - #rest))) * m & 0xffffffff
  end
  h = (h ~ h >> 13) * m & 0xffffffff
  return h ~ h >> 15
end

local function cell_path(text)
  return files.prefix .. murmur(text, files.seed) .. files.suffix
end

--- The file of a chunk ("=In[3]", "@file.lua"); nil for Tide's own and C.
function files.path(name)
  if name:find "^@" then return name:sub(2) end
  local text = name:find "^=In%[" and sources.text(name)
  if not text then return nil end
  local known = ran[name]
  if not known then
    if n_ran == MOST then ran, n_ran = {}, 0 end
    n_ran = n_ran + 1
  end
  if not known or known.text ~= text then
    known = {text = text, path = cell_path(text)}
    ran[name] = known
  end
  return known.path
end

--- Keeps the text of a cell; its path.
function files.dump(text)
  local path = cell_path(text)
  if not dumped[path] then table.insert(dumps, path) end
  dumped[path] = text
  if #dumps > MOST then dumped[table.remove(dumps, 1)] = nil end
  return path
end

-- ---- what is in them --------------------------------------------------------

--- The text of a file; nil where it is not known.
function files.text(path)
  if dumped[path] then return dumped[path] end
  for _, known in pairs(ran) do
    if known.path == path then return known.text end
  end
  return sources.text("@" .. path)
end

-- A cell's chunk is what stands under its %%command.
local function chunk_of(path, text)
  if path:sub(1, #files.prefix) ~= files.prefix then
    return load(text, "@" .. path, "t")
  end
  local _, _, body, from = cell.cell_command(text)
  if body then text = ("\n"):rep(from - 1) .. body end
  return cell.check(text)
end

--- {[line] = true} of the lines of a file that have code; nil and why not.
function files.lines(path)
  local text = files.text(path)
  if not text then return nil, "the text of " .. path .. " is not known" end
  local chunk, why = chunk_of(path, text)
  if not chunk then return nil, why end
  return active_lines(chunk)
end

--- The files that were loaded by require: a list of {id =, name =, path =}.
function files.modules()
  local list = json.array{}
  for name in pairs(package.loaded) do
    local path = type(name) == "string" and not package.preload[name]
      and package.searchpath(name, package.path)
    if path then list[#list + 1] = {id = name, name = name, path = path} end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

return files
