-- show_graph.lua - graphs, programs and profiles as text and drawings.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local bundle = require "tide.show.bundle"
local layout = require "tide.show.layout"
local markup = require "shared.markup"
local scopes = require "tide.show.scopes"
local helper = require "helper"

local contains, raises = helper.contains, helper.raises
local tests = {}

local function plain(x) return bundle(x).data["text/plain"] end
local function html(x) return bundle(x).data["text/html"] end

-- ---- graphs to look at -----------------------------------------------------

local function net()
  local g = td.graph()
  g:as_default(function()
    local x = td.placeholder("float32", {-1, 784}, "x")
    local t = td.placeholder("int64", {-1}, "labels")
    local h = td.layers.dense(x, 100, {activation = td.relu, name = "hidden"})
    local y = td.layers.dense(h, 10, {name = "out"})
    local loss = td.nn.sparse_softmax_cross_entropy(y, t):mean(nil, "loss")
    td.train.sgd(1e-3):minimize(loss)
  end)
  return g
end

-- `layers` scopes of `cells` scopes of 27 nodes, all alike.
local function tower(layers, cells)
  local g = td.graph()
  g:as_default(function()
    local x = td.placeholder("float32", {-1, 64}, "x")
    for k = 1, layers * cells do
      td.name_scope(("layer%d/cell%d/"):format((k - 1) // cells, k % cells),
                    function()
        local w = td.variable(td.zeros{64, 64}, "W")
        for _ = 1, 5 do x = td.relu(td.matmul(x, w) + x) end
      end)
    end
  end)
  return g
end

local function loop()
  local g = td.graph()
  g:as_default(function()
    td.while_loop(function(i) return i:less(10) end,
                  function(i, s) return i + 1, s + i end, {0, 0})
  end)
  return g
end

-- What a graph may hold that no name may.
local evil = '</text><script>alert("1")&\'\xff\1]]>'

local function hostile()
  local g = td.graph()
  g:as_default(function()
    local x = td.constant(evil, "a.b-c_d")
    for i = 1, 14 do td.identity(x, "y" .. i) end
    td.string_join({x, td.constant(evil)}, {name = "j"})
  end)
  return g
end

-- ---- text ------------------------------------------------------------------

function tests.a_tree_of_scopes()
  local g = td.graph()
  g:as_default(function()
    local x = td.placeholder("float32", {-1, 4}, "x")
    for i = 1, 3 do
      td.name_scope("block" .. i, function() x = td.relu(x + 1.0, "r") end)
    end
    td.identity(x, "y")
  end)
  lu.assertEquals(require "tide.show.graph_text"(scopes.read(g), 100),
    "Graph of 11 nodes, 3 scopes\n"
    .. "x  Placeholder() -> float32 {-1, 4}\n"
    .. "y  Identity(block3/r) -> float32 {-1, 4}\n"
    .. "block1/ … block3/  3 alike, 3 nodes each: 1 AddV2, 1 Const, 1 Relu\n"
    .. "  Const  Const() -> float32 {}\n"
    .. "  AddV2  AddV2(x, Const) -> float32 {-1, 4}\n"
    .. "  r  Relu(AddV2) -> float32 {-1, 4}")
end

function tests.trees_fit_a_screen()
  local flat = td.graph()
  flat:as_default(function()
    local x = td.placeholder("float32", {}, "x")
    for i = 1, 500 do x = td.tanh(x + i) end
    for i = 1, 300 do td.identity(x, ("n%dx"):format(i * 7919)) end
  end)
  for _, g in ipairs{net(), tower(20, 10), loop(), td.graph(), flat} do
    local text = plain(g)
    local _, lines = text:gsub("\n", "")
    lu.assertTrue(lines <= 60, text)
    for line in text:gmatch "[^\n]+" do lu.assertTrue(utf8.len(line) <= 120) end
  end
  contains(plain(tower(20, 10)), "layer0/ … layer19/  20 alike, 270 nodes each",
           "cell1/ … ")
  contains(plain(flat), "Tanh …  500 nodes Tanh")
  lu.assertEquals(plain(td.graph()), "Graph of 0 nodes")
end

-- ---- drawings --------------------------------------------------------------

function tests.drawings_are_well_formed()
  for i, g in ipairs{net(), tower(3, 2), loop(), td.graph(), hostile()} do
    local list = markup.drawings(html(g))
    lu.assertTrue(#list >= 1, i)
    markup.check(g:picture():svg())
  end
end

function tests.hostile_texts_are_escaped()
  local g = hostile()
  contains(g:picture():svg(), "a.b-c_d", "&lt;/text&gt;")
  lu.assertTrue(utf8.len(plain(g)) ~= nil)
  local sess = td.session{graph = g}
  for _, x in ipairs{g:op "a.b-c_d", g["a.b-c_d:0"], sess:program(g["j:0"])} do
    markup.drawings(html(x))
  end
end

-- Graphviz draws where it is; where it is not, an error says so.
function tests.dot()
  local ok, svg = pcall(function()
    return hostile():picture{layout = "dot"}:svg()
  end)
  if ok then
    lu.assertTrue(svg:find "^<svg" ~= nil and svg:find "</svg>$" ~= nil)
    markup.check_safe(svg:gsub(' xmlns:xlink="[^"]*"', ""))
  else
    contains(tostring(svg), "needs Graphviz")
  end
  local big = tower(2, 10)
  raises("up to 400 nodes", function() big:picture{layout = "dot"}:svg() end)
end

function tests.what_a_drawing_shows()
  local svg = net():picture():svg()
  contains(svg, ">x<", ">Placeholder<", ">hidden/<", "float32 {-1, 784}",
           "constants, and what many use", ">out/<")
  local g = td.graph()
  g:as_default(function()
    local w = td.variable(td.zeros{3, 2}, "W")
    local x = td.placeholder("float32", {-1, 3}, "x")
    td.matmul(x, w, {name = "y"})
  end)
  svg = g:picture():svg()
  contains(svg, ">W<", ">float32 {3, 2}<", "float32 {-1, 3}")
  lu.assertNotStrContains(svg, "ReadVariableOp") -- a variable is one box
end

-- Scopes that are alike open once; the large graph stays small.
function tests.large_graphs_stay_small()
  local g = tower(134, 10)
  lu.assertTrue(g:size() > 36000)
  local text = html(g)
  lu.assertTrue(#text < 200000, #text)
  contains(text, "layer0/", "(and 133 alike)", "cell1/")
  markup.drawings(text)
  local flat = td.graph()
  flat:as_default(function()
    local x = td.placeholder("float32", {}, "x")
    for i = 1, 3000 do x = td.tanh(x + i, ("n%d/n"):format(i)) end
  end)
  text = html(flat)
  lu.assertTrue(#text < 200000, #text)
  markup.drawings(text)
end

-- Hairballs, too.
function tests.dense_graphs_stay_small()
  math.randomseed(7)
  local dense, random = td.graph(), td.graph()
  dense:as_default(function()
    local all = {td.placeholder("float32", {4}, "x")}
    for i = 2, 70 do
      all[i] = td.add_n({table.unpack(all, math.max(1, i - 30))},
                        ("n%dx"):format(i))
    end
  end)
  random:as_default(function()
    local all = {td.placeholder("float32", {4}, "x")}
    for s = 1, 100 do
      td.name_scope("s" .. s, function()
        for i = 1, 40 do
          local x = all[math.random(#all)]
          all[#all + 1] = i % math.random(9) == 0 and td.tanh(x) or x + 1.0
        end
      end)
    end
  end)
  for _, g in ipairs{dense, random} do
    local text = html(g)
    lu.assertTrue(#text < 200000, #text)
    contains(text, "edges are not drawn")
    markup.drawings(text)
  end
end

function tests.structures()
  local tree = scopes.read(tower(3, 2))
  local a, b = tree.by_path["layer1/cell1/"], tree.by_path["layer2/cell0/"]
  lu.assertEquals(a.structure, b.structure)
  lu.assertNotEquals(a.structure, tree.by_path["layer1/"].structure)
  lu.assertEquals(a.total, tree.by_path["layer1/"].total // 2)
  lu.assertEquals(tree.by_path["layer1/cell1/W/"].variable ~= nil, true)
  lu.assertEquals(scopes.stem "Add_12", "Add")
  lu.assertEquals(scopes.stem "layer_3/", "layer")
end

-- Below what they come from, apart from each other, from middle to middle.
function tests.layout()
  local nodes, edges = {}, {}
  for i = 1, 40 do nodes[i] = {w = 30 + i % 7 * 10, h = 20} end
  for i = 2, 40 do
    edges[#edges + 1] = {from = i // 2, to = i}
    edges[#edges + 1] = {from = math.max(1, i - 9), to = i}
  end
  edges[#edges + 1] = {from = 40, to = 1, back = true}
  edges[#edges + 1] = {from = 30, to = 2} -- a ring
  edges[#edges + 1] = {from = 5, to = 5}
  local plan = layout.layered(nodes, edges)
  for k, e in ipairs(edges) do
    local a, b, p = plan.nodes[e.from], plan.nodes[e.to], plan.edges[k]
    if e.from == e.to then
      lu.assertFalse(p)
    else
      lu.assertEquals({p[1], p[2], p[#p - 1], p[#p]}, {a.x, a.y, b.x, b.y})
      if k <= #edges - 3 then lu.assertTrue(a.y < b.y) end
    end
  end
  for i = 1, 40 do
    local a = plan.nodes[i]
    lu.assertTrue(a.x >= nodes[i].w / 2 and a.x <= plan.width)
    for j = i + 1, 40 do
      local b = plan.nodes[j]
      lu.assertTrue(math.abs(a.y - b.y) >= 20
                    or math.abs(a.x - b.x) >= (nodes[i].w + nodes[j].w) / 2)
    end
  end
  lu.assertEquals(layout.layered({}, {}).nodes, {})
end

function tests.pictures()
  local g = net()
  contains(g:picture{scope = "hidden"}:svg(), "MatMul")
  contains(plain(g:picture()), "Graph of")
  lu.assertTrue(#g:picture{nodes = 5}:svg() < #g:picture():svg())
  markup.drawings(html(g:picture{nodes = 5}))
  raises("did you mean \"hidden/\"", g.picture, g, {scope = "hiden"})
  raises("\"own\" or \"dot\"", g.picture, g, {layout = "neato"})
  raises("called with a colon", g.picture)
end

-- ---- programs --------------------------------------------------------------

function tests.programs()
  local x = td.placeholder("float32", {-1, 4}, "x")
  local a, b
  td.device("/cpu:0", function() a = td.tanh(x, "a") end)
  td.device("/cpu:1", function() b = td.sigmoid(a, "b") end)
  local c = td.add(a, b, "c")
  td.relu(c, "unused")
  local sess = td.session{cpu_devices = 2}
  local p = sess:program(c, {x})
  lu.assertEquals(#p.parts, 2)
  lu.assertEquals(tostring(p),
                  "Program of 9 nodes on 2 devices, for c:0 fed x:0")
  contains(plain(p), "CPU:0: graph of 6 nodes", "_Send(a)", "_Recv() ->",
           "_Retval(c)", "CPU:1: graph of 3 nodes", "graph of 5 nodes;")
  lu.assertNotStrContains(plain(p), "unused")
  markup.drawings(html(p))
  contains(p:svg(), "does not run", ">unused<", "#f2f2f2", "#cccccc")
  lu.assertEquals(sess:program({c}, {[x] = {{1, 2, 3, 4}}}).nodes, 9)
  lu.assertEquals(sess:stats().steps, 0)
  raises("x", sess.program, sess, c)
  raises("no node", sess.program, sess, "nowhere")
end

-- ---- profiles --------------------------------------------------------------

function tests.profiles()
  local g = net()
  local sess = td.session{graph = g}
  sess:as_default(function()
    g:as_default(sess.init, sess)
    local _, p = sess:run(g["loss:0"], {x = td.value.zeros{5, 784},
      labels = td.value.zeros({5}, "int64")}, {trace = true})
    contains(plain(p), "Profile of", "MatMul", "share", "slowest: ", "█")
    local list = markup.drawings(html(p))
    contains(list[1], ">CPU:0, ", "MatMul")
    markup.check(p:svg())
    local path = os.tmpname()
    p:save(path)
    local file <close> = assert(io.open(path))
    contains(file:read "a", "traceEvents")
    os.remove(path)
    raises("path must be a string", p.save, p, 5)
  end)
end

-- Many lanes, short events, names to be escaped, and nothing at all.
function tests.profiles_of_any_trace()
  local profile = require "tide.show.profile"
  local events = {}
  for i = 1, 20000 do
    events[i] = {node = "n<" .. i, op = "Op&" .. i % 40, start = i * 1000,
                 stop = i * 1000 + i % 7 * 500, bytes = 8, iteration = 0,
                 thread = i % 40, device = "/device:CPU:0"}
  end
  local p = profile.of{events = events, chrome = "", totals = ""}
  local list = markup.drawings(html(p))
  lu.assertTrue(#list[1] < 1000000)
  contains(html(p), "16 lanes more", "28 ops more")
  local none = profile.of{events = {}, chrome = "", totals = ""}
  lu.assertEquals(plain(none), "Profile of 0 nodes in no time, 0 lanes")
  markup.check(html(none))
end

-- Streams of a card: lanes, lines from nodes to their work, how busy it was,
-- its memory.
function tests.profiles_of_cards()
  local profile = require "tide.show.profile"
  local card = "/job:localhost/replica:0/task:0/device:CUDA:0"
  local events, launches = {}, {}
  local function add(op, stream, ready, start, stop, memory)
    events[#events + 1] = {node = op:lower() .. #events, op = op,
      start = start, stop = stop, ready = ready, bytes = 4096, iteration = 0,
      thread = 1, device = card, stream = stream, memory = memory}
    return #events
  end
  for i = 0, 299 do
    local from = add("MatMul", nil, i * 1000, i * 1000, i * 1000 + 500,
                     2 ^ 20 * (1 + i % 7) // 1)
    local to = add("MatMul", "compute", i * 1000 + 200, i * 4000 + 500,
                   i * 4000 + 4000)
    launches[i + 1] = {from = from, to = to,
                       waited = events[to].start - events[to].ready}
  end
  add("copy", "copies out", 0, 0, 600000)
  local p = profile.of{events = events, launches = launches, arrows = {},
                       tasks = {}, chrome = "", totals = ""}
  contains(plain(p), "300 nodes and what they enqueued", "3 lanes",
    "MatMul, compute", "copy, copies out", "CUDA:0: computes 88 % of the time, "
    .. "copies 50 %, 88 % of it meanwhile; work waited 447 us",
    "at most 7.34 MB in use")
  local list = markup.drawings(html(p))
  contains(list[1], ">CUDA:0, compute<", ">CUDA:0, copies out<",
           ">CUDA:0, memory<", "at most 7.34 MB")
  markup.check(p:svg())
  lu.assertTrue(#p:svg() < 200000)
end

return tests
