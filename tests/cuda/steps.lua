-- steps.lua - training and loops on a card: the curve of the processor.
--   build/tide tests/cuda/steps.lua [--full] [NAME...]
--
-- Each row is a net, built and trained three times from one seed: on the
-- processor, twice on the card. Losses of the first two may be apart by what
-- rounding does, the last two are the same bits. `--full` takes sizes that a
-- card is worth; without it a row takes a second or two on the fake runtime.
--
-- The plugin is $TIDE_LIBRARY, or the one on the fake runtime.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local full, names = false, {}
for _, word in ipairs(arg) do
  if word == "--full" then full = true else names[word] = true end
end

td.load_library(os.getenv "TIDE_LIBRARY" or "build/cuda-fake/libtide_cuda.so")

-- What a row takes of two sizes.
local function size(small, large) return full and large or small end

local function images(n, pixels, depth)
  return td.value.random_uniform({n, pixels, pixels, depth or 3}, {seed = 3})
end

local function classes(n, most)
  return td.value.random_uniform({n}, {maxval = most, dtype = "int64",
                                       seed = 4})
end

local function cross_entropy(logits, labels)
  return td.nn.sparse_softmax_cross_entropy(logits, labels):mean()
end

-- The loss of a net of images, whose labels are fed as well.
local function of_images(n, pixels, depth, net)
  local x = td.placeholder("float32", {n, pixels, pixels, depth})
  local y = td.placeholder("int64", {n})
  return cross_entropy(net(x), y),
    {[x] = images(n, pixels, depth), [y] = classes(n, 10)}
end

-- ---- rows: a function that gives a loss and feeds ---------------------------

local rows = {}

function rows.mlp()
  local n = size(17, 257)
  return of_images(n, 28, 1, function(x)
    x = td.layers.dense(td.layers.flatten(x), size(33, 1000),
                        {activation = td.relu})
    return td.layers.dense(x, 10)
  end)
end

function rows.lenet()
  return of_images(size(3, 100), size(12, 28), 1, function(x)
    local o = {padding = "same", activation = td.relu}
    x = td.layers.max_pooling2d(td.layers.conv2d(x, size(5, 32), 5, o), 2)
    x = td.layers.max_pooling2d(td.layers.conv2d(x, size(7, 64), 5, o), 2)
    return td.layers.dense(td.layers.flatten(x), 10)
  end)
end

function rows.normalized_and_dropped()
  return of_images(size(5, 64), size(8, 32), 3, function(x)
    x = td.layers.conv2d(x, size(6, 64), 3, {strides = 2, padding = "same"})
    x = td.relu(td.layers.batch_normalization(x, {training = true}))
    x = td.layers.dropout(td.layers.flatten(x), 0.5, {training = true,
                                                      seed = 5})
    return td.layers.dense(x, 10)
  end)
end

-- Words as the ids of a batch's sequences.
local function ids(batch, steps, words)
  return td.value.random_uniform({batch, steps}, {maxval = words,
    dtype = "int32", seed = 6})
end

-- The loss of foretelling the next word; `read` makes a layer of another.
local function of_words(batch, steps, words, width, read)
  local x = td.placeholder("int32", {batch, steps})
  local table = td.get_variable("table", {words, width},
    {initializer = td.initializers.random_normal()})
  local y = read(td.gather(table, x[":, :-1"]), steps - 1)
  local w = td.get_variable("w", {width, words})
  local logits = td.matmul(y:reshape{-1, width}, w)
  return cross_entropy(logits, x[":, 1:"]:reshape{-1}),
    {[x] = ids(batch, steps, words)}
end

for _, kind in ipairs{"lstm", "gru"} do
  rows[kind] = function()
    local width = size(9, 200)
    return of_words(size(3, 20), size(6, 21), size(31, 1000), width,
      function(x)
        return (td.nn.dynamic_rnn(td.nn[kind .. "_cell"](width), x))
      end)
  end
end

function rows.attention()
  local heads, each = 2, size(4, 64)
  local width = heads * each
  return of_words(size(2, 16), size(6, 65), size(31, 1000), width,
    function(x, steps)
      local function split(name)
        local y = td.layers.dense(x, width, {name = name})
        return y:reshape{-1, steps, heads, each}:transpose{0, 2, 1, 3}
      end
      local q, k, v = split "q", split "k", split "v"
      local scores = td.batch_matmul(q, k, {adj_y = true}) * each ^ -0.5
      local mixed = td.batch_matmul(td.softmax(scores), v)
      local y = mixed:transpose{0, 2, 1, 3}:reshape{-1, steps, width}
      y = td.layers.layer_normalization(x + td.layers.dense(y, width))
      return y + td.layers.dense(td.layers.dense(y, 4 * width,
        {activation = td.tanh}), width)
    end)
end

-- A loop whose trips depend on what it computes, with its gradient.
function rows.while_loop()
  local w = td.get_variable("w", {size(5, 300), size(5, 300)})
  local x = td.placeholder("float32", {size(4, 64), w:dim(0)})
  local _, y = td.while_loop(
    function(i, y)
      return (i:less(12)):logical_and(y:square():sum():less(1e6))
    end,
    function(i, y) return i + 1, td.tanh(td.matmul(y, w)) + x end,
    {td.constant(0), x})
  return y:square():mean(),
    {[x] = td.value.random_normal({size(4, 64), w:dim(0)}, {seed = 7})}
end

function rows.scan_and_branch()
  local w = td.get_variable("w", {size(7, 500)},
    {initializer = td.initializers.random_normal()})
  local x = td.placeholder("float32", {size(6, 30), size(7, 500)})
  local y = td.scan(function(a, b)
    local c = a * 0.5 + b * w
    return td.cond(c:mean():greater(0.0), function() return td.sin(c) end,
                   function() return c * 0.25 end)
  end, x, td.zeros{size(7, 500)})
  return (y - 0.3):square():mean(),
    {[x] = td.value.random_normal({size(6, 30), size(7, 500)}, {seed = 8})}
end

-- Those that need so many pixels at least.
for name, pixels in pairs{alexnet = 64, overfeat = 71, vgg_a = 32,
                          googlenet = 32, inception_v3 = 75, resnet50 = 32} do
  rows[name] = function()
    local build = dofile("tutorials/models/" .. name .. ".lua")
    return of_images(2, pixels, 3, function(x)
      return build(x, {classes = 10, width = size(1 / 32, 1 / 4),
                       training = false})
    end)
  end
end

-- ---- a training -----------------------------------------------------------

-- Adam makes of rounding in a gradient near 0 a whole step.
local optimizers = {lstm = "adam", attention = "rmsprop",
                    normalized_and_dropped = "momentum"}

local function optimizer(name)
  local kind = optimizers[name] or "sgd"
  if kind == "momentum" then return td.train.momentum(0.01, 0.9) end
  return td.train[kind](kind == "sgd" and 0.05 or 0.001)
end

-- How many variables are where they are asked to be, "3 of 4"; most must be. A
-- variable is where all can be that uses it.
local function placed(sess, fetches, kind)
  local text, all, there = sess:explain_placement(fetches), 0, 0
  for where in text:gmatch "VarHandleOp %b() %-> (%a+)" do
    all = all + 1
    if where == kind then there = there + 1 end
  end
  assert(2 * there > all, os.getenv "TIDE_TRACE" and text
    or ("of %d variables %d are on %s"):format(all, there, kind))
  return ("%d of %d"):format(there, all)
end

-- Losses of some steps on the device, and how many variables are there.
local function train(name, device)
  td.reset()
  td.seed(1)
  local loss, step, feeds
  td.device(device, function()
    loss, feeds = rows[name]()
    step = optimizer(name):minimize(loss)
  end)
  local sess <close> = td.session{threads = 2}
  sess:init()
  local on = placed(sess, {loss, step}, device == "/gpu:0" and "CUDA" or "CPU")
  local losses = {}
  for i = 1, 4 do
    losses[i] = sess:run({loss, step}, feeds)[1]
  end
  return losses, on
end

-- Nil, or how two curves differ.
local function difference(a, b, allowed)
  for i = 1, #a do
    local apart = math.abs(a[i] - b[i])
    local most = allowed * math.max(1, math.abs(a[i]))
    if apart ~= apart or apart > most then
      return ("the loss of step %d is %.9g, and %.9g"):format(i, a[i], b[i])
    end
  end
end

local function try(name)
  local host = train(name, "/cpu:0")
  local card, on = train(name, "/gpu:0")
  local e = difference(host, card, 1e-4)
  if e then return e .. " on the card", on end
  e = difference(card, (train(name, "/gpu:0")), 0)
  return e and e .. " the second time", on
end

-- ---- all --------------------------------------------------------------------

local order = {}
for name in pairs(rows) do
  if not next(names) or names[name] then order[#order + 1] = name end
end
table.sort(order)

local failed = 0
for _, name in ipairs(order) do
  local start = os.time()
  local ok, e, on = xpcall(try, os.getenv "TIDE_TRACE" and debug.traceback
    or tostring, name)
  if not ok or e then
    failed = failed + 1
    print(name .. ": " .. tostring(e))
  end
  print(("  %s of its variables on the card"):format(on or "none"))
  print(("%s: %.1f s"):format(name, os.time() - start))
end
print(("%d passed, %d failed"):format(#order - failed, failed))
os.exit(failed == 0)
