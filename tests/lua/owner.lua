-- owner.lua - cells own their nodes: tide.console.owner without a notebook.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local lines = require "tide.frontend.lines"
local owner = require "tide.console.owner"
local watch = require "tide.console.watch"
local helper = require "helper"

local gives, raises = helper.gives, helper.raises
local tests = {}

-- A notebook: its cells' functions by name, run in any order.
local function notebook()
  local book = {count = 0, notes = {}, ran = {}}
  function book.run(key, f)
    book.count = book.count + 1
    local run = owner.start(key, ("In[%d]"):format(book.count))
    local got = table.pack(pcall(f))
    local line = lines.current()
    line.sink = function() end
    book.note = owner.stop(run, got[1])
    line.sink = nil
    if not got[1] then book.failure = got[2] end
    return table.unpack(got, 1, got.n)
  end
  return book
end

local function names()
  local list = {}
  for i, op in ipairs(td.get_default_graph():ops()) do list[i] = op.name end
  table.sort(list)
  return table.concat(list, " ")
end

-- ---- one cell again ---------------------------------------------------------

function tests.names_and_values_stay()
  local b, W, y = notebook()
  local function cell()
    W = td.variable({1.0, 2.0}, "W")
    y = W + 1
  end
  b.run("a", cell)
  local sess = td.session()
  sess:init()
  local before = names()
  sess:run(W.initializer, {[W.initial_value] = {5.0, 6.0}})
  for _ = 1, 3 do
    b.run("a", cell)
    lu.assertEquals(W.name, "W")
    lu.assertEquals(W.handle.name, "W:0")
    lu.assertEquals(names(), before)
    sess:init()
    gives({6, 7}, sess:run(y))
    lu.assertNil(b.note)
  end
  lu.assertEquals(#td.global_variables(), 1)
  lu.assertTrue(td.trainable_variables()[1] == W)
end

function tests.queues_and_runners_go()
  local b = notebook()
  local function cell()
    local q = td.fifo_queue(4, "float32", {}, "q")
    td.train.add_queue_runner(td.train.queue_runner(q, q:enqueue(1.5)))
  end
  for _ = 1, 3 do
    b.run("a", cell)
    lu.assertEquals(#td.get_collection "queues", 1)
    lu.assertEquals(#td.get_collection "queue_runners", 1)
  end
  b.run("a", function() end)
  lu.assertEquals(#td.get_collection "queues", 0)
  lu.assertEquals(#td.get_collection "queue_runners", 0)
end

-- What a cell makes, and how it is used: with dtype `dtype`.
local resources = {
  fifo = function(dtype)
    local q = td.fifo_queue(2, dtype, {})
    return q:enqueue(td.value.zeros({}, dtype)), q:size(), 1
  end,
  shuffle = function(dtype)
    local q = td.random_shuffle_queue(2, dtype, {})
    return q:enqueue(td.value.zeros({}, dtype)), q:size(), 1
  end,
  priority = function(dtype)
    local q = td.priority_queue(2, dtype, {})
    return q:enqueue(1, td.value.zeros({}, dtype)), q:size(), 1
  end,
  barrier = function(dtype)
    local b = td.barrier(dtype, {{}})
    return b:insert(1, {"a"}, td.value.zeros({1}, dtype)), b:ready_size(), 1
  end,
  table = function(dtype)
    local t = td.mutable_table("string", dtype)
    return t:insert({"a"}, td.value.zeros({1}, dtype)), t:size(), 1
  end,
  accumulator = function(dtype)
    local a = td.accumulator(dtype, {})
    return a:apply(td.value.ones({}, dtype), 0), a:size(), 1
  end,
}

for name, make in pairs(resources) do
  tests["a_new_" .. name .. "_for_a_cell_that_runs_again"] = function()
    local b, sess = notebook(), td.session()
    local fill, size, one
    for _, dtype in ipairs{"float64", "float32", "float32", "float64"} do
      b.run("a", function() fill, size, one = make(dtype) end)
      lu.assertNil(b.failure)
      gives(0, sess:run(size))
      sess:run(fill)
      gives(one, sess:run(size))
    end
  end
end

function tests.an_old_queue_lives_while_it_is_used()
  local b, sess = notebook(), td.session()
  local q, size, before
  local function cell(dtype, n)
    return function()
      q = td.fifo_queue(4, dtype, {})
      for _ = 1, n do sess:run(q:enqueue(td.value.zeros({}, dtype))) end
    end
  end
  local function measure() size = q:size() + 0 end
  b.run("a", cell("int32", 1))
  b.run("b", measure)
  gives(1, sess:run(size))
  b.run("a", cell("string", 2))
  lu.assertStrContains(b.note, "In[2] uses what In[1] built before")
  lu.assertNil(b.failure)
  before = size
  gives(1, sess:run(before))
  gives(1, sess:run{before, td.constant(1)}[1]) -- planned under its new name
  gives(2, sess:run(q:size()))
  b.run("b", measure)
  raises("was replaced when", sess.run, sess, before)
  gives(2, sess:run(size))
end

function tests.who_waits_at_a_queue_that_goes_is_told()
  local b, sess = notebook(), td.session()
  local waiting
  local function cell()
    local q = td.fifo_queue(4, "int32", {})
    waiting = sess:start(q:dequeue(), nil, {timeout = 20})
  end
  b.run("a", cell)
  local first = waiting
  helper.eventually(function()
    return sess:why():find "dequeue %(.-%) has started"
  end)
  b.run("a", cell)
  lu.assertNil(b.failure)
  raises("queue fifo_queue was reset", first.wait, first)
  sess:close()
end

function tests.another_form_begins_anew()
  local b, W, z = notebook()
  b.run("a", function() W = td.variable({1.0, 2.0}, "W") end)
  b.run("b", function() z = W * 10 end)
  local sess = td.session()
  sess:init()
  gives({10, 20}, sess:run(z))
  b.run("a", function() W = td.variable({1.0, 2.0, 3.0}, "W") end)
  lu.assertStrContains(b.note, "In[2] uses what In[1] built before")
  gives({10, 20}, sess:run(z)) -- on what it was built on
  raises("not initialised", sess.run, sess, W)
  sess:init()
  gives({1, 2, 3}, sess:run(W))
  gives({10, 20}, sess:run(z))
  b.run("a", function() W = td.variable(7, "W", {dtype = "int32"}) end)
  sess:init()
  gives(7, sess:run(W))
  gives({10, 20}, sess:run(z))
end

function tests.what_is_gone_says_so()
  local b, W, y = notebook()
  local function cell()
    W = td.variable(1.0, "W")
    y = td.identity(W, "y")
  end
  b.run("a", cell)
  local sess = td.session()
  sess:init()
  local old, step = y, sess:callable(y)
  gives(1, step())
  b.run("a", cell)
  local text = "node \"y\" was replaced when cell In[1] ran again as In[2]"
  raises(text, sess.run, sess, old)
  raises(text, step)
  raises(text, function() return old + 1 end)
  raises(text, td.gradients, old, {W})
  raises(text, td.control_dependencies, {old}, td.no_op)
  raises("as In[2]: use the new one, or run the cell that kept", step)
  lu.assertEquals(tostring(old), "Tensor \"y:0\" float32 {}")
  lu.assertEquals(#old.op.inputs, 0)
  lu.assertEquals(old.op.type, "Identity")
  gives(1, sess:run(y))
end

-- ---- other cells ------------------------------------------------------------

function tests.stale_cells_are_named()
  local b, x, y, z, w = notebook()
  local function first() x = td.constant(1.0, "x") end
  local function second() y = x + 1 end
  local function third() z = y * 2 end
  b.run(1, first)
  b.run(2, second)
  b.run(3, third)
  b.run(4, function() w = td.constant(9.0, "w") end)
  local sess = td.session()
  b.run(1, first)
  lu.assertEquals(b.note, "In[2], In[3] use what In[1] built before: run them "
    .. "again")
  gives(4, sess:run(z))
  b.run(2, second)
  lu.assertEquals(b.note, "In[3] uses what In[2] built before: run it again")
  b.run(3, third)
  lu.assertNil(b.note)
  lu.assertStrContains(tostring(owner.table()), "In[7]")
  lu.assertNotStrContains(tostring(owner.table()), "stale")
  lu.assertNotStrContains(names(), "old")
  lu.assertEquals(w.name, "w:0")
  gives(4, sess:run(z))
end

function tests.callables_are_noted()
  local b, w, x, y = notebook(), {}, nil, nil
  local sess = td.session()
  watch.install()
  local function first() x = td.constant(1.0, "x") end
  local function third()
    w.step, w.again = sess:callable(y), sess:callable({}, {x})
  end
  b.run(1, first)
  b.run(2, function() y = x + 1 end)
  b.run(3, third)
  gives(2, w.step())
  b.run(1, first)
  lu.assertEquals(b.note, "In[2], In[3] use what In[1] built before: run them "
    .. "again")
  gives(2, w.step()) -- what In[2] built is there
  b.run(2, function() y = x + 1 end)
  lu.assertEquals(b.note, "In[3] uses what In[2] built before: run it again")
  raises("was replaced when cell In[2] ran again as In[5]", w.step)
  raises("the callable was made by In[0]: run that cell again", w.step)
  raises("the callable was made by In[0]", w.again, 1)
  b.run(3, third)
  lu.assertNil(b.note)
  gives(2, w.step())
  w.step, w.again = nil, nil
  collectgarbage()
  collectgarbage()
  b.run(1, first)
  lu.assertEquals(b.note, "In[5] uses what In[4] built before: run it again")
end

function tests.a_cell_that_fails_keeps_both()
  local b, x, y = notebook()
  b.run(1, function()
    x = td.constant(1.0, "x")
    y = td.identity(x, "y")
  end)
  local sess = td.session()
  for _ = 1, 5 do
    lu.assertFalse(b.run(1, function()
      x = td.constant(2.0, "x")
      error "half way"
    end))
  end
  lu.assertEquals(names(), "x x.old y")
  gives(1, sess:run(y))
  gives(2, sess:run(x))
  b.run(1, function()
    x = td.constant(3.0, "x")
    y = td.identity(x, "y")
  end)
  lu.assertEquals(names(), "x y")
  gives(3, sess:run(y))
end

-- ---- what is kept for a graph -----------------------------------------------

function tests.layers_loops_and_optimizers()
  local b, loss, train = notebook()
  local optimizer = td.train.momentum(0.1, 0.9)
  local function model()
    local x = td.layers.dense(td.ones{2, 3}, 4)
    lu.assertEquals(td.trainable_variables()[1].name, "dense/kernel")
    local n = td.while_loop(function(i) return i:less(3) end,
                            function(i) return i + 1 end, {0})
    x = td.cond(n:less(5), function() return x * 2 end,
                function() return x end)
    loss = (x * x):sum() + td.get_variable("w", {},
      {initializer = td.initializers.ones()})
  end
  local function training() train = optimizer:minimize(loss) end
  b.run(1, model)
  b.run(2, training)
  local sess = td.session()
  sess:init()
  local size, flows = td.get_default_graph():size(), {}
  for k = 1, 5 do
    b.run(1, model)
    lu.assertStrContains(b.note, "uses what")
    b.run(2, training)
    lu.assertNil(b.note)
    sess:init()
    sess:run(train)
    lu.assertEquals(td.get_default_graph():size(), size)
    lu.assertEquals(#td.trainable_variables(), 3)
    lu.assertEquals(#td.global_variables(), 6)
    flows[k] = td.get_default_graph():flow(0, "c", "probe")
  end
  lu.assertEquals(flows[5], flows[3])
end

-- ---- functions --------------------------------------------------------------

local function library()
  return table.concat(core.functions(td.get_default_graph()), " ")
end

-- A cell that defines a function which multiplies by what k() gives.
local function multiplier(world, k, name)
  return function()
    world.f = td.func(function(x) return x * k() end, "float32", {name = name})
  end
end

function tests.functions_may_change()
  local b, y = notebook()
  local function cell(k)
    return function()
      y = td.func(function(x) return x * k end, "float32",
                  {name = "f"})(td.constant(2.0))
    end
  end
  for k = 1, 5 do
    lu.assertTrue(b.run(1, cell(k)))
    gives(2 * k, td.session():run(y))
    lu.assertEquals(library(), "f")
    lu.assertEquals(y.op.attr.f, "f")
  end
end

function tests.functions_of_cells_go()
  local b, w, k = notebook(), {}, 0
  local x = td.constant(3.0)
  local define = multiplier(w, function() return k end)
  local function use()
    w.y = w.f(x) * w.f(w.f(x))
    w.dx = td.gradients(w.y, {x})[1]
  end
  b.run(1, define)
  b.run(2, use)
  local once, size = library(), td.get_default_graph():size()
  lu.assertEquals(once, "func_1 func_1_grad_1")
  local sess = td.session()
  for i = 1, 5 do
    k = i
    lu.assertTrue(b.run(1, define))
    lu.assertEquals(b.note,
      ("In[%d] uses what In[%d] built before: run it again"):format(
        2 * i, 2 * i - 1))
    lu.assertTrue(b.run(2, use))
    lu.assertNil(b.note)
    lu.assertEquals(library(), once)
    lu.assertEquals(td.get_default_graph():size(), size)
    gives(i ^ 3 * 9, sess:run(w.y))
    gives(i ^ 3 * 6, sess:run(w.dx))
  end
  for _ = 1, 3 do b.run(2, use) end
  lu.assertEquals(library(), once)
  b.run(1, function() end)
  b.run(2, function() end)
  lu.assertEquals(library(), "")
end

function tests.a_replaced_function_lives_while_it_is_called()
  local b, w, k = notebook(), {}, 2
  local define = multiplier(w, function() return k end, "f")
  b.run(1, define)
  b.run(2, function() w.y = w.f(td.constant(5.0)) end)
  local sess = td.session()
  local step = sess:callable(w.y)
  gives(10, step())
  k = 3
  b.run(1, define)
  lu.assertStrContains(b.note, "In[2] uses what In[1] built before")
  b.run(3, function() w.z = w.f(td.constant(5.0)) end)
  lu.assertEquals(library(), "f f.old")
  lu.assertEquals(w.z.op.attr.f, "f")
  lu.assertEquals(w.y.op.attr.f, "f.old")
  gives({10, 15}, {sess:run(w.y), sess:run(w.z)})
  gives(10, step())
  td.session{graph = td.get_default_graph()}:run(w.y)
  gives(10, sess:run(w.y + 0)) -- planned anew
  local dy = td.gradients(w.y, {w.y.op.inputs[1]})[1]
  gives(2, sess:run(dy))
  k = 4
  b.run(1, define)
  b.run(3, function() w.z = w.f(td.constant(5.0)) end)
  gives({10, 20}, {sess:run(w.y), sess:run(w.z)})
  lu.assertEquals(w.z.op.attr.f, "f")
end

function tests.an_old_function_may_be_called()
  local b, w, k = notebook(), {}, 2
  local define = multiplier(w, function() return k end, "f")
  b.run(1, define)
  b.run(2, function() w.kept = w.f end)
  k = 3
  local sess = td.session()
  for _ = 1, 4 do
    b.run(1, define)
    b.run(3, function() w.new = w.f(td.constant(1.0)) end)
    b.run(4, function() w.old = w.kept(td.constant(1.0)) end)
    gives({3, 2}, {sess:run(w.new), sess:run(w.old)})
    lu.assertEquals(#core.functions(td.get_default_graph()), 2)
  end
end

function tests.functions_that_call_functions()
  local b, w, k = notebook(), {}, 2
  local define = multiplier(w, function() return k end, "f")
  local function outer()
    w.g = td.func(function(x) return w.f(x) + 1, w.f(w.f(x)) end, "float32",
                  {name = "g"})
  end
  local function use()
    local a, c = w.g(td.constant(10.0))
    w.y, w.dy = a + c, td.gradients(a + c, {a.op.inputs[1]})[1]
  end
  b.run(1, define)
  b.run(2, outer)
  b.run(3, use)
  local sess, once = td.session(), library()
  gives({61, 6}, {sess:run(w.y), sess:run(w.dy)})
  for i = 3, 6 do
    k = i
    b.run(1, define)
    lu.assertStrContains(b.note, "] use what In[")
    gives((i - 1) * 10 + 1 + (i - 1) ^ 2 * 10, sess:run(w.y))
    b.run(4, function() w.z = w.f(td.constant(1.0)) end)
    gives(i, sess:run(w.z))
    gives((i - 1) * 10 + 1 + (i - 1) ^ 2 * 10, sess:run(w.y))
    b.run(2, outer)
    b.run(3, use)
    gives({i * 10 + 1 + i * i * 10, i + i * i},
          {sess:run(w.y), sess:run(w.dy)})
    lu.assertEquals(library(), once)
  end
end

function tests.files_with_functions()
  local b = notebook()
  local path = os.tmpname()
  td.graph():as_default(function()
    td.func(function(x) return x * 2 end, "float32", {name = "twice"})(
      td.constant(4.0, "x"))
    td.get_default_graph():save(path)
  end)
  for _ = 1, 3 do
    lu.assertTrue(b.run(1, function() td.import_graph(path) end))
    lu.assertEquals(library(), "twice")
    lu.assertEquals(td.get_default_graph():size(), 2)
  end
  os.remove(path)
  b.run(1, function() end)
  lu.assertEquals(library(), "")
end

function tests.only_of_the_default_graph()
  local b, inner = notebook()
  local other = td.graph()
  local function cell()
    other:as_default(function() inner = td.constant(1, "c") end)
  end
  b.run(1, cell)
  b.run(1, cell)
  lu.assertEquals(inner.name, "c_1:0")
  b.run(2, function() td.constant(2, "d") end)
  td.get_default_graph():finalize()
  lu.assertNil(owner.start(2, "In[9]"))
  lu.assertEquals(names(), "d")
end

-- ---- many runs --------------------------------------------------------------

-- Twenty cells in four layers: variables; tensors of them; sums of those;
-- updates, which read a sum. `k` grows with every run, and tells what was built
-- on which.
local function make_cells(world)
  local cells = {}
  for i = 1, 6 do
    cells[i] = function()
      world.v[i] = td.variable(i * 1.0, "v" .. i)
      world.sess:init()
    end
    cells[6 + i] = function()
      world.t[i] = world.v[i] * 2 + world.k
    end
  end
  for i = 1, 4 do
    cells[12 + i] = function()
      world.u[i] = world.t[i] + world.t[i + 1] + world.v[i + 2]
    end
    cells[16 + i] = function()
      world.sess:run(world.v[i]:assign_add(1.0))
      table.insert(world.log, world.sess:run(world.u[i]))
    end
  end
  return cells
end

-- The same with numbers. Each thing knows which runs of which cells it is of.
local function make_model()
  local m = {value = {}, v = {}, t = {}, u = {}, log = {}, whole = {},
             current = {}, k = 0}
  local function union(...)
    local set = {}
    for _, x in ipairs{...} do
      for key in pairs(x.of) do set[key] = true end
    end
    return set
  end
  local function thing(cell, x, ...)
    x.of = union(...)
    x.of[cell .. ":" .. m.k] = true
    return x
  end
  local function build(c)
    local i = (c - 1) % 6 + 1
    if c <= 6 then
      m.value[c] = m.value[c] or c
      m.v[c] = thing(c, {i = c})
      return m.v[c]
    elseif c <= 12 then
      if not m.v[i] then return nil end
      m.t[i] = thing(c, {i = i, k = m.k}, m.v[i])
      return m.t[i]
    elseif c <= 16 then
      local j = c - 12
      if not (m.t[j] and m.t[j + 1]) then return nil end
      if not m.v[j + 2] then -- fails behind the first sum
        return nil, thing(c, {}, m.t[j], m.t[j + 1])
      end
      m.u[j] = thing(c, {a = m.t[j], b = m.t[j + 1], i = j + 2}, m.t[j],
                     m.t[j + 1], m.v[j + 2])
      return m.u[j]
    end
    local j = c - 16
    if not m.v[j] then return nil end
    m.value[j] = m.value[j] + 1
    local x = thing(c, {}, m.v[j])
    if not m.u[j] then return nil, x end
    local u = m.u[j]
    local function of(t) return 2 * m.value[t.i] + t.k end
    table.insert(m.log, of(u.a) + of(u.b) + m.value[u.i])
    return x
  end
  -- Runs cell c: true when it goes through; the stale cells in order.
  function m.run(c)
    m.k = m.k + 1
    local x, part = build(c)
    m.current[c] = {of = (x or part or {of = {}}).of, k = m.k}
    if not x then return false, {} end
    m.whole[c] = m.k
    local stale = {}
    for other, built in pairs(m.current) do
      for key in pairs(other ~= c and built.of or {}) do
        local of, k = key:match "(%d+):(%d+)"
        if tonumber(of) == c and tonumber(k) ~= m.k then
          stale[built.k] = true
        end
      end
    end
    local list = {}
    for k in pairs(stale) do list[#list + 1] = k end
    table.sort(list)
    return true, list
  end
  return m
end

local function play(order, check)
  td.reset()
  local b = notebook()
  local world = {v = {}, t = {}, u = {}, log = {}, k = 0, sess = td.session()}
  local cells = make_cells(world)
  for _, c in ipairs(order) do
    world.k = world.k + 1
    local ok = b.run(c, cells[c])
    if check then check(c, ok, b.note, b.failure) end
  end
  local values = {}
  for i = 1, 6 do
    values[i] = world.v[i] and world.sess:run(world.v[i]) or false
  end
  return world.log, values, td.get_default_graph():size()
end

local function stale_of(note)
  local list = {}
  for k in (note and note:match "^(.-) use" or ""):gmatch "%d+" do
    list[#list + 1] = tonumber(k)
  end
  return list
end

local function in_order()
  local order = {}
  for c = 1, 20 do order[c] = c end
  return order
end

function tests.cells_in_random_order()
  local rounds = os.getenv "TIDE_SOAK" and 5 or 1
  local times = os.getenv "TIDE_SOAK" and 50 or 8
  local _, _, once = play(in_order())
  for seed = 1, rounds do
    math.randomseed(seed)
    local order = {}
    for c = 1, 20 do
      for _ = 1, times do
        table.insert(order, math.random(#order + 1), c)
      end
    end
    local m = make_model()
    local log, values, size = play(order, function(c, ok, note, failure)
      local fine, stale = m.run(c)
      lu.assertEquals(ok, fine, tostring(failure))
      lu.assertEquals(stale_of(note), stale)
    end)
    gives(m.log, log)
    lu.assertEquals(values, m.value)
    lu.assertTrue(size <= 3 * once, size .. " nodes, once " .. once)
    local again, same, as_many = play(order)
    lu.assertEquals(again, log)
    lu.assertEquals(same, values)
    lu.assertEquals(as_many, size)
  end
end

local function resident()
  collectgarbage()
  collectgarbage()
  local file <close> = io.open "/proc/self/statm"
  if not file then return nil end
  return tonumber(file:read "a":match "%d+ (%d+)") * 4096
end

function tests.memory_goes()
  lu.skipIf(os.getenv "ASAN_OPTIONS", "frees are kept for a while")
  local b, x = notebook()
  local function cell()
    x = td.constant(1.0, "x")
    for i = 1, 1000 do x = td.identity(x, "link_" .. i) end
    td.constant(td.value.zeros{1000}, "big")
  end
  for _ = 1, 10 do b.run(1, cell) end
  local before = resident()
  for _ = 1, 100 do b.run(1, cell) end
  lu.assertEquals(td.get_default_graph():size(), 1002)
  if before then
    lu.assertTrue(resident() - before < 16 << 20, "memory grows")
  end
end

return tests
