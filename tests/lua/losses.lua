-- losses.lua - td.losses and td.regularizers: TensorFlow's numbers, errors.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local learning = require "shared.learning"

local raises, gives = helper.raises, helper.gives
local losses = td.losses
local tests = {}

-- ---- against TensorFlow ---------------------------------------------------

-- By each reduction, and with weights of each kind.
local function losses_of(f, labels, predictions)
  local rows = td.constant({{0.0}, {2.0}, {0.5}}, {dtype = "float64"})
  local all = rows * td.constant({{1.0, 0.0, 3.0, 1.0}}, {dtype = "float64"})
  local out = {f(labels, predictions)}
  for _, w in ipairs{rows, all} do
    for _, r in ipairs{"none", "sum", "mean", "sum_over_batch_size",
                       "sum_by_nonzero_weights"} do
      out[#out + 1] = f(labels, predictions, {weights = w, reduction = r})
    end
  end
  return table.unpack(out)
end

-- TensorFlow computes losses in float32.
local float32 = {rtol = 2e-6, atol = 1e-6}

local rows = {
  absolute_difference = function(given)
    return losses_of(losses.absolute_difference, given{3, 4}, given{3, 4})
  end,
  mean_squared_error = function(given)
    return losses_of(losses.mean_squared_error, given{3, 4}, given{3, 4})
  end,
  hinge_loss = function(given)
    return losses.hinge_loss({{0.0, 1.0}, {1.0, 0.0}},
                             given{2, 2}:cast "float32" * 4)
  end,
  huber_loss = function(given)
    local x, y = given{3, 4}, given{3, 4}
    return losses.huber_loss(x, y, {delta = 0.25}), losses.huber_loss(x * 4, y)
  end,
  log_loss = function(given)
    return losses.log_loss(given{3, 4}:sigmoid(), given{3, 4}:sigmoid(),
                           {weights = 2.0})
  end,
  cosine_distance = function(given)
    return losses.cosine_distance(given{3, 4}, given{3, 4}, {axis = 1})
  end,
  mean_pairwise_squared_error = function(given)
    local x, y = given{3, 4}, given{3, 4}
    return losses.mean_pairwise_squared_error(x, y),
           losses.mean_pairwise_squared_error(x, y,
             {weights = {{1.0}, {0.0}, {2.0}}})
  end,
  sigmoid_cross_entropy = function(given)
    return losses.sigmoid_cross_entropy(td.stop_gradient(given{3, 4}),
                                        given{3, 4}, {label_smoothing = 0.1})
  end,
  softmax_cross_entropy = function(given)
    return losses.softmax_cross_entropy(given{3, 4}:sigmoid(), given{3, 4},
      {weights = {1.0, 0.0, 2.0}, label_smoothing = 0.1})
  end,
  sparse_softmax_cross_entropy = function(given)
    return losses.sparse_softmax_cross_entropy({3, 0, 1}, given{3, 4})
  end,
  regularization = function(given)
    td.variable_scope("a", {regularizer = td.regularizers.l2(0.5)}, function()
      td.get_variable("w", {2, 3})
      td.get_variable("v", {3}, {regularizer = td.regularizers.l1(0.25)})
    end)
    losses.mean_squared_error(given({2, 2}, "float32"),
                              given({2, 2}, "float32"))
    return losses.get_regularization_loss(), losses.get_total_loss(),
           losses.get_total_loss{add_regularization_losses = false}
  end,
}

for name, build in pairs(rows) do
  tests["tensorflow_" .. name] = learning.test(name, build, float32)
end

-- ---- collections ----------------------------------------------------------

function tests.collections()
  local a = losses.mean_squared_error({1.0}, {3.0}, "first")
  losses.mean_squared_error({1.0}, {3.0}, {loss_collection = false})
  losses.mean_squared_error({1.0}, {3.0}, {loss_collection = "mine"})
  losses.add_loss(td.constant(2.0, "second"))
  lu.assertEquals(#losses.get_losses(), 2)
  lu.assertEquals(#losses.get_losses "first", 1)
  lu.assertEquals(#td.get_collection "mine", 1)
  gives(4, a)
  gives(6, losses.get_total_loss())
  gives(0, losses.get_regularization_loss())
end

function tests.layers_regularize()
  td.layers.dense(td.ones{1, 2}, 3, {
    kernel_regularizer = td.regularizers.l1_l2(1.0, 2.0),
    bias_regularizer = td.regularizers.l2(1.0),
    kernel_initializer = td.initializers.constant(-2.0),
    bias_initializer = td.initializers.ones()})
  local list = losses.get_regularization_losses()
  local sess = td.session()
  sess:init()
  lu.assertEquals(sess:run(list), {12 + 24, 1.5})
  gives(37.5, sess:run(losses.get_regularization_loss()))
end

function tests.regularizers_inside_a_loop()
  local _, y = td.while_loop(function(i) return i:less(2) end,
    function(i, y)
      return i + 1, y + td.variable_scope("v", {reuse = "auto"},
        td.get_variable, "w", {}, {initializer = 3.0,
                                   regularizer = td.regularizers.l2(1.0)})
    end, {0, 0.0})
  local sess = td.session()
  sess:init()
  lu.assertEquals(sess:run{y, losses.get_regularization_loss()}, {6, 4.5})
end

function tests.all_weights_zero()
  gives(0, losses.mean_squared_error({1.0, 2.0}, {3.0, 5.0}, {weights = 0.0}))
  local d = td.constant{3.0, 5.0}
  local l = losses.mean_squared_error({1.0, 2.0}, d, {weights = {0.0, 0.0}})
  gives({0, 0}, td.gradients(l, d))
end

-- ---- errors ---------------------------------------------------------------

function tests.errors()
  raises("mean_squared_error: labels have shape {2}, predictions {3}",
         losses.mean_squared_error, {1.0, 2.0}, {1.0, 2.0, 3.0})
  raises("mean_squared_error takes labels and predictions",
         losses.mean_squared_error, {1.0})
  raises("weights are a scalar, or of rank 1 with the losses' sizes {2} or 1, "
         .. "not {3}", losses.mean_squared_error, {1.0, 2.0}, {1.0, 2.0},
         {weights = {1.0, 2.0, 3.0}})
  raises("there is no reduction \"average\"; there are mean, none, sum",
         losses.mean_squared_error, {1.0}, {1.0}, {reduction = "average"})
  raises("huber_loss has no option \"detla\"; did you mean \"delta\"?",
         losses.huber_loss, {1.0}, {1.0}, {detla = 1})
  raises("l1 takes a scale of at least 0, not -1", td.regularizers.l1, -1)
  raises("regularizers.sum: the list is empty", td.regularizers.sum, {})
  raises("get_variable: the regularizer must be a function, not 0.1",
         td.get_variable, "w", {2}, {regularizer = 0.1})
end

-- ---- td.nn's, with TensorFlow 2.21's numbers --------------------------------

function tests.weighted_cross_entropy()
  local logits, labels = {-2.0, 0.5, 3.0}, {0.0, 0.3, 1.0}
  gives(td.nn.weighted_cross_entropy_with_logits(logits, labels, 2.5),
        {0.12692809, 1.0374117, 0.12146838})
  gives(td.nn.weighted_cross_entropy(td.cast(logits, "float64"),
                                     td.cast(labels, "float64"), 2.5),
        {0.12692809, 1.0374117, 0.12146838})
  raises("pos_weight, what a label of 1 weighs, is missing",
         td.nn.weighted_cross_entropy, logits, labels)
end

function tests.log_poisson_loss()
  local z, c = {0.0, 0.5, 1.0, 2.0, 7.0}, {-0.3, 0.1, 0.2, 0.9, 1.5}
  gives(td.nn.log_poisson_loss(z, c),
        {0.7408182, 1.055171, 1.0214027, 0.6596031, -6.018311})
  gives(td.nn.log_poisson_loss(z, c, {compute_full_loss = true}),
        {0.7408182, 1.055171, 1.0214027, 1.3114096, 2.4949527})
end

function tests.small_ones()
  gives(td.nn.zero_fraction{0, 1, 0, 2}, 0.5)
  gives(td.nn.xw_plus_b({{1.0, 2.0}}, {{3.0}, {4.0}}, {0.5}), {{11.5}})
end

return tests
