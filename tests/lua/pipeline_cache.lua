-- pipeline_cache.lua - elements kept after the first epoch, in memory or files.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local sources = require "tide.data.pipeline_sources"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local function temporary()
  local path = os.tmpname()
  os.remove(path)
  return path
end

-- How many files there are like a pattern.
local function files(pattern)
  local p = io.popen("ls -d " .. pattern .. " 2> /dev/null | wc -l")
  local n = p:read "n"
  p:close()
  return n
end

-- n rows: a column of numbers and one of strings.
local function rows(n, o)
  local x, name = {}, {}
  for i = 1, n do x[i], name[i] = i, ("row %d"):format(i) end
  return sources.rows({x = core.tensor(x, "int64"), name = name}, o)
end

-- What a loop gives, "epoch:x epoch:x".
local function run(loop, parts)
  parts = parts or {}
  for e in loop do
    local list = e.x.rank == 0 and {e.x:item()} or e.x:table()
    parts[#parts + 1] = e.epoch .. ":" .. table.concat(list, ",")
    local name = e.name.rank == 0 and e.name:item() or e.name:table()[1]
    assert(name == "row " .. list[1], name)
  end
  return parts
end

-- Draws of a map of the first epoch stay.
function tests.epochs_are_alike()
  for _, path in ipairs{false, temporary()} do
    local p = rows(70):map(function(e)
      return {x = e.x, r = td.random_uniform({})}
    end, {seed = 3}):cache(path or nil)
    local seen = {}
    for e in p:batches(nil, {epochs = 3}) do
      local x = e.x:item()
      seen[x] = seen[x] or e.r:item()
      lu.assertEquals(e.r:item(), seen[x])
      lu.assertEquals(x, (e.step - 1) % 70 + 1)
    end
    lu.assertEquals(#seen, 70)
    if path then os.remove(path) end
  end
end

local makers = {
  plain = function(p, path) return p:cache(path) end,
  shuffled_before = function(p, path)
    return p:shuffle(5, {seed = 3}):cache(path)
  end,
  shuffled_behind = function(p, path)
    return p:cache(path):shuffle(5, {seed = 3})
  end,
  both = function(p, path)
    return p:shuffle(4, {seed = 3}):cache(path):shuffle(5, {seed = 9})
  end,
  repeated = function(p, path) return p:cache(path):repeat_(2) end,
  cut = function(p, path) return p:cache(path):take(4) end,
  cut_shuffled = function(p, path)
    return p:shuffle(5, {seed = 2}):cache(path):take(3)
  end,
  repeated_and_cut = function(p, path)
    return p:cache(path):repeat_():take(17)
  end,
  taken_before = function(p, path) return p:take(6):cache(path):batch(4) end,
  twice = function(p, path)
    return p:cache(path):batch(2):cache(path and path .. "2")
  end,
  batched = function(p, path)
    return p:shuffle(5, {seed = 3}):batch(2):cache(path):shuffle(3, {seed = 1})
  end,
}

-- Ended after each element and gone on with elsewhere: the same as in one go.
-- With a path the file may be there then, or not.
local function goes_on(make, path, keep)
  local function loop()
    return make(rows(9, {seed = 5, shuffle = true}), path)
      :batches(nil, {epochs = 3})
  end
  local function remove()
    if path then os.remove(path) os.remove(path .. "2") end
  end
  remove()
  local want = run(loop())
  for cut = 0, #want do
    remove()
    local first, parts = loop(), {}
    for _ = 1, cut do
      local e = first()
      parts[#parts + 1] = e.epoch .. ":" .. table.concat(
        e.x.rank == 0 and {e.x:item()} or e.x:table(), ",")
    end
    local state = first:state()
    first:close()
    if not keep then remove() end
    local second = loop():restore(state)
    run(second, parts)
    lu.assertEquals(parts, want, ("after %d"):format(cut))
  end
  remove()
  return want
end

for name, make in pairs(makers) do
  tests["state_" .. name] = function()
    local want = goes_on(make)
    local path = temporary()
    lu.assertEquals(goes_on(make, path, true), want)
    lu.assertEquals(goes_on(make, path, false), want)
  end
end

-- A state of a state: restored twice in each epoch.
function tests.states_of_states()
  local function loop()
    return rows(7, {shuffle = true, seed = 2}):cache():shuffle(3, {seed = 4})
      :batches(nil, {epochs = 4})
  end
  local want, it, parts = run(loop()), loop(), {}
  while true do
    local e = it()
    if not e then break end
    parts[#parts + 1] = e.epoch .. ":" .. e.x:item()
    it = loop():restore(it:state())
  end
  lu.assertEquals(parts, want)
end

-- Without the cache, too: what is cut short is not drawn once more.
function tests.cut_and_restored()
  local function loop()
    return rows(40, {shuffle = true, seed = 2}):shuffle(5, {seed = 4}):take(3)
      :batches(nil, {epochs = 4})
  end
  local want = run(loop())
  for cut = 0, #want do
    local it, parts = loop(), {}
    for _ = 1, cut do
      local e = it()
      parts[#parts + 1] = e.epoch .. ":" .. e.x:item()
    end
    run(loop():restore(it:state()), parts)
    lu.assertEquals(parts, want)
  end
end

function tests.a_whole_file_is_used()
  local path = temporary()
  local want = run(rows(9):cache(path):batches())
  lu.assertEquals(files(path .. "*"), 1)
  -- Other rows, and yet what was kept.
  lu.assertEquals(run(rows(3):cache(path):batches()), want)
  raises("remove it", run, rows(3):map(function(e)
    return {x = td.cast(e.x, "int32"), name = e.name}
  end):cache(path):batches())
  raises("shape", run, rows(6):batch(2):cache(path):batches())
  os.remove(path)
  lu.assertEquals(#run(rows(3):cache(path):batches()), 3)
  os.remove(path)
end

function tests.a_cut_epoch_leaves_no_file()
  local path = temporary()
  lu.assertEquals(#run(rows(300):cache(path):take(3)
    :batches(nil, {epochs = 2})), 6)
  collectgarbage()
  lu.assertEquals(files(path .. "*"), 0)
  local it = rows(300):cache(path):batches()
  for _ = 1, 100 do it() end
  it:close()
  it = nil -- luacheck: ignore
  collectgarbage()
  lu.assertEquals(files(path), 0)
end

function tests.errors_are_not_kept()
  for _, path in ipairs{false, temporary()} do
    local p = sources.rows{s = {"1", "2", "x", "4"}}:map(function(e)
      return {x = td.string_to_number(e.s)}
    end):cache(path or nil)
    local it, parts = p:batches(nil, {epochs = 2}), {}
    for i = 1, 9 do
      local ok, e = pcall(it)
      parts[i] = not ok and "error" or e and e.x:item() or "end"
    end
    lu.assertEquals(parts, {1.0, 2.0, "error", 4.0, 1.0, 2.0, "error", 4.0,
                            "end"})
    it:close()
    if path then lu.assertEquals(files(path), 0) end
  end
end

function tests.places_that_are_none()
  raises("no path", function() return rows(3):cache "" end)
  raises("cache: path", function() return rows(3):cache(3) end)
  raises("/nowhere/", run, rows(3):cache("/nowhere/x"):batches())
  raises("No such file", run, rows(3):cache("/nowhere/x"):batches())
  lu.assertStrContains(tostring(rows(3):cache "c"), "cache(c)")
end

return tests
