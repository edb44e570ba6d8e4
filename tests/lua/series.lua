-- series.lua - every tutorial's net trains to the same bits on 1 and 2 threads.
--
-- A tutorial is run until it asks for a session; then its training op is run on
-- made-up batches in sessions of our own. In smoke mode, and under TIDE_SOAK in
-- full size.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local rng = require "tide.base.rng"
local nets = require "shared.nets"

local tests = {}
local soak = os.getenv "TIDE_SOAK" ~= nil
local STEPS = soak and 60 or 4

-- The local variables of the function that called our caller.
local function locals_of_caller()
  local found, i = {}, 1
  while true do
    local name, value = debug.getlocal(3, i)
    if not name then return found end
    found[name], i = value, i + 1
  end
end

-- A tutorial's locals when it asks for a session.
local function catch(name)
  local path, found = "tutorials/" .. name .. ".lua", nil
  local outer, printing, session = rawget(_G, "arg"), print, td.session
  rawset(_G, "arg", {[0] = path, not soak and "--smoke" or nil})
  rawset(_G, "print", function() end)
  rawset(td, "session", function()
    found = locals_of_caller()
    error "caught"
  end)
  local ok, e = pcall(assert(loadfile(path)))
  rawset(td, "session", session)
  rawset(_G, "print", printing)
  rawset(_G, "arg", outer)
  assert(not ok and found, name .. ": " .. tostring(e))
  return found
end

-- A value for a placeholder: what the net's row says, or numbers in its range.
local function value_for(op, net, random)
  if net.feeds and net.feeds[op.name] then return net.feeds[op.name] end
  local x, n, shape = op.outputs[1], 1, {}
  for i, d in ipairs(x.shape) do
    shape[i] = d < 0 and 32 or d
    n = n * shape[i]
  end
  local range, list = net.ranges and net.ranges[op.name] or {0, 1}, {}
  for i = 1, n do
    list[i] = random:uniform(range[1], range[2])
    if x.dtype:find "int" then list[i] = math.floor(list[i]) end
  end
  return td.reshape(td.tensor(list, x.dtype), shape)
end

local function feeds_for(net)
  local feeds, random = {}, rng.new(5)
  for _, op in ipairs(td.get_default_graph():ops()) do
    if op.type == "Placeholder" then
      feeds[op.outputs[1]] = value_for(op, net, random)
    end
  end
  return feeds
end

local function losses(loss, train, feeds, threads)
  local sess <close> = td.session{threads = threads}
  sess:init()
  local list = {}
  for i = 1, STEPS do
    list[i] = ("%a"):format(sess:run({loss, train}, feeds)[1])
  end
  return list
end

for _, net in ipairs(nets.list) do
  if not net.make then
    tests[net.name] = function()
      local found = catch(net.tutorial or net.name)
      local loss = found[net.loss or "loss"]
      local train = found[net.train or "train"]
      local feeds = feeds_for(net)
      local one = losses(loss, train, feeds, 1)
      lu.assertEquals(losses(loss, train, feeds, 2), one)
      lu.assertNotEquals(one[1], one[STEPS], "it does not learn")
    end
  end
end

return tests
