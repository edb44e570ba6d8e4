--- nn/raw_rnn.lua - a cell over time, whose inputs a function decides.
--
-- dynamic_rnn is for sequences that are there; here the input of a step may
-- depend on the output of the step before, as in a decoder that reads what it
-- has said. Rows that are finished emit zeros and keep their state.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local cells = require "tide.nn.cells"
local control = require "tide.control.control"
local shapes = require "tide.tensor.shape"
local structure = require "tide.tensor.structure"
local tensor_array = require "tide.control.tensor_array"
local variable_scope = require "tide.variables.variable_scope"
local ops = require("tide.ops").ops

local raw_rnn = {}

local fail = errors.invalid

local options = {"parallel_iterations", "swap_memory", "scope"}

local function flat(x, what)
  return structure.flatten(x, "raw_rnn: " .. what)
end

-- What f gives, looked at.
local function ask(f, time, output, state, loop)
  local finished, input, next_state, emit, more = f(time, output, state, loop)
  if finished == nil then
    fail("raw_rnn: f(time, output, state, loop) returns finished {batch}, the "
      .. "next input, the next state, what is emitted and the loop's own "
      .. "state; it returned nothing at time %s", time)
  end
  finished = core.edge(finished)
  if finished.dtype ~= "bool" then
    fail("raw_rnn: finished is a bool for each row, not %s", finished.dtype)
  end
  return finished, input, next_state, emit, more
end

-- Of rows that are finished the old, else the new.
local function unless_finished(finished, old, new, what)
  local olds, chosen = flat(old, what), {}
  for i, x in ipairs(flat(new, what)) do
    chosen[i] = x.rank == 0 and x or core.op "Select"(finished, olds[i], x)
  end
  return structure.pack(new, chosen)
end

-- The tensors that stand for what a step emits: the first call's, without the
-- batch, or the cell's output.
local function emitted(emit, cell, dtype)
  if emit == nil then return ops.zeros({cell.output_size}, {dtype = dtype}) end
  return emit
end

-- The known sizes of an emitted tensor with a batch of x's.
local function whole_shape(x, each)
  return each.shape and {x.shape[1], table.unpack(each.shape)}
end

-- Zeros like the tensors of a list, with the rows of x.
local function zeros_of(list, x)
  local zeros, batch = {}, ops.shape(x)["0:1"]
  for i, each in ipairs(list) do
    zeros[i] = ops.zeros(ops.concat({batch, ops.shape(each)}, 0),
                         {dtype = each.dtype})
    local known = whole_shape(x, each)
    if known then core.set_shape(zeros[i], known) end
  end
  return zeros
end

local function arrays_of(list, x)
  local arrays = {}
  for i, each in ipairs(list) do
    arrays[i] = tensor_array.tensor_array(each.dtype, 0, {dynamic_size = true,
      element_shape = whole_shape(x, each), name = "emitted"})
  end
  return arrays
end

-- The parts of a list, by counts.
local function parts(list, ...)
  local out, from = {}, 1
  for i, n in ipairs{...} do
    out[i] = {table.unpack(list, from, from + n - 1)}
    from = from + n
  end
  return table.unpack(out)
end

-- One list of all that goes around.
local function joined(...)
  local all = {}
  for _, list in ipairs{...} do
    table.move(list, 1, #list, #all + 1, all)
  end
  return all
end

local function unroll(cell, f, o)
  local finished, input, state, emit, loop = ask(f, ops.constant(0))
  if input == nil or state == nil then
    fail("raw_rnn: at time 0, where output and state are nil, f returns the "
      .. "first input and the first state, such as cell:zero_state(batch)")
  end
  local x = flat(input, "the input")[1]
  local depth = x.shape and x.shape[#x.shape] or -1
  if depth < 0 then
    fail("raw_rnn: the last axis of the input must be known, given shape %s",
         shapes.text(x.shape))
  end
  cell:check_state(state)
  local step = cell:open(depth, x.dtype)
  local form = emitted(emit, cell, x.dtype)
  local forms = flat(form, "what is emitted")
  local arrays = arrays_of(forms, x)
  local zeros = structure.pack(form, zeros_of(forms, x))
  local loops = loop == nil and {} or flat(loop, "the loop's state")
  local inputs, states = flat(input, "the input"), flat(state, "the state")

  local function body(t, over, ...)
    local ins, olds, outs, own = parts({...}, #inputs, #states, #arrays, #loops)
    local old = structure.pack(state, olds)
    local given = loop ~= nil and structure.pack(loop, own) or nil
    local out, new = step(structure.pack(input, ins), old)
    local ends, x2, s2, e2, l2 = ask(f, t + 1, out, new, given)
    if e2 == nil then e2 = out end
    local e = unless_finished(over, zeros, e2, "what is emitted")
    local s = unless_finished(over, old, s2, "the state")
    for i, value in ipairs(flat(e, "what is emitted")) do
      outs[i] = outs[i]:write(t, value)
    end
    return t + 1, ops.logical_or(over, ends), table.unpack(joined(
      flat(x2, "the input"), flat(s, "the state"), outs,
      loop == nil and {} or flat(l2, "the loop's state")))
  end

  local all = table.pack(control.while_loop(
    function(_, over) return ops.logical_not(ops.reduce_all(over)) end, body,
    {0, finished, table.unpack(joined(inputs, states, arrays, loops))},
    {parallel_iterations = o.parallel_iterations or 32,
     swap_memory = o.swap_memory, name = "while"}))
  local _, last, outs, own = parts({table.unpack(all, 3)}, #inputs, #states,
                                   #arrays, #loops)
  return structure.pack(form, outs), structure.pack(state, last),
         loop ~= nil and structure.pack(loop, own) or nil
end

--- A cell over time, where a function gives each step its input and says which
-- rows are finished. f(time, output, state, loop) is called once for the start,
-- with time 0 and nil for the others, and once for the body of the loop, with
-- what the cell gave. It returns
--
-- - finished {batch}, bool: rows that emit no more;
-- - the next input {batch, depth};
-- - the next state, at time 0 the first;
-- - what is emitted, nil for the cell's output; at time 0 tensors of the shape
--   and dtype of one row of it;
-- - what f wants to be given next time, or nil.
--
-- @param cell
-- @param f a function
-- @param[opt] o parallel_iterations (32), swap_memory; scope, the variable
-- scope ("rnn")
-- @return a tensor array of what was emitted, an element {batch, ...} for each
-- step (or a structure of arrays), the last state, what f wanted kept
-- @usage local cell = td.nn.gru_cell(2)
-- local said = td.nn.raw_rnn(cell, function(time, output, state)
--   if output then
--     return td.fill({3}, time:greater_equal(4)), output, state
--   end
--   return td.fill({3}, false), td.zeros{3, 2}, cell:zero_state(3)
-- end)
-- said:stack().shape  --> {-1, 3, 2}
function raw_rnn.raw_rnn(cell, f, o)
  cells.expect(cell, "raw_rnn")
  args.expect_callable(f, "raw_rnn: the second argument")
  o = args.read(o, options, "raw_rnn")
  return variable_scope.variable_scope(
    o.scope or variable_scope.unused("rnn"), unroll, cell, f, o)
end

return raw_rnn
