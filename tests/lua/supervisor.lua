--- supervisor.lua - td.train.supervisor and fit{checkpoint =}: what is saved,
-- when, and that a training goes on where it was.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local helper = require "helper"
local run_record = require "tide.script.run_record"

local raises = helper.raises

local tests = {}

-- A path where there is nothing yet; what is made there goes with the value.
local function folder()
  local path = os.tmpname()
  os.remove(path)
  return path, setmetatable({}, {__close = function()
    os.execute("rm -rf " .. path)
  end})
end

-- A counter, the op that counts, and a graph of their own.
local function counter()
  td.reset()
  local n = td.variable(0, {name = "n", trainable = false})
  return n, n:assign_add(1)
end

local function checkpoints(dir)
  local list = {}
  for name in core.list(dir):gmatch "([^\0]+)%.index\0" do
    list[#list + 1] = name
  end
  table.sort(list)
  return list
end

function tests.it_begins_saves_and_goes_on()
  local dir <const>, _ <close> = folder()
  for round = 1, 3 do
    local n, count = counter()
    local sv <close> = td.train.supervisor{logdir = dir}
    local sess = sv:session()
    lu.assertEquals(sv.resumed, round > 1)
    lu.assertEquals(sv.step, (round - 1) * 4)
    lu.assertEquals(n:eval(), (round - 1) * 4)
    while not sv:should_stop() and sv.step < round * 4 do sess:run(count) end
  end
  lu.assertEquals(td.train.load_variable(dir, "n"):item(), 12)
end

function tests.steps_and_seconds()
  local dir <const>, _ <close> = folder()
  local _, count = counter()
  local saves = {}
  local sv <close> = td.train.supervisor{logdir = dir, save_steps = 3,
    hooks = {{save = function(_, s) saves[#saves + 1] = s.step end}}}
  local sess = sv:session()
  while not sv:should_stop() and sv.step < 8 do sess:run(count) end
  lu.assertEquals(saves, {3, 6})
  sv:close()
  lu.assertEquals(saves, {3, 6, 8})
  lu.assertEquals(checkpoints(dir),
                  {"model.ckpt-3", "model.ckpt-6", "model.ckpt-8"})
end

-- Between two steps the session is asked once, but where hooks ran.
function tests.a_question_costs_little()
  local dir <const>, _ <close> = folder()
  local _, count = counter()
  local sv <close> = td.train.supervisor{logdir = dir, save_steps = 1000}
  local sess, asked = sv:session(), 0
  sv.at.session = setmetatable({stats = function()
    asked = asked + 1
    return sess:stats()
  end}, {__index = function(_, key)
    return function(_, ...) return sess[key](sess, ...) end
  end})
  while not sv:should_stop() and sv.step < 20 do sess:run(count) end
  lu.assertEquals(sv.step, 20)
  lu.assertTrue(asked <= 22, asked .. " times")
  sv.at.session = sess
end

-- A hook's own runs are no step.
function tests.a_hook_may_run_steps()
  local dir <const>, _ <close> = folder()
  local n, count = counter()
  local sv <close> = td.train.supervisor{logdir = dir, save_steps = 4,
    hooks = {{step = function() n:eval() end}}}
  local sess, asked = sv:session(), 0
  while not sv:should_stop() and sv.step < 10 do
    asked = asked + 1
    if asked % 2 == 0 then sess:run(count) end
  end
  lu.assertEquals(sv.step, 10)
  lu.assertEquals(n:eval(), 10)
end

-- What runs after a loop is no step of it, nor is a step that failed.
function tests.an_evaluation_is_no_step()
  for _, after in ipairs{"eval", "save", "fails"} do
    local dir <const>, _ <close> = folder()
    for round = 1, 3 do
      local n, count = counter()
      local sv <close> = td.train.supervisor{logdir = dir}
      local sess = sv:session()
      lu.assertEquals(sv.step, (round - 1) * 4)
      while not sv:should_stop() and sv.step < round * 4 do sess:run(count) end
      if after == "eval" then
        n:eval()
      elseif after == "save" then
        sv:save()
      else
        lu.assertFalse((pcall(sess.run, sess, td.placeholder("int32", {}))))
      end
      sv:close()
      lu.assertEquals(sv.step, round * 4)
    end
    lu.assertEquals(checkpoints(dir),
                    {"model.ckpt-12", "model.ckpt-4", "model.ckpt-8"})
  end
end

-- The end of the data is an error of the last step, which ran nothing.
function tests.a_pipeline_that_ends()
  local dir <const>, _ <close> = folder()
  for _ = 1, 2 do
    td.reset()
    local p = td.data.of{x = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}}:pipeline():batch(1)
    local x = p:next().x
    local sum = td.variable({0.0}, {name = "sum", trainable = false})
    local add = sum:assign_add(x)
    local sv <close> = td.train.supervisor{logdir = dir, keep = {p = p}}
    local sess = sv:session()
    while not sv:should_stop() do
      if not pcall(sess.run, sess, add) then break end
    end
    sv:close()
    lu.assertEquals(sv.step, 6)
    lu.assertEquals(sum:eval():table(), {21.0})
  end
end

-- A loop that takes a batch before it asks, and one that asks first.
local function walk(dir, asks_first, upto)
  local _, count = counter()
  local loop = td.data.of{x = td.value.range(0.0, 40.0, 1.0)}
    :batches(4, {epochs = 2, shuffle = true, seed = 5})
  local seen = {}
  local sv <close> = td.train.supervisor{logdir = dir,
                                         keep = {at = loop, seen = seen}}
  local sess = sv:session()
  local function step(batch)
    sess:run(count)
    for _, x in ipairs(batch.x:table()) do seen[#seen + 1] = x end
    if sv.step + 1 == upto then sv:stop() end
  end
  if asks_first then
    while not sv:should_stop() do
      local batch = loop()
      if not batch then break end
      step(batch)
    end
  else
    for batch in loop do
      if sv:should_stop() then break end
      step(batch)
    end
  end
  sv:close()
  return seen
end

function tests.a_loop_goes_on_where_it_was()
  for _, asks_first in ipairs{true, false} do
    local whole
    do
      local dir <const>, _ <close> = folder()
      whole = walk(dir, asks_first)
      lu.assertEquals(#whole, 80)
    end
    local dir <const>, _ <close> = folder()
    for _, upto in ipairs{3, 4, 10, 11, 17} do walk(dir, asks_first, upto) end
    lu.assertEquals(walk(dir, asks_first), whole)
  end
end

-- Beside the loop that is walked another one is asked within the step, and an
-- object counts, whose state is its own table.
local function walk_two(dir, asks_first, upto)
  local _, count = counter()
  local function loop(n, epochs)
    return td.data.of{x = td.value.range(0.0, 20.0, 1.0)}
      :batches(n, {epochs = epochs, shuffle = true, seed = n})
  end
  local a, b, log, own = loop(4, 3), loop(5, 9), {}, {n = 0}
  local object = {state = function() return own end,
                  restore = function(_, s) own.n = s.n end}
  local sv <close> = td.train.supervisor{logdir = dir,
    keep = {a = a, b = b, log = log, object = setmetatable(object, {})}}
  local sess = sv:session()
  local function step(batch)
    sess:run(count)
    own.n = own.n + 1
    table.insert(log, own.n)
    table.insert(log, batch.x:sum():item())
    table.insert(log, b().x:sum():item())
    if sv.step + 1 == upto then sv:stop() end
  end
  if asks_first then
    while not sv:should_stop() do
      local batch = a()
      if not batch then break end
      step(batch)
    end
  else
    for batch in a do
      if sv:should_stop() then break end
      step(batch)
    end
  end
  sv:close()
  return log
end

function tests.two_loops_go_on_where_they_were()
  for _, asks_first in ipairs{true, false} do
    local whole
    do
      local dir <const>, _ <close> = folder()
      whole = walk_two(dir, asks_first)
      lu.assertEquals(#whole, 45)
    end
    local dir <const>, _ <close> = folder()
    for _, upto in ipairs{3, 6, 7, 11} do walk_two(dir, asks_first, upto) end
    lu.assertEquals(walk_two(dir, asks_first), whole)
  end
end

function tests.tables_are_kept()
  local dir <const>, _ <close> = folder()
  local _, count = counter()
  local log = {losses = {0.1, 1 / 3}, best = {name = "a", at = 2 ^ 53}}
  do
    local sv <close> = td.train.supervisor{logdir = dir, keep = {log = log}}
    local sess = sv:session()
    while not sv:should_stop() and sv.step < 2 do
      sess:run(count)
      table.insert(log.losses, sv.step + 0.5)
    end
  end
  counter()
  local again = {}
  local sv <close> = td.train.supervisor{logdir = dir, keep = {log = again}}
  sv:session()
  lu.assertEquals(again, log)
end

-- The record tells a Ctrl-C from a failure.
function tests.an_interrupt_is_no_failure()
  for _, row in ipairs{{"interrupted", "interrupted"}, {"boom", "failed"}} do
    local dir <const>, _ <close> = folder()
    counter()
    lu.assertFalse((pcall(function()
      local sv <close> = td.train.supervisor{logdir = dir}
      sv:session()
      error(row[1], 0)
    end)))
    lu.assertEquals(run_record.read(dir).reason, row[2])
  end
end

function tests.an_error_saves_nothing()
  local dir <const>, _ <close> = folder()
  local _, count = counter()
  lu.assertFalse((pcall(function()
    local sv <close> = td.train.supervisor{logdir = dir}
    local sess = sv:session()
    while not sv:should_stop() do
      sess:run(count)
      error "stop"
    end
  end)))
  lu.assertEquals(checkpoints(dir), {})
end

function tests.a_folder_has_one_job()
  local dir <const>, _ <close> = folder()
  counter()
  local sv <close> = td.train.supervisor{logdir = dir}
  raises(dir, td.train.supervisor, {logdir = dir})
  sv:close()
  td.train.supervisor{logdir = dir}:close()
end

function tests.a_damaged_checkpoint_is_passed_over()
  local dir <const>, _ <close> = folder()
  local _, count = counter()
  do
    local sv <close> = td.train.supervisor{logdir = dir, save_steps = 2}
    local sess = sv:session()
    while not sv:should_stop() and sv.step < 4 do sess:run(count) end
  end
  local path = dir .. "/model.ckpt-4.data-00000-of-00001"
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "a"
  file:close()
  file = assert(io.open(path, "wb"))
  file:write(bytes:sub(1, #bytes // 2))
  file:close()
  counter()
  local sv <close> = td.train.supervisor{logdir = dir}
  sv:session()
  lu.assertEquals(sv.step, 2)
end

function tests.what_is_asked_wrongly()
  local dir <const>, _ <close> = folder()
  counter()
  raises("logdir, a folder", td.train.supervisor, {})
  raises("save_steps is a number", td.train.supervisor,
         {logdir = dir, save_steps = 0})
  raises("keep is a table", td.train.supervisor, {logdir = dir, keep = 3})
  raises("did you mean \"save\"", td.train.supervisor,
         {logdir = dir, hooks = {{saved = print}}})
  raises("saver is what td.train.saver made, not number", td.train.supervisor,
         {logdir = dir, saver = 5})
  raises("hooks must be a list", td.train.supervisor,
         {logdir = dir, hooks = 5})
  raises("its own place", td.train.supervisor,
         {logdir = dir, keep = {supervisor = {}}})
  raises("f is function", td.train.supervisor,
         {logdir = dir, keep = {f = print}})
  raises("v is a variable", td.train.supervisor,
         {logdir = dir, keep = {v = td.variable(1.0)}})
  local sv <close> = td.train.supervisor{logdir = dir}
  raises("sv:session() is needed", sv.should_stop, sv)
  raises("has no \"sess\"", function() return sv.sess end)
  raises("fit: resume is for checkpoint", td.train.fit,
         {loss = td.constant(0.0), train = td.no_op(), resume = true,
          data = td.data.of{x = {1.0}}})
  sv:session()
  sv:close()
  raises("save: the supervisor of", sv.save, sv)
  raises("session: the supervisor of", sv.session, sv)
  lu.assertTrue(sv:should_stop())
end

-- ---- fit ------------------------------------------------------------------

-- A small net with all that draws; what fit gave, and the weights.
local function fit(dir, o)
  td.reset()
  td.seed(3)
  local x = td.placeholder("float32", {-1, 4}, "x")
  local y = td.placeholder("float32", {-1, 1}, "y")
  local h = td.nn.dropout(td.layers.dense(x, 8, {activation = td.tanh}), 0.5)
  local loss = ((td.layers.dense(h, 1) - y) ^ 2):mean()
  local train = td.train.adam(0.01):minimize(loss)
  local xs = td.value.random_normal({60, 4}, {seed = 1})
  local data = td.data.of{x = xs, y = xs:sum(1, {keep_dims = true})}
  if o.pipeline then data = data:pipeline{shuffle = true}:batch(10) end
  local history = td.train.fit{loss = loss, train = train, data = data,
    batch = not o.pipeline and 10 or nil, epochs = 3, quiet = true,
    checkpoint = dir, save_steps = o.save_steps or 1, resume = o.resume,
    hooks = o.hooks, saver = o.saver and td.train.saver(o.saver)}
  local weights = {}
  for i, v in ipairs(td.trainable_variables()) do
    weights[i] = v:eval():bytes()
  end
  return table.concat(weights), history
end

function tests.fit_goes_on()
  for _, pipeline in ipairs{false, true} do
    local whole, history
    do
      local dir <const>, _ <close> = folder()
      whole, history = fit(dir, {pipeline = pipeline})
    end
    local dir <const>, _ <close> = folder()
    for _, last in ipairs{2, 6, 7, 15} do
      lu.assertFalse((pcall(fit, dir, {pipeline = pipeline, resume = true,
        hooks = {{step_end = function(_, run)
          if run.step == last then error "the end" end
        end}}})))
    end
    local weights, told = fit(dir, {pipeline = pipeline, resume = true})
    lu.assertEquals(weights, whole)
    lu.assertEquals(told, history)
    -- One that is over is over: its last step was saved again with its epoch.
    weights, told = fit(dir, {pipeline = pipeline, resume = true, hooks = {{
      epoch_end = function() error "once more" end}}})
    lu.assertEquals(weights, whole)
    lu.assertEquals(told, history)
  end
end

-- A script's words: what it says.
local function said_by(script, words)
  local pipe <close> = io.popen(("'%s' '%s' %s 2>&1"):format(core.executable(),
                                                             script, words))
  return pipe:read "a"
end

local SCRIPT = [[
local td = require "tide"
local flags = td.flags{dir = "", lr = 0.1}
local w = td.variable(1.0, "w")
if flags.lr > 1 then
  local x = td.placeholder("float32", {-1}, "x")
  local loss = (x * w):mean()
  td.train.fit{loss = loss, train = td.train.sgd(0.1):minimize(loss),
    data = td.data.of{x = {1.0, 2.0}}, quiet = true, checkpoint = flags.dir}
else
  local count = w:assign_add(1.0)
  local sv <close> = td.train.supervisor{logdir = flags.dir, flags = flags}
  local sess = sv:session()
  while not sv:should_stop() and sv.step < 2 do sess:run(count) end
end
]]

function tests.the_flag_resume()
  local dir <const>, _ <close> = folder()
  local path = os.tmpname()
  do
    local f <close> = assert(io.open(path, "w"))
    f:write(SCRIPT)
  end
  lu.assertEquals(said_by(path, "--resume --dir " .. dir .. "/a"), "")
  lu.assertEquals(said_by(path, "--lr 0.2 --dir " .. dir .. "/a"),
    ("tide: '%s/a' goes on, but --lr was 0.1, is 0.2\n"):format(dir))
  local fitted = "--lr 2.0 --dir " .. dir .. "/b"
  lu.assertEquals(said_by(path, fitted), "")
  lu.assertStrContains(said_by(path, fitted), "resume = true goes on")
  lu.assertEquals(said_by(path, fitted .. " --resume"), "")
  os.remove(path)
end

-- One that ended early has ended, but for somebody with more patience.
function tests.a_fit_that_ended_early_stays_so()
  local dir <const>, _ <close> = folder()
  local function early(patience)
    return {hooks = {td.train.early_stop{patience = patience,
                                         min_delta = 100.0}},
            resume = true, save_steps = 7}
  end
  local weights, history = fit(dir, early(1))
  lu.assertEquals(#history, 2)
  local again, told = fit(dir, early(1))
  lu.assertEquals(again, weights)
  lu.assertEquals(told, history)
  local _, more = fit(dir, early(2))
  lu.assertEquals(#more, 3)
end

function tests.the_best_of_a_fit_stays()
  local dir <const>, _ <close> = folder()
  fit(dir, {saver = {best = "min", max_to_keep = 1}})
  lu.assertTrue(#checkpoints(dir) <= 2)
  counter()
  raises("no metric", td.train.supervisor, {logdir = dir,
    saver = td.train.saver{best = "min"}})
end

function tests.a_folder_with_checkpoints_is_to_be_resumed()
  local dir <const>, _ <close> = folder()
  fit(dir, {})
  raises("resume = true goes on", fit, dir, {resume = false})
end

function tests.the_flag_resume_does_as_well()
  local dir <const>, _ <close> = folder()
  local _, history = fit(dir, {})
  local words = rawget(_G, "arg")
  rawset(_G, "arg", {"--resume"})
  td.flags{}
  rawset(_G, "arg", words)
  lu.assertEquals(select(2, fit(dir, {})), history)
end

return tests
