-- metrics.lua - td.metrics over batches: TensorFlow's numbers, errors.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local learning = require "shared.learning"

local raises, gives = helper.raises, helper.gives
local metrics = td.metrics
local tests = {}

-- ---- against TensorFlow ---------------------------------------------------

-- Class numbers that vary.
local function classes(given, n, shape)
  return ((given(shape) + 0.5) * (n - 0.01)):floor():cast "int64"
end

local function flags(given, shape) return given(shape):greater(0.1) end

local function auc(given, o)
  return metrics.auc(flags(given, {8}), (4 * given{8}):sigmoid(), o)
end

local rows = {
  mean = function(given)
    return metrics.mean(given{4, 2}, {weights = given{4, 1} + 0.5})
  end,
  percentage_below = function(given)
    return metrics.percentage_below(given{5}:cast "float32", 0.2)
  end,
  accuracy = function(given)
    return metrics.accuracy(classes(given, 3, {6}), classes(given, 3, {6}),
                            {weights = given{6} + 0.5})
  end,
  mean_absolute_error = function(given)
    return metrics.mean_absolute_error(given{4}, given{4})
  end,
  mean_squared_error = function(given)
    return metrics.mean_squared_error(given{4}, given{4})
  end,
  root_mean_squared_error = function(given)
    return metrics.root_mean_squared_error(given{4}, given{4})
  end,
  mean_relative_error = function(given)
    return metrics.mean_relative_error(given{4}, given{4},
                                       {normalizer = given{4}})
  end,
  mean_cosine_distance = function(given)
    return metrics.mean_cosine_distance(given{4, 2}, given{4, 2}, {axis = 1})
  end,
  top_k = function(given)
    local predictions = given{6, 5}
    return metrics.top_k(classes(given, 5, {6}), predictions, 2)
  end,
  precision = function(given)
    return metrics.precision(flags(given, {8}), flags(given, {8}),
                             {weights = given{8} + 0.5})
  end,
  recall = function(given)
    return metrics.recall(flags(given, {8}), flags(given, {8}))
  end,
  false_negatives = function(given)
    return metrics.false_negatives(flags(given, {8}), flags(given, {8}))
  end,
  true_negatives = function(given)
    return metrics.true_negatives(flags(given, {8}), flags(given, {8}))
  end,
  precision_at_thresholds = function(given)
    return metrics.precision_at_thresholds(flags(given, {8}),
      (4 * given{8}):sigmoid(), {0.25, 0.5, 0.75})
  end,
  recall_at_thresholds = function(given)
    return metrics.recall_at_thresholds(flags(given, {8}),
      (4 * given{8}):sigmoid(), {0.25, 0.5, 0.75}, {weights = given{8} + 0.5})
  end,
  auc = auc,
  auc_minoring = function(given)
    return auc(given, {num_thresholds = 20, summation_method = "minoring"})
  end,
  auc_of_precision = function(given)
    return auc(given, {num_thresholds = 50, curve = "PR",
                       summation_method = "careful_interpolation"})
  end,
  auc_of_precision_by_trapezes = function(given)
    return auc(given, {num_thresholds = 50, curve = "PR"})
  end,
  mean_iou = function(given)
    return metrics.mean_iou(classes(given, 3, {7}), classes(given, 3, {7}), 4,
                            {weights = given{7} + 0.5})
  end,
  mean_per_class_accuracy = function(given)
    return metrics.mean_per_class_accuracy(classes(given, 3, {7}),
                                           classes(given, 3, {7}), 4)
  end,
}

for name, build in pairs(rows) do
  tests["tensorflow_" .. name] = learning.stream_test("metric_" .. name, build)
end

-- ---- the counts -----------------------------------------------------------

function tests.counts_are_local_variables()
  local x = td.placeholder("float32", {-1})
  local value, update = metrics.mean(x, "m")
  lu.assertEquals({#td.global_variables(), #td.trainable_variables()}, {0, 0})
  local names = {}
  for i, v in ipairs(td.local_variables()) do names[i] = v.name end
  lu.assertEquals(names, {"m/total", "m/count"})
  lu.assertEquals({value.name, update.name}, {"m/value:0", "m/update_op:0"})
  local sess = td.session()
  sess:init()
  lu.assertEquals(sess:run(value), 0)
  lu.assertEquals(sess:run(update, {[x] = {1.0, 3.0}}), 2)
  lu.assertEquals(sess:run(update, {[x] = {8.0}}), 4)
  lu.assertEquals({sess:run(value), sess:run(value)}, {4, 4})
  sess:run(td.local_variables_initializer())
  lu.assertEquals(sess:run(value), 0)
end

-- A float32 would stop at 2^24.
function tests.counts_do_not_saturate()
  local value, update = metrics.mean(td.constant{1.0}, {weights = 1 << 24})
  local sess = td.session()
  sess:init()
  sess:run(update)
  local count = td.local_variables()[2]
  sess:run(count:assign_add(td.constant(1.0, {dtype = "float64"})))
  lu.assertEquals(sess:run(count), (1 << 24) + 1)
  gives(1, sess:run(value))
end

function tests.two_of_a_kind_count_apart()
  local a, update = metrics.mean(td.constant{1.0})
  local b = metrics.mean(td.constant{2.0})
  local sess = td.session()
  sess:init()
  sess:run(update)
  lu.assertEquals(sess:run{a, b}, {1, 0})
end

-- ---- errors ---------------------------------------------------------------

function tests.errors()
  raises("accuracy: labels have shape {2}, predictions {3}", metrics.accuracy,
         {1, 2}, {1, 2, 3})
  raises("recall takes labels and predictions", metrics.recall, {1})
  raises("mean: weights are a scalar, or of rank 1 with the values' sizes {2} "
         .. "or 1, not {3}", metrics.mean, {1.0, 2.0},
         {weights = {1.0, 2.0, 3.0}})
  raises("auc: curve is \"ROC\" or \"PR\", not roc", metrics.auc, {true}, {0.5},
         {curve = "roc"})
  raises("auc: summation_method is", metrics.auc, {true}, {0.5},
         {summation_method = "careful_interpolation"})
  raises("auc: num_thresholds is at least 2, not 1", metrics.auc, {true}, {0.5},
         {num_thresholds = 1})
  raises("mean_iou takes labels, predictions and the number of classes",
         metrics.mean_iou, {1}, {1})
  raises("did you mean \"weights\"?", metrics.mean, {1.0}, {weight = 1})
end

return tests
