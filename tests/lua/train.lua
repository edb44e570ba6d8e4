-- train.lua - optimizers against their formulas, dense and sparse.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

-- What n steps of an optimizer do to a number that starts at v, when the
-- gradient is always g.
local expect = {
  sgd = function(v, g, n) return v - 0.1 * g * n end,
  momentum = function(v, g, n)
    local a = 0
    for _ = 1, n do
      a = 0.9 * a + g
      v = v - 0.1 * a
    end
    return v
  end,
  nesterov = function(v, g, n)
    local a = 0
    for _ = 1, n do
      a = 0.9 * a + g
      v = v - 0.1 * g - 0.1 * 0.9 * a
    end
    return v
  end,
  adagrad = function(v, g, n)
    local a = 0.1
    for _ = 1, n do
      a = a + g * g
      v = v - 0.1 * g / math.sqrt(a)
    end
    return v
  end,
  adam = function(v, g, n)
    local m, u = 0, 0
    for t = 1, n do
      m, u = m + (g - m) * 0.1, u + (g * g - u) * 0.001
      local lr = 0.1 * math.sqrt(1 - 0.999 ^ t) / (1 - 0.9 ^ t)
      v = v - lr * m / (math.sqrt(u) + 1e-8)
    end
    return v
  end,
  rmsprop = function(v, g, n)
    local s, a = 1, 0
    for _ = 1, n do
      s = s + (g * g - s) * 0.1
      a = 0.5 * a + 0.1 * g / math.sqrt(s + 1e-10)
      v = v - a
    end
    return v
  end,
  centered = function(v, g, n)
    local s, m = 1, 0
    for _ = 1, n do
      s, m = s + (g * g - s) * 0.1, m + (g - m) * 0.1
      v = v - 0.1 * g / math.sqrt(s - m * m + 1e-10)
    end
    return v
  end,
  adadelta = function(v, g, n)
    local a, b = 0, 0
    for _ = 1, n do
      a = 0.95 * a + 0.05 * g * g
      local u = g * math.sqrt(b + 1e-8) / math.sqrt(a + 1e-8)
      v, b = v - 0.1 * u, 0.95 * b + 0.05 * u * u
    end
    return v
  end,
  -- Without pulls FTRL is adagrad from 0 on; the start counts as learnt.
  ftrl = function(v, g, n)
    local a, z = 0.1, 0
    for _ = 1, n do
      local more = a + g * g
      z = z + g - (math.sqrt(more) - math.sqrt(a)) / 0.1 * v
      a = more
      v = -z / (math.sqrt(a) / 0.1)
    end
    return v
  end,
  proximal_sgd = function(v, g, n)
    for _ = 1, n do
      v = v - 0.1 * g
      local size = math.max(math.abs(v) - 0.1 * 0.5, 0) / (1 + 0.1 * 0.25)
      v = v < 0 and -size or size
    end
    return v
  end,
  proximal_adagrad = function(v, g, n)
    local a = 0.1
    for _ = 1, n do
      a = a + g * g
      local r = 0.1 / math.sqrt(a)
      v = v - r * g
      local size = math.max(math.abs(v) - r * 0.5, 0) / (1 + r * 0.25)
      v = v < 0 and -size or size
    end
    return v
  end,
}

local make = {
  sgd = function(lr) return td.train.sgd(lr) end,
  momentum = function(lr) return td.train.momentum(lr, 0.9) end,
  nesterov = function(lr)
    return td.train.momentum(lr, 0.9, {nesterov = true})
  end,
  adagrad = function(lr) return td.train.adagrad(lr) end,
  adam = function(lr) return td.train.adam(lr) end,
  rmsprop = function(lr) return td.train.rmsprop(lr, {momentum = 0.5}) end,
  centered = function(lr) return td.train.rmsprop(lr, {centered = true}) end,
  adadelta = function(lr) return td.train.adadelta(lr) end,
  ftrl = function(lr) return td.train.ftrl(lr) end,
  proximal_sgd = function(lr)
    return td.train.proximal_sgd(lr, {l1 = 0.5, l2 = 0.25})
  end,
  proximal_adagrad = function(lr)
    return td.train.proximal_adagrad(lr, {l1 = 0.5, l2 = 0.25})
  end,
}
local all = {"sgd", "momentum", "nesterov", "adagrad", "adam", "rmsprop",
             "centered", "adadelta", "ftrl", "proximal_sgd",
             "proximal_adagrad"}

local function each(f)
  for _, name in ipairs(all) do
    td.reset()
    f(name, make[name], expect[name])
  end
end

function tests.dense()
  each(function(name, optimizer, formula)
    local v = td.variable({1.0, 2.0}, "v")
    local step = optimizer(0.1):minimize((v * {0.5, -3.0}):sum())
    local s = td.session()
    s:init()
    for _ = 1, 3 do lu.assertTrue(s:run(step)) end
    gives({formula(1, 0.5, 3), formula(2, -3, 3)}, s:run(v), name)
  end)
end

-- Row 1 is used twice: its gradients add up before they are applied.
function tests.sparse()
  each(function(name, optimizer, formula)
    local v = td.variable({{1.0}, {2.0}, {3.0}}, "v")
    local loss = (v:gather{1, 0, 1} * {{0.5}, {0.25}, {1.0}}):sum()
    local step = optimizer(0.1):minimize(loss)
    local s = td.session()
    s:init()
    for _ = 1, 2 do s:run(step) end
    gives({{formula(1, 0.25, 2)}, {formula(2, 1.5, 2)}, {3}}, s:run(v), name)
  end)
end

function tests.float64_and_graph_rates()
  each(function(name, optimizer, formula)
    local v = td.variable(1.0, {name = "v", dtype = "float64"})
    local lr = td.placeholder("float32", {}, "lr")
    local step = optimizer(lr):minimize(v * 2)
    local s = td.session()
    s:init()
    s:run(step, {lr = 0.1})
    lu.assertAlmostEquals(s:run(v), formula(1, 2, 1), 1e-6, name)
  end)
end

function tests.slots()
  local v = td.name_scope("layer", function() return td.variable(1.0, "w") end)
  td.train.adam(0.1):minimize(v * 2)
  local names = {}
  for i, x in ipairs(td.global_variables()) do names[i] = x.name end
  lu.assertEquals(names, {"layer/w", "layer/w/Adam", "layer/w/Adam_1",
                          "beta1_power", "beta2_power"})
  lu.assertEquals(#td.trainable_variables(), 1)
end

-- Those whose steps are not meant to end in the minimum of this loss.
local others = {adadelta = true, proximal_sgd = true, proximal_adagrad = true}

function tests.converges()
  each(function(name, optimizer)
    if others[name] then return end
    local v = td.variable({3.0, -2.0}, "v")
    local loss = td.squared_difference(v, {1.0, 1.0}):sum()
    local step = optimizer((name == "adagrad" or name == "ftrl")
                           and 1.0 or 0.05):minimize(loss)
    local s = td.session()
    s:init()
    local f = s:callable({step, loss})
    for _ = 1, 300 do f() end
    lu.assertTrue(select(2, f()) < 1e-2, name)
  end)
end

function tests.options()
  local v, w = td.variable(1.0, "v"), td.variable(1.0, "w")
  local loss = v * 30 + w * 40
  local sgd = td.train.sgd(1.0)
  local count = td.train.global_step()
  local step = sgd:minimize(loss, {variables = {v}, global_step = count})
  local clipped = sgd:minimize(loss, {clip_norm = 5.0})
  local s = td.session()
  s:init()
  s:run(step)
  lu.assertEquals(s:run{v, w, count}, {-29.0, 1.0, 1})
  s:run(clipped)
  gives(-32, s:run(v))
  gives(-3, s:run(w))
  lu.assertTrue(td.train.global_step() == count)
end

function tests.gradients_in_between()
  local v, w = td.variable(1.0, "v"), td.variable(1.0, "w")
  local sgd = td.train.sgd(1.0)
  local list = sgd:compute_gradients(v * 3)
  lu.assertFalse(list[2].gradient)
  list[1].gradient = list[1].gradient * 10
  local step = sgd:apply_gradients(list)
  local s = td.session()
  s:init()
  s:run(step)
  lu.assertEquals(s:run{v, w}, {-29.0, 1.0})
end

function tests.global_norm()
  local list = {td.constant{3.0}, false, td.constant{{4.0}}}
  gives(5, td.global_norm(list))
  local clipped, norm = td.clip_by_global_norm(list, 1.0)
  gives(5, norm)
  gives({0.6}, clipped[1])
  lu.assertFalse(clipped[2])
  gives({3}, (td.clip_by_global_norm(list, 100.0))[1])
  raises("no gradient", td.global_norm, {false})
end

function tests.a_step_reads_before_it_writes()
  local v = td.variable(2.0, "v")
  local loss = v * v
  local step = td.train.sgd(0.5):minimize(loss)
  local s = td.session()
  s:init()
  local r = s:run{loss, step}
  lu.assertEquals(r[1], 4.0)
  lu.assertEquals(s:run(v), 0.0)
end

function tests.training_inside_a_loop()
  each(function(name, optimizer, formula)
    local v = td.variable(1.0, "v")
    local opt = optimizer(0.1)
    local n = td.while_loop(function(i) return i:less(3) end, function(i)
      local step = opt:minimize(v * 2)
      return td.control_dependencies({step}, function() return i + 1 end)
    end, {0}, {parallel_iterations = 1})
    local s = td.session()
    s:init()
    lu.assertEquals(s:run(n), 3)
    lu.assertAlmostEquals(s:run(v), formula(1, 2, 3), 1e-5, name)
  end)
end

function tests.refused()
  local sgd = td.train.sgd(0.1)
  raises("no variable to train", sgd.minimize, sgd, td.constant(1.0))
  local v = td.variable(1.0, "v")
  raises("no variable has a gradient", sgd.minimize, sgd, td.constant(1.0))
  raises("learning rate", td.train.sgd)
  raises("learning rate", td.train.momentum, {})
  raises("l1 must be 0 or more", td.train.ftrl, 0.1, {l1 = -1.0})
  raises("lr_power must be 0 or less", td.train.ftrl, 0.1, {lr_power = 1.0})
  raises("did you mean \"centered\"", td.train.rmsprop, 0.1, {centred = true})
  raises("did you mean \"variables\"", sgd.minimize, sgd, v * 2,
         {variable = {v}})
  raises("float64", sgd.apply_gradients, sgd,
         {{gradient = td.constant(1.0, "float64"), variable = v}})
end

return tests
