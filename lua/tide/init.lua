--- init.lua - the module `tide`: td.NAME, found when it is first used.
--
-- A name is a function of the library (its module is loaded then), an op, or
-- an error that offers the nearest. Start must be quick: only what tensors need
-- is loaded at once.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local td = {}
package.loaded.tide = td

require "tide.errors"
require "tide.shape"
local namespace = require "tide.ops"
require "tide.tensor"
local dtype = require "tide.dtype"
core.set_default_graph(core.graph_new())
require "tide.graph"
require "tide.session"

-- Names by the module that has them.
local exports = {
  tensor = {"tensor", "is_tensor"},
  ops = {"raw"},
  graph = {"graph", "get_default_graph", "reset", "seed", "import_graph",
           "add_to_collection", "get_collection"},
  scope = {"name_scope", "device", "control_dependencies", "colocate_with",
           "container", "group", "tuple", "no_op"},
  variables = {"variable", "is_variable", "global_variables",
               "trainable_variables", "variables_initializer",
               "global_variables_initializer", "local_variables",
               "local_variables_initializer"},
  variable_scope = {"variable_scope", "get_variable"},
  session = {"session", "get_default_session"},
  gradients = {"gradients", "register_gradient", "gradient_override_map",
               "custom_gradient"},
  control = {"cond", "while_loop", "case"},
  functional = {"map_fn", "foldl", "foldr", "scan"},
  tensor_array = {"tensor_array"},
  train = {"clip_by_global_norm", "global_norm"},
  files = {"load_npy", "save_npy", "load_npz", "save_npz", "load_csv",
           "load_image", "save_image"},
  func = {"func"},
  options = {"options"},
  ["insight.compare"] = {"compare"},
  functions = {"grad", "value_and_grad"},
  library = {"load_library"},
  draw = {"draw"},
  help = {"help", "devices", "config"},
  ["console.input"] = {"input", "getpass"},
  ["nn.cells"] = {"basic_rnn_cell", "lstm_cell", "gru_cell"},
  ["nn.wrappers"] = {"multi_cell", "dropout_wrapper", "device_wrapper",
                     "residual_wrapper"},
  ["nn.rnn"] = {"static_rnn", "dynamic_rnn", "bidirectional_dynamic_rnn"},
  ["nn.embedding"] = {"embedding_lookup", "embedding_lookup_sparse"},
  ["nn.sampled"] = {"sampled_softmax_loss", "nce_loss"},
  ["console.display"] = {"display", "update_display", "clear_output", "html",
                         "markdown", "latex", "svg", "png"},
  ["show.repr"] = {"register_repr"},
  ["show.picture"] = {"image_grid"},
  ["show.chart"] = {"chart"},
  ["show.tables"] = {"table"},
  places = {"nn", "math", "image", "random", "linalg", "strings"},
}

-- Modules that are names themselves.
local modules = {
  train = "tide.train", data = "tide.data", flags = "tide.flags",
  progress = "tide.progress", test = "tide.test", value = "tide.value",
  initializers = "tide.initializers", layers = "tide.layers",
  losses = "tide.losses", metrics = "tide.metrics",
  regularizers = "tide.regularizers", ui = "tide.ui",
  comm = "tide.comm",
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
    local near = core.nearest(tostring(key), list)
    core.error("invalid_argument", ("td.%s has no \"%s\"%s"):format(name,
      tostring(key), require "tide.elsewhere".hint(key, near)))
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
    local near = core.nearest(tostring(name), names())
    core.error("invalid_argument", ("td has no \"%s\"%s"):format(
      tostring(name), require "tide.elsewhere".hint(name, near)))
  end,
  __name = "td itself (td.NAME is called with a dot)",
  __tostring = function()
    return ("Tide %s: td.NAME are its functions, td.help() tells about them")
      :format(core.version)
  end,
  __complete = names, __modules = modules, __module_of = module_of,
})

return td
