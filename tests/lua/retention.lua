-- retention.lua - which checkpoints stay in a folder, and which one is taken
-- when files are damaged or a process ended at any moment.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local td = require "tide"
local folder = require "shared.folder"
local helper = require "helper"

local raises, gives, contains = helper.raises, helper.gives, helper.contains
local temp, names, steps = folder.temp, folder.names, folder.steps
local read, write, told = folder.read, folder.write, folder.told
local counter = folder.counter
local tests = {}

-- ---- which stay ------------------------------------------------------------

function tests.the_newest_stay()
  local dir <close> = temp()
  local _, sess, step = counter()
  local saver = td.train.saver{max_to_keep = 2}
  lu.assertEquals(saver:list(), {})
  lu.assertNil(saver:wait())
  for i = 1, 4 do
    sess:run(step)
    saver:save(sess, dir "m", {global_step = i})
  end
  lu.assertEquals(steps(dir), "3 4")
  lu.assertEquals(names(dir), "checkpoint m-3.data-00000-of-00001 m-3.index "
    .. "m-4.data-00000-of-00001 m-4.index")
  contains(read(dir "checkpoint"), 'model_checkpoint_path: "m-4"\n',
           'all_model_checkpoint_paths: "m-3"\n'
           .. 'all_model_checkpoint_paths: "m-4"\n')
  lu.assertEquals(td.train.latest_checkpoint(dir.path), dir "m-4")
  lu.assertEquals(saver:list()[1].prefix, dir "m-3")
  lu.assertEquals(saver:list()[2].step, 4)
  lu.assertEquals(saver:wait(), dir "m-4")
end

function tests.a_job_started_again_goes_on_removing()
  local dir <close> = temp()
  local w, sess, step = counter()
  for i = 1, 5 do
    sess:run(step)
    td.train.saver{max_to_keep = 3}:save(sess, dir "m", {global_step = i})
  end
  td.train.saver{max_to_keep = 1}:save(sess, dir "other", {global_step = 9})
  lu.assertEquals(steps(dir), "3 4 5 9")
  sess:run(step)
  local r = td.train.saver():restore(sess, dir.path)
  lu.assertEquals({r.prefix, r.global_step}, {dir "other-9", 9})
  gives({5, 6, 7, 8}, sess:run(w))
  lu.assertEquals(#td.train.saver():list(dir.path), 4)
end

function tests.all_stay_and_names_without_steps()
  local dir <close> = temp()
  local _, sess = counter()
  local saver = td.train.saver{max_to_keep = 0}
  for i = 1, 7 do saver:save(sess, dir "m", {global_step = i}) end
  lu.assertEquals(steps(dir), "1 2 3 4 5 6 7")
  saver = td.train.saver{max_to_keep = 2}
  for _, name in ipairs{"a", "b", "b", "c"} do saver:save(sess, dir(name)) end
  lu.assertFalse(core.exists(dir "a.index"))
  lu.assertEquals(steps(dir), "1 2 3 4 5 6 7")
  lu.assertEquals(#saver:list(), 2)
end

-- os.time() gives that meanwhile.
local function at_time(t, f, ...)
  local real = os.time
  rawset(os, "time", function() return t end)
  local result = table.pack(pcall(f, ...))
  rawset(os, "time", real)
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

function tests.one_every_so_many_hours()
  local dir <close> = temp()
  local _, sess = counter()
  for i = 1, 12 do -- every half hour; each time by another saver
    local saver = td.train.saver{max_to_keep = 1, keep_hours = 2}
    at_time(1.7e9 + i * 1800, saver.save, saver, sess, dir "m",
            {global_step = i})
  end
  lu.assertEquals(steps(dir), "5 9 12")
  contains(read(dir "checkpoint"), "last_preserved_timestamp: 1700016200")
end

function tests.the_best_stay_too()
  local dir <close> = temp()
  local _, sess = counter()
  local metrics = {0.5, 0.9, 0.1, 0.7, 0 / 0, 0.2, 0.9}
  local saver = td.train.saver{max_to_keep = 2, best = "max"}
  raises("needs metric", saver.save, saver, sess, dir "m")
  for i, x in ipairs(metrics) do
    if i == 4 then saver = td.train.saver{max_to_keep = 2, best = "max"} end
    saver:save(sess, dir "m", {global_step = i, metric = x})
  end
  lu.assertEquals(steps(dir), "2 6 7")
  lu.assertEquals(saver:best(), dir "m-7")       -- of equals the newer
  local list = saver:list()
  lu.assertEquals(#list, 3)
  lu.assertEquals(list[1].metric, 0.9)
  contains(read(dir "checkpoint_best"), 'model_checkpoint_path: "m-7"',
           'all_model_checkpoint_paths: "m-2"')
  local r = saver:restore(sess, saver:best())
  lu.assertEquals(r.metric, 0.9)
  saver:save(sess, dir "m", {global_step = 8, metric = 1.5})
  lu.assertEquals(steps(dir), "7 8")
end

function tests.the_least_is_best()
  local dir <close> = temp()
  local _, sess = counter()
  local saver = td.train.saver{max_to_keep = 1, best = "min"}
  for i, x in ipairs{0.5, -0.25, 0.1} do
    saver:save(sess, dir "m", {global_step = i, metric = x})
  end
  lu.assertEquals(steps(dir), "2 3")
  lu.assertEquals(saver:best(), dir "m-2")
end

-- ---- what a crash leaves ---------------------------------------------------

-- Steps 1 to n in a folder, with w = {n, n + 1, ..}.
local function saved(dir, n, o)
  local w, sess, step = counter()
  local saver = td.train.saver(o)
  for i = 1, n do
    sess:run(step)
    saver:save(sess, dir "m", {global_step = i})
  end
  return w, sess, saver, step
end

function tests.a_damaged_newest_is_passed_over()
  local dir <close> = temp()
  local w, sess, saver = saved(dir, 3)
  local data = dir "m-3.data-00000-of-00001"
  local bytes = read(data)
  local kinds = {bytes:sub(1, 10), bytes:gsub("\0", "\1"), false}
  for i = 1, #kinds do
    os.remove(data)
    if kinds[i] then write(data, kinds[i]) end
    local text, r = told(saver.restore, saver, sess, dir.path)
    contains(text, "warning: saver:restore: passed over", "m-3",
             "taking the one before")
    lu.assertEquals(r.prefix, dir "m-2")
    gives({2, 3, 4, 5}, sess:run(w))
    if i ~= 2 then -- what a glance at sizes tells
      local more, latest = told(td.train.latest_checkpoint, dir.path)
      contains(more, "passed over")
      lu.assertEquals(latest, dir "m-2")
    end
  end
  sess:run(w:assign{9.0, 9.0, 9.0, 9.0})
  raises("m-3", saver.restore, saver, sess, dir "m-3")
  gives({9, 9, 9, 9}, sess:run(w))
  for i = 1, 2 do os.remove(dir(("m-%d.data-00000-of-00001"):format(i))) end
  told(function()
    local e = raises("is missing", saver.restore, saver, sess, dir.path)
    lu.assertEquals(e.code, "data_loss")
    raises("is missing", td.train.latest_checkpoint, dir.path)
  end)
end

function tests.a_misfit_is_not_passed_over()
  local dir <close> = temp()
  saved(dir, 2)
  td.reset()
  td.variable(1.0, "w")
  local saver, sess = td.train.saver(), td.session()
  raises("m-2' does not fit", saver.restore, saver, sess, dir.path)
end

function tests.saved_but_not_listed()
  local dir <close> = temp()
  local w, sess = saved(dir, 2)
  local before = read(dir "checkpoint")
  td.train.saver():save(sess, dir "m", {global_step = 3})
  write(dir "checkpoint", before)                -- as if it had ended before
  lu.assertEquals(td.train.latest_checkpoint(dir.path), dir "m-3")
  local saver = td.train.saver{max_to_keep = 2}
  lu.assertEquals(saver:restore(sess, dir.path).prefix, dir "m-3")
  saver:save(sess, dir "m", {global_step = 4})
  lu.assertEquals(steps(dir), "3 4")
  gives({2, 3, 4, 5}, sess:run(w))
end

function tests.removed_in_part()
  local dir <close> = temp()
  local _, sess, saver = saved(dir, 3)
  os.remove(dir "m-1.index")                     -- as if it had ended there
  saver:save(sess, dir "m", {global_step = 4})
  lu.assertFalse(core.exists(dir "m-1.data-00000-of-00001"))
  lu.assertEquals(steps(dir), "2 3 4")
  lu.assertNotStrContains(read(dir "checkpoint"), "m-1")
end

function tests.remains_go()
  local dir <close> = temp()
  local _, sess = saved(dir, 2)
  core.mkdirs(dir "m-7_temp")
  core.mkdirs(dir "other-7_temp")
  for _, name in ipairs{"m-5.data-00000-of-00001", "m-6.index.tempstate",
                        "m-7_temp/part-00000-of-00002.index",
                        "m-7_temp/part-00000-of-00002.data-00000-of-00001",
                        "m-7_temp/part-00001-of-00002.data.tempstate",
                        "m.txt", "other-5.data-00000-of-00001"} do
    write(dir(name), "x")
  end
  local busy = core.checkpoint_writer(dir "m-8")
  busy:add("x", td.tensor(1))
  td.train.saver():save(sess, dir "m", {global_step = 3})
  lu.assertEquals(steps(dir), "1 2 3")
  for _, name in ipairs{"m-5.data-00000-of-00001", "m-6.index.tempstate",
                        "m-7_temp"} do
    lu.assertFalse(core.exists(dir(name)), name)
  end
  for _, name in ipairs{"m.txt", "other-5.data-00000-of-00001",
                        "other-7_temp"} do
    lu.assertTrue(core.exists(dir(name)), name)
  end
  busy:commit()
  busy:close()
  lu.assertEquals(steps(dir), "1 2 3 8")
end

function tests.a_damaged_state_file()
  local dir <close> = temp()
  local w, sess, saver = saved(dir, 12, {max_to_keep = 4})
  write(dir "checkpoint", "model_checkpoint_path: \"m-")
  local text, r = told(saver.restore, saver, sess, dir.path)
  contains(text, "warning: '" .. dir "checkpoint", "line 1", "by their names")
  lu.assertEquals(r.prefix, dir "m-12")
  gives({12, 13, 14, 15}, sess:run(w))
  text = told(saver.save, saver, sess, dir "m", {global_step = 13})
  contains(text, "it is made anew")
  lu.assertEquals(steps(dir), "10 11 12 13")
  os.remove(dir "checkpoint")
  lu.assertEquals(td.train.latest_checkpoint(dir.path), dir "m-13")
end

function tests.a_folder_that_was_moved()
  local dir <close> = temp()
  saved(dir, 2)
  local moved = dir.path .. ".moved"
  write(dir "checkpoint", ('model_checkpoint_path: "%s"\n'):format(dir "m-1"))
  os.rename(dir.path, moved)
  lu.assertEquals(td.train.latest_checkpoint(moved), moved .. "/m-2")
  os.remove(moved .. "/m-2.index")
  lu.assertEquals(td.train.latest_checkpoint(moved), moved .. "/m-1")
  os.rename(moved, dir.path)
end

function tests.two_writers()
  local dir <close> = temp()
  local w, sess, saver = saved(dir, 1)
  local other = core.checkpoint_writer(dir "m-1")
  sess:run(w:assign{0.0, 0.0, 0.0, 0.0})
  local e = raises("m-1", saver.save, saver, sess, dir "m", {global_step = 1})
  lu.assertEquals(e.code, "unavailable")
  other:close()
  gives({1, 2, 3, 4}, td.train.load_variable(dir.path, "w"))
  saver:save(sess, dir "m", {global_step = 1})
  gives({0, 0, 0, 0}, td.train.load_variable(dir.path, "w"))
end

function tests.no_room_for_the_folder()
  local dir <close> = temp()
  local _, sess, saver = saved(dir, 1)
  write(dir "file", "x")
  raises(dir "file", saver.save, saver, sess, dir "file/m")
  saver:save(sess, dir "new/folders/m")
  lu.assertEquals(td.train.latest_checkpoint(dir "new/folders/"),
                  dir "new/folders/m")
end

return tests
