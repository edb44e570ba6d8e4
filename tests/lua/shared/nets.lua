-- nets.lua - one training step of a net, on weights and inputs that are fixed.
--
-- A net is a tutorial, run in smoke mode and caught when it ends, or a function
-- that builds one. Its variables and what feeds it are filled by a formula, so
-- that real TensorFlow, which gets the same graph and the same numbers
-- (tests/peers/steps.py), can be asked for loss, gradients and new weights.
-- Nodes that draw random numbers are fed as well.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"
local rng = require "tide.base.rng"

local nets = {}

-- ---- catching a tutorial --------------------------------------------------

-- The local variables of the chunk when it returns, by name.
local function run_and_catch(chunk)
  local found = {}
  local thread = coroutine.create(chunk)
  debug.sethook(thread, function()
    if debug.getinfo(2, "f").func ~= chunk then return end
    local i = 1
    while true do
      local name, value = debug.getlocal(2, i)
      if not name then break end
      found[name] = value
      i = i + 1
    end
  end, "r")
  local ok, e = coroutine.resume(thread)
  debug.sethook(thread)
  if not ok then error(debug.traceback(thread, tostring(e)), 0) end
  return found
end

-- A tutorial in smoke mode, silent: its locals.
local function run_tutorial(name, arguments)
  local path = "tutorials/" .. name .. ".lua"
  local outer, printing = rawget(_G, "arg"), print
  rawset(_G, "arg", {[0] = path, "--smoke", table.unpack(arguments or {})})
  rawset(_G, "print", function() end)
  local ok, found = pcall(run_and_catch, assert(loadfile(path)))
  rawset(_G, "arg", outer)
  rawset(_G, "print", printing)
  if not ok then error(name .. ": " .. found, 0) end
  return found
end

-- ---- numbers --------------------------------------------------------------

-- A value of `shape` whose elements are uniform over [low, high), or integers
-- from low to high - 1, the same for the same name.
local function fill(name, dtype, shape, low, high)
  local seed = 0
  for i = 1, #name do seed = seed * 31 + name:byte(i) end
  local random, n = rng.new(seed), 1
  for _, d in ipairs(shape) do n = n * d end
  local list = {}
  for i = 1, n do
    local x = low + random:uniform() * (high - low)
    list[i] = dtype:find "int" and math.floor(x) or x
    if dtype == "bool" then list[i] = x >= (low + high) / 2 end
  end
  local flat = dtype:find "int" or dtype == "bool" or dtype:find "float"
  assert(flat, name .. ": no numbers of dtype " .. dtype)
  return core.tensor(core.tensor(list, dtype), nil, shape)
end

-- A weight such that no layer's output grows or fades: uniform with variance
-- gain / inputs; where relus cut half of it away the gain is 2, otherwise 1.
-- Vectors are small, but what scales begins near 1.
local function weight(v, net)
  local n = v.shape[#v.shape] or 1
  local inputs = math.max(1, v.size // n)
  local name = v.name
  if name:find "gamma" or name:find "moving_variance" then
    return fill(name, v.dtype, v.shape, 0.8, 1.2)
  elseif name:find "beta$" and net.beta then
    return fill(name, v.dtype, v.shape, table.unpack(net.beta))
  elseif #v.shape < 2 then
    return fill(name, v.dtype, v.shape, -0.1, 0.1)
  end
  local bound = math.sqrt(3 * (net.gain or 1) / inputs)
  return fill(name, v.dtype, v.shape, -bound, bound)
end

-- ---- what the loss hangs on -----------------------------------------------

-- Ops that the edges in `list` need, in the graph's order.
local function needed(list)
  local seen, stack, out = {}, {}, {}
  for i, x in ipairs(list) do stack[i] = x.op end
  while #stack > 0 do
    local op = table.remove(stack)
    if not seen[op] then
      seen[op] = true
      for _, x in ipairs(op.inputs) do stack[#stack + 1] = x.op end
      for _, x in ipairs(op.control_inputs) do stack[#stack + 1] = x end
    end
  end
  for _, op in ipairs(list[1].graph:ops()) do
    if seen[op] then out[#out + 1] = op end
  end
  return out
end

local function is_random(type)
  return type:find "^Random" or type:find "^TruncatedNormal"
    or type:find "CandidateSampler$"
end

local function concrete(shape, batch)
  local out = {}
  for i, d in ipairs(shape) do out[i] = d < 0 and batch or d end
  return out
end

-- {edge name = value} for placeholders and random nodes; `ranges` gives {low,
-- high} by the placeholder's name.
local function feeds_for(list, net)
  local feeds, ranges = {}, net.ranges or {}
  for _, op in ipairs(needed(list)) do
    local placeholder = op.type:find "^Placeholder"
    for i, x in ipairs((placeholder or is_random(op.type)) and op.outputs
                       or {}) do
      local range = ranges[op.name] or ranges[op.type] or {0, 1}
      assert(x.shape, x.name .. " has no known rank")
      local value = net.feeds and net.feeds[op.name]
      feeds[x.name] = value or fill(x.name, x.dtype,
        concrete(x.shape, net.batch or 4),
        range[1], range[2] + (x.dtype:find "int" and i > 1 and 1 or 0))
    end
  end
  return feeds
end

-- ---- a net as it is compared ----------------------------------------------

local function by_name(a, b) return a.name < b.name end

--- Builds a net of the list: {loss, train (an op), variables (the trainable
-- ones by name), kept (these and moving averages), weights {name = value},
-- feeds {edge name = value}, loops (has it any?)}.
function nets.build(net)
  td.reset()
  local found
  if net.make then
    found = net.make()
  else
    found = run_tutorial(net.tutorial or net.name, net.arguments)
  end
  local g = td.get_default_graph()
  local out = {loss = found[net.loss or "loss"], weights = {}, variables = {},
               kept = {}}
  out.train = found[net.train or "train"]
    or td.train.sgd(0.1):minimize(out.loss)
  for _, v in ipairs(td.global_variables()) do
    if v.trainable or v.name:find "moving_" then
      out.weights[v.name] = weight(v, net)
      out.kept[#out.kept + 1] = v
    end
    if v.trainable then out.variables[#out.variables + 1] = v end
  end
  table.sort(out.variables, by_name)
  table.sort(out.kept, by_name)
  local edges = {core.edge(out.loss)}
  for _, op in ipairs{out.train} do
    for _, x in ipairs(op.control_inputs) do
      if x.outputs[1] then edges[#edges + 1] = x.outputs[1] end
    end
  end
  out.feeds = feeds_for(edges, net)
  for _, op in ipairs(needed(edges)) do
    out.loops = out.loops or op.type == "Exit"
  end
  out.graph = g
  return out
end

--- A session with the net's weights in it.
function nets.session(built, threads)
  local sess = td.session{graph = built.graph, threads = threads}
  sess:init()
  for _, v in ipairs(td.global_variables()) do
    local value = built.weights[v.name]
    if value then v:load(value, sess) end
  end
  return sess
end

-- Where a tensor is sampled: 64 places, evenly.
local function places(n)
  local out = {}
  for i = 0, 63 do out[i + 1] = i * n // 64 end
  return td.tensor(out, "int64")
end

--- What is kept of a tensor: sum, norm, 64 samples, as a list of numbers.
function nets.digest(x)
  local flat = td.reshape(td.cast(x, "float64"), {-1})
  local out = td.gather(flat, places(flat.size)):table()
  table.insert(out, 1, td.sqrt(td.sum(td.square(flat))):item())
  table.insert(out, 1, td.sum(flat):item())
  return out
end

-- A model of tutorials/models at a sixteenth of its width, on images of `size`,
-- with dropout and normalization by the batch, whose averages move in the same
-- step. Auxiliary classifiers have a part in the loss.
--
-- Where layer upon layer is normalized by the batch, each relu that cuts at the
-- mean makes what rounding did 1.2 times as large; beta keeps most of them
-- open. A beta of which the next normalization takes away all has a gradient of
-- nothing but rounding: below `floor` numbers are held against it.
local function model(name, size, o)
  o = o or {}
  local classes = 10
  local function make()
    local x = td.placeholder("float32", {4, size, size, 3}, "x")
    local y = td.placeholder("int64", {4}, "y")
    local build = dofile("tutorials/models/" .. name .. ".lua")
    local heads = {build(x, {classes = classes, width = 1 / 16, training = true,
                             auxiliary = o.auxiliary})}
    local loss
    for i, logits in ipairs(heads) do
      local part = td.nn.sparse_softmax_cross_entropy(logits, y):mean()
      loss = i == 1 and part or loss + part * 0.3
    end
    local all = td.get_collection "update_ops"
    all[#all + 1] = td.train.momentum(0.1, 0.9):minimize(loss)
    return {loss = loss, train = td.group(all)}
  end
  return {name = name, make = make, bound = o.bound, floor = o.floor,
          gain = 2, beta = {0.4, 1.2},
          ranges = {x = {-1, 1}, y = {0, classes}}}
end

--- The nets: name; tutorial (the name's); arguments; loss, train: names of the
-- tutorial's locals; make: a function that gives these, in place of a tutorial;
-- batch, ranges, feeds: what placeholders get; gain of its weights, range of
-- its betas; bound: how far numbers may be apart; floor.
nets.list = {
  {name = "mnist_mlp", ranges = {y = {0, 10}}},
  {name = "mnist_convnet", ranges = {labels = {0, 10}},
   feeds = {training = td.tensor(true)}},
  {name = "cifar10", ranges = {images = {-2, 2}, labels = {0, 10}},
   feeds = {training = td.tensor(true)}, beta = {0.4, 1.2}},
  {name = "dream", ranges = {labels = {0, 10}}},
  {name = "char_rnn", ranges = {inputs = {0, 20}, targets = {0, 20}}},
  {name = "ptb_lstm", ranges = {inputs = {0, 60}, targets = {0, 60}},
   feeds = {training = td.tensor(true)}},
  {name = "word2vec", ranges = {centers = {0, 60}, contexts = {0, 60}}},
  {name = "wide_deep", ranges = {sparse = {0, 8}, labels = {0, 2}}},
  {name = "seq2seq", ranges = {drawn = {1, 21}, lengths = {2, 5}}},
  {name = "deep_lstm_devices"},
  {name = "autoencoder"},
  {name = "gan"},
  {name = "gan_generator", tutorial = "gan", loss = "loss_of_generator",
   train = "train_generator"},
  model("alexnet", 67),
  model("overfeat", 71),
  model("vgg_a", 32),
  model("googlenet", 80, {auxiliary = true}),
  model("inception_v3", 107, {auxiliary = true, bound = 5e-4, floor = 0.1}),
  model("resnet50", 64, {bound = 5e-5, floor = 0.1}),
}

return nets
