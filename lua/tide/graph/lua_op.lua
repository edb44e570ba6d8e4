--- graph/lua_op.lua - td.lua_op: a function of Lua as an op of the graph.
--
-- The node has a token, by which the binding finds the function while a step
-- runs. The function belongs to each graph in which it has a node, and goes
-- with the last of them.
-- Source: tf.py_func.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local graph = require "tide.graph.graph"

local lua_op = {}

local function keep(f, token)
  local state = graph.state()
  state.lua_ops = state.lua_ops or {}
  state.lua_ops[token] = f
end

--- An op that calls f when a step comes to it: f is given values and gives
-- values, numbers or tables, which become tensors of the dtypes said. It runs
-- on the thread that waits for the step, in run, eval, a callable or wait, and
-- may run other steps itself; it must not yield. An error in f is the step's.
-- Steps that nobody waits for (a loop's, those of another process) fail with
-- failed_precondition. There is no gradient unless td.custom_gradient gives
-- one.
-- @param f function(value...) -> value...
-- @param types the dtypes of the results: "float32", {"float32", "int32"}, {}
-- @param[opt] o shapes: a list, one shape for each result (unknown); stateful
-- (true): false says that f gives the same for the same, so that two nodes with
-- the same inputs may become one; name: of the nodes
-- @return function(tensor...) -> tensor...; without results, the op
-- @usage local half = td.lua_op(function(x) return x / 2 end, "float32")
-- half(td.constant(3.0))  --> 1.5
function lua_op.lua_op(f, types, o)
  args.expect(f, "function", "lua_op: the function")
  o = args.read(o, {"shapes", "stateful", "name"}, "lua_op")
  if dtypes.is_name(types) then types = {types} end
  args.check_list(types, "lua_op: the dtypes of the results")
  local token = core.lua_op_keep(f)
  local op = o.stateful == false and "LuaOpStateless" or "LuaOp"
  local attrs = {token = token, Tout = types, shapes = o.shapes or {}}
  return function(...)
    local inputs = table.pack(...)
    for i = 1, inputs.n do inputs[i] = core.edge(inputs[i]) end
    inputs.n = nil
    keep(f, token)
    local out = core.add(op, {inputs}, attrs, o.name)
    if #types > 0 then return table.unpack(out, 1, #types) end
    local g = core.graph()
    return g:op(g:size() - 1)
  end
end

return lua_op
