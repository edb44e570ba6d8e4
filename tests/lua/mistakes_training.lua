-- mistakes_training.lua - what users of other libraries get wrong about
-- optimizers, the loop around them and data: each message names the function,
-- what was given, and what to do.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local helper = require "helper"

local each = helper.each
local train, data = td.train, td.data
local tests = {}

local function floats(...) return td.placeholder("float32", {...}) end

-- ---- optimizers -----------------------------------------------------------

-- A loss, its variable and an optimizer.
local function square()
  local v = td.variable(3.0, "v")
  return v * v, v, train.sgd(0.1)
end

-- :minimize with one option.
local function minimize(key, x)
  return function()
    local loss, _, sgd = square()
    sgd:minimize(loss, {[key] = x})
  end
end

tests.making_optimizers = each{
  {"sgd takes a learning rate: a number or a graph scalar, as in "
   .. "td.train.sgd(0.01); given nil", function() train.sgd() end},
  {"given table", function() train.adam{beta1 = 0.5} end},
  {"given string", function() train.sgd("0.1") end},
  {"sgd: the learning rate must be a number, given", function()
    train.sgd(0 / 0)
  end},
  {"td.train.momentum(0.1, 0.9) has a momentum", function()
    train.sgd(0.1, 0.9)
  end},
  {"momentum: the momentum must be a number, not string", function()
    train.momentum(0.1, "0.9")
  end},
  {"adam: beta1 must be from 0 to 1, given 2", function()
    train.adam(0.1, {beta1 = 2})
  end},
  {"adam: epsilon must be a number, not string", function()
    train.adam(0.1, {epsilon = "1e-8"})
  end},
  {"did you mean \"beta1\"?", function() train.adam(0.1, {beta_1 = 0.5}) end},
  {"rmsprop: decay must be from 0 to 1, given 2", function()
    train.rmsprop(0.1, {decay = 2})
  end},
  {"adadelta: rho must be from 0 to 1, given -1", function()
    train.adadelta(0.1, {rho = -1})
  end},
  {"proximal_adagrad: initial must be 0 or more, given -1", function()
    train.proximal_adagrad(0.1, {initial = -1})
  end},
  {"ftrl: lr_power must be 0 or less, given 1", function()
    train.ftrl(0.1, {lr_power = 1})
  end},
  {"lbfgs: the learning rate must be a number, not string", function()
    train.lbfgs("1")
  end},
  {"td.train has no \"Adam\"; did you mean \"adam\"?", function()
    return train.Adam
  end},
  {"alpha must be a scalar, not of shape {2}", function()
    train.sgd(floats(2)):minimize((square()))
  end},
}

tests.minimizing = each{
  {"GradientDescent has no \"minimise\"; did you mean \"minimize\"?; it has "
   .. ":minimize, :compute_gradients, :apply_gradients", function()
    train.sgd(0.1):minimise((square()))
  end},
  {"LBFGS has no \"step\"", function() train.lbfgs():step() end},
  {"minimize is called with a colon, as in td.train.sgd(0.1):minimize(...); "
   .. "its first argument is graph tensor", function()
    train.sgd(0.1).minimize((square()))
  end},
  {"Adam: the loss is a graph tensor, not nil", function()
    train.adam(0.1):minimize()
  end},
  {"variables is a list such as {w, b}, not one variable: put it in braces",
   function()
    local loss, v, sgd = square()
    sgd:minimize(loss, {variables = v})
  end},
  {"1 of the variables is graph tensor; give what td.variable made", function()
    local loss, v, sgd = square()
    sgd:minimize(loss, {variables = {v:read()}})
  end},
  {"minimize takes options by name (variables, global_step, clip_norm, name, "
   .. "grad_loss, colocate), given a list", function()
    local loss, v, sgd = square()
    sgd:minimize(loss, {v})
  end},
  {"GradientDescent: clip_norm must be above 0, given 0",
   minimize("clip_norm", 0)},
  {"clip_norm must be above 0, given -1", minimize("clip_norm", -1)},
  {"clip_norm must be a number, given", minimize("clip_norm", 0 / 0)},
  {"clip_norm must be a number, not boolean", minimize("clip_norm", true)},
  {"clip_norm must be a number, not string", minimize("clip_norm", "5")},
  {"global_step is a variable of int32 or int64 to count with, such as "
   .. "td.train.global_step(), not number", minimize("global_step", 3)},
  {"not function", minimize("global_step", train.global_step)},
  {"td.train.global_step(), not float32", function()
    local loss, v, sgd = square()
    sgd:minimize(loss, {global_step = v})
  end},
  {"there is no variable to train; td.variable and layers make them", function()
    train.sgd(0.1):minimize(td.constant(1.0))
  end},
}

tests.applying_gradients = each{
  {"GradientDescent: the gradients must be a list, not nil", function()
    train.sgd(0.1):apply_gradients()
  end},
  {"apply_gradients takes a list of {gradient =, variable =}, as "
   .. ":compute_gradients gives", function()
    local loss, v, sgd = square()
    sgd:apply_gradients(td.gradients(loss, {v}))
  end},
  {"the gradient of \"v\" is a graph tensor or false, not number", function()
    local _, v, sgd = square()
    sgd:apply_gradients{{gradient = 1.0, variable = v}}
  end},
  {"delta is of shape {3}, but var of shape {}", function()
    local _, v, sgd = square()
    sgd:apply_gradients{{gradient = td.ones{3}, variable = v}}
  end},
  {"clip_by_global_norm: the norm must be a number, not nil", function()
    td.clip_by_global_norm{floats(3)}
  end},
  {"clip_by_global_norm: the norm must be above 0, given 0", function()
    td.clip_by_global_norm({floats(3)}, 0)
  end},
  {"the gradients must be a list, not graph tensor", function()
    td.clip_by_global_norm(floats(3), 1)
  end},
  {"1 is table: give row.gradient of each row, or clip_norm to "
   .. ":apply_gradients", function()
    local loss, _, sgd = square()
    td.clip_by_global_norm(sgd:compute_gradients(loss), 1)
  end},
}

tests.averages_and_schedules = each{
  {"moving_average: the decay must be a number, not nil", function()
    train.moving_average()
  end},
  {"average:apply takes a list of variables: put \"v\" in braces", function()
    local _, v = square()
    train.moving_average(0.9):apply(v)
  end},
  {"a moving average has no \"aply\"; it has :apply(variables)", function()
    train.moving_average(0.9):aply{}
  end},
  {"exponential_decay: n must be a number or a scalar, given nil", function()
    train.exponential_decay(0.1, train.global_step())
  end},
  {"exponential_decay: n must be above 0, given 0", function()
    train.exponential_decay(0.1, train.global_step(), 0, 0.9)
  end},
}

-- ---- the loop -------------------------------------------------------------

-- A fit that would work, changed by `change`.
local function fit(change)
  return function()
    local x, y = td.placeholder("float32", {-1}, "x"),
                 td.placeholder("float32", {-1}, "y")
    local w = td.variable(0.0, "w")
    local loss = ((x * w - y) ^ 2):mean()
    local o = {loss = loss, train = train.sgd(0.01):minimize(loss),
               data = data.of{x = {1.0, 2.0}, y = {3.0, 6.0}}, quiet = true}
    change(o, x, y, w)
    train.fit(o)
  end
end

local function fit_with(key, value)
  return fit(function(o) o[key] = value end)
end

tests.fitting = each{
  {"fit: train is the op that :minimize(loss) gives, not optimizer "
   .. "GradientDescent; write train = optimizer:minimize(loss)",
   fit_with("train", train.sgd(0.1))},
  {"fit has no option \"batch_size\"", fit_with("batch_size", 10)},
  {"fit: the loss is a graph scalar, not number", fit_with("loss", 3)},
  {"given table", fit_with("data", {x = {1.0}})},
  {"given all its parts; take .train or .test", fit(function(o)
    o.data = {train = o.data, test = o.data}
  end)},
  {"fit: nothing feeds placeholder \"y\" (float32): the data has the columns x."
   .. " Add a column, or give inputs = {x = x}",
   fit_with("data", data.of{x = {1.0}})},
  {"nothing feeds placeholder \"training\" (bool): the data has the columns x, "
   .. "y. A flag that tells layers of training is given as training = x",
   fit(function(o, x, y, w)
     local flag = td.placeholder("bool", {}, "training")
     local e = td.layers.dropout(x * w - y, 0.5, {training = flag})
     o.loss = e:mean()
   end)},
  {"feed \"x:0\" expects float32 {-1}, given int32 {2}",
   fit_with("data", data.of{x = {1, 2}, y = {3, 6}})},
  {"feed \"x:0\" expects float32 {-1}, given float32 {2, 1}",
   fit_with("data", data.of{x = {{1.0}, {2.0}}, y = {3.0, 6.0}})},
  {"fit: training is the placeholder to tell layers by, "
   .. "td.placeholder(\"bool\", {}), not boolean", fit_with("training", true)},
  {"fit: epochs is a whole number, or math.huge, not -1",
   fit_with("epochs", -1)},
  {"not 1.5", fit_with("epochs", 1.5)},
  {"not string", fit_with("epochs", "5")},
  {"fit: batch is a number of examples, 1 or more, not 0",
   fit_with("batch", 0)},
  {"fit: metrics is a table {name = graph tensor}, not string",
   fit_with("metrics", "accuracy")},
  {"as in {accuracy = tensor}", fit_with("metrics", {"accuracy"})},
  {"fit: hooks is a list: put the hook in braces",
   fit_with("hooks", train.early_stop())},
  {"fit: hook 1 is a table of functions such as {epoch_end = f}, not function",
   fit_with("hooks", {print})},
  {"fit: hook 1 has none of the functions that are called: begin, epoch_begin, "
   .. "step_end, epoch_end, finish; it has on_epoch_end",
   fit_with("hooks", {{on_epoch_end = print}})},
  {"fit: inputs.x is the placeholder that column \"x\" feeds, not string",
   fit_with("inputs", {x = "x"})},
  {"fit: session is one that td.session() gives, not number",
   fit_with("session", 3)},
  {"fit: seed must be an integer, not string", fit_with("seed", "a")},
  {"chart takes an object with a method log(to, row), or nothing; given string",
   function() train.chart("loss") end},
  {"early_stop: patience must be an integer, not string", function()
    train.early_stop{patience = "3"}
  end},
  {"predict: output \"Mean:0\" is one number for a whole batch; "
   .. "evaluate{metrics = {name = x}} takes means", function()
    local x = td.placeholder("float32", {-1}, "x")
    train.predict{outputs = x:mean(), data = data.of{x = {1.0}}}
  end},
  {"evaluate: batch is a number of examples", function()
    local x = td.placeholder("float32", {-1}, "x")
    train.evaluate{metrics = {x = x}, data = data.of{x = {1.0}}, batch = 0}
  end},
}

-- ---- data -----------------------------------------------------------------

local numbers = data.of{x = {1.0, 2.0, 3.0}, y = {1, 2, 3}}

tests.data_sets = each{
  {"data.csv: the file must be a string, not nil", function() data.csv() end},
  {"the data has no column \"images\"; it has x, y and :batches", function()
    return numbers.images
  end},
  {"batches: the size must be an integer >= 1, as in d:batches(100), not nil",
   function() numbers:batches() end},
  {"batches: shuffle must be a boolean, not 1000", function()
    numbers:batches(1, {shuffle = 1000})
  end},
  {"a data set has parts: write d.train:batches(...), or d.test", function()
    data.digits{train = 2, test = 1}:batches(1)
  end},
  {"a data set has parts: write d.train:sequences(...)", function()
    data.text{name = "sentences"}:sequences(2, 3)
  end},
  {"data.of takes columns by name, as in {images = x, labels = y}; given a "
   .. "list", function() data.of{{1.0}, {2}} end},
  {"given nil", function() data.of() end},
  {"given tensor", function() data.of(td.tensor{1.0}) end},
  {"data.of: column \"x\" is a graph tensor; columns are values", function()
    data.of{x = td.zeros{2}}
  end},
  {"data.mnist takes a table of options (dir, download, validation), not the "
   .. "string \"/none\"", function() data.mnist("/none") end},
  {"data: dir must be a string, not 3", function() data.mnist{dir = 3} end},
  {"there are 10, given 20", function()
    data.digits{train = 10, test = 1, validation = 20}
  end},
  {"texts with a name are ptb, tinyshakespeare, sentences", function()
    data.text{name = "shakespear"}
  end},
  {"text: by is \"char\" or \"word\", not letter", function()
    data.text{name = "sentences", by = "letter"}
  end},
}

return tests
