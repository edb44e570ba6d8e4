-- tables.lua - lookup tables: found, inserted, removed, filled by init, files,
-- in loops and functions, messages.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises, gives, contains = helper.raises, helper.gives, helper.contains
local tests = {}

local function run(x, feeds) return td.session():run(x, feeds) end

-- A session with all initialized, and f of it.
local function ready(f)
  local _ <close> = td.session()
  local sess = td.get_default_session()
  sess:init()
  f(sess)
end


-- A file of that text for f(path).
local function with_file(text, f)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local ok, e = pcall(f, path)
  os.remove(path)
  if not ok then error(e, 0) end
end

-- ---- filled once ------------------------------------------------------------

function tests.found()
  local t = td.hash_table({"one", "two", "a word of many bytes"}, {1, 2, 3}, -1)
  local keys = td.placeholder("string", {2, -1})
  local found = t:find(keys)
  lu.assertTrue(found.shape == {2, -1})
  ready(function(sess)
    gives({{2, -1}, {3, -1}}, sess:run(found, {[keys] = {
      {"two", ""}, {"a word of many bytes", "a word of many bites"}}}))
    gives({1, 7}, sess:run(t:find({"one", "four"}, 7)))
    gives({1, 8}, sess:run(t:find({"one", "four"}, {7, 8})))
    gives(2, sess:run(t:find "two"))
    lu.assertEquals(sess:run(t:size()), 3)
  end)
end

function tests.of_every_dtype()
  for _, row in ipairs{{"int32", "string"}, {"int64", "float64"},
                       {"int64", "string"}, {"int32", "int64"}} do
    td.reset()
    local words = row[2] == "string"
    local keys = td.tensor({3, -4}, row[1])
    local values = words and td.tensor{"x", "y"} or td.tensor({30, 40}, row[2])
    local t = td.hash_table(keys, values, words and "?" or -1)
    ready(function(sess)
      local got = sess:run(t:find(td.tensor({-4, 5, 3}, row[1])))
      gives(words and {"y", "?", "x"} or {40, -1, 30}, got)
      lu.assertEquals(got.dtype, row[2])
    end)
  end
end

function tests.not_yet_initialized()
  local t = td.hash_table({"a"}, {1}, 0)
  raises("is not initialized: run sess:init()", run, t:find "a")
  lu.assertEquals(run(t:size()), 0)
end

-- A table made after the first init is filled by the next.
function tests.filled_later()
  local a = td.hash_table({"a"}, {1}, 0)
  local v = td.variable(5, "v")
  local sess <close> = td.session()
  sess:init()
  sess:run(v:assign(6))
  local b = td.hash_table({"a"}, {2}, 0)
  sess:init()
  gives({1, 2, 6}, sess:run{a:find "a", b:find "a", v})
  sess:run(td.tables_initializer())
  gives(1, sess:run(a:find "a"))
  sess:reset()
  raises("not initialized", sess.run, sess, a:find "a")
  sess:init()
  gives(1, sess:run(a:find "a"))
end

function tests.initializer_of_all()
  local a, b = td.hash_table({1}, {1.5}, 0.0), td.hash_table({2}, {2.5}, 0.0)
  lu.assertEquals(#td.get_collection "table_initializer", 2)
  local init = td.tables_initializer()
  local sess <close> = td.session()
  sess:run(init)
  gives({1.5, 2.5}, sess:run{a:find(1), b:find(2)})
end

function tests.exported()
  local t = td.hash_table({"a", "b", "c"}, {1, 2, 3}, 0)
  ready(function(sess)
    local got = {}
    local keys, values = t:export()
    local k, v = table.unpack(sess:run{keys, values})
    for i = 0, 2 do got[k[i]:item()] = v[i]:item() end
    lu.assertEquals(got, {a = 1, b = 2, c = 3})
  end)
end

-- ---- changed by steps -------------------------------------------------------

function tests.inserted_and_removed()
  local t = td.mutable_table("string", "int64", -1)
  local sess <close> = td.session()
  local find = t:find{"a", "b", "c"}
  sess:run(t:insert({"a", "b", "a"}, {1, 2, 3}))
  gives({3, 2, -1}, sess:run(find))
  sess:run(t:remove{"a", "z"})
  gives({-1, 2, -1}, sess:run(find))
  lu.assertEquals(sess:run(t:size()), 1)
end

function tests.of_rows()
  local t = td.mutable_table("int64", "float32", {0.0, 0.0})
  lu.assertTrue(t:find{1, 2, 3}.shape == {3, 2})
  local sess <close> = td.session()
  sess:run(t:insert({1, 2}, {{1.0, 2.0}, {3.0, 4.0}}))
  gives({{3, 4}, {0, 0}}, sess:run(t:find{2, 9}))
  gives({{3, 4}, {5, 6}}, sess:run(t:find({2, 9}, {5.0, 6.0})))
  lu.assertTrue(select(2, t:export()).shape == {-1, 2})
end

function tests.without_a_default()
  local sess <close> = td.session()
  gives("", sess:run(td.mutable_table("int64", "string"):find(3)))
  gives(0, sess:run(td.mutable_table("int64", "int32"):find(3)))
  gives(false, sess:run(td.mutable_table("string", "bool"):find "x"))
end

function tests.in_order_of_control()
  local t = td.mutable_table("string", "int32", 0)
  local sess <close> = td.session()
  local after = td.control_dependencies({t:insert({"k"}, {4})}, function()
    return t:find "k"
  end)
  gives(4, sess:run(after))
end

-- ---- in loops and functions -------------------------------------------------

function tests.in_a_loop()
  local t = td.hash_table({0, 1, 2}, {10, 20, 30}, 0)
  local _, sum = td.while_loop(
    function(i) return i:less(4) end,
    function(i, s) return i + 1, s + t:find(i) end, {0, 0})
  ready(function(sess) gives(60, sess:run(sum)) end)
end

function tests.made_in_a_function()
  local f = td.func(function(x)
    return td.hash_table({1, 2}, {10, 20}, -1):find(x)
  end, {"int32"})
  local y = f(td.constant(2))
  ready(function(sess) gives(20, sess:run(y)) end)
end

-- ---- files ------------------------------------------------------------------

function tests.vocabulary()
  with_file("the\r\ncat\r\nsat", function(path)
    local v = td.vocabulary(path)
    local words = v:inverse "?"
    ready(function(sess)
      gives({1, -1, 0, 2}, sess:run(v:find{"cat", "dog", "the", "sat"}))
      gives({"sat", "?", "the"}, sess:run(words:find{2, 3, 0}))
    end)
  end)
end

function tests.out_of_vocabulary()
  with_file("the\ncat\n", function(path)
    local v = td.vocabulary(path, {oov = 5})
    local bucket = td.string_to_hash_bucket_fast({"dog"}, {num_buckets = 5})
    ready(function(sess)
      local ids = sess:run(v:find{"cat", "dog", "the"})
      gives({1, 2 + bucket[0]:item(), 0}, ids)
    end)
  end)
end

function tests.some_lines_only()
  with_file("a\nb\nc\n", function(path)
    local v = td.vocabulary(path, {size = 2})
    ready(function(sess) gives({0, 1, -1}, sess:run(v:find{"a", "b", "c"})) end)
    local more = td.vocabulary(path, {size = 4})
    local e = raises("has 3 lines, and vocab_size is 4", run, more.initializer)
    lu.assertEquals(e.code, "invalid_argument")
  end)
end

function tests.bad_files()
  for _, row in ipairs{{"a\n\nb\n", "line 2 of ", "it is empty"},
                       {"a\nb\na\n", "line 3 of ", "key \"a\" comes twice"},
                       {"", "has no lines"}} do
    td.reset()
    with_file(row[1], function(path)
      td.vocabulary(path)
      local sess <close> = td.session()
      local e = raises(path, sess.init, sess)
      contains(tostring(e), table.unpack(row, 2))
    end)
  end
  td.reset()
  local none = td.vocabulary "/no/such/file"
  local e = raises("/no/such/file", run, none.initializer)
  lu.assertEquals(e.code, "not_found")
end

-- A file is not read again by a second init.
function tests.read_once()
  with_file("a\nb\n", function(path)
    local v = td.vocabulary(path)
    local sess <close> = td.session()
    sess:init()
    os.remove(path)
    sess:init()
    gives(1, sess:run(v:find "b"))
    assert(io.open(path, "w")):close()
  end)
end

-- ---- sessions and graphs ----------------------------------------------------

function tests.of_each_session()
  local t = td.mutable_table("string", "int32", 0)
  local one <close> = td.session()
  local two <close> = td.session()
  one:run(t:insert({"a"}, {1}))
  gives(1, one:run(t:find "a"))
  gives(0, two:run(t:find "a"))
end

function tests.saved_and_imported()
  local t = td.hash_table({"a", "b"}, {1, 2}, -1, "words")
  local y = t:find(td.placeholder("string", {-1}, "keys"))
  local init = td.tables_initializer "fill"
  local name = y.name
  local path = os.tmpname()
  td.get_default_graph():save(path)
  lu.assertEquals(init.name, "fill")
  td.reset()
  td.import_graph(path, {prefix = ""})
  os.remove(path)
  local sess <close> = td.session()
  sess:run "fill"
  gives({2, -1}, sess:run(name, {["keys:0"] = {"b", "c"}}))
end

function tests.shown()
  local t = td.mutable_table("string", "float32", {0.0, 0.0}, "emb")
  lu.assertEquals(tostring(t), "Table \"emb\" string to float32 {2}")
  lu.assertEquals(t.name, "emb")
  lu.assertEquals(t.op.type, "MutableHashTableOfTensorsV2")
  local html = require("tide.show.repr").find(t, "text/html")(t)
  contains(html, "emb", "by steps")
end

-- ---- messages ---------------------------------------------------------------

tests.mistakes = helper.each{
  {"must be string, given int32", function()
    td.hash_table({"a"}, {1}, 0):find(td.constant(1))
  end},
  {"filled once, by its initializer", function()
    td.hash_table({"a"}, {1}, 0):insert({"b"}, {2})
  end},
  {"the keys must be a vector", function() td.hash_table("a", 1, 0) end},
  {"give a default", function() td.hash_table({"a"}, {1}) end},
  {"no keys of dtype float32", function()
    td.hash_table({1.5}, {1}, 0)
  end},
  {"the dtype of a key is one such as", function()
    td.mutable_table(5, "int64")
  end},
  {"cannot be fetched; fetch its :find(k)", function()
    run(td.mutable_table("int64", "int64"))
  end},
  {"did you mean", function()
    return td.mutable_table("int64", "int64").instert
  end},
  {"is called with a colon", function()
    local t = td.mutable_table("int64", "int64")
    t.find{1}
  end},
  {"is no vocabulary", function()
    td.mutable_table("int64", "int64"):inverse()
  end},
  {"oov is -1", function() td.vocabulary("x", {oov = -1}) end},
}

return tests
