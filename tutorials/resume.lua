--- resume.lua - a training that can be killed at any moment, and goes on.
--
-- A supervisor saves variables, optimizer slots, random streams and the place
-- in the data; told to go (SIGTERM) it ends the step, saves, and has the exit
-- code be 75, which asks to be started again. Run it, kill it in whatever way,
-- run it again: the last line, a digest of the weights, is that of a run that
-- was never stopped.
--
--   tide tutorials/resume.lua --dir /tmp/resume --seed 1
--   until tide tutorials/resume.lua --dir /tmp/resume; do sleep 1; done
--   tide runs /tmp            # what became of it
-- Without MNIST (--data DIR, $TIDE_DATA) it trains on drawn digits.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{dir = "", seed = 1, epochs = 3, batch = 50, lr = 1e-3,
                       save_steps = 50, threads = 0, data = "", smoke = false}
if flags.smoke then flags.batch, flags.save_steps = 20, 4 end
if flags.dir == "" then
  flags.dir = os.tmpname()
  os.remove(flags.dir)
end
td.seed(flags.seed)

local x = td.placeholder("float32", {-1, 784}, "x")
local y = td.placeholder("int64", {-1}, "y")
local training = td.placeholder("bool", {}, "training")
local h = td.layers.dense(x, 64, {activation = td.relu})
h = td.layers.dropout(h, 0.3, {training = training})
local logits = td.layers.dense(h, 10)
local loss = td.nn.sparse_softmax_cross_entropy(logits, y):mean()
local step = td.train.adam(flags.lr):minimize(loss,
  {global_step = td.train.global_step()})

local digits = flags.smoke and td.data.digits{train = 200, test = 50}
  or td.data.mnist{dir = flags.data}
local batches = digits.train:batches(flags.batch,
  {epochs = flags.epochs, shuffle = true, seed = flags.seed})

-- What is kept beside the variables: the place in the data, and the losses.
local losses = {}
do
  local sv <close> = td.train.supervisor{logdir = flags.dir, flags = flags,
    save_steps = flags.save_steps, keep = {batches = batches, losses = losses}}
  local sess = sv:session{threads = flags.threads > 0 and flags.threads or nil}
  print(flags.dir .. (sv.resumed and " goes on after step " .. sv.step
                      or ": starts"))
  local train = sess:callable({loss, step}, {x, y, training})
  for batch in batches do
    if sv:should_stop() then break end
    local l = train(batch.images, batch.labels, true)
    losses[batch.epoch] = 0.9 * (losses[batch.epoch] or l) + 0.1 * l
  end
end

for epoch, l in ipairs(losses) do
  print(("epoch %d: loss %.4f"):format(epoch, l))
end

-- The same bits give the same digest.
local digest = 0
for _, v in ipairs(td.trainable_variables()) do
  for byte in v:eval():bytes():gmatch "." do
    digest = (digest * 31 + byte:byte()) & 0xffffffff
  end
end
print(("digest: %08x"):format(digest))
