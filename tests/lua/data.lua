-- data.lua - data sets: drawn digits, idx files, batches, arrays on disk.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local function temporary()
  local path = os.tmpname()
  os.remove(path)
  core.mkdirs(path)
  return path
end

local function remove(path) os.execute("rm -rf '" .. path .. "'") end

function tests.digits()
  local d = td.data.digits{train = 50, test = 20, seed = 3}
  lu.assertTrue(d.train.images.shape == {50, 784})
  lu.assertEquals({d.train.images.dtype, d.train.labels.dtype},
                  {"float32", "int64"})
  lu.assertTrue(d.test.labels.shape == {20})
  local low, high = d.train.images:min():item(), d.train.images:max():item()
  lu.assertTrue(low == 0 and high > 0.7 and high <= 1)
  local again = td.data.digits{train = 50, test = 20, seed = 3}
  lu.assertTrue(core.same(d.train.images, again.train.images))
  local other = td.data.digits{train = 50, test = 20, seed = 4}
  lu.assertFalse(core.same(d.train.images, other.train.images))
  lu.assertFalse(core.same(d.train.labels["0:20"], d.test.labels))
end

function tests.validation_apart()
  local d = td.data.digits{train = 50, test = 10, validation = 15}
  lu.assertEquals({#d.train, #d.validation, #d.test}, {35, 15, 10})
  raises("validation", td.data.digits, {train = 50, test = 1, validation = 50})
end

local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = i - 1 end
  return td.data.of{x = list}
end

local function collect(d, size, o)
  local out = {}
  for batch in d:batches(size, o) do
    out[#out + 1] = batch.x:table()
  end
  return out
end

function tests.batches()
  local d = numbers(5)
  lu.assertEquals(collect(d, 2), {{0, 1}, {2, 3}, {4}})
  lu.assertEquals(collect(d, 2, {drop_remainder = true}), {{0, 1}, {2, 3}})
  lu.assertEquals(collect(d, 5, {epochs = 2}),
                  {{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}})
  lu.assertEquals(collect(d, 9), {{0, 1, 2, 3, 4}})
  lu.assertEquals(collect(d, 9, {drop_remainder = true}), {})
  lu.assertEquals(collect(d, 2, {shard = {1, 2}}), {{1, 3}})
  lu.assertEquals(#d:batches(2, {epochs = 3}), 9)
  local seen = {}
  for batch in d:batches(3, {epochs = 2}) do
    seen[#seen + 1] = {batch.epoch, batch.step}
  end
  lu.assertEquals(seen, {{1, 1}, {1, 2}, {2, 3}, {2, 4}})
end

function tests.shuffle()
  local d = numbers(20)
  local function order(seed, epochs)
    local all = {}
    for batch in d:batches(20, {shuffle = true, seed = seed,
                                epochs = epochs}) do
      all[#all + 1] = batch.x:table()
    end
    return all
  end
  local a = order(1, 2)
  lu.assertEquals(a, order(1, 2))
  lu.assertNotEquals(a, order(2, 2))
  lu.assertNotEquals(a[1], a[2])
  table.sort(a[1])
  lu.assertEquals(a[1], collect(d, 20)[1])
end

function tests.batches_refused()
  local d = numbers(5)
  raises(">= 1", d.batches, d, 0)
  raises("did you mean \"epochs\"", d.batches, d, 1, {epoch = 2})
  raises("part k of n", d.batches, d, 1, {shard = {2, 2}})
  raises("rows", td.data.of, {a = {1, 2}, b = {1}})
end

-- ---- idx files --------------------------------------------------------------

local names = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
               "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}

local function idx(rank, sizes, bytes)
  local head = (">I2BB"):pack(0, 8, rank)
  return head .. (">I4"):rep(rank):pack(table.unpack(sizes)) .. bytes
end

local function write_mnist(dir, images)
  core.mkdirs(dir)
  local texts = {images or idx(3, {2, 1, 3}, "\0\255\51\1\2\3"),
                 idx(1, {2}, "\7\1"), idx(3, {1, 1, 3}, "\0\0\255"),
                 idx(1, {1}, "\9")}
  for i, name in ipairs(names) do
    core.write_file(dir .. "/" .. name, texts[i])
  end
end

function tests.mnist_files()
  local dir = temporary()
  write_mnist(dir .. "/mnist")
  local d = td.data.mnist{dir = dir}
  td.test.close(d.train.images, {{0, 1, 0.2}, {1 / 255, 2 / 255, 3 / 255}})
  lu.assertEquals(d.train.labels:table(), {7, 1})
  lu.assertEquals(d.train.labels.dtype, "int64")
  lu.assertEquals(d.test.labels:table(), {9})
  remove(dir)
  raises("no MNIST in", td.data.mnist, {dir = dir})
end

function tests.mnist_bad_files()
  local rows = {
    {"", "too short"}, {"\0\0\8", "too short"},
    {"\0\1\8\1\0\0\0\0", "head"}, {"\0\0\9\1\0\0\0\0", "head"},
    {"\0\0\8\9\0\0\0\0", "head"}, {"\0\0\8\3\0\0\0\1", "too short"},
    {idx(3, {2, 1, 3}, "\1\2"), "bytes"},
    {idx(3, {0xffffffff, 0xffffffff, 0xffffffff}, ""), "absurd"},
  }
  for i, row in ipairs(rows) do
    local dir = temporary()
    write_mnist(dir, row[1])
    local e = raises(row[2], td.data.mnist, {dir = dir})
    lu.assertEquals(e.code, "data_loss", "row " .. i)
    remove(dir)
  end
end

-- ---- arrays -----------------------------------------------------------------

function tests.npy_and_npz()
  local dir = temporary()
  local x = td.tensor({{1.5, 2.5}}, "float64")
  td.save_npy(dir .. "/x.npy", x)
  lu.assertTrue(core.same(td.load_npy(dir .. "/x.npy"), x))
  td.save_npz(dir .. "/x.npz", {a = x, b = {1, 2}})
  local back = td.load_npz(dir .. "/x.npz")
  lu.assertTrue(core.same(back.a, x))
  lu.assertEquals(back.b:table(), {1, 2})
  raises("", td.load_npy, dir .. "/none.npy")
  raises("did you mean", td.save_npz, dir .. "/y.npz", {}, {compres = true})
  remove(dir)
end

return tests
