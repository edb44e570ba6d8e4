--- ops/nn.lua - activations and losses; td.nn names what TensorFlow keeps in
-- tf.nn.
--
-- Losses are per example: take their :mean().
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local namespace = require "tide.ops"
local shapes = require "tide.tensor.shape"

local ops = namespace.ops

local function fail(what, fmt, ...)
  errors.invalid(what .. ": " .. fmt, ...)
end

-- (logits, labels, o), or one table {logits =, labels =}.
local function read_loss(logits, labels, o, what)
  if args.plain(logits) and (logits.logits or logits.labels) then
    o, logits, labels = logits, logits.logits, logits.labels
  end
  o = args.read(o, {"logits", "labels", "name"}, what)
  o.logits, o.labels = nil, nil
  if logits == nil or labels == nil then
    fail(what, "it takes logits and labels, or {logits = x, labels = y}; given "
      .. "no %s", logits == nil and "logits" or "labels")
  end
  logits, labels = args.tensor(logits), args.tensor(labels)
  if not dtypes.is_float(logits.dtype) then
    fail(what, "the logits are floats, given %s; td.nn takes logits first, "
      .. "then labels", logits.dtype)
  end
  return logits, labels, o
end

-- Labels that are a number for each class, or each element.
local function check_dense(logits, labels, what)
  local a, b = logits.shape, labels.shape
  if what == "softmax_cross_entropy" and a and b and #b == #a - 1 then
    fail(what, "labels have the shape %s of the logits, a probability for each "
      .. "class, given %s; sparse_softmax_cross_entropy takes class numbers",
      shapes.text(a), shapes.text(b))
  end
  if labels.dtype ~= logits.dtype then
    fail(what, "labels are %s as the logits, given %s; cast them: labels:cast "
      .. "\"%s\"", logits.dtype, labels.dtype, logits.dtype)
  end
end

-- Labels that are a class number for each row.
local function check_sparse(logits, labels, what)
  local a, b = logits.shape, labels.shape
  if labels.dtype ~= "int32" and labels.dtype ~= "int64" then
    fail(what, "labels are class numbers, int32 or int64, given %s%s",
      labels.dtype, a and b and #a == #b and "; softmax_cross_entropy takes a "
      .. "probability for each class" or "; cast them: labels:cast \"int64\"")
  end
  if not a or not b or #a == 0 then return end
  local rows = shapes.of{table.unpack(a, 1, #a - 1)}
  if shapes.compatible(rows, b) then return end
  fail(what, "labels are a class number for each row, of shape %s, given %s%s",
    shapes.text(rows), shapes.text(b), #b == #a and (b[#b] == 1
    and "; labels:squeeze{-1} makes them so"
    or "; of one-hot labels, labels:argmax(-1) are the numbers") or "")
end

-- Rows of classes: {-1, n}, for losses whose ops take matrices.
local function flat(x)
  local shape = x.shape
  local classes = shape and shape[#shape]
  if not classes or classes < 0 then classes = x:dim(-1) end
  return ops.reshape(x, {-1, classes})
end

--- Cross entropy of softmax(logits) against a distribution `labels`, over the
-- last dimension.
-- @function ops.softmax_cross_entropy(logits, labels, o)
-- @function ops.softmax_cross_entropy_with_logits(logits, labels, o)
-- @usage td.softmax_cross_entropy({{0.0, 0.0}}, {{1.0, 0.0}})  --> 0.6931472
function ops.softmax_cross_entropy(logits, labels, o)
  logits, labels, o = read_loss(logits, labels, o, "softmax_cross_entropy")
  check_dense(logits, labels, "softmax_cross_entropy")
  local op = core.op "SoftmaxCrossEntropyWithLogits"
  if not logits.rank or logits.rank == 2 then
    return (op(logits, labels, o))
  end
  local loss = op(flat(logits), flat(labels), o)
  return ops.reshape(loss, ops.shape(logits)["0:-1"])
end
ops.softmax_cross_entropy_with_logits = ops.softmax_cross_entropy

--- The same with labels as class numbers.
-- @function ops.sparse_softmax_cross_entropy(logits, labels, o)
-- @function ops.sparse_softmax_cross_entropy_with_logits(logits, labels, o)
-- @usage td.sparse_softmax_cross_entropy({{0.0, 0.0}}, {1})  --> 0.6931472
function ops.sparse_softmax_cross_entropy(logits, labels, o)
  logits, labels, o = read_loss(logits, labels, o,
                                "sparse_softmax_cross_entropy")
  check_sparse(logits, labels, "sparse_softmax_cross_entropy")
  local op = core.op "SparseSoftmaxCrossEntropyWithLogits"
  if not logits.rank or logits.rank == 2 then
    return (op(logits, labels, o))
  end
  local loss = op(flat(logits), ops.reshape(labels, {-1}), o)
  return ops.reshape(loss, ops.shape(labels))
end
ops.sparse_softmax_cross_entropy_with_logits = ops.sparse_softmax_cross_entropy

--- Cross entropy of sigmoid(logits) against probabilities `labels`, element by
-- element: max(x, 0) - x z + log(1 + exp(-|x|)).
-- @function ops.sigmoid_cross_entropy(logits, labels, o)
-- @function ops.sigmoid_cross_entropy_with_logits(logits, labels, o)
-- @usage td.sigmoid_cross_entropy({0.0}, {1.0})  --> 0.6931472
function ops.sigmoid_cross_entropy(logits, labels, o)
  logits, labels, o = read_loss(logits, labels, o, "sigmoid_cross_entropy")
  check_dense(logits, labels, "sigmoid_cross_entropy")
  if not shapes.compatible(logits.shape, labels.shape) then
    fail("sigmoid_cross_entropy", "labels have the shape %s of the logits, "
      .. "given %s", shapes.text(logits.shape), shapes.text(labels.shape))
  end
  local rest = ops.log1p(ops.exp(-ops.abs(logits)))
  return ops.add(ops.relu(logits) - logits * labels, rest, o)
end
ops.sigmoid_cross_entropy_with_logits = ops.sigmoid_cross_entropy

--- sigmoid_cross_entropy with what is said of labels of 1 weighing pos_weight:
-- (1 - z) x + (1 + (pos_weight - 1) z) log(1 + exp(-x)), as it does not
-- overflow.
-- @usage td.nn.weighted_cross_entropy({0.0}, {1.0}, 2.0)  --> 1.3862944
-- @function ops.weighted_cross_entropy(logits, labels, pos_weight, o)
-- @function ops.weighted_cross_entropy_with_logits(logits, labels, w, o)
function ops.weighted_cross_entropy(logits, labels, pos_weight, o)
  logits, labels, o = read_loss(logits, labels, o, "weighted_cross_entropy")
  check_dense(logits, labels, "weighted_cross_entropy")
  if pos_weight == nil then
    fail("weighted_cross_entropy", "pos_weight, what a label of 1 weighs, is "
      .. "missing")
  end
  local weight = 1 + labels * (pos_weight - 1)
  local rest = ops.log1p(ops.exp(-ops.abs(logits))) + ops.relu(-logits)
  return ops.add((1 - labels) * logits, weight * rest, o)
end
ops.weighted_cross_entropy_with_logits = ops.weighted_cross_entropy

--- The loss of Poisson counts `targets`, log_input being the log of their rate:
-- exp(c) - z c. Option compute_full_loss adds Stirling's z log z - z +
-- log(2 pi z) / 2 where z > 1.
-- @usage td.nn.log_poisson_loss({2.0}, {0.0})  --> 1
function ops.log_poisson_loss(targets, log_input, o)
  o = args.read(o, {"compute_full_loss", "name"}, "log_poisson_loss")
  local c = args.tensor(log_input)
  local z = args.is_tensor(targets) and targets or ops.cast(targets, c.dtype)
  local loss = ops.exp(c) - c * z
  if o.compute_full_loss then
    local safe = ops.maximum(z, 1.0)
    local full = z * ops.log(safe) - z + ops.log(safe * (2 * math.pi)) * 0.5
    local none = ops.zeros_like(z)
    loss = loss + ops.where(ops.logical_and(ops.greater_equal(z, 0.0),
      ops.less_equal(z, 1.0)), none, full)
  end
  return ops.identity(loss, o.name)
end

--- The share of x's elements that are 0, a float32 scalar; NaN of none.
-- @usage td.nn.zero_fraction{0.0, 1.0, 0.0, 2.0}  --> 0.5
function ops.zero_fraction(x, o)
  o = args.read(o, {"name"}, "zero_fraction")
  x = args.tensor(x)
  local is_zero = ops.cast(ops.equal(x, ops.zeros_like(x)), "float32")
  return ops.mean(is_zero, nil, {name = o.name})
end

--- x weights + biases: x {n, m}, weights {m, k}, biases {k}.
-- @usage td.nn.xw_plus_b({{1.0, 2.0}}, {{3.0}, {4.0}}, {0.5})  --> 11.5
function ops.xw_plus_b(x, weights, biases, o)
  o = args.read(o, {"name"}, "xw_plus_b")
  return ops.bias_add(ops.matmul(x, weights), biases, {name = o.name})
end

--- x / |x| along `axes`, with `epsilon` below the square.
-- @usage td.l2_normalize({3.0, 4.0}, {0})  --> 0.6 0.8
function ops.l2_normalize(x, axes, o)
  o = args.read(o, {"epsilon", "name"}, "l2_normalize")
  local square = ops.sum(ops.square(x), axes, {keep_dims = true})
  return ops.multiply(x, ops.rsqrt(ops.maximum(square, o.epsilon or 1e-12)),
                      o.name)
end

--- Mean and variance over `axes`.
function ops.moments(x, axes, o)
  o = args.read(o, {"keep_dims", "name"}, "moments")
  local mean = ops.mean(x, axes, {keep_dims = true})
  local variance = ops.mean(ops.squared_difference(x, ops.stop_gradient(mean)),
                            axes, {keep_dims = o.keep_dims, name = o.name})
  return o.keep_dims and mean or ops.mean(x, axes), variance
end

--- x with each element kept with probability keep_prob, and then divided by it,
-- else 0. Options: rate = 1 - keep_prob in its place; noise_shape: 1 drops
-- along that axis together; seed. Source: Srivastava et al. 2014.
-- @usage td.dropout(td.ones{4}, 1.0)  --> 1 1 1 1
function ops.dropout(x, keep_prob, o)
  if type(keep_prob) == "table" and args.plain(keep_prob) then
    keep_prob, o = nil, keep_prob
  end
  o = args.read(o, {"rate", "noise_shape", "seed", "name"}, "dropout")
  local keep = keep_prob or o.rate and 1 - o.rate or 1
  if type(keep) == "number" and not (keep > 0 and keep <= 1) then
    core.error("invalid_argument", "dropout: what is kept is in (0, 1], given "
      .. keep)
  end
  x = core.edge(x)
  if not dtypes.is_float(x.dtype) then
    core.error("invalid_argument", ("dropout takes floats, not %s; use td.cast")
      :format(x.dtype))
  end
  if keep == 1 then return ops.identity(x, o.name) end
  local noise = ops.random_uniform(o.noise_shape or ops.shape(x),
                                   {dtype = x.dtype, seed = o.seed})
  return ops.multiply(x / keep, ops.floor(noise + keep), o.name)
end

--- (x - mean) / sqrt(variance + epsilon) scale + offset; offset, scale may be
-- nil. mean and variance broadcast to x: td.moments gives them.
-- @usage td.batch_normalization({1.0, 3.0}, 2.0, 1.0, 5.0, nil, 0.0)  --> 4 6
function ops.batch_normalization(x, mean, variance, offset, scale, epsilon, o)
  o = args.read(o, {"name"}, "batch_normalization")
  local inverse = ops.rsqrt(ops.add(variance, epsilon or 1e-3))
  if scale ~= nil then inverse = inverse * scale end
  local shift = -ops.multiply(mean, inverse)
  if offset ~= nil then shift = shift + offset end
  return ops.add(ops.multiply(x, inverse), shift, o.name)
end
