--- commands/debug.lua - %debug: more about the last error.
--
-- The node it was raised in, the line that made it, its inputs as they were (by
-- running what they need once more, where that changes nothing), its way to
-- what was fetched; then every frame, the library's and C's too.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local frontend = require "tide.frontend"
local fetch = require "tide.run.fetch"
local value = require "tide.show.value"
local paint = require "tide.console.paint"
local traceback = require "tide.console.traceback"

-- ---- inputs -----------------------------------------------------------------

-- Can what `edge` needs be computed again and mean the same?
local function repeatable(edge, fed, seen)
  if fed[edge] or seen[edge.op] then return true end
  seen[edge.op] = true
  local op = edge.op
  local info = core.op_info(op.type)
  if op.flow ~= 0 or info and info.stateful and not info.reads
     and op.type ~= "VarHandleOp" then
    return false
  end
  for _, x in ipairs(op.inputs) do
    if x and not repeatable(x, fed, seen) then return false end
  end
  return true
end

-- The value that came in at `edge`; nil and why it is not known.
local function value_of(edge, step)
  if edge.dtype == "resource" or edge.dtype == "variant" then return nil end
  if not step then return nil, "not kept" end
  local fed = {}
  local g = step.session:core_graph()
  for _, x in ipairs((fetch.feeds(g, step.feeds))) do fed[x] = true end
  if not repeatable(edge, fed, {}) then
    return nil, "not kept: to compute it again would change something"
  end
  local ok, x = frontend.protected(step.session.run, step.session, edge,
                                step.feeds, {as_values = true, timeout = 10})
  if ok then return x end
  return nil, "not kept: " .. traceback.text(x)
end

local function indented(text)
  return "      " .. text:gsub("\n", "\n      ")
end

local function show_inputs(op, step)
  for i, x in ipairs(op.inputs) do
    if x then
      print(("  input %d: %s  %s %s"):format(i, paint.name(x.name), x.dtype,
                                             tostring(x.shape)))
      local v, why = value_of(x, step)
      if v ~= nil then
        print(indented(value.text(v)))
      elseif why then
        print(indented(paint.faint(why)))
      end
    end
  end
end

-- ---- the way out ------------------------------------------------------------

-- Who reads each op's outputs.
local function readers_of(g)
  local readers = {}
  for _, op in ipairs(g:ops()) do
    for _, x in ipairs(op.inputs) do
      if x then
        local list = readers[x.op] or {}
        readers[x.op] = list
        list[#list + 1] = op
      end
    end
  end
  return readers
end

local function wanted_ops(g, step)
  local wanted = {}
  local ok, handles = pcall(fetch.read, g, step.fetches)
  for _, h in ipairs(ok and handles or {}) do
    wanted[core.kind(h) == "edge" and h.op or h] = true
  end
  return wanted
end

-- The shortest way from op to one of `wanted`: a list of ops, or nil.
local function way(op, wanted, readers)
  local from, queue, at = {[op] = op}, {op}, 1
  while queue[at] do
    local here = queue[at]
    at = at + 1
    if wanted[here] then
      local list = {here}
      while here ~= op do
        here = from[here]
        table.insert(list, 1, here)
      end
      return list
    end
    for _, next_op in ipairs(readers[here] or {}) do
      if not from[next_op] then
        from[next_op] = here
        queue[#queue + 1] = next_op
      end
    end
  end
end

local function show_way(op, step)
  local g = step.session:core_graph()
  local list = way(op, wanted_ops(g, step), readers_of(g))
  if not list then return end
  print "  to what was fetched:"
  for _, o in ipairs(list) do
    print(("    %-32s %-16s %s"):format(o.name, o.type, o.origin or ""))
  end
end

-- ---- all of it --------------------------------------------------------------

local function find_op(err, step)
  if core.kind(err) ~= "error" and type(err) ~= "table" then return nil end
  if type(err.node) ~= "string" then return nil end
  local g = step and step.session:core_graph() or core.graph()
  local ok, op = frontend.protected(g.find, g, err.node)
  return ok and op or nil
end

local function show_node(op, step)
  print(("  node %s: %s%s"):format(paint.strong(op.name), op.type,
    op.device ~= "" and " on " .. op.device or ""))
  for _, line in ipairs(traceback.origin(op.origin)) do print(line) end
  show_inputs(op, step)
  if step then show_way(op, step) end
end

--- %debug: what else is known of the last error.
return function(_, state)
  local failure = state.line.failure
  if not failure then return print "there was no error" end
  print(traceback.text(failure.error))
  local op = find_op(failure.error, failure.step)
  if op then show_node(op, failure.step) end
  print "  frames, the innermost first:"
  for _, line in ipairs(traceback.all(failure.frames)) do print(line) end
end
