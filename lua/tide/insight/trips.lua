--- insight/trips.lua - which ops of a graph are in loops, and how often these
-- go round.
--
-- How many iterations there are is known where the condition compares a counter
-- with a constant, and of a loop of gradients, which counts down what the loop
-- before it counted.
-- SPDX-License-Identifier: Apache-2.0

local trips = {}

--- The frame of each op by name of its Enters, false outside of all; and the
-- frame around each.
function trips.frames_of(list)
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

--- How often each frame's body runs: {n =, own =, exact =}; n has those of the
-- loops around it, too.
function trips.of(list, frame, parent)
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

return trips
