--- insight/summary.lua - g:summary(): what a graph has to learn, and where
-- shapes are stretched.
--
-- Variables with totals for each scope they lie in; every op that broadcasts
-- one operand over another, with the Lua line that wrote it: {n} beside {n, 1}
-- gives {n, n}, and a loss that is wrong without an error.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local dtypes = require "tide.dtype"
local shapes = require "tide.shape"

local summary = {}

-- ---- variables ------------------------------------------------------------

local function variables_of(g)
  local list = {}
  for _, op in ipairs(g:ops()) do
    if op.type == "VarHandleOp" then
      local attr = op.attr
      local n = shapes.count(attr.shape)
      list[#list + 1] = {name = op.name, dtype = attr.dtype, n = n,
        shape = attr.shape, bytes = n and n * (dtypes.size(attr.dtype) or 0)}
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- Totals of each scope, "" for all: {n =, bytes =, variables =}.
local function totals_of(list)
  local totals = {[""] = {n = 0, bytes = 0, variables = 0}}
  local function count(prefix, v)
    local t = totals[prefix] or {n = 0, bytes = 0, variables = 0}
    totals[prefix] = t
    t.n, t.bytes = t.n + (v.n or 0), t.bytes + (v.bytes or 0)
    t.variables = t.variables + 1
  end
  for _, v in ipairs(list) do
    count("", v)
    for at in v.name:gmatch "()/" do count(v.name:sub(1, at), v) end
  end
  return totals
end

local function total_line(what, t)
  return ("%-40s %12d parameters  %12d bytes"):format(what, t.n, t.bytes)
end

local function add_variables(lines, g)
  local list = variables_of(g)
  local totals, open = totals_of(list), {}
  if #list > 0 then lines[#lines + 1] = "variables" end
  for _, v in ipairs(list) do
    local depth = 1
    for at in v.name:gmatch "()/" do
      local scope = v.name:sub(1, at)
      if not open[scope] then
        open[scope] = true
        lines[#lines + 1] = total_line(("  "):rep(depth) .. scope,
                                       totals[scope])
      end
      depth = depth + 1
    end
    lines[#lines + 1] = ("%-40s %12s  %s %s"):format(
      ("  "):rep(depth) .. v.name:match "[^/]*$", v.n or "?", v.dtype,
      shapes.text(v.shape))
  end
  lines[#lines + 1] = total_line(("%d variables"):format(#list), totals[""])
end

-- ---- broadcasts -----------------------------------------------------------

local broadcasting = {} -- by op type

local function may_broadcast(type)
  if broadcasting[type] == nil then
    broadcasting[type] = core.op_info(type).broadcasts or type == "Equal"
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
    if may_broadcast(op.type) then
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

--- The graph as text: variables by scope with totals, implicit broadcasts with
-- their Lua lines, the number of nodes.
-- @param[opt] o nodes: how many nodes to list, one a line (none)
function summary.text(g, o)
  o = args.read(o, {"nodes"}, "summary")
  local lines = {}
  add_variables(lines, g)
  add_broadcasts(lines, g)
  add_nodes(lines, g, o.nodes or 0)
  return table.concat(lines, "\n")
end

return summary
