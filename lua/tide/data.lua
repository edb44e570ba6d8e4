--- data.lua - td.data: data sets, found on disk, downloaded, or drawn.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.args"
local dataset = require "tide.dataset"

local data = {}

-- ---- where to look --------------------------------------------------------

-- The value of `--data DIR` or `--data=DIR` among the script's arguments.
local function data_argument()
  local list = rawget(_G, "arg") or {}
  for i, a in ipairs(list) do
    if a == "--data" then return list[i + 1] end
    local dir = a:match("^%-%-data=(.*)$")
    if dir then return dir end
  end
end

--- The folder that downloads are kept in.
function data.cache_dir()
  local base = os.getenv "XDG_CACHE_HOME"
  if not base or base == "" then
    base = (os.getenv "HOME" or ".") .. "/.cache"
  end
  return base .. "/tide"
end

local function add(list, dir, name)
  if not dir or dir == "" then return end
  list[#list + 1] = dir
  list[#list + 1] = dir .. "/" .. name
end

-- Folders to search for data set `name`, the first being what was asked for.
local function folders(name, dir)
  local list = {}
  if dir and dir ~= "" then
    add(list, dir, name)
    return list
  end
  add(list, data_argument(), name)
  add(list, os.getenv "TIDE_DATA", name)
  list[#list + 1] = data.cache_dir() .. "/" .. name
  return list
end

-- Bytes of a file, unpacked when only file.gz is there; nil when neither is.
local function read(dir, file)
  local path = dir .. "/" .. file
  if core.exists(path) then return core.read_file(path) end
  if not core.exists(path .. ".gz") then return nil end
  return core.gunzip(core.read_file(path .. ".gz"))
end

-- ---- mnist ----------------------------------------------------------------

-- Files of MNIST, with digests of what is in them.
local mnist_files = {
  {"train-images-idx3-ubyte",
   "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
  {"train-labels-idx1-ubyte",
   "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
  {"t10k-images-idx3-ubyte",
   "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
  {"t10k-labels-idx1-ubyte",
   "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
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

local function images(value)
  local n, pixels = value.shape[1], value.size // math.max(1, value.shape[1])
  local flat = core.op "Cast"(core.tensor(value, nil, {n, pixels}),
                              {DstT = "float32"})
  return core.op "Mul"(flat, 1 / 255)
end

-- One part of MNIST from the four files' bytes.
local function part(bytes, i)
  local pixels = parse_idx(bytes[i], mnist_files[i][1])
  local labels = parse_idx(bytes[i + 1], mnist_files[i + 1][1])
  return dataset.new{images = images(pixels),
                     labels = core.op "Cast"(labels, {DstT = "int64"})}
end

-- All four files in one folder, or nil.
local function read_mnist(dir)
  local bytes = {}
  for i, file in ipairs(mnist_files) do
    bytes[i] = read(dir, file[1])
    if not bytes[i] then return nil end
  end
  return bytes
end

-- The files from $TIDE_DATA_URL, checked, into the cache; nil without it.
local function download(name)
  local url = os.getenv "TIDE_DATA_URL"
  if not url or url == "" then return nil end
  local dir = data.cache_dir() .. "/" .. name
  core.mkdirs(dir)
  for _, file in ipairs(mnist_files) do
    local from = ("%s/%s/%s.gz"):format(url:gsub("/$", ""), name, file[1])
    local packed = core.download(from, 1 << 28)
    local digest = core.sha256(core.gunzip(packed, 1 << 28))
    if digest ~= file[2] then
      core.error("data_loss", from .. " has digest " .. digest
        .. ", expected " .. file[2])
    end
    core.write_file(dir .. "/" .. file[1] .. ".gz", packed)
  end
  return read_mnist(dir)
end

-- The last `n` training examples apart.
local function with_validation(d, n)
  if not n or n == 0 then return d end
  if n < 1 or n >= d.train.size then
    core.error("invalid_argument", ("validation must leave training examples; "
      .. "there are %d"):format(d.train.size))
  end
  local all = d.train
  d.train = all:take(all.size - n)
  d.validation = all:take(n, all.size - n)
  return d
end

--- MNIST: .train and .test with .images (float32 {n, 784}, 0 to 1) and
-- .labels (int64 {n}).
-- Looked for in dir, `--data DIR`, $TIDE_DATA (and their mnist/), the cache;
-- else downloaded from $TIDE_DATA_URL/mnist/, else drawn (data.digits), which
-- is said on stderr. A `dir` that is given must have it.
-- Options: dir; validation, a number of training examples to set apart.
function data.mnist(o)
  o = args.read(o, {"dir", "validation"}, "data.mnist")
  local searched = folders("mnist", o.dir)
  local bytes
  for _, dir in ipairs(searched) do
    bytes = bytes or read_mnist(dir)
  end
  if not bytes and o.dir and o.dir ~= "" then
    core.error("not_found", ("no MNIST in %s: %s.gz and three more are needed")
      :format(o.dir, mnist_files[1][1]))
  end
  bytes = bytes or download("mnist")
  if not bytes then
    io.stderr:write("no MNIST in ", table.concat(searched, ", "),
                    ": using drawn digits\n")
    return data.digits{validation = o.validation}
  end
  return with_validation({train = part(bytes, 1), test = part(bytes, 3)},
                         o.validation)
end

--- Digits drawn by code, in MNIST's form. Options: train (10000), test (2000),
-- seed, validation.
function data.digits(o)
  o = args.read(o, {"train", "test", "seed", "validation"}, "data.digits")
  local d = require("tide.digits").load(o.train, o.test, o.seed)
  return with_validation(d, o.validation)
end

--- A data set of your own: of{images = value, labels = value}.
function data.of(columns)
  local values = {}
  for name, x in pairs(columns) do
    values[name] = core.kind(x) == "tensor" and x or core.tensor(x)
  end
  return dataset.new(values)
end

return data
