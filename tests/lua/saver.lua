-- saver.lua - td.train.saver: variables to files and back, in full and in part,
-- at once and in the background, and what else is saved with them.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"
local folder = require "shared.folder"
local helper = require "helper"

local raises, gives, contains = helper.raises, helper.gives, helper.contains
local temp, names, steps = folder.temp, folder.names, folder.steps
local read, write, counter = folder.read, folder.write, folder.counter
local tests = {}

-- ---- there and back --------------------------------------------------------

local dtypes = {"float16", "bfloat16", "float32", "float64", "int8", "int16",
                "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                "complex64", "complex128"}

function tests.all_dtypes_come_back()
  local dir <close> = temp()
  local list, want = {}, {}
  for i, dtype in ipairs(dtypes) do
    list[i] = td.variable(td.cast(td.constant{{1, 2, i}, {4, 5, 6}}, dtype),
                          "v_" .. dtype)
  end
  list[#list + 1] = td.variable({true, false}, "v_bool")
  list[#list + 1] = td.variable({"", "a\0b", ("x"):rep(300)}, "v_string")
  list[#list + 1] = td.variable(3.5, "scalar")
  list[#list + 1] = td.variable(td.zeros{0, 3}, "empty")
  local sess = td.session()
  sess:init()
  for i, v in ipairs(list) do want[i] = sess:run(v, nil, {as_values = true}) end
  local saver = td.train.saver()
  lu.assertEquals(tostring(saver), ("Saver of %d variables"):format(#list))
  local prefix = saver:save(sess, dir "all")
  lu.assertEquals(prefix, dir "all")
  sess:close()
  local fresh = td.session()                     -- nothing is initialised here
  local report = saver:restore(fresh, prefix)
  lu.assertEquals(#report.restored, #list)
  lu.assertEquals({#report.missing, #report.unused, #report.differ}, {0, 0, 0})
  for i, v in ipairs(list) do
    lu.assertTrue(core.same(fresh:run(v, nil, {as_values = true}), want[i]),
                  v.name)
  end
end

function tests.names_are_tensorflows()
  local dir <close> = temp()
  local w = td.variable({1.0}, "net/w")
  local loss = (w ^ 2):sum()
  local step = td.train.global_step()
  td.train.adam(0.1):minimize(loss, {global_step = step})
  local sess = td.session()
  sess:init()
  td.train.saver():save(sess, dir "m", {global_step = step})
  local list = {}
  for i, e in ipairs(td.train.list_variables(dir "m-0")) do list[i] = e.name end
  lu.assertEquals(table.concat(list, " "), "_tide/global_step "
    .. "_tide/keep_names _tide/keep_texts _tide/metric _tide/random "
    .. "beta1_power beta2_power global_step net/w net/w/Adam net/w/Adam_1")
end

function tests.nodes_are_tensorflows()
  counter()
  td.train.saver()
  local g = td.get_default_graph()
  lu.assertEquals(g:op "save/SaveV2".type, "SaveV2")
  lu.assertEquals(g:op "save/RestoreV2".type, "RestoreV2")
  lu.assertEquals(g:op "save/Const".type, "PlaceholderWithDefault")
  lu.assertEquals(g:op "save/restore_all".type, "NoOp")
  lu.assertEquals(g:op "save/control_dependency".type, "Identity")
end

function tests.other_names_and_parts()
  local dir <close> = temp()
  local a, b = td.variable({1.0, 2.0}, "a"), td.variable(5, "b")
  local sess = td.session()
  sess:init()
  td.train.saver{variables = {old = a}}:save(sess, dir "one")
  lu.assertEquals(td.train.list_variables(dir "one")[6].name, "old")
  gives({1, 2}, td.train.load_variable(dir "one", "old"))
  sess:run{a:assign{8.0, 8.0}, b:assign(9)}
  td.train.saver{variables = {old = a}}:restore(sess, dir "one")
  gives({1, 2}, sess:run(a))
  gives(9, sess:run(b))
  local saver = td.train.saver{variables = {a}}
  raises('it lacks "a"', saver.restore, saver, sess, dir "one")
  raises("no name for a variable", td.train.saver,
         {variables = {["_tide/x"] = a}})
end

function tests.variables_made_later_are_saved()
  local dir <close> = temp()
  local _, sess = counter()
  local saver = td.train.saver()
  td.variable(7.0, "late")
  sess:init()
  saver:save(sess, dir "m")
  gives(7, td.train.load_variable(dir.path, "late"))
  local size = sess:core_graph():size()
  saver:save(sess, dir "m")
  saver:restore(sess, dir "m")
  lu.assertEquals(sess:core_graph():size(), size)
end

-- ---- what does not fit -----------------------------------------------------

-- A checkpoint of a {2}, b {3} and c int32; then a graph where b and c differ
-- and d is new.
local function misfit(dir)
  td.variable({1.0, 2.0}, "a")
  td.variable({1.0, 2.0, 3.0}, "b")
  td.variable(4, "c")
  td.variable(5.0, "extra")
  local sess = td.session()
  sess:init()
  td.train.saver():save(sess, dir "m")
  td.reset()
  local v = {a = td.variable({0.0, 0.0}, "a"), b = td.variable({0.0}, "b"),
             c = td.variable(0.0, "c"), d = td.variable(0.0, "d")}
  return v, td.session()
end

function tests.misfits_are_told_and_change_nothing()
  local dir <close> = temp()
  local v, sess = misfit(dir)
  sess:init()
  local saver = td.train.saver()
  local e = raises("does not fit", saver.restore, saver, sess, dir "m")
  contains(e.message, 'it lacks "d"', '"b" is float32 {3} in it, and the '
           .. 'variable float32 {1}', '"c" is int32 {} in it, and the variable '
           .. 'float32 {}', "partial = true")
  lu.assertEquals(e.code, "invalid_argument")
  gives({0, 0}, sess:run(v.a))
end

function tests.in_part()
  local dir <close> = temp()
  local v, sess = misfit(dir)
  local saver = td.train.saver()
  local r = saver:restore(sess, dir "m", {partial = true})
  lu.assertEquals(r.restored, {"a"})
  lu.assertEquals(r.missing, {"d"})
  lu.assertEquals(r.unused, {"extra"})
  lu.assertEquals(r.differ, {
    {name = "b", saved = "float32 {3}", variable = "float32 {1}"},
    {name = "c", saved = "int32 {}", variable = "float32 {}"}})
  sess:init()
  gives({1, 2}, sess:run(v.a))
  gives({0}, sess:run(v.b))
end

function tests.a_shape_that_may_change()
  local dir <close> = temp()
  td.variable({1.0, 2.0, 3.0}, "v")
  local sess = td.session()
  sess:init()
  td.train.saver():save(sess, dir "m")
  td.reset()
  local v = td.variable({0.0}, {name = "v", validate_shape = false})
  sess = td.session()
  td.train.saver():restore(sess, dir "m")
  gives({1, 2, 3}, sess:run(v))
end

-- A name that ends as the files of others do.
function tests.a_prefix_called_index()
  local dir <close> = temp()
  local w, sess = counter()
  local saver = td.train.saver()
  saver:save(sess, dir "m.index")
  sess:run(w:assign{0.0, 0.0, 0.0, 0.0})
  lu.assertEquals(saver:restore(sess, dir "m.index").prefix, dir "m.index")
  lu.assertEquals(w:eval():table(), {0.0, 1.0, 2.0, 3.0})
  saver:save(sess, dir "n")
  lu.assertEquals(saver:restore(sess, dir "n.index").prefix, dir "n")
end

function tests.mistakes()
  local dir <close> = temp()
  raises("no variable to save", td.train.saver)
  local w, sess = counter()
  local saver = td.train.saver()
  local other = td.session{graph = td.graph()}
  for _, row in ipairs{
    {'has no option "max_keep"', td.train.saver, {max_keep = 3}},
    {"takes options by name", td.train.saver, {w}},
    {"variables is a list", td.train.saver, {variables = w}},
    {"1 of the variables is graph tensor", td.train.saver,
     {variables = {w:read()}}},
    {'two variables are to be saved as "w"', td.train.saver,
     {variables = {w, w}}},
    {'best is "max" or "min"', td.train.saver, {best = "most"}},
    {"max_to_keep must be", td.train.saver, {max_to_keep = -1}},
    {"must be above 0", td.train.saver, {keep_hours = 0}},
    {"saver:save(sess, path)", saver.save, sess, dir "m"},
    {"the first argument is a session", saver.save, saver, dir "m"},
    {"another graph", saver.save, saver, other, dir "m"},
    {"is a folder", saver.save, saver, sess, dir.path},
    {"is a folder", saver.save, saver, sess, dir "new/"},
    {"no byte 0", saver.save, saver, sess, dir "m\0"},
    {"not variable", td.train.saver, {variables = w}},
    {"number of steps", saver.save, saver, sess, dir "m", {global_step = -1}},
    {"number of steps", saver.save, saver, sess, dir "m", {global_step = 1.5}},
    {"metric must be a number", saver.save, saver, sess, dir "m",
     {metric = "0.5"}},
    {"there is no folder", saver.restore, saver, sess, dir "none/m"},
    {"no checkpoint in", saver.restore, saver, sess, dir.path},
    {"none.index", saver.restore, saver, sess, dir "none"},
    {'a saver has no "latst"', function() return saver.latst end},
    {"given table where the saver should be", saver.restore, {}, sess, "m"},
  } do
    raises(table.unpack(row))
  end
  lu.assertNil(td.train.latest_checkpoint(dir.path))
  lu.assertNil(td.train.latest_checkpoint(dir "none"))
  lu.assertEquals(names(dir), "")
end

function tests.variables_without_a_value()
  local dir <close> = temp()
  td.variable(1.0, "a")
  td.variable(2.0, "b")
  local sess, saver = td.session(), td.train.saver()
  local e = raises('variables "a", "b": no value yet', saver.save, saver, sess,
                   dir "m")
  lu.assertEquals(e.code, "failed_precondition")
  lu.assertEquals(names(dir), "")
end

-- ---- in the background -----------------------------------------------------

function tests.in_the_background_while_steps_run()
  local dir <close> = temp()
  local w, sess, step = counter{threads = 2}
  local n = td.variable(0, "n")
  sess:init()
  local both = td.group{step, n:assign_add(1)}
  local saver = td.train.saver{async = true, max_to_keep = 3}
  for i = 1, 10 do
    sess:run(both)
    local prefix = saver:save(sess, dir "m", {global_step = i})
    sess:run(both)                               -- after it took the values
    sess:run(w:assign_sub{1.0, 1.0, 1.0, 1.0})
    sess:run(n:assign_sub(1))
    lu.assertEquals(prefix, dir("m-" .. i))
  end
  lu.assertEquals(saver:wait(), dir "m-10")
  lu.assertEquals(steps(dir), "8 9 10")
  for i = 8, 10 do
    gives({i, i + 1, i + 2, i + 3}, td.train.load_variable(dir("m-" .. i), "w"))
    gives(i, td.train.load_variable(dir("m-" .. i), "n"))
  end
end

function tests.errors_in_the_background()
  local dir <close> = temp()
  local w, sess = counter()
  local saver = td.train.saver{async = true}
  saver:save(sess, dir "m")
  saver:wait()
  local other = core.checkpoint_writer(dir "m")
  saver:save(sess, dir "m")
  local e = raises("m", saver.wait, saver)
  lu.assertEquals(e.code, "unavailable")
  saver:save(sess, dir "m")
  e = raises("m", saver.save, saver, sess, dir "n")
  lu.assertEquals(e.code, "unavailable")
  lu.assertFalse(core.exists(dir "n.index"))
  other:close()
  sess:run(w:assign{5.0, 5.0, 5.0, 5.0})
  saver:save(sess, dir "m")
  lu.assertEquals(#saver:list(), 1)              -- waits, too
  gives({5, 5, 5, 5}, td.train.load_variable(dir "m", "w"))
end

function tests.an_interrupted_save()
  local dir <close> = temp()
  local big = td.variable(td.ones{1 << 22}, "big")
  local sess = td.session()
  sess:init()
  local saver = td.train.saver{async = true}
  saver:save(sess, dir "m")
  saver:wait()
  sess:run(big:assign_add(td.ones{1 << 22}).op)
  saver:save(sess, dir "m")
  local handle = saver.pending.handle
  handle:cancel()
  local ok, e = pcall(saver.wait, saver)
  if not ok then lu.assertEquals(e.code, "cancelled") end
  local kept = td.train.load_variable(dir "m", "big")
  td.train.verify_checkpoint(dir "m")
  gives(ok and 2 or 1, td.reduce_max(kept))
  saver:save(sess, dir "m")
  local first = big:read()[0]
  while saver:wait(0) == false do sess:run(first) end
  lu.assertNil(saver.pending)
  gives(2, td.reduce_max(td.train.load_variable(dir "m", "big")))
end

-- Sparse updates work on the rows of a table, of which a read is a copy: not
-- of a save, which takes a share.
function tests.a_large_embedding_is_not_copied()
  local dir <close> = temp()
  local rows, columns = 1 << 14, 64
  local E = td.variable(td.zeros{rows, columns}, "E")
  local loss = td.gather(E, td.constant{1, 2, 3}):sum()
  local step = td.train.sgd(0.5):minimize(loss)
  local sess = td.session()
  sess:init()
  local saver = td.train.saver()
  for round = 1, 2 do
    sess:run(step)
    core.memory()
    saver:save(sess, dir "m")
    local used, peak = core.memory()
    lu.assertTrue(peak - used < rows * columns * 4 // 10, peak - used)
    gives(-0.5 * round, td.train.load_variable(dir "m", "E")[1][0])
  end
end

function tests.a_session_that_closes_first()
  local dir <close> = temp()
  local _, sess = counter()
  local saver = td.train.saver{async = true}
  saver:save(sess, dir "m")
  sess:close()
  local ok, e = pcall(saver.wait, saver)
  lu.assertTrue(ok or e.code == "cancelled" or e.code == "failed_precondition")
  if ok then td.train.verify_checkpoint(dir "m") end
  lu.assertEquals(saver:wait(), ok and dir "m" or nil)
end

-- ---- devices ---------------------------------------------------------------

function tests.sharded()
  local dir <close> = temp()
  local a, b, c
  td.device("/cpu:0", function() a = td.variable({1.0, 2.0}, "a") end)
  td.device("/cpu:1", function()
    b = td.variable({3.0}, "b")
    c = td.variable("text", "c")
  end)
  local sess = td.session{cpu_devices = 2}
  sess:init()
  local saver = td.train.saver{sharded = true, max_to_keep = 1}
  for i = 1, 3 do
    sess:run(a:assign{i, i})
    saver:save(sess, dir "m", {global_step = i})
  end
  lu.assertEquals(names(dir), "checkpoint m-3.data-00000-of-00002 "
    .. "m-3.data-00001-of-00002 m-3.index")
  sess:run{a:assign{0.0, 0.0}, b:assign{0.0}, c:assign "none"}
  saver:restore(sess, dir.path)
  gives({3, 3}, sess:run(a))
  lu.assertEquals(sess:run(c), "text")
  local shard = dir "m-3.data-00001-of-00002"    -- nothing before all is read
  write(shard, (read(shard):gsub("text", "tex!")))
  sess:run(a:assign{0.0, 0.0})
  raises("c", saver.restore, saver, sess, dir "m-3")
  gives({0, 0}, sess:run(a))
  saver = td.train.saver{sharded = true, async = true, max_to_keep = 1}
  saver:save(sess, dir "m", {global_step = 4})
  sess:run(a:assign{9.0, 9.0})
  saver:restore(sess, dir "m-4")
  gives({0, 0}, sess:run(a))
  lu.assertEquals(steps(dir), "4")
  sess:run(a:assign{3.0, 3.0})
  saver:save(sess, dir "m", {global_step = 5})
  local r = td.train.saver{variables = {a}}:restore(sess, saver:wait())
  lu.assertEquals(r.unused, {"b", "c"})
  gives({3, 3}, sess:run(a))
end

-- ---- what else is saved ----------------------------------------------------

-- Draws of a graph made anew with `threads`: n of them, of a session that was
-- restored from `from` unless nil, saved as `to` after `at` draws.
local function draws(threads, n, from, to, at)
  td.reset()
  td.seed(3)
  local v = td.variable(td.random_normal{100}, "v")
  local noise = td.random_uniform({1000}, {name = "noise"})
  local op = v:assign(td.dropout(noise:reshape{100, 10}:sum{1}, 0.5) + v)
  local sess, saver = td.session{threads = threads}, td.train.saver()
  if from then saver:restore(sess, from) else sess:init() end
  for i = 1, n do
    sess:run(op)
    if i == at then saver:save(sess, to) end
  end
  return sess:run(v, nil, {as_values = true})
end

function tests.random_streams_go_on()
  local dir <close> = temp()
  for threads = 1, 2 do
    local whole = draws(threads, 9, nil, dir "m", 4)
    lu.assertTrue(core.same(draws(3 - threads, 5, dir "m"), whole))
    lu.assertFalse(core.same(draws(1, 4, dir "m"), whole))
  end
end

function tests.random_streams_left_alone()
  local dir <close> = temp()
  local w, sess = counter()
  local noise = td.random_uniform({}, {name = "noise", seed = 1})
  local saver = td.train.saver{variables = {w}}
  local first = sess:run(noise)
  saver:save(sess, dir "m")
  local second, third = sess:run(noise), sess:run(noise)
  saver:restore(sess, dir "m")
  lu.assertEquals(sess:run(noise), second)
  saver:restore(sess, dir "m", {random = false})
  lu.assertEquals(sess:run(noise), third)
  saver:restore(sess, dir "m", {partial = true})
  lu.assertNotEquals(sess:run(noise), second)
  lu.assertNotEquals(first, second)
end

-- An object with a state.
local function clock()
  local self = {time = 0}
  function self.state() return ("at %d"):format(self.time) end
  function self.restore(_, s) self.time = tonumber(s:match "%d+") end
  return self
end

function tests.things_that_are_kept()
  local dir <close> = temp()
  local _, sess = counter()
  local saver, c = td.train.saver(), clock()
  c.time = 12
  local history = {{step = 1, loss = 0.5}, {step = 2, loss = 0 / 0},
                   ["a\0\n"] = "\255", best = math.huge, [-1] = true,
                   [0.5] = {}}
  saver:save(sess, dir "m", {keep = {clock = c, history = history, n = 3,
    name = "x", value = td.tensor{{1.5, 2.5}}, whole = -0.0}})
  c.time = 99
  local table_before = {"gone"}
  local r = saver:restore(sess, dir "m", {keep = {clock = c, n = 0, name = "",
    history = table_before, value = td.tensor(0), whole = 1}})
  lu.assertEquals(c.time, 12)
  lu.assertIs(r.keep.clock, c)
  lu.assertIs(r.keep.history, table_before)
  local loss = table_before[2].loss
  lu.assertTrue(loss ~= loss)
  table_before[2].loss, history[2].loss = nil, nil
  lu.assertEquals(table_before, history)
  lu.assertEquals({r.keep.n, r.keep.name, 1 / r.keep.whole},
                  {3, "x", -math.huge})
  gives({{1.5, 2.5}}, r.keep.value)
  lu.assertEquals(saver:restore(sess, dir "m").keep, {})
end

function tests.mistakes_with_what_is_kept()
  local dir <close> = temp()
  local w, sess = counter()
  local saver = td.train.saver()
  local ring = {}
  ring.ring = ring
  for _, row in ipairs{
    {'keep: f["g"] is function', {f = {g = print}}},
    {"keep: v is graph tensor", {v = w:read()}},
    {"holds itself", {ring = ring}},
    {"keys are strings", {t = {[{}] = 1}}},
    {"keep is a table", 3},
    {"keep: a name", {1}},
  } do
    raises(row[1], saver.save, saver, sess, dir "m", {keep = row[2]})
  end
  lu.assertEquals(names(dir), "")
  saver:save(sess, dir "m", {keep = {clock = clock(), n = 3}})
  sess:run(w:assign{9.0, 9.0, 9.0, 9.0})
  for _, row in ipairs{
    {'keeps no "clok"; did you mean "clock"?', {clok = clock()}},
    {'"n" was saved as a value and is a table now', {n = {}}},
    {'"clock" was saved as an object with a state', {clock = {}}},
  } do
    raises(row[1], saver.restore, saver, sess, dir "m", {keep = row[2]})
    gives({9, 9, 9, 9}, sess:run(w))
  end
  local r = saver:restore(sess, dir "m", {keep = {more = {}}, partial = true})
  lu.assertEquals(r.missing, {"_tide/keep/more"})
end

function tests.what_was_kept_is_never_run()
  local keep = require "tide.train.keep"
  local text = keep.encode{1, 2.5, "s", {a = true, b = false}, 1 << 62}
  lu.assertEquals(keep.encode(keep.decode(text)), text)
  for i = 0, #text - 1 do raises("damaged", keep.decode, text:sub(1, i)) end
  for _, bad in ipairs{"x", "i1.5;", "i;", "d1;", "s5:abc", "s-1:", "{dnan;T}",
                       "{{}T}", "iT", "i1;T", "s99999999999999999999:",
                       ("{i1;"):rep(300), "i9223372036854775808;"} do
    raises("damaged", keep.decode, bad)
  end
end

return tests
