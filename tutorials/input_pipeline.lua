--- input_pipeline.lua - a network fed from files of records, interrupted and
-- taken up again at the very next sample.
--
-- First files are written as a data set on disk has them: digits as Examples,
-- in packed TFRecord files. A pipeline reads them, takes the Examples apart,
-- mixes and batches them, ahead of use. Then learning is stopped in the middle,
-- what is needed to go on is saved, and another session goes on. The second
-- part has sentences of different lengths: those of like length make a batch.
-- With --checkpoint DIR a supervisor sees to saving and going on: kill the
-- program whenever you like, and start it again.
--
--   tide tutorials/input_pipeline.lua --digits 5000 --epochs 4
--   tide tutorials/input_pipeline.lua --checkpoint /tmp/input
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{digits = 5000, shards = 4, epochs = 4, batch = 100,
                       units = 64, lr = 5e-3, seed = 1, threads = 0,
                       checkpoint = "", save_steps = 50, smoke = false}
if flags.smoke then
  flags.digits, flags.epochs, flags.batch, flags.save_steps = 400, 2, 20, 4
end
td.seed(flags.seed)

-- 1. Shards: digit number i goes to file i modulo their number. A place in the
-- data is one in files of these names; so a job that goes on needs them again.
local base = os.tmpname()
if flags.checkpoint ~= "" then
  os.remove(base)
  base = flags.checkpoint:gsub("/+$", "") .. ".digits"
end
local function shard_name(k)
  return ("%s-%05d-of-%05d"):format(base, k, flags.shards)
end
local made <close> = setmetatable({base}, {__close = function(paths)
  for _, path in ipairs(paths) do os.remove(path) end
end})

local set = td.data.digits{train = flags.digits, test = 500}
local writers = {}
for k = 0, flags.shards - 1 do
  made[#made + 1] = shard_name(k)
  writers[k] = td.record_writer(shard_name(k), {compression = "GZIP"})
end
for e in set.train:batches(1) do
  local pixels = td.round(e.images[0] * 255):cast "uint8"
  writers[e.step % flags.shards]:write(td.example{
    image = pixels:bytes(), label = e.labels[0], number = e.step - 1})
end
for k = 0, flags.shards - 1 do writers[k]:close() end
print(("%d digits in %d files"):format(flags.digits, flags.shards))

-- 2. The pipeline. The function of map is built once, into a graph; the
-- engine's threads run it. At each stage the columns are known: print shows
-- them.
local features = {image = td.fixed_len_feature({}, "string"),
                  label = td.fixed_len_feature({}, "int64"),
                  number = td.fixed_len_feature({}, "int64")}
local function parse(e)
  local f = td.parse_single_example(e.record, features)
  local pixels = td.decode_raw(f.image, "uint8"):reshape{784}
  return {image = pixels:cast "float32" / 255, label = f.label,
          number = f.number}
end
local digits = td.data.records(base .. "-*", {compression = "GZIP",
                                              shuffle_files = true})
  :map(parse):shuffle(1000):batch(flags.batch):prefetch(2)
print(digits)

-- 3. A network, and what trains it.
local x = td.placeholder("float32", {-1, 784}, "x")
local y = td.placeholder("int64", {-1}, "y")
local hidden = td.layers.dense(x, flags.units, {activation = td.relu})
local logits = td.layers.dense(hidden, 10)
local loss = td.nn.sparse_softmax_cross_entropy(logits, y):mean()
local accuracy = logits:argmax(1):equal(y):cast "float32":mean()
local train = td.train.adam(flags.lr):minimize(loss)

-- Learns from the batches that are left, as long as goes_on says. Returns the
-- numbers of the digits seen.
local function learn(sess, batches, goes_on)
  local step, seen = sess:callable({loss, train}, {x, y}), {}
  while goes_on(#seen) do
    local batch = batches()
    if not batch then break end
    local l = step(batch.image, batch.label)
    seen[#seen + 1] = table.concat(batch.number:table(), " ")
    if batch.step % 50 == 0 then
      print(("epoch %d, step %d: loss %.4f"):format(batch.epoch, batch.step, l))
    end
  end
  return seen
end
local function always() return true end

local function loop()
  return digits:batches(nil, {epochs = flags.epochs})
end
local function measure(sess)
  return sess:run(accuracy, {[x] = set.test.images, [y] = set.test.labels})
end

-- As a job that may be killed: the place in the data is saved with the rest.
if flags.checkpoint ~= "" then
  local batches = loop()
  local sv <close> = td.train.supervisor{logdir = flags.checkpoint,
    save_steps = flags.save_steps, keep = {batches = batches}, flags = flags}
  local sess = sv:session{threads = flags.threads > 0 and flags.threads or nil}
  if sv.resumed then print("goes on after step " .. sv.step) end
  learn(sess, batches, function() return not sv:should_stop() end)
  sv:close() -- before other steps run: those of a job are counted
  print(("test_accuracy: %.4f"):format(measure(sess)))
  return
end

-- 4. In one go.
local first = td.session()
first:init()
local batches = loop()
local at_start = batches:state() -- the seeds too: what follows is decided
local whole = learn(first, batches, always)
local accuracy_whole = measure(first)
first:close()
print(("test_accuracy: %.4f"):format(accuracy_whole))

-- 5. The same, stopped in the middle of an epoch. What must be kept is where
-- the loop stands, a string, beside the variables; both can go to a file.
local half = #whole // 2 + 3
local second = td.session()
second:init()
batches = loop():restore(at_start)
local before = learn(second, batches, function(n) return n < half end)
local variables = second:run(td.global_variables())
local place = batches:state()
batches:close()
second:close()
print(("stopped after step %d; the place takes %d bytes"):format(#before,
                                                               #place))

-- As in another process: a session and a loop that know nothing of it.
local third <close> = td.session()
for i, v in ipairs(td.global_variables()) do v:load(variables[i], third) end
local after = learn(third, loop():restore(place), always)
local accuracy_again = measure(third)
local same = #before + #after == #whole
for i, numbers in ipairs(whole) do
  same = same and numbers == (before[i] or after[i - #before])
end
print(("went on with step %d: the same digits in the same order: %s"):format(
  #before + 1, same and "yes" or "no"))
print(("test_accuracy again: %.4f"):format(accuracy_again))

-- 6. Lines of text: those of like length share a batch, so that little of it is
-- padding.
local path = os.tmpname()
made[#made + 1] = path
do
  local words = {"the", "moon", "keeps", "a", "step", "of", "sand"}
  local file <close> = assert(io.open(path, "w"))
  for i = 1, 40 do
    local line = {}
    for k = 1, 1 + i * i % 13 do line[k] = words[(i + k) % #words + 1] end
    file:write(table.concat(line, " "), "\n")
  end
end
local sentences = td.data.lines(path):map(function(e)
  local _, words = td.string_split(e.line:expand_dims(0), " ")
  return {words = words, length = td.size(words)}
end)
local function padding(p)
  local all, empty = 0, 0
  for batch in p:batches() do
    all = all + batch.words.size
    empty = empty + batch.words.size - batch.length:sum():item()
  end
  return 100 * empty / all
end
print(("padding: %.0f%% of batches as they come, %.0f%% of buckets"):format(
  padding(sentences:padded_batch(5)),
  padding(sentences:bucket("length", {4, 7, 10}, 5))))
