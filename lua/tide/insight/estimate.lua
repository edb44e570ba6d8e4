--- insight/estimate.lua - g:estimate(feeds): what a step will take, before it
-- runs.
--
-- A copy of the graph with the shapes of the feeds is planned as a session
-- would, on one CPU. The plan says what is needed, computed ahead or computed
-- once, and in which order; the row of its op says what a node takes. The nodes
-- are gone through as one thread would run them, and the bytes that are held
-- are added up:
--
--   * a tensor is held from the node that makes it to the last that reads it;
--   * a node that hands its input on (Identity, Reshape), and an element-wise
--     one whose input of the same size nobody reads later (y = relu(x)), takes
--     no memory: it writes where its input was;
--   * constants are held to the end;
--   * a loop holds what one iteration does, one value more of the variable that
--     runs ahead of the others, and, from the loop to its gradient, all that
--     its iterations push on stacks.
--
-- The scratch memory of libraries, and what several threads hold at once, is
-- not known: the peak is that of one thread.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local fetch = require "tide.run.fetch"
local loops = require "tide.insight.trips"
local shapes = require "tide.tensor.shape"

local estimate = {}

-- ---- sizes ----------------------------------------------------------------

-- The elements of a shape, as a float, which no product of sizes overflows.
local function count_of(shape)
  if not shapes.known(shape) then return nil end
  local n = 1.0
  for _, size in ipairs(shape) do n = n * size end
  return n
end

-- The bytes of x; nil where they are not known.
local function bytes_of(x)
  if x.dtype == "resource" or x.dtype == "variant" then return 0 end
  local size, n = dtypes.size(x.dtype), count_of(x.shape)
  return size and n and size * n or nil
end

-- ---- the graph with the shapes of the feeds -------------------------------

-- What is fed: edges and their shapes. A feed may also be a shape: a plain list
-- beside a placeholder is a value, so that shapes are given as options.shapes.
local function fed_shapes(g, feeds, given)
  local edges, values = fetch.feeds(g, feeds)
  local list = {}
  for i, edge in ipairs(edges) do
    local v = values[i]
    if core.kind(v) ~= "tensor" then v = core.tensor(v, edge.dtype) end
    if not shapes.compatible(edge.shape, v.shape) then
      core.error("invalid_argument", ("estimate: \"%s\" has shape %s, given %s")
        :format(edge.name, shapes.text(edge.shape), shapes.text(v.shape)))
    end
    list[i] = {edge = edge, shape = v.shape}
  end
  return table.move(given, 1, #given, #list + 1, list)
end

-- What reading a stack loses in a copy, the graph as it was built still knows.
local function tell_shapes(g, copy)
  for _, op in ipairs(copy:ops()) do
    local known = g:find(op.name)
    for i, y in ipairs(known and known.type == op.type and op.outputs or {}) do
      local shape = known.outputs[i].shape
      if not shapes.known(y.shape) and shapes.known(shape) then
        core.set_shape(y, shape)
      end
    end
  end
end

-- A copy where what is fed is a placeholder of that shape; and those, by the
-- names of what they stand for.
local function with_shapes(g, fed)
  local copy = core.graph_new()
  local _ <close> = core.push{graph = copy}
  local stands, used, names, by = {}, {}, {}, {}
  for _, op in ipairs(g:ops()) do
    for _, x in ipairs(op.inputs) do
      if x then used[x.name] = true end
    end
  end
  for _, f in ipairs(fed) do
    local name = f.edge.name
    stands[name] = core.add("Placeholder", {}, {dtype = f.edge.dtype,
      shape = f.shape}, "fed")
    if used[name] then
      names[#names + 1] = name
      by[#by + 1] = stands[name]
    end
  end
  copy:import_bytes(g:save_bytes(), nil, names, by)
  tell_shapes(g, copy)
  return copy, stands
end

-- ---- what is planned ------------------------------------------------------

-- What nobody takes, outside of loops: all is computed for one of these.
local function last_ops(g)
  local list, taken, frame = g:ops(), {}, loops.frames_of(g:ops())
  for _, op in ipairs(list) do
    for _, x in ipairs(op.inputs) do
      if x then taken[x.op] = true end
    end
    for _, before in ipairs(op.control_inputs) do taken[before] = true end
  end
  local last = {}
  for _, op in ipairs(list) do
    if not taken[op] and not frame[op] then last[#last + 1] = op end
  end
  return last
end

-- The ops of a step for these fetches (nil: of all), the most urgent first
-- among those whose inputs are there.
local function planned(copy, stands, handles)
  local fetches, feeds = {}, {}
  for i, x in ipairs(handles or {}) do
    fetches[i] = core.kind(x) == "op" and copy:op(x.name) or stands[x.name]
      or copy:edge(x.name)
  end
  for _, op in ipairs(copy:ops()) do
    if op.type == "Placeholder" then feeds[#feeds + 1] = op.outputs[1] end
  end
  local s <close> = core.session(copy, {threads = 1, cpu_devices = 1})
  local plan = s:core_program(handles and fetches or last_ops(copy), feeds)
  return plan[1] and plan[1].graph:ops() or {}
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
    in_place[op.type] = core.op_info(op).in_place
  end
  return in_place[op.type]
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

-- The ops as one thread runs them: what became ready last comes first, of those
-- at once the most urgent.
local function run_order(list, frame)
  local takers, waits = waiting(list, frame)
  local stack, order = {}, {}
  for i = #list, 1, -1 do
    if waits[list[i]] == 0 then stack[#stack + 1] = list[i] end
  end
  local function done(key)
    local list_of = takers[key] or {}
    for i = #list_of, 1, -1 do
      local op = list_of[i]
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

-- Position of the last op that takes each tensor; what is fetched stays.
local function last_uses(list)
  local last = {}
  for i, op in ipairs(list) do
    for _, x in ipairs(op.inputs) do
      if x then
        last[source(x)] = op.type == "_Retval" and #list
          or math.max(last[source(x)] or 0, i)
      end
    end
  end
  return last
end

-- Counted apart: they are there from the beginning to the end.
local apart = {Const = true, _Arg = true}

-- Is there an input of that size that ends here?
local function takes_over(op, i, bytes, last)
  if not writes_over(op) then return false end
  for _, x in ipairs(op.inputs) do
    local from = x and source(x)
    if from and last[from] == i and not apart[from.op.type]
       and from.op.type ~= "ReadVariableOp" and bytes_of(from) == bytes then
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
local function liveness(list, unknown, frame, held)
  local last, ends, now, peak = last_uses(list), {}, 0, 0
  for i, op in ipairs(list) do
    local aside = held[frame[op]] or 0
    for _, y in ipairs(op.outputs) do
      if not passes[op.type] and not apart[op.type] then
        local bytes = bytes_of(y)
        if not bytes then
          unknown[#unknown + 1] = op
        elseif last[y] then
          local until_ = last[y]
          ends[until_] = (ends[until_] or 0) + bytes
          now = now + bytes
          if takes_over(op, i, bytes, last) then
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
  local handles = o.fetches and fetch.read(g, o.fetches)
  local copy, stands = with_shapes(g, fed_shapes(g, feeds, given_shapes(g, o)))
  local list = planned(copy, stands, handles)
  local frame, parent = loops.frames_of(list)
  local trips = loops.of(list, frame, parent)
  local e = {flops = 0, loops = loops_of(parent, trips), unknown = {}}
  for _, op in ipairs(list) do
    local n = core.op_cost(op)
    if n then
      e.flops = e.flops + n * trips[frame[op]].n
    elseif #op.outputs > 0 then
      e.unknown[#e.unknown + 1] = op
    end
  end
  local function first_bytes(op) return bytes_of(op.outputs[1]) end
  local unknown = {}
  e.variables = sum_of(list, "VarHandleOp", variable_bytes)
  e.constants = sum_of(list, "Const", first_bytes)
  e.feeds = sum_of(list, "_Arg", first_bytes)
  e.stacks = stacks_of(list, frame, trips, unknown)
  e.live = liveness(run_order(list, frame), unknown, frame,
                    in_flight(list, frame, trips))
  e.peak = e.variables + e.constants + e.feeds + e.stacks + e.live
  for _, field in ipairs(totals) do
    e[field] = math.tointeger(e[field]) or e[field]
  end
  return setmetatable(e, meta)
end

return estimate
