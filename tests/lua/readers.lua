-- readers.lua - files as records: td.reader, td.record_writer, names of files.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises = helper.raises
local tests = {}

-- A folder of files {name = contents}, and what removes it.
local function folder(files)
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir " .. path))
  for name, bytes in pairs(files or {}) do
    local f = assert(io.open(path .. "/" .. name, "wb"))
    f:write(bytes)
    f:close()
  end
  return path, setmetatable({}, {__close = function()
    os.execute("rm -r " .. path)
  end})
end

-- A queue of names; the op that enqueues these and closes it.
local function queue(dir, names)
  local paths = {}
  for i, name in ipairs(names or {}) do paths[i] = dir .. "/" .. name end
  local q = td.raw.FIFOQueueV2{component_types = {"string"}, shapes = {{}},
                               capacity = 20}
  local close = function() return td.raw.QueueCloseV2(q) end
  if #paths == 0 then return q, close() end
  local all = td.raw.QueueEnqueueManyV2(q, {td.constant(paths)})
  return q, td.control_dependencies({all}, close)
end

-- "key=value" of every record, the folder's path left out.
local function read_all(s, k, v, dir)
  local list = {}
  while true do
    local ok, r = pcall(s.run, s, {k, v})
    if not ok then
      lu.assertEquals(r.code, "out_of_range")
      return list
    end
    list[#list + 1] = r[1]:sub(#dir + 2) .. "=" .. r[2]
  end
end

local function check(reader, files, names, want)
  local dir <const>, _ <close> = folder(files)
  local q, fill = queue(dir, names)
  local k, v = reader():read(q)
  local s = td.session()
  s:run(fill)
  lu.assertEquals(read_all(s, k, v, dir), want)
end

function tests.text_lines()
  check(function() return td.reader.text_lines() end,
        {a = "one\r\ntwo\n\nlast", b = "", c = "x\n"}, {"a", "b", "c"},
        {"a:1=one", "a:2=two", "a:3=", "a:4=last", "c:1=x"})
  check(function() return td.reader.text_lines{skip_header_lines = 1} end,
        {a = "head\n1\n2\n", b = "head\n3"}, {"a", "b"},
        {"a:2=1", "a:3=2", "b:2=3"})
end

function tests.fixed_length()
  check(function()
    return td.reader.fixed_length(3, {header = 2, footer = 3})
  end, {a = "HH0123456789FFF"}, {"a", "a"},
    {"a:0=012", "a:1=345", "a:2=678", "a:0=012", "a:1=345", "a:2=678"})
  check(function() return td.reader.fixed_length(2, {hop = 1}) end,
        {a = "abc"}, {"a"}, {"a:0=ab", "a:1=bc"})
end

function tests.whole_files_and_names()
  check(td.reader.whole_file, {a = "one\n", b = ""}, {"a", "b"},
        {"a=one\n", "b="})
  local q, fill = queue("d", {"x", "y"})
  local k, v = td.reader.identity():read(q)
  local s = td.session()
  s:run(fill)
  lu.assertEquals(read_all(s, k, v, ""), {"/x=d/x", "/y=d/y"})
end

function tests.tf_records()
  local dir <const>, _ <close> = folder()
  for _, how in ipairs{"", "ZLIB", "GZIP"} do
    td.reset()
    do
      local w <close> = td.record_writer(dir .. "/a", {compression = how})
      for _, x in ipairs{"abc", "", "h\0llo"} do w:write(x) end
    end
    local q, fill = queue(dir, {"a"})
    local k, v = td.reader.tf_records{compression = how}:read(q)
    local s = td.session()
    s:run(fill)
    lu.assertEquals(read_all(s, k, v, dir),
                    {"a:0=abc", "a:19=", "a:35=h\0llo"})
    local list = {}
    for record, key in td.data.read_records(dir .. "/a",
                                            {compression = how}) do
      list[#list + 1] = key:sub(#dir + 2) .. "=" .. record
    end
    lu.assertEquals(list, {"a:0=abc", "a:19=", "a:35=h\0llo"})
  end
end

function tests.older_types()
  local dir <const>, _ <close> = folder{a = "abcd"}
  local q, fill = queue(dir, {"a", "a"})
  local r = td.raw.FixedLengthRecordReader{record_bytes = 2}
  lu.assertEquals(r.op.type, "FixedLengthRecordReaderV2")
  local _, v = td.raw.ReaderRead(r, q)
  local s = td.session()
  s:run(fill)
  lu.assertEquals(s:run(v), "ab")
  for _, name in ipairs{"WholeFileReader", "TextLineReader", "TFRecordReader",
                        "IdentityReader"} do
    lu.assertEquals(td.raw[name]{}.op.type, name .. "V2")
  end
end

function tests.read_up_to()
  local dir <const>, _ <close> = folder{a = "1\n2\n3\n", b = "4\n", c = ""}
  local q, fill = queue(dir, {"a", "c", "b"})
  local r = td.reader.text_lines()
  local _, v = r:read_up_to(q, 2)
  local n = {r:num_records_produced(), r:num_work_units_completed()}
  local s = td.session()
  lu.assertEquals(v.shape, {-1})
  s:run(fill)
  lu.assertEquals(s:run(v):table(), {"1", "2"})
  lu.assertEquals(s:run(n), {2, 0})
  lu.assertEquals(s:run(v):table(), {"3"})
  lu.assertEquals(s:run(n), {3, 1})
  lu.assertEquals(s:run(v):table(), {"4"})
  lu.assertEquals(s:run(n), {4, 3})
  raises("is closed", s.run, s, v)
end

function tests.states()
  local dir <const>, _ <close> = folder{a = "1\n2\n3\n", b = "4\n"}
  local q, fill = queue(dir, {"a", "b", "a"})
  local r = td.reader.text_lines()
  local _, v = r:read(q)
  local state = r:serialize_state()
  local s = td.session()
  s:run(fill)
  lu.assertEquals(s:run(state), "")
  lu.assertEquals(s:run(v), "1")
  local kept = s:run(state)
  lu.assertEquals({s:run(v), s:run(v), s:run(v)}, {"2", "3", "4"})
  s:run(r:restore_state(kept))
  lu.assertEquals(s:run(state), kept)
  lu.assertEquals({s:run(v), s:run(v)}, {"2", "3"})
  s:run(r:reset())
  lu.assertEquals(s:run(r:num_records_produced()), 0)
  lu.assertEquals(s:run(v), "1") -- of the third name
  for _, bytes in ipairs{"\8", "\8\5\16\1", "moon", "\8\1", "\8\1\34\9a",
                         "\8" .. ("\255"):rep(9) .. "\1"} do
    raises("no reader's state", s.run, s, r:restore_state(bytes))
  end
  lu.assertEquals(s:run(v), "2") -- what failed changed nothing
end

-- What TensorFlow's IdentityReader and WholeFileReader keep.
function tests.states_are_tensorflows()
  local q, fill = queue("", {"l.txt"})
  local r = td.reader.identity()
  local k = r:read(q)
  local s = td.session()
  s:run(fill)
  s:run(k)
  lu.assertEquals(s:run(r:serialize_state()), "\8\1\16\1\24\1\34\6/l.txt")
end

function tests.who_waits_says_for_what()
  local q = queue("")
  local r = td.reader.text_lines{name = "lines"}
  local k = r:read(q)
  local s = td.session()
  local h, other = s:start(k), s:start(k)
  local e = raises("waits for a file name from queue FIFOQueueV2", s.run, s, k,
                   nil, {timeout = 0.3})
  lu.assertEquals(e.code, "deadline_exceeded")
  lu.assertStrContains(s:why(), "its turn at reader lines")
  other:cancel()
  h:cancel()
  lu.assertFalse((pcall(h.wait, h)))
  lu.assertFalse((pcall(other.wait, other)))
end

function tests.one_that_waits_is_served()
  local dir <const>, _ <close> = folder{a = "1\n2\n"}
  local q, fill = queue(dir, {"a"})
  local _, v = td.reader.text_lines():read(q)
  local s = td.session()
  local steps = {s:start(v), s:start(v), s:start(v)}
  s:run(fill)
  local lines, errors = {}, {} -- who came to the reader last finds nothing
  for _, h in ipairs(steps) do
    local ok, got = pcall(h.wait, h)
    table.insert(ok and lines or errors, got)
  end
  lu.assertItemsEquals(lines, {"1", "2"})
  lu.assertEquals(#errors, 1)
  lu.assertStrContains(tostring(errors[1]), "is closed")
end

function tests.errors_of_files()
  local dir <const>, _ <close> = folder{a = "x\n"}
  local q, fill = queue(dir, {"none", "a"})
  local _, v = td.reader.text_lines():read(q)
  local s = td.session()
  s:run(fill)
  raises("No such file", s.run, s, v)
  lu.assertEquals(s:run(v), "x") -- the next name
  local bad = td.reader.fixed_length(0):read(q)
  raises("record_bytes must be at least 1", s.run, s, bad)
  bad = td.reader.tf_records{compression = "LZ4"}:read(q)
  raises("compression must be", s.run, s, bad)
  raises("a queue of file names is needed, given string",
         td.reader.text_lines().read, td.reader.text_lines(), "a")
  local pair = td.raw.FIFOQueueV2{component_types = {"string", "int32"}}
  s:run(td.raw.QueueEnqueueV2(pair, {td.constant "a", td.constant(1)}))
  bad = td.reader.text_lines():read(pair)
  raises("elements of one string", s.run, s, bad)
end

function tests.damaged_records()
  local dir <const>, _ <close> = folder()
  local path = dir .. "/a"
  local w = td.record_writer(path)
  for i = 1, 4 do w:write(("%d"):format(i):rep(10)) end
  w:flush()
  w:close()
  w:close()
  raises("closed", w.write, w, "x")
  local f = assert(io.open(path, "r+b"))
  f:seek("set", 26 + 14)
  f:write("x")
  f:close()
  local q, fill = queue(dir, {"a"})
  local _, v = td.reader.tf_records():read(q)
  local s = td.session()
  s:run(fill)
  lu.assertEquals(s:run(v), ("1"):rep(10))
  local e = raises("offset 26", s.run, s, v)
  lu.assertEquals(e.code, "data_loss")
  local list = {}
  for record in td.data.read_records(path, {skip_errors = 1}) do
    list[#list + 1] = record:sub(1, 1)
  end
  lu.assertEquals(list, {"1", "3", "4"})
  raises("offset 26", function()
    for _ in td.data.read_records(path) do s = s end
  end)
  raises("10 bytes at offset 0, where 9", function()
    for _ in td.data.read_records(path, {limit = 9}) do s = s end
  end)
end

function tests.arguments()
  raises("did you mean \"compression\"", td.record_writer, "a",
         {compresion = ""})
  raises("did you mean \"skip_errors\"", td.data.read_records, "a",
         {skip_error = 1})
  raises("No such file", td.data.read_records, "/none/a")
  raises("skip_header_lines", td.reader.text_lines, {header = 1})
  raises("td.reader has no \"lines\"", function() return td.reader.lines end)
end

function tests.whole_files()
  local dir <const>, _ <close> = folder{b1 = "x", a2 = "y", [".c"] = ""}
  local s = td.session()
  local name = td.placeholder("string", {})
  local found = td.matching_files(td.placeholder("string", nil, "pattern"))
  local function match(...)
    local list = s:run(found, {pattern = td.tensor({...}, "string")}):table()
    for i, path in ipairs(list) do list[i] = path:sub(#dir + 2) end
    return list
  end
  lu.assertEquals(match(dir .. "/*"), {"a2", "b1"})
  lu.assertEquals(match(dir .. "/[a-z]1", dir .. "/?2", dir .. "/x*"),
                  {"a2", "b1"})
  lu.assertEquals(match(dir .. "/a2"), {"a2"})
  lu.assertEquals(match(dir .. "/none", dir .. "/none/*", dir .. "/a2/*"), {})
  s:run(td.write_file(name, "moon\0"), {[name] = dir .. "/d/e"})
  lu.assertEquals(s:run(td.read_file(name), {[name] = dir .. "/d/e"}),
                  "moon\0")
  lu.assertEquals(match(dir .. "/*/e"), {"d/e"})
  raises("No such file", s.run, s, td.read_file(name), {[name] = dir .. "/x"})
  raises("NUL", s.run, s, td.read_file(name), {[name] = "a\0b"})
  lu.assertEquals(td.read_file(dir .. "/a2"):eval(), "y")
  lu.assertEquals(#td.matching_files{dir .. "/a*", dir .. "/b*"}:eval():table(),
                  2)
end

function tests.record_input()
  local dir <const>, _ <close> = folder()
  local all = {}
  for i = 1, 5 do
    local w <close> = td.record_writer(dir .. "/part-" .. i)
    for k = 1, i do
      all[#all + 1] = i .. "." .. k
      w:write(all[#all])
    end
  end
  local function two_epochs(seed)
    td.reset()
    local r = td.record_input{file_pattern = dir .. "/part-*", batch_size = 5,
                              file_buffer_size = 4, file_parallelism = 2,
                              file_random_seed = seed}
    lu.assertEquals(r.shape, {5})
    local s, epochs = td.session(), {{}, {}}
    for _, epoch in ipairs(epochs) do
      for _ = 1, 3 do
        table.move(s:run(r):table(), 1, 5, #epoch + 1, epoch)
      end
      local sorted = table.move(epoch, 1, #epoch, 1, {})
      table.sort(sorted)
      lu.assertEquals(sorted, all)
    end
    return epochs
  end
  local once = two_epochs(1)
  lu.assertEquals(two_epochs(1), once)
  lu.assertNotEquals(two_epochs(2), once)
  lu.assertNotEquals(once[1], once[2])
  local s = td.session()
  raises("no file fits", s.run, s, td.record_input{file_pattern = dir .. "/x*"})
  raises("from 1 to", s.run, s,
         td.record_input{file_pattern = "x", file_parallelism = 0})
  raises("batch_size", td.record_input, {file_pattern = "x", batch_size = 0})
  for i = 1, 5 do io.open(dir .. "/part-" .. i, "wb"):close() end
  raises("have no records", s.run, s,
         td.record_input{file_pattern = dir .. "/part-*"})
end

return tests
