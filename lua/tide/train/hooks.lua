--- train/hooks.lua - what td.train.fit calls between steps and epochs.
--
-- A hook is a table of functions, each called as f(hook, run): begin,
-- epoch_begin, step_end, epoch_end, finish. `run` tells session, options,
-- epoch, epochs, step, loss, batch, row (the last epoch's), history; run.stop()
-- ends the training after the current step. One that remembers something has
-- state(hook), a plain table that goes into checkpoints, and restore(hook, s,
-- run).
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local spark = require "tide.show.spark"
local variables = require "tide.variables.variables"

local train = {}

local fail = errors.raise

-- ---- when to end ----------------------------------------------------------

-- "loss" or a validation metric of an epoch's row.
local function score(row, metric, what)
  local x = row[metric]
  if x == nil and row.validation then x = row.validation[metric] end
  if type(x) ~= "number" then
    local known = args.sorted_keys(row.validation or {})
    known[#known + 1] = "loss"
    fail("invalid_argument", "%s: there is no metric \"%s\"; there is %s", what,
         metric, table.concat(known, ", "))
  end
  return x
end

--- A hook that ends the training when `metric` has not become better for
-- `patience` epochs, and puts the weights of the best epoch back.
-- @param[opt] o metric ("loss", or a metric of the validation data), patience
-- (3), min_delta (0), larger = true when more is better, restore = false keeps
-- the last weights
function train.early_stop(o)
  o = args.read(o, {"metric", "patience", "min_delta", "larger", "restore"},
                "early_stop")
  local metric, patience = o.metric or "loss", o.patience or 3
  args.expect(metric, "string", "early_stop: metric, a name,")
  args.expect(patience, "integer", "early_stop: patience")
  args.expect_number(o.min_delta or 0, "early_stop: min_delta", 0)
  local best, since, kept, list = nil, 0, nil, nil
  local hook = {}
  function hook.begin(_, _)
    list = o.restore ~= false and variables.trainable_variables() or {}
  end
  function hook.epoch_end(_, run)
    local x = score(run.row, metric, "early_stop")
    local gain = best and (o.larger and x - best or best - x)
    if not best or gain > (o.min_delta or 0) then
      best, since = x, 0
      kept = #list > 0 and run.session:run(list, nil, {as_values = true})
      return
    end
    since = since + 1
    if since >= patience then run.stop() end
  end
  function hook.finish(_, run)
    if since == 0 or not kept then return end
    for i, v in ipairs(list) do v:load(kept[i], run.session) end
  end
  function hook.state() return {best = best, since = since, kept = kept} end
  function hook.restore(_, s, run)
    best, since, kept = s.best, s.since, s.kept
    if since >= patience then run.stop() end -- it had ended already
  end
  return hook
end

-- ---- what to change -------------------------------------------------------

--- A hook that sets a variable, mostly the learning rate, before each epoch to
-- f(epoch), counted from 1.
-- @usage local lr = td.variable(0.1, {name = "lr", trainable = false})
-- local hook = td.train.schedule(lr, function(epoch) return 0.1 / epoch end)
-- type(hook.epoch_begin)  --> function
function train.schedule(v, f)
  if not variables.is_variable(v) then
    fail("invalid_argument", "schedule takes the variable to set, given %s",
         args.what(v))
  end
  args.expect(f, "function", "schedule: what gives the value of an epoch")
  return {epoch_begin = function(_, run) v:load(f(run.epoch), run.session) end}
end

-- ---- what to show ---------------------------------------------------------

--- A hook that draws the loss. `to` is a td.chart, or anything with a method
-- log(to, row), to which {step =, loss =, ...} goes after every `every` (100)
-- steps and each epoch; without it, a line of bars is printed at the end of
-- each epoch.
function train.chart(to, o)
  o = args.read(o, {"every"}, "chart")
  local every, losses = o.every or 100, {}
  if to ~= nil and (type(to) ~= "table" or to.log == nil) then
    fail("invalid_argument", "chart takes an object with a method log(to, "
      .. "row), or nothing; given %s", args.what(to))
  end
  local hook = {}
  function hook.step_end(_, run)
    if run.step % every ~= 0 then return end
    if to then return to:log{step = run.step, loss = run.loss} end
    losses[#losses + 1] = run.loss
  end
  function hook.epoch_end(_, run)
    local row = {step = run.step, loss = run.row.loss}
    for name, x in pairs(run.row.validation or {}) do row[name] = x end
    if to then return to:log(row) end
    losses[#losses + 1] = run.row.loss
    print(("loss %s %.4f"):format(spark.line(losses, 60), run.row.loss))
  end
  return hook
end

-- ---- what must not be -----------------------------------------------------

-- The values of this step's batch, by placeholder.
local function feeds_of(run)
  local feeds, values = {}, table.pack(run.values(run.batch))
  for i, edge in ipairs(run.edges) do feeds[edge] = values[i] end
  return feeds
end

--- A hook that stops where the loss is NaN or infinite: it runs the loss once
-- more on the same batch and raises an error with the first node whose value is
-- not finite. fit has one always.
function train.nan_guard()
  return {step_end = function(_, run)
    local x = run.loss
    if x == x and x < math.huge and x > -math.huge then return end
    local ok, e = pcall(run.session.run, run.session, run.options.loss,
                        feeds_of(run), {check_numerics = true})
    local why = ok and "the update of this step made it so; look at the "
      .. "gradients, or take a smaller learning rate" or e
    fail("invalid_argument", "fit: the loss is %s at step %d (epoch %d): %s",
         tostring(x), run.step, run.epoch, tostring(why))
  end}
end

return train
