--- dqn.lua - a pole balanced on a cart by trial and error: deep Q-learning.
-- Sources: Mnih et al. 2015; the cart and its equations: Barto, Sutton and
-- Anderson 1983, with Florian's correction of 2007 (without friction).
--
-- The cart lives in Lua; the graph values the two pushes in each state, and
-- learns from a ring of what happened. Now and then a push is drawn, so that
-- something new is seen. Who draws? The graph can, by td.cond, or the program,
-- which asks the graph only when it needs the values: both are timed.
--
--   tide tutorials/dqn.lua --episodes 400
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local clock = require "tide.core".clock -- seconds

local flags = td.flags{episodes = 300, steps = 200, units = 64, batch = 64,
                       ring = 50000, discount = 0.99, lr = 5e-4, follow = 0.005,
                       calls = 2000, seed = 1, in_graph = false, smoke = false}
if flags.smoke then
  flags.episodes, flags.units, flags.batch, flags.calls = 4, 8, 8, 50
end
td.seed(flags.seed)
math.randomseed(flags.seed)

-- ---- the cart --------------------------------------------------------------

local gravity, cart, pole, half, force, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

-- A state: place, speed, angle of the pole, its speed; metres and radians.
local function begin()
  local s = {}
  for i = 1, 4 do s[i] = math.random() * 0.1 - 0.05 end
  return s
end

-- The state tau seconds after a push to the left (0) or right (1), and whether
-- the cart left its track or the pole fell.
local function push(s, action)
  local x, v, angle, turn = table.unpack(s)
  local sin, cos = math.sin(angle), math.cos(angle)
  local mass = cart + pole
  local f = (action == 1 and force or -force) + pole * half * turn ^ 2 * sin
  local bend = (gravity * sin - cos * f / mass)
    / (half * (4 / 3 - pole * cos ^ 2 / mass))
  local next = {x + tau * v, v + tau * (f - pole * half * bend * cos) / mass,
                angle + tau * turn, turn + tau * bend}
  return next, math.abs(next[1]) > 2.4 or math.abs(next[3]) > math.rad(12)
end

-- ---- the graph -------------------------------------------------------------

local function network(name)
  return td.layers.sequential({
    td.layers.dense(flags.units, {activation = td.relu}),
    td.layers.dense(flags.units, {activation = td.relu}),
    td.layers.dense(2),
  }, {name = name})
end
local values, target = network "values", network "target"

local states = td.placeholder("float32", {-1, 4}, "states")
local actions = td.placeholder("int32", {-1}, "actions")
local rewards = td.placeholder("float32", {-1}, "rewards")
local nexts = td.placeholder("float32", {-1, 4}, "nexts")
local alive = td.placeholder("float32", {-1}, "alive")
local epsilon = td.placeholder("float32", {}, "epsilon")

-- What a push is worth: its reward, and what the target network, an older one,
-- sees behind the push that the newer one would choose there (van Hasselt et
-- al. 2016).
local chosen = values(nexts):argmax(1)
local after = (target(nexts) * td.one_hot(chosen, 2)):sum(1)
local worth = td.stop_gradient(rewards + flags.discount * alive * after)
local q = values(states)
local given = (q * td.one_hot(actions, 2)):sum(1)
local loss = td.losses.huber_loss(worth, given)
local train = td.train.adam(flags.lr):minimize(loss, {
  variables = values.variables, clip_norm = 10.0})

-- The target follows slowly (Lillicrap et al. 2016); at first both are the
-- same.
local copies, follows = {}, {}
for i, v in ipairs(values.variables) do
  local old = target.variables[i]
  copies[i] = old:assign(v)
  follows[i] = old:assign_sub(flags.follow * (old - v))
end
local copy, follow = td.group(copies), td.group(follows)

-- The push in one state, chosen by the graph: only the branch that is taken
-- runs.
local greedy = q:argmax(1)[0]:cast "int32"
local drawn = td.cond(td.random_uniform{}:less(epsilon),
  function()
    return td.random_uniform({}, {minval = 0, maxval = 2, dtype = "int32"})
  end,
  function() return values(states):argmax(1)[0]:cast "int32" end)

local sess <close> = td.session()
sess:init()
local best = sess:callable({greedy}, {states})
local by_graph = sess:callable({drawn}, {states, epsilon})
local step = sess:callable({loss, train, follow},
                           {states, actions, rewards, nexts, alive})
sess:run(copy)

local function in_graph(s, e) return by_graph({s}, e) end
local function by_client(s, e)
  if math.random() < e then return math.random(0, 1) end
  return best{s}
end
local choose = flags.in_graph and in_graph or by_client

-- ---- what happened ---------------------------------------------------------

local ring, count = {}, 0
local function keep(what)
  ring[count % flags.ring + 1] = what
  count = count + 1
end

local function learn()
  local s, a, r, n, l = {}, {}, {}, {}, {}
  for i = 1, flags.batch do
    local one = ring[math.random(#ring)]
    s[i], a[i], n[i] = one.state, one.action, one.next
    r[i], l[i] = 1.0, one.over and 0.0 or 1.0
  end
  step(s, a, r, n, l)
end

-- A reward of 1 for each push that leaves the pole up; time ends an episode
-- too, but nothing fell then.
local function play(e, learning)
  local s, sum = begin(), 0
  for _ = 1, flags.steps do
    local action = choose(s, e)
    local next, over = push(s, action)
    sum = sum + 1
    if learning then
      keep{state = s, action = action, next = next, over = over}
      if #ring >= flags.batch then learn() end
    end
    if over then break end
    s = next
  end
  return sum
end

local recent = 0
for i in td.progress(flags.episodes) do
  local e = math.max(0.02, 1 - 2 * i / flags.episodes)
  recent = recent + play(e, true)
  if i % 25 == 0 then
    print(("episode %d: mean return %.1f, epsilon %.2f"):format(i, recent / 25,
                                                              e))
    recent = 0
  end
end

-- ---- who draws -------------------------------------------------------------

local function seconds(how, e)
  local s, start = begin(), clock()
  for _ = 1, flags.calls do how(s, e) end
  return (clock() - start) / flags.calls
end
for _, e in ipairs{0.1, 0.9} do
  local graph, client = seconds(in_graph, e), seconds(by_client, e)
  print(("epsilon %.1f: %.1f us in the graph, %.1f us by the client: "
    .. "ratio %.2f"):format(e, graph * 1e6, client * 1e6, graph / client))
end

local sum, n = 0, flags.smoke and 2 or 20
for _ = 1, n do sum = sum + play(0, false) end
print(("mean return: %.1f of %d"):format(sum / n, flags.steps))
