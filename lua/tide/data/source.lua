--- data/source.lua - where a data set's files come from.
--
-- A source names its files, with digests of what is in them (unpacked). They
-- are looked for in a folder that is given, else in `--data DIR`, $TIDE_DATA
-- and the cache; each may be the folder itself or have it under the set's name;
-- a file may be there as file.gz. Nothing is downloaded unasked.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dataset = require "tide.data.dataset"

local source = {}

local LIMIT = 1 << 30 -- bytes of one file, packed or not

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
function source.cache_dir()
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

--- Folders to search for data set `name`, the first being what was asked for.
function source.folders(name, dir)
  local list = {}
  add(list, dir, name)
  if #list > 0 then return list end
  add(list, data_argument(), name)
  add(list, os.getenv "TIDE_DATA", name)
  list[#list + 1] = source.cache_dir() .. "/" .. name
  return list
end

--- Bytes of a file, unpacked when only file.gz is there; nil when neither is.
function source.read(path)
  if core.exists(path) then return core.read_file(path, LIMIT) end
  if not core.exists(path .. ".gz") then return nil end
  return core.gunzip(core.read_file(path .. ".gz", LIMIT), LIMIT)
end

-- All files of a list in one folder, or nil.
local function read_all(dir, files)
  local bytes = {}
  for i, file in ipairs(files) do
    bytes[i] = source.read(dir .. "/" .. file[1])
    if not bytes[i] then return nil end
  end
  return bytes
end

-- Their paths: of the plain ones, else of the packed ones, or nil.
local function all_paths(dir, files)
  for _, ending in ipairs{"", ".gz"} do
    local paths = {}
    for i, file in ipairs(files) do
      local path = dir .. "/" .. file[1] .. ending
      paths[i] = core.exists(path) and path or nil
    end
    if #paths == #files then return paths end
  end
end

local function check_digest(from, bytes, want)
  local digest = core.sha256(bytes)
  if digest ~= want then
    core.error("data_loss", from .. " has digest " .. digest
      .. ", expected " .. want)
  end
end

-- The files from `url`/file.gz, checked, into the cache.
local function download_files(spec, url, dir)
  for _, file in ipairs(spec.files) do
    local from = ("%s/%s.gz"):format(url, file[1])
    local packed = core.download(from, LIMIT)
    check_digest(from, core.gunzip(packed, LIMIT), file[2])
    core.write_file(dir .. "/" .. file[1] .. ".gz", packed)
  end
end

-- The plain file that is all there is to download.
local function download_one(spec, dir)
  local file, bytes = spec.files[1], core.download(spec.from, LIMIT)
  check_digest(spec.from, bytes, file[2])
  core.write_file(dir .. "/" .. file[1], bytes)
end

-- Regular files of a tar archive: {name = bytes}, folders taken off the names.
local function untar(bytes)
  local files, at = {}, 1
  while at + 511 <= #bytes do
    local name = bytes:sub(at, at + 99):match "^[^\0]*"
    local size = tonumber(bytes:sub(at + 124, at + 134):match "^[0-7]*", 8)
    if name == "" or not size then break end
    local kind = bytes:sub(at + 156, at + 156)
    if kind == "0" or kind == "\0" then
      files[name:match "[^/]*$"] = bytes:sub(at + 512, at + 511 + size)
    end
    at = at + 512 + (size + 511) // 512 * 512
  end
  return files
end

local function download_archive(spec, dir)
  local packed = core.download(spec.archive, LIMIT)
  local found = untar(core.gunzip(packed, LIMIT))
  for _, file in ipairs(spec.files) do
    local bytes = found[file[1]] or ""
    check_digest(file[1] .. " in " .. spec.archive, bytes, file[2])
    core.write_file(dir .. "/" .. file[1], bytes)
  end
end

-- From $TIDE_DATA_URL, or where the set is published when that was asked for,
-- into the folder that is returned.
local function download(spec, asked)
  local mirror = os.getenv "TIDE_DATA_URL"
  if mirror == "" then mirror = nil end
  if not mirror and not asked then return nil end
  local dir = source.cache_dir() .. "/" .. spec.name
  core.mkdirs(dir)
  if mirror then
    download_files(spec, mirror:gsub("/$", "") .. "/" .. spec.name, dir)
  elseif spec.url then
    download_files(spec, spec.url, dir)
  elseif spec.archive then
    download_archive(spec, dir)
  else
    download_one(spec, dir)
  end
  return dir
end

-- What look(dir, files) gives for the first folder that has a source's files,
-- and the list of these; nil when they are nowhere, and it was said on stderr
-- that `instead` is used.
local function search(spec, o, instead, look)
  if o.dir ~= nil then args.expect(o.dir, "string", "data: dir") end
  local searched = source.folders(spec.name, o.dir)
  for _, dir in ipairs(searched) do
    for _, files in ipairs{spec.files, table.unpack(spec.other or {})} do
      local found = look(dir, files)
      if found then return found, files end
    end
  end
  if o.dir and o.dir ~= "" then
    core.error("not_found", ("no %s in %s: %s%s needed; without dir it is "
      .. "looked for in $TIDE_DATA, else made up"):format(
      spec.title, o.dir, spec.files[1][1],
      #spec.files > 1 and (" and %d more are"):format(#spec.files - 1)
        or " is"))
  end
  local dir = spec.files[1][2] and download(spec, o.download)
  if dir then return look(dir, spec.files), spec.files end
  io.stderr:write("no ", spec.title, " in ", table.concat(searched, ", "),
                  ": using ", instead, "\n")
end

--- Bytes of the files of a source, in the order of spec.files; nil when they
-- are nowhere, and it was said on stderr that `instead` is used.
-- @param spec name; files, a list of {file, digest}; other, a list of such
-- lists that do as well; where to download: url (of a folder of file.gz),
-- archive (a .tar.gz) or from (one file)
-- @param o dir: a folder that must have them; download = true: may be fetched
-- @return list of bytes, list of files
function source.find(spec, o, instead)
  return search(spec, o, instead, read_all)
end

--- Paths of the files that source.find would read, for what reads them as it
-- goes along; all of them are there as they are, or all as file.gz.
-- @return list of paths
function source.paths(spec, o, instead)
  return (search(spec, o, instead, all_paths))
end

--- Sets the last `n` training examples apart as .validation.
function source.with_validation(d, n)
  dataset.parts(d)
  if n == nil or n == 0 then return d end
  if math.type(n) ~= "integer" or n < 1 or n >= d.train.size then
    core.error("invalid_argument", ("validation is a number of examples that "
      .. "leaves some to train on; there are %d, given %s"):format(d.train.size,
                                                            tostring(n)))
  end
  local all = d.train
  d.train = all:take(all.size - n)
  d.validation = all:take(n, all.size - n)
  return d
end

return source
