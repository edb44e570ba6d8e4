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

function tests.parts_as_text()
  lu.assertEquals(tostring(td.data.digits{train = 3, test = 2}),
    "test: Dataset of 2: images float32 {2, 784}, labels int64 {2}\n"
    .. "train: Dataset of 3: images float32 {3, 784}, labels int64 {3}")
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

function tests.as_a_pipeline()
  local p = numbers(5):pipeline{shard = {1, 2}}
  lu.assertEquals(tostring(p):match "rows%(5%)", "rows(5)")
  lu.assertEquals(collect(p, 2), {{1, 3}})
  -- Bytes with a scale are what batches of the set hold.
  local d = td.data.shapes{train = 3, test = 1}.train
  local want, e = d:batches(3)(), d:pipeline():batches(3)()
  td.test.close(e.images, want.images)
  lu.assertEquals(e.labels:table(), want.labels:table())
  raises("no option \"epochs\"", d.pipeline, d, {epochs = 2})
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

-- The order is that of rng.lua's shuffle, epoch after epoch.
function tests.the_threads_shuffle_is_rngs()
  local rng = require "tide.base.rng"
  local random, rows, want = rng.new(7), {}, {}
  for i = 1, 50 do rows[i] = i - 1 end
  for epoch = 1, 3 do
    random:shuffle(rows)
    want[epoch] = table.move(rows, 1, 50, 1, {})
  end
  lu.assertEquals(collect(numbers(50), 50, {shuffle = true, seed = 7,
                                            epochs = 3}), want)
end

function tests.batches_of_all_types()
  local d = td.data.of{
    s = {{"a", "bc"}, {"", "d"}, {"efg", "h"}}, b = {true, false, true},
    c = td.tensor({1, 2, 3}, "complex64"), h = td.tensor({1, 2, 3}, "float16"),
  }
  local seen = {}
  for batch in d:batches(2) do seen[#seen + 1] = batch end
  lu.assertEquals(#seen, 2)
  lu.assertEquals(seen[1].s:table(), {{"a", "bc"}, {"", "d"}})
  lu.assertEquals(seen[2].s:table(), {{"efg", "h"}})
  lu.assertEquals(seen[2].b:table(), {true})
  lu.assertEquals(seen[2].c.dtype, "complex64")
  lu.assertEquals(seen[1].h:table(), {1, 2})
end

-- Bytes with a scale are read as float32, in batches as in whole.
function tests.scaled_bytes()
  local d = td.data.digits{train = 30, test = 1}.train
  lu.assertEquals(d.images.dtype, "float32")
  for batch in d:batches(30) do
    lu.assertTrue(core.same(batch.images, d.images))
  end
  lu.assertTrue(core.same(d:take(5, 7).images, d.images["7:12"]))
end

function tests.iterators_left_early()
  local d = numbers(1000)
  for _ = 1, 50 do
    for batch in d:batches(3, {epochs = math.huge, shuffle = true}) do
      if batch.step == 5 then break end
    end
  end
  collectgarbage()
  local it = d:batches(10)
  lu.assertEquals(it().x:table()[1], 0)
  it:close()
  lu.assertNil(it())
  it = d:batches(500)
  lu.assertNotNil(it())
  lu.assertNotNil(it())
  lu.assertNil(it())
  lu.assertNil(it())
end

function tests.take_and_shuffled()
  local d = numbers(10)
  lu.assertEquals(d:take(3, 8).x:table(), {8, 9})
  lu.assertEquals(d:take(2).x:table(), {0, 1})
  raises("below 0", d.take, d, -1)
  local a = d:shuffled{seed = 1}.x:table()
  lu.assertEquals(a, d:shuffled{seed = 1}.x:table())
  table.sort(a)
  lu.assertEquals(a, d.x:table())
end

function tests.batches_refused()
  local d = numbers(5)
  raises(">= 1", d.batches, d, 0)
  raises("did you mean \"epochs\"", d.batches, d, 1, {epoch = 2})
  raises("part k of n", d.batches, d, 1, {shard = {2, 2}})
  raises("part k of n", d.batches, d, 1, {shard = {1}})
  raises("math.huge", d.batches, d, 1, {epochs = -1})
  raises("math.huge", d.batches, d, 1, {epochs = 1.5})
  raises("scalar", td.data.of, {a = 1})
  raises("a column", td.data.of, {})
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

-- ---- cifar10 ----------------------------------------------------------------

-- A record whose planes hold r, g and b everywhere.
local function record(label, r, g, b)
  return string.char(label) .. string.char(r):rep(1024)
    .. string.char(g):rep(1024) .. string.char(b):rep(1024)
end

function tests.cifar10_files()
  local dir = temporary()
  core.mkdirs(dir .. "/cifar10")
  core.write_file(dir .. "/cifar10/train_batch.bin",
                  record(3, 0, 51, 255) .. record(9, 1, 2, 3))
  core.write_file(dir .. "/cifar10/test_batch.bin", record(0, 255, 0, 0))
  local d = td.data.cifar10{dir = dir}
  lu.assertTrue(d.train.images.shape == {2, 32, 32, 3})
  td.test.close(d.train.images["0, 31, 0"], {0, 0.2, 1})
  lu.assertEquals(d.train.labels:table(), {3, 9})
  lu.assertEquals(d.classes[4], "cat")
  for batch in d.test:batches(1) do
    td.test.close(batch.images["0, 5, 7"], {1, 0, 0})
  end
  for i = 1, 5 do
    core.write_file(("%s/data_batch_%d.bin"):format(dir, i),
                    record(i, i, i, i))
  end
  core.write_file(dir .. "/test_batch.bin", record(0, 255, 0, 0))
  lu.assertEquals(td.data.cifar10{dir = dir}.train.labels:table(),
                  {1, 2, 3, 4, 5})
  local files = td.data.cifar10_files{dir = dir}
  lu.assertEquals(#files.train, 5)
  lu.assertEquals(files.train[2], dir .. "/data_batch_2.bin")
  lu.assertEquals(files.test, {dir .. "/test_batch.bin"})
  lu.assertEquals({files.compression, files.record}, {"", 3073})
  core.write_file(dir .. "/test_batch.bin", record(10, 1, 1, 1))
  raises("10 classes", td.data.cifar10, {dir = dir})
  core.write_file(dir .. "/test_batch.bin", "short")
  lu.assertEquals(raises("records", td.data.cifar10, {dir = dir}).code,
                  "data_loss")
  remove(dir)
  raises("no CIFAR-10 in", td.data.cifar10, {dir = dir})
  raises("no CIFAR-10 in", td.data.cifar10_files, {dir = dir})
end

-- Packed files are found as they are, for what unpacks them as it reads.
function tests.packed_cifar10_files()
  local dir = temporary()
  core.mkdirs(dir)
  for _, name in ipairs{"train_batch", "test_batch"} do
    core.write_file(("%s/%s.bin.gz"):format(dir, name), "")
  end
  local files = td.data.cifar10_files{dir = dir}
  lu.assertEquals(files.train, {dir .. "/train_batch.bin.gz"})
  lu.assertEquals(files.compression, "GZIP")
  remove(dir)
end

function tests.shapes()
  local d = td.data.shapes{train = 40, test = 10, validation = 10}
  lu.assertEquals({#d.train, #d.validation, #d.test, #d.classes},
                  {30, 10, 10, 10})
  lu.assertTrue(d.train.images.shape == {30, 32, 32, 3})
  lu.assertTrue(core.same(d.test.images,
                          td.data.shapes{train = 1, test = 10}.test.images))
end

-- ---- text -------------------------------------------------------------------

local function write_text(dir, name, text)
  core.mkdirs(dir .. "/text")
  core.write_file(dir .. "/text/" .. name, text)
end

function tests.text_by_characters()
  local dir = temporary()
  write_text(dir, "tinyshakespeare.txt", "abcabcabca")
  local d = td.data.text{dir = dir}
  lu.assertEquals({#d.train, #d.test, #d.vocab}, {9, 1, 3})
  lu.assertEquals(d.train.ids:table(), {0, 1, 2, 0, 1, 2, 0, 1, 2})
  lu.assertEquals(d.vocab:decode(d.train.ids), "abcabcabc")
  lu.assertEquals(d.vocab:decode{2, 0}, "ca")
  lu.assertEquals(d.vocab:encode("cab"):table(), {2, 0, 1})
  lu.assertEquals({d.vocab:id "b", d.vocab:token(1)}, {1, "b"})
  raises("not in the vocabulary", d.vocab.encode, d.vocab, "abz")
  raises("no token 3", d.vocab.token, d.vocab, 3)
  write_text(dir, "x.txt", "\u{e9}a\u{e9}b\u{e9}")
  d = td.data.text{name = "x.txt", dir = dir, test = 0.3}
  lu.assertEquals(#d.vocab, 3)
  lu.assertEquals(d.vocab:decode(d.train.ids) .. d.vocab:decode(d.test.ids),
                  "\u{e9}a\u{e9}b\u{e9}")
  remove(dir)
end

-- Frequent words first, then by the alphabet; lines end in <eos>.
function tests.text_by_words()
  local dir = temporary()
  write_text(dir, "ptb.valid.txt", " b a b \n a b c <unk> \n")
  write_text(dir, "ptb.test.txt", " a d \n")
  local d = td.data.text{name = "ptb", dir = dir}
  lu.assertEquals(d.vocab.tokens, {"b", "<eos>", "a", "<unk>", "c"})
  lu.assertEquals(d.train.ids:table(), {0, 2, 0, 1, 2, 0, 4, 3, 1})
  lu.assertEquals(d.test.ids:table(), {2, 3, 1})
  lu.assertEquals(d.vocab:decode(d.test.ids), "a <unk>\n")
  d = td.data.text{name = "ptb", dir = dir, words = 3}
  lu.assertEquals(d.vocab.tokens, {"b", "<eos>", "<unk>"})
  write_text(dir, "ptb.train.txt", "z y\n")
  d = td.data.text{name = "ptb", dir = dir}
  lu.assertEquals(d.vocab.tokens, {"<eos>", "y", "z", "<unk>"})
  lu.assertEquals(#d.validation, 9)
  raises("\"char\" or \"word\"", td.data.text, {name = "ptb", dir = dir,
                                              by = "line"})
  raises("words", td.data.text, {words = 1})
  raises("no text file", td.data.text, {name = "none.txt", dir = dir})
  remove(dir)
  raises("no Penn Treebank in", td.data.text, {name = "ptb", dir = dir})
end

function tests.sequences()
  local dir = temporary()
  write_text(dir, "x.txt", "abcdefghijklmnopqrstuvwxyz")
  local d = td.data.text{files = {train = "x.txt"}, dir = dir}
  local seen = {}
  for batch in d.train:sequences(2, 5, {epochs = 2}) do
    seen[#seen + 1] = batch
  end
  lu.assertEquals(#seen, 4) -- streams of 13: two times 5 steps
  lu.assertEquals(#d.train:sequences(2, 5), 2)
  lu.assertEquals(seen[1].inputs:table(), {{0, 1, 2, 3, 4},
                                           {13, 14, 15, 16, 17}})
  lu.assertEquals(seen[1].targets:table(), {{1, 2, 3, 4, 5},
                                            {14, 15, 16, 17, 18}})
  lu.assertEquals(seen[2].inputs:table()[1], {5, 6, 7, 8, 9})
  lu.assertEquals({seen[2].epoch, seen[2].step, seen[2].first}, {1, 2, false})
  lu.assertEquals({seen[3].epoch, seen[3].step, seen[3].first}, {2, 3, true})
  raises("too short", d.train.sequences, d.train, 2, 13)
  raises("steps must be", d.train.sequences, d.train, 2, 0)
  remove(dir)
end

-- ---- clicks -----------------------------------------------------------------

function tests.click_log()
  local d = td.data.click_log{train = 400, test = 100, seed = 5}
  local again = td.data.click_log{train = 400, test = 100, seed = 5}
  lu.assertTrue(core.same(d.train.sparse, again.train.sparse))
  lu.assertTrue(core.same(d.train.labels, again.train.labels))
  lu.assertTrue(d.train.sparse.shape == {400, 6})
  lu.assertTrue(d.train.dense.shape == {400, 4})
  local most = d.train.sparse:max(0):table()
  for i, size in ipairs(d.sizes) do lu.assertTrue(most[i] < size) end
  -- Labels follow the chances they were drawn with.
  local clicks = d.train.labels:cast("float32"):mean():item()
  local chance = d.train.chances:mean():item()
  lu.assertTrue(math.abs(clicks - chance) < 0.1)
  lu.assertFalse(core.same(d.train.dense["0:100"], d.test.dense))
end

-- ---- arrays -----------------------------------------------------------------

function tests.npy_and_npz()
  local dir = temporary()
  local x = td.tensor({{1.5, 2.5}}, "float64")
  td.save_npy(dir .. "/x.npy", x)
  lu.assertTrue(core.same(td.load_npy(dir .. "/x.npy"), x))
  local mapped = td.load_npy(dir .. "/x.npy", {mmap = true})
  lu.assertTrue(core.same(mapped, x))
  helper.raises("mmap", td.load_npy, dir .. "/x.npy", {map = true})
  td.save_npz(dir .. "/x.npz", {a = x, b = {1, 2}})
  local back = td.load_npz(dir .. "/x.npz")
  lu.assertTrue(core.same(back.a, x))
  lu.assertEquals(back.b:table(), {1, 2})
  raises("", td.load_npy, dir .. "/none.npy")
  raises("did you mean", td.save_npz, dir .. "/y.npz", {}, {compres = true})
  remove(dir)
end

-- ---- tables -----------------------------------------------------------------

local function csv(text, o)
  local path = os.tmpname()
  core.write_file(path, text)
  local ok, columns, order = pcall(td.load_csv, path, o)
  os.remove(path)
  if not ok then error(columns, 0) end
  return columns, order
end

function tests.csv_types()
  local t, order = csv('\xef\xbb\xbfid,price,"the ""name""",flag\r\n'
    .. '1,2.5,"a,b\nc",true\r\n\r\n-2, 3e1 ,,false\n')
  lu.assertEquals(order, {"id", "price", 'the "name"', "flag"})
  lu.assertEquals({t.id.dtype, t.price.dtype, t['the "name"'].dtype,
                   t.flag.dtype}, {"int64", "float32", "string", "string"})
  lu.assertEquals(t.id:table(), {1, -2})
  lu.assertEquals(t.price:table(), {2.5, 30})
  lu.assertEquals(t['the "name"']:table(), {"a,b\nc", ""})
  t = csv("a,b\n1,true\n2,0\n", {types = {a = "uint8", b = "bool"}})
  lu.assertEquals({t.a.dtype, t.b.dtype}, {"uint8", "bool"})
  lu.assertEquals(t.b:table(), {true, false})
end

function tests.csv_missing()
  local t = csv("1;2\n;3\n", {header = false, separator = ";"})
  lu.assertEquals({t.c0.dtype, t.c1.dtype}, {"float32", "int64"})
  local x = t.c0:table()
  lu.assertTrue(x[1] == 1 and x[2] ~= x[2])
  t = csv("a,b\n1,\n,2\n", {missing = -1})
  lu.assertEquals({t.a.dtype, t.b.dtype}, {"int64", "int64"})
  lu.assertEquals({t.a:table(), t.b:table()}, {{1, -1}, {-1, 2}})
  t = csv("a,b\n1,\n,2\n", {missing = {a = 7}})
  lu.assertEquals(t.a:table(), {1, 7})
  lu.assertEquals(t.b.dtype, "float32")
  lu.assertEquals(csv("a\n").a.shape[1], 0)
end

function tests.csv_refused()
  raises("line 3 has 1 columns, the first line 2", csv, "a,b\n1,2\n3\n")
  raises("line 2: a quote is not closed", csv, 'a\n"x\n')
  raises("line 2: there is text behind", csv, 'a\n"x"y\n')
  raises('line 4, column 2 (b): "x" is no int32', csv, 'a,b\n"1\n",2\n3,x\n',
         {types = {b = "int32"}})
  raises('"300" is no uint8', csv, "a\n300\n", {types = {a = "uint8"}})
  raises('"-1" is no uint64', csv, "a\n-1\n", {types = {a = "uint64"}})
  raises('did you mean "price"', csv, "price\n1\n", {types = {prize = "int8"}})
  raises("complex64", csv, "a\n1\n", {types = {a = "complex64"}})
  raises("no lines", csv, "")
  raises("one character", csv, "a", {separator = "--"})
  raises("neither a quote", csv, "a", {separator = '"'})
  raises("No such file", td.load_csv, "/nowhere/none.csv")
end

function tests.csv_as_data()
  local path = os.tmpname()
  local lines = {"x,y"}
  for i = 1, 20 do lines[i + 1] = i .. "," .. i * 2 end
  core.write_file(path, table.concat(lines, "\n"))
  local d = td.data.csv(path, {test = 0.25, shuffle = true, validation = 5})
  lu.assertEquals({#d.train, #d.validation, #d.test}, {10, 5, 5})
  lu.assertEquals(d.names, {"x", "y"})
  for batch in d.train:batches(10) do
    lu.assertEquals((batch.x * 2):table(), batch.y:table())
  end
  raises("share", td.data.csv, path, {test = 1})
  os.remove(path)
end

-- ---- pictures ---------------------------------------------------------------

function tests.pictures()
  local dir = temporary()
  local x = td.tensor({{{0, 100, 255}, {1, 2, 3}}}, "uint8")
  td.save_image(dir .. "/x.png", x)
  lu.assertTrue(core.same(td.load_image(dir .. "/x.png"), x))
  td.test.close(td.load_image(dir .. "/x.png", {dtype = "float32"}),
                {{{0, 100 / 255, 1}, {1 / 255, 2 / 255, 3 / 255}}})
  td.save_image(dir .. "/f.png", {{{0.0}, {0.5}, {2.0}}})
  lu.assertEquals(td.load_image(dir .. "/f.png"):table(), {{{0}, {128}, {255}}})
  td.save_image(dir .. "/x.JPG", x, {quality = 50})
  lu.assertTrue(td.load_image(dir .. "/x.JPG").shape == {1, 2, 3})
  lu.assertTrue(td.load_image(dir .. "/x.JPG", {channels = 1}).shape
                == {1, 2, 1})
  raises(".png", td.save_image, dir .. "/x.gif", x)
  raises("int64", td.save_image, dir .. "/x.png", td.tensor({{{1}}}, "int64"))
  core.write_file(dir .. "/no.png", "nothing")
  raises("no picture", td.load_image, dir .. "/no.png")
  raises("No such file", td.load_image, dir .. "/none.png")
  remove(dir)
end

function tests.folders_of_pictures()
  local dir = temporary()
  for k, class in ipairs{"cat", "ant"} do
    core.mkdirs(dir .. "/" .. class)
    for i = 1, 5 do
      td.save_image(("%s/%s/%d.png"):format(dir, class, i),
                    td.cast(td.value.fill({2, 3, 3}, 51 * k), "uint8"))
    end
  end
  core.write_file(dir .. "/ant/notes.txt", "no picture")
  local d = td.data.images(dir, {test = 0.2})
  lu.assertEquals(d.classes, {"ant", "cat"})
  lu.assertEquals({#d.train, #d.test}, {8, 2})
  for batch in d.train:batches(8) do -- 0.4 and ants, 0.2 and cats
    td.test.close(batch.images:mean{1, 2, 3},
                  0.4 - 0.2 * td.cast(batch.labels, "float32"), {atol = 1e-6})
  end
  td.save_image(dir .. "/ant/9.png", td.cast(td.value.fill({4, 4, 3}, 9),
                                             "uint8"))
  raises("give a size", td.data.images, dir)
  d = td.data.images(dir, {size = {4, 5}, channels = 1})
  lu.assertTrue(d.train.images.shape == {10, 4, 5, 1})
  remove(dir)
  raises("cannot list", td.data.images, dir)
end

-- ---- places -----------------------------------------------------------------

-- "epoch/step rows" of each batch that is left.
local function left(it, column, parts)
  parts = parts or {}
  for b in it do
    parts[#parts + 1] = ("%d/%d %s"):format(b.epoch, b.step,
                                            tostring(b[column]))
  end
  return parts
end

-- Ended after each batch and gone on with elsewhere.
local function goes_on(loop, column)
  local want = left(loop(), column)
  for cut = 0, #want do
    local it, parts = loop(), {}
    for i = 1, cut do
      local b = it()
      parts[i] = ("%d/%d %s"):format(b.epoch, b.step, tostring(b[column]))
    end
    local again = loop()
    again()
    again:restore(it:state())
    lu.assertEquals(#again, #want - cut)
    lu.assertEquals(left(again, column, parts), want)
  end
end

function tests.batches_go_on()
  local x = {}
  for i = 1, 23 do x[i] = i end
  local d = td.data.of{x = x}
  for _, o in ipairs{{}, {shuffle = true, seed = 4},
                     {shard = {1, 3}, shuffle = true, seed = 1},
                     {drop_remainder = true, shuffle = true, seed = 2}} do
    o.epochs = 3
    goes_on(function() return d:batches(5, o) end, "x")
  end
  local endless = d:batches(5, {epochs = math.huge, shuffle = true, seed = 1})
  for _ = 1, 1000 do endless() end
  local other = d:batches(5, {epochs = math.huge, shuffle = true})
    :restore(endless:state())
  local a, b = endless(), other()
  lu.assertEquals({b.epoch, b.step, tostring(b.x)},
                  {a.epoch, a.step, tostring(a.x)})
end

function tests.states_of_other_batches()
  local d = td.data.of{x = {1, 2, 3, 4}}
  local it = d:batches(2)
  local s = it:state()
  raises("whose batch is 2, not 3", function() d:batches(3):restore(s) end)
  raises("number of examples is 4, not 2",
         function() d:take(2):batches(2):restore(s) end)
  raises("not the state", function() it:restore(s:sub(1, -2)) end)
  raises("not the state", function() it:restore "" end)
  raises("restore", function() it:restore(3) end)
  it:close()
  raises("the loop is over", it.state, it)
  lu.assertNil(it())
  lu.assertEquals(#left(it:restore(s), "x"), 2)
end

function tests.sequences_go_on()
  local d = td.data.text{name = "sentences", by = "char"}
  local part = d.train
  goes_on(function() return part:sequences(2, #part // 12, {epochs = 2}) end,
          "targets")
  local s = part:sequences(2, 5):state()
  raises("number of steps is 5, not 6",
         function() part:sequences(2, 6):restore(s) end)
  raises("not the state", function()
    td.data.of{x = {1}}:batches(1):restore(s)
  end)
end

-- ---- as pipelines -----------------------------------------------------------

function tests.data_as_a_pipeline()
  local d = td.data.digits{train = 6, test = 1}.train
  local p, n = d:pipeline(), 0
  lu.assertEquals(p.columns, {"images", "labels"})
  for e in p:batches() do
    lu.assertEquals(e.images.dtype, "float32")
    lu.assertTrue(core.same(e.images, d.images[n]))
    lu.assertEquals(e.labels:item(), d.labels[n]:item())
    n = n + 1
  end
  lu.assertEquals(n, 6)
  local plain = td.data.of{x = {1, 2, 3, 4, 5}}
  local function order(o)
    local list = {}
    for e in plain:pipeline(o):batches() do list[#list + 1] = e.x:item() end
    return list
  end
  lu.assertEquals(order(), {1, 2, 3, 4, 5})
  lu.assertEquals(order{shard = {1, 2}}, {2, 4})
  lu.assertEquals(order{shuffle = true, seed = 3},
                  order{shuffle = true, seed = 3})
  lu.assertItemsEquals(order{shuffle = true}, {1, 2, 3, 4, 5})
  raises("no option", plain.pipeline, plain, {shufle = true})
end

return tests
