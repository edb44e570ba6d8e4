--- show/handles.lua - sessions, ops and graph tensors: a few lines, and a card.
--
-- Nothing is run for it, and nothing added to the graph.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dtypes = require "tide.tensor.dtype"
local html = require "tide.show.html"
local shapes = require "tide.tensor.shape"
local style = require "tide.show.style"

local handles = {}

local MOST = 6 -- inputs, outputs, attributes of an op that are listed

local function edge_text(x)
  if not x then return "(not there yet)" end
  return ("%s %s %s"):format(x.name, x.dtype, shapes.text(x.shape))
end

local function attr_text(v)
  if core.kind(v) == "tensor" then
    return v.size > 8 and ("%s %s"):format(v.dtype, v.shape) or tostring(v)
  end
  if type(v) ~= "table" then return tostring(v) end
  local list = {}
  for i = 1, math.min(#v, MOST) do list[i] = attr_text(v[i]) end
  return "{" .. table.concat(list, ", ") .. (#v > MOST and ", …}" or "}")
end

local function listed(list, f)
  local out = {}
  for i = 1, math.min(#list, MOST) do out[i] = f(list[i]) end
  if #list > MOST then out[MOST + 1] = ("… %d more"):format(#list - MOST) end
  return table.concat(out, ", ")
end

local function attrs_text(op)
  local attr, names = op.attr, {}
  for name in pairs(attr) do names[#names + 1] = name end
  table.sort(names)
  return listed(names, function(name)
    return name .. " = " .. html.cut(attr_text(attr[name]), 60)
  end)
end

local rows_of = {}

function rows_of.op(op)
  return {{"inputs", listed(op.inputs, edge_text)},
          {"after", listed(op.control_inputs, function(x) return x.name end)},
          {"outputs", listed(op.outputs, edge_text)},
          {"attributes", attrs_text(op)},
          {"device", op.device}, {"origin", op.origin}}
end

function rows_of.edge(x)
  local op = x.op
  return {{"of", ("%s(%s)"):format(op.type, listed(op.inputs, edge_text))},
          {"device", x.device}, {"origin", x.origin}}
end

function rows_of.session(s)
  if tostring(s):find "closed" then return {} end
  local stats = s:stats()
  return {{"graph", ("%s nodes"):format(style.count(s:core_graph():size()))},
          {"steps", style.count(stats.steps)},
          {"plans", style.count(stats.plans)}}
end

--- The card of a variable.
function handles.variable(v)
  local n = shapes.count(v.shape)
  local bytes = n and n * (dtypes.size(v.dtype) or 0)
  return html.card(tostring(v), {{"name", v.name}, {"dtype", v.dtype},
    {"shape", shapes.text(v.shape)}, {"elements", n and style.count(n)},
    {"bytes", bytes and style.bytes(bytes)}, {"device", v.op.device},
    {"origin", v.op.origin}})
end

--- The card of a queue.
function handles.queue(q)
  return html.card(tostring(q), {{"name", q.name},
    {"capacity", q.capacity >= 0 and style.count(q.capacity) or "no limit"},
    {"components", listed(q.dtypes, tostring)},
    {"names", q.names and table.concat(q.names, ", ")},
    {"device", q.op.device}, {"origin", q.op.origin}})
end

--- The card of a lookup table.
function handles.lookup_table(t)
  return html.card(tostring(t), {{"name", t.name}, {"keys", t.key_dtype},
    {"values", t.value_dtype}, {"shape of a value", shapes.text(t.value_shape)},
    {"filled", t.initializer and "once" or "by steps"},
    {"device", t.op.device}, {"origin", t.op.origin}})
end

handles["text/plain"] = function(x)
  local lines = {tostring(x)}
  for _, row in ipairs(rows_of[core.kind(x)](x)) do
    if row[2] and row[2] ~= "" then
      lines[#lines + 1] = ("  %s: %s"):format(row[1], row[2])
    end
  end
  return table.concat(lines, "\n")
end

handles["text/html"] = function(x)
  return html.card(tostring(x), rows_of[core.kind(x)](x))
end

return handles
