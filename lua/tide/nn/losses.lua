--- nn/losses.lua - td.losses: scalars to minimize, each kept in a collection.
--
-- A loss here is the weighted mean of what td.nn gives for each example: the
-- sum of loss * weight over the number of weights that are not zero. It joins
-- the collection "losses", and get_total_loss() is the sum of those and of what
-- regularizers say. The order of arguments is TensorFlow's: labels first.
--
-- All take the options weights (1.0; of the losses' rank, with sizes of 1 where
-- they are shared, or a scalar), reduction ("sum_by_nonzero_weights";
-- "sum", "mean": the sum over the weights', "sum_over_batch_size", "none"),
-- loss_collection ("losses"; false: none) and name.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local graph = require "tide.graph.graph"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local losses = {}

local fail = errors.invalid

-- ---- weights --------------------------------------------------------------

-- Raises unless weights broadcast to the losses without making them larger.
local function check_weights(what, x, weights)
  local a, b = x.shape, weights.shape
  if not a or not b or #b == 0 then return end
  local fits = #a == #b
  for i = 1, fits and #a or 0 do
    fits = fits and (b[i] == 1 or b[i] < 0 or a[i] < 0 or a[i] == b[i])
  end
  if not fits then
    fail("%s: weights are a scalar, or of rank %d with the losses' sizes %s or "
      .. "1, not %s", what, #a, shapes.text(a), shapes.text(b))
  end
end

-- a / b, 0 where b is.
local function safe_quotient(a, b)
  return ops.div_no_nan(a, b)
end

local reductions = {}

function reductions.none(x) return x end
function reductions.sum(x) return ops.sum(x) end

function reductions.mean(x, weights)
  local all = ops.sum(ops.multiply(ops.ones_like(x), weights))
  return safe_quotient(ops.sum(x), all)
end

function reductions.sum_over_batch_size(x)
  return safe_quotient(ops.sum(x), ops.cast(ops.size(x), x.dtype))
end

function reductions.sum_by_nonzero_weights(x, weights)
  local present = ops.cast(ops.not_equal(weights, 0), x.dtype)
  return safe_quotient(ops.sum(x),
                       ops.sum(ops.multiply(ops.ones_like(x), present)))
end

local options = {"weights", "reduction", "loss_collection", "name"}

-- The losses x, weighted and reduced, in their collection.
local function weigh(what, x, o)
  local reduce = reductions[o.reduction or "sum_by_nonzero_weights"]
  if not reduce then
    fail("%s: there is no reduction \"%s\"; there are %s", what,
      tostring(o.reduction), table.concat(args.sorted_keys(reductions), ", "))
  end
  x = core.edge(x)
  local weights = o.weights == nil and 1.0 or o.weights
  weights = ops.cast(core.edge(weights), x.dtype)
  check_weights(what, x, weights)
  local loss = reduce(x * weights, weights)
  if o.loss_collection ~= false then
    losses.add_loss(loss, o.loss_collection)
  end
  return loss
end

--- The weighted mean of losses of your own: what all others end with.
-- @param x losses, one for each example or element
-- @param[opt] weights a scalar, or of the rank of x
-- @param[opt] o reduction, loss_collection, name
-- @usage td.losses.compute_weighted_loss({1.0, 3.0, 5.0}, {1.0, 1.0, 0.0})
-- --> 2
function losses.compute_weighted_loss(x, weights, o)
  o = args.read(o, options, "compute_weighted_loss")
  if weights ~= nil then o.weights = weights end
  return scope.name_scope(o.name or "weighted_loss", weigh,
                          "compute_weighted_loss", x, o)
end

-- ---- the two sides --------------------------------------------------------

-- Labels and predictions as graph tensors of one float dtype and shape.
local function sides(what, labels, predictions, alike)
  if labels == nil or predictions == nil then
    fail("%s takes labels and predictions", what)
  end
  predictions = core.edge(predictions)
  if not dtypes.is_float(predictions.dtype) then
    fail("%s: predictions, or logits, are floats, given %s; td.losses takes "
      .. "labels first", what, predictions.dtype)
  end
  labels = core.edge(labels, not args.is_tensor(labels) and alike
                     and predictions.dtype or nil)
  if alike then
    labels = ops.cast(labels, predictions.dtype)
    if not shapes.compatible(labels.shape, predictions.shape) then
      fail("%s: labels have shape %s, predictions %s", what,
           shapes.text(labels.shape), shapes.text(predictions.shape))
    end
  end
  return labels, predictions
end

-- A loss of labels and predictions of one shape; `more` are its own options.
local function define(what, more, f)
  local known = table.move(more, 1, #more, #options + 1,
                           table.move(options, 1, #options, 1, {}))
  losses[what] = function(labels, predictions, o)
    o = args.read(o, known, what)
    return scope.name_scope(o.name or what, function()
      labels, predictions = sides(what, labels, predictions, true)
      return weigh(what, f(labels, predictions, o), o)
    end)
  end
end

--- |predictions - labels|
-- @function losses.absolute_difference(labels, predictions, o)
-- @usage td.losses.absolute_difference({1.0, 2.0}, {2.0, 4.0})  --> 1.5
define("absolute_difference", {}, function(labels, x)
  return ops.abs(x - labels)
end)

--- (predictions - labels)^2
-- @function losses.mean_squared_error(labels, predictions, o)
-- @usage td.losses.mean_squared_error({1.0, 2.0}, {2.0, 4.0})  --> 2.5
define("mean_squared_error", {}, function(labels, x)
  return ops.squared_difference(x, labels)
end)

--- max(0, 1 - l x), where labels 0 and 1 are l = -1 and 1, x the logits.
-- @function losses.hinge_loss(labels, logits, o)
-- @usage td.losses.hinge_loss({1.0, 0.0}, {0.5, 0.5})  --> 1
define("hinge_loss", {}, function(labels, x)
  return ops.relu(1 - (2 * labels - 1) * x)
end)

--- e^2 / 2 up to |e| = delta (1), delta (|e| - delta / 2) beyond. Option delta.
-- @function losses.huber_loss(labels, predictions, o)
-- @usage td.losses.huber_loss({0.0, 0.0}, {0.5, 2.0})  --> 0.8125
define("huber_loss", {"delta"}, function(labels, x, o)
  local delta = args.expect_number(o.delta or 1.0, "huber_loss: delta", 0)
  local e = ops.abs(x - labels)
  local square = ops.minimum(e, delta)
  return 0.5 * ops.square(square) + delta * (e - square)
end)

--- -l log(p + epsilon) - (1 - l) log(1 - p + epsilon). Option epsilon (1e-7).
-- @function losses.log_loss(labels, predictions, o)
-- @usage td.losses.log_loss({1.0, 0.0}, {0.5, 0.5})  --> 0.693147
define("log_loss", {"epsilon"}, function(labels, p, o)
  local e = args.expect_number(o.epsilon or 1e-7, "log_loss: epsilon", 0)
  return -(labels * ops.log(p + e)) - (1 - labels) * ops.log(1 - p + e)
end)

--- 1 - sum(labels * predictions) along axis, for vectors of length 1. Option
-- axis (-1).
-- @function losses.cosine_distance(labels, predictions, o)
-- @usage td.losses.cosine_distance({{1.0, 0.0}}, {{0.6, 0.8}})  --> 0.4
define("cosine_distance", {"axis"}, function(labels, x, o)
  return 1 - ops.sum(labels * x, {o.axis or -1}, {keep_dims = true})
end)

--- The mean over all pairs of elements of an example of
-- ((x_i - x_j) - (l_i - l_j))^2; weights are {batch, 1}, or a scalar.
-- @function losses.mean_pairwise_squared_error(labels, predictions, o)
-- @usage td.losses.mean_pairwise_squared_error({{1.0, 2.0}}, {{1.0, 4.0}})
-- --> 4
function losses.mean_pairwise_squared_error(labels, predictions, o)
  local what = "mean_pairwise_squared_error"
  o = args.read(o, {"weights", "loss_collection", "name"}, what)
  return scope.name_scope(o.name or what, function()
    local l, x = sides(what, labels, predictions, true)
    local e = ops.reshape(x - l, {x:dim(0), -1})
    local weights = ops.cast(core.edge(o.weights or 1.0), x.dtype)
    local rows = ops.ones({x:dim(0), 1}, x.dtype)
    check_weights(what, rows, weights)
    rows = rows * weights
    local present = ops.cast(ops.not_equal(rows, 0), x.dtype)
    local n = present * ops.cast(ops.size(e[0]), x.dtype)
    local function sum(y) return ops.sum(y, {1}, {keep_dims = true}) end
    local first = safe_quotient(sum(e * e), ops.maximum(n - 1, 0))
    local second = safe_quotient(ops.square(sum(e)),
                                 ops.maximum(n * (n - 1), 0))
    local loss = ops.sum(2 * (first - second) * rows)
    if o.loss_collection ~= false then
      losses.add_loss(loss, o.loss_collection)
    end
    return loss
  end)
end

-- ---- cross entropies ------------------------------------------------------

-- labels (1 - s) + s / n: less certain labels.
local function smooth(labels, s, n)
  if not s then return labels end
  args.expect_number(s, "label_smoothing", 0, 1)
  return labels * (1 - s) + s / n
end

local function entropy(what, alike, f)
  local known = {"label_smoothing", table.unpack(options)}
  return function(labels, logits, o)
    o = args.read(o, known, what)
    return scope.name_scope(o.name or what, function()
      labels, logits = sides(what, labels, logits, alike)
      return weigh(what, f(labels, logits, o), o)
    end)
  end
end

--- sigmoid_cross_entropy of td.nn, with labels a probability for each element.
-- Option label_smoothing s: labels (1 - s) + s / 2.
-- @function losses.sigmoid_cross_entropy(labels, logits, o)
-- @usage td.losses.sigmoid_cross_entropy({1.0}, {0.0})  --> 0.693147
losses.sigmoid_cross_entropy = entropy("sigmoid_cross_entropy", true,
  function(labels, logits, o)
    return ops.sigmoid_cross_entropy(logits,
                                     smooth(labels, o.label_smoothing, 2))
  end)

--- softmax_cross_entropy of td.nn, with labels a distribution over classes for
-- each example. Option label_smoothing s: labels (1 - s) + s / classes.
-- @function losses.softmax_cross_entropy(labels, logits, o)
-- @usage td.losses.softmax_cross_entropy({{1.0, 0.0}}, {{0.0, 0.0}})
-- --> 0.693147
losses.softmax_cross_entropy = entropy("softmax_cross_entropy", true,
  function(labels, logits, o)
    local classes = o.label_smoothing
      and ops.cast(core.edge(labels:dim(-1)), logits.dtype)
    labels = smooth(labels, o.label_smoothing, classes)
    return ops.softmax_cross_entropy(logits, ops.stop_gradient(labels))
  end)

--- The same with a class number for each example.
-- @function losses.sparse_softmax_cross_entropy(labels, logits, o)
-- @usage td.losses.sparse_softmax_cross_entropy({1}, {{0.0, 0.0}})
-- --> 0.693147
losses.sparse_softmax_cross_entropy = entropy("sparse_softmax_cross_entropy",
  false, function(labels, logits)
    return ops.sparse_softmax_cross_entropy(logits, labels)
  end)

-- ---- the collection -------------------------------------------------------

--- Adds a loss of your own to the collection ("losses").
function losses.add_loss(loss, collection)
  graph.add_to_collection(collection or "losses", loss)
end

--- The losses of the current graph, a list; `prefix` keeps those whose name
-- begins so.
function losses.get_losses(prefix)
  return graph.get_collection("losses", prefix)
end

--- What regularizers say, a list.
function losses.get_regularization_losses(prefix)
  return graph.get_collection("regularization_losses", prefix)
end

local function sum(list, o)
  if #list == 0 then return core.edge(core.tensor(0.0)) end
  return ops.add_n(list, o)
end

--- The sum of what regularizers say; 0 where there are none.
function losses.get_regularization_loss(prefix)
  return sum(losses.get_regularization_losses(prefix),
             "total_regularization_loss")
end

--- The sum of all losses, with what regularizers say unless the option
-- add_regularization_losses is false.
function losses.get_total_loss(o)
  o = args.read(o, {"add_regularization_losses", "name"}, "get_total_loss")
  local list = losses.get_losses()
  if o.add_regularization_losses ~= false then
    local more = losses.get_regularization_losses()
    table.move(more, 1, #more, #list + 1, list)
  end
  return sum(list, o.name or "total_loss")
end

return losses
