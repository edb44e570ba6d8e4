--- data/sentences.lua - plain sentences from a small grammar.
--
-- Text to train on where none can be had. What can be learned from it:
-- spelling, the order of words, which noun goes with which verb, and that the
-- one who is named first in a line is "she", "he" or "it" after the comma.
-- SPDX-License-Identifier: Apache-2.0

local rng = require "tide.base.rng"

local who = {
  {"the girl", "she"}, {"the boy", "he"}, {"the queen", "she"},
  {"the king", "he"}, {"the old sailor", "he"}, {"the fisher", "she"},
  {"the grey cat", "it"}, {"the small dog", "it"}, {"the gull", "it"},
}

-- Verbs, and what each may be done to.
local deeds = {
  {"saw", {"the sea", "a white sail", "the moon", "a light", "the harbour"}},
  {"found", {"a shell", "an old coin", "a letter", "the path", "a silver key"}},
  {"carried", {"the nets", "a basket", "a lantern", "some bread", "the oars"}},
  {"waited for", {"the tide", "the ship", "the morning", "wind", "a guest"}},
  {"sang of", {"the sea", "the north", "long summers", "the moon", "home"}},
}

local places = {"on the shore", "by the river", "near the harbour",
                "under the trees", "in the rain", "at night"}
local ends = {"smiled", "went home", "slept well", "ran away", "sat down",
              "looked up", "was glad"}

local function pick(random, list)
  return list[random:integer(1, #list)]
end

local function sentence(random)
  local subject, deed = pick(random, who), pick(random, deeds)
  local words = {subject[1], deed[1], pick(random, deed[2])}
  if random:uniform() < 0.5 then words[#words + 1] = pick(random, places) end
  local line = table.concat(words, " ")
  if random:uniform() < 0.6 then
    line = ("%s , and %s %s"):format(line, subject[2], pick(random, ends))
  end
  return line .. " .\n"
end

local sentences = {}

--- Text of at least `size` bytes (60000).
function sentences.make(seed, size)
  local random, lines, total = rng.new(seed), {}, 0
  while total < (size or 60000) do
    local line = sentence(random)
    lines[#lines + 1] = line
    total = total + #line
  end
  return table.concat(lines)
end

return sentences
