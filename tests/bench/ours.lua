-- ours.lua - Tide's side of the benchmarks: ours.lua ROW THREADS.
--
-- Prints "ready", then answers each line with the seconds one unit took, or with
-- what the row found where it gives no units.

local td = require "tide"
local core = require "tide.core"

local row, threads = arg[1], tonumber(arg[2] or "1")

local function session(options)
  options = options or {}
  options.threads = threads
  return td.session(options)
end

--- Seconds per call of f, over at least 20 ms; `units` of work a call.
local function timed(f, units)
  local times = 1
  while true do
    local start = core.clock()
    for _ = 1, times do f() end
    local took = core.clock() - start
    if took >= 0.02 then return took / times / units end
    times = times * (took > 0.004 and math.ceil(0.025 / took) or 4)
  end
end

local nodes = 10000

-- Null nodes with real tensors: the same graphs as the peers'.
local function dispatch(build)
  local sess = session{passes_off = {"cse", "fold"}}
  local x = td.placeholder("float32", {}, "x")
  local last = td.group(build(x))
  local step = sess:callable(last, {x})
  return function() step(1.0) end, nodes
end

local function chain(x, n)
  for _ = 1, n do x = td.identity(x) end
  return x
end

-- Has f called when the process ends.
local ending = {}
local function at_end(f) ending[1] = setmetatable({}, {__gc = f}) end

local rows = {}

function rows.dispatch_chain()
  return dispatch(function(x) return {chain(x, nodes).op} end)
end

function rows.dispatch_independent()
  return dispatch(function(x)
    local list = {}
    for i = 1, nodes do list[i] = td.identity(x).op end
    return list
  end)
end

function rows.dispatch_chains8()
  return dispatch(function(x)
    local list = {}
    for i = 1, 8 do list[i] = chain(x, nodes // 8).op end
    return list
  end)
end

function rows.dispatch_layered()
  return dispatch(function(x)
    local layer = {}
    for i = 1, 100 do layer[i] = x end
    for _ = 1, 100 do
      local above = {}
      for i = 1, 100 do above[i] = layer[i] + layer[i % 100 + 1] end
      layer = above
    end
    local list = {}
    for i = 1, 100 do list[i] = layer[i].op end
    return list
  end)
end

-- 100 nodes of about 50 us among 10,000 null ones.
function rows.dispatch_mix()
  local sess = session{passes_off = {"cse", "fold"}}
  local x = td.placeholder("float32", {}, "x")
  local big = td.variable(td.value.random_uniform{100000}, "big")
  local list = {}
  for i = 1, 100 do
    local y = chain(x, 100)
    list[i] = td.tanh(big:read() + y):sum().op
  end
  sess:init()
  local step = sess:callable(td.group(list), {x})
  return function() step(1.0) end, 1
end

function rows.null_run_lua()
  local sess = session()
  local step = sess:callable(td.no_op(), {})
  return function() step() end, 1
end

function rows.while_loop()
  local sess = session()
  local n = 10000
  local i = td.while_loop(function(i) return td.less(i, n) end,
    function(i) return i + 1 end, {td.constant(0)})
  if type(i) == "table" then i = i[1] end
  local step = sess:callable(i, {})
  return function() step() end, n
end

-- Forward and backward through a thousand small products.
function rows.while_grad()
  local sess = session()
  local n = 1000
  local x = td.placeholder("float32", {8, 64}, "x")
  local w = td.placeholder("float32", {64, 64}, "w")
  local _, h = td.while_loop(function(i) return td.less(i, n) end,
    function(i, h) return i + 1, h:matmul(w) end, {td.constant(0), x})
  local d = td.gradients(h, {x, w})
  local step = sess:callable({h, d[1], d[2]}, {x, w})
  local a = td.value.ones{8, 64}
  local b = td.value.eye(64) * 0.99
  return function() step(a, b) end, n
end

function rows.mlp_step()
  local sess = session()
  local x = td.placeholder("float32", {100, 784}, "x")
  local y = td.placeholder("int64", {100}, "y")
  local W1 = td.variable(td.value.random_normal({784, 100}, {stddev = 0.05}), "W1")
  local b1 = td.variable(td.value.zeros{100}, "b1")
  local W2 = td.variable(td.value.random_normal({100, 10}, {stddev = 0.05}), "W2")
  local b2 = td.variable(td.value.zeros{10}, "b2")
  local h = td.relu(x:matmul(W1) + b1)
  local loss = td.nn.sparse_softmax_cross_entropy(h:matmul(W2) + b2, y):mean()
  local train = td.train.sgd(0.01):minimize(loss)
  sess:init()
  local step = sess:callable({loss, train}, {x, y})
  local images = td.value.random_uniform{100, 784}
  local labels = {}
  for i = 1, 100 do labels[i] = i % 10 end
  labels = td.tensor(labels, "int64")
  return function() step(images, labels) end, 1
end

local function sgemm(n)
  return function()
    local sess = session{passes_off = {"fold"}}
    local a = td.variable(td.value.random_uniform{n, n}, "a")
    local b = td.variable(td.value.random_uniform{n, n}, "b")
    sess:init()
    local step = sess:callable(td.matmul(a, b).op, {})
    return function() step() end, 1
  end
end
for _, n in ipairs{64, 512, 1024, 2048} do rows["sgemm_" .. n] = sgemm(n) end

-- name: batch, size, channels in and out, filter, stride
local convolutions = {
  conv_3x3 = {16, 56, 64, 64, 3, 1}, conv_5x5 = {100, 14, 32, 64, 5, 1},
  conv_1x1 = {16, 28, 256, 64, 1, 1}, conv_7x7 = {8, 224, 3, 64, 7, 2},
}

-- Forward, or the sum's gradients: of both operands, of an image's filter only.
local function convolution(batch, size, deep, wide, k, stride, backward)
  local sess = session{passes_off = {"fold"}}
  local x = td.variable(td.value.random_uniform{batch, size, size, deep}, "x")
  local w = td.variable(td.value.random_uniform{k, k, deep, wide}, "w")
  local y = td.conv2d(x, w, stride, "SAME")
  local fetch = {y.op}
  if backward then
    local dy = td.variable(td.value.random_uniform(y.shape), "dy")
    local of = deep > 3 and {x, w} or {w}
    for _, g in ipairs(td.gradients(y, of, {grad_ys = dy:read()})) do
      fetch[#fetch + 1] = g.op
    end
  end
  sess:init()
  local step = sess:callable(td.group(fetch), {})
  return function() step() end, 1
end
for name, sizes in pairs(convolutions) do
  local batch, size, deep, wide, k, stride = table.unpack(sizes)
  for suffix, backward in pairs{[""] = false, _step = true} do
    rows[name .. suffix] = function()
      return convolution(batch, size, deep, wide, k, stride, backward)
    end
  end
end

-- A transform of many lines, of a long one, of one of a prime length, of an
-- image and of reals.
local transforms = {
  fft_lines = {"FFT", 1000, 1000}, fft_long = {"FFT", 1, 1 << 20},
  fft_prime = {"FFT", 1, 100003}, fft_image = {"FFT2D", 512, 512},
  fft_reals = {"RFFT", 64, 4096},
}
for name, how in pairs(transforms) do
  rows[name] = function()
    local op, lines, n = table.unpack(how)
    local sess = session()
    local x = td.value.random_normal{lines, n}
    local y
    if op == "RFFT" then
      y = td.rfft(td.variable(x, "x"):read())
    else
      y = td.raw[op](td.variable(td.complex(x, x * 0.5), "x"):read())
    end
    sess:init()
    local step = sess:callable(y.op, {})
    return function() step() end, 1
  end
end

-- A batch of 128 Examples: 784 bytes, 10 floats, a label, 20 ids, a few words.
function rows.parse_examples()
  local batch = {}
  for i = 1, 128 do
    local size, ids = {}, {}
    for k = 1, 10 do size[k] = k / 4 end
    for k = 1, 20 do ids[k] = k * i * i end
    batch[i] = td.example{image = ("x"):rep(784), label = i, size = size,
                          ids = ids, words = {"a", "few", "words"}}
  end
  local sess = session{passes_off = {"fold"}}
  local x = td.parse_example(td.constant(batch), {
    image = td.fixed_len_feature({}, "string"),
    label = td.fixed_len_feature({}, "int64"),
    size = td.fixed_len_feature({10}, "float32"),
    ids = td.fixed_len_feature({20}, "int64"),
    words = td.var_len_feature "string"})
  local step = sess:callable(x.label.op, {})
  return function() step() end, #batch
end

-- Loss and gradient of 400 rows of 10,000 classes.
function rows.softmax_xent()
  local sess = session()
  local logits = td.variable(td.value.random_normal{400, 10000}, "logits")
  local labels = td.placeholder("int64", {400}, "labels")
  local x = logits:read()
  local loss = td.nn.sparse_softmax_cross_entropy(x, labels):mean()
  sess:init()
  local step = sess:callable({loss, td.gradients(loss, x).op}, {labels})
  local some = td.value.random_uniform({400}, {maxval = 10000, dtype = "int64"})
  return function() step(some) end, 1
end

-- A step that reads and changes 1,000 of 100,000 rows.
function rows.sparse_sgd()
  local sess = session()
  local table = td.variable(td.value.random_normal{100000, 64}, "table")
  local ids = td.placeholder("int64", {1000}, "ids")
  local loss = table:gather(ids):square():sum()
  local train = td.train.sgd(0.01):minimize(loss)
  sess:init()
  local step = sess:callable({loss, train}, {ids})
  local some = td.value.random_uniform({1000}, {maxval = 100000,
                                                dtype = "int64"})
  return function() step(some) end, 1
end

-- A million look-ups, at random, in a table of a million keys: numbers or words.
local keys = 1000000

local function look_up(mutable, words)
  local sess = session()
  local function key(ids)
    return words and td.string_join{"word", td.as_string(ids)} or ids
  end
  local ids = td.cast(td.value.range(keys), "int64")
  local some = td.value.random_uniform({keys}, {maxval = keys,
                                                dtype = "int64"})
  local t
  if mutable then
    t = td.mutable_table(words and "string" or "int64", "int64", -1)
    sess:run(t:insert(key(ids), ids))
  else
    t = td.hash_table(key(ids), ids, -1)
    sess:init()
  end
  local step = sess:callable(t:find(td.constant(key(some))).op, {})
  return function() step() end, keys
end

function rows.table_lookup() return look_up(false, true) end
function rows.table_lookup_int() return look_up(false, false) end
function rows.table_lookup_mutable() return look_up(true, true) end
function rows.table_lookup_mutable_int() return look_up(true, false) end

-- Zaremba's small model: two layers of 200, 20 rows of 20 steps, 10,000 words.
function rows.ptb_lstm_step()
  local sess = session()
  local inputs = td.placeholder("int64", {20, 20}, "inputs")
  local targets = td.placeholder("int64", {20, 20}, "targets")
  local E = td.get_variable("embedding", {10000, 200})
  local x = td.unstack(E:gather(inputs), 1)
  for layer = 1, 2 do
    x = td.nn.static_rnn(td.nn.lstm_cell(200, {name = "layer" .. layer}), x)
  end
  local h = td.stack(x, 1):reshape{-1, 200}
  local logits = td.layers.dense(h, 10000)
  local loss = td.nn.sparse_softmax_cross_entropy(logits,
                                                  targets:reshape{-1}):mean()
  local train = td.train.sgd(1.0):minimize(loss, {clip_norm = 5.0})
  sess:init()
  local step = sess:callable({loss, train}, {inputs, targets})
  local words = td.value.random_uniform({20, 20}, {maxval = 10000,
                                                   dtype = "int64"})
  return function() step(words, words) end, 1
end

-- A training step of an LSTM of 200 over 20 steps: as a loop, or unrolled.
local function rnn(loop)
  local sess = session()
  local x = td.placeholder("float32", {20, 20, 200}, "x")
  local cell = td.nn.lstm_cell(200)
  local y
  if loop then
    y = td.nn.dynamic_rnn(cell, x)
  else
    y = td.stack((td.nn.static_rnn(cell, td.unstack(x, 1))), 1)
  end
  local loss = y:square():mean()
  local train = td.train.sgd(0.01):minimize(loss)
  sess:init()
  local step = sess:callable({loss, train}, {x})
  local some = td.value.random_normal{20, 20, 200}
  return function() step(some) end, 1
end
function rows.rnn_dynamic() return rnn(true) end
function rows.rnn_unrolled() return rnn(false) end

-- Two convolutions with pools, two dense layers; as models.py has it.
local function lenet(x)
  local relu = {padding = "same", activation = td.relu}
  x = td.layers.max_pooling2d(td.layers.conv2d(x, 32, 5, relu), 2)
  x = td.layers.max_pooling2d(td.layers.conv2d(x, 64, 5, relu), 2)
  x = td.layers.dense(td.layers.flatten(x), 1024, {activation = td.relu})
  return td.layers.dense(x, 10)
end

-- The logits of a net, or a step of its training.
local function net(build, shape, training)
  local sess = session()
  local x = td.placeholder("float32", shape, "x")
  local y = td.placeholder("int64", {shape[1]}, "y")
  local logits = build(x, {training = training})
  local fetches = logits.op
  if training then
    local loss = td.nn.sparse_softmax_cross_entropy(logits, y):mean()
    local all = td.get_collection "update_ops"
    all[#all + 1] = td.train.sgd(0.001):minimize(loss)
    fetches = {loss, td.group(all)}
  end
  sess:init()
  local step = sess:callable(fetches, {x, y})
  local images = td.value.random_uniform(shape)
  local labels = td.value.random_uniform({shape[1]}, {maxval = 10,
                                                      dtype = "int64"})
  return function() step(images, labels) end, 1
end

function rows.lenet_step() return net(lenet, {100, 28, 28, 1}, true) end
for name, size in pairs{vgg_a = 224, inception_v3 = 299, resnet50 = 224} do
  for suffix, training in pairs{[""] = false, _step = true} do
    rows[name .. suffix] = function()
      local build = dofile("tutorials/models/" .. name .. ".lua")
      return net(build, {8, size, size, 3}, training)
    end
  end
end

function rows.graph_build()
  return function()
    local g = td.graph()
    g:as_default(function()
      local x = td.placeholder("float32", {10}, "x")
      for _ = 1, nodes do x = x + x end
    end)
  end, nodes
end

-- New nodes and a run of them in turn, as at a prompt.
function rows.growing_run()
  local count = 200
  return function()
    local g = td.graph()
    g:as_default(function()
      local sess <close> = session{graph = g}
      local x = td.constant(1.0)
      for _ = 1, count do sess:run(td.tanh(x + 1.0)) end
    end)
  end, count
end

function rows.first_run_36000()
  return function()
    local g = td.graph()
    g:as_default(function()
      local x = td.placeholder("float32", {}, "x")
      local y = x
      for _ = 1, 18000 do y = td.tanh(y + x) end
      local sess = td.session{graph = g, threads = threads}
      sess:run(y, {[x] = 1.0})
      sess:close()
    end)
  end, 1
end

-- 134 layers of ten cells alike, to HTML with its drawings.
function rows.display_graph_36000()
  local g = td.graph()
  g:as_default(function()
    local x = td.placeholder("float32", {-1, 64}, "x")
    for cell = 0, 1339 do
      local name = ("layer%d/cell%d/"):format(cell // 10, cell % 10)
      td.name_scope(name, function()
        local w = td.variable(td.zeros{64, 64}, "W")
        for _ = 1, 5 do x = td.relu(td.matmul(x, w) + x) end
      end)
    end
  end)
  local display = require("tide.show.graph")["text/html"]
  return function() display(g) end, 1
end

-- ---- beside 8 endless loops and 8 long ones --------------------------------

local function counting(n)
  return (td.while_loop(function(i) return i:less(n) end,
                        function(i) return i + 1 end, {td.constant(0.0)}))
end

-- A session in which they run; the handles keep them.
local function loaded()
  local sess = session()
  local endless, long = counting(math.huge), counting(1e6)
  local handles = {}
  for i = 1, 16 do handles[i] = sess:start(i % 2 == 0 and endless or long) end
  return sess, endless, handles
end

-- How late a step ends that would never.
function rows.load_overrun()
  local sess, endless, handles = loaded()
  return function()
    local start = core.clock()
    pcall(sess.run, sess, endless, nil, {timeout = 0.05})
    return core.clock() - start - 0.05, handles
  end
end

function rows.load_small_p99()
  local sess, _, handles = loaded()
  local x = td.placeholder("float32", {}, "x")
  local step = sess:callable(x * 2, {x})
  return function()
    local took = {}
    for i = 1, 200 do
      local start = core.clock()
      step(1.0)
      took[i] = core.clock() - start
    end
    table.sort(took)
    return took[198], handles
  end
end

-- Of eight loops of equal steps, who began most and who fewest.
function rows.load_fair()
  local sess = session()
  local x = td.tanh(td.constant(0.5) + td.random_uniform{})
  local loops = {}
  for i = 1, 8 do loops[i] = sess:loop(x, {threads = 1}) end
  return function()
    local before, most, fewest = {}, 0, math.huge
    for i, h in ipairs(loops) do before[i] = h:steps() end
    local start = core.clock()
    while core.clock() - start < 0.5 do os.execute("sleep 0.1") end
    for i, h in ipairs(loops) do
      local n = h:steps() - before[i]
      most, fewest = math.max(most, n), math.min(fewest, n)
    end
    return most / fewest
  end
end

-- Batches of 1000 TFRecords of 1 KiB, from a file that the system has in memory.
function rows.records_read()
  local path, batch = os.tmpname(), 1000
  do
    local w <close> = td.record_writer(path)
    for _ = 1, 32 * batch do w:write(("x"):rep(1024)) end
  end
  local q = td.raw.FIFOQueueV2{component_types = {"string"}, shapes = {{}}}
  local names = {}
  for i = 1, 10000 do names[i] = path end
  local sess = session()
  sess:run(td.raw.QueueEnqueueManyV2(q, {td.constant(names)}))
  local _, values = td.reader.tf_records():read_up_to(q, batch)
  at_end(function() os.remove(path) end)
  return sess:callable(values.op), batch
end

-- A scalar into a FIFO queue and out of it, a step each.
function rows.queue_pairs()
  local sess = session()
  local q = td.fifo_queue(10, "float32", {})
  local put = sess:callable(q:enqueue(td.constant(1.0)), {})
  local get = sess:callable(q:dequeue().op, {})
  return function()
    put()
    get()
  end, 1
end

-- Batches of 128 rows of 784 floats, out of 10,000 that are at hand by chance.
function rows.shuffled_batches()
  local data = td.data.of{x = td.value.ones{60000, 784}} -- memory in use
  local e = data:pipeline():shuffle(10000, {seed = 1}):repeat_():batch(128)
    :next()
  return session():callable(e.x.op, {}), 128
end

-- A training step of the net of tutorials/cifar10.lua on batches of 100: read
-- from records and distorted by a pipeline as there, or in memory.
local function distorted(e)
  local bytes = td.decode_raw(e.record, "uint8")
  local planes = bytes["1:"]:reshape{3, 32, 32}
  local image = td.transpose(planes, {1, 2, 0}):cast "float32" / 255
  image = td.image.random_flip_left_right(td.random_crop(image, {28, 28, 3}))
  image = td.image.random_brightness(image, 0.2)
  image = td.image.random_contrast(image, 0.8, 1.2)
  return {image = td.image.per_image_standardization(image),
          label = bytes[0]:cast "int64"}
end

local function cifar10_net(x, training)
  for block = 0, 2 do
    for _ = 1, 2 do
      x = td.layers.conv2d(x, 32 << block, 3, {padding = "same",
                                               use_bias = false})
      x = td.relu(td.layers.batch_normalization(x, {training = training}))
    end
    x = td.layers.max_pooling2d(x, 2, 2)
    x = td.layers.dropout(x, 0.2, {training = training})
  end
  x = td.layers.dense(td.layers.flatten(x), 128, {activation = td.relu})
  return td.layers.dense(td.layers.dropout(x, 0.4, {training = training}), 10)
end

local function cifar10_records(n)
  local path, size = os.tmpname(), 1 + 3 * 32 * 32
  local bytes = td.value.random_uniform({n, size}, {maxval = 256, seed = 1})
  local labels = td.value.random_uniform({n, 1}, {maxval = 10, seed = 2})
  bytes = td.concat({td.cast(labels, "uint8"),
                     td.cast(bytes[":, 1:"], "uint8")}, 1)
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes:bytes())
  at_end(function() os.remove(path) end)
  return td.data.fixed({path}, size)
end

local function cifar10_step(fed)
  local sess = session()
  local image, label
  if fed then
    local e = cifar10_records(2000):shuffle(1000, {seed = 1}):map(distorted)
      :repeat_():batch(100):next()
    image, label = e.image, e.label
  else
    image = td.placeholder("float32", {100, 28, 28, 3}, "image")
    label = td.placeholder("int64", {100}, "label")
  end
  local logits = cifar10_net(image, td.constant(true))
  local loss = td.nn.sparse_softmax_cross_entropy(logits, label):mean()
  local all = td.get_collection "update_ops"
  all[#all + 1] = td.train.adam(1e-3):minimize(loss)
  sess:init()
  local step = sess:callable({loss, td.group(all)},
                             fed and {} or {image, label})
  if fed then return function() step() end, 1 end
  local images = td.value.random_normal{100, 28, 28, 3}
  local labels = td.value.random_uniform({100}, {maxval = 10, dtype = "int64"})
  return function() step(images, labels) end, 1
end
function rows.cifar10_fed() return cifar10_step(true) end
function rows.cifar10_memory() return cifar10_step(false) end

-- Pictures of 256 x 256 decoded, made 224 x 224, 32 of them a batch.
function rows.pictures_read()
  local some = {}
  for i = 1, 64 do
    local noise = td.value.random_uniform({1, 32, 32, 3}, {seed = i})
    local big = td.image.resize_bilinear(noise, {256, 256})[0]
    some[i] = td.encode_jpeg(td.cast(big * 255, "uint8")):item()
  end
  local e = td.data.of{bytes = some}:pipeline():repeat_():map(function(e)
    local image = td.decode_jpeg(e.bytes, {channels = 3})
    image = td.expand_dims(td.cast(image, "float32"), 0)
    return {image = td.squeeze(td.image.resize_bilinear(image, {224, 224}), {0})}
  end):batch(32):next()
  return session():callable(e.image.op, {}), 32, 8
end

-- A training step of 100 MiB of weights, together with an async save that begins
-- before it, and alone: what the save makes it wait for.
local function saved_step(saves)
  local sess = session()
  local list, updates = {}, {}
  for i = 1, 10 do
    list[i] = td.variable(td.zeros{10 << 18}, {name = "w" .. i})
    updates[i] = list[i]:assign_add(td.ones{10 << 18}).op
  end
  sess:init()
  local step = sess:callable(td.group(updates), {})
  local saver = td.train.saver{variables = list, async = true, max_to_keep = 1}
  local path = os.tmpname()
  at_end(function() os.execute("rm -f " .. path .. "*") end)
  return function()
    local start = core.clock()
    if saves then saver:save(sess, path .. "-saved") end
    step()
    local took = core.clock() - start
    saver:wait()
    return took
  end
end
function rows.step_saved() return saved_step(true) end
function rows.step_unsaved() return saved_step(false) end

-- Until nothing is computed ahead any more, which would take its time from the
-- others.
local function rest()
  local before
  repeat
    before = os.clock()
    os.execute("sleep 0.02")
  until os.clock() - before < 1e-3
end

-- `ahead`: so many calls empty what is ready, which the time must not begin
-- with.
local of_row = row:find "^worker_" and dofile "tests/bench/ours_workers.lua"[row]
  or rows[row]
local work, units, ahead = assert(of_row, "no such row")(session)
work()
print("ready")
io.stdout:flush()
for _ in io.lines() do
  for _ = 1, ahead or 0 do work() end
  local took = units and timed(work, units) or work()
  if ahead then rest() end
  print(("%.9g"):format(took))
  io.stdout:flush()
end
