-- imports.lua - graphs that TensorFlow wrote give what they give there.
--
-- tests/golden/imports/NAME.pb (made by tests/peers/imports.py) is a GraphDef
-- in which "want_0" is TensorFlow's own result of "got_0", and so on.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local bundle = require "tide.show.bundle"
local core = require "tide.core"
local helper = require "helper"

local contains, raises = helper.contains, helper.raises

local dir = "tests/golden/imports/"
local tests = {}

local function check(g)
  local sess = td.session{graph = g}
  if g:find "start_up" then sess:run(g:op "start_up") end
  local i = 0
  while g:find("got_" .. i) do
    local y = sess:run {g:edge("got_" .. i), g:edge("want_" .. i)}
    td.test.close(y[1], y[2], {rtol = 1e-4, atol = 1e-5})
    i = i + 1
  end
  sess:close()
  lu.assertTrue(i > 0)
end

-- What is imported is written as what is imported once more, and is that then.
local function check_written(g)
  local bytes, again = g:save_bytes(), td.graph()
  again:import_bytes(bytes)
  lu.assertTrue(again:save_bytes() == bytes)
  check(again)
end

local function check_file(path)
  local g = td.graph()
  g:as_default(td.import_graph, path)
  check(g)
  check_written(g)
end

do
  local list <close> = assert(io.popen("ls " .. dir))
  for file in list:lines() do
    tests[file:gsub("%.pb$", "")] = function() check_file(dir .. file) end
  end
end

function tests.devices_are_cleared()
  local path = os.tmpname()
  local g = td.graph()
  g:as_default(function()
    td.device("/job:ps/task:7", td.constant, 2.0, "far")
    g:save(path)
  end)
  for _, clear in ipairs{false, true} do
    local again = td.graph()
    again:as_default(td.import_graph, path, {clear_devices = clear})
    local sess <close> = td.session{graph = again}
    if clear then
      helper.gives(2, sess:run("far:0"))
    else
      raises("no such task takes part", sess.run, sess, "far:0")
    end
  end
  os.remove(path)
end

function tests.a_saved_model_is_a_folder()
  local folder = os.tmpname()
  os.remove(folder)
  core.mkdirs(folder)
  local path = folder .. "/saved_model.pb"
  core.write_file(path, core.read_file(dir .. "in_model.pb"))
  check_file(folder)
  os.remove(path)
  os.remove(folder)
end

-- ---- ops that are not here --------------------------------------------------

local function saver()
  local g = td.graph()
  g:as_default(td.import_graph, dir .. "saver.pb")
  return g, td.session{graph = g}
end

function tests.what_needs_an_unknown_op_says_so()
  local g, sess = saver()
  local function fails(what, ...)
    local e = raises("needs what there is not here: op ", sess.run, sess, what)
    lu.assertEquals(e.code, "not_found")
    contains(e.message, ...)
    return e
  end
  local e = fails(g:edge "loss", 'fetch "loss:0"', 'op "VariableV2"')
  lu.assertEquals({e.op, e.node}, {"VariableV2", "b"})
  fails(g:op "save/restore_all", 'target "save/restore_all"', 'op "Assign"',
        'op "VariableV2"')
  fails(g:op "Merge/MergeSummary", 'op "MergeSummary"', 'op "ScalarSummary"')
end

function tests.a_function_with_an_unknown_op_fails_where_it_is_called()
  local g = td.graph()
  local bytes = core.read_file(dir .. "in_loops.pb"):gsub("Tanh", "Tamh")
  g:import_bytes(bytes)
  local sess = td.session{graph = g}
  sess:run(g:edge "want_0")
  raises("the function needs what there is not here: op \"Tamh\" (did you mean "
    .. "\"Tanh\"?)", sess.run, sess, g:edge "got_0")
end

function tests.what_unknown_ops_give_may_be_fed()
  local g, sess = saver()
  sess:run(g:op "start_up")
  local b = g:edge "b/read"
  td.test.close(sess:run(g:edge "loss", {[b] = {0, 0}}),
                sess:run(g:edge "got_0"):sum())
  local given = g:edge "IteratorGetNext"
  lu.assertEquals(sess:run(g:edge "next", {[given] = 41}), 42)
end

function tests.unknown_ops_can_be_looked_at()
  local g = saver()
  for _, op in ipairs(g:ops()) do
    lu.assertTrue(#tostring(op) > 0)
    lu.assertEquals(core.op_info(op).name, op.type)
    for _, x in ipairs(op.outputs) do lu.assertTrue(#tostring(x) > 0) end
    lu.assertEquals(type(op.attr), "table")
    lu.assertTrue(#bundle(op).data["text/plain"] > 0)
  end
  local restore = g:op "save/RestoreV2"
  lu.assertEquals(restore.attr.dtypes, {"float32", "float32"})
  lu.assertEquals(restore.outputs[2].dtype, "float32")
  lu.assertTrue(#bundle(g).data["text/plain"] > 0)
  lu.assertTrue(#bundle(g).data["text/html"] > 0)
  g:summary()
end

function tests.no_gradient_goes_through_an_unknown_op()
  local g = saver()
  g:as_default(function()
    local loss = g:edge "loss"
    lu.assertTrue(td.gradients(loss, {g:edge "b/read"})[1] ~= false)
    raises("no gradient is defined for op Assign", td.gradients,
           g:edge "save/Assign", {g:edge "b"})
  end)
end

return tests
