--- nn/sampled.lua - losses over many classes, of which a few are looked at.
--
-- Beside the true classes some others are drawn, and only their weights are
-- read and changed. Logits are lowered by the logarithm of how often a class
-- is expected to be drawn. Sources: Jean et al. 2015 (sampled softmax); Gutmann
-- and Hyvarinen 2010, Mnih and Kavukcuoglu 2013 (noise contrast).
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local embedding = require "tide.nn.embedding"
local scope = require "tide.graph.scope"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local sampled = {}

local fail = errors.invalid

local known = {"num_true", "sampled_values", "remove_accidental_hits",
               "strategy", "seed", "name"}

-- Labels as {batch, num_true} of int64.
local function read_labels(labels, num_true, what)
  labels = ops.cast(core.edge(labels), "int64")
  if labels.rank == 1 and num_true == 1 then
    return ops.expand_dims(labels, 1)
  end
  if not shapes.compatible(labels.shape, {-1, num_true}) then
    fail("%s: labels are {batch, num_true = %d} class numbers, given shape %s",
         what, num_true, shapes.text(labels.shape))
  end
  return labels
end

-- Classes drawn, how often the true ones and those drawn are expected.
local function draw(labels, num_sampled, num_classes, o, what)
  local values = o.sampled_values
  if values ~= nil then
    if #args.check_list(values, what .. ": sampled_values") ~= 3 then
      fail("%s: sampled_values are {classes, expected counts of the true ones, "
        .. "expected counts of classes}", what)
    end
    return ops.cast(core.edge(values[1]), "int64"), core.edge(values[2]),
           core.edge(values[3])
  end
  return core.op "LogUniformCandidateSampler"(labels, {num_true = o.num_true,
    num_sampled = num_sampled, unique = true, range_max = num_classes,
    seed = o.seed})
end

-- Weights and biases of the true classes and of those drawn.
local function look_up(weights, biases, labels, classes, o)
  local flat = ops.reshape(labels, {-1})
  local n = ops.size(flat)
  local ids = ops.concat({flat, classes}, 0)
  local w = embedding.embedding_lookup(weights, ids, {strategy = o.strategy})
  local b = embedding.embedding_lookup(biases, ids, {strategy = o.strategy})
  return w[{{0, n}}], b[{{0, n}}], w[{{n}}], b[{{n}}]
end

-- The lowest float, where a class drawn is a true one; else 0.
local function hits(labels, classes, dtype)
  local hit = ops.any(ops.equal(ops.expand_dims(labels, 2), classes), {1})
  return ops.cast(hit, dtype) * -3.4028234663852886e38
end

-- Logits {batch, num_true + num_sampled}, and what they should be.
local function logits_of(what, weights, biases, labels, x, num_sampled,
                         num_classes, o)
  local t = o.num_true
  x = core.edge(x)
  labels = read_labels(labels, t, what)
  local classes, true_count, count = draw(labels, num_sampled, num_classes, o,
                                          what)
  classes = ops.stop_gradient(classes)
  local true_w, true_b, w, b = look_up(weights, biases, labels, classes, o)
  local shape = ops.concat({{-1, t}, ops.shape(true_w)["1:"]}, 0)
  local product = ops.expand_dims(x, 1) * ops.reshape(true_w, shape)
  local right = ops.sum(product, {2}) + ops.reshape(true_b, {-1, t})
  local others = ops.matmul(x, w, {transpose_b = true}) + b
  if o.remove_accidental_hits then
    others = others + hits(labels, classes, x.dtype)
  end
  local function log(n)
    return ops.log(ops.cast(ops.stop_gradient(n), x.dtype))
  end
  right, others = right - log(true_count), others - log(count)
  local wanted = ops.concat({ops.ones_like(right) / t,
                             ops.zeros_like(others)}, 1)
  return ops.concat({right, others}, 1), wanted
end

local function read(o, what, remove)
  o = args.read(o, known, what)
  o.num_true = o.num_true or 1
  if math.type(o.num_true) ~= "integer" or o.num_true < 1 then
    fail("%s: num_true is a whole number of at least 1, not %s", what,
         tostring(o.num_true))
  end
  if o.remove_accidental_hits == nil then o.remove_accidental_hits = remove end
  return o
end

local function check_counts(num_sampled, num_classes, o, what)
  args.expect(num_sampled, "integer", what .. ": num_sampled")
  args.expect(num_classes, "integer", what .. ": num_classes")
  if num_sampled < 1 or num_classes < 1 then
    fail("%s: num_sampled and num_classes are at least 1, given %d and %d",
         what, num_sampled, num_classes)
  end
  if num_sampled > num_classes and o.sampled_values == nil then
    fail("%s: %d different classes cannot be drawn from %d; num_sampled comes "
      .. "before num_classes", what, num_sampled, num_classes)
  end
end

-- Raises where the length of x's rows is known not to be that of the weights'.
local function check_depth(weights, x, what)
  local first = args.plain(weights) and weights[1] or weights
  if not args.is_tensor(first) or not args.is_tensor(x) then return end
  local a, b = first.shape, x.shape
  if a and b and not shapes.compatible({-1, a[#a]}, b) then
    fail("%s: x is {batch, %d} as the weights {classes, %d}, given shape %s",
         what, a[#a], a[#a], shapes.text(b))
  end
end

-- A loss of logits and what they should be; `remove` is whether true classes
-- that are drawn are left out.
local function define(what, remove, f)
  sampled[what] = function(weights, biases, labels, x, num_sampled, num_classes,
                           o)
    o = read(o, what, remove)
    check_counts(num_sampled, num_classes, o, what)
    check_depth(weights, x, what)
    return scope.name_scope(o.name or what, function()
      return f(logits_of(what, weights, biases, labels, x, num_sampled,
                         num_classes, o))
    end)
  end
end

--- The softmax cross entropy of each example over its true classes and
-- num_sampled others: for training only.
-- @param weights {num_classes, depth}, a variable or a list of its parts
-- @param biases {num_classes}, in as many parts
-- @param labels {batch, num_true} or {batch} class numbers
-- @param x {batch, depth}
-- @param num_sampled how many classes are drawn, for all examples together
-- @param num_classes of them
-- @param[opt] o num_true (1); remove_accidental_hits (true): a true class that
-- is drawn does not count as wrong; sampled_values, {classes, expected count of
-- each label, of each class} in place of a draw by which class k comes with
-- probability log((k + 2) / (k + 1)) / log(num_classes + 1): sort classes by
-- how frequent they are; strategy ("mod") of parts; seed; name
-- @function sampled.sampled_softmax_loss(weights, biases, labels, x,
-- num_sampled, num_classes, o)
define("sampled_softmax_loss", true, function(logits, wanted)
  return ops.softmax_cross_entropy(logits, ops.stop_gradient(wanted))
end)

--- Noise contrast: for each example the sum of sigmoid cross entropies over its
-- true classes and num_sampled others. As sampled_softmax_loss, but with
-- remove_accidental_hits false.
-- @function sampled.nce_loss(weights, biases, labels, x, num_sampled,
-- num_classes, o)
define("nce_loss", false, function(logits, wanted)
  return ops.sum(ops.sigmoid_cross_entropy(logits, ops.stop_gradient(wanted)),
                 {1})
end)

return sampled
