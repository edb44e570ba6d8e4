-- pipelines.lua - input pipelines: stages against a model, states, files,
-- graphs, errors.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local rng = require "tide.base.rng"
local sources = require "tide.data.pipeline_sources"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = i - 1 end
  return core.tensor(list, "int32", {n})
end

local function rows(n, o)
  return sources.rows({x = numbers(n)}, o)
end

local function text_of(x)
  if x.rank == 0 then return tostring(x:item()) end
  return "{" .. table.concat(x:table(), " ") .. "}"
end

-- The column x of all elements of a loop, as text.
local function all(p, o)
  local list = {}
  for e in p:batches(nil, o) do list[#list + 1] = text_of(e.x) end
  return table.concat(list, " ")
end

-- An integer from 0 to n - 1.
local function below(r, n)
  return r:integer(0, n - 1)
end

-- ---- stages -----------------------------------------------------------------

function tests.rows_and_epochs()
  lu.assertEquals(all(rows(4)), "0 1 2 3")
  lu.assertEquals(all(rows(3), {epochs = 2}), "0 1 2 0 1 2")
  lu.assertEquals(all(rows(3), {epochs = 0}), "")
  lu.assertEquals(all(rows(7, {shard = {1, 3}})), "1 4")
  lu.assertEquals(all(rows(2, {shard = {2, 3}})), "")
  local seen = {}
  for e in rows(2):batches(1, {epochs = 2}) do
    seen[#seen + 1] = e.epoch .. ":" .. e.step .. "=" .. e.x:table()[1]
  end
  lu.assertEquals(seen, {"1:1=0", "1:2=1", "2:3=0", "2:4=1"})
end

function tests.order_and_number()
  local p = rows(5)
  lu.assertEquals(all(p:take(2)), "0 1")
  lu.assertEquals(all(p:skip(2)), "2 3 4")
  lu.assertEquals(all(p:skip(9)), "")
  lu.assertEquals(all(p:take(0)), "")
  lu.assertEquals(all(p:repeat_(0)), "")
  lu.assertEquals(all(p:repeat_(2)), "0 1 2 3 4 0 1 2 3 4")
  lu.assertEquals(all(p:take(2):repeat_(3)), "0 1 0 1 0 1")
  lu.assertEquals(all(p:repeat_():take(7)), "0 1 2 3 4 0 1")
  lu.assertEquals(all(p:repeat_():take(7):repeat_(2)),
                  "0 1 2 3 4 0 1 0 1 2 3 4 0 1")
  lu.assertEquals(all(p:repeat_(2):skip(3):take(4)), "3 4 0 1")
  lu.assertEquals(all(p:prefetch(3)), "0 1 2 3 4")
  -- What never gives anything ends.
  lu.assertEquals(all(rows(0):repeat_()), "")
  lu.assertEquals(all(p:filter(function(e) return e.x:less(0) end):repeat_()),
                  "")
end

function tests.batches()
  local p = rows(7)
  lu.assertEquals(all(p:batch(3)), "{0 1 2} {3 4 5} {6}")
  lu.assertEquals(all(p:batch(3, {drop_remainder = true})),
                  "{0 1 2} {3 4 5}")
  lu.assertEquals(all(p:repeat_(2):batch(5)),
                  "{0 1 2 3 4} {5 6 0 1 2} {3 4 5 6}")
  local b = p:batch(3)
  lu.assertTrue(b.specs[1].shape == {-1})
  b = p:batch(3, {drop_remainder = true})
  lu.assertTrue(b.specs[1].shape == {3})
  lu.assertEquals(#p:batch(2):batch(2):batches()().x:table(), 2)
end

-- An element with as many numbers as its x, and a string.
local function ragged(n)
  return rows(n):map(function(e)
    return {x = td.range(e.x), n = e.x, s = td.fill({e.x}, "s")}
  end)
end

function tests.padded_batches()
  local it = ragged(4):padded_batch(4, {values = {x = -1, s = "-"}}):batches()
  local e = it()
  lu.assertEquals(e.x:table(),
    {{-1, -1, -1}, {0, -1, -1}, {0, 1, -1}, {0, 1, 2}})
  lu.assertEquals(e.s:table()[2], {"s", "-", "-"})
  lu.assertEquals(e.n:table(), {0, 1, 2, 3})
  it = ragged(4):padded_batch(2, {shapes = {x = {5}}}):batches()
  lu.assertTrue(it().x.shape == {2, 5})
  raises("does not fit into",
    ragged(8):padded_batch(8, {shapes = {x = {5}}}):batches())
  raises("of different shapes are padded", ragged(3):batch(3):batches())
  raises("no column \"y\"", ragged(3).padded_batch, ragged(3), 2,
         {shapes = {y = {1}}})
end

function tests.buckets()
  local list = {}
  for e in ragged(9):bucket("n", {3, 6}, 2):batches() do
    list[#list + 1] = table.concat(e.n:table(), " ") .. "/" .. e.x.shape[2]
  end
  lu.assertEquals(list, {"0 1/1", "3 4/4", "6 7/7", "2/2", "5/5", "8/8"})
  raises("must ascend", ragged(3).bucket, ragged(3), "n", {3, 3}, 2)
  raises("no column", ragged(3).bucket, ragged(3), "m", {3}, 2)
  raises("must be an integer", ragged(3).bucket, ragged(3), "s", {3}, 2)
end

function tests.maps_and_filters()
  local p = rows(6)
  lu.assertEquals(all(p:map(function(e) return {x = e.x * e.x} end)),
                  "0 1 4 9 16 25")
  lu.assertEquals(all(p:filter(function(e) return (e.x % 2):equal(1) end)),
                  "1 3 5")
  local two = p:map(function(e) return {x = e.x, y = td.cast(e.x, "float32")}
  end)
  lu.assertEquals(tostring(two),
    "Pipeline rows(6) | map: x int32 {}, y float32 {}")
  -- A loop and a branch within.
  local looped = p:map(function(e)
    return {x = td.while_loop(function(i) return i:less(e.x) end,
                              function(i) return i + 2 end, {0})}
  end)
  lu.assertEquals(all(looped), "0 2 2 4 4 6")
end

-- What was computed is put into its row as it comes; a view of what is there
-- when the batch is full.
function tests.batches_of_what_is_computed()
  local p = rows(7):map(function(e)
    return {x = td.fill({2}, e.x), s = td.as_string(e.x)}
  end)
  lu.assertEquals(all(p:batch(3):map(function(e)
    return {x = td.reshape(e.x, {-1})}
  end)), "{0 0 1 1 2 2} {3 3 4 4 5 5} {6 6}")
  local kept = {}
  for e in p:batches(3) do kept[#kept + 1] = e end
  lu.assertEquals(kept[1].x:table(), {{0, 0}, {1, 1}, {2, 2}})
  lu.assertEquals(kept[3].s:table(), {"6"})
  local odd = rows(3):map(function(e)
    return {x = td.fill(td.where(e.x:equal(1), {3}, {2}), 1.0)}
  end)
  raises("element 1 is of shape {3}, those before it of {2}",
         odd:batch(3):batches())
  local vast = rows(2):map(function(e) return {x = td.fill({1024}, e.x)} end)
  lu.assertTrue(vast:batch(1 << 24):batches()().x.shape == {2, 1024})
end

local function augmented(parallel)
  return rows(12):map(function(e)
    return {x = td.cast(td.random_uniform({}, {maxval = 1e6}), "int32") + e.x}
  end, {parallel = parallel, seed = 5})
end

function tests.random_ops_draw_by_element()
  local want = all(augmented(1), {epochs = 2})
  for _, parallel in ipairs{2, 3, 8} do
    lu.assertEquals(all(augmented(parallel), {epochs = 2}), want)
  end
  local first, second = want:match("^(" .. ("%S+ "):rep(12) .. ")(.*)$")
  lu.assertNotEquals(first, second .. " ")
end

function tests.shuffles()
  local p = rows(50):shuffle(8, {seed = 3})
  local first = all(p)
  lu.assertEquals(all(p), first)
  lu.assertNotEquals(all(rows(50):shuffle(8, {seed = 4})), first)
  local second = all(p, {epochs = 2}):sub(#first + 2)
  lu.assertNotEquals(second, first)
  for _, order in ipairs{first, second} do
    local seen, at = {}, 0
    for n in order:gmatch "%d+" do
      lu.assertNil(seen[n])
      seen[n] = true
      lu.assertTrue(tonumber(n) < at + 8) -- not before it could be at hand
      at = at + 1
    end
    lu.assertEquals(at, 50)
  end
end

-- td.seed decides where nothing else does.
function tests.seeds()
  local function draw(seed)
    td.reset()
    td.seed(seed)
    return all(rows(30, {shuffle = true}):shuffle(5))
  end
  lu.assertEquals(draw(1), draw(1))
  lu.assertNotEquals(draw(1), draw(2))
end

-- ---- a model ----------------------------------------------------------------

-- Chains of stages drawn by a seed, with what they must give: lists of epochs,
-- each a list of elements, for the stages whose order is plain.
local stages = {
  function(r, p, m)
    local n = below(r, 4)
    for i, epoch in ipairs(m) do
      m[i] = table.move(epoch, 1, math.min(n, #epoch), 1, {})
    end
    return p:take(n), m
  end,
  function(r, p, m)
    local n = below(r, 4)
    for i, epoch in ipairs(m) do
      m[i] = table.move(epoch, n + 1, #epoch, 1, {})
    end
    return p:skip(n), m
  end,
  function(r, p, m)
    local n = 1 + below(r, 3)
    local joined = {}
    for i = 1, #m // n do
      joined[i] = {}
      for k = (i - 1) * n + 1, i * n do
        if #m[k] == 0 then break end
        table.move(m[k], 1, #m[k], #joined[i] + 1, joined[i])
      end
    end
    return p:repeat_(n), joined
  end,
  function(r, p, m)
    local parallel = 1 + below(r, 4)
    for _, epoch in ipairs(m) do
      for k, x in ipairs(epoch) do epoch[k] = x * 3 + 1 end
    end
    return p:map(function(e) return {x = e.x * 3 + 1} end,
                 {parallel = parallel}), m
  end,
  function(r, p, m)
    local k = 2 + below(r, 2)
    for i, epoch in ipairs(m) do
      m[i] = {}
      for _, x in ipairs(epoch) do
        if x % k ~= 0 then table.insert(m[i], x) end
      end
    end
    return p:filter(function(e) return (e.x % k):not_equal(0) end), m
  end,
  function(r, p, m) return p:prefetch(1 + below(r, 9)), m end,
}

local function chain(seed)
  local r = rng.new(seed)
  local n, m = below(r, 12), {}
  for i = 1, 36 do
    m[i] = {}
    for k = 1, n do m[i][k] = k - 1 end
  end
  local p = rows(n)
  for _ = 1, below(r, 4) do p, m = stages[1 + below(r, #stages)](r, p, m) end
  return p, m
end

-- As many epochs as there are before one that is empty, where the loop ends.
local function expected(m, epochs)
  local list = {}
  for i = 1, math.min(epochs, #m) do
    if #m[i] == 0 then break end
    table.move(m[i], 1, #m[i], #list + 1, list)
  end
  return table.concat(list, " ")
end

function tests.chains_agree_with_a_model()
  for seed = 1, tonumber(os.getenv "TIDE_CHAINS") or 150 do
    local p, m = chain(seed)
    lu.assertEquals(all(p, {epochs = 2}), expected(m, 2),
                    ("seed %d: %s"):format(seed, tostring(p)))
  end
end

-- ---- states -----------------------------------------------------------------

-- Interrupts a loop before each `every`-th element, and goes on in another.
local function check_restores(p, epochs, every, label)
  local whole = {}
  local function note(list, e)
    list[#list + 1] = ("%d:%d %s"):format(e.epoch, e.step, text_of(e.x))
  end
  for e in p:batches(nil, {epochs = epochs}) do note(whole, e) end
  local it = p:batches(nil, {epochs = epochs})
  for k = 1, #whole + 1 do
    if (k - 1) % every == 0 or k == #whole + 1 then
      local again = p:batches(nil, {epochs = epochs}):restore(it:state())
      local rest = {}
      for e in again do note(rest, e) end
      lu.assertEquals(rest, table.move(whole, k, #whole, 1, {}),
        ("%s: before element %d"):format(label or tostring(p), k))
    end
    it()
  end
  return whole
end

local function mixed(parallel)
  return rows(40, {shuffle = true, seed = 1}):shuffle(7, {seed = 2})
    :map(function(e)
      local by = td.random_uniform({}, {maxval = 9})
      return {x = e.x * 10 + td.cast(by, "int32")}
    end, {seed = 3, parallel = parallel})
    :filter(function(e) return (e.x % 3):not_equal(0) end)
    :batch(2):shuffle(3, {seed = 4}):prefetch(2)
end

function tests.one_sequence_for_one_seed()
  local want
  for _, parallel in ipairs{1, 2, 8} do
    local whole = check_restores(mixed(parallel), 3, 10, "mixed")
    want = want or whole
    lu.assertEquals(whole, want)
  end
end

function tests.states_of_chains()
  for seed = 1, tonumber(os.getenv "TIDE_CHAINS") or 60 do
    check_restores((chain(seed)), 2, 3, "seed " .. seed)
  end
end

function tests.states_of_buckets_and_padding()
  local p = ragged(12):shuffle(5, {seed = 8}):bucket("n", {4, 8}, 3)
    :map(function(e) return {x = e.n} end)
  check_restores(p, 2, 1)
  check_restores(p:repeat_(2):take(5):repeat_(2), 2, 1)
end

-- A restored loop can be saved at once, and so on.
function tests.states_of_states()
  local p = mixed(2)
  local want = all(p, {epochs = 2})
  local list, it = {}, p:batches(nil, {epochs = 2})
  while true do
    it = p:batches(nil, {epochs = 2}):restore(
      p:batches(nil, {epochs = 2}):restore(it:state()):state())
    local e = it()
    if not e then break end
    list[#list + 1] = text_of(e.x)
  end
  lu.assertEquals(table.concat(list, " "), want)
end

-- A damaged state is an error or another place, never a crash.
function tests.damaged_states()
  local p = mixed(2)
  local it = p:batches(nil, {epochs = 2})
  for _ = 1, 5 do it() end
  local s = it:state()
  local r = rng.new(9)
  for k = 0, #s - 1, 7 do
    pcall(function()
      p:batches(nil, {epochs = 2}):restore(s:sub(1, k))
    end)
    local at = below(r, #s) + 1
    local bad = s:sub(1, at - 1) .. string.char(below(r, 256)) .. s:sub(at + 1)
    pcall(function()
      local damaged = p:batches(nil, {epochs = 1}):restore(bad)
      damaged:close()
    end)
  end
  raises("not the state of a pipeline", it.restore, it, "")
  raises("not that of a pipeline of these stages", it.restore, it,
         rows(3):take(1):map(function(e) return e end):skip(0):skip(0):skip(0)
           :skip(0):batches():state())
end

-- ---- in a graph -------------------------------------------------------------

function tests.next_in_a_graph()
  local p = rows(5):batch(2)
  local e = p:next()
  lu.assertTrue(e.x.shape == {-1})
  local s <close> = td.session()
  local y = e.x * 2
  lu.assertEquals(s:run(y):table(), {0, 2})
  local state = p:state()
  lu.assertEquals(s:run(y):table(), {4, 6})
  lu.assertEquals(s:run(y):table(), {8})
  for _ = 1, 2 do
    local err = raises("no more elements", s.run, s, y)
    lu.assertEquals(err.code, "out_of_range")
  end
  p:restore(state)
  lu.assertEquals(s:run(y):table(), {4, 6})
  p:rewind()
  lu.assertEquals(s:run(y):table(), {0, 2})
  raises("whose :next() is in a graph", rows(2).state, rows(2))
end

-- Elsewhere they are fed.
function tests.a_saved_graph_has_placeholders()
  local p = rows(4):map(function(e)
    return {a = e.x, b = td.cast(e.x, "float32")}
  end)
  local path, copy = os.tmpname(), td.graph()
  td.graph():as_default(function()
    local e = p:next()
    local sum = td.identity(td.cast(e.a, "float32") + e.b, "sum")
    local s <close> = td.session{graph = sum.graph}
    lu.assertEquals(s:run(sum), 0)
    td.get_default_graph():save(path)
  end)
  copy:as_default(td.import_graph, path)
  os.remove(path)
  for _, name in ipairs{"PipelineNext", "PipelineNext/1"} do
    lu.assertEquals(copy:op(name).type, "Placeholder")
  end
  local s <close> = td.session{graph = copy}
  lu.assertEquals(s:run("sum:0", {["PipelineNext:0"] = 1,
                                  ["PipelineNext/1:0"] = 2.5}), 3.5)
end

function tests.a_step_that_waits_ends_in_time()
  local p = rows(2):map(function(e)
    local i = td.while_loop(function(i) return i:greater_equal(0) end,
                            function(i) return i * 1 end, {e.x})
    return {x = i}
  end)
  local e = p:next()
  local s <close> = td.session()
  local err = raises("did not end within", s.run, s, e.x, nil, {timeout = 0.1})
  lu.assertEquals(err.code, "deadline_exceeded")
  lu.assertStrContains(err.message, "map computes")
  p:close()
  raises("not in this process", s.run, s, e.x)
end

-- ---- files ------------------------------------------------------------------

local function folder()
  local path = os.tmpname()
  os.remove(path)
  core.mkdirs(path)
  return path, setmetatable({}, {__close = function()
    os.execute("rm -r '" .. path .. "'")
  end})
end

local function write_records(path, list, compression)
  local w <close> = td.record_writer(path, {compression = compression})
  for _, r in ipairs(list) do w:write(r) end
end

local function records(p, o)
  return all(p:map(function(e) return {x = e.record} end), o)
end

function tests.files()
  local dir <const>, _ <close> = folder()
  write_records(dir .. "/b.rec", {"b0", "b1", "b2"})
  write_records(dir .. "/a.rec", {"a0", "a1"})
  write_records(dir .. "/c.rec", {})
  local pattern = dir .. "/*.rec"
  lu.assertEquals(records(td.data.records(pattern)), "a0 a1 b0 b1 b2")
  lu.assertEquals(records(td.data.records{dir .. "/b.rec", pattern}),
                  "b0 b1 b2 a0 a1 b0 b1 b2")
  lu.assertEquals(records(td.data.records(pattern, {shard = {1, 2}})),
                  "b0 b1 b2")
  lu.assertEquals(records(td.data.records(dir .. "/b.rec", {shard = {1, 2}})),
                  "b1")
  lu.assertEquals(records(td.data.records(pattern):take(3):repeat_(2)),
                  "a0 a1 b0 a0 a1 b0")
  lu.assertEquals(records(td.data.records(dir .. "/c.rec"):repeat_()), "")
  check_restores(td.data.records(pattern, {shuffle_files = true, seed = 1})
    :shuffle(2, {seed = 1}):map(function(e) return {x = e.record} end), 3, 1)
  raises("no file is like", td.data.records, dir .. "/*.tf")
  raises("cannot open", td.data.records(dir .. "/z.rec"):batches())
end

function tests.packed_files()
  local dir <const>, _ <close> = folder()
  for _, kind in ipairs{"ZLIB", "GZIP"} do
    local list = {}
    for i = 1, 700 do list[i] = "r" .. i end
    write_records(dir .. "/x", list, kind)
    local p = td.data.records(dir .. "/x", {compression = kind})
    lu.assertEquals(records(p), table.concat(list, " "))
    check_restores(p:map(function(e) return {x = e.record} end), 1, 211)
  end
end

-- An error stands in its place; what is behind it in that file is left out, or
-- passed over and counted.
function tests.bad_records()
  local dir <const>, _ <close> = folder()
  local path = dir .. "/a"
  write_records(path, {"one", "two", "three"})
  write_records(dir .. "/b", {"four"})
  local f = assert(io.open(path, "r+b"))
  f:seek("set", 12 + 3 + 4 + 12) -- the payload of the second
  f:write("T")
  f:close()
  local it = td.data.records{path, dir .. "/b"}:batches()
  lu.assertEquals(it().record:item(), "one")
  local err = raises("a", it)
  lu.assertEquals(err.code, "data_loss")
  lu.assertStrContains(err.message, path)
  lu.assertEquals(it().record:item(), "four")
  lu.assertNil(it())
  lu.assertEquals(records(td.data.records({path, dir .. "/b"},
                                          {skip_errors = 1})),
                  "one three four")
end

local function write(path, text)
  local f <close> = assert(io.open(path, "wb"))
  f:write(text)
end

function tests.lines_and_fixed()
  local dir <const>, _ <close> = folder()
  write(dir .. "/t", "one\r\ntwo\n\nlast")
  local list = {}
  for e in td.data.lines(dir .. "/t", {skip_lines = 1}):batches() do
    list[#list + 1] = e.line:item() .. "@" .. e.key:item():match "%d+$"
  end
  lu.assertEquals(list, {"two@2", "@3", "last@4"})
  write(dir .. "/f", "Habcdef.")
  lu.assertEquals(records(td.data.fixed(dir .. "/f", 2,
                                        {header = 1, footer = 1})), "ab cd ef")
  raises("bytes must be at least 1", td.data.fixed, dir .. "/f", 0)
end

function tests.columns_of_text()
  local dir <const>, _ <close> = folder()
  write(dir .. "/t.csv", "a,b,name\n1,2.5,x\n3,,\"q,r\"\n")
  local p = td.data.csv_files(dir .. "/*.csv",
    {types = {a = "int64", name = "string"}, missing = {b = -1}})
  lu.assertEquals(tostring(p), "Pipeline lines(1 files) | map: "
    .. "a int64 {}, b float32 {}, key string {}, name string {}")
  local list = {}
  for e in p:batches() do
    list[#list + 1] = ("%d %g %s"):format(e.a:item(), e.b:item(),
                                          e.name:item())
  end
  lu.assertEquals(list, {"1 2.5 x", "3 -1 q,r"})
  local strict = td.data.csv_files(dir .. "/t.csv",
    {types = {a = "int64", name = "string"}}):batches()
  strict()
  raises("field 1", strict)
  raises("did you mean \"a\"", td.data.csv_files, dir .. "/t.csv",
         {types = {aa = "int64"}})
  raises("cannot be bool", td.data.csv_files, dir .. "/t.csv",
         {types = "bool"})
end

function tests.pictures()
  local dir <const>, _ <close> = folder()
  for k, class in ipairs{"cat", "dog"} do
    core.mkdirs(dir .. "/" .. class)
    td.save_image(dir .. "/" .. class .. "/1.png",
                  td.fill({2, 3, 3}, 0.2 * k):eval())
  end
  local p, classes = td.data.image_files(dir, {size = {4, 4}})
  lu.assertEquals(classes, {"cat", "dog"})
  local b = p:batch(2):batches()()
  lu.assertTrue(b.image.shape == {2, 4, 4, 3})
  lu.assertEquals(b.label:table(), {0, 1})
  lu.assertAlmostEquals(b.image:max():item(), 0.4, 1e-6)
  write(dir .. "/dog/2.png", "no picture")
  local it = td.data.image_files(dir):batches()
  it()
  it()
  raises("", it)
end

-- ---- mistakes ---------------------------------------------------------------

function tests.mistakes()
  local p = rows(3)
  raises("gives a table of tensors", p.map, p, function() return 3 end)
  raises("not one tensor", p.map, p, function(e) return e.x end)
  raises("gives no column", p.map, p, function() return {} end)
  raises("bool scalar", p.filter, p, function(e) return e.x end)
  raises("parallel must be at least 1", p.map, p,
         function(e) return e end, {parallel = 0})
  raises("batch: n must be at least 1", p.batch, p, 0)
  raises("take: n must be at least 0", p.take, p, -1)
  raises("has no \"shufle\"; did you mean \"shuffle\"",
         function() return p.shufle end)
  raises("other than epoch and step", sources.rows, {epoch = {1}})
  raises("part k of n", sources.rows, {x = {1}}, {shard = {3, 3}})
  raises("no column \"y\"", p.bucket, p, "y", {1}, 1)
  raises("no column \"xx\"; did you mean \"x\"?; there are x", p.map, p,
         function(e) return {y = e.xx} end)
  raises("column \"s\" is a table of indices, values; each tensor of it is a "
         .. "column of its own, as in {s_values = t.values}", p.map, p,
         function(e) return {s = {indices = e.x, values = e.x}} end)
  raises("filter: the function gives a bool scalar, not boolean", p.filter, p,
         function() return true end)
  raises("p:shuffle(n)", p.batches, p, 2, {shuffle = true})
  raises("for e in p:batches() do", function() return #p end)
  raises("for e in p:batches() do", function() return p[1] end)
  raises("for e in p:batches() do", function() for e in p do print(e) end end)
  -- An element's error is its own.
  local q = rows(4):map(function(e)
    local ok = td.assert(e.x:not_equal(1), {e.x})
    return {x = td.control_dependencies({ok}, function()
      return td.identity(e.x)
    end)}
  end)
  local it = q:batches()
  lu.assertEquals(it().x:item(), 0)
  raises("assertion failed", it)
  lu.assertEquals(it().x:item(), 2)
  it:close()
  lu.assertNil(it())
end

return tests
