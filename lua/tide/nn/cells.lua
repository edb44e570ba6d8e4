--- nn/cells.lua - recurrent cells: out, state = cell(x, state).
--
-- A cell is what one step of a recurrent network computes: x is {batch, depth},
-- the state a tensor or a table of tensors. Its variables are made by the first
-- call, which names it after its kind where it has no name, lstm_cell,
-- lstm_cell_1, ..., as layers are; further calls share them. cell:open(depth,
-- dtype) reads them and gives the step as a function, so that a loop reads them
-- once, outside. Variables and their layout are TensorFlow 1's.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local initializers = require "tide.variables.initializers"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local structure = require "tide.tensor.structure"
local variable_scope = require "tide.variables.variable_scope"
local weights = require "tide.nn.weights"
local ops = require("tide.ops").ops

local cells = {}

-- ---- what all cells have --------------------------------------------------

local cell = {}
cell.__index = cell

--- A class of cells. `fields` are its kind, and the methods
-- rows(depth), a list of {name, shape, initializer =} of its variables, and
-- step(w, x, state) -> out, state, where w are their values by name.
function cells.class(fields)
  fields.__index, fields.__call = fields, cell.__call
  fields.__tostring = cell.__tostring
  fields.__name = fields.kind
  return setmetatable(fields, cell)
end

--- Raises unless x is a cell.
function cells.expect(x, what)
  local meta = type(x) == "table" and getmetatable(x)
  if not meta or meta.__call ~= cell.__call then
    core.error("invalid_argument", ("%s takes a cell such as "
      .. "td.nn.lstm_cell(n), not %s"):format(what, args.what(x)))
  end
  return x
end

--- The variables read now, once: a function (x, state) -> out, state. `depth`
-- is the size of x's last axis.
function cell:open(depth, dtype)
  if not dtypes.is_float(dtype) then
    weights.fail(self, "its input is of floats, given %s; embed or cast it "
      .. "first", dtype)
  end
  local first = self.variables and self.variables[1]
  if first and first.graph ~= core.graph() then
    weights.fail(self, "its variables (made at %s) belong to another graph; "
      .. "make a new cell in this one", first.origin)
  end
  if not self.variables then
    self.name = self.name or variable_scope.unused(self.kind)
    variable_scope.variable_scope(self.name, weights.make, self,
                                  self:rows(depth), dtype)
    self.depth = depth
  end
  if depth ~= self.depth or dtype ~= self.dtype then
    weights.fail(self, "its variables (made at %s) take %s inputs of size %d, "
      .. "given %s of size %d", self.variables[1].origin, self.dtype,
      self.depth, dtype, depth)
  end
  local w = weights.read(self)
  return function(x, state)
    return scope.name_scope(self.name, self.step, self, w, x, state)
  end
end

-- The form of a state with names, for messages.
local function in_names(size)
  if type(size) == "number" or not args.has_names(size) then return "" end
  return "; it is a table {" .. table.concat(args.sorted_keys(size), " =, ")
    .. " =}"
end

-- Raises where the rows of x and of the state are known and differ.
local function check_batch(self, x, state)
  for _, part in ipairs(structure.flatten(state, self.kind .. ": the state")) do
    local n = part.shape and part.shape[1]
    if n and n >= 0 and x.shape and x.shape[1] >= 0 and n ~= x.shape[1] then
      weights.fail(self, "x has %d rows, the state %d; cell:zero_state(%d) "
        .. "begins one", x.shape[1], n, x.shape[1])
    end
  end
end

--- Raises unless a state is like the cell's.
function cell:check_state(state)
  if state == nil then
    weights.fail(self, "a call takes x and a state; begin with "
      .. "cell:zero_state(batch)")
  end
  local want = structure.sizes(self.state_size)
  local list = structure.flatten(state, self.kind .. ": the state")
  local fits = #list == #want and structure.alike(self.state_size, state)
  for i, size in ipairs(fits and want or {}) do
    fits = fits and shapes.compatible(list[i].shape, {-1, size})
  end
  if fits then return end
  local given = {}
  for i, x in ipairs(list) do given[i] = shapes.text(x.shape) end
  weights.fail(self, "its state has the sizes %s, given %s%s",
    table.concat(want, ", "), table.concat(given, ", "),
    in_names(self.state_size))
end

-- out, state = cell(x, state)
function cell:__call(x, state)
  x = weights.input(self, x, 2)
  self:check_state(state)
  check_batch(self, x, state)
  return self:open(weights.size(self, x, 1), x.dtype)(x, state)
end

--- The state to begin with, zeros for `batch` (a number or graph scalar) rows.
-- @usage td.nn.lstm_cell(4):zero_state(2).c.shape  --> {2, 4}
function cell:zero_state(batch, dtype)
  cells.expect(self, "zero_state (called with a colon)")
  if not args.is_tensor(batch)
     and (math.type(batch) ~= "integer" or batch < 0) then
    weights.fail(self, "zero_state(batch) takes a number of rows or a graph "
      .. "scalar such as x:dim(0), not %s", type(batch) == "number" and batch
      or args.what(batch))
  end
  local list = {}
  for i, size in ipairs(structure.sizes(self.state_size)) do
    list[i] = ops.zeros({batch, size}, {dtype = dtype or "float32",
                                        name = "zero_state"})
  end
  return structure.in_place_of(self.state_size, list)
end

function cell:__tostring()
  return ("%s \"%s\" of %d units"):format(self.kind,
    self.scope or self.name or "not named yet", self.output_size)
end

local function check_units(n, what)
  args.expect(n, "integer", what)
  if n < 1 then
    core.error("invalid_argument", what .. " is at least 1, given " .. n)
  end
  return n
end

-- A new cell of a class: n units, options of which `known` are allowed.
local function new(class, n, o, known)
  check_units(n, class.kind .. ": the number of units")
  local self = args.read(o, {"name", "activation", "initializer", "trainable",
                             table.unpack(known)}, class.kind)
  self.units = n
  self.activation = args.expect_callable(self.activation or ops.tanh,
                                         class.kind .. ": activation")
  self.state_size, self.output_size = n, n
  return setmetatable(self, class)
end

-- concat(x, h) * kernel + bias
local function affine(x, h, kernel, bias)
  return ops.bias_add(ops.matmul(ops.concat({x, h}, 1), kernel), bias)
end

-- ---- the simplest ---------------------------------------------------------

local basic = cells.class{kind = "basic_rnn_cell"}

function basic:rows(depth)
  local n = self.units
  return {{"kernel", {depth + n, n}, initializer = self.initializer},
          {"bias", {n}, initializer = initializers.zeros()}}
end

function basic:step(w, x, h)
  local out = self.activation(affine(x, h, w.kernel, w.bias))
  return out, out
end

--- out = state = tanh([x, state] kernel + bias). Variables kernel {depth + n,
-- n}, bias. Options: name, activation, initializer (of the kernel), trainable.
-- @param n units
-- @usage local cell = td.nn.basic_rnn_cell(3)
-- cell(td.ones{2, 5}, cell:zero_state(2)).shape  --> {2, 3}
function cells.basic_rnn_cell(n, o)
  return new(basic, n, o, {})
end

-- ---- LSTM -----------------------------------------------------------------

local lstm = cells.class{kind = "lstm_cell"}

function lstm:rows(depth)
  local n, init = self.units, self.initializer
  local rows = {
    {"kernel", {depth + self.output_size, 4 * n}, initializer = init},
    {"bias", {4 * n}, initializer = initializers.zeros()},
  }
  for _, gate in ipairs(self.use_peepholes and {"f", "i", "o"} or {}) do
    rows[#rows + 1] = {"w_" .. gate .. "_diag", {n}, initializer = init}
  end
  if self.num_proj then
    rows[#rows + 1] = {"projection/kernel", {n, self.num_proj},
                       initializer = init}
  end
  return rows
end

local function clip(x, most)
  return most and ops.clip_by_value(x, -most, most) or x
end

function lstm:step(w, x, state)
  local i, j, f, o = table.unpack(ops.split(
    affine(x, state.h, w.kernel, w.bias), 4, 1))
  local function gate(z, weight, c)
    return ops.sigmoid(weight and z + weight * c or z)
  end
  local c = gate(f + self.forget_bias, w.w_f_diag, state.c) * state.c
    + gate(i, w.w_i_diag, state.c) * self.activation(j)
  c = clip(c, self.cell_clip)
  local h = gate(o, w.w_o_diag, c) * self.activation(c)
  if self.num_proj then
    h = clip(ops.matmul(h, w["projection/kernel"]), self.proj_clip)
  end
  return h, {c = c, h = h}
end

--- Long short-term memory: the state is {c =, h =}, out = h.
-- c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j); h' = sigmoid(o)
-- tanh(c'), where i, j, f, o are the quarters of [x, h] kernel + bias.
-- Variables kernel {depth + n, 4 n}, bias; with peepholes w_f_diag, w_i_diag,
-- w_o_diag; with a projection projection/kernel. Sources: Hochreiter and
-- Schmidhuber 1997; Sak et al. 2014.
-- @param n units
-- @param[opt] o name, activation, initializer, trainable; forget_bias (1);
-- use_peepholes; cell_clip, the most that c may be; num_proj, the size of h
-- where it is not n; proj_clip
-- @usage local cell = td.nn.lstm_cell(3)
-- cell(td.ones{2, 5}, cell:zero_state(2)).shape  --> {2, 3}
function cells.lstm_cell(n, o)
  local self = new(lstm, n, o, {"forget_bias", "use_peepholes", "cell_clip",
                                "num_proj", "proj_clip"})
  self.forget_bias = self.forget_bias or 1.0
  args.expect_all(self, {forget_bias = "number", cell_clip = "number",
                         proj_clip = "number"})
  self.output_size = check_units(self.num_proj or n, "lstm_cell: num_proj")
  self.state_size = {c = n, h = self.output_size}
  return self
end

-- ---- GRU ------------------------------------------------------------------

local gru = cells.class{kind = "gru_cell"}

function gru:rows(depth)
  local n, init = self.units, self.initializer
  return {
    {"gates/kernel", {depth + n, 2 * n}, initializer = init},
    {"gates/bias", {2 * n}, initializer = initializers.ones()},
    {"candidate/kernel", {depth + n, n}, initializer = init},
    {"candidate/bias", {n}, initializer = initializers.zeros()},
  }
end

function gru:step(w, x, h)
  local gates = ops.sigmoid(affine(x, h, w["gates/kernel"], w["gates/bias"]))
  local r, u = table.unpack(ops.split(gates, 2, 1))
  local new_h = self.activation(affine(x, r * h, w["candidate/kernel"],
                                       w["candidate/bias"]))
  local out = u * h + (1 - u) * new_h
  return out, out
end

--- Gated recurrent unit: out = state = u h + (1 - u) tanh([x, r h] K + b), with
-- r, u the halves of sigmoid([x, h] gates + bias). Variables gates/kernel
-- {depth + n, 2 n}, gates/bias (begins as 1), candidate/kernel, candidate/bias.
-- Source: Cho et al. 2014.
-- @param n units
-- @param[opt] o name, activation, initializer, trainable
-- @usage local cell = td.nn.gru_cell(3)
-- cell(td.ones{2, 5}, cell:zero_state(2)).shape  --> {2, 3}
function cells.gru_cell(n, o)
  return new(gru, n, o, {})
end

return cells
