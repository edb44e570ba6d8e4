--- data/init.lua - td.data: data sets, found on disk, downloaded, or made up.
--
-- Each function reads its options and calls the file of tide/data that knows
-- the set. Where a set's files are looked for: data/source.lua.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dataset = require "tide.data.dataset"
local source = require "tide.data.source"
local autoload = require "tide.base.autoload"

local cifar10 = autoload "tide.data.cifar10"
local click_log = autoload "tide.data.click_log"
local digits = autoload "tide.data.digits"
local files = autoload "tide.data.files"
local folder = autoload "tide.data.folder"
local mnist = autoload "tide.data.mnist"
local record_files = autoload "tide.data.record_files"
local shapes = autoload "tide.data.shapes"
local text = autoload "tide.data.text"

local sources = autoload "tide.data.pipeline_sources"

local data = {}

--- The folder that downloads are kept in.
function data.cache_dir()
  return source.cache_dir()
end

-- Options whose values are counts, with what they are when absent.
local function counts(o, defaults, what)
  local list = {}
  for i, pair in ipairs(defaults) do
    local n = o[pair[1]]
    if n == nil then n = pair[2] end
    args.expect(n, "integer", what .. ": " .. pair[1])
    if pair[1] ~= "seed" and n < 0 then
      core.error("invalid_argument", ("%s: %s must not be below 0")
        :format(what, pair[1]))
    end
    list[i] = n
  end
  return table.unpack(list)
end

--- MNIST: .train and .test with .images (float32 {n, 784}, 0 to 1) and
-- .labels (int64 {n}).
-- Looked for in dir, `--data DIR`, $TIDE_DATA (and their mnist/), the cache;
-- else downloaded from $TIDE_DATA_URL/mnist/, or with download = true from
-- where it is published; else drawn (data.digits), which is said on stderr. A
-- `dir` that is given must have it.
-- Options: dir; download; validation, a number of training examples to set
-- apart.
function data.mnist(o)
  o = args.read(o, {"dir", "download", "validation"}, "data.mnist")
  local d = mnist.load(o)
  if not d then return data.digits{validation = o.validation} end
  return source.with_validation(d, o.validation)
end

--- Digits drawn by code, in MNIST's form. Options: train (10000), test (2000),
-- seed, validation.
function data.digits(o)
  o = args.read(o, {"train", "test", "seed", "validation"}, "data.digits")
  local d = digits.load(counts(o,
    {{"train", 10000}, {"test", 2000}, {"seed", 1}}, "data.digits"))
  return source.with_validation(d, o.validation)
end

--- CIFAR-10: .train and .test with .images (float32 {n, 32, 32, 3}, 0 to 1) and
-- .labels (int64 {n}); .classes, the ten names.
-- Looked for, and downloaded, as MNIST is (under cifar10/): data_batch_1.bin to
-- data_batch_5.bin, or a train_batch.bin, and test_batch.bin; else drawn shapes
-- (data.shapes). Kept as bytes; a batch is made float32 when it is assembled.
-- Options: dir, download, validation.
function data.cifar10(o)
  o = args.read(o, {"dir", "download", "validation"}, "data.cifar10")
  local d = cifar10.load(o)
  if not d then return data.shapes{validation = o.validation} end
  return source.with_validation(d, o.validation)
end

--- Where CIFAR-10's files are, for td.data.fixed: .train and .test, lists of
-- paths, .compression ("" or "GZIP") and .record, the bytes of one record: the
-- label, then the red, green and blue planes of 32 by 32. Looked for as by
-- data.cifar10; nil when they are nowhere, which is said on stderr.
-- Options: dir, download.
function data.cifar10_files(o)
  return cifar10.paths(args.read(o, {"dir", "download"}, "data.cifar10_files"))
end

--- Ten coloured shapes drawn by code, in CIFAR-10's form. Options: train
-- (2000), test (500), seed, validation.
function data.shapes(o)
  o = args.read(o, {"train", "test", "seed", "validation"}, "data.shapes")
  local d = shapes.load(counts(o,
    {{"train", 2000}, {"test", 500}, {"seed", 1}}, "data.shapes"))
  return source.with_validation(d, o.validation)
end

--- Text as numbers: .vocab, and the parts .train, .test (and .validation), each
-- with .ids (int32 {n}), .vocab and :sequences(batch, steps).
-- Option name: "tinyshakespeare" (the default: by characters, the last tenth as
-- test), "ptb" (by words; ptb.valid.txt serves where ptb.train.txt is missing),
-- "sentences" (made by code), or the path of a file; or files = {train = path,
-- test = path}. Looked for, and downloaded, as MNIST is (under text/); where a
-- named text is not at hand, sentences are made, which is said on stderr.
-- Other options: by ("char" or "word": each line then ends in "<eos>"), words
-- (most of a vocabulary, which comes from the training part; the others are
-- "<unk>"), test (the share of a single file set apart, 0.1), seed (of the
-- sentences), dir, download.
function data.text(o)
  o = args.read(o, {"name", "files", "by", "words", "test", "dir",
                    "download", "seed"}, "data.text")
  if o.words ~= nil and (math.type(o.words) ~= "integer" or o.words < 2) then
    core.error("invalid_argument", "data.text: words must be an integer >= 2")
  end
  return text.load(o)
end

--- Advertisements shown and clicked, generated by a known rule: .train and
-- .test with .sparse (int64 {n, 6}: user, item, site, hour, segment, category),
-- .dense (float32 {n, 4}), .labels (int64 {n}: clicked or not), and .chances
-- (float32 {n}): the probability that each label was drawn with, so that the
-- best possible loss is known. d.sizes: how many ids each sparse feature has;
-- d.names. Options: train (20000), test (5000), seed, validation.
function data.click_log(o)
  o = args.read(o, {"train", "test", "seed", "validation"}, "data.click_log")
  local d = click_log.load(counts(o,
    {{"train", 20000}, {"test", 5000}, {"seed", 1}}, "data.click_log"))
  return source.with_validation(d, o.validation)
end

-- The last share `test` of the examples apart.
local function split(all, test, what)
  test = test or 0.1
  if type(test) ~= "number" or test < 0 or test >= 1 then
    core.error("invalid_argument", what .. ": test is the share of the "
      .. "examples set apart, from 0 to below 1")
  end
  local n = math.floor(all.size * test)
  return {train = all:take(all.size - n), test = all:take(n, all.size - n)}
end

--- A table of text (td.load_csv) as .train and .test, a column for each of the
-- file's; .names in their order. Options: those of load_csv; shuffle (the rows
-- are mixed before they are cut), seed (1), test (the share set apart, 0.1),
-- validation.
function data.csv(path, o)
  o = args.read(o, {"header", "separator", "types", "missing", "shuffle",
                    "test", "seed", "validation"}, "data.csv")
  args.expect(path, "string", "data.csv: the file")
  local columns, names = files.load_csv(path, {
    header = o.header, separator = o.separator, types = o.types,
    missing = o.missing})
  local all = dataset.new(columns)
  if o.shuffle then all = all:shuffled{seed = o.seed or 1} end
  local d = split(all, o.test, "data.csv")
  d.names = names
  return source.with_validation(d, o.validation)
end

--- Pictures in folders, one for each class: .train and .test with .images
-- (float32 {n, height, width, channels}, 0 to 1) and .labels (int64 {n}),
-- mixed; .classes, the folders' names in order. PNG, JPEG and BMP.
-- Options: size ({height, width}: all are made this size; without it they must
-- have one), channels (3), test (the share set apart, 0.1), seed (1),
-- validation.
function data.images(dir, o)
  o = args.read(o, {"size", "channels", "test", "seed", "validation"},
                "data.images")
  local columns, scales, classes = folder.load(dir, o)
  local all = dataset.new(columns, scales)
  local d = split(all:shuffled{seed = o.seed or 1}, o.test, "data.images")
  d.classes = classes
  return source.with_validation(d, o.validation)
end

--- A data set of your own: of{images = value, labels = value}.
function data.of(columns)
  if not args.plain(columns) or columns[1] ~= nil then
    core.error("invalid_argument", ("data.of takes columns by name, as in "
      .. "{images = x, labels = y}; given %s"):format(args.plain(columns)
      and "a list" or args.what(columns)))
  end
  local values = {}
  for name, x in pairs(columns) do
    local kind = core.kind(x)
    if kind and kind ~= "tensor" then
      core.error("invalid_argument", ("data.of: column \"%s\" is a %s; columns "
        .. "are values, such as td.tensor, td.value.zeros and sess:run give")
        :format(name, args.what(x)))
    end
    values[name] = kind and x or core.tensor(x)
  end
  return dataset.new(values)
end

-- ---- pipelines --------------------------------------------------------------

--- A pipeline over the records of TFRecord files: columns record and key
-- ("file:offset"). paths: a path, a pattern ("data/*.tfrecord") or a list.
-- Options: compression ("GZIP", "ZLIB"), shard {k, n}, shuffle_files (anew for
-- each epoch), seed, skip_errors (bad places of a file that are passed over;
-- math.huge). Then p:map(f), filter, shuffle, batch, padded_batch, bucket,
-- repeat_, take, skip, prefetch, and for b in p:batches(n) or p:next().
function data.records(paths, o)
  return sources.records(paths, o)
end

--- A pipeline over the lines of text files: columns line and key
-- ("file:number"). Options as of records, and skip_lines.
function data.lines(paths, o)
  return sources.lines(paths, o)
end

--- A pipeline over records of a fixed number of bytes: columns record and key.
-- Options as of records, and header, footer, hop.
function data.fixed(paths, bytes, o)
  return sources.fixed(paths, bytes, o)
end

--- A pipeline over the columns of .csv files, line by line. Options as of
-- records, and columns (their names; without it the first line has them),
-- types, missing, separator, parallel.
function data.csv_files(paths, o)
  return sources.csv_files(paths, o)
end

--- A pipeline over pictures in folders, one for each class: columns image
-- (float32, 0 to 1), label (int64) and key. Options: size, channels, shard,
-- shuffle_files, seed, parallel.
-- @return the pipeline, and the folders' names in order
function data.image_files(dir, o)
  return sources.image_files(dir, o)
end

--- The records of a TFRecord file, for a generic `for`: each with its key,
-- "path:offset".
-- @param path the file's; any file system's
-- @param[opt] o compression = "", "ZLIB" or "GZIP"; skip_errors = n: damaged
-- places that are passed over, -1 for any number, before one raises
-- data_loss; limit: bytes of a record at most (2^30)
-- @usage for record, key in td.data.read_records(p) do print(key, #record) end
function data.read_records(path, o)
  o = args.read(o, {"compression", "skip_errors", "limit"}, "read_records")
  return record_files.read_records(path, o)
end

return data
