--- graph/graph.lua - graphs: making, saving, reading, and what belongs to one.
--
-- State that Lua keeps for a graph (collections, variables by name, places in
-- control flow) hangs on its handle and goes with it.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local rng = require "tide.base.rng"

local graph = {}
local methods = {}

-- ---- state ----------------------------------------------------------------

local states = setmetatable({}, {__mode = "k"})

--- What Lua keeps for graph g (the current one without it).
function graph.state(g)
  g = g or core.graph()
  local s = states[g]
  if not s then
    s = {collections = {}, variables = {}, flows = {},
         constructs = {}, loop_variables = {}, draws = 0, orders = 0}
    states[g] = s
  end
  return s
end

--- The graph that variables made now belong to: the current one, or where it is
-- the body of a function, the graph that the function is made in.
function graph.owner()
  local g = core.graph()
  while graph.state(g).made_in do g = graph.state(g).made_in end
  return g
end

--- A new, empty graph: td.graph():as_default(function() ... end).
-- @usage td.graph():as_default(td.constant, 1).graph:size()  --> 1
function graph.graph()
  return core.graph_new()
end

--- The graph that nodes are added to.
function graph.get_default_graph()
  return core.graph()
end

--- Seeds every random op added to the current graph from now on, and every
-- shuffle of data begun from now on that has no seed of its own. Two runs of a
-- program with the same seed draw the same numbers. Data sets that are made or
-- split by chance (td.data.digits, csv, ...) have their own seed, 1, so that
-- the same examples are set apart whatever the seed; so has Lua's math.random.
function graph.seed(n)
  args.expect(n, "number", "seed")
  core.graph():set_seed(math.tointeger(n) or core.error("invalid_argument",
                                                       "a seed is an integer"))
  graph.state().draws, graph.state().orders = 0, 0
end

--- The seed of a shuffle that has none of its own: the next of those that
-- follow from td.seed, else one by chance.
function graph.next_seed()
  local g = graph.owner()
  local seed, state = g:get_seed(), graph.state(g)
  if not seed then return core.random_bits() end
  state.orders = state.orders + 1
  return rng.new(rng.new(seed):bits() + state.orders):bits()
end

-- ---- collections ----------------------------------------------------------

--- Appends x to a collection of the current graph.
function graph.add_to_collection(name, x)
  local all = graph.state().collections
  all[name] = all[name] or {}
  table.insert(all[name], x)
end

--- A collection as a fresh list; `prefix` keeps those whose name begins so.
-- @usage td.add_to_collection("mine", td.constant(1, "a"))
-- td.get_collection("mine")[1].name  --> a:0
function graph.get_collection(name, prefix)
  args.expect(name, "string", "get_collection: the name of a collection")
  local list = {}
  for _, x in ipairs(graph.state().collections[name] or {}) do
    if not prefix or x.name:sub(1, #prefix) == prefix then
      list[#list + 1] = x
    end
  end
  return list
end

-- ---- nodes ----------------------------------------------------------------

--- The number of nodes.
-- @function methods:size()

--- The node of that name, or the i-th one counted from 0.
-- @function methods:op(name)

--- All nodes, in the order in which they were added.
-- @function methods:ops()

--- The graph tensor "name:port"; g["name:0"] is the same.
-- @function methods:edge(name)

--- The node of that name, or nil.
-- @function methods:find(name)

--- A name not taken yet: `name`, or with a number behind it.
-- @function methods:unique(name)

--- What td.seed does, for this graph.
-- @function methods:set_seed(n)

--- The graph's seed, or nil.
-- @function methods:get_seed()

--- The graph as the bytes of a GraphDef.
-- @function methods:save_bytes()

--- The same for who reads it elsewhere: elements of pipelines are placeholders.
-- @function methods:export_bytes()

--- From now on no node can be added.
-- @function methods:finalize()

-- ---- files ----------------------------------------------------------------

--- Writes the graph as a binary GraphDef, which TensorFlow reads. Elements of
-- pipelines are placeholders there.
function methods.save(g, path)
  core.write_file(path, g:export_bytes())
end

local function read_inputs(inputs)
  local names, edges = {}, {}
  for name in pairs(inputs) do
    args.expect(name, "string", "inputs: a name in the file")
    names[#names + 1] = name
  end
  table.sort(names)
  for i, name in ipairs(names) do edges[i] = core.edge(inputs[name]) end
  return names, edges
end

-- A SavedModel is a folder.
local function file_of(path)
  local model = path .. "/saved_model.pb"
  return core.exists(model) and model or path
end

--- Adds the nodes of a GraphDef file to the current graph, or those of the
-- GraphDef in a MetaGraphDef (model.meta) or a SavedModel. Ops that are not
-- known here (savers, summaries, queues) are kept: a step that needs one fails.
-- @param path of the file
-- @param[opt] o prefix: before every name; inputs: {["x:0"] = tensor}, which
-- replace tensors of the file; outputs: list of names to return; clear_devices:
-- nodes ask for no device, such as a task that this session lacks
-- @return the tensors named in outputs, one by one
function graph.import_graph(path, o)
  o = args.read(o, {"prefix", "inputs", "outputs", "name", "clear_devices"},
                "import_graph")
  args.expect_all(o, {clear_devices = "boolean"})
  local g = core.graph()
  local prefix = o.prefix or o.name
  local names, edges = read_inputs(o.inputs or {})
  g:import_bytes(core.read_file(file_of(path)), prefix, names, edges,
                 o.clear_devices)
  local outputs = {}
  for i, name in ipairs(o.outputs or {}) do
    outputs[i] = g:edge(prefix and prefix .. "/" .. name or name)
  end
  return table.unpack(outputs)
end

debug.getregistry()["tide.graph"].__tostring = function(g)
  return ("Graph of %d nodes"):format(g:size())
end

-- Called with a dot, a method has no graph.
local function with_graph(name, f)
  return function(g, ...)
    if core.kind(g) ~= "graph" then
      core.error("invalid_argument", ("%s is called with a colon: g:%s(...), "
        .. "given %s"):format(name, name, args.what(g)))
    end
    return f(g, ...)
  end
end

for name, f in pairs(methods) do methods[name] = with_graph(name, f) end

--- Gives graphs a method: for what is built on graphs and need not be known
-- here, such as displays.
function graph.add_method(name, f)
  methods[name] = with_graph(name, f)
end

core.set_methods("graph", methods)

return graph
