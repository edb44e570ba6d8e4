-- embedding.lua - lookups in tables and parts of tables, losses by samples:
-- TensorFlow's numbers, sparse gradients, errors.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local learning = require "shared.learning"
local slices = require "tide.tensor.indexed_slices"

local raises, gives = helper.raises, helper.gives
local tests = {}

-- ---- against TensorFlow ---------------------------------------------------

local function parts(sizes, name, width)
  local list = {}
  for i, n in ipairs(sizes) do
    list[i] = td.get_variable(("%s_%d"):format(name or "part", i - 1),
                              {n, width or 2}, {dtype = "float64"})
  end
  return list
end

local function lookup(params, o)
  return td.nn.embedding_lookup(params, {{3, 0, 9}, {9, 4, 6}}, o)
end

local function sparse(values)
  return {indices = {{0, 0}, {0, 2}, {1, 0}, {2, 0}, {2, 1}, {2, 2}},
          values = values, dense_shape = {3, 3}}
end

local function lookup_sparse(params, strategy)
  local ids = sparse{3, 3, 1, 0, 4, 2}
  local weights = sparse{0.5, 2.0, 1.0, 3.0, 0.25, 1.5}
  local out = {}
  for _, w in ipairs{false, weights} do
    for _, combiner in ipairs{"sum", "mean", "sqrtn"} do
      out[#out + 1] = td.nn.embedding_lookup_sparse(params, ids, w or nil,
        {combiner = combiner, strategy = strategy})
    end
  end
  return table.unpack(out)
end

-- Classes, and how often they are expected: as a sampler would give.
local function drawn(num_true)
  local expected = {}
  for i = 1, 3 do
    expected[i] = {}
    for j = 1, num_true do
      expected[i][j] = ((i - 1) * num_true + j) / 8
    end
  end
  return {{2, 5, 0, 7}, td.tensor(expected, "float64"),
          td.tensor({0.5, 0.25, 0.75, 0.125}, "float64")}
end

local rows = {
  embedding_lookup = function()
    return lookup(parts{10}), lookup(parts({10}, "other"), {max_norm = 0.4})
  end,
  embedding_lookup_mod = function() return lookup(parts{4, 3, 3}) end,
  embedding_lookup_div = function()
    return lookup(parts{4, 3, 3}, {strategy = "div", max_norm = 0.4})
  end,
  embedding_lookup_sparse = function() return lookup_sparse(parts{5}) end,
  embedding_lookup_sparse_of_parts = function()
    return lookup_sparse(parts{3, 2}, "div")
  end,
  sampled_softmax_loss = function(given)
    local w, b = parts({3, 3, 2}, "w"), {}
    for i, n in ipairs{3, 3, 2} do
      b[i] = td.get_variable("b_" .. i - 1, {n}, {dtype = "float64"})
    end
    local x = given{3, 2}
    return td.nn.sampled_softmax_loss(w, b, {5, 1, 0}, x, 4, 8,
        {strategy = "div", sampled_values = drawn(1)}),
      td.nn.sampled_softmax_loss(w, b, {{5, 1}, {1, 6}, {0, 2}}, x, 4, 8,
        {num_true = 2, remove_accidental_hits = false,
         sampled_values = drawn(2)})
  end,
  nce_loss = function(given)
    local w = parts({8}, "w")[1]
    local b = td.get_variable("b", {8}, {dtype = "float64"})
    return td.nn.nce_loss(w, b, {{5, 1}, {1, 6}, {0, 2}}, given{3, 2}, 4, 8,
                          {num_true = 2, sampled_values = drawn(2)})
  end,
}

for name, build in pairs(rows) do
  tests["tensorflow_" .. name] = learning.test(name, build)
end

-- ---- where rows come from -------------------------------------------------

-- Every id of every number of parts, both ways, gives its own row.
function tests.parts_are_one_table()
  local sess = td.session()
  for n = 1, 4 do
    for _, strategy in ipairs{"mod", "div"} do
      local list = {}
      for part = 0, n - 1 do
        local own = {}
        for id = 0, 9 do
          local size, extra = 10 // n, 10 % n
          local at = math.max(id // (size + 1), (id - extra) // size)
          if strategy == "mod" then at = id % n end
          if at == part then own[#own + 1] = {id, 10 * id} end
        end
        list[part + 1] = td.constant(own)
      end
      local ids = td.range(10, {dtype = "int64"})
      local found = td.nn.embedding_lookup(list, ids, {strategy = strategy})
      gives({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, sess:run(found[{":", 0}]))
    end
  end
end

function tests.gradients_stay_sparse()
  local list = parts{500, 500}
  local y = td.nn.embedding_lookup(list, {{1, 3}, {998, 3}})
  local d = td.gradients(y:sum(), list)
  lu.assertTrue(slices.is(d[1]) and slices.is(d[2]))
  local train = td.train.sgd(1.0):minimize(y:sum())
  local sess = td.session()
  sess:init()
  local before = sess:run(list[2])
  lu.assertEquals(sess:run(td.shape(d[1].values)):table(), {1, 2})
  sess:run(train)
  local change = sess:run(list[2]) - before
  gives({{-1, -1}, {-2, -2}, {0, 0}}, change["0:3"])
end

function tests.each_part_is_read_where_it_is()
  local a = td.device("/cpu:0", td.get_variable, "a", {3, 2})
  local b = td.device("/cpu:1", td.get_variable, "b", {3, 2})
  local y = td.nn.embedding_lookup({a, b}, {0, 5})
  local sess = td.session{cpu_devices = 2}
  sess:init()
  lu.assertEquals(sess:run(y).shape, {2, 2})
  local placed = tostring(sess:explain_placement())
  for _, row in ipairs{{"ResourceGather", 0}, {"ResourceGather_1", 1}} do
    lu.assertStrContains(placed, ("(embedding_lookup/%s) -> CPU:%d"):format(
      row[1], row[2]))
  end
end

function tests.examples_without_ids_are_zero()
  local ids = {indices = {{1, 0}}, values = {2}, dense_shape = {3, 1}}
  local params = td.constant{{1.0}, {2.0}, {4.0}}
  for _, combiner in ipairs{"sum", "mean", "sqrtn"} do
    gives({{0}, {4}, {0}}, td.nn.embedding_lookup_sparse(params, ids, nil,
                                                         combiner))
  end
end

-- A few classes of many are drawn and changed in a step; over all of them the
-- loss falls.
-- Name, steps, what of the loss is left then.
for _, row in ipairs{{"sampled_softmax_loss", 60, 0.5}, {"nce_loss", 300, 0.85}}
do
  local what, steps, left = table.unpack(row)
  tests["training_by_" .. what] = function()
    td.seed(3)
    local classes, n = 200, 40
    local w = td.get_variable("w", {classes, 8})
    local b = td.get_variable("b", {classes},
                              {initializer = td.initializers.zeros()})
    local x = td.constant(td.value.random_normal{n, 8})
    local labels = td.constant(td.value.range(n)) % 20
    local loss = td.nn[what](w, b, labels, x, 10, classes):mean()
    local d = td.gradients(loss, {w, b})
    lu.assertTrue(slices.is(d[1]) and slices.is(d[2]))
    local train = td.train.adagrad(0.5):minimize(loss)
    local all = td.nn.sparse_softmax_cross_entropy(
      x:matmul(w, {transpose_b = true}) + b, labels):mean()
    local sess = td.session()
    sess:init()
    lu.assertEquals(sess:run(td.shape(d[1].values)):table(), {n + 10, 8})
    local before = sess:run(all)
    for _ = 1, steps do sess:run(train) end
    lu.assertTrue(sess:run(all) < left * before)
  end
end

-- ---- errors ---------------------------------------------------------------

function tests.errors()
  local w = td.ones{4, 2}
  raises("strategy is \"mod\" or \"div\", not round", lookup, w,
         {strategy = "round"})
  raises("the table has no part", lookup, {})
  raises("rows of part 2 have shape {3}, of part 1 {2}", lookup,
         {w, td.ones{4, 3}})
  raises("ids are int32 or int64, not float32", td.nn.embedding_lookup, w,
         {1.0})
  raises("part 1 is no variable and no tensor, but a string",
         td.nn.embedding_lookup, {"w"}, {1})
  raises("combiner is \"sum\", \"mean\" or \"sqrtn\", not max",
         td.nn.embedding_lookup_sparse, w, sparse{1}, nil, {combiner = "max"})
  raises("ids are {indices = {n, 2}, values = {n}",
         td.nn.embedding_lookup_sparse, w, {1, 2})
  raises("nce_loss: num_sampled must be an integer", td.nn.nce_loss, w,
         td.ones{4}, {1}, td.ones{1, 2})
  raises("labels are {batch, num_true = 2} class numbers, given shape {1}",
         td.nn.nce_loss, w, td.ones{4}, {1}, td.ones{1, 2}, 2, 4,
         {num_true = 2})
  raises("sampled_values are {classes, expected counts", td.nn.nce_loss, w,
         td.ones{4}, {1}, td.ones{1, 2}, 2, 4, {sampled_values = {1}})
end

return tests
