--- nn/wrappers.lua - cells made of cells: stacks, dropout, devices, residuals.
--
-- A wrapper opens the cells inside it, and its step calls theirs. It has no
-- variables of its own.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local cells = require "tide.nn.cells"
local scope = require "tide.graph.scope"
local variable_scope = require "tide.variables.variable_scope"
local ops = require("tide.ops").ops

local wrappers = {}

local function wrapped(class, inner, o, known)
  local self = args.read(o, known, class.kind)
  cells.expect(inner, class.kind)
  self.cell, self.name = inner, inner.name
  self.state_size, self.output_size = inner.state_size, inner.output_size
  return setmetatable(self, class)
end

-- The step of the cell inside.
local function open_inner(self, depth, dtype)
  local step = self.cell:open(depth, dtype)
  self.variables, self.name = self.cell.variables, self.cell.name
  self.scope = self.cell.scope
  return step
end

-- ---- stacks ---------------------------------------------------------------

local multi = cells.class{kind = "multi_rnn_cell"}

function multi:open(depth, dtype)
  local steps, all = {}, {}
  self.name = self.name or variable_scope.unused(self.kind)
  local _ <close> = variable_scope.variable_scope(self.name)
  for i, cell in ipairs(self.cells) do
    steps[i] = variable_scope.variable_scope("cell_" .. i - 1, function()
      return cell:open(depth, dtype)
    end)
    depth = cell.output_size
    table.move(cell.variables, 1, #cell.variables, #all + 1, all)
  end
  self.variables = all
  return function(x, state)
    local new = {}
    for i, step in ipairs(steps) do x, new[i] = step(x, state[i]) end
    return x, new
  end
end

--- Cells one above the other: each takes the output of the one below. The state
-- is the list of their states. Variables are called
-- multi_rnn_cell/cell_<i>/..., i from 0. Option name; without one further
-- stacks are multi_rnn_cell_1 and so on.
-- @param list of cells
-- @usage local cell = td.nn.multi_cell{td.nn.gru_cell(3), td.nn.gru_cell(2)}
-- cell(td.ones{2, 5}, cell:zero_state(2)).shape  --> {2, 2}
function wrappers.multi_cell(list, o)
  local named
  if not args.plain(list) then
    core.error("invalid_argument", ("multi_cell takes a list of cells, "
      .. "multi_cell{cell, cell}, not %s"):format(args.what(list)))
  end
  list, named = args.split(list)
  args.check_list(list, "multi_cell: the cells")
  if #list == 0 then
    core.error("invalid_argument", "multi_cell: the list has no cell")
  end
  o = args.read(next(named) and named or o, {"name"}, "multi_cell")
  local self = {cells = list, name = o.name, state_size = {}}
  for i, cell in ipairs(list) do
    self.state_size[i] = cells.expect(cell, "multi_cell").state_size
  end
  self.output_size = list[#list].output_size
  return setmetatable(self, multi)
end

-- ---- dropout --------------------------------------------------------------

local dropout = cells.class{kind = "dropout_wrapper"}

-- A function that drops elements of what has `size` columns; the same ones in
-- each step and row if it is variational. Droppers of one cell are drawn apart:
-- with its own seed, the n-th has the n-th from there.
local function dropper(self, keep, size, dtype, n)
  if not keep or keep == 1 then return function(x) return x end end
  local seed = self.seed and self.seed + n
  if not self.variational_recurrent then
    return function(x) return ops.dropout(x, keep, {seed = seed}) end
  end
  local mask = ops.dropout(ops.ones({1, size}, dtype), keep, {seed = seed})
  return function(x) return x * mask end
end

-- f of every part of a state but what an LSTM remembers.
local function on_state(state, droppers)
  if not args.plain(state) then return droppers[1](state) end
  local out = {}
  for k, x in pairs(state) do
    out[k] = k == "c" and x or on_state(x, droppers[k] or droppers)
  end
  return out
end

-- Droppers for a state of these sizes, and the number of the last one.
local function state_droppers(self, size, dtype, n)
  if type(size) == "number" then
    return {dropper(self, self.state_keep_prob, size, dtype, n + 1)}, n + 1
  end
  local out, keys = {}, {}
  for k in pairs(size) do keys[#keys + 1] = k ~= "c" and k or nil end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, k in ipairs(keys) do
    out[k], n = state_droppers(self, size[k], dtype, n)
  end
  return out, n
end

function dropout:open(depth, dtype)
  local step = open_inner(self, depth, dtype)
  local on_input = dropper(self, self.input_keep_prob, depth, dtype, 0)
  local on_output = dropper(self, self.output_keep_prob, self.output_size,
                            dtype, 1)
  local droppers = self.state_keep_prob and self.state_keep_prob ~= 1
    and state_droppers(self, self.state_size, dtype, 1)
  return function(x, state)
    local out, new = step(on_input(x), state)
    return on_output(out), droppers and on_state(new, droppers) or new
  end
end

--- A cell whose input, output or state loses elements at random: options
-- input_keep_prob, output_keep_prob, state_keep_prob (1), numbers or graph
-- scalars; an LSTM's c stays. variational_recurrent: the same elements in every
-- step and row (Gal and Ghahramani 2016). seed.
-- @param cell
-- @usage td.nn.dropout_wrapper(td.nn.lstm_cell(3), {output_keep_prob = 0.5})
function wrappers.dropout_wrapper(cell, o)
  return wrapped(dropout, cell, o, {"input_keep_prob", "output_keep_prob",
    "state_keep_prob", "variational_recurrent", "seed"})
end

-- ---- devices --------------------------------------------------------------

local device = cells.class{kind = "device_wrapper"}

function device:open(depth, dtype)
  local step = scope.device(self.device, open_inner, self, depth, dtype)
  return function(x, state) return scope.device(self.device, step, x, state) end
end

function device:zero_state(batch, dtype)
  return scope.device(self.device, self.cell.zero_state, self.cell, batch,
                      dtype)
end

--- A cell that is computed, and has its variables, on a device.
-- @param cell  @param spec a device such as "/gpu:1"
-- @usage local c = td.nn.device_wrapper(td.nn.gru_cell(3), "/cpu:0")
-- c(td.ones{2, 5}, c:zero_state(2)).device  --> /device:CPU:0
function wrappers.device_wrapper(cell, spec)
  local self = wrapped(device, cell, nil, {})
  self.device = args.expect(spec, "string", "device_wrapper: the device")
  return self
end

-- ---- residuals ------------------------------------------------------------

local residual = cells.class{kind = "residual_wrapper"}

function residual:open(depth, dtype)
  local step = open_inner(self, depth, dtype)
  return function(x, state)
    local out, new = step(x, state)
    return self.f(x, out), new
  end
end

--- A cell that adds its input to its output; option f(x, out) in place of the
-- sum.
-- @param cell
function wrappers.residual_wrapper(cell, o)
  local self = wrapped(residual, cell, o, {"f"})
  self.f = self.f or ops.add
  return self
end

return wrappers
