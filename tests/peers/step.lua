-- step.lua - a net of tests/lua/shared/nets.lua, for tests/peers/steps.py.
--
--   tide tests/peers/step.lua NAME DIR
--
-- writes DIR/graph.pb, DIR/numbers.npz (weights by variable, feeds by edge) and
-- DIR/net.json (the names of what is to be run).
-- SPDX-License-Identifier: Apache-2.0

package.path = "tests/lua/?.lua;" .. package.path

local td = require "tide"
local core = require "tide.core"
local json = require "tide.base.json"
local nets = require "shared.nets"

local name, dir = arg[1], arg[2]
if name == "--list" then
  for _, net in ipairs(nets.list) do print(net.name) end
  return
end

local function find()
  for _, net in ipairs(nets.list) do
    if net.name == name then return net end
  end
  error("no net " .. name)
end

local net = nets.build(find())
local grads = td.gradients(net.loss, net.variables)
local numbers, variables = {}, {}
for edge, value in pairs(net.feeds) do numbers["feed|" .. edge] = value end
for _, v in ipairs(td.global_variables()) do
  if net.weights[v.name] then
    numbers["weight|" .. v.name] = net.weights[v.name]
  end
  variables[#variables + 1] = {
    name = v.name, handle = v.handle.name, initial = v.initial_value.name,
    initializer = v.initializer.name, snapshot = v.snapshot.name}
end
local trainable, gradients, kept = {}, {}, {}
for i, v in ipairs(net.variables) do
  trainable[i] = v.name
  gradients[i] = core.edge(grads[i]).name
end
for i, v in ipairs(net.kept) do kept[i] = v.name end
net.graph:save(dir .. "/graph.pb")
td.save_npz(dir .. "/numbers.npz", numbers)
core.write_file(dir .. "/net.json", json.encode{
  loops = net.loops or false, loss = core.edge(net.loss).name,
  train = net.train.name, variables = variables, trainable = trainable,
  gradients = gradients, kept = kept})
