--- insight/summary.lua - g:summary(): what a graph has to learn, and where
-- shapes are stretched.
--
-- Variables with totals for each scope they lie in, and which of them
-- optimizers change (an imported graph does not say); every op that broadcasts
-- one operand over another, with the Lua line that wrote it: {n} beside {n, 1}
-- gives {n, n}, and a loss that is wrong without an error.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local graph = require "tide.graph.graph"
local shapes = require "tide.tensor.shape"

local summary = {}

-- ---- variables ------------------------------------------------------------

-- Names of the variables that optimizers change.
local function trainable_in(g)
  local names = {}
  for _, v in ipairs(graph.state(g).collections.trainable_variables or {}) do
    names[v.handle.op.name] = true
  end
  return names
end

local function variables_of(g)
  local list, trainable = {}, trainable_in(g)
  for _, op in ipairs(g:ops()) do
    if op.type == "VarHandleOp" then
      local attr = op.attr
      local n = shapes.count(attr.shape)
      list[#list + 1] = {name = op.name, dtype = attr.dtype, n = n,
        shape = attr.shape, trained = trainable[op.name] or false,
        bytes = n and n * (dtypes.size(attr.dtype) or 0)}
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list, next(trainable) ~= nil
end

-- Counts v in.
local function count(t, v)
  t.n, t.bytes = t.n + (v.n or 0), t.bytes + (v.bytes or 0)
end

local function nothing() return {n = 0, bytes = 0} end

-- Totals of each scope, "" for all: {n =, bytes =, [trained] = of those that
-- are or are not trained}.
local function totals_of(list)
  local totals = {}
  local function add(prefix, v)
    local t = totals[prefix]
    if not t then
      t = nothing()
      t[true], t[false] = nothing(), nothing()
      totals[prefix] = t
    end
    count(t, v)
    count(t[v.trained], v)
  end
  for _, v in ipairs(list) do
    add("", v)
    for at in v.name:gmatch "()/" do add(v.name:sub(1, at), v) end
  end
  return totals
end

local function total_line(what, t)
  return ("%-40s %12d parameters  %12d bytes"):format(what, t.n, t.bytes)
end

-- Of a scope, or of all variables.
local function scope_line(what, t, known)
  local others = known and t[false].n or 0
  return total_line(what, t)
    .. (others > 0 and ("  %d not trained"):format(others) or "")
end

local function add_variables(lines, g)
  local list, known = variables_of(g)
  local totals, open = totals_of(list), {}
  if #list > 0 then lines[#lines + 1] = "variables" end
  for _, v in ipairs(list) do
    local depth = 1
    for at in v.name:gmatch "()/" do
      local scope = v.name:sub(1, at)
      if not open[scope] then
        open[scope] = true
        lines[#lines + 1] = scope_line(("  "):rep(depth) .. scope,
                                       totals[scope], known)
      end
      depth = depth + 1
    end
    lines[#lines + 1] = ("%-40s %12s  %s %s%s"):format(
      ("  "):rep(depth) .. v.name:match "[^/]*$", v.n or "?", v.dtype,
      shapes.text(v.shape), known and not v.trained and "  not trained" or "")
  end
  local all = totals[""] or nothing()
  lines[#lines + 1] = total_line(("%d variables"):format(#list), all)
  if not known then return end
  lines[#lines + 1] = total_line("  trained", all[true])
  lines[#lines + 1] = total_line("  not trained", all[false])
end

-- ---- broadcasts -----------------------------------------------------------

local broadcasting = {} -- by op type

local function may_broadcast(op)
  local type = op.type
  if broadcasting[type] == nil then
    broadcasting[type] = core.op_info(op).broadcasts or type == "Equal"
      or type == "NotEqual"
  end
  return broadcasting[type]
end

local function grows(from, to)
  if #from < #to then return true end
  for i = 1, #to do
    if from[i] == 1 and to[i] ~= 1 then return true end
  end
  return false
end

--- Ops that broadcast, scalars aside: a list of {op =, a =, b =, to =, both =},
-- `both` where both operands grow.
function summary.broadcasts(g)
  local list = {}
  for _, op in ipairs(g:ops()) do
    if may_broadcast(op) then
      local a, b = op.inputs[1].shape, op.inputs[2].shape
      local to = op.outputs[1].shape
      if a and b and to and #a > 0 and #b > 0 then
        local x, y = grows(a, to), grows(b, to)
        if x or y then
          list[#list + 1] = {op = op, a = a, b = b, to = to, both = x and y}
        end
      end
    end
  end
  return list
end

local function add_broadcasts(lines, g)
  local list = summary.broadcasts(g)
  if #list > 0 then lines[#lines + 1] = "implicit broadcasts" end
  for _, r in ipairs(list) do
    lines[#lines + 1] = ("  %s (%s) %s with %s gives %s  %s%s"):format(
      r.op.name, r.op.type, r.a, r.b, r.to, r.op.origin,
      r.both and "  <- both grow" or "")
  end
end

-- ---- nodes ----------------------------------------------------------------

local function describe(op)
  local outputs, inputs = {}, {}
  for i, e in ipairs(op.outputs) do
    outputs[i] = e.dtype .. " " .. shapes.text(e.shape)
  end
  for i, e in ipairs(op.inputs) do
    inputs[i] = e and (e.port == 0 and e.op.name or e.name) or "?"
  end
  for _, before in ipairs(op.control_inputs) do
    inputs[#inputs + 1] = "^" .. before.name
  end
  return ("  %s  %s(%s) -> %s"):format(op.name, op.type,
    table.concat(inputs, ", "), table.concat(outputs, ", "))
end

local function add_nodes(lines, g, most)
  local n = g:size()
  if most > 0 then lines[#lines + 1] = "nodes" end
  for i = 1, math.min(n, most) do
    lines[#lines + 1] = describe(g:op(i - 1))
  end
  if most > 0 and n > most then
    lines[#lines + 1] = ("  ... %d more"):format(n - most)
  end
  lines[#lines + 1] = ("%d nodes"):format(n)
end

--- The graph as text: variables by scope with totals, of those that optimizers
-- change and of the rest, such as moving averages; implicit broadcasts with
-- their Lua lines; the number of nodes.
-- @param[opt] o nodes: how many nodes to list, one a line (none)
-- @function g:summary(o)
function summary.summary(g, o)
  o = args.read(o, {"nodes"}, "summary")
  local lines = {}
  add_variables(lines, g)
  add_broadcasts(lines, g)
  add_nodes(lines, g, o.nodes or 0)
  return table.concat(lines, "\n")
end

return summary
