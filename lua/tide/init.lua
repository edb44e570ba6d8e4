--- init.lua - the module `tide`: td.NAME, found when it is first used.
--
-- A name is a function of the library (its module is loaded then), an op, or
-- an error that offers the nearest. Start must be quick: only what tensors need
-- is loaded at once.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local td = {}
package.loaded.tide = td

local autoload = require "tide.base.autoload"
local errors = require "tide.base.errors"
local elsewhere = autoload "tide.base.elsewhere"
require "tide.tensor.shape"
local namespace = require "tide.ops"
require "tide.tensor.tensor"
local dtype = require "tide.tensor.dtype"
core.set_default_graph(core.graph_new())
local graph = require "tide.graph.graph"
local session = require "tide.run.session"

-- Names by the module that has them.
local exports = {
  ["tensor.tensor"] = {"tensor", "is_tensor"},
  ops = {"raw"},
  ["graph.graph"] = {"graph", "get_default_graph", "seed", "import_graph",
                     "add_to_collection", "get_collection"},
  ["graph.scope"] = {"name_scope", "device", "control_dependencies",
                     "colocate_with", "container", "group", "tuple", "no_op"},
  ["graph.func"] = {"func"},
  ["graph.lua_op"] = {"lua_op"},
  ["graph.op_library"] = {"load_library"},
  ["variables.variables"] = {"variable", "is_variable", "global_variables",
                             "trainable_variables", "variables_initializer",
                             "global_variables_initializer", "local_variables",
                             "local_variables_initializer"},
  ["variables.variable_scope"] = {"variable_scope", "get_variable"},
  ["run.session"] = {"session", "get_default_session", "reset"},
  ["run.config"] = {"devices", "config"},
  ["autodiff.gradients"] = {"gradients", "register_gradient",
                            "gradient_override_map", "custom_gradient"},
  ["autodiff.value_and_grad"] = {"grad", "value_and_grad"},
  ["control.control"] = {"cond", "while_loop", "case"},
  ["control.higher_order"] = {"map_fn", "foldl", "foldr", "scan"},
  ["control.tensor_array"] = {"tensor_array"},
  ["flow.queues"] = {"fifo_queue", "padding_fifo_queue",
                     "random_shuffle_queue", "priority_queue"},
  ["flow.barrier"] = {"barrier"},
  ["flow.accumulator"] = {"accumulator"},
  ["flow.staging_area"] = {"staging_area"},
  ["flow.mutex"] = {"mutex"},
  ["flow.tables"] = {"hash_table", "mutable_table", "vocabulary",
                     "tables_initializer"},
  ["remote.cluster"] = {"cluster"},
  ["remote.server"] = {"server"},
  ["remote.far"] = {"sessions"},
  ["remote.traffic"] = {"on_wire", "traffic"},
  train = {"clip_by_global_norm", "global_norm"},
  ["data.files"] = {"load_npy", "save_npy", "load_npz", "save_npz", "load_csv",
                    "load_image", "save_image"},
  ["data.safetensors"] = {"load_safetensors", "save_safetensors"},
  ["data.record_files"] = {"record_writer"},
  ["data.example"] = {"example", "sequence_example"},
  ["script.flags"] = {"flags"},
  ["script.options"] = {"options"},
  ["insight.compare"] = {"compare"},
  ["help.help"] = {"help"},
  ["console.input"] = {"input", "getpass"},
  ["nn.cells"] = {"basic_rnn_cell", "lstm_cell", "gru_cell"},
  ["nn.wrappers"] = {"multi_cell", "dropout_wrapper", "device_wrapper",
                     "residual_wrapper"},
  ["nn.rnn"] = {"static_rnn", "dynamic_rnn", "bidirectional_dynamic_rnn"},
  ["nn.raw_rnn"] = {"raw_rnn"},
  ["nn.embedding"] = {"embedding_lookup", "embedding_lookup_sparse"},
  ["nn.sampled"] = {"sampled_softmax_loss", "nce_loss"},
  ["show.display"] = {"display", "update_display", "clear_output", "html",
                         "markdown", "latex", "svg", "png"},
  ["show.repr"] = {"register_repr"},
  ["show.picture"] = {"image_grid"},
  ["show.chart"] = {"chart"},
  ["show.draw"] = {"draw"},
  ["show.tables"] = {"table"},
  namespaces = {"nn", "math", "image", "random", "linalg", "strings",
                "signal", "spectral"},
}

-- A function of a module that is loaded at its first call.
local function lent(module, name)
  local m = autoload("tide." .. module)
  return function(...) return m[name](...) end
end

-- What displays and insight give to graphs and sessions, which know neither.
for method, module in pairs{summary = "insight.summary", diff = "insight.diff",
                            estimate = "insight.estimate",
                            picture = "show.graph"} do
  graph.add_method(method, lent(module, method))
end
graph.add_method("display", lent("show.display", "graph"))
session.add_method("program", lent("show.program", "program"))
session.add_method("variables", lent("variables.adopt", "of_session"))
session.profile_of = lent("show.profile", "of")
session.far = {open = lent("remote.far", "open"),
               joins = lent("remote.far", "joins")}
for _, method in ipairs{"attach", "detach", "workers", "panel"} do
  session.add_method(method, lent("remote.attach", method))
end

-- Modules that are names themselves.
local modules = {
  train = "tide.train", data = "tide.data", layers = "tide.layers",
  reader = "tide.flow.readers",
  losses = "tide.nn.losses", metrics = "tide.nn.metrics",
  initializers = "tide.variables.initializers",
  regularizers = "tide.variables.regularizers", value = "tide.run.value",
  progress = "tide.script.progress",
  test = "tide.script.test", ui = "tide.ui", comm = "tide.ui.comm",
}

local module_of = {}
for module, names in pairs(exports) do
  for _, name in ipairs(names) do module_of[name] = "tide." .. module end
end

--- The version of Tide, a string.
td.version = core.version
for _, name in ipairs(dtype.names) do td[name] = name end

-- td.train and the like: an unknown name raises as one of td does.
local function closed(name, module)
  if type(module) ~= "table" or getmetatable(module) then return module end
  return setmetatable(module, {__index = function(t, key)
    local list = {}
    for k in pairs(t) do list[#list + 1] = tostring(k) end
    table.sort(list)
    errors.invalid("td.%s has no \"%s\"%s", name, tostring(key),
                   elsewhere.hint(key, list))
  end})
end

local function find(name)
  if modules[name] then return closed(name, require(modules[name])) end
  if module_of[name] then return require(module_of[name])[name] end
  return namespace.ops[name]
end

--- All names of td, sorted: for completion and for offering the nearest.
local function names()
  local list = namespace.names()
  for name in pairs(module_of) do list[#list + 1] = name end
  for name in pairs(modules) do list[#list + 1] = name end
  for name in pairs(td) do list[#list + 1] = name end
  table.sort(list)
  return list
end

setmetatable(td, {
  __index = function(t, name)
    local x = type(name) == "string" and find(name)
    if x then
      rawset(t, name, x)
      return x
    end
    errors.invalid("td has no \"%s\"%s", tostring(name),
                   elsewhere.hint(name, names()))
  end,
  __name = "td itself (td.NAME is called with a dot)",
  __tostring = function()
    return ("Tide %s: td.NAME are its functions, td.help() tells about them")
      :format(core.version)
  end,
  __complete = names, __modules = modules, __module_of = module_of,
})

return td
