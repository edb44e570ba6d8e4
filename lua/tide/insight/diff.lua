--- insight/diff.lua - g:diff(h): what two graphs do not have in common.
--
-- Nodes are told by their names. Of those in both, the op, attributes, inputs,
-- control inputs, device and shapes are compared.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local shapes = require "tide.tensor.shape"

local diff = {}

local function refs(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = x and x.name or "?" end
  return table.concat(out, ", ")
end

local function controls(op)
  local names = {}
  for i, before in ipairs(op.control_inputs) do
    names[i] = "^" .. before.name
  end
  table.sort(names)
  return table.concat(names, ", ")
end

local function outputs(op)
  local list = {}
  for i, y in ipairs(op.outputs) do
    list[i] = y.dtype .. " " .. shapes.text(y.shape)
  end
  return table.concat(list, ", ")
end

local function text(x)
  if core.kind(x) == "tensor" then
    return x.size > 16 and ("%s %s"):format(x.dtype, x.shape) or tostring(x)
  end
  if type(x) ~= "table" then return tostring(x) end
  local list = {}
  for i, v in ipairs(x) do list[i] = text(v) end
  return "{" .. table.concat(list, ", ") .. "}"
end

local function same(a, b)
  if core.kind(a) == "tensor" and core.kind(b) == "tensor" then
    return core.same(a, b)
  end
  return core.kind(a) == core.kind(b) and text(a) == text(b)
end

-- Adds what differs between two nodes of one name.
local function compare(changed, a, b)
  local function row(what, x, y)
    if x ~= y then
      changed[#changed + 1] = {name = a.name, what = what, from = x, to = y,
                               origin = b.origin}
    end
  end
  row("op", a.type, b.type)
  row("inputs", refs(a.inputs), refs(b.inputs))
  row("control inputs", controls(a), controls(b))
  row("device", a.device, b.device)
  row("outputs", outputs(a), outputs(b))
  local x, y, names = a.attr, b.attr, {}
  for name in pairs(x) do names[#names + 1] = name end
  for name in pairs(y) do
    if x[name] == nil then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    if not same(x[name], y[name]) then
      row("attribute " .. name, text(x[name]), text(y[name]))
    end
  end
end

local meta = {}

function meta.__tostring(d)
  local lines = {}
  for _, op in ipairs(d.removed) do
    lines[#lines + 1] = ("- %s  %s  %s"):format(op.name, op.type, op.origin)
  end
  for _, op in ipairs(d.added) do
    lines[#lines + 1] = ("+ %s  %s  %s"):format(op.name, op.type, op.origin)
  end
  for _, c in ipairs(d.changed) do
    lines[#lines + 1] = ("~ %s  %s: %s -> %s  %s"):format(c.name, c.what,
      c.from, c.to, c.origin)
  end
  return #lines > 0 and table.concat(lines, "\n") or "no difference"
end

--- What turns graph g into h.
-- @return {removed = ops of g, added = ops of h, changed = {{name =, what =,
-- from =, to =, origin =}, ...}, same = is there nothing?}; as text, a line for
-- each
-- @function g:diff(h)
function diff.diff(g, h)
  if core.kind(h) ~= "graph" then
    core.error("invalid_argument", "diff: the other graph is a graph, not "
      .. (core.kind(h) or type(h)))
  end
  local d = {removed = {}, added = {}, changed = {}}
  for _, op in ipairs(g:ops()) do
    local other = h:find(op.name)
    if other then
      compare(d.changed, op, other)
    else
      d.removed[#d.removed + 1] = op
    end
  end
  for _, op in ipairs(h:ops()) do
    if not g:find(op.name) then d.added[#d.added + 1] = op end
  end
  d.same = #d.removed + #d.added + #d.changed == 0
  return setmetatable(d, meta)
end

return diff
