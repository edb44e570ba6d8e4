--- train/check.lua - what fit, evaluate and predict are given, looked at first.
--
-- Each function raises unless its argument will do, in words of the options of
-- `what`; hours of training must not end in a mistake that was there before.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local session = require "tide.run.session"
local builtin = require "tide.train.hooks"

local check = {}

local fail = errors.raise

-- ---- data and what it feeds -----------------------------------------------

--- A data set with examples.
function check.data(data, what)
  if type(data) == "table" and rawget(data, "stages") then
    fail("invalid_argument", "%s: data is a data set, not a pipeline; a loop "
      .. "takes its batches: for b in p:batches(100) do step(b.x, b.y) end",
      what)
  end
  if type(data) ~= "table" or type(data.columns) ~= "table"
     or not data.batches then
    local parts = type(data) == "table" and rawget(data, "train")
      and "all its parts; take .train or .test"
    fail("invalid_argument", "%s: data is a data set, as td.data.mnist().train "
      .. "or td.data.of{images = x, labels = y}; given %s", what,
      parts or args.what(data))
  end
  if data.size == 0 then
    fail("invalid_argument", "%s: the data has no examples", what)
  end
end

--- Placeholders by the columns of the data.
function check.inputs(inputs, columns, what)
  if not inputs then return end
  local known = {}
  for _, column in ipairs(columns) do known[column] = true end
  for _, key in ipairs(args.sorted_keys(inputs)) do
    if not known[key] then
      fail("invalid_argument", "%s: the data has no column \"%s\" to feed; it "
        .. "has %s", what, key, table.concat(columns, ", "))
    end
    if not args.is_tensor(inputs[key]) then
      fail("invalid_argument", "%s: inputs.%s is the placeholder that column "
        .. "\"%s\" feeds, not %s", what, key, key, args.what(inputs[key]))
    end
  end
end

--- What can be fed true and false.
function check.training(training, what)
  if training == nil then return end
  if not args.is_tensor(training) or training.dtype ~= "bool"
     or training.op.type:find "^Placeholder" == nil then
    fail("invalid_argument", "%s: training is the placeholder to tell layers "
      .. "by, td.placeholder(\"bool\", {}), not %s", what,
      args.is_tensor(training) and training.dtype .. " " .. training.name
      or args.what(training))
  end
end

--- A number of examples.
function check.batch(n, what)
  if n ~= nil and (math.type(n) ~= "integer" or n < 1) then
    fail("invalid_argument", "%s: batch is a number of examples, 1 or more, "
      .. "not %s", what, type(n) == "number" and n or args.what(n))
  end
end

--- The result of f(...); where it needs what is not fed, says so in words of
-- columns.
function check.fed(what, data, f, ...)
  local ok, e = pcall(f, ...)
  if ok then return e end
  local name = type(e) == "table" and tostring(e.message):match
    "needs placeholder \"([^\"]+)\""
  local op = name and core.graph():find(name)
  if not op then error(e, 0) end
  local edge = op.outputs[1]
  fail(e.code, "%s: nothing feeds placeholder \"%s\" (%s): the data has the "
    .. "columns %s. %s. %s", what, name, edge.dtype,
    table.concat(data.columns, ", "), edge.dtype == "bool"
    and "A flag that tells layers of training is given as training = x"
    or ("Add a column, or give inputs = {%s = x}"):format(data.columns[1]),
    e.message)
end

-- ---- the rest -------------------------------------------------------------

--- An output with a row for each example.
function check.output(x, key)
  if not args.is_tensor(x) then
    fail("invalid_argument", "predict: output \"%s\" is no graph tensor, but a "
      .. "%s", tostring(key), args.what(x))
  end
  if core.edge(x).rank == 0 then
    fail("invalid_argument", "predict: output \"%s\" is one number for a whole "
      .. "batch; evaluate{metrics = {name = x}} takes means", x.name)
  end
  return x
end

--- The session to run in.
function check.session(o, what)
  if o.session == nil then return session.default() end
  if core.kind(o.session) ~= "session" and type(o.session) ~= "table" then
    fail("invalid_argument", "%s: session is one that td.session() gives, not "
      .. "%s", what, args.what(o.session))
  end
  return o.session
end

-- What a hook may have.
local events = {"begin", "epoch_begin", "step_end", "epoch_end", "finish"}

--- The hooks given, after the one that is always there.
function check.hooks(hooks)
  local list = {builtin.nan_guard()}
  if args.plain(hooks) and args.has_names(hooks) then
    fail("invalid_argument", "fit: hooks is a list: put the hook in braces, "
      .. "{td.train.early_stop()}")
  end
  for i, hook in ipairs(args.check_list(hooks or {}, "fit: hooks")) do
    if type(hook) ~= "table" then
      fail("invalid_argument", "fit: hook %d is a table of functions such as "
        .. "{epoch_end = f}, not %s", i, args.what(hook))
    end
    local any = false
    for _, event in ipairs(events) do any = any or hook[event] end
    if not any then
      fail("invalid_argument", "fit: hook %d has none of the functions that "
        .. "are called: %s; it has %s", i, table.concat(events, ", "),
        table.concat(args.sorted_keys(hook), ", "))
    end
    list[i + 1] = hook
  end
  return list
end

--- A number of epochs.
function check.epochs(n)
  if n ~= math.huge and (math.type(n) ~= "integer" or n < 0) then
    fail("invalid_argument", "fit: epochs is a whole number, or math.huge, not "
      .. "%s", type(n) == "number" and n or args.what(n))
  end
end

--- What sess:run takes.
function check.train(train)
  if args.is_tensor(train) or core.kind(train) == "op" then return end
  local meta = type(train) == "table" and getmetatable(train)
  fail("invalid_argument", "fit: train is the op that :minimize(loss) gives, "
    .. "not %s", meta and meta.is_optimizer
    and tostring(train) .. "; write train = optimizer:minimize(loss)"
    or args.what(train))
end

return check
