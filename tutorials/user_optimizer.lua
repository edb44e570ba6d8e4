--- user_optimizer.lua - optimizers of one's own: momentum and L-BFGS.
--
-- An optimizer is nothing special: nodes that read gradients and assign to
-- variables. Momentum takes five lines. L-BFGS (Nocedal 1980) keeps its past in
-- variables and searches along its direction with a loop inside the graph. Both
-- descend Rosenbrock's valley, whose lowest point is (1, 1).
--
--   tide tutorials/user_optimizer.lua --memory 3
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{steps = 60, memory = 5, smoke = false}
if flags.smoke then flags.steps = 5 end

local function valley(x)
  return 100 * (x[1] - x[0] ^ 2) ^ 2 + (1 - x[0]) ^ 2
end

local function state(initial, name)
  return td.variable(initial, {name = name, trainable = false})
end

--- a <- m a + df; x <- x - lr a.
local function momentum(f, x, lr, m)
  local a = state(td.zeros_like(x.initial_value), "accumulated")
  local df = td.gradients(f(x), x)
  return x:assign_sub(lr * a:assign(m * a + df))
end

-- Newton's direction from the last changes of x (rows of S) and of the
-- gradient (rows of Y), oldest first; rows of zeros are not there yet.
local function direction(g, S, Y, memory)
  local function dot(a, b) return (a * b):sum() end
  local function over(a, b)
    return td.where(b:greater(0), a / td.maximum(b, 1e-30), 0.0)
  end
  local alpha = {}
  for i = memory - 1, 0, -1 do
    alpha[i] = over(dot(S[i], g), dot(S[i], Y[i]))
    g = g - alpha[i] * Y[i]
  end
  local newest = memory - 1
  local known = dot(Y[newest], Y[newest]):greater(0)
  g = g * td.where(known, over(dot(S[newest], Y[newest]),
                               dot(Y[newest], Y[newest])), 1.0)
  for i = 0, memory - 1 do
    local beta = over(dot(Y[i], g), dot(S[i], Y[i]))
    g = g + (alpha[i] - beta) * S[i]
  end
  return -g
end

--- One step of L-BFGS.
local function lbfgs(f, x, memory)
  local none = td.zeros{memory, x.shape[1]}
  local S, Y = state(none, "S"), state(none, "Y")
  local old, y = x:read(), f(x)
  local g = td.gradients(y, x)
  local p = direction(g, S:read(), Y:read(), memory)

  -- Half as far until f falls as much as its slope promises (Armijo).
  local slope = (g * p):sum()
  local t = td.while_loop(
    function(t) return f(old + t * p):greater(y + 1e-4 * t * slope) end,
    function(t) return t * 0.5 end, {1.0}, {maximum_iterations = 30})

  local new = td.stop_gradient(old + t * p)
  local change = td.gradients(f(new), new) - g
  return td.group{
    x:assign(new),
    S:assign(td.concat({S["1:"], (new - old):expand_dims(0)}, 0)),
    Y:assign(td.concat({Y["1:"], change:expand_dims(0)}, 0)),
  }
end

local a, b = td.variable({-1.2, 1.0}, "a"), td.variable({-1.2, 1.0}, "b")
local by_momentum = momentum(valley, a, 1e-3, 0.9)
local by_lbfgs = lbfgs(valley, b, flags.memory)
local here = {a = valley(a), b = valley(b)}

local sess <close> = td.session()
sess:init()
print("step     momentum       L-BFGS")
for i = 1, flags.steps do
  sess:run{by_momentum, by_lbfgs}
  if i % 5 == 0 then
    local f = sess:run(here)
    print(("%4d %12.3e %12.3e"):format(i, f.a, f.b))
  end
end
print(a:eval(), b:eval())
