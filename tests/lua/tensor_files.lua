-- tensor_files.lua - named tensors on disk: .safetensors, checkpoints looked at
-- from outside, one kind of file made of another.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"
local tensor_files = require "tide.train.tensor_files"

local raises = helper.raises
local tests = {}

-- Calls f with a folder that goes after.
local function in_folder(f)
  local dir = os.tmpname()
  os.remove(dir)
  core.mkdirs(dir)
  local ok, err = pcall(f, dir)
  os.execute("rm -rf '" .. dir .. "'")
  if not ok then error(err, 0) end
end

local function same(a, b)
  lu.assertTrue(core.same(a, b), tostring(a) .. " and " .. tostring(b))
end

local function save(prefix, tensors)
  local w <close> = core.checkpoint_writer(prefix)
  for name, x in pairs(tensors) do w:add(name, td.tensor(x)) end
  w:commit()
end

local function overwrite(path, from, to, text)
  local bytes = core.read_file(path)
  core.write_file(path, bytes:sub(1, from) .. text .. bytes:sub(to))
end

-- ---- .safetensors -----------------------------------------------------------

local DTYPES = {"float16", "bfloat16", "float32", "float64", "int8", "int16",
                "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
                "complex64"}

function tests.safetensors_of_each_dtype()
  in_folder(function(dir)
    local path, values = dir .. "/a.safetensors", {}
    for _, dtype in ipairs(DTYPES) do
      local x = td.tensor{{1, 0, 3}, {4, 5, 1}}
      values["t/" .. dtype] = td.cast(x, dtype)
    end
    values.scalar, values[""] = td.tensor(7), td.tensor({}, "float64")
    local told = {by = "me", ["\u{e9}\n"] = ""}
    td.save_safetensors(path, values, {metadata = told})
    for _, mmap in ipairs{false, true} do
      local back, metadata = td.load_safetensors(path, {mmap = mmap})
      for name, x in pairs(values) do
        same(back[name], x)
        back[name] = nil
      end
      lu.assertNil(next(back))
      lu.assertEquals(metadata, told)
    end
  end)
end

function tests.safetensors_in_part()
  in_folder(function(dir)
    local path = dir .. "/a.safetensors"
    td.save_safetensors(path, {a = {1.5, 2}, b = {true}, c = 3})
    local some = td.load_safetensors(path, {only = {"c", "b"}})
    lu.assertNil(some.a)
    lu.assertEquals(some.c:item(), 3)
    raises('no tensor \'aa\' among its 3 (did you mean "a"?)',
           td.load_safetensors, path, {only = {"aa"}})
    raises("only must be a table", td.load_safetensors, path, {only = "a"})
    raises("did you mean \"mmap\"", td.load_safetensors, path, {mmaped = true})
    td.save_safetensors(path, {})
    lu.assertNil(next((td.load_safetensors(path))))
  end)
end

-- Mapped values outlive the file's name, and take no memory that is counted.
function tests.safetensors_mapped()
  in_folder(function(dir)
    local path = dir .. "/a.safetensors"
    td.save_safetensors(path, {a = td.value.ones{1000}, b = td.tensor{1, 2}})
    local mapped = td.load_safetensors(path, {mmap = true})
    os.remove(path)
    lu.assertEquals(mapped.a:sum():item(), 1000)
    lu.assertEquals((mapped.a + 1):sum():item(), 2000)
    lu.assertEquals(mapped.a:sum():item(), 1000)
    lu.assertEquals(mapped.b:table(), {1, 2})
  end)
end

function tests.safetensors_refused()
  in_folder(function(dir)
    local path = dir .. "/a.safetensors"
    raises("'words': .safetensors files hold no string", td.save_safetensors,
           path, {words = "a"})
    raises("'c': .safetensors files hold no complex128: cast it to complex64",
           td.save_safetensors, path, {c = td.tensor({1}, "complex128")})
    raises("metadata.x must be a string", td.save_safetensors, path, {},
           {metadata = {x = 1}})
    raises("cannot open", td.save_safetensors, dir .. "/none/a", {})
    lu.assertFalse(core.exists(path))
    core.write_file(path, "not at all one of these")
    raises("a.safetensors' is no readable .safetensors file",
           td.load_safetensors, path)
  end)
end

-- ---- checkpoints ------------------------------------------------------------

function tests.variables_of_a_checkpoint()
  in_folder(function(dir)
    local prefix = dir .. "/m"
    save(prefix, {["a/w"] = {{1.5, 2, 3}}, n = 5, words = {"x", "yz"}})
    local list = td.train.list_variables(prefix)
    lu.assertEquals(#list, 3)
    lu.assertEquals({list[1].name, list[1].dtype}, {"a/w", "float32"})
    lu.assertTrue(list[1].shape == {1, 3})
    lu.assertEquals(td.train.load_variable(prefix, "words"):table(),
                    {"x", "yz"})
    lu.assertEquals(td.train.load_variable(prefix .. ".index", "n"):item(), 5)
    lu.assertEquals(td.train.verify_checkpoint(prefix), prefix)
    raises('no tensor "a/v" (did you mean "a/w"?)', td.train.load_variable,
           prefix, "a/v")
    raises("must be a string", td.train.load_variable, prefix)
    raises("nowhere", td.train.list_variables, dir .. "/nowhere")
  end)
end

-- What f writes to stderr.
local function told_by(f)
  local stderr, parts = io.stderr, {}
  local function write(_, ...)
    parts[#parts + 1] = table.concat{...}
  end
  rawset(io, "stderr", {write = write, flush = function() end})
  local ok, err = pcall(f)
  rawset(io, "stderr", stderr)
  if not ok then error(err, 0) end
  return table.concat(parts)
end

-- Of a folder the newest: what its state file says, else by the step.
function tests.newest_of_a_folder()
  in_folder(function(dir)
    raises("no checkpoint in", td.train.verify_checkpoint, dir)
    for _, n in ipairs{9, 10, 8} do save(dir .. "/m-" .. n, {n = n}) end
    local function newest() return td.train.load_variable(dir, "n"):item() end
    lu.assertEquals(newest(), 10)
    core.write_file(dir .. "/checkpoint", 'model_checkpoint_path: "m-9"\n'
      .. 'all_model_checkpoint_paths: "m-8"\n'
      .. 'all_model_checkpoint_paths: "m-10"\n'
      .. 'all_model_checkpoint_paths: "m-9"\n')
    lu.assertEquals(newest(), 9)
    os.remove(dir .. "/m-9.data-00000-of-00001")
    local told = told_by(function() lu.assertEquals(newest(), 10) end)
    helper.contains(told, "warning: load_variable: passed over", "/m-9.data",
                    "is missing", "taking the one before")
    overwrite(dir .. "/m-10.index", 0, 9, "damaged")
    told_by(function() lu.assertEquals(newest(), 8) end)
    core.write_file(dir .. "/checkpoint", "\0\1")
    os.remove(dir .. "/m-8.data-00000-of-00001")
    told_by(function() raises("m-10.index' is damaged", newest) end)
  end)
end

-- Mapped values outlive the checkpoint; what cannot be mapped is read.
function tests.variables_mapped()
  in_folder(function(dir)
    local prefix = dir .. "/m"
    save(prefix, {w = td.value.ones{1000}, words = {"x"}, n = {1, 2}})
    local function get(name)
      return td.train.load_variable(prefix, name, {mmap = true})
    end
    local w, words, n = get "w", get "words", get "n"
    local data = prefix .. ".data-00000-of-00001"
    overwrite(prefix .. ".index", 0, 9, "damaged")
    os.remove(data)
    lu.assertEquals((w + 1):sum():item(), 2000)
    lu.assertEquals({words:table(), n:table()}, {{"x"}, {1, 2}})
    save(prefix, {w = {1.0, 2.0}})
    overwrite(data, 3, 5, "\7")
    raises('tensor "w": the check', get, "w")
    raises("mmap must be a boolean", td.train.load_variable, prefix, "w",
           {mmap = 1})
  end)
end

function tests.damage_is_named()
  in_folder(function(dir)
    local prefix = dir .. "/m"
    save(prefix, {w = {1.0, 2.0}})
    overwrite(prefix .. ".data-00000-of-00001", 3, 5, "\7")
    for _, f in ipairs{"verify_checkpoint", "load_variable"} do
      local e = raises('tensor "w": the check', td.train[f], prefix, "w")
      lu.assertEquals(e and e.code or "data_loss", "data_loss")
    end
    lu.assertEquals(#td.train.list_variables(prefix), 1)
  end)
end

function tests.slices()
  in_folder(function(dir)
    local w <close> = core.checkpoint_writer(dir .. "/m")
    w:add("w", td.tensor{{1, 2}}, "3 2 0,1:-")
    w:add("w", td.tensor{{3, 4}, {5, 6}}, "3 2 1,2:-")
    raises("", w.add, w, "w", td.tensor{{3, 4}}, "3 2 2,1:-")
    raises("", w.add, w, "v", td.tensor{{3, 4}}, "3 2 2,1")
    w:commit()
    local c <close> = core.checkpoint(dir .. "/m")
    local e = c:list()[1]
    lu.assertEquals({e.bytes, #e.slices}, {24, 2})
    lu.assertTrue(e.shape == {3, 2})
    same(c:read "w", td.tensor{{1, 2}, {3, 4}, {5, 6}})
    same(c:read("w", "3 2 0,2:1,1"), td.tensor{{2}, {4}})
    raises("another shape", c.read, c, "w", "4 2 0,2:1,1")
  end)
end

function tests.closed_and_not_committed()
  in_folder(function(dir)
    local w = core.checkpoint_writer(dir .. "/m")
    w:add("a", td.tensor(1))
    raises("a", w.add, w, "a", td.tensor(1))
    raises("", core.checkpoint_writer, dir .. "/m")
    w:close()
    w:close()
    raises("is closed", w.commit, w)
    raises("m.index", core.checkpoint, dir .. "/m")
    save(dir .. "/m", {a = 1})
    local c = core.checkpoint(dir .. "/m")
    lu.assertEquals({c:shards(), c:has "a", c:has "b"}, {1, true, false})
    c:close()
    raises("is closed", c.list, c)
  end)
end

-- ---- from one kind to another -----------------------------------------------

-- What is held at any time is little more than one tensor.
function tests.converted_one_by_one()
  in_folder(function(dir)
    local MIB = 1 << 20
    local list = {}
    for i = 1, 12 do
      list[i] = {name = "t" .. i, dtype = "float32", shape = {MIB},
                 bytes = 4 * MIB}
    end
    local source = {read = function(_, name)
      return td.value.fill({MIB}, tonumber(name:sub(2)) + 0.0)
    end}
    collectgarbage()
    local before, most = core.held(), 0
    local function watched(read)
      return function(name)
        local x = read(name)
        most = math.max(most, core.held() - before)
        return x
      end
    end
    tensor_files.write(dir .. "/m", list,
                       watched(tensor_files.reading(source, list)))
    local path = dir .. "/m"
    for _, to in ipairs{"/a.npz", "/a.safetensors", "/back"} do
      local r <close> = tensor_files.open(path, "test")
      local names = r:list()
      path = dir .. to
      tensor_files.write(path, names,
                         watched(tensor_files.reading(r, names)))
    end
    lu.assertTrue(most <= 24 * MIB, most)
    for i = 1, 12 do
      local x = td.train.load_variable(path, "t" .. i)
      lu.assertEquals({x.size, x[MIB - 1]:item()}, {MIB, i})
    end
  end)
end

return tests
