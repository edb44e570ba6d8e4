-- fit.lua - td.train.fit and its hooks, schedules, averages, L-BFGS.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives = helper.raises, helper.gives
local tests = {}

-- A line through points: w is 3 when learnt.
local function line(o)
  o = o or {}
  local x = td.placeholder("float32", {-1}, "x")
  local y = td.placeholder("float32", {-1}, "y")
  local w = td.variable(0.0, "w")
  local error = ((x * w - y) ^ 2)
  local data = td.data.of{x = {1.0, 2.0, 3.0, 4.0, 5.0},
                          y = {3.0, 6.0, 9.0, 12.0, 15.0}}
  local loss = error:mean()
  return {w = w, x = x, y = y, error = error, data = data, loss = loss,
          fit = {loss = loss, data = data, batch = 2, quiet = true,
                 train = td.train.sgd(o.lr or 0.01):minimize(loss)}}
end

local function with(t, more)
  for k, v in pairs(more) do t[k] = v end
  return t
end

-- ---- pipelines ------------------------------------------------------------

function tests.fits_a_pipeline()
  for _, make in ipairs{
    function(p) return p end,
    function(p) return p:shuffle(3, {seed = 2}):batch(2) end,
    function(p) return p:cache():shuffle(5):batch(2):prefetch(2) end,
    function(p) return p:map(function(e) return {x = e.x, y = e.y} end) end,
  } do
    td.reset()
    local m = line()
    local p = make(m.data:pipeline())
    if p.batched then m.fit.batch = nil end
    local history = td.train.fit(with(m.fit, {epochs = 20, data = p,
      validation = p, metrics = {error = m.error}}))
    lu.assertEquals(#history, 20)
    lu.assertEquals({history[1].step, history[20].step}, {3, 60})
    lu.assertTrue(history[20].validation.error < 1e-3)
    lu.assertAlmostEquals(m.w:eval(), 3, 0.01)
  end
end

-- The batches are the same as those of the data, in their order.
function tests.pipelines_are_measured()
  local m = line()
  td.session():init()
  local p = m.data:pipeline()
  for _, o in ipairs{{data = p, batch = 2}, {data = p}, {data = p:batch(3)}} do
    gives({1, 2, 3, 4, 5}, td.train.predict(with({outputs = m.x}, o)))
    local got = td.train.evaluate(with({metrics = {e = m.x}}, o))
    lu.assertAlmostEquals(got.e, 3, 1e-6)
  end
end

function tests.each_epoch_is_mixed_anew()
  local m, seen = line(), {}
  local p = m.data:pipeline():shuffle(5, {seed = 1}):batch(5)
  local hook = {step_end = function(_, run)
    seen[#seen + 1] = tostring(run.batch.x)
    lu.assertEquals(run.batch.epoch, run.epoch)
  end}
  m.fit.batch = nil
  td.train.fit(with(m.fit, {epochs = 4, data = p, hooks = {hook}}))
  lu.assertEquals(#seen, 4)
  lu.assertFalse(seen[1] == seen[2] and seen[2] == seen[3])
end

function tests.pipelines_refused()
  local m, p
  local function fit(more)
    td.reset()
    m = line()
    p = m.data:pipeline()
    return function() td.train.fit(with(m.fit, more())) end
  end
  raises("makes batches by itself", fit(function()
    return {data = p:batch(2)}
  end))
  raises("whose size is known", fit(function()
    return {data = p, shuffle = true}
  end))
  raises("whose size is known", fit(function()
    return {data = p, seed = 1}
  end))
  raises("gives no elements", fit(function() return {data = p:take(0)} end))
  raises("gives no elements", fit(function()
    return {validation = p:take(0), metrics = {e = m.error}}
  end))
  td.reset()
  m = line()
  td.session():init()
  p = m.data:pipeline()
  raises("gives no elements", td.train.evaluate, {metrics = {e = m.x},
                                                  data = p:take(0)})
  raises("gives no elements", td.train.predict, {outputs = m.x,
                                                 data = p:take(0)})
  raises("is a scalar", td.train.predict, {outputs = m.x,
    data = p:batch(2):map(function(e) return {x = td.reduce_sum(e.x)} end)})
end

-- A bar without a total.
function tests.progress_over_a_pipeline()
  local m, n = line(), 0
  for b in td.progress(m.data:pipeline():batches(2, {epochs = 2})) do
    n = n + 1
    lu.assertEquals(b.step, n)
  end
  lu.assertEquals(n, 6)
end

function tests.fits()
  local m = line()
  local history = td.train.fit(with(m.fit, {epochs = 20, seed = 1,
    validation = m.data, metrics = {error = m.error}}))
  lu.assertEquals(#history, 20)
  lu.assertEquals(history[20].step, 60)
  lu.assertTrue(history[20].validation.error < 1e-3)
  lu.assertTrue(history[1].loss > history[20].loss)
  lu.assertAlmostEquals(m.w:eval(), 3, 0.01)
end

-- The rehearsal must not train, and the same seed gives the same bits.
function tests.same_seed()
  local function series(seed)
    td.reset()
    td.seed(7)
    local m, losses = line(), {}
    local h = {step_end = function(_, run)
      losses[#losses + 1] = run.loss
    end}
    td.train.fit(with(m.fit, {epochs = 2, hooks = {h}, seed = seed}))
    return losses
  end
  local a = series(3)
  lu.assertEquals(#a, 6)
  lu.assertEquals(series(3), a)
  lu.assertNotEquals(series(4), a)
  lu.assertEquals(series(), series())
end

-- A short last batch weighs less in the mean.
function tests.evaluates_and_predicts()
  local m = line()
  td.session():init()
  local got = td.train.evaluate{metrics = {x = m.x, error = m.loss * 1.0},
                                data = m.data, batch = 2}
  lu.assertAlmostEquals(got.x, 3, 1e-6)
  local p = td.train.predict{outputs = {twice = m.x * 2, m.y}, data = m.data,
                             batch = 2}
  gives({2, 4, 6, 8, 10}, p.twice)
  gives({3, 6, 9, 12, 15}, p[1])
  gives({2, 4, 6, 8, 10}, td.train.predict{outputs = m.x * 2, data = m.data,
                                           batch = 3})
end

function tests.inputs_and_training()
  local m = line()
  local training = td.placeholder("bool", {}, "training")
  local a = td.placeholder("float32", {-1}, "a")
  local seen = td.where(training, td.identity(a), a * 10)
  local got = td.train.evaluate{metrics = {a = seen}, data = m.data,
    inputs = {x = a}, training = training}
  lu.assertAlmostEquals(got.a, 30, 1e-5)
end

-- A metric with state: a sum that its update adds to.
function tests.streaming_metric()
  local m = line()
  local total = td.variable(0.0, {name = "total", trainable = false,
                                  collections = {"metric_variables"}})
  local update = total:assign_add(m.x:sum())
  for _ = 1, 2 do
    local got = td.train.evaluate{metrics = {sum = {total:read(), update}},
                                  data = m.data, batch = 2,
                                  session = td.session()}
    lu.assertEquals(got.sum, 15.0)
  end
end

-- What batch normalization keeps follows by itself; a net with feeds of its own
-- is left alone.
function tests.update_ops()
  local x = td.placeholder("float32", {-1, 2}, "x")
  local training = td.placeholder("bool", {}, "training")
  local y = td.layers.batch_normalization(x, {training = training,
                                              momentum = 0.0, name = "norm"})
  local other = td.placeholder("float32", {-1, 2}, "other")
  td.layers.batch_normalization(other, {training = true})
  local loss = (td.layers.dense(y, 1) ^ 2):mean()
  td.train.fit{loss = loss, train = td.train.sgd(0.1):minimize(loss),
               training = training, quiet = true,
               data = td.data.of{x = {{1.0, 2.0}, {3.0, 6.0}}}}
  local found = td.global_variables "norm/moving_mean"
  lu.assertEquals(#found, 1)
  gives({2, 4}, found[1]:eval())
end

function tests.early_stop()
  local m = line{lr = 0.0}
  local stop = td.train.early_stop{patience = 2}
  local history = td.train.fit(with(m.fit, {epochs = 50, hooks = {stop}}))
  lu.assertTrue(#history < 10, #history)
  -- The best weights come back: here those of the first epoch.
  td.reset()
  local d = line{lr = 0.3} -- diverges
  local first
  local keep = {epoch_end = function(_, run)
    first = first or run.session:run(d.w)
  end}
  history = td.train.fit(with(d.fit, {epochs = 6, shuffle = false,
    hooks = {keep, td.train.early_stop{patience = 1}}}))
  lu.assertEquals(#history, 2)
  lu.assertEquals(d.w:eval(), first)
  raises("there is no metric \"accurcy\"; there is loss", td.train.fit,
         with(d.fit, {hooks = {td.train.early_stop{metric = "accurcy"}}}))
end

function tests.schedule()
  local m = line()
  local lr = td.variable(1.0, {name = "lr", trainable = false})
  local seen = {}
  local watch = {step_end = function(_, run)
    seen[run.epoch] = run.session:run(lr)
  end}
  td.train.fit(with(m.fit, {epochs = 3, hooks = {watch,
    td.train.schedule(lr, function(epoch) return 1 / epoch end)}}))
  lu.assertEquals(seen[1], 1.0)
  lu.assertEquals(seen[2], 0.5)
  raises("schedule takes the variable", td.train.schedule, 3, print)
end

function tests.chart()
  local m, rows = line(), {}
  local to = {log = function(_, row) rows[#rows + 1] = row end}
  td.train.fit(with(m.fit, {epochs = 2, hooks = {td.train.chart(to,
                                                            {every = 3})}}))
  lu.assertEquals(#rows, 4)
  lu.assertEquals({rows[1].step, rows[4].step}, {3, 6})
end

function tests.nan_is_named()
  local m = line{lr = 1e30}
  local e = raises("fit: the loss is", td.train.fit,
                   with(m.fit, {epochs = 9}))
  lu.assertStrContains(e.message, "at step ")
end

function tests.mistakes_show_at_once()
  local m = line()
  local before = td.session()
  before:init()
  raises("fit needs train", td.train.fit, {loss = m.loss, data = m.data})
  raises("did you mean \"epochs\"", td.train.fit, with({epoch = 1}, m.fit))
  raises("the data has no column \"z\"", td.train.fit,
         with({inputs = {z = m.x}}, m.fit))
  raises("the loss must be a scalar", td.train.fit,
         with(with({}, m.fit), {loss = m.error}))
  raises("given number", td.train.fit, with(with({}, m.fit), {data = 3}))
  raises("\"acc\" is a graph tensor or {value, update}", td.train.fit,
         with({metrics = {acc = "x"}}, m.fit))
  -- Validation data of the wrong form fails before anything is trained.
  local wrong = td.data.of{x = {{1.0, 2.0}}, y = {1.0}}
  raises("given float32 {1, 2}", td.train.fit, with({validation = wrong,
    metrics = {error = m.error}, session = before}, m.fit))
  lu.assertEquals(before:run(m.w), 0.0)
end

-- From real TensorFlow: step, exponential with staircase, natural exponential,
-- inverse time, polynomial with cycle and without, cosine, with restarts.
local rates = {
  {0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1},
  {8, 0.1, 0.067032, 0.071428575, 0.0040959995, 0.0040959995, 0.06890576,
   0.018594233, 0.009549147},
  {16, 0.05, 0.044932898, 0.05555556, 0.0040959995, 1e-4, 0.018594233,
   0.045725167, 0.031094227},
  {24, 0.025, 0.03011942, 0.045454547, 0.0040959995, 1e-4, 0.010000001,
   0.019274829, 0.05301517},
  {40, 0.00625, 0.01353353, 0.033333335, 1e-4, 1e-4, 0.010000001, 0.029204953,
   0.06560999},
}

function tests.schedules()
  local t, step = td.train, td.placeholder("int64", {}, "step")
  local list = {
    t.exponential_decay(0.1, step, 10, 0.5, {staircase = true}),
    t.natural_exp_decay(0.1, step, 10, 0.5),
    t.inverse_time_decay(0.1, step, 10, 0.5),
    t.polynomial_decay(0.1, step, 10, {power = 2.0, cycle = true}),
    t.polynomial_decay(0.1, step, 10, {power = 2.0}),
    t.cosine_decay(0.1, step, 20, {last = 0.1}),
    t.cosine_decay_restarts(0.1, step, 10, {lower = 0.5, last = 0.1}),
    t.cosine_decay_restarts(0.1, step, 10, {longer = 1.0, lower = 0.9}),
  }
  local s = td.session()
  for _, row in ipairs(rates) do
    local got = s:run(list, {[step] = row[1]})
    for i, x in ipairs(got) do
      lu.assertAlmostEquals(x, row[i + 1], 2e-8, i .. " at " .. row[1])
    end
  end
  raises("one value more", t.piecewise_constant, step, {1, 2}, {1.0})
  raises("boundaries must grow", t.piecewise_constant, step, {2, 1},
         {1.0, 1.0, 1.0})
  raises("n must be above 0", t.exponential_decay, 0.1, step, 0, 0.5)
end

-- A schedule that an optimizer follows, by the step that minimize counts.
function tests.schedule_by_global_step()
  local v, count = td.variable(1.0, "v"), td.train.global_step()
  local lr = td.train.piecewise_constant(count, {0, 1}, {0.5, 0.25, 0.125})
  local step = td.train.sgd(lr):minimize(v * 1.0, {global_step = count})
  local s = td.session()
  s:init()
  for _, want in ipairs{0.5, 0.25, 0.125} do
    s:run(step)
    lu.assertEquals(s:run(v), want)
  end
end

function tests.moving_average()
  local v = td.variable({1.0, 2.0}, "v")
  local n = td.placeholder("int64", {}, "n")
  local average = td.train.moving_average(0.9, {num_updates = n})
  local update = average:apply()
  lu.assertEquals(average:average(v).name, "v/ExponentialMovingAverage")
  local s = td.session()
  s:init()
  v:load{3.0, 6.0}
  s:run(update, {[n] = 0}) -- decay 0.1
  gives({2.8, 5.6}, s:run(average:average(v)))
  s:run(update, {[n] = 1000}) -- decay 0.9
  gives({2.82, 5.64}, s:run(average:average(v)))
  raises("is not averaged", average.average, average, td.variable(1.0, "w"))
  raises("from 0 to 1", td.train.moving_average, 2)
  raises("averages are of floats", average.apply, average,
         {td.variable(1, "i")})
end

-- ---- L-BFGS ---------------------------------------------------------------

-- Rosenbrock's valley in two variables of different shapes.
local function valley()
  local a = td.variable({{-1.2}}, {name = "a", dtype = "float64"})
  local b = td.variable({1.0}, {name = "b", dtype = "float64"})
  local x, y = a:read()[0], b:read()
  return ((1 - x) ^ 2 + 100 * (y - x ^ 2) ^ 2):sum(), a, b
end

function tests.lbfgs()
  local loss, a, b = valley()
  local count = td.train.global_step()
  local step = td.train.lbfgs(1.0, {memory = 5}):minimize(loss,
                                                  {global_step = count})
  local s = td.session()
  s:init()
  local runs = 0
  repeat
    s:run(step)
    runs = runs + 1
  until s:run(loss) < 1e-20 or runs == 80
  lu.assertTrue(runs < 70, runs .. " evaluations")
  lu.assertEquals(s:run(count), runs)
  gives({{1}}, s:run(a))
  gives({1}, s:run(b))
end

-- A quadratic in n variables: far fewer runs than gradient descent needs.
function tests.lbfgs_quadratic()
  local scale = td.linspace(1.0, 100.0, 20)
  local v = td.variable(td.ones{20}, "v")
  local loss = (scale * v:read() ^ 2):sum()
  local step = td.train.lbfgs():minimize(loss)
  local s = td.session()
  s:init()
  for _ = 1, 60 do s:run(step) end
  lu.assertTrue(s:run(loss) < 1e-6, s:run(loss))
end

-- Where the loss is not defined the step goes back, and no NaN stays.
function tests.lbfgs_goes_back()
  local v = td.variable(0.01, {name = "v", dtype = "float64"})
  local loss = v:read() - td.log(v:read()) -- defined above 0, least at 1
  local step = td.train.lbfgs(8.0):minimize(loss)
  local s = td.session()
  s:init()
  for _ = 1, 100 do s:run(step) end
  lu.assertAlmostEquals(s:run(v), 1, 1e-6)
end

function tests.lbfgs_refuses()
  local v = td.variable({1.0, 2.0}, "v")
  local w = td.variable({1.0}, {name = "w", dtype = "float64"})
  local o = td.train.lbfgs()
  raises("take its :mean()", o.minimize, o, v * 2)
  raises("one dtype", o.minimize, o,
         v:sum() + td.cast(w:sum(), "float32"))
  raises("use :minimize", o.apply_gradients, o, {})
  raises("memory must be", td.train.lbfgs, 1, {memory = 0})
end

return tests
