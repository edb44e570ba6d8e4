--- queues.lua - producers and consumers: steps that wait for one another.
--
-- A queue stands between steps that make examples and steps that learn from
-- them: each goes as fast as it can, and waits where the other is behind.
-- Here sentences of different length are read by some runners, sorted into
-- buckets by their length, and learned from in batches with little padding:
--
--     sentences -> letters -> buckets -> batches -> training
--
--   tide tutorials/queues.lua --epochs 8 --batch 16
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{sentences = 400, epochs = 6, batch = 16, lr = 0.1,
                       seed = 2, smoke = false}
if flags.smoke then flags.sentences, flags.epochs = 40, 2 end
td.seed(flags.seed)

-- ---- a queue by hand --------------------------------------------------------

-- Room for three tuples of a number and a word.
local words = td.fifo_queue(3, {"int32", "string"}, {{}, {}},
                            {names = {"id", "word"}})
print(words)
local take = words:dequeue()

local sess <close> = td.session()
sess:run(words:enqueue{id = 1, word = "moon"})
sess:run(words:enqueue_many{id = {2, 3}, word = {"tide", "sand"}})
print("in it are", sess:run(words:size()))

-- It is full: this step waits until somebody takes, and holds no thread.
local late = sess:start(words:enqueue{id = 4, word = "shore"})
for _ = 1, 4 do
  local tuple = sess:run(take)
  print("taken", tuple.id, tuple.word)
end
late:wait()

-- Now it is empty. Who waits too long is told for what.
local _, e = pcall(sess.run, sess, take, nil, {timeout = 0.1})
print("a step that waited:", tostring(e):match "for (queue [^\n]*)")
sess:run(words:close())
_, e = pcall(sess.run, sess, take)
print("and of a closed queue:", e.code)

-- ---- sentences of different length ------------------------------------------

local parts = {"the moon", "the tide", "the sand", "moves", "keeps", "and",
               "no step of", "slowly", "by night"}
local draw = math.random
math.randomseed(flags.seed)
local sentences = {}
for i = 1, flags.sentences do
  local list = {}
  for k = 1, draw(1, 8) * draw(1, 3) do list[k] = parts[draw(#parts)] end
  sentences[i] = table.concat(list, " ") .. "."
end

-- One sentence in each step, as the numbers of its letters; read by three
-- steps at a time.
local source = td.train.string_input_producer(sentences, {
  epochs = flags.epochs, seed = flags.seed})
local letters = td.decode_raw(source:dequeue(), "uint8"):cast "int32"
local length = letters:dim(0)

-- Six buckets: shorter than 30 letters, shorter than 60, ..., all others. A
-- batch is as long as its longest sentence; the rest of each row is 0.
local lengths, batch = td.train.bucket_by_sequence_length(length, letters,
  flags.batch, {30, 60, 90, 120, 160}, {threads = 3, allow_smaller = true})

-- ---- a model of the next letter ---------------------------------------------

local LETTERS = 128
local table_ = td.variable(td.zeros{LETTERS, LETTERS}, "next_letter")
local now, following = batch[":, :-1"], batch[":, 1:"]
local real = following:greater(0):cast "float32" -- no padding
local each = td.nn.sparse_softmax_cross_entropy(td.gather(table_, now),
                                                following)
local loss = (each * real):sum() / real:sum()
local train = td.train.adam(flags.lr):minimize(loss)
local padding = 1 - td.cast(lengths:sum(), "float32") / td.size(batch)
  :cast "float32"

sess:init()
local coord = td.train.coordinator()
td.train.start_queue_runners(sess, coord)

-- The end of the last epoch comes through all queues as "out_of_range".
local step = sess:callable{loss, padding, td.size(lengths), train}
local n, seen, padded = 0, 0, 0
while not coord:should_stop() do
  local ok, l, p, size = pcall(step)
  if ok then
    n, seen, padded = n + 1, seen + size, padded + p
    if n % 25 == 1 then
      print(("batch %d: loss %.3f nats a letter, %.0f %% padding"):format(n, l,
            100 * p))
    end
  else
    coord:request_stop(l)
  end
end
coord:join()
print(("learned from %d sentences in %d batches, %.0f %% padding"):format(seen,
      n, 100 * padded / n))

-- ---- a producer that fails --------------------------------------------------

-- The third example is bad. Whoever waits for it hears of that, not of a queue
-- that stays empty.
local count = td.variable(0.0, "count")
local x = td.check_numerics(td.sqrt(2.5 - count:assign_add(1.0)), "a bad one")
local examples = td.fifo_queue(8, "float32", {}, "examples")
td.train.add_queue_runner(td.train.queue_runner(examples, examples:enqueue(x)))
local two = examples:dequeue(2)
sess:init()
coord = td.train.coordinator()
td.train.start_queue_runners(sess, coord)
print("two examples:", sess:run(two))
_, e = pcall(sess.run, sess, two)
print("two more:", e.message:match "^[^(]*")
_, e = pcall(coord.join, coord)
print("the cause:", e.message, e.op)
