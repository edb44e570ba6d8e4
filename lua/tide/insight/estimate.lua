--- insight/estimate.lua - g:estimate(feeds): what a step will take, before it
-- runs.
--
-- The graph is inferred anew with the shapes of the feeds. Nodes are gone
-- through in order; a tensor lives from the node that makes it to the last that
-- takes it; what only passes on, and element by element what an input of the
-- same size ends in, takes nothing new. A loop counts what one iteration holds
-- and, until the stack is emptied, what it pushes in all iterations; how many
-- these are is known where the condition compares a counter with a constant.
-- Nothing is known of the library's scratch memory and of what several threads
-- hold at once, so that the peak is that of one thread.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local dtypes = require "tide.dtype"
local fetch = require "tide.fetch"
local shapes = require "tide.shape"

local estimate = {}

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

-- What reading a stack loses, the graph as it was built still knows.
local built -- the graph that is estimated

local function shape_of(x)
  local s = x.shape
  if shapes.known(s) then return s end
  local op = built:find(x.op.name)
  local edge = op and op.outputs[x.port + 1]
  return edge and shapes.known(edge.shape) and edge.shape or s
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

-- ---- loops ----------------------------------------------------------------

-- The frame of each op by name of its Enters: false outside of all.
local function frames_of(list)
  local frame, parent = {}, {}
  for _, op in ipairs(list) do
    local at = false
    for _, x in ipairs(op.inputs) do
      if x then
        local from = frame[x.op] or false
        if x.op.type == "Enter" then from = x.op.attr.frame_name end
        if x.op.type == "Exit" then from = parent[from] or false end
        at = from or at
      end
    end
    for _, before in ipairs(op.control_inputs) do at = at or frame[before] end
    frame[op] = at or false
    if op.type == "Enter" then parent[op.attr.frame_name] = at or false end
  end
  return frame, parent
end

-- The number that x is known to be.
local function constant(x)
  while x and (x.op.type == "Identity" or x.op.type == "Enter") do
    x = x.op.inputs[1]
  end
  if not x or x.op.type ~= "Const" then return nil end
  local v = x.op.attr.value
  return v.rank == 0 and type(v:item()) == "number" and v:item() or nil
end

-- From a Merge: where its variable begins, and what is added each time.
local function counter(merge)
  if merge.op.type ~= "Merge" then return nil end
  local first, back = merge.op.inputs[1], merge.op.inputs[2]
  local step = back and back.op.type == "NextIteration" and back.op.inputs[1]
  if not step or not step.op.type:match "^Add" then return nil end
  local own, by = step.op.inputs[1], constant(step.op.inputs[2])
  while own.op.type == "Identity" or own.op.type == "Switch" do
    own = own.op.inputs[1]
  end
  local begin = constant(first)
  if own ~= merge or not by or not begin or by <= 0 then return nil end
  return begin, by
end

-- A loop of gradients counts down what the loop before it counted: the frame of
-- that one, nil for others.
local function counted_by(x, frame)
  if x.op.type ~= "Merge" then return nil end
  local from = x.op.inputs[1]
  while from.op.type == "Enter" or from.op.type == "Identity" do
    from = from.op.inputs[1]
  end
  return from.op.type == "Exit" and frame[from.op] or nil
end

-- Iterations while `x`, a boolean, holds; nil when there is no telling. `own`
-- are those of loops before.
local function iterations(x, own, frame)
  local op = x.op
  while op.type == "Identity" do op = op.inputs[1].op end
  if op.type == "LogicalAnd" then
    local a = iterations(op.inputs[1], own, frame)
    local b = iterations(op.inputs[2], own, frame)
    return a and b and math.min(a, b) or a or b
  end
  if op.type == "Greater" and constant(op.inputs[2]) == 0 then
    return own[counted_by(op.inputs[1], frame)]
  end
  if op.type ~= "Less" and op.type ~= "LessEqual" then return nil end
  local begin, by = counter(op.inputs[1])
  local limit = constant(op.inputs[2])
  if not begin or not limit then return nil end
  local n = (limit - begin) / by
  n = op.type == "Less" and math.ceil(n) or math.floor(n) + 1
  return math.max(0, math.tointeger(n) or 0)
end

-- How often each frame's body runs, outer loops included: {n =, exact =}.
local function trips_of(list, frame, parent)
  local own, total = {}, {[false] = {n = 1.0, exact = true}}
  for _, op in ipairs(list) do
    if op.type == "LoopCond" then
      own[frame[op]] = iterations(op.inputs[1], own, frame)
    end
  end
  local function of(f)
    if total[f] then return total[f] end
    local outer = of(parent[f] or false)
    total[f] = {n = outer.n * (own[f] or 1), own = own[f] or 1,
                exact = outer.exact and own[f] ~= nil}
    return total[f]
  end
  for f in pairs(parent) do of(f) end
  return total
end

-- ---- operations -----------------------------------------------------------

-- As a float, which no product of sizes overflows.
local function count_of(shape)
  if not shapes.known(shape) then return nil end
  local n = 1.0
  for _, size in ipairs(shape) do n = n * size end
  return n
end

local function count(x) return x and count_of(shape_of(x)) or nil end

local function product(op)
  local x, y = op.inputs[1], op.outputs[1]
  local n, shape = count(y), shape_of(x)
  if not n or not shapes.known(shape) then return nil end
  local turned = op.attr.transpose_a or op.attr.adj_x
  return 2 * n * shape[turned and #shape - 1 or #shape]
end

-- A multiply-add for each element of a sparse matrix and column of the result.
local function sparse_product(op)
  local n, shape = count(op.inputs[2]), shape_of(op.outputs[1])
  return n and shape and shape[2] >= 0 and 2 * n * shape[2] or nil
end

local function reduction(op) return count(op.inputs[1]) end

-- A multiply-add for each tap of the filter w, at each place and channel of the
-- result y.
local function convolution(w, y)
  local n, shape = count(y), shape_of(w)
  if not n or not shapes.known(shape) then return nil end
  n = 2 * n
  for i = 1, #shape - 1 do n = n * shape[i] end
  return n
end

-- Of a depthwise one, those of one channel.
local function depthwise(w, y)
  local n, shape = count(y), shape_of(w)
  if not n or not shapes.known(shape) then return nil end
  return 2 * n * shape[1] * shape[2]
end

-- One for each cell of each window.
local function windows(x, op)
  local n, cells = count(x), 1
  for _, k in ipairs(op.attr.ksize) do cells = cells * k end
  return n and n * cells
end
local function pooling(op) return windows(op.outputs[1], op) end
local function pooling_back(op)
  return windows(op.inputs[#op.inputs], op)
end

-- Of a recurrent cell: a multiply-add for each row of x and each weight; the
-- gradient of a step leaves that for the weights to other ops.
local function recurrent(x, times, ...)
  local weights = {...}
  return function(op)
    local shape, n = shape_of(op.inputs[x]), 0
    for _, w in ipairs(weights) do n = n + (count(op.inputs[w]) or 0 / 0) end
    if not shapes.known(shape) or n ~= n then return nil end
    for i = 1, #shape - 1 do n = n * shape[i] end
    return 2 * times * n
  end
end

local formulas = {MatMul = product, BatchMatMul = product,
                  BatchMatMulV2 = product,
                  SparseTensorDenseMatMul = sparse_product, Sum = reduction, Mean = reduction,
                  Prod = reduction, Max = reduction, Min = reduction,
                  ArgMax = reduction, ArgMin = reduction, L2Loss = reduction}
for _, type in ipairs{"MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D"} do
  formulas[type], formulas[type .. "Grad"] = pooling, pooling_back
end
formulas.LSTMBlockCell = recurrent(1, 1, 4)
formulas.GRUBlockCell = recurrent(1, 1, 3, 4)
formulas.GRUBlockCellGrad = formulas.GRUBlockCell
for _, version in ipairs{"", "V2"} do
  formulas["BlockLSTM" .. version] = recurrent(2, 1, 5)
  formulas["BlockLSTMGrad" .. version] = recurrent(2, 2, 5)
end
-- The gradients take the same work.
for type, of in pairs{Conv2D = convolution, Conv3D = convolution,
                      DepthwiseConv2dNative = depthwise} do
  local version = type == "Conv3D" and "V2" or ""
  formulas[type] = function(op) return of(op.inputs[2], op.outputs[1]) end
  formulas[type .. "BackpropInput" .. version] = function(op)
    return of(op.inputs[2], op.inputs[3])
  end
  formulas[type .. "BackpropFilter" .. version] = function(op)
    return of(op.outputs[1], op.inputs[3])
  end
end

local free = {}
for _, type in ipairs{"Const", "Placeholder", "Identity", "IdentityN", "Enter",
  "Exit", "Switch", "Merge", "NextIteration", "LoopCond", "NoOp", "Reshape",
  "ExpandDims", "Squeeze", "Shape", "Size", "Rank", "ReadVariableOp",
  "VarHandleOp", "StopGradient", "PreventGradient", "StackPopV2",
  "StackPushV2", "ControlTrigger", "StackV2", "Snapshot"} do
  free[type] = true
end

-- Floating-point operations of one run; nil when shapes are not known.
local function operations(op)
  if free[op.type] then return 0 end
  if formulas[op.type] then return formulas[op.type](op) end
  local y = op.outputs[1]
  if not y or not dtypes.is_float(y.dtype) then return 0 end
  return count(y)
end

-- ---- memory ---------------------------------------------------------------

local function bytes_of(x)
  local size, n = dtypes.size(x.dtype), count(x)
  if x.dtype == "resource" or x.dtype == "variant" then return 0 end
  return size and n and size * n or nil
end

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

local elementwise = {}

local function writes_over(op)
  if elementwise[op.type] == nil then
    local info = core.op_info(op.type)
    elementwise[op.type] = info.section == "Math" or info.broadcasts or false
  end
  return elementwise[op.type]
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
local function takes_over(op, i, bytes, last)
  if not writes_over(op) then return false end
  for _, x in ipairs(op.inputs) do
    local from = x and source(x)
    if from and last[from] == i and from.op.type ~= "Const"
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

-- Iterations that overlap: the variable that runs ahead is held once for each.
-- The most of any loop; most often it is the largest of its variables.
local function in_flight(list, trips)
  local most = 0
  for _, op in ipairs(list) do
    if op.type == "Enter" and not op.attr.is_constant then
      local trip = trips[op.attr.frame_name]
      local n = math.min(op.attr.parallel_iterations,
                         trip.exact and trip.own or math.huge)
      most = math.max(most, n * (bytes_of(op.outputs[1]) or 0))
    end
  end
  return most
end

-- The most that is alive at one time, what is fed and kept aside.
local function liveness(list, unknown)
  local last, ends, now, peak = last_uses(list), {}, 0, 0
  for i, op in ipairs(list) do
    for _, y in ipairs(op.outputs) do
      if not passes[op.type] and op.type ~= "Const"
         and op.type ~= "Placeholder" then
        local bytes = bytes_of(y)
        if not bytes then
          unknown[#unknown + 1] = op
        elseif last[y] then
          local until_ = last[y]
          ends[until_] = (ends[until_] or 0) + bytes
          now = now + bytes
          if takes_over(op, i, bytes, last) then
            peak = math.max(peak, now - bytes)
          else
            peak = math.max(peak, now)
          end
        else
          peak = math.max(peak, now + bytes)
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
  local loops = {}
  for f in pairs(parent) do
    loops[#loops + 1] = {name = f, iterations = trips[f].own,
                         exact = trips[f].exact}
  end
  table.sort(loops, function(a, b) return a.name < b.name end)
  return loops
end

local totals = {"flops", "variables", "constants", "feeds", "stacks", "live",
                "peak"}

local function given_shapes(g, o)
  local list = {}
  for key, shape in pairs(o.shapes or {}) do
    list[#list + 1] = {edge = fetch.feed_key(g, key), shape = shape}
  end
  table.sort(list, function(a, b) return a.edge.name < b.edge.name end)
  return list
end

--- What a step takes, before it runs: floating-point operations and bytes.
-- @param g the graph
-- @param[opt] feeds {[x] = value}, for their shapes
-- @param[opt] o fetches: what is computed (all); shapes: {[x] = {2, 3}} in
-- place of values
-- @return {flops =, peak =, variables =, constants =, feeds =, stacks =, live =
-- (bytes), loops = {{name =, iterations =, exact =}}, unknown = ops of unknown
-- shape}; as text, some lines
function estimate.estimate(g, feeds, o)
  o = args.read(o, {"fetches", "shapes"}, "estimate")
  built = g
  local handles = o.fetches and fetch.read(g, o.fetches)
  local copy = with_shapes(g, feeds, given_shapes(g, o))
  local list = needed(copy, handles)
  local frame, parent = frames_of(list)
  local trips = trips_of(list, frame, parent)
  local e = {flops = 0, loops = loops_of(parent, trips), unknown = {}}
  for _, op in ipairs(list) do
    local n = operations(op)
    if n then
      e.flops = e.flops + n * trips[frame[op]].n
    elseif #op.outputs > 0 then
      e.unknown[#e.unknown + 1] = op
    end
  end
  local unknown = {}
  e.variables = sum_of(list, "VarHandleOp", variable_bytes)
  e.constants = sum_of(list, "Const", function(op)
    return bytes_of(op.outputs[1])
  end)
  e.feeds = sum_of(list, "Placeholder", function(op)
    return bytes_of(op.outputs[1])
  end)
  e.stacks = stacks_of(list, frame, trips, unknown)
  e.live = liveness(list, unknown) + in_flight(list, trips)
  e.peak = e.variables + e.constants + e.feeds + e.stacks + e.live
  for _, field in ipairs(totals) do
    e[field] = math.tointeger(e[field]) or e[field]
  end
  return setmetatable(e, meta)
end

return estimate
