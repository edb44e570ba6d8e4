--- rnn_while.lua - a recurrent network as a loop in the graph.
--
-- Figure 3 of "TensorFlow: a system for large-scale machine learning" (OSDI
-- 2016) is
--
--     for i in range(len(input)):
--       state, out[i] = f(state, w, input[i])
--
-- and here it is td.while_loop: one graph for texts of any length, with the
-- gradient by the same loop backwards. It learns a short text by heart.
--
--   tide tutorials/rnn_while.lua --units 64 --steps 300
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local flags = td.flags{units = 48, length = 16, steps = 150, lr = 0.01,
                       seed = 1, smoke = false}
if flags.smoke then flags.steps = 3 end
td.seed(flags.seed)

local text = "the moon moves the tide, the tide moves the sand, "
  .. "the sand keeps no step of the moon. "

-- Letters as numbers, and every stretch of the text as a column {time, batch}.
local letters, number = {}, {}
for letter in text:gmatch "." do
  if not number[letter] then
    number[letter], letters[#letters + 1] = #letters, letter
  end
end
local columns = {}
for i = 1, flags.length + 1 do
  columns[i] = {}
  for k = 1, #text do
    local at = (i + k - 2) % #text + 1
    columns[i][k] = number[text:sub(at, at)]
  end
end
local stretches = td.tensor(columns)

-- w: trainable weights. f: one step, from a state and a letter to the next
-- state and a guess at the letter that follows.
local units, kinds = flags.units, #letters
local glorot = td.initializers.glorot_uniform()
local w = {
  letter = td.get_variable("letter", {kinds, units}, {initializer = glorot}),
  state = td.get_variable("state", {units, units}, {initializer = glorot}),
  guess = td.get_variable("guess", {units, kinds}, {initializer = glorot}),
}
local function f(state, letter)
  state = td.tanh(td.gather(w.letter, letter) + state:matmul(w.state))
  return state, state:matmul(w.guess)
end

local input = td.placeholder("int32", {-1, -1}, "input") -- {time, batch}
local time, batch = input:dim(0), input:dim(1)
local _, _, out = td.while_loop(
  function(i) return i:less(time) end,
  function(i, state, out)
    local guess
    state, guess = f(state, input[i])
    return i + 1, state, out:write(i, guess)
  end,
  {0, td.zeros{batch, units}, td.tensor_array("float32", time)},
  {shape_invariants = {{}, {-1, units}, false}})
local logits = out:stack()                               -- {time, batch, kinds}

local target = td.placeholder("int32", {-1, -1}, "target")
local loss = td.nn.sparse_softmax_cross_entropy(logits, target):mean()
local train = td.train.adam(flags.lr):minimize(loss)

local sess <close> = td.session()
sess:init()
local step = sess:callable({loss, train}, {input, target})
local last
for i = 1, flags.steps do
  last = step(stretches["0:-1"], stretches["1:"])
  if i % 25 == 0 then print(("step %d: loss %.4f"):format(i, last)) end
end

-- The same graph writes: the text so far in, the likeliest next letter out.
local said = text:sub(1, 4)
local guess = sess:callable(logits[{-1, 0}]:argmax(0), {input})
while #said < (flags.smoke and 8 or #text) do
  local so_far = {}
  for letter in said:gmatch "." do so_far[#so_far + 1] = {number[letter]} end
  said = said .. letters[guess(so_far) + 1]
end
print(said)
