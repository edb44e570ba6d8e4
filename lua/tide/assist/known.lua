--- assist/known.lua - what is known of Tide's own names, uncalled.
--
-- Objects are told apart as the reference does: "x:" is a tensor, "sess:" a
-- session, "W:" a variable. A function is known by its public name without
-- "td.": "conv2d", "train.adam", "sess:run". But for the ops, no module is
-- loaded that a user has not asked for.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local functions = require "tide.help.functions"
local help = require "tide.help.help"
local reference = require "tide.help.reference"
local namespace = require "tide.ops"
local namespaces = require "tide.namespaces"
local td = require "tide"

local known = {}

-- ---- objects --------------------------------------------------------------

-- What objects have besides methods, and what that is: a type of Lua, another
-- object, or "{x:}", a list of them.
local tensor_fields = {name = "string", dtype = "string", shape = "table",
  rank = "number", size = "number", op = "op:", graph = "g:",
  origin = "string", device = "string", port = "number"}

known.fields = {
  ["x:"] = tensor_fields,
  edge = tensor_fields,
  tensor = {dtype = "string", shape = "table", rank = "number",
            size = "number"},
  ["op:"] = {type = "string", name = "string", inputs = "{x:}",
             outputs = "{x:}", attr = "table", control_inputs = "{op:}",
             graph = "g:", origin = "string", device = "string"},
  ["W:"] = {name = "string", dtype = "string", shape = "table", handle = "x:",
            initializer = "op:", initial_value = "x:", is_initialized = "x:",
            trainable = "boolean", graph = "g:", op = "op:", device = "string",
            rank = "number", size = "number", origin = "string"},
  ["dataset:"] = {columns = "table", size = "number"},
  ["text:"] = {ids = "x:", vocab = "vocab:", size = "number"},
  ["slices:"] = {values = "x:", indices = "x:", dtype = "string"},
  ["array:"] = {handle = "x:", flow = "x:", dtype = "string"},
  ["q:"] = {name = "string", kind = "string", handle = "x:", op = "op:",
            dtypes = "table", shapes = "table", names = "table",
            capacity = "number", graph = "g:", device = "string",
            origin = "string"},
  ["lookup:"] = {name = "string", handle = "x:", op = "op:", default = "x:",
                 initializer = "op:", key_dtype = "string",
                 value_dtype = "string", value_shape = "table"},
  layer = {variables = "{W:}", name = "string"},
  ["barrier:"] = {name = "string", handle = "x:", dtypes = "table",
                  shapes = "table"},
  ["acc:"] = {name = "string", handle = "x:", dtype = "string",
              shape = "table", sparse = "boolean", ordered = "number"},
  ["area:"] = {name = "string", dtypes = "table", shapes = "table"},
  ["mutex:"] = {name = "string", handle = "x:"},
}

--- What a type of Lua or an object is called.
known.words = {["x:"] = "graph tensor", edge = "graph tensor",
  tensor = "tensor", ["op:"] = "op", ["g:"] = "graph", ["sess:"] = "session",
  ["W:"] = "variable", ["W[key]:"] = "part of a variable",
  ["optimizer:"] = "optimizer", ["average:"] = "moving average",
  ["cell:"] = "cell", ["dataset:"] = "data set", ["text:"] = "text",
  ["vocab:"] = "vocabulary", ["slices:"] = "indexed slices",
  ["array:"] = "tensor array", ["q:"] = "queue", ["coord:"] = "coordinator",
  ["lookup:"] = "lookup table",
  ["h:"] = "running step",
  ["p:"] = "partial run", layer = "layer", ["function"] = "function",
  ["barrier:"] = "barrier", ["acc:"] = "accumulator",
  ["area:"] = "staging area", ["mutex:"] = "mutex", ["saver:"] = "saver",
  ["sv:"] = "supervisor",
  ["{x:}"] = "list of graph tensors", ["{W:}"] = "list of variables",
  ["{op:}"] = "list of ops", string = "string", number = "number",
  boolean = "boolean", table = "table", file = "file"}

-- Whose methods an object has: prefixes of the reference.
local methods_of = {edge = {"x:"}, tensor = {"x:"}, ["W:"] = {"W:", "x:"},
                    ["W[key]:"] = {"W[key]:", "x:"}, layer = {}}

-- What a value has and a graph tensor has not, and the other way round.
local of_values = {item = true, table = true, bytes = true, rows = true}
local of_edges = {eval = true, set_shape = true}

-- The methods of tensors that are ops, by name; when there are n_ops ops.
local op_methods, n_ops

local function tensor_methods()
  local n = core.op_count()
  if n ~= n_ops then
    local list = {}
    for _, name in ipairs(namespace.names()) do
      list[name] = namespace.method(name) ~= nil or nil
    end
    op_methods, n_ops = list, n
  end
  return op_methods
end

-- Methods by prefix, from the comments. Other things have none: "table" is a
-- type of Lua, and the beginning of names.
local by_prefix = {}

local function commented(prefix)
  if by_prefix[prefix] then return by_prefix[prefix] end
  local list = {}
  for name in pairs(reference.rows()) do
    if prefix:sub(-1) == ":" and name:sub(1, #prefix) == prefix then
      list[name:sub(#prefix + 1)] = name
    end
  end
  by_prefix[prefix] = list
  return list
end

local function has(is, name)
  return not (is == "edge" and of_values[name]
              or is == "tensor" and of_edges[name])
end

--- The public name of a method of an object, or nil.
function known.method(is, name)
  if not has(is, name) then return nil end
  for _, prefix in ipairs(methods_of[is] or {is}) do
    local public = commented(prefix)[name]
    if public then return public end
    if prefix == "x:" and tensor_methods()[name] then return name end
  end
end

--- The methods of an object: {[name] = public name}.
function known.methods(is)
  local all = {}
  local prefixes = methods_of[is] or {is}
  for k = #prefixes, 1, -1 do
    if prefixes[k] == "x:" then
      for name in pairs(tensor_methods()) do all[name] = name end
    end
    for name, public in pairs(commented(prefixes[k])) do all[name] = public end
  end
  for name in pairs(all) do
    if not has(is, name) then all[name] = nil end
  end
  return all
end

-- ---- live values ----------------------------------------------------------

local of_kind = {tensor = "tensor", edge = "edge", op = "op:", graph = "g:",
                 session = "sess:"}
-- Classes whose __index is a function, by its file.
local of_file = {["data/dataset.lua"] = "dataset:", ["nn/layer.lua"] = "layer",
                 ["train/optimizer.lua"] = "optimizer:",
                 ["flow/queues.lua"] = "q:",
                 ["train/coordinator.lua"] = "coord:",
                 ["train/saver.lua"] = "saver:",
                 ["train/supervisor.lua"] = "sv:",
                 ["train/optimizers.lua"] = "optimizer:"}

-- Those of flow/resource.lua, by what they are called.
local of_class = {barrier = "barrier:", accumulator = "acc:", mutex = "mutex:",
                  ["staging area"] = "area:"}

--- What Tide's object x is, or nil for anything else. Runs no metamethod.
function known.object(x)
  local kind = core.kind(x)
  if kind then return of_kind[kind] end
  local meta = debug.getmetatable(x)
  if type(x) == "userdata" then
    return meta and rawequal(meta, debug.getregistry()["tide.handle"])
      and "h:" or nil
  end
  if type(x) ~= "table" or not meta then return nil end
  local index = rawget(meta, "__index")
  if type(index) ~= "function" then return nil end
  local file = debug.getinfo(index, "S").source:match "^=%[tide%] (.*)$"
  if file == "flow/resource.lua" then
    return of_class[rawget(meta, "__name")]
  end
  if file ~= "variables/variables.lua" then return of_file[file] end
  return rawget(x, "variable") and "W[key]:" or "W:"
end

--- Is x the shape of something?
function known.is_shape(x)
  local meta = type(x) == "table" and debug.getmetatable(x)
  local f = meta and rawget(meta, "__tostring")
  return type(f) == "function"
    and debug.getinfo(f, "S").source == "=[tide] tensor/shape.lua"
end

--- The place in td of a table of Tide's: "" is td itself, "train", "nn"; nil
-- for any other.
function known.module(x)
  if rawequal(x, td) then return "" end
  if type(x) ~= "table" or not debug.getmetatable(x) then return nil end
  for name, module in pairs(getmetatable(td).__modules) do
    if rawequal(package.loaded[module], x) then return name end
  end
  if rawequal(x, namespace.raw) then return "raw" end
  for name, place in pairs(namespaces) do
    if rawequal(place, x) then return name end
  end
end

--- The public name of a name in a place of td; nil when there is none.
function known.name_in(module, name)
  if module == "" then return known.is_name(name) and name or nil end
  local full = module .. "." .. name
  if module == "raw" then return known.is_op(name) and full or nil end
  if module == "value" then return known.is_name(name) and name or nil end
  if reference.rows()[full] then return full end
  return type(namespaces[module]) == "table"
    and namespaces.name_in(module, name) or nil
end

--- Is that a name of td?
function known.is_name(name)
  local meta = getmetatable(td)
  return rawget(td, name) ~= nil or meta.__module_of[name] ~= nil
    or meta.__modules[name] ~= nil or namespace.has(name)
    or core.op_type(name) ~= nil
end

--- The table of a place of td, if it is there already.
function known.place(name)
  if name == "raw" then return namespace.raw end
  local module = getmetatable(td).__modules[name]
  return module and package.loaded[module] or namespaces[name]
end

--- The names of a place of td whose module is not loaded.
function known.names_of(module)
  local list, prefix = {}, module .. "."
  if module == "value" then return namespace.names() end
  for name in pairs(reference.rows()) do
    if name:sub(1, #prefix) == prefix then
      list[#list + 1] = name:sub(#prefix + 1)
    end
  end
  return list
end

--- Is that name of td a table: a module or a place?
function known.is_module(name)
  local meta = getmetatable(td)
  return meta.__modules[name] and name ~= "progress"
    or meta.__module_of[name] == "tide.namespaces" or name == "raw"
end

local types, n_types = {}, 0

--- Is that the type of an op, such as "MatMul"?
function known.is_op(name)
  if core.op_count() ~= n_types then
    local list = {}
    for _, type in ipairs(core.op_names()) do list[type] = true end
    types, n_types = list, core.op_count()
  end
  return types[name] or false
end

-- ---- functions ------------------------------------------------------------

--- The row of the comment on a function; nil when it has none.
function known.row(name)
  return reference.rows()[name]
end

local calls, n_calls = {}, 0 -- what was asked before, of so many ops

local function call_of(name)
  local row = reference.rows()[name]
  if row and row.call ~= "" then
    local self = name:match "^(%l+):" -- written as a parameter
    if self == "x" or self == "g" or self == "op" then
      return (row.call:gsub("^%(" .. self .. ",? ?", "("))
    end
    return row.call
  end
  local op = functions.op(name)
  return op and help.call(op) or row and row.call or nil
end

--- "(x, axes, o)": the parameters of a function, or nil.
function known.call(name)
  local n = core.op_count()
  if n ~= n_calls then calls, n_calls = {}, n end
  local call = calls[name]
  if call == nil then
    call = call_of(name) or false
    calls[name] = call
  end
  return call or nil
end

--- The names of its parameters.
function known.parameters(name)
  local list = {}
  local call = known.call(name) or ""
  for word in call:gsub("{.*}", "o"):gmatch "[%w_]+" do
    list[#list + 1] = word
  end
  return list
end

-- ---- results --------------------------------------------------------------

local results = {
  session = "sess:", get_default_session = "sess:", graph = "g:",
  get_default_graph = "g:", variable = "W:", get_variable = "W:",
  tensor_array = "array:", hash_table = "lookup:", mutable_table = "lookup:",
  vocabulary = "lookup:", tables_initializer = "op:", ["lookup:find"] = "x:",
  ["lookup:size"] = "x:", ["lookup:export"] = "x:", ["lookup:insert"] = "op:",
  ["lookup:remove"] = "op:", ["lookup:inverse"] = "lookup:",
  group = "op:", no_op = "op:", tensor = "tensor",
  basic_rnn_cell = "cell:", lstm_cell = "cell:", gru_cell = "cell:",
  multi_cell = "cell:", dropout_wrapper = "cell:", device_wrapper = "cell:",
  residual_wrapper = "cell:", unstack = "{x:}", split = "{x:}",
  gradients = "{x:}", global_variables = "{W:}", trainable_variables = "{W:}",
  local_variables = "{W:}", global_variables_initializer = "op:",
  variables_initializer = "op:", get_collection = "table", print = "x:",
  ["while_loop"] = "x:", cond = "x:", map_fn = "x:", foldl = "x:",
  foldr = "x:", scan = "x:", load_npy = "tensor", load_image = "tensor",
  ["train.moving_average"] = "average:", ["train.global_step"] = "W:",
  fifo_queue = "q:", padding_fifo_queue = "q:", random_shuffle_queue = "q:",
  priority_queue = "q:", ["q:enqueue"] = "op:", ["q:enqueue_many"] = "op:",
  ["q:dequeue"] = "x:", ["q:dequeue_up_to"] = "x:", ["q:size"] = "x:",
  ["q:is_closed"] = "x:", ["q:close"] = "op:",
  ["train.coordinator"] = "coord:", ["coord:should_stop"] = "boolean",
  ["train.input_producer"] = "q:", ["train.string_input_producer"] = "q:",
  ["train.range_input_producer"] = "q:",
  ["train.start_queue_runners"] = "table",
  ["data.of"] = "dataset:", ["sess:callable"] = "function",
  ["sess:start"] = "h:", ["sess:loop"] = "h:",
  ["sess:partial_run_setup"] = "p:", ["g:op"] = "op:", ["g:find"] = "op:",
  ["g:ops"] = "{op:}", ["g:edge"] = "x:", ["g:unique"] = "string",
  ["g:size"] = "number", ["x:rows"] = "function", ["x:table"] = "table",
  ["x:bytes"] = "string", ["x:set_shape"] = "x:", ["W:read"] = "x:",
  ["W:load"] = false, ["optimizer:minimize"] = "op:",
  ["optimizer:apply_gradients"] = "op:",
  ["optimizer:compute_gradients"] = "table", ["dataset:take"] = "dataset:",
  ["dataset:shuffled"] = "dataset:", ["array:write"] = "array:",
  ["array:unstack"] = "array:", ["array:split"] = "array:",
  ["array:scatter"] = "array:", ["array:read"] = "x:", ["array:stack"] = "x:",
  ["array:gather"] = "x:", ["array:concat"] = "x:", ["array:size"] = "x:",
  ["array:close"] = "op:", ["average:apply"] = "op:",
  ["average:average"] = "W:", ["slices:dense"] = "x:",
  ["vocab:encode"] = "tensor", ["vocab:decode"] = "string",
  ["string.format"] = "string", ["string.rep"] = "string",
  ["string.sub"] = "string", ["string.gsub"] = "string",
  ["string.lower"] = "string", ["string.upper"] = "string",
  ["string.reverse"] = "string", ["table.concat"] = "string",
  ["io.open"] = "file", ["io.popen"] = "file", ["_G.tostring"] = "string",
  ["_G.type"] = "string", ["_G.tonumber"] = "number",
  barrier = "barrier:", accumulator = "acc:", staging_area = "area:",
  mutex = "mutex:", ["barrier:insert"] = "op:", ["barrier:take"] = "x:",
  ["barrier:close"] = "op:", ["barrier:ready_size"] = "x:",
  ["barrier:incomplete_size"] = "x:", ["acc:apply"] = "op:",
  ["acc:take"] = "x:", ["acc:set_step"] = "op:", ["acc:size"] = "x:",
  ["area:put"] = "op:", ["area:get"] = "x:", ["area:peek"] = "x:",
  ["area:size"] = "x:", ["area:clear"] = "op:",
  ["train.saver"] = "saver:", ["saver:save"] = "string",
  ["train.supervisor"] = "sv:", ["sv:session"] = "sess:",
  ["sv:should_stop"] = "boolean", ["sv:save"] = "string",
  ["saver:best"] = "string", ["saver:restore"] = "table",
  ["saver:list"] = "table", ["train.latest_checkpoint"] = "string",
  ["train.load_variable"] = "tensor", ["train.list_variables"] = "table",
  load_safetensors = "table",
}

-- Results of whole modules, by the module of the row.
local of_module = {["train.optimizers"] = "optimizer:",
                   ["train.lbfgs"] = "optimizer:",
                   ["train.schedules"] = "x:", ["nn.losses"] = "x:",
                   ["variables.regularizers"] = "function",
                   ["variables.initializers"] = "function"}

--- What a call of the function gives first, or nil where that is not known.
function known.result(name)
  local is = results[name]
  if is ~= nil then return is or nil end
  local row = reference.rows()[name]
  if row then
    if of_module[row.module] then return of_module[row.module] end
    if row.module:find "^ops%." then return "x:" end
    if name:find "^W" then return "x:" end
  end
  if name:find "^layers%." then return "layer" end
  local op = functions.op(name)
  if not op then return nil end
  if #op.outputs == 0 then return "op:" end
  return op.outputs[1].list and "{x:}" or "x:"
end

return known
