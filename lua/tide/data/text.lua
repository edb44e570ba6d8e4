--- data/text.lua - text as numbers, in contiguous streams.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dataset = require "tide.data.dataset"
local errors = require "tide.base.errors"
local place = require "tide.data.place"
local vocab = require "tide.data.vocab"
local source = require "tide.data.source"
local autoload = require "tide.base.autoload"

local sentences = autoload "tide.data.sentences"

local text = {}
local methods = {}
local meta = {__index = methods}

local known = {
  tinyshakespeare = {
    by = "char", test = 0.1,
    spec = {
      name = "text", title = "tinyshakespeare",
      files = {{"tinyshakespeare.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"}},
      from = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
        .. "tinyshakespeare/input.txt",
    },
  },
  -- The training part may be missing: the validation part then serves.
  ptb = {
    by = "word", parts = {"train", "validation", "test"},
    spec = {
      name = "text", title = "Penn Treebank",
      files = {{"ptb.train.txt"}, {"ptb.valid.txt"}, {"ptb.test.txt"}},
      other = {{{"ptb.valid.txt"}, {"ptb.test.txt"}}},
    },
  },
}

local function part(words, bytes)
  local ids = words:encode(bytes)
  return setmetatable({ids = ids, vocab = words, size = ids.size}, meta)
end

-- ---- sequences --------------------------------------------------------------

local iterator = {}
iterator.__index = iterator

-- Of those that come from where it began.
function iterator:__len() return self.total - self.begin end

-- `steps` of each stream from `at` on.
local function piece(self, at)
  return self.streams[(":, %d:%d"):format(at, at + self.steps)]
end

function iterator:__call()
  if self.step >= self.total then return nil end
  local step = self.step + 1
  local at = self.step % self.per_epoch * self.steps
  self.step = step
  return {inputs = piece(self, at), targets = piece(self, at + 1),
          epoch = (step - 1) // self.per_epoch + 1, step = step,
          first = at == 0}
end

local function facts(self)
  return {{"text's size", self.size}, {"batch", self.batch},
          {"number of steps", self.steps}}
end

--- Where the loop stands, a string.
function iterator:state()
  return place.pack("sequences", facts(self), {self.step})
end

--- Goes on from a state, of a loop over as long a text with the same batch and
-- steps. A state of the net that is carried is the caller's to keep.
-- @return the iterator
function iterator:restore(s)
  local step = place.unpack(s, "sequences", facts(self), 1)
  if step < 0 then errors.invalid("restore: the state is damaged") end
  self.step, self.begin = step, math.min(step, self.total)
  return self
end

local function check_sizes(self, batch, steps)
  for what, x in pairs{batch = batch, steps = steps} do
    if math.type(x) ~= "integer" or x < 1 then
      core.error("invalid_argument",
        ("sequences: %s must be an integer >= 1"):format(what))
    end
  end
  if self.size // batch < steps + 1 then
    core.error("invalid_argument", ("sequences: a text of %d is too short for "
      .. "%d streams of %d steps"):format(self.size, batch, steps))
  end
end

--- The text in `batch` contiguous streams, `steps` of each at a time: row i of
-- a batch goes on where row i of the batch before ended, so that a state can be
-- carried. Option epochs (1).
-- @return an iterator over tables of inputs and targets (int32 {batch, steps},
-- the targets being one step ahead), epoch, step (from 1), and first (true for
-- the first of an epoch: the state begins anew); it has :state(), a string, and
-- :restore(s), which goes on from there
function methods:sequences(batch, steps, o)
  o = args.read(o, {"epochs"}, "sequences")
  check_sizes(self, batch, steps)
  local epochs = args.expect(o.epochs or 1, "integer", "sequences: epochs")
  local length = self.size // batch
  local streams = core.tensor(self.ids[("0:%d"):format(batch * length)], nil,
                              {batch, length})
  local per_epoch = (length - 1) // steps
  return setmetatable({
    streams = streams, size = self.size, batch = batch, steps = steps,
    per_epoch = per_epoch, total = math.max(0, epochs * per_epoch),
    step = 0, begin = 0}, iterator)
end

function meta:__len() return self.size end

function meta:__tostring()
  return ("Text of %d %ss"):format(self.size, self.vocab.by)
end

-- ---- loading ----------------------------------------------------------------

-- The last share `test` of a text apart; words are cut at a line's end.
local function split(bytes, test, by)
  if type(test) ~= "number" or test <= 0 or test >= 1 then
    core.error("invalid_argument",
      "text: test is the share of the text set apart, between 0 and 1")
  end
  local at = math.floor(#bytes * (1 - test))
  if by == "word" then at = bytes:find("\n", at, true) or at end
  while at < #bytes and bytes:byte(at + 1) & 0xC0 == 0x80 do at = at + 1 end
  return {train = bytes:sub(1, at), test = bytes:sub(at + 1)}
end

local function read_file(name, dir)
  for _, folder in ipairs(source.folders("text", dir)) do
    local bytes = source.read(folder .. "/" .. name)
    if bytes then return bytes end
  end
  local bytes = source.read(name)
  return bytes or core.error("not_found", ("no text file \"%s\"; texts with a "
    .. "name are %s, sentences"):format(name, table.concat(
      args.sorted_keys(known), ", ")))
end

-- Sentences made by code, by part.
local function make_sentences(o, by)
  local made = sentences.make(o.seed or 1)
  return split(made, o.test or 0.1, by), by
end

-- Texts by part, and what a token is.
local function read_known(name, o)
  local k = known[name]
  local bytes, files = source.find(k.spec, o, "generated sentences")
  local by = o.by or k.by
  if not bytes then return make_sentences(o, by) end
  if not k.parts then return split(bytes[1], o.test or k.test, by), by end
  local parts = {}
  for i, part_name in ipairs(k.parts) do parts[part_name] = bytes[i] end
  if #files == 2 then parts = {train = bytes[1], test = bytes[2]} end
  return parts, by
end

local function read_parts(o)
  local name, by = o.name or "tinyshakespeare", o.by
  if o.files then
    args.expect(o.files, "table", "text: files")
    local parts = {}
    for _, key in ipairs{"train", "validation", "test"} do
      parts[key] = o.files[key] and read_file(o.files[key], o.dir)
    end
    return parts, by or "char"
  end
  if known[name] then return read_known(name, o) end
  by = by or "char"
  if name == "sentences" then return make_sentences(o, by) end
  return split(read_file(name, o.dir), o.test or 0.1, by), by
end

--- {train =, test =, vocab =} of a named text, or of files.
function text.load(o)
  local parts, by = read_parts(o)
  if by ~= "char" and by ~= "word" then
    core.error("invalid_argument", ("text: by is \"char\" or \"word\", not %s")
      :format(tostring(by)))
  end
  if not parts.train then
    core.error("invalid_argument", "text: there must be a train part")
  end
  local all = parts.train
  if by == "char" then -- an alphabet tells nothing about the text
    all = all .. (parts.validation or "") .. (parts.test or "")
  end
  local words = vocab.of(all, by, o.words)
  local d = {vocab = words}
  for name, bytes in pairs(parts) do d[name] = part(words, bytes) end
  return dataset.parts(d)
end

return text
