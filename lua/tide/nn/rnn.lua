--- nn/rnn.lua - cells over time: unrolled, or as a loop in the graph.
--
-- Both give the same numbers. Rows shorter than the longest stop by themselves:
-- beyond a row's length its outputs are zero and its state stays.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local cells = require "tide.nn.cells"
local control = require "tide.control.control"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local structure = require "tide.tensor.structure"
local tensor_array = require "tide.control.tensor_array"
local variable_scope = require "tide.variables.variable_scope"
local ops = require("tide.ops").ops

local rnn = {}

local fail = errors.invalid

-- ---- lengths --------------------------------------------------------------

-- Lengths after a look, in the run, at how many there are.
local function checked(lengths, batch, what)
  local n = ops.size(lengths)
  local fits = ops.equal(n, ops.cast(batch, "int32"))
  local look = core.op "Assert"(fits, {what .. ": sequence_length has one "
    .. "length for each row of the batch; lengths, rows:", n, batch})
  return scope.control_dependencies({look}, ops.identity, lengths)
end

-- Sequence lengths as a vector of `batch`, or nil.
local function lengths_of(o, batch, what)
  local given = o.sequence_length
  if given == nil then return nil end
  local lengths = core.edge(given)
  if lengths.dtype ~= "int32" and lengths.dtype ~= "int64" then
    fail("%s: sequence_length is int32 or int64, not %s", what, lengths.dtype)
  end
  if not shapes.compatible(lengths.shape,
                           {type(batch) == "number" and batch or -1}) then
    fail("%s: sequence_length has one length for each of the %s rows, given "
      .. "shape %s", what, batch, shapes.text(lengths.shape))
  end
  if type(batch) == "number" then
    return ops.ensure_shape(ops.cast(lengths, "int32"), {batch})
  end
  return checked(ops.cast(lengths, "int32"), batch, what)
end

-- out and state of a step, but zeros and the old state in rows that are over.
local function stop(over, out, new, old)
  local stopped, olds = {}, structure.flatten(old, "the state")
  for i, x in ipairs(structure.flatten(new, "the state")) do
    stopped[i] = core.op "Select"(over, olds[i], x)
  end
  return core.op "Select"(over, ops.zeros_like(out), out),
         structure.pack(new, stopped)
end

-- Raises unless an input of static_rnn is like the first.
local function check_input(x, i, first)
  if x.rank ~= 2 or not shapes.compatible(x.shape, first.shape) then
    fail("static_rnn: inputs are a list of {batch, depth}, alike; input %d has "
      .. "shape %s, input 1 %s; td.unstack(x, 1) makes such a list of {batch, "
      .. "time, depth}", i, shapes.text(x.shape), shapes.text(first.shape))
  end
end

-- The step of a cell that heeds lengths; t counts from 0.
local function step_of(cell, depth, dtype, lengths)
  local step = cell:open(depth, dtype)
  if not lengths then return function(_, x, state) return step(x, state) end end
  return function(t, x, state)
    local out, new = step(x, state)
    return stop(ops.greater_equal(t, lengths), out, new, state)
  end
end

local function depth_of(x, what)
  local depth = x.shape and x.shape[#x.shape]
  if not depth or depth < 0 then
    fail("%s: the last axis of the input must be known, given shape %s", what,
         shapes.text(x.shape))
  end
  return depth
end

local function first_state(cell, o, batch, dtype)
  if o.initial_state == nil then return cell:zero_state(batch, dtype) end
  cell:check_state(o.initial_state)
  return o.initial_state
end

-- ---- unrolled -------------------------------------------------------------

local static_options = {"initial_state", "sequence_length", "scope"}

-- The variable scope: its name as asked for, or one that nothing has here.
local function scope_of(o, base)
  return o.scope or variable_scope.unused(base)
end

--- A cell over a list of inputs {batch, depth}, one copy of the cell each.
-- @param cell
-- @param inputs list of tensors
-- @param[opt] o initial_state (zeros); sequence_length {batch}: beyond it
-- outputs are 0 and the state stays; scope, the variable scope ("rnn", and
-- "rnn_1", ... where that is taken)
-- @return the list of outputs, and the last state
-- @usage local x = td.unstack(td.ones{3, 2, 5}, 0)
-- #td.nn.static_rnn(td.nn.gru_cell(4), x)  --> 3
function rnn.static_rnn(cell, inputs, o)
  cells.expect(cell, "static_rnn")
  if not args.plain(inputs) then
    fail("static_rnn: the inputs are a list of {batch, depth}, given %s; "
      .. "td.unstack(x, 1) makes one of {batch, time, depth}",
      args.what(inputs))
  end
  args.check_list(inputs, "static_rnn: the inputs")
  if #inputs == 0 then fail("static_rnn: the list has no input") end
  o = args.read(o, static_options, "static_rnn")
  return variable_scope.variable_scope(scope_of(o, "rnn"), function()
    local xs = structure.flatten(inputs, "static_rnn: inputs")
    local x = xs[1]
    for i, input in ipairs(xs) do check_input(input, i, x) end
    local batch = x:dim(0)
    local lengths = lengths_of(o, batch, "static_rnn")
    local step = step_of(cell, depth_of(x, "static_rnn"), x.dtype, lengths)
    local state = first_state(cell, o, batch, x.dtype)
    local outputs = {}
    for t, input in ipairs(xs) do
      outputs[t], state = step(t - 1, input, state)
    end
    return outputs, state
  end)
end

-- ---- as a loop ------------------------------------------------------------

local dynamic_options = {"initial_state", "sequence_length", "time_major",
                         "parallel_iterations", "swap_memory", "scope"}

-- The first two axes in the other order.
local function swap_axes(x)
  local perm = {1, 0}
  for axis = 2, x.rank - 1 do perm[axis + 1] = axis end
  return ops.transpose(x, perm)
end

local function input_of(x, o)
  if x == nil then fail("dynamic_rnn takes a cell and x, given no x") end
  x = core.edge(x)
  if x.rank ~= 3 then
    fail("dynamic_rnn: the input is {batch, time, depth}, or {time, batch, "
      .. "depth} with time_major, given shape %s", shapes.text(x.shape))
  end
  return o.time_major and x or swap_axes(x)
end

-- Fills up to `time` elements with zeros where the loop ended early.
local function pad(x, n, time)
  local missing = ops.maximum(time - n, 0)
  return ops.pad(x, {{0, missing}, {0, 0}, {0, 0}})
end

-- The loop itself: outputs as an array, and the last state as a list.
local function run(step, inputs, outputs, state, n, o)
  local list = structure.flatten(state, "dynamic_rnn: the state")
  local results = table.pack(control.while_loop(
    function(t) return t:less(n) end,
    function(t, array, ...)
      local out, new = step(t, inputs:read(t), structure.pack(state, {...}))
      return t + 1, array:write(t, out),
             table.unpack(structure.flatten(new, "dynamic_rnn: the state"))
    end,
    {0, outputs, table.unpack(list)},
    {parallel_iterations = o.parallel_iterations or 32,
     swap_memory = o.swap_memory, name = "while"}))
  return results[2], structure.pack(state, {table.unpack(results, 3)})
end

local function unroll(cell, x, o)
  x = input_of(x, o)
  local time, batch, dtype = x:dim(0), x:dim(1), x.dtype
  local lengths = lengths_of(o, batch, "dynamic_rnn")
  local n = lengths and ops.minimum(time, ops.maximum(ops.max(lengths), 1))
    or time
  local step = step_of(cell, depth_of(x, "dynamic_rnn"), dtype, lengths)
  local state = first_state(cell, o, batch, dtype)
  local inputs = tensor_array.tensor_array(dtype, time,
    {element_shape = {x.shape[2], x.shape[3]}, name = "inputs"}):unstack(x)
  local each = {x.shape[2], cell.output_size}
  local outputs = tensor_array.tensor_array(dtype, n,
    {element_shape = each, name = "outputs"})
  local array, last = run(step, inputs, outputs, state, n, o)
  local y = array:gather(ops.range(n))
  if lengths then y = pad(y, n, time) end
  core.set_shape(y, {x.shape[1], table.unpack(each)})
  return o.time_major and y or swap_axes(y), last
end

--- A cell over time as a loop: one copy of it for sequences of any length.
-- Outputs beyond a row's length are 0, its state stays what it was there; the
-- loop ends with the longest row.
-- @param cell
-- @param x {batch, time, depth}; {time, batch, depth} with time_major
-- @param[opt] o sequence_length {batch}; initial_state (zeros); time_major;
-- parallel_iterations (32); swap_memory; scope, the variable scope ("rnn", and
-- "rnn_1", ... where that is taken)
-- @return outputs {batch, time, n}, and the last state
-- @usage td.nn.dynamic_rnn(td.nn.gru_cell(4), td.ones{2, 3, 5}).shape
-- --> {2, 3, 4}
function rnn.dynamic_rnn(cell, x, o)
  cells.expect(cell, "dynamic_rnn")
  o = args.read(o, dynamic_options, "dynamic_rnn")
  return variable_scope.variable_scope(scope_of(o, "rnn"), unroll, cell, x, o)
end

-- ---- both ways ------------------------------------------------------------

-- x backwards in time, each row within its length.
local function backwards(x, o)
  local time = o.time_major and 0 or 1
  if o.sequence_length == nil then return ops.reverse(x, {time}) end
  return core.op "ReverseSequence"(x, o.sequence_length,
    {seq_dim = time, batch_dim = 1 - time})
end

--- Two cells, one over time, one back from each row's end.
-- @param fw, bw cells
-- @param x as dynamic_rnn's
-- @param[opt] o as dynamic_rnn's, but initial_state is a list of two; scope
-- ("bidirectional_rnn"), in which variables are called fw/..., bw/...
-- @return the list of both outputs, each in the order of time, and the list of
-- both last states; td.concat(outputs, 2) is what is commonly used
function rnn.bidirectional_dynamic_rnn(fw, bw, x, o)
  o = args.read(o, dynamic_options, "bidirectional_dynamic_rnn")
  local first = o.initial_state or {}
  local function over(cell, input, side, state)
    local own = args.options(o)
    own.scope, own.initial_state = side, state
    return rnn.dynamic_rnn(cell, input, own)
  end
  return variable_scope.variable_scope(scope_of(o, "bidirectional_rnn"),
    function()
      x = core.edge(x)
      local y1, s1 = over(fw, x, "fw", first[1])
      local y2, s2 = over(bw, backwards(x, o), "bw", first[2])
      return {y1, backwards(y2, o)}, {s1, s2}
    end)
end

return rnn
