--- console/sources.lua - the text of what ran: cells, kept, and files.
--
-- A traceback, an inspection and `??name` show lines of it. The newest cells
-- are kept, up to a number of bytes; files are read when they are asked for.
-- SPDX-License-Identifier: Apache-2.0

local sources = {}

local MOST = 4 << 20    -- bytes of cells kept
local LONGEST = 8 << 20 -- bytes of a file worth reading

-- Names in the order they came, order[first] to order[last].
local texts, order, first, last, held = {}, {}, 1, 0, 0

local function forget_oldest()
  local name = order[first]
  order[first] = nil
  first = first + 1
  held = held - #texts[name]
  texts[name] = nil
end

--- Keeps the text of the chunk `name` ("In[3]"); a later one takes its place.
function sources.keep(name, text)
  if texts[name] then
    held = held - #texts[name]
  else
    last = last + 1
    order[last] = name
  end
  texts[name] = text
  held = held + #text
  while held > MOST and order[first] ~= name do forget_oldest() end
end

local function read(path)
  local file <close> = io.open(path, "rb")
  local size = file and file:seek "end"
  if not size or size > LONGEST then return nil end
  file:seek "set"
  return file:read "a"
end

--- The text of a chunk as debug.getinfo names it ("=In[3]", "@train.lua"), or
-- as an origin does ("In[3]", "train.lua"); nil where it is not known.
function sources.text(name)
  if name:find "^@" then return read(name:sub(2)) end
  if name:find "^=" then return texts[name:sub(2)] end
  return texts[name] or read(name)
end

--- Lines from..to of a chunk, a list that begins at `from`; nil where it is not
-- known or has no such line.
function sources.lines(name, from, to)
  local text = sources.text(name)
  if not text then return nil end
  local list, n = {}, 0
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    n = n + 1
    if n > to then break end
    if n >= from then list[#list + 1] = (line:gsub("\r$", "")) end
  end
  return list[1] and list or nil
end

return sources
