--- train/fit.lua - td.train.fit, evaluate, predict: the loop around batches.
--
-- Plain Lua on public calls: a callable for the step, one for the metrics, and
-- hooks in between. Whoever needs another loop writes it; this one is short.
--
-- A column of the data feeds the placeholder of its name, or the one that
-- `inputs` gives: {images = x, labels = y}.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local batches = require "tide.train.batches"
local errors = require "tide.base.errors"
local check = require "tide.train.check"
local graph = require "tide.graph.graph"
local progress = require "tide.script.progress"
local saving = require "tide.train.fit_saving"
local scope = require "tide.graph.scope"
local ops = require("tide.ops").ops

local train = {}

local fail = errors.raise

-- ---- what feeds what ------------------------------------------------------

-- Placeholders of the current graph by name.
local function placeholders()
  local found, names = {}, {}
  for _, op in ipairs(core.graph():ops()) do
    if op.type == "Placeholder" or op.type == "PlaceholderWithDefault" then
      found[op.name] = op.outputs[1]
      names[#names + 1] = op.name
    end
  end
  table.sort(names)
  return found, names
end

-- {column, edge} in the columns' order, for the columns that feed something.
local function pair_columns(columns, inputs, what)
  local found, names = placeholders()
  local pairs_of = {}
  for _, column in ipairs(columns) do
    local edge = found[column]
    if inputs then edge = inputs[column] end
    if edge then
      pairs_of[#pairs_of + 1] = {column = column, edge = core.edge(edge)}
    end
  end
  if #pairs_of == 0 then
    fail("invalid_argument", "%s: no placeholder is called like a column of "
      .. "the data (%s); the graph has %s. Name them alike, or give inputs = "
      .. "{%s = x, ...}", what, table.concat(columns, ", "),
      #names > 0 and table.concat(names, ", ") or "none", columns[1])
  end
  return pairs_of
end

-- Placeholders and how a batch fills them: edges, and f(batch) -> values.
local function feeder(data, o, what, training)
  local columns = data.columns
  check.training(o.training, what)
  check.inputs(o.inputs, columns, what)
  local fed = pair_columns(columns, o.inputs, what)
  local edges = {}
  for i, pair in ipairs(fed) do edges[i] = pair.edge end
  if o.training then edges[#edges + 1] = core.edge(o.training) end
  return edges, function(batch)
    local values = {}
    for i, pair in ipairs(fed) do values[i] = batch[pair.column] end
    if o.training then values[#values + 1] = training end
    return table.unpack(values)
  end
end

-- ---- metrics --------------------------------------------------------------

-- A metric is a graph scalar, whose mean over the examples is told, or a pair
-- {value, update} as td.metrics give.
local function read_metrics(metrics, what)
  if metrics ~= nil and not args.plain(metrics) then
    fail("invalid_argument", "%s: metrics is a table {name = graph tensor}, "
      .. "not %s", what, args.what(metrics))
  end
  local list = {}
  for _, name in ipairs(args.sorted_keys(metrics or {})) do
    local m = metrics[name]
    if args.plain(m) and #m == 2 then
      list[#list + 1] = {name = name, value = core.edge(m[1]), update = m[2]}
    elseif args.is_tensor(m) then
      local edge = core.edge(m)
      if edge.rank ~= 0 then edge = ops.mean(edge) end
      list[#list + 1] = {name = name, mean = edge}
    else
      fail("invalid_argument", "%s: metric \"%s\" is a graph tensor or {value, "
        .. "update}, given %s; as in {accuracy = tensor}", what, name,
        args.what(m))
    end
  end
  return list
end

-- Sums one batch after another: add(batch), result() -> {name = number}.
local function meter(sess, list, edges, values)
  local fetches = {}
  for i, m in ipairs(list) do fetches[i] = m.mean or m.update end
  local measure = sess:callable(fetches, edges)
  local self = {sums = {}, n = 0}
  function self.add(batch)
    local got = table.pack(measure(values(batch)))
    local n = batch.size
    for i, m in ipairs(list) do
      if m.mean then self.sums[i] = (self.sums[i] or 0.0) + got[i] * n end
    end
    self.n = self.n + n
  end
  function self.result()
    local out = {}
    for i, m in ipairs(list) do
      out[m.name] = m.mean and self.sums[i] / self.n or sess:run(m.value)
    end
    return out
  end
  return self
end

-- Streaming metrics count from nothing again.
local function reset_metrics(sess)
  local list = graph.get_collection "metric_variables"
  local inits = {}
  for i, v in ipairs(list) do inits[i] = v.initializer end
  if #inits > 0 then sess:run(inits) end
end

-- ---- evaluate, predict ----------------------------------------------------

local function measure_all(sess, list, data, o, what, held)
  local edges, values = feeder(data, o, what, false)
  reset_metrics(sess)
  return check.fed(what, data, function()
    local m = meter(sess, list, edges, values)
    for batch in batches.epoch(data, o.batch, nil, held) do m.add(batch) end
    if m.n == 0 then batches.none(what) end
    return m.result()
  end)
end

--- Metrics over a data set: {accuracy = 0.97, ...}.
-- @param o metrics: {name = graph tensor, whose mean over the examples is
-- taken, or a pair {value, update}}; data: a data set, or a pipeline; inputs:
-- {column = placeholder}, else columns feed the placeholders of their names;
-- batch (100; none where a pipeline makes batches itself);
-- training: a bool placeholder, fed false; session
-- @usage local x = td.placeholder("float32", {-1}, "x")
-- local data = td.data.of{x = {1.0, 3.0}}
-- td.train.evaluate{metrics = {mean = x}, data = data}.mean  --> 2.0
function train.evaluate(o)
  o = args.read(o, {"metrics", "data", "inputs", "batch", "training",
                    "session"}, "evaluate")
  check.data(o.data, "evaluate")
  check.batch(o.batch, "evaluate")
  check.pipeline(o.data, o, "evaluate")
  local list = read_metrics(o.metrics, "evaluate")
  if #list == 0 then
    fail("invalid_argument", "evaluate needs metrics = {name = tensor}")
  end
  return measure_all(check.session(o, "evaluate"), list, o.data, o, "evaluate")
end

--- What tensors are for each example of a data set, batches put together along
-- the first dimension: values in the form of `outputs`.
-- @param o outputs: a graph tensor, or a table of them; data, inputs, batch,
-- training, session as for evaluate
-- @usage local x = td.placeholder("float32", {-1}, "x")
-- td.train.predict{outputs = x * 2, data = td.data.of{x = {1.0, 3.0}}}  --> 2 6
function train.predict(o)
  o = args.read(o, {"outputs", "data", "inputs", "batch", "training",
                    "session"}, "predict")
  check.data(o.data, "predict")
  check.batch(o.batch, "predict")
  check.pipeline(o.data, o, "predict")
  local single = args.is_tensor(o.outputs)
  local outputs = single and {o.outputs} or o.outputs
  if type(outputs) ~= "table" or next(outputs) == nil then
    fail("invalid_argument", "predict needs outputs = a graph tensor or a "
      .. "table of them")
  end
  local keys, fetches, parts = {}, {}, {}
  for key in pairs(outputs) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do
    fetches[i], parts[i] = check.output(outputs[key], key), {}
  end
  local edges, values = feeder(o.data, o, "predict", false)
  local sess = check.session(o, "predict")
  check.fed("predict", o.data, function()
    local f = sess:callable(fetches, edges)
    for batch in batches.epoch(o.data, o.batch) do
      local got = table.pack(f(values(batch)))
      for i = 1, #keys do table.insert(parts[i], got[i]) end
    end
  end)
  if #parts[1] == 0 then batches.none "predict" end
  local out = {}
  for i, key in ipairs(keys) do out[key] = ops.concat(parts[i], 0) end
  return single and out[1] or out
end

-- ---- fit ------------------------------------------------------------------

local fit_options = {"loss", "train", "data", "epochs", "batch", "metrics",
  "validation", "hooks", "inputs", "training", "session", "seed", "shuffle",
  "title", "quiet", "checkpoint", "resume", "save_seconds", "save_steps",
  "saver", "flags"}

local function read_fit(o)
  o = args.read(o, fit_options, "fit")
  for _, name in ipairs{"loss", "train", "data"} do
    if o[name] == nil then
      fail("invalid_argument", "fit needs %s; it takes loss =, train =, data "
        .. "=, epochs =, metrics =, validation =, hooks =", name)
    end
  end
  check.data(o.data, "fit")
  if o.validation then check.data(o.validation, "fit: validation") end
  check.train(o.train)
  if not args.is_tensor(o.loss) then
    fail("invalid_argument", "fit: the loss is a graph scalar, not %s",
         args.what(o.loss))
  end
  if core.edge(o.loss).rank ~= 0 then
    fail("invalid_argument", "fit: the loss must be a scalar, given shape %s; "
      .. "take its :mean()", tostring(core.edge(o.loss).shape))
  end
  check.batch(o.batch, "fit")
  check.pipeline(o.data, o, "fit")
  o.epochs = o.epochs or 1
  check.epochs(o.epochs)
  o.seed = o.seed or core.graph():get_seed()
  if o.seed then args.expect(o.seed, "integer", "fit: seed") end
  o.hooks = check.hooks(o.hooks)
  saving.check(o)
  return o
end

local function call(run, event)
  for _, hook in ipairs(run.hooks) do
    if hook[event] then hook[event](hook, run) end
  end
end

-- Everything once on one batch, before hours are spent: a mistake in the
-- metrics or the validation data must not wait for the end of an epoch.
local function rehearse(run, o)
  for i, data in ipairs{o.data, o.validation} do
    local what = i == 1 and "fit" or "fit: validation"
    local metrics = #run.metrics > 0
    local batch = (i == 1 or metrics) and batches.sample(data, o.batch, what)
    if i == 1 then
      check.fed(what, data, function()
        run.session:callable({o.loss}, run.edges)(run.values(batch))
      end)
    end
    if metrics then
      local edges, values = feeder(data, o, what, false)
      check.fed(what, data, function()
        meter(run.session, run.metrics, edges, values).add(batch)
      end)
    end
  end
end

-- Does a node need something that is not fed?
local function wants_more(op, fed)
  local seen, stack = {[op] = true}, {op}
  while #stack > 0 do
    local x = table.remove(stack)
    if x.type == "Placeholder" and not fed[x.outputs[1]] then return true end
    for _, list in ipairs{x.inputs, x.control_inputs} do
      for _, before in ipairs(list) do
        local node = core.kind(before) == "edge" and before.op or before
        if not seen[node] then
          seen[node] = true
          stack[#stack + 1] = node
        end
      end
    end
  end
  return false
end

-- The training op together with the collection "update_ops", by which the
-- averages of batch normalization follow; those of other nets, with feeds of
-- their own, are left alone.
local function with_updates(op, edges)
  local fed, list = {}, {op}
  for _, edge in ipairs(edges) do fed[edge] = true end
  for _, update in ipairs(graph.get_collection "update_ops") do
    local node = core.kind(update) == "op" and update or core.edge(update).op
    if not wants_more(node, fed) then list[#list + 1] = node end
  end
  return #list > 1 and scope.group(list, "train_and_update") or op
end

local function new_run(o)
  local run = {session = check.session(o, "fit"), hooks = o.hooks, epoch = 0,
               step = 0, epochs = o.epochs, history = {}, options = o,
               training = {}, validation = {}} -- what keeps loops
  function run.stop() run.stopping = true end
  run.session:init(graph.get_collection "metric_variables")
  run.session:init()
  run.metrics = read_metrics(o.metrics, "fit")
  run.edges, run.values = feeder(o.data, o, "fit", true)
  return run
end

-- One epoch's row of the history.
local function close_epoch(run, o, sum, n)
  if n == 0 then batches.none(("fit: epoch %d"):format(run.epoch)) end
  local row = {epoch = run.epoch, step = run.step, loss = sum / n}
  if o.validation and #run.metrics > 0 then
    row.validation = measure_all(run.session, run.metrics, o.validation, o,
                                 "fit: validation", run.validation)
  end
  run.row = row
  run.history[#run.history + 1] = row
  call(run, "epoch_end")
end

local function text(row)
  local parts = {("epoch %d: loss %.4f"):format(row.epoch, row.loss)}
  for _, name in ipairs(args.sorted_keys(row.validation or {})) do
    parts[#parts + 1] = ("%s %.4f"):format(name, row.validation[name])
  end
  return table.concat(parts, ", ")
end

-- The batches of an epoch, from where it was left: what a for loop walks and
-- closes, and the loop within.
local function walk(run, o, left)
  local walked = batches.epoch(o.data, o.batch, {shuffle = o.shuffle ~= false,
    seed = o.seed and o.seed + run.epoch}, run.training)
  local loop = walked.loop
  if left and not run.training.loop then loop:restore(left.loop) end
  if o.quiet then return walked, loop end
  return progress(walked, {title = (o.title or "epoch %d"):format(run.epoch)}),
    loop
end

-- True when a signal ends the training within the epoch.
local function run_epoch(run, o, step, left)
  run.sum, run.examples = left and left.sum or 0.0, left and left.examples or 0
  local walked, loop = walk(run, o, left)
  for batch in walked do
    run.step, run.batch = run.step + 1, batch
    run.loss = step(run.values(batch))
    run.sum = run.sum + run.loss * batch.size
    run.examples = run.examples + batch.size
    call(run, "step_end")
    if run.saving and run.saving:between(run, loop) then return true end
    if run.stopping then break end
  end
  close_epoch(run, o, run.sum, run.examples)
  if not o.quiet then print(text(run.row)) end
  return run.saving and run.saving:between(run) or false
end

-- Where a checkpoint left off: the first epoch to run, and the place within it
-- when it is not over.
local function resume(run, o)
  local place = run.saving and run.saving:restore(run)
  if not place then return 1, nil end
  batches.resume(o.data, o.batch, run.training, place.loop, not place.in_epoch)
  batches.resume(o.validation, o.batch, run.validation, place.validation, true)
  run.row = run.history[#run.history]
  if place.in_epoch then return place.epoch, place end
  return place.epoch + 1, nil
end

local function run_epochs(run, o, step)
  call(run, "begin")
  local first, left = resume(run, o)
  for epoch = first, run.stopping and 0 or o.epochs do
    run.epoch = epoch
    if not left then call(run, "epoch_begin") end
    if run_epoch(run, o, step, left) then return end -- it goes on elsewhere
    left = nil
    if run.stopping then break end
  end
  if run.saving then run.saving:save(run) end
  call(run, "finish")
end

--- Trains: each epoch all batches, shuffled, then the metrics of the validation
-- data. With each step the ops of the collection "update_ops" run. First
-- everything runs on one batch without training, so that a mistake shows at
-- once. A loss that is NaN or infinite is an error that names the node where it
-- began.
-- @param o loss: a scalar; train: the op of minimize; data: a data set, or a
-- pipeline, which shuffles by itself; epochs
-- (1); batch (100); metrics, inputs, training (fed true in steps), session as
-- for evaluate; validation: data, too; hooks: list (td.train.early_stop, ...);
-- seed of the shuffle (the graph's, when td.seed set one); shuffle = false;
-- quiet = true prints nothing; checkpoint: a folder to save into, every
-- save_seconds (600) or save_steps and at the end; resume = true, as the flag
-- --resume, goes on from what is there, to the same bits; saver (one of all
-- variables; with best, the metric is the loss of the last epoch that was
-- over); flags: what td.flags gave, to be compared when it goes on
-- @return the history: a list of {epoch =, step =, loss =, validation = {..}};
-- empty where a signal came within the first epoch
-- @usage local x = td.placeholder("float32", {-1}, "x")
-- local w = td.variable(0.0, "w")
-- local loss = ((x * w - x * 3) ^ 2):mean()
-- local step = td.train.sgd(0.1):minimize(loss)
-- td.train.fit{loss = loss, train = step, data = td.data.of{x = {1.0, 2.0}},
--              epochs = 9, quiet = true}
-- math.abs(w:eval() - 3) < 0.01  --> true
function train.fit(o)
  o = read_fit(o)
  local run = new_run(o)
  local saved <close> = saving.open(o)
  run.saving = saved
  rehearse(run, o)
  local step = run.session:callable({o.loss, with_updates(o.train, run.edges)},
                                    run.edges)
  run_epochs(run, o, step)
  for _, held in ipairs{run.training, run.validation} do
    if held.loop then held.loop:close() end
  end
  return run.history
end

return train
