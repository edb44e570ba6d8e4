--- data/mnist.lua - handwritten digits from the four idx files.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dataset = require "tide.data.dataset"
local source = require "tide.data.source"

local spec = {
  name = "mnist", title = "MNIST",
  files = {
    {"train-images-idx3-ubyte",
     "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"train-labels-idx1-ubyte",
     "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"t10k-images-idx3-ubyte",
     "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"t10k-labels-idx1-ubyte",
     "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
  },
  url = "https://storage.googleapis.com/cvdf-datasets/mnist",
}

-- An idx file: two zeros, a dtype (8 is uint8), a rank, sizes, the elements.
local function parse_idx(bytes, name)
  local function bad(why)
    core.error("data_loss", ("%s is no idx file: %s"):format(name, why))
  end
  if #bytes < 4 then bad("it is too short") end
  local zero, dtype, rank = (">I2BB"):unpack(bytes)
  if zero ~= 0 or dtype ~= 8 or rank < 1 or rank > 3 then
    bad("its head is wrong")
  end
  if #bytes < 4 + 4 * rank then bad("it is too short") end
  local shape, count = {}, 1
  for i = 1, rank do
    shape[i] = (">I4"):unpack(bytes, 1 + 4 * i)
    count = count * shape[i]
    if count > 1 << 32 then bad("its sizes are absurd") end
  end
  local head = 4 + 4 * rank
  if #bytes - head ~= count then
    bad(("%d elements, but %d bytes"):format(count, #bytes - head))
  end
  return core.from_bytes(bytes:sub(head + 1), "uint8", shape)
end

-- One part from the bytes of the files i and i + 1.
local function part(bytes, i)
  local images = parse_idx(bytes[i], spec.files[i][1])
  local labels = parse_idx(bytes[i + 1], spec.files[i + 1][1])
  local n = images.shape[1]
  local flat = core.tensor(images, nil, {n, images.size // math.max(1, n)})
  return dataset.new({images = flat,
                      labels = core.op "Cast"(labels, {DstT = "int64"})},
                     {images = 1 / 255})
end

local mnist = {}

--- {train =, test =} from files, or nil when there are none.
function mnist.load(o)
  local bytes = source.find(spec, o, "drawn digits")
  return bytes and {train = part(bytes, 1), test = part(bytes, 3)}
end

return mnist
