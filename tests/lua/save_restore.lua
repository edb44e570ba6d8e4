-- save_restore.lua - tensors to checkpoints and back, through the ops of
-- TensorFlow's savers; files and graphs that it wrote (tests/peers/savers.py).
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"

local raises = helper.raises
local raw = td.raw
local golden = "tests/golden/savers/"
local tests = {}

local function folder()
  local path = os.tmpname()
  os.remove(path)
  core.mkdirs(path)
  return path, setmetatable({}, {__close = function()
    os.execute("rm -r " .. path)
  end})
end

-- {name = tensor} to a checkpoint; names, parts and tensors in one order.
local function save(prefix, values, parts)
  local names, slices, tensors = {}, {}, {}
  for name in pairs(values) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    tensors[i], slices[i] = values[name], parts and parts[name] or ""
  end
  return raw.SaveV2(prefix, td.constant(names), td.constant(slices), tensors)
end

local function restore(prefix, names, dtypes, parts)
  local slices = {}
  for i, name in ipairs(names) do slices[i] = parts and parts[name] or "" end
  return raw.RestoreV2(prefix, td.constant(names), td.constant(slices),
                       {dtypes = dtypes})
end

function tests.values_go_there_and_back()
  local dir <const>, _ <close> = folder()
  local s = td.session()
  local w, n = td.constant({{1, 2}, {3, 4}}, "float32"), td.constant(7, "int64")
  local t = td.constant{"moon", ""}
  s:run(save(dir .. "/m", {w = w, n = n, t = t}))
  local got = s:run(restore(dir .. "/m", {"t", "n", "w"},
                            {"string", "int64", "float32"}))
  lu.assertEquals(got[1]:table(), {"moon", ""})
  lu.assertEquals(got[2], 7)
  lu.assertEquals(got[3]:table(), {{1, 2}, {3, 4}})
end

-- Variables are saved by a step that trains them, too.
function tests.variables_are_saved_and_set()
  local dir <const>, _ <close> = folder()
  local v = td.variable(td.constant({1, 2, 3}, "float32"), "v")
  local path = td.placeholder("string", {}, "path")
  local out = save(path, {v = v})
  local set = v:assign(restore(path, {"v"}, {"float32"})[1])
  local s = td.session()
  s:init()
  for i = 1, 3 do
    s:run({out, v:assign_add{1, 1, 1}}, {[path] = dir .. "/m-" .. i})
  end
  local last = s:run(v):table()
  s:run(set, {[path] = dir .. "/m-3"})
  local third = s:run(v):table()
  lu.assertTrue(third[1] == last[1] or third[1] == last[1] - 1)
  s:run(out, {[path] = dir .. "/m-4"})
  s:run(v:assign{0, 0, 0})
  s:run(set, {[path] = dir .. "/m-4"})
  lu.assertEquals(s:run(v):table(), third)
end

function tests.shapes_are_known_of_parts()
  local r = restore("p", {"w", "x"}, {"float32", "int32"}, {w = "8 4 2,3:-"})
  lu.assertEquals(r[1].shape, {3, 4})
  lu.assertNil(r[2].shape)
  r = raw.RestoreSlice("p", "w", "8 4 0,2:1,1", {dt = "float32"})
  lu.assertEquals(r.shape, {2, 1})
end

function tests.what_is_not_there_is_named()
  local dir <const>, _ <close> = folder()
  local s, p = td.session(), dir .. "/m"
  local function fails(what, code, ...)
    local e = raises(what, s.run, s, restore(...))
    lu.assertEquals(e.code, code)
  end
  fails("there is no checkpoint '" .. p .. "': neither '" .. p
    .. ".index' nor a file of version 1", "not_found", p, {"w"}, {"float32"})
  s:run(save(p, {weights = td.constant({1, 2}, "float32"),
                 bias = td.constant(3, "int32")}))
  fails('has no tensor "weight" (did you mean "weights"?)', "not_found", p,
        {"bias", "weight"}, {"int32", "float32"})
  fails('has tensor "bias" as int32, and it is to be restored as float32',
        "invalid_argument", p, {"bias"}, {"float32"})
  fails('has tensor "weights" of shape {2}, and shape_and_slices takes a part '
    .. 'of one of shape {4}', "invalid_argument", p, {"weights"}, {"float32"},
    {weights = "4 0,2"})
  local l = raw.TensorListFromTensor(td.constant{1, 2}, -1,
                                     {element_dtype = "int32"})
  raises('tensor "l" of dtype variant cannot be saved: it is no value', s.run,
         s, save(p, {l = l}))
  raises("1 tensors", s.run, s,
         raw.SaveV2(p, td.placeholder_with_default(td.constant{"a", "b"}, {-1}),
                    td.constant{""}, {td.constant(1)}))
  raises("tensor_names has 2 strings, and there are 1 tensors", raw.SaveV2, p,
         td.constant{"a", "b"}, td.constant{""}, {td.constant(1)})
end

-- What is written is what TensorFlow writes, byte for byte.
function tests.version_2_is_written_as_it_is_there()
  local dir <const>, _ <close> = folder()
  local s, p = td.session(), dir .. "/v2"
  local rows = {{{4, 5}, {6, 7}}, {{0, 1}, {2, 3}}}
  for i, x in ipairs(rows) do rows[i] = td.constant(x, "float32") end
  s:run(raw.SaveV2(p, td.constant{"z", "w", "w", "a"},
                   td.constant{"", "4 2 2,2:-", "4 2 0,2:-", ""},
                   {td.constant{"moon", "", "tide"}, rows[1], rows[2],
                    td.constant(5, "int64")}))
  for _, part in ipairs{".index", ".data-00000-of-00001"} do
    lu.assertTrue(core.read_file(p .. part)
      == core.read_file(golden .. "v2" .. part), part)
  end
  local got = s:run(restore(golden .. "v2", {"w", "w", "z"},
                            {"float32", "float32", "string"},
                            {w = "4 2 1,2:1,1"}))
  lu.assertEquals(got[1]:table(), {{3}, {5}})
  lu.assertEquals(got[3]:table(), {"moon", "", "tide"})
end

-- ---- version 1 --------------------------------------------------------------

local v1 = {
  bool = {"bool", {true, false}}, uint8 = {"uint8", {0, 255}},
  int8 = {"int8", {-128, 127}}, uint16 = {"uint16", {0, 65535}},
  int16 = {"int16", {-32768, 32767}}, float64 = {"float64", -0.1},
  int32 = {"int32", {-2^31 | 0, 0, 2^31 - 1 | 0}},
  int64 = {"int64", {math.mininteger, math.maxinteger}},
  float16 = {"float16", {1, -0.5, 65504}},
  string = {"string", {"moon", "", "\0\xff"}},
}

function tests.files_of_tensorflow_of_version_1()
  local s = td.session()
  for name, want in pairs(v1) do
    local x = s:run(raw.Restore(golden .. "v1", name, {dt = want[1]}))
    lu.assertEquals(type(x) == "userdata" and x:table() or x, want[2], name)
    local y = s:run(restore(golden .. "v1", {name}, {want[1]})[1])
    lu.assertEquals(type(y) == "userdata" and y:table() or y, want[2], name)
  end
  local f = s:run(raw.Restore(golden .. "v1", "float32", {dt = "float32"}))
  lu.assertEquals(f:table()[2], {0, math.huge, -math.huge})
  local c = s:run(raw.Restore(golden .. "v1", "complex64", {dt = "complex64"}))
  lu.assertEquals(tostring(c), "complex64 {2} 1-2i 3+4i")
  local none = s:run(raw.Restore(golden .. "v1", "none", {dt = "float32"}))
  lu.assertEquals(none.shape, {0, 3})
end

function tests.shards_of_version_1()
  local s = td.session()
  local all = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}
  for _, path in ipairs{"v1_shards", "v1_shards-?????-of-00002"} do
    path = golden .. path
    local w = s:run(raw.Restore(path, "w", {dt = "int32"}))
    lu.assertEquals(w:table(), all)
    w = s:run(raw.RestoreSlice(path, "w", "4 3 2,2:1,1", {dt = "int32"}))
    lu.assertEquals(w:table(), {{7}, {10}})
  end
  local x = restore(golden .. "v1_shards", {"x"}, {"float32"})
  lu.assertEquals(s:run(x[1]), 5)
  raises("its slices do not cover it, or overlap: 9 of 12", s.run, s,
         raw.Restore(golden .. "v1_shards-00000-of-00002", "w", {dt = "int32"}))
  raises("is no checkpoint of version 1", s.run, s,
         raw.Restore(golden .. "graph.pb", "w", {dt = "int32"}))
end

-- What is written is what TensorFlow writes, byte for byte.
function tests.version_1_is_written_as_it_was()
  local dir <const>, _ <close> = folder()
  local s, names, values = td.session(), {}, {}
  local dtypes = {float32 = true, none = true, complex64 = true,
                  complex128 = true}
  for name in pairs(v1) do names[#names + 1] = name end
  for name in pairs(dtypes) do names[#names + 1] = name end
  for i, name in ipairs(names) do
    local dtype = name == "none" and "float32" or name
    local x = s:run(raw.Restore(golden .. "v1", name, {dt = dtype}))
    values[i] = type(x) == "userdata" and x or td.constant(x, dtype)
  end
  s:run(raw.Save(dir .. "/v1", td.constant(names), values))
  lu.assertTrue(core.read_file(dir .. "/v1") == core.read_file(golden .. "v1"))
  local rows = td.constant({{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}, "int32")
  s:run(raw.SaveSlices(dir .. "/part", td.constant{"w"},
                       td.constant{"4 3 0,3:-"}, {rows}))
  lu.assertTrue(core.read_file(dir .. "/part")
    == core.read_file(golden .. "v1_shards-00000-of-00002"))
  raises('tensor "x" of dtype uint64 cannot be in a checkpoint of version 1',
         s.run, s, raw.Save(dir .. "/x", td.constant{"x"},
                            {td.constant({1}, "uint64")}))
  raises("is given the same slice of a tensor twice", s.run, s,
         raw.Save(dir .. "/x", td.constant{"x", "x"},
                  {td.constant{1}, td.constant{1}}))
  lu.assertFalse(core.exists(dir .. "/x"))
end

-- ---- graphs with TensorFlow's savers ----------------------------------------

local function imported()
  local g = td.graph()
  g:as_default(td.import_graph, golden .. "graph.pb")
  local s = td.session{graph = g}
  s:run(g:op "init")
  return g, s
end

local function values(g, s)
  local got = s:run{a = g:edge "got_a", b = g:edge "got_b",
                    w1 = g:edge "got_w_part_0", w2 = g:edge "got_w_part_1"}
  for name, x in pairs(got) do got[name] = x:table() end
  return got
end

-- Gives the variables other values, by what the savers' assignments take.
local function set(g, s)
  local function assigned(i) return g:edge("plain/Identity_" .. i + 3) end
  local change = {
    [assigned(1)] = {{1, 2, 3}, {4, 5, 6}}, [assigned(2)] = {7, 8},
    [assigned(3)] = {{1, 2}, {3, 4}, {5, 6}}, [assigned(4)] = {{7, 8}, {9, 10}},
  }
  s:run(g:op "plain/restore_all", change)
end

local function check_saver(name, path)
  local dir <const>, _ <close> = folder()
  local g, s = imported()
  local ones = values(g, s)
  set(g, s)
  local want = values(g, s)
  lu.assertNotEquals(want, ones)
  local file = g:edge(name .. "/Const")
  lu.assertEquals(s:run(g:edge(path), {[file] = dir .. "/m"}), dir .. "/m")
  s:run(g:op "init")
  lu.assertEquals(values(g, s), ones)
  s:run(g:op(name .. "/restore_all"), {[file] = dir .. "/m"})
  lu.assertEquals(values(g, s), want)
  local all = restore(dir .. "/m", {"w", "b"}, {"float32", "int64"})
  local own = td.session()
  lu.assertEquals(own:run(all[1]):table(),
                  {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}})
  lu.assertEquals(own:run(all[2]):table(), {7, 8})
  lu.assertEquals(#td.matching_files(dir .. "/m_temp_*"):eval():table(), 0)
end

function tests.a_saver_of_tensorflow()
  check_saver("plain", "plain/control_dependency")
end

function tests.a_sharded_one()
  check_saver("sharded", "sharded/Identity_4")
end

function tests.one_of_version_1()
  check_saver("old", "old/control_dependency")
end

-- ---- stopping ---------------------------------------------------------------

-- What is told is what is there, and the prefix can be saved again at once.
function tests.a_step_that_is_cut_short()
  local dir <const>, _ <close> = folder()
  local s, p = td.session(), dir .. "/m"
  local large = td.ones{4 << 20}
  local first, second = save(p, {x = td.constant{1}}), save(p, {x = large})
  for i = 1, 8 do
    s:run(first)
    local ok, e = pcall(s.run, s, second, {}, {timeout = i * 0.002})
    if not ok then lu.assertEquals(e.code, "deadline_exceeded") end
    s:run(first)
    lu.assertEquals(s:run(restore(p, {"x"}, {"int32"})[1]):table(), {1})
    lu.assertEquals(#td.matching_files(p .. "*tempstate*"):eval():table(), 0)
  end
end

return tests
