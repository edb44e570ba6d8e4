--- fine_tune.lua - what was learnt from some digits, used for others.
--
-- A net learns to tell the digits 0 to 4 from many examples, and is saved. Then
-- 5 to 9 are to be told, of which there are a few examples only: another net
-- takes the trunk out of the checkpoint and gets a new head. It learns with its
-- trunk frozen, or all of it. Beside it learn a net that begins with nothing,
-- one whose trunk has learnt, without any label, to draw digits again (an
-- autoencoder), and one whose trunk stays what chance made it: what is each
-- beginning worth?
--
--   tide tutorials/fine_tune.lua --draws 5
-- Without MNIST (--data DIR, $TIDE_DATA) it trains on drawn digits. There the
-- trunk of 0 to 4 helps most while examples are few: one of each gives 0.69
-- instead of 0.53, frozen; from ten on it is better trained along. What the
-- autoencoder learns does not help at all.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{epochs = 4, batch = 50, lr = 2e-3, units = 64,
                       filters = 16, steps = 200, draws = 3, seed = 1,
                       data = "", dir = "", smoke = false}
local examples = {1, 3, 10, 30} -- of each new digit
if flags.smoke then
  flags.epochs, flags.units, flags.filters, flags.steps = 1, 8, 2, 4
  flags.draws, examples = 1, {2}
end

local digits = flags.smoke and td.data.digits{train = 300, test = 60}
  or td.data.mnist{dir = flags.data}

-- The digits from `first` on, five of them, called 0 to 4.
local function half(part, first)
  local of = td.floordiv(part.labels, 5):equal(first // 5)
  local rows = td.where(of):squeeze{1}
  return td.data.of{images = td.gather(part.images, rows),
                    labels = td.gather(part.labels, rows) - first}
end
local old, new = half(digits.train, 0), half(digits.train, 5)
local unseen = half(digits.test, 5)

-- n of each digit, others in each draw.
local function few(part, n, draw)
  local rows = {}
  for digit = 0, 4 do
    local all = td.where(part.labels:equal(digit)):squeeze{1}
    rows[digit + 1] = all[("%d:%d"):format((draw - 1) * n, draw * n)]
  end
  rows = td.concat(rows, 0)
  return td.data.of{images = td.gather(part.images, rows),
                    labels = td.gather(part.labels, rows)}
end

-- ---- the net ----------------------------------------------------------------

-- Images as `units` numbers: what may be shared.
local function trunk(images)
  return td.variable_scope("trunk", function()
    local conv = {padding = "same", activation = td.relu}
    local x = td.layers.conv2d(images:reshape{-1, 28, 28, 1}, flags.filters, 5,
                               conv)
    x = td.layers.max_pooling2d(x, 2, 2)
    x = td.layers.conv2d(x, 2 * flags.filters, 5, conv)
    x = td.layers.flatten(td.layers.max_pooling2d(x, 2, 2))
    return td.layers.dense(x, flags.units, {activation = td.relu})
  end)
end

-- A new graph with a net of a trunk and a head: its loss, is it right.
local function net(head)
  td.reset()
  td.seed(flags.seed)
  local images = td.placeholder("float32", {-1, 784}, "images")
  local labels = td.placeholder("int64", {-1}, "labels")
  local logits = td.layers.dense(trunk(images), 5, {name = head})
  return td.nn.sparse_softmax_cross_entropy(logits, labels):mean(),
    logits:argmax(1):equal(labels):cast "float32"
end

-- ---- 1. Trunks that have learnt ---------------------------------------------

local dir = flags.dir
if dir == "" then
  dir = os.tmpname()
  os.remove(dir)
end
local _ <close> = setmetatable({}, {__close = function()
  if flags.dir == "" then os.execute("rm -rf '" .. dir .. "'") end
end})

local function train_and_save(loss, data, name)
  local sess <close> = td.session()
  td.train.fit{loss = loss, train = td.train.adam(flags.lr):minimize(loss),
               data = data, epochs = flags.epochs, batch = flags.batch,
               seed = flags.seed, title = name .. ", epoch %d", quiet = true}
  return td.train.saver():save(sess, dir .. "/" .. name)
end

local loss, right = net "head"
local told = train_and_save(loss, old, "told")
do
  local sess <close> = td.session()
  td.train.saver():restore(sess, told)
  local of = half(digits.test, 0)
  print(("0 to 4, from %d examples: accuracy %.4f"):format(old.size,
    td.train.evaluate{metrics = {right = right}, data = of}.right))
end

-- The same trunk, and in place of the head what draws the picture again. No
-- label is used, so all digits may be seen.
td.reset()
td.seed(flags.seed)
local images = td.placeholder("float32", {-1, 784}, "images")
local again = td.layers.dense(trunk(images), 784, {name = "draw"})
local drawn = train_and_save(
  td.nn.sigmoid_cross_entropy(again, images):sum(1):mean(),
  td.data.of{images = digits.train.images}, "drawn")

-- ---- 2. A new head ----------------------------------------------------------

-- Has a net learn 5 to 9 from `data`: its accuracy on those it never saw. from:
-- a checkpoint to take the trunk of; frozen: only the head is trained.
local function learn(data, from, frozen)
  loss, right = net "new_head"
  local head = td.trainable_variables "new_head/"
  local train = td.train.adam(flags.lr):minimize(loss,
    {variables = frozen and head or td.trainable_variables()})
  local sess <close> = td.session()
  local report
  if from then
    local saver = td.train.saver{variables = td.trainable_variables()}
    report = saver:restore(sess, from, {partial = true})
  end
  sess:init() -- what was not restored
  local batch = math.min(data.size, flags.batch)
  td.train.fit{loss = loss, train = train, data = data, batch = batch,
               epochs = flags.steps // (data.size // batch), seed = flags.seed,
               quiet = true}
  return td.train.evaluate{metrics = {right = right}, data = unseen}.right,
    report
end

local ways = {
  {"from nothing"},
  {"trunk by chance, frozen", nil, true},
  {"trunk of 0 to 4, frozen", told, true},
  {"trunk of 0 to 4", told},
  {"trunk that draws, frozen", drawn, true},
  {"trunk that draws", drawn},
}

local told_of = select(2, learn(few(new, 1, 1), told, true))
print("restored: " .. table.concat(told_of.restored, " "))
print("not in the checkpoint: " .. table.concat(told_of.missing, " "))
print(("left there: %d others, such as %s"):format(#told_of.unused,
  told_of.unused[1]))

print(("\n5 to 9, accuracy on %d unseen ones, mean of %d draws")
  :format(unseen.size, flags.draws))
local line = {("%-26s"):format "examples of each digit"}
for i, n in ipairs(examples) do line[i + 1] = ("%7d"):format(n) end
print(table.concat(line))
for _, way in ipairs(ways) do
  line = {("%-26s"):format(way[1])}
  for i, n in ipairs(examples) do
    local sum = 0.0
    for draw = 1, flags.draws do
      sum = sum + learn(few(new, n, draw), way[2], way[3])
    end
    line[i + 1] = ("%7.3f"):format(sum / flags.draws)
  end
  print(table.concat(line))
end
