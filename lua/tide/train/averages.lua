--- train/averages.lua - td.train.moving_average: variables smoothed over steps.
--
-- A model often does better with the average of its last weights. The averages
-- are variables named <variable>/ExponentialMovingAverage, as TensorFlow's.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
local scope = require "tide.graph.scope"
local variables = require "tide.variables.variables"
local ops = require("tide.ops").ops

local train = {}
local average = {__name = "moving average"}

function average.__index(_, key)
  if average[key] ~= nil or type(key) ~= "string" or key == "num_updates" then
    return average[key]
  end
  return core.error("invalid_argument", ("a moving average has no \"%s\"; it "
    .. "has :apply(variables) and :average(variable)"):format(key))
end

local fail = errors.invalid

--- Averages with decay d: a <- d a + (1 - d) v each time the op of :apply()
-- runs. Option num_updates, a count of steps: early averages forget faster, by
-- min(d, (1 + n) / (10 + n)).
-- @usage local v = td.variable(0.0, "v")
-- local average = td.train.moving_average(0.5)
-- local update = average:apply{v}
-- local sess = td.session()
-- sess:init()
-- sess:run(v:assign(8.0))
-- sess:run(update)
-- sess:run(average:average(v))  --> 4.0
function train.moving_average(d, o)
  o = args.read(o, {"num_updates"}, "moving_average")
  args.expect_number(d, "moving_average: the decay", 0, 1)
  return setmetatable({decay = d, num_updates = o.num_updates,
                       shadows = setmetatable({}, {__mode = "k"})}, average)
end

-- The decay of this step in the variable's dtype.
local function decay_of(self, dtype)
  local d = core.edge(self.decay, not args.is_tensor(self.decay) and dtype
                      or nil)
  d = ops.cast(d, dtype)
  if not self.num_updates then return d end
  local n = ops.cast(core.edge(self.num_updates), dtype)
  return ops.minimum(d, (1 + n) / (10 + n))
end

local function shadow_of(self, v)
  local found = self.shadows[v]
  if found and not core.is_gone(found.handle) then return found end
  local _ <close> = core.push{colocate = v.op}
  found = variables.make(v.initial_value, v.name .. "/ExponentialMovingAverage",
                         {trainable = false})
  graph.add_to_collection("moving_average_variables", v)
  self.shadows[v] = found
  return found
end

--- An op that moves the averages of the variables (all trainable ones) on. Run
-- it after the training step: inside td.control_dependencies({train}, ...).
function average:apply(list)
  list = list or variables.trainable_variables()
  if variables.is_variable(list) then
    fail("average:apply takes a list of variables: put \"%s\" in braces",
         list.name)
  end
  for i, v in ipairs(args.check_list(list, "average:apply")) do
    if not variables.is_variable(v) then
      fail("average:apply takes a list of variables; %d is %s", i, args.what(v))
    end
    if not v.dtype:find "float" then
      fail("average:apply: variable \"%s\" is %s; averages are of floats",
           v.name, v.dtype)
    end
    shadow_of(self, v)
  end
  return scope.name_scope("ExponentialMovingAverage", function()
    local done = {}
    for i, v in ipairs(list) do
      local a = self.shadows[v]
      local keep = decay_of(self, v.dtype)
      done[i] = a:assign_sub((1 - keep) * (a - v)).op
    end
    return scope.group(done, "update")
  end)
end

--- The variable that holds the average of v.
function average:average(v)
  local found = self.shadows[v]
  if not found then
    fail("average:average: \"%s\" is not averaged; give it to :apply first",
         tostring(args.is_tensor(v) and v.name or v))
  end
  return found
end

return train
