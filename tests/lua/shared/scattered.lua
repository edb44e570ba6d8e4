-- scattered.lua - the same graph on devices drawn for each node: the same bits.
--
-- On two CPU devices, and on the test device or what TIDE_DEVICE names where
-- there is one. Each part goes through GraphDef's bytes as well.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local rng = require "tide.base.rng"

local scattered = {}

local places = {"/CPU:0", "/CPU:1"}
local under_test = (os.getenv "TIDE_DEVICE" or "TEST") .. ":0"
for _, d in ipairs(td.devices()) do
  if d:find(under_test, 1, true) then places[3] = "/device:" .. under_test end
end

-- What holds a resource stays with it.
local function holds_resource(op)
  for _, list in ipairs{op.inputs, op.outputs} do
    for _, x in ipairs(list) do
      if x and x.dtype == "resource" then return true end
    end
  end
  return false
end

-- A device for each op, drawn.
local function scatter(seed)
  local random = rng.new(seed)
  return function(op)
    local place = places[1 + math.floor(random:uniform(0, 1) * #places)]
    return not holds_resource(op) and place or nil
  end
end

-- The results, and what there is to run before, with and after them.
local function run(session, ys, xs, values, more)
  local how = {as_values = true, timeout = 120}
  if not more then return session:core_run(ys, xs, values, how) end
  local fetches = table.move(ys, 1, #ys, 1, {})
  table.move(more.targets, 1, #more.targets, #ys + 1, fetches)
  session:core_run({more.before}, {}, {}, how)
  local all = session:core_run(fetches, xs, values, how)
  local got = table.move(all, 1, #ys, 1, {})
  got[#ys + 1] = session:core_run({more.after}, {}, {}, how)[1]
  return got
end

-- What build(device) gives: a list of results, of feeds and of their values.
local function outcome(build, device, o)
  local g = core.graph_new()
  local _ <close> = core.push{graph = g}
  local ys, xs, values, more = td.device(device, build)
  local session <close> = core.session(g, o)
  return run(session, ys, xs, values, more)
end

--- Runs what `build` builds on one device, and on several in `times` ways.
-- @param build function: builds it in the current graph; gives lists of
-- results, of what is fed, of the values; perhaps what there is to run besides
function scattered.check(build, times)
  local want = outcome(build, nil, {cpu_devices = 1})
  local function same(seed, o)
    local got = outcome(build, scatter(seed), o)
    for i, v in ipairs(want) do
      lu.assertTrue(core.same(v, got[i]), ("seed %d, result %d: %s, not %s")
        :format(seed, i, tostring(got[i]), tostring(v)))
    end
  end
  for seed = 1, times do same(seed, {cpu_devices = 2}) end
  same(3, {cpu_devices = 2, roundtrip = true})
  same(4, {cpu_devices = 2, threads = 1})
end

return scattered
