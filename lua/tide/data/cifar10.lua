--- data/cifar10.lua - small colour photographs from the binary files.
--
-- A record is a label and the red, green and blue planes of 32 by 32 bytes.
-- Source: Krizhevsky, "Learning multiple layers of features from tiny images",
-- 2009.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dataset = require "tide.data.dataset"
local source = require "tide.data.source"

local SIZE = 32
local RECORD = 1 + 3 * SIZE * SIZE

local spec = {
  name = "cifar10", title = "CIFAR-10",
  files = {
    {"data_batch_1.bin",
     "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    {"data_batch_2.bin",
     "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    {"data_batch_3.bin",
     "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    {"data_batch_4.bin",
     "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    {"data_batch_5.bin",
     "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    {"test_batch.bin",
     "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
  },
  other = {{{"train_batch.bin"}, {"test_batch.bin"}}}, -- a subset
  archive = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
}

local classes = {"airplane", "automobile", "bird", "cat", "deer", "dog",
                 "frog", "horse", "ship", "truck"}

-- Records, whole ones of them, as images {n, 32, 32, 3} and labels.
local function part(bytes, name)
  if #bytes == 0 or #bytes % RECORD ~= 0 then
    core.error("data_loss", ("%s is no CIFAR-10 file: %d bytes are not "
      .. "records of %d"):format(name, #bytes, RECORD))
  end
  local n = #bytes // RECORD
  local records = core.from_bytes(bytes, "uint8", {n, RECORD})
  local labels = core.op "Cast"(core.tensor(records[":, 0:1"], nil, {n}),
                                {DstT = "int64"})
  local most = core.op "Max"(labels, {0}):item()
  if most >= #classes then
    core.error("data_loss", ("%s has label %d; there are %d classes")
      :format(name, most, #classes))
  end
  local planes = core.tensor(records[":, 1:"], nil, {n, 3, SIZE, SIZE})
  return dataset.new({images = core.op "Transpose"(planes, {0, 2, 3, 1}),
                      labels = labels}, {images = 1 / 255})
end

local cifar10 = {}

--- {train = paths, test = paths, compression =, record =} of the files, or nil
-- when there are none.
function cifar10.paths(o)
  local paths = source.paths(spec, o, "drawn shapes")
  if not paths then return nil end
  local test = table.remove(paths)
  return {train = paths, test = {test}, record = RECORD,
          compression = test:find "%.gz$" and "GZIP" or ""}
end

--- {train =, test =, classes =} from files, or nil when there are none.
function cifar10.load(o)
  local bytes, files = source.find(spec, o, "drawn shapes")
  if not bytes then return nil end
  local last = #bytes
  return {train = part(table.concat(bytes, "", 1, last - 1), files[1][1]),
          test = part(bytes[last], files[last][1]), classes = classes}
end

return cifar10
