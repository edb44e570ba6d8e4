--- cli/checkpoint.lua - `tide checkpoint PATH`: what a checkpoint holds, if it
-- is whole, what differs between two, and the same in another format.
--
-- Tensors are read one at a time: the largest is what it takes of memory, of
-- two files the largest of each.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"
local json = require "tide.base.json"
local style = require "tide.show.style"
local tables = require "tide.show.tables"
local tensor_files = require "tide.train.tensor_files"
local value = require "tide.show.value"

local USAGE = [[
usage: tide checkpoint PATH [--verify | --diff PATH | --to FILE] [--json]

Lists the tensors of a checkpoint. PATH is its prefix (what stands before
".index"), a folder, whose newest whole checkpoint counts, the one file of a
checkpoint of TensorFlow's first version, or a .npz or .safetensors file.
Entries of Tide's own, such as random streams, stand apart.

  --verify      read every byte, compare it with its check, name what is broken
  --diff PATH   what another one has otherwise: names, dtypes, shapes, values
  --to FILE     write the tensors into FILE.npz, FILE.safetensors or, by any
                other name, a checkpoint of that prefix
  --json        the same for programs

The exit code is 1 when something is broken or differs.
]]

local OURS = "_tide/"

local function is_ours(name) return name:sub(1, #OURS) == OURS end

local function printable(name)
  if name:find "%c" or not utf8.len(name) then return value.quote(name) end
  return name
end

local function counted(n, what)
  return ("%d %s%s"):format(n, what, n == 1 and "" or "s")
end

-- dtype and shape, as text.
local function type_of(e)
  return ("%s %s"):format(e.dtype or e.kind, e.shape)
end

local function bytes_in(list)
  local sum = 0
  for _, e in ipairs(list) do sum = sum + e.bytes end
  return sum
end

-- The entries whose names are Tide's own, or those that are not.
local function part(list, ours)
  local some = {}
  for _, e in ipairs(list) do
    if is_ours(e.name) == ours then some[#some + 1] = e end
  end
  return some
end

-- ---- listing ----------------------------------------------------------------

local function plain(shape)
  local list = json.array{}
  for i = 1, #shape do list[i] = shape[i] end
  return list
end

local function records(list)
  local rows = json.array{}
  for i, e in ipairs(list) do
    rows[i] = {name = e.name, dtype = e.dtype or e.kind, shape = plain(e.shape),
               bytes = e.bytes, shard = e.shard, slices = e.slices}
  end
  return rows
end

local function print_table(list)
  local rows, names = {}, {"name", "dtype", "shape", "bytes", "shard"}
  local right = {false, false, false, true, true}
  if not list[1].shard then names[5] = nil end
  for i, e in ipairs(list) do
    local shard = e.shard
    if e.slices then shard = counted(#e.slices, "slice") end
    rows[i] = {printable(e.name), e.dtype or e.kind, tostring(e.shape),
               tostring(e.bytes), shard and tostring(shard)}
  end
  print(tables.layout(rows, names, math.huge, right))
end

local function list_all(r, path, o)
  local list = r:list()
  local users, own = part(list, false), part(list, true)
  local shards = r.shards and r:shards()
  if o.json then
    print(json.encode{path = path, kind = tensor_files.kind_of(path),
                      shards = shards, bytes = bytes_in(list),
                      tensors = records(users), tide = records(own),
                      metadata = r.metadata and json.object(r:metadata())})
    return 0
  end
  if #users > 0 then print_table(users) end
  if #own > 0 then
    print(#users > 0 and "\nTide's own:" or "Tide's own:")
    print_table(own)
  end
  local total = counted(#list, "tensor") .. ", " .. style.bytes(bytes_in(list))
  if shards then total = total .. " in " .. counted(shards, "shard") end
  print((#list > 0 and "\n" or "") .. path .. ": " .. total)
  return 0
end

-- ---- verifying --------------------------------------------------------------

-- The names that cannot be read, each with why.
local function broken_in(r, list)
  local broken, read = {}, tensor_files.reading(r, list)
  for _, e in ipairs(list) do
    local ok, err = true, nil
    if e.dtype then ok, err = pcall(read, e.name) end
    if not ok then
      if type(err) ~= "table" or err.code ~= "data_loss" then error(err, 0) end
      broken[#broken + 1] = {name = e.name, message = err.message}
    end
  end
  return broken
end

-- What is told of a file in which nothing is broken.
local held = {checkpoint = "every byte fits its check",
              npz = "every byte fits its check",
              safetensors = "all tensors lie within the file, which has no "
                .. "checks of their bytes"}

local function verify(r, path, o)
  local list = r:list()
  local whole = r.verify and pcall(r.verify, r)
  local broken = whole and {} or broken_in(r, list)
  if o.json then
    print(json.encode{path = path, tensors = #list, bytes = bytes_in(list),
                      ok = #broken == 0, broken = json.array(broken)})
  else
    for _, b in ipairs(broken) do
      print(("broken: %s: %s"):format(printable(b.name), b.message))
    end
    print(("%s: %s, %s: %s"):format(path, counted(#list, "tensor"),
      style.bytes(bytes_in(list)), #broken > 0 and #broken .. " broken"
        or held[tensor_files.kind_of(path)]))
  end
  return #broken > 0 and 1 or 0
end

-- ---- comparing --------------------------------------------------------------

local function by_name(list)
  local map = {}
  for _, e in ipairs(list) do map[e.name] = e end
  return map
end

-- How two tensors of a name differ, as a row; nil where they do not.
local function row_of(x, y, read_x, read_y)
  local row = {name = x.name, a = type_of(x), b = type_of(y)}
  if row.a ~= row.b then return row end
  local a = read_x(x.name)
  local n, largest = core.difference(a, read_y(x.name))
  if n == 0 then return nil end
  row.differ, row.of = n, a.size
  if a.dtype ~= "string" then row.largest = largest end
  return row
end

local function differences(a, b, list_a, list_b)
  local rows = json.array{}
  local of_a, of_b = by_name(list_a), by_name(list_b)
  local read_a = tensor_files.reading(a, list_a)
  local read_b = tensor_files.reading(b, list_b)
  for _, x in ipairs(list_a) do
    local y = of_b[x.name]
    rows[#rows + 1] = y and row_of(x, y, read_a, read_b)
      or not y and {name = x.name, a = type_of(x)} or nil
  end
  for _, y in ipairs(list_b) do
    if not of_a[y.name] then
      rows[#rows + 1] = {name = y.name, b = type_of(y)}
    end
  end
  return rows
end

local function text_of(row, path_a, path_b)
  local name = printable(row.name)
  if not row.b then
    return ("%s: only in %s: %s"):format(name, path_a, row.a)
  end
  if not row.a then
    return ("%s: only in %s: %s"):format(name, path_b, row.b)
  end
  if not row.differ then return ("%s: %s and %s"):format(name, row.a, row.b) end
  local by = row.largest and (", by at most %.6g"):format(row.largest) or ""
  return ("%s: %d of %d elements differ%s"):format(name, row.differ, row.of, by)
end

local function compare(r, path, o)
  local other <close>, other_path = tensor_files.open(o.diff, "--diff")
  local list, other_list = r:list(), other:list()
  if not (r.shards and other.shards) then -- only checkpoints have what is ours
    list, other_list = part(list, false), part(other_list, false)
  end
  local rows = differences(r, other, list, other_list)
  if o.json then
    print(json.encode{a = path, b = other_path, same = #rows == 0,
                      differences = rows})
  else
    for _, row in ipairs(rows) do print(text_of(row, path, other_path)) end
    print(#rows == 0 and "no difference in " .. counted(#list, "tensor")
          or counted(#rows, "difference"))
  end
  return #rows > 0 and 1 or 0
end

-- ---- converting -------------------------------------------------------------

local function convert(r, _, o)
  local list, left = r:list(), {}
  if tensor_files.kind_of(o.to) ~= "checkpoint" then
    left = part(list, true)
    list = part(list, false)
  elseif core.is_folder(o.to) then
    errors.invalid("--to: '%s' is a folder; a checkpoint's prefix is a path "
      .. "such as '%s/model'", o.to, (o.to:gsub("/+$", "")))
  end
  for _, e in ipairs(list) do
    if not e.dtype then
      errors.raise("unimplemented", "tensor '%s' has dtype %s, which has no "
        .. "counterpart here", e.name, e.kind)
    end
  end
  tensor_files.write(o.to, list, tensor_files.reading(r, list),
                     r.metadata and r:metadata())
  if o.json then
    print(json.encode{path = o.to, tensors = #list, bytes = bytes_in(list),
                      left_out = records(left)})
  else
    print(("%s: %s, %s"):format(o.to, counted(#list, "tensor"),
                                style.bytes(bytes_in(list))))
    if #left > 0 then
      print(("left out: %s of Tide's own (%s...)"):format(
        counted(#left, "tensor"), OURS))
    end
  end
  return 0
end

-- ---- the command ------------------------------------------------------------

local switches = {["--verify"] = "verify", ["--json"] = "json"}
local takes_path = {["--diff"] = "diff", ["--to"] = "to"}

-- The options and .path; nil where they are not to be understood.
local function parse(args)
  local o, i = {}, 1
  while i <= #args do
    local a = args[i]
    if switches[a] then
      o[switches[a]] = true
    elseif takes_path[a] and args[i + 1] then
      i = i + 1
      o[takes_path[a]] = args[i]
    elseif a:sub(1, 1) == "-" or o.path then
      return nil
    else
      o.path = a
    end
    i = i + 1
  end
  local tasks = (o.verify and 1 or 0) + (o.diff and 1 or 0) + (o.to and 1 or 0)
  return o.path and tasks <= 1 and o or nil
end

--- Runs the command; returns its exit code.
return function(args)
  if args[1] == "--help" or args[1] == "-h" then
    io.write(USAGE)
    return 0
  end
  local o = parse(args)
  if not o then
    io.stderr:write(USAGE)
    return 2
  end
  local r <close>, path = tensor_files.open(o.path, "checkpoint")
  local task = o.verify and verify or o.diff and compare or o.to and convert
    or list_all
  return task(r, path, o)
end
