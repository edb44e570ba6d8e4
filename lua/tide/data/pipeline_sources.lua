--- data/pipeline_sources.lua - where the elements of pipelines come from: files
-- of records, lines, columns, pictures; values in memory.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local folder = require "tide.data.folder"
local namespace = require "tide.ops"
local pipeline = require "tide.data.pipeline"

local sources = {}

local fail = errors.invalid

local function integer(x, what, low)
  args.expect(x, "integer", what)
  if x < low then fail("%s must be at least %d, not %d", what, low, x) end
  return x
end

local function seed_option(o, what)
  if o.seed ~= nil then args.expect(o.seed, "integer", what .. ": seed") end
  return o.seed
end

-- ---- files ------------------------------------------------------------------

local source_options = {"shard", "shuffle_files", "seed", "compression",
                        "skip_errors"}

local function shard_of(o, what)
  local s = o.shard
  if s == nil then return 0, 1 end
  if type(s) ~= "table" or math.type(s[1]) ~= "integer"
     or math.type(s[2]) ~= "integer" or s[1] < 0 or s[1] >= s[2] then
    fail("%s: shard is {k, n}: part k of n, counted from 0", what)
  end
  return s[1], s[2]
end

-- A pattern (sorted), a path or a list of these.
local function paths_of(files, what)
  if type(files) == "string" then files = {files} end
  args.check_list(files, what .. ": files")
  local list = {}
  for _, f in ipairs(files) do
    args.expect(f, "string", what .. ": a file")
    if f:find "[*?%[]" then
      local before = #list
      for path in core.matching_files(f):gmatch "[^\0]+" do
        list[#list + 1] = path
      end
      if #list == before then
        errors.raise("not_found", "%s: no file is like \"%s\"", what, f)
      end
    else
      list[#list + 1] = f
    end
  end
  if #list == 0 then fail("%s: no files are given", what) end
  return list
end

-- A pipeline over files; more(o) gives what is of one format, `extra` its
-- options.
local function from_files(what, column, files, o, more, extra)
  local allowed = {table.unpack(source_options)}
  table.move(extra, 1, #extra, #allowed + 1, allowed)
  o = args.read(o, allowed, what)
  local paths = paths_of(files, what)
  local first, step = shard_of(o, what)
  if o.skip_errors == math.huge then o.skip_errors = -1 end
  local spec = {compression = o.compression or "", first = first, step = step,
                skip_errors = integer(o.skip_errors or 0,
                                      what .. ": skip_errors", -1),
                shuffle = o.shuffle_files == true}
  for key, value in pairs(more(o)) do spec[key] = value end
  return pipeline.new(("%s(%d files)"):format(what, #paths), {column, "key"},
    function(seed)
      spec.seed = seed
      return core.pipeline_files(paths, spec)
    end, {seed = seed_option(o, what), draws = spec.shuffle})
end

--- The records of TFRecord files: columns record and key ("file:offset").
-- files: a path, a pattern ("data/*.tfrecord") or a list. Options: compression
-- ("GZIP", "ZLIB"), shard {k, n}, shuffle_files (anew for each epoch), seed,
-- skip_errors (bad places of a file that are passed over; math.huge).
function sources.records(files, o)
  return from_files("records", "record", files, o,
                    function() return {format = 0} end, {})
end

--- The lines of text files: columns line and key ("file:number"). Options as of
-- records, and skip_lines, of the beginning of each file. A pipe's lines are
-- given as they come; a loop that is interrupted there can go on.
function sources.lines(files, o)
  return from_files("lines", "line", files, o, function(opts)
    return {format = 1, skip_lines = integer(opts.skip_lines or 0,
                                             "lines: skip_lines", 0)}
  end, {"skip_lines"})
end

--- Records of a fixed number of bytes: columns record and key. Options as of
-- records, and header and footer, bytes before and after all, and hop, from one
-- record to the next.
function sources.fixed(files, bytes, o)
  integer(bytes, "fixed: bytes", 1)
  return from_files("fixed", "record", files, o, function(opts)
    return {format = 2, record = bytes,
            header = integer(opts.header or 0, "fixed: header", 0),
            footer = integer(opts.footer or 0, "fixed: footer", 0),
            hop = integer(opts.hop or 0, "fixed: hop", 0)}
  end, {"header", "footer", "hop"})
end

-- ---- values in memory -------------------------------------------------------

--- The rows of values by column, all of one size. Options shard, shuffle, seed.
function sources.rows(columns, o)
  o = args.read(o, {"shard", "shuffle", "seed"}, "rows")
  local names, values = args.sorted_keys(columns), {}
  for i, name in ipairs(names) do
    pipeline.check_name(name, "rows")
    values[i] = core.kind(columns[name]) == "tensor" and columns[name]
      or core.tensor(columns[name])
  end
  local first, step = shard_of(o, "rows")
  return pipeline.new(("rows(%d)"):format(values[1] and values[1]:dim(0) or 0),
    names, function(seed)
      return core.pipeline_rows(values, {first = first, step = step,
                                         shuffle = o.shuffle, seed = seed})
    end, {seed = seed_option(o, "rows"), draws = o.shuffle == true})
end

-- ---- columns of text --------------------------------------------------------

-- The names in the first line of a file, of whatever file system.
local function header_of(path, o)
  local p = core.pipeline_files({path}, {format = 1, step = 1,
                                         compression = o.compression})
  local line = p:take()
  p:close()
  if not line then
    errors.raise("out_of_range", "csv_files: %s has no line of names", path)
  end
  return core.csv_names(line:item(), path, o.separator)
end

local function column_names(o, paths)
  if not o.columns then return header_of(paths[1], o) end
  args.check_list(o.columns, "csv_files: columns")
  for _, name in ipairs(o.columns) do
    pipeline.check_name(name, "csv_files: columns")
  end
  return o.columns
end

local csv_types = {"float32", "float64", "int32", "int64", "string"}

-- A table by column, each of them there; or one value for all.
local function by_column(x, names, what)
  if x == nil or not args.plain(x) then return function() return x end end
  for _, name in ipairs(args.sorted_keys(x)) do
    if not args.holds(names, name) then
      fail("csv_files: %s: there is no column \"%s\"%s", what, name,
           errors.did_you_mean(name, names))
    end
  end
  return function(name) return x[name] end
end

-- What an empty field is, for each column: a value, or none of its dtype.
local function defaults_of(names, o)
  local types = by_column(o.types, names, "types")
  local missing = by_column(o.missing, names, "missing")
  local list = {}
  for i, name in ipairs(names) do
    local dtype = types(name) or "float32"
    if not args.holds(csv_types, dtype) then
      fail("csv_files: column \"%s\" cannot be %s; it can be %s", name,
           tostring(dtype), table.concat(csv_types, ", "))
    end
    local fill = missing(name)
    if fill == nil and dtype == "string" then fill = "" end
    list[i] = fill ~= nil and core.tensor(fill, dtype)
      or core.tensor({}, dtype, {0})
  end
  return list
end

--- The columns of .csv files, line by line: a scalar for each, and key
-- ("file:line"). All files have the same columns, and no line ends within
-- quotes. Options as of records, and columns, their names (without it the first
-- line of each file has them), types ("float32", or {name = dtype}: "int64",
-- "string", ...), missing, for empty fields (a value, or {name = value};
-- without it an empty field is an error), separator (","), parallel (as of
-- map).
function sources.csv_files(files, o)
  o = args.read(o, {"columns", "types", "missing", "separator", "parallel",
                    table.unpack(source_options)}, "csv_files")
  o.separator = o.separator or ","
  local paths = paths_of(files, "csv_files")
  local names = column_names(o, paths)
  local defaults = defaults_of(names, o)
  local lines = {skip_lines = o.columns and 0 or 1}
  for _, key in ipairs(source_options) do lines[key] = o[key] end
  return sources.lines(paths, lines):map(function(e)
    local fields = namespace.ops.decode_csv(e.line, defaults,
                                      {field_delim = o.separator})
    local columns = {key = e.key}
    for i, name in ipairs(names) do columns[name] = fields[i] end
    return columns
  end, {parallel = o.parallel})
end

-- ---- pictures ---------------------------------------------------------------

--- The pictures in the folders of `dir`, one folder for each class: image
-- (float32 {height, width, channels}, 0 to 1), label (int64, the number of the
-- folder) and key, the path. PNG, JPEG, BMP. Options: size ({height, width}:
-- all are made this size), channels (3), shard, shuffle_files (their order,
-- anew for each epoch), seed, parallel (as of map).
-- @return the pipeline, and the folders' names in order
function sources.image_files(dir, o)
  o = args.read(o, {"size", "channels", "shard", "shuffle_files", "seed",
                    "parallel"}, "image_files")
  args.expect(dir, "string", "image_files: the folder")
  local found, classes = folder.find(dir)
  local paths, labels = {}, {}
  for i, entry in ipairs(found) do
    paths[i], labels[i] = entry[1], entry[2]
  end
  local files = sources.rows({key = core.tensor(paths, "string"),
                              label = core.tensor(labels, "int64")},
    {shard = o.shard, shuffle = o.shuffle_files, seed = o.seed})
  local channels = o.channels or 3
  return files:map(function(e)
    local image = core.add("DecodeImage", {core.add("ReadFile", {e.key})},
      {channels = channels, expand_animations = false})
    image = core.add("Cast", {image}, {DstT = "float32"}) / 255
    core.set_shape(image, {-1, -1, channels})
    if o.size then
      image = core.add("ResizeBilinear",
        {core.add("ExpandDims", {image, 0}), o.size})
      image = core.add("Squeeze", {image}, {squeeze_dims = {0}})
    end
    return {image = image, label = e.label, key = e.key}
  end, {parallel = o.parallel}), classes
end

return sources
