-- steps.lua - one training step of every net, against real TensorFlow.
--
-- tests/golden/steps/NAME.npz holds, of each trainable variable, sum, norm and
-- 64 samples of TensorFlow's gradient and of the weights after the step
-- (tests/peers/steps.py).
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local nets = require "shared.nets"

local tests = {}
local dir = "tests/golden/steps/"

-- Samples may be apart by `bound` of the largest sample; sum and norm by as
-- much of the norm.
local function close(want, x, bound, what)
  local got, largest = nets.digest(x), 0
  for i = 3, #want do largest = math.max(largest, math.abs(want[i])) end
  for i = 1, #want do
    local room = bound * (i < 3 and math.max(want[2], 1e-6)
                          or math.max(largest, 1e-6))
    if i == 1 then room = room * math.sqrt(math.max(1, x.size)) end
    lu.assertTrue(math.abs(got[i] - want[i]) <= room, ("%s, number %d: %.9g, "
      .. "TensorFlow has %.9g"):format(what, i, got[i], want[i]))
  end
end

for _, net in ipairs(nets.list) do
  tests[net.name] = function()
    local golden = td.load_npz(dir .. net.name .. ".npz")
    local built = nets.build(net)
    local bound = net.bound or 2e-5
    lu.assertEquals(golden.grad.shape[1], #built.variables, "variables")
    local grads = {}
    for i, g in ipairs(td.gradients(built.loss, built.variables)) do
      grads[i] = core.edge(g) -- rows of a sparse one in their places
    end
    local sess <close> = nets.session(built)
    local values = sess:run({built.loss, grads}, built.feeds,
                            {as_values = true})
    lu.assertAlmostEquals(values[1]:item(), golden.loss:item(),
                          bound * math.max(1, math.abs(golden.loss:item())))
    sess:run(built.train, built.feeds)
    local after = sess:run(built.variables, nil, {as_values = true})
    for i, v in ipairs(built.variables) do
      local shape = td.slice(golden.shapes, {i - 1, 0}, {1, #v.shape})
      local gradient = values[2][i]
      lu.assertEquals(td.reshape(shape, {-1}):table(),
                      table.move(v.shape, 1, #v.shape, 1, {}), v.name)
      close(golden.grad[i - 1]:table(), gradient, bound,
            "gradient of " .. v.name)
      close(golden.after[i - 1]:table(), after[i], bound, v.name)
    end
  end
end

return tests
