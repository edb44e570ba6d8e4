--- insight/estimate.lua - g:estimate(feeds): what a step will take, before it
-- runs.
--
-- Shapes are inferred anew with those of the feeds. Then the nodes are gone
-- through in the order in which one thread would run them, and the bytes that
-- are held are added up:
--
--   * a tensor is held from the node that makes it to the last that reads it;
--   * a node that hands its input on (Identity, Reshape), and an element-wise
--     one whose input of the same size nobody reads later (y = relu(x)), takes
--     no memory: it writes where its input was;
--   * what depends on constants only is computed once and held to the end;
--   * a loop holds what one iteration does, one value more of the variable that
--     runs ahead of the others, and, from the loop to its gradient, all that
--     its iterations push on stacks.
--
-- The scratch memory of libraries, and what several threads hold at once, is
-- not known: the peak is that of one thread.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local cost = require "tide.insight.cost"
local dtypes = require "tide.tensor.dtype"
local fetch = require "tide.run.fetch"
local loops = require "tide.insight.trips"
local shapes = require "tide.tensor.shape"
local sizes = require "tide.insight.sizes"

local estimate = {}
local bytes_of, count_of, shape_of = sizes.bytes_of, sizes.count_of,
                                    sizes.shape_of

-- ---- the graph with the shapes of the feeds -------------------------------

-- A copy where what is fed is a placeholder of the value's shape. A feed may
-- also be a shape: a plain list beside a placeholder is a value, so that shapes
-- are given as options.shapes.
local function with_shapes(g, feeds, given)
  local edges, values = fetch.feeds(g, feeds)
  local copy = core.graph_new()
  local _ <close> = core.push{graph = copy}
  local names, stands = {}, {}
  local function stand(edge, shape)
    names[#names + 1] = edge.name
    stands[#stands + 1] = core.add("Placeholder", {}, {dtype = edge.dtype,
      shape = shape}, "fed")
  end
  for i, edge in ipairs(edges) do
    local v = values[i]
    if core.kind(v) ~= "tensor" then v = core.tensor(v, edge.dtype) end
    if not shapes.compatible(edge.shape, v.shape) then
      core.error("invalid_argument", ("estimate: \"%s\" has shape %s, given %s")
        :format(edge.name, shapes.text(edge.shape), shapes.text(v.shape)))
    end
    stand(edge, v.shape)
  end
  for _, key in ipairs(given) do stand(key.edge, key.shape) end
  local used, keep = {}, {}
  for _, op in ipairs(g:ops()) do
    for _, x in ipairs(op.inputs) do
      if x then used[x.name] = true end
    end
  end
  for i, name in ipairs(names) do
    if used[name] then keep[#keep + 1] = i end
  end
  local use, by = {}, {}
  for k, i in ipairs(keep) do use[k], by[k] = names[i], stands[i] end
  copy:import_bytes(g:save_bytes(), nil, use, by)
  return copy
end

-- ---- what is needed -------------------------------------------------------

-- The ops that the fetches need (all without), inputs first.
local function needed(g, handles)
  if not handles then return g:ops() end
  local seen, stack, list = {}, {}, {}
  local function want(op)
    if op and not seen[op] then
      seen[op] = true
      stack[#stack + 1] = op
    end
  end
  for _, x in ipairs(handles) do
    local op = core.kind(x) == "edge" and x.op or x
    want(g:op(op.name))
  end
  while #stack > 0 do
    local op = table.remove(stack)
    list[#list + 1] = op
    for _, x in ipairs(op.inputs) do want(x and x.op) end
    for _, before in ipairs(op.control_inputs) do want(before) end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

-- ---- memory ---------------------------------------------------------------

-- Gives its first input on, or a view of it.
local passes = {}
for _, type in ipairs{"Identity", "Enter", "Exit", "Switch", "Merge",
  "NextIteration", "Reshape", "ExpandDims", "Squeeze", "StopGradient",
  "PreventGradient", "StackPushV2", "LoopCond", "ReadVariableOp"} do
  passes[type] = true
end

-- The tensor whose memory x is; with `merges`, the Merge on the way, if any.
local function source(x, merges)
  local at = x
  while passes[at.op.type] and not (merges and at.op.type == "Merge") do
    local from = at.op.inputs[at.op.type == "StackPushV2" and 2 or 1]
    if not from or from.dtype == "resource" then return at end
    at = from
  end
  return at
end

-- Does the op write over an input which ends in it? By the op's type.
local in_place = {}

local function writes_over(op)
  if in_place[op.type] == nil then
    in_place[op.type] = core.op_info(op.type).in_place
  end
  return in_place[op.type]
end

-- ---- what is planned ------------------------------------------------------

local FOLDED = 10 << 20 -- bytes: larger results are left to each step

-- Is an op outside of loops a function of what is fixed?
local function is_fixed(op, frame, fixed)
  if op.type == "Const" then return true end
  if frame[op] or #op.control_inputs > 0 or #op.inputs == 0
     or #op.outputs ~= 1 or core.op_info(op.type).stateful then
    return false
  end
  if op.type == "Shape" or op.type == "Size" or op.type == "Rank" then
    return shapes.known(shape_of(op.inputs[1]))
  end
  for _, x in ipairs(op.inputs) do
    if not fixed[x.op] then return false end
  end
  return (bytes_of(op.outputs[1]) or math.huge) <= FOLDED
end

-- The constants, and what is computed of them once, when the step is planned.
local function fixed_of(list, frame)
  local fixed = {}
  for _, op in ipairs(list) do
    fixed[op] = is_fixed(op, frame, fixed) or nil
  end
  return fixed
end

-- Bytes of those that a step reads.
local function constant_bytes(list, fixed)
  local total, seen = 0, {}
  for _, op in ipairs(list) do
    for _, x in ipairs(fixed[op] and {} or op.inputs) do
      if x and fixed[x.op] and not seen[x] then
        seen[x] = true
        total = total + (bytes_of(x) or 0)
      end
    end
  end
  return total
end

-- ---- the order of one thread ----------------------------------------------

local function add(lists, key, x)
  lists[key] = lists[key] or {}
  table.insert(lists[key], x)
end

-- By op and by edge, the ops that wait for it, and for how many each waits.
-- What a loop gives waits for its last iteration.
local function waiting(list, frame)
  local takers, waits, backs = {}, {}, {}
  for _, op in ipairs(list) do
    if op.type == "NextIteration" then add(backs, frame[op], op) end
  end
  for _, op in ipairs(list) do
    local n = 0
    local function wait(key)
      add(takers, key, op)
      n = n + 1
    end
    for _, before in ipairs(op.control_inputs) do wait(before) end
    for _, x in ipairs(op.inputs) do
      if x and x.op.type ~= "NextIteration" then wait(x) end
    end
    for _, back in ipairs(op.type == "Exit" and backs[frame[op]] or {}) do
      wait(back)
    end
    waits[op] = n
  end
  return takers, waits
end

-- The ops as one thread runs them: what became ready last comes first.
local function run_order(list, frame)
  local takers, waits = waiting(list, frame)
  local stack, order = {}, {}
  for i = #list, 1, -1 do
    if waits[list[i]] == 0 then stack[#stack + 1] = list[i] end
  end
  local function done(key)
    for _, op in ipairs(takers[key] or {}) do
      waits[op] = waits[op] - 1
      if waits[op] == 0 then stack[#stack + 1] = op end
    end
  end
  while #stack > 0 do
    local op = table.remove(stack)
    order[#order + 1] = op
    done(op)
    for _, y in ipairs(op.outputs) do done(y) end
  end
  return order
end

-- Position of the last op that takes each tensor.
local function last_uses(list)
  local last = {}
  for i, op in ipairs(list) do
    for _, x in ipairs(op.inputs) do
      if x then last[source(x)] = i end
    end
  end
  return last
end

-- Is there an input of that size that ends here?
local function takes_over(op, i, bytes, last, fixed)
  if not writes_over(op) then return false end
  for _, x in ipairs(op.inputs) do
    local from = x and source(x)
    if from and last[from] == i and not fixed[from.op]
       and from.op.type ~= "Placeholder" and from.op.type ~= "ReadVariableOp"
       and bytes_of(from) == bytes then
      return true
    end
  end
  return false
end

-- The same with the iterations of a loop told apart no more: what a variable of
-- the loop holds is what came back, one iteration ago.
local function kept_source(x)
  local seen = {}
  local at = source(x, true)
  while at.op.type == "Merge" and not seen[at] do
    seen[at] = true
    at = source(at.op.inputs[2] or at.op.inputs[1], true)
  end
  return at
end

-- What stacks hold when their loops are over: each tensor that is pushed once.
local function stacks_of(list, frame, trips, unknown)
  local total, seen = 0, {}
  for _, op in ipairs(list) do
    if op.type == "StackPushV2" then
      local x = kept_source(op.inputs[2])
      local bytes = bytes_of(x)
      if not bytes then
        unknown[#unknown + 1] = op
      elseif not seen[x] then
        seen[x] = true
        total = total + bytes * trips[frame[op]].n
      end
    end
  end
  return total
end

-- How many ops of its loop take what each Merge gives.
local function readers_of(list, frame)
  local readers = {}
  for _, op in ipairs(list) do
    for _, x in ipairs(passes[op.type] and {} or op.inputs) do
      local from = x and source(x, true)
      if from and from.op.type == "Merge" and frame[from.op] == frame[op] then
        readers[from.op] = (readers[from.op] or 0) + 1
      end
    end
  end
  return readers
end

-- Is a variable of a loop a sum that nothing else reads? Such a one waits for
-- what is added, and runs ahead of nothing.
local function sums_up(merge, readers)
  local back = merge.inputs[2]
  local step = back and back.op.type == "NextIteration" and back.op.inputs[1].op
  if not step or not step.type:match "^Add" or readers[merge] ~= 1 then
    return false
  end
  for _, x in ipairs(step.inputs) do
    if source(x, true).op == merge then return true end
  end
  return false
end

-- Iterations that overlap: by frame, what the variable that runs ahead takes,
-- held once for each; most often it is the largest of the variables.
local function in_flight(list, frame, trips)
  local held, readers = {}, readers_of(list, frame)
  for _, op in ipairs(list) do
    local enter = op.type == "Merge" and op.inputs[1].op
    if enter and enter.type == "Enter" and not sums_up(op, readers) then
      local name = enter.attr.frame_name
      local n = math.min(enter.attr.parallel_iterations,
                         trips[name].exact and trips[name].own or math.huge)
      held[name] = math.max(held[name] or 0,
                            n * (bytes_of(enter.outputs[1]) or 0))
    end
  end
  return held
end

-- The most that is alive at one time, what is fed and kept aside; `held`, by
-- frame, is there while a loop goes on.
local function liveness(list, unknown, frame, held, fixed)
  local last, ends, now, peak = last_uses(list), {}, 0, 0
  for i, op in ipairs(list) do
    local aside = held[frame[op]] or 0
    for _, y in ipairs(op.outputs) do
      if not passes[op.type] and not fixed[op]
         and op.type ~= "Placeholder" then
        local bytes = bytes_of(y)
        if not bytes then
          unknown[#unknown + 1] = op
        elseif last[y] then
          local until_ = last[y]
          ends[until_] = (ends[until_] or 0) + bytes
          now = now + bytes
          if takes_over(op, i, bytes, last, fixed) then
            peak = math.max(peak, now - bytes + aside)
          else
            peak = math.max(peak, now + aside)
          end
        else
          peak = math.max(peak, now + bytes + aside)
        end
      end
    end
    now = now - (ends[i] or 0)
  end
  return peak
end

local function sum_of(list, type, what)
  local total = 0
  for _, op in ipairs(list) do
    if op.type == type then total = total + (what(op) or 0) end
  end
  return total
end

local function variable_bytes(op)
  local n, size = count_of(op.attr.shape), dtypes.size(op.attr.dtype)
  return n and size and n * size
end

-- ---- the whole ------------------------------------------------------------

local meta = {}

local function in_words(n, unit)
  local scale = {"", "k", "M", "G", "T", "P"}
  local i = 1
  while n >= 1000 and i < #scale do n, i = n / 1000, i + 1 end
  return ("%.4g %s%s"):format(n, scale[i], unit)
end

function meta.__tostring(e)
  local lines = {
    in_words(e.flops, "flop"),
    ("%s at most: variables %s, constants %s, feeds %s, stacks of loops %s, "
      .. "the rest %s"):format(in_words(e.peak, "B"),
      in_words(e.variables, "B"), in_words(e.constants, "B"),
      in_words(e.feeds, "B"), in_words(e.stacks, "B"), in_words(e.live, "B")),
  }
  for _, l in ipairs(e.loops) do
    lines[#lines + 1] = ("loop \"%s\": %s"):format(l.name, l.exact
      and l.iterations .. " iterations" or "iterations unknown, counted as 1")
  end
  if #e.unknown > 0 then
    lines[#lines + 1] = ("not counted, of unknown shape: %d nodes, the first "
      .. "\"%s\""):format(#e.unknown, e.unknown[1].name)
  end
  return table.concat(lines, "\n")
end

local function loops_of(parent, trips)
  local list = {}
  for f in pairs(parent) do
    list[#list + 1] = {name = f, iterations = trips[f].own,
                       exact = trips[f].exact}
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local totals = {"flops", "variables", "constants", "feeds", "stacks", "live",
                "peak"}

local function given_shapes(g, o)
  local list = {}
  for key, shape in pairs(o.shapes or {}) do
    if type(shape) ~= "table" then
      core.error("invalid_argument", ("estimate: shapes are lists of sizes "
        .. "such as {100, 784}, not %s"):format(args.what(shape)))
    end
    list[#list + 1] = {edge = fetch.feed_key(g, key), shape = shape}
  end
  table.sort(list, function(a, b) return a.edge.name < b.edge.name end)
  return list
end

--- What a step takes, before it runs: floating-point operations and bytes.
-- @param[opt] feeds {[x] = value}, for their shapes
-- @param[opt] o fetches: what is computed (all); shapes: {[x] = {2, 3}} in
-- place of values
-- @return {flops =, peak =, variables =, constants =, feeds =, stacks =, live =
-- (bytes), loops = {{name =, iterations =, exact =}}, unknown = ops of unknown
-- shape}; as text, some lines
-- @function g:estimate(feeds, o)
function estimate.estimate(g, feeds, o)
  o = args.read(o, {"fetches", "shapes"}, "estimate")
  sizes.of_graph(g)
  local handles = o.fetches and fetch.read(g, o.fetches)
  local copy = with_shapes(g, feeds, given_shapes(g, o))
  local list = needed(copy, handles)
  local frame, parent = loops.frames_of(list)
  local trips = loops.of(list, frame, parent)
  local e = {flops = 0, loops = loops_of(parent, trips), unknown = {}}
  for _, op in ipairs(list) do
    local n = cost.operations(op)
    if n then
      e.flops = e.flops + n * trips[frame[op]].n
    elseif #op.outputs > 0 then
      e.unknown[#e.unknown + 1] = op
    end
  end
  local unknown, fixed = {}, fixed_of(list, frame)
  e.variables = sum_of(list, "VarHandleOp", variable_bytes)
  e.constants = constant_bytes(list, fixed)
  e.feeds = sum_of(list, "Placeholder", function(op)
    return bytes_of(op.outputs[1])
  end)
  e.stacks = stacks_of(list, frame, trips, unknown)
  e.live = liveness(run_order(list, frame), unknown, frame,
                    in_flight(list, frame, trips), fixed)
  e.peak = e.variables + e.constants + e.feeds + e.stacks + e.live
  for _, field in ipairs(totals) do
    e[field] = math.tointeger(e[field]) or e[field]
  end
  return setmetatable(e, meta)
end

return estimate
