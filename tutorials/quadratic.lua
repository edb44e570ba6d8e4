--- quadratic.lua - f(x) = x'Wx: what a gradient is here, and what it is for.
--
-- td.gradients adds nodes to the graph, one small piece for each op on the way
-- from f back to x. This program shows them, checks them against the formula
-- (W + W')x, and follows them down to the minimum.
--
--   tide tutorials/quadratic.lua --lr 0.05 --steps 100
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{lr = 0.1, steps = 40, smoke = false}
if flags.smoke then flags.steps = 4 end

local W = td.constant({{2.0, 1.0, 0.0}, {0.0, 3.0, 1.0}, {0.0, 0.0, 4.0}}, "W")
local x = td.variable({{3.0}, {-2.0}, {1.0}}, "x")
local f = x:matmul(W:matmul(x), {transpose_a = true})[{0, 0}]

-- The gradient: a graph tensor like any other.
local graph = td.get_default_graph()
local before = graph:size()
local df = td.gradients(f, x)
print("f by x is " .. df .. ", made of")
for i, op in ipairs(graph:ops()) do
  if i > before then print(("  %-20s %s"):format(op.type, op.name)) end
end

local sess <close> = td.session()
sess:init()
local formula = (W + W:transpose()):matmul(x)
local mine, theirs = table.unpack(sess:run{df, formula})
td.test.close(mine, theirs)
print("at the start it is " .. mine .. ", as the formula says")

-- Downhill: x <- x - lr df, which is all that gradient descent does.
local step = x:assign_sub(flags.lr * df)
for i = 1, flags.steps do
  sess:run(step)
  if i % 10 == 0 or i <= 4 then
    print(("step %2d: f = %.6f at %s"):format(i, f:eval(), x:eval():flatten()))
  end
end
