-- steps.lua - one training step of every net, against real TensorFlow, and the
-- same to the last bit on one thread and on two.
--
-- tests/golden/steps/NAME.npz holds sum, norm and 64 samples of TensorFlow's
-- gradient for each trainable variable, and of all weights and moving averages
-- after the step (tests/peers/steps.py).
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local nets = require "shared.nets"

local tests = {}
local dir = "tests/golden/steps/"

-- Samples may be apart by net.bound of the largest sample, sum and norm by as
-- much of the norm; what is below net.floor counts as that.
local function close(want, x, net, what)
  local got, largest = nets.digest(x), 0
  local bound, floor = net.bound or 2e-5, net.floor or 1e-6
  for i = 3, #want do largest = math.max(largest, math.abs(want[i])) end
  for i = 1, #want do
    local room = bound * math.max(i < 3 and want[2] or largest, floor)
    if i == 1 then room = room * math.sqrt(math.max(1, x.size)) end
    lu.assertTrue(math.abs(got[i] - want[i]) <= room, ("%s, number %d: %.9g, "
      .. "TensorFlow has %.9g"):format(what, i, got[i], want[i]))
  end
end

local function shape_of(golden, i)
  local row = golden.shapes[i - 1]:table()
  while row[#row] == -1 do row[#row] = nil end
  return row
end

-- Loss and gradients, and then the weights after the step: a list of values.
local function step(built, grads, threads)
  local sess <close> = nets.session(built, threads)
  local fetches = {built.loss, table.unpack(grads)}
  local values = sess:run(fetches, built.feeds, {as_values = true})
  sess:run(built.train, built.feeds)
  local after = sess:run(built.kept, nil, {as_values = true})
  return table.move(after, 1, #after, #values + 1, values)
end

local function bits(values)
  local all = {}
  for i, x in ipairs(values) do all[i] = x:bytes() end
  return table.concat(all)
end

for _, net in ipairs(nets.list) do
  tests[net.name] = function()
    local golden = td.load_npz(dir .. net.name .. ".npz")
    local built = nets.build(net)
    local n = #built.variables
    lu.assertEquals(golden.grad.shape[1], n, "variables")
    lu.assertEquals(golden.after.shape[1], #built.kept, "weights")
    local grads = {}
    for i, g in ipairs(td.gradients(built.loss, built.variables)) do
      grads[i] = core.edge(g) -- rows of a sparse one in their places
    end
    local values, loss = step(built, grads, 1), golden.loss:item()
    lu.assertAlmostEquals(values[1]:item(), loss,
                          (net.bound or 2e-5) * math.max(1, math.abs(loss)))
    for i, v in ipairs(built.variables) do
      close(golden.grad[i - 1]:table(), values[i + 1], net,
            "gradient of " .. v.name)
    end
    for i, v in ipairs(built.kept) do
      lu.assertEquals(shape_of(golden, i), table.move(v.shape, 1, #v.shape, 1,
                                                      {}), v.name)
      close(golden.after[i - 1]:table(), values[i + n + 1], net, v.name)
    end
    lu.assertTrue(bits(values) == bits(step(built, grads, 2)),
                  "other bits on two threads")
  end
end

return tests
