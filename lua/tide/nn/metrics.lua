--- nn/metrics.lua - td.metrics: how good it is, over many batches.
--
-- local value, update = td.metrics.accuracy(labels, predictions). Running
-- `update` takes one batch in and gives the metric of all batches so far;
-- `value` gives it without a new batch. The counts are local variables:
-- sess:init() begins them, td.local_variables_initializer() begins them anew.
-- Counts are float64, results float32. All take the options weights (of the
-- values' rank with sizes of 1 where they are shared, or a scalar) and name.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local variables = require "tide.variables.variables"
local ops = require("tide.ops").ops

local metrics = {}

local fail = errors.invalid

-- ---- counts over batches --------------------------------------------------

local function count_variable(name, like)
  if not shapes.known(like.shape) then
    fail("td.metrics: the shape of \"%s\" must be known, not %s", name,
         shapes.text(like.shape))
  end
  return variables.make(function() return ops.zeros(like.shape, like.dtype) end,
    core.scope().prefix .. name,
    {trainable = false, collections = {"local_variables"}})
end

-- value and update of a metric: `counts` are {name, what a batch adds}, and
-- result(n) makes the metric of the counts by name.
local function stream(counts, result)
  local now, after = {}, {}
  for _, count in ipairs(counts) do
    local name, more = count[1], ops.cast(count[2], "float64")
    local v = count_variable(name, more)
    now[name], after[name] = v:read(), v:assign_add(more)
  end
  return ops.cast(result(now), "float32", "value"),
         ops.cast(result(after), "float32", "update_op")
end

-- ---- what goes in ---------------------------------------------------------

local function wide(x) return ops.cast(core.edge(x), "float64") end

-- Weights of x, as many as there are elements.
local function weights_of(x, o, what)
  local weights = wide(o.weights == nil and 1.0 or o.weights)
  local a, b = x.shape, weights.shape
  local fits = not a or not b or #b == 0 or #a == #b
  for i = 1, fits and a and b and #b or 0 do
    fits = fits and (b[i] == 1 or b[i] < 0 or a[i] < 0 or a[i] == b[i])
  end
  if not fits then
    fail("%s: weights are a scalar, or of rank %d with the values' sizes %s or "
      .. "1, not %s", what, #a, shapes.text(a), shapes.text(b))
  end
  return ops.multiply(ops.ones_like(wide(x)), weights)
end

-- Labels and predictions of one shape.
local function sides(what, labels, predictions)
  if labels == nil or predictions == nil then
    fail("%s takes labels and predictions", what)
  end
  labels, predictions = core.edge(labels), core.edge(predictions)
  if not shapes.compatible(labels.shape, predictions.shape) then
    local a, b = labels.shape, predictions.shape
    fail("%s: labels have shape %s, predictions %s%s", what, shapes.text(a),
      shapes.text(b), what == "accuracy" and a and b and #b == #a + 1
      and "; of logits, logits:argmax(-1) are the predictions" or "")
  end
  return labels, predictions
end

local function open(what, o, known, f)
  o = args.read(o, {"weights", "name", table.unpack(known)}, what)
  return scope.name_scope(o.name or what, f, o)
end

-- ---- means ----------------------------------------------------------------

-- The weighted mean of all elements, through `finish` where there is one.
local function mean_of(what, values, o, finish)
  local weights = weights_of(values, o, what)
  return stream({{"total", ops.sum(wide(values) * weights)},
                 {"count", ops.sum(weights)}}, function(n)
    local mean = ops.div_no_nan(n.total, n.count)
    return finish and finish(mean) or mean
  end)
end

--- The mean of values.
-- @return value, update
-- @usage local value, update = td.metrics.mean(td.constant{1.0, 2.0})
-- local sess = td.session()
-- sess:init()
-- sess:run(update)
-- sess:run(value)  --> 1.5
function metrics.mean(values, o)
  return open("mean", o, {}, function(own)
    return mean_of("mean", core.edge(values), own)
  end)
end

--- The share of values below a threshold.
function metrics.percentage_below(values, threshold, o)
  if values == nil or threshold == nil then
    fail("percentage_below takes values and a threshold")
  end
  return open("percentage_below", o, {}, function(own)
    local below = ops.less(core.edge(values), threshold)
    return mean_of("percentage_below", below, own)
  end)
end

-- The mean of f(labels, predictions).
local function define_mean(what, known, f, finish)
  metrics[what] = function(labels, predictions, o)
    return open(what, o, known, function(own)
      labels, predictions = sides(what, labels, predictions)
      return mean_of(what, f(labels, predictions, own), own, finish)
    end)
  end
end

local function difference(labels, predictions)
  return wide(predictions) - wide(labels)
end

--- How often a prediction is the label.
-- @function metrics.accuracy(labels, predictions, o)
define_mean("accuracy", {}, function(labels, predictions)
  return ops.equal(ops.cast(predictions, labels.dtype), labels)
end)

--- |predictions - labels|, averaged.
-- @function metrics.mean_absolute_error(labels, predictions, o)
define_mean("mean_absolute_error", {}, function(labels, predictions)
  return ops.abs(difference(labels, predictions))
end)

--- (predictions - labels)^2, averaged.
-- @function metrics.mean_squared_error(labels, predictions, o)
define_mean("mean_squared_error", {}, function(labels, predictions)
  return ops.square(difference(labels, predictions))
end)

--- The square root of that.
-- @function metrics.root_mean_squared_error(labels, predictions, o)
define_mean("root_mean_squared_error", {}, function(labels, predictions)
  return ops.square(difference(labels, predictions))
end, ops.sqrt)

--- |predictions - labels| / normalizer, averaged; 0 where the normalizer is.
-- Option normalizer, of the same shape (the labels).
-- @function metrics.mean_relative_error(labels, predictions, o)
define_mean("mean_relative_error", {"normalizer"}, function(labels, x, o)
  local by = o.normalizer == nil and labels or o.normalizer
  return ops.div_no_nan(ops.abs(difference(labels, x)), wide(by))
end)

--- 1 - sum(labels * predictions) along an axis, averaged, for vectors of length
-- 1. Option axis (-1).
-- @function metrics.mean_cosine_distance(labels, predictions, o)
define_mean("mean_cosine_distance", {"axis"}, function(labels, x, o)
  return 1 - ops.sum(wide(labels) * wide(x), {o.axis or -1},
                     {keep_dims = true})
end)

--- How often the label (a class number) is among the k highest of its row of
-- predictions {batch, classes}.
-- @return value, update
function metrics.top_k(labels, predictions, k, o)
  return open("top_k", o, {}, function(own)
    if labels == nil or predictions == nil or k == nil then
      fail("top_k takes labels, predictions and k")
    end
    local hits = core.op "InTopKV2"(ops.cast(predictions, "float32"), labels,
                                    ops.cast(core.edge(k), args.dtype(labels)
                                             or "int32"))
    return mean_of("top_k", hits, own)
  end)
end

-- ---- right and wrong ------------------------------------------------------

-- What each kind of outcome is: {the label, the prediction}.
local kinds = {
  true_positives = {true, true}, false_positives = {false, true},
  true_negatives = {false, false}, false_negatives = {true, false},
}

local function is(x, wanted)
  return wanted and x or ops.logical_not(x)
end

-- The weight of a kind of outcome, of bools; `axes` are summed.
local function weigh(kind, labels, predictions, weights, axes)
  local hit = ops.logical_and(is(labels, kinds[kind][1]),
                              is(predictions, kinds[kind][2]))
  return {kind, ops.sum(wide(hit) * weights, axes)}
end

-- A metric of the kinds that a list names.
local function define_outcome(what, list, result)
  metrics[what] = function(labels, predictions, o)
    return open(what, o, {}, function(own)
      local l, p = sides(what, labels, predictions)
      local weights = weights_of(p, own, what)
      l, p = ops.cast(l, "bool"), ops.cast(p, "bool")
      local counts = {}
      for i, kind in ipairs(list) do counts[i] = weigh(kind, l, p, weights) end
      return stream(counts, result)
    end)
  end
end

--- The number, or weight, of predictions that are true and right.
-- @function metrics.true_positives(labels, predictions, o)

--- That of predictions that are true and wrong.
-- @function metrics.false_positives(labels, predictions, o)

--- That of predictions that are false and right.
-- @function metrics.true_negatives(labels, predictions, o)

--- That of predictions that are false and wrong.
-- @function metrics.false_negatives(labels, predictions, o)
for _, kind in ipairs(args.sorted_keys(kinds)) do
  define_outcome(kind, {kind}, function(n) return n[kind] end)
end

--- How many of those predicted true are true. Labels and predictions are
-- booleans, or numbers that are true unless 0.
-- @function metrics.precision(labels, predictions, o)
define_outcome("precision", {"true_positives", "false_positives"}, function(n)
  return ops.div_no_nan(n.true_positives, n.true_positives + n.false_positives)
end)

--- How many of those that are true are predicted so.
-- @function metrics.recall(labels, predictions, o)
define_outcome("recall", {"true_positives", "false_negatives"}, function(n)
  return ops.div_no_nan(n.true_positives, n.true_positives + n.false_negatives)
end)

-- ---- by thresholds --------------------------------------------------------

-- The counts of a list of kinds, by thresholds on predictions in [0, 1].
local function at_thresholds(what, labels, predictions, thresholds, list, o)
  if thresholds == nil then
    fail("%s takes labels, predictions and a list of thresholds", what)
  end
  local l, p = sides(what, labels, predictions)
  local weights = ops.reshape(weights_of(p, o, what), {1, -1})
  l = ops.cast(ops.reshape(l, {1, -1}), "bool")
  local above = ops.greater(ops.reshape(wide(p), {1, -1}),
                            ops.expand_dims(wide(thresholds), 1))
  local counts = {}
  for i, kind in ipairs(list) do
    counts[i] = weigh(kind, l, above, weights, {1})
  end
  return counts
end

local function define_thresholds(what, list, result)
  metrics[what] = function(labels, predictions, thresholds, o)
    return open(what, o, {}, function(own)
      return stream(at_thresholds(what, labels, predictions, thresholds, list,
                                  own), result)
    end)
  end
end

local TINY = 1e-7

--- precision where predictions above each of `thresholds` count as true.
-- @function metrics.precision_at_thresholds(labels, predictions, thresholds, o)
define_thresholds("precision_at_thresholds",
  {"true_positives", "false_positives"}, function(n)
    return n.true_positives / (TINY + n.true_positives + n.false_positives)
  end)

--- recall where predictions above each of `thresholds` count as true.
-- @function metrics.recall_at_thresholds(labels, predictions, thresholds, o)
define_thresholds("recall_at_thresholds",
  {"true_positives", "false_negatives"}, function(n)
    return n.true_positives / (TINY + n.true_positives + n.false_negatives)
  end)

-- All but the last, all but the first.
local function neighbours(v) return v["0:-1"], v["1:"] end

-- The heights of the two ends of each piece as one.
local heights = {
  trapezoidal = function(a, b) return (a + b) / 2 end,
  minoring = ops.minimum, majoring = ops.maximum,
}

-- The area under precision by recall, where between two thresholds the true
-- positives are linear in the positives. Source: Davis and Goadrich 2006.
local function careful_area(n)
  local tp = n.true_positives
  local a, b = neighbours(tp)
  local p, q = neighbours(tp + n.false_positives)
  local _, missed = neighbours(n.false_negatives)
  local slope = ops.div_no_nan(a - b, ops.maximum(p - q, 0))
  local both = ops.logical_and(p:greater(0), q:greater(0))
  local ratio = ops.where(both, ops.div_no_nan(p, q), ops.ones_like(q))
  local area = slope * (a - b + (b - slope * q) * ops.log(ratio))
  return ops.sum(ops.div_no_nan(area, b + missed))
end

local EPSILON = 1e-6

local function area(n, curve, height)
  local tp, fp = n.true_positives, n.false_positives
  local recall = (tp + EPSILON) / (tp + n.false_negatives + EPSILON)
  local x, y = recall, (tp + EPSILON) / (tp + fp + EPSILON)
  if curve == "ROC" then
    x, y = fp / (fp + n.true_negatives + EPSILON), recall
  end
  local left, right = neighbours(x)
  return ops.sum((left - right) * height(neighbours(y)))
end

-- `n` thresholds from just below 0 to just above 1.
local function thresholds_of(n)
  local list = {}
  for i = 1, n do list[i] = (i - 1) / (n - 1) end
  list[1], list[n] = -TINY, 1 + TINY
  return core.tensor(list, "float64")
end

local function check_auc(o)
  local curve = o.curve or "ROC"
  if curve ~= "ROC" and curve ~= "PR" then
    fail("auc: curve is \"ROC\" or \"PR\", not %s", tostring(curve))
  end
  local method = o.summation_method or "trapezoidal"
  local careful = method == "careful_interpolation"
  if not heights[method] and not (careful and curve == "PR") then
    fail("auc: summation_method is \"trapezoidal\", \"minoring\", "
      .. "\"majoring\", or for \"PR\" \"careful_interpolation\", not %s",
      tostring(method))
  end
  return curve, method
end

--- The area under the curve of true by false positives ("ROC"), or of precision
-- by recall ("PR"), of predictions in [0, 1]. Options: num_thresholds (200),
-- curve, summation_method ("trapezoidal"; "minoring", "majoring", and for "PR"
-- "careful_interpolation", which is to be preferred there).
-- @return value, update
function metrics.auc(labels, predictions, o)
  local known = {"num_thresholds", "curve", "summation_method"}
  return open("auc", o, known, function(own)
    local curve, method = check_auc(own)
    local n = own.num_thresholds or 200
    if math.type(n) ~= "integer" or n < 2 then
      fail("auc: num_thresholds is at least 2, not %s", tostring(n))
    end
    local counts = at_thresholds("auc", labels, predictions, thresholds_of(n),
      {"true_positives", "false_positives", "true_negatives",
       "false_negatives"}, own)
    return stream(counts, function(c)
      if not heights[method] then return careful_area(c) end
      return area(c, curve, heights[method])
    end)
  end)
end

-- ---- by classes -----------------------------------------------------------

-- A metric of {labels, predictions} counted in a square of classes.
local function define_classes(what, result)
  metrics[what] = function(labels, predictions, num_classes, o)
    return open(what, o, {}, function(own)
      if math.type(num_classes) ~= "integer" or num_classes < 1 then
        fail("%s takes labels, predictions and the number of classes", what)
      end
      local l, p = sides(what, labels, predictions)
      local weights = ops.reshape(weights_of(p, own, what), {-1, 1})
      local function rows(x)
        return ops.one_hot(ops.reshape(x, {-1}), num_classes,
                           {dtype = "float64"})
      end
      local square = ops.matmul(rows(l), rows(p) * weights,
                                {transpose_a = true})
      return stream({{"confusion_matrix", square}}, function(n)
        return result(n.confusion_matrix, num_classes)
      end)
    end)
  end
end

--- Intersection over union of what is labelled and what is predicted, averaged
-- over the classes that occur.
-- @function metrics.mean_iou(labels, predictions, num_classes, o)
define_classes("mean_iou", function(square)
  local both = ops.matrix_diag_part(square)
  local either = square:sum(0) + square:sum(1) - both
  local occur = wide(ops.not_equal(either, 0))
  return ops.div_no_nan(ops.sum(ops.div_no_nan(both, either)), ops.sum(occur))
end)

--- accuracy of each class, averaged over all classes.
-- @function metrics.mean_per_class_accuracy(labels, predictions, classes, o)
define_classes("mean_per_class_accuracy", function(square)
  return ops.mean(ops.div_no_nan(ops.matrix_diag_part(square), square:sum(1)))
end)

return metrics
