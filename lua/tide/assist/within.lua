--- assist/within.lua - what may stand inside the string at the cursor.
--
-- Where a dtype, a padding, a device, a node or a module is expected, their
-- names; else files.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dtype = require "tide.tensor.dtype"
local infer = require "tide.assist.infer"
local known = require "tide.assist.known"
local options = require "tide.assist.options"
local paths = require "tide.assist.paths"
local reference = require "tide.help.reference"
local functions = require "tide.help.functions"
local graph = require "tide.graph.graph"
local config = require "tide.run.config"

local within = {}

-- So many nodes of a graph are offered.
local MOST_NODES = 500

-- ---- what can be offered --------------------------------------------------

local offer = {}

-- The graph that an object's strings name nodes of.
local function graph_of(thing)
  local x = thing and thing.value
  local kind = core.kind(x)
  if kind == "graph" then return x end
  if kind == "session" then
    local ok, g = pcall(x.core_graph, x)
    if ok then return g end
  end
  return core.graph()
end

local function add_nodes(list, g, kind, op_type)
  local name = list.fragment:match "^[^:]*"
  local port = list.fragment:find ":"
  local flat = core.node_names(g, name, MOST_NODES, op_type)
  for i = 1, #flat, 3 do
    local n = flat[i + 2]
    if not port then
      list:add(flat[i], kind or n > 0 and "tensor" or "op", flat[i + 1])
    end
    for k = 0, port and n - 1 or -1 do
      list:add(flat[i] .. ":" .. k, kind or "tensor", flat[i + 1])
    end
  end
end

function offer.node(list, spot)
  add_nodes(list, graph_of(spot.object or spot.index))
end

-- What is fed most comes first.
function offer.feed(list, spot)
  local g = graph_of(spot.object)
  add_nodes(list, g, "feed", "Placeholder")
  add_nodes(list, g, "feed", "PlaceholderWithDefault")
  if list.fragment ~= "" then add_nodes(list, g) end
end

function offer.dtype(list)
  for _, name in ipairs(dtype.names) do list:add(name, "instance", "dtype") end
end

-- Devices of other processes by their task, too: all of it, or what is short.
function offer.device(list)
  local here, tasks = config.place(), {}
  for _, name in ipairs(config.devices()) do
    local task, device = name:match "^(.*)/device:(%w+:%d+)$"
    list:add(name, "device")
    if task == here then
      list:add("/" .. device:lower(), "device")
    elseif task then
      local short = task:gsub("/replica:0", "")
      if not tasks[short] then list:add(short, "device") end
      tasks[short] = true
      list:add(short .. "/" .. device:lower(), "device")
    end
  end
  for _, name in ipairs{"/cpu:0", "/gpu:0"} do list:add(name, "device") end
end

function offer.variable(list)
  for _, name in ipairs{"variables", "local_variables"} do
    for _, v in ipairs(graph.get_collection(name)) do
      list:add(v.name, "variable")
    end
  end
end

function offer.collection(list)
  local all = graph.state().collections
  for name in next, all do list:add(name, "instance", "collection") end
end

function offer.op_type(list)
  for _, name in ipairs(core.op_names()) do list:add(name, "op") end
end

function offer.help(list)
  for _, name in ipairs(reference.names()) do list:add(name, "function") end
  offer.op_type(list)
end

-- Modules that a template of package.path finds.
local function add_modules(list, template)
  local before, behind = template:match "^([^?]*)%?([^?]*)$"
  local folder = list.fragment:match "^(.*%.)[^.]*$" or ""
  if not before then return end
  local where = before .. folder:gsub("%.", "/")
  local ok, names = pcall(core.list, where == "" and "." or where)
  for name in (ok and names or ""):gmatch "[^\0]+" do
    if #name > #behind and name:sub(-#behind) == behind then
      list:add(folder .. name:sub(1, -#behind - 1), "module")
    end
  end
end

function offer.module(list)
  local own = list.fragment:find "^tide%."
  for _, place in ipairs{package.loaded, package.preload} do
    for name in next, place do
      if type(name) == "string" and (own or not name:find "^tide%.") then
        list:add(name, "module")
      end
    end
  end
  for template in package.path:gmatch "[^;]+" do add_modules(list, template) end
end

-- ---- where the string stands ----------------------------------------------

-- By the public name of the function: what its arguments by position are, and
-- the keys of tables that are arguments.
local arguments = {
  ["sess:run"] = {"node", keys = "feed"}, ["sess:start"] = {"node",
                                                            keys = "feed"},
  ["sess:callable"] = {"node", "feed"}, ["sess:loop"] = {"node"},
  ["sess:partial_run_setup"] = {"node", "feed"},
  ["p:run"] = {"node", keys = "feed"}, ["op:run"] = {keys = "feed"},
  ["x:eval"] = {keys = "feed"}, ["g:estimate"] = {keys = "feed"},
  ["g:op"] = {"node"}, ["g:edge"] = {"node"}, ["g:find"] = {"node"},
  device = {"device"}, device_wrapper = {nil, "device"},
  ["_G.require"] = {"module"}, get_variable = {"variable"},
  get_collection = {"collection"}, add_to_collection = {"collection"},
  global_variables = {"variable"}, trainable_variables = {"variable"},
  help = {"help"}, register_gradient = {"op_type"},
  gradient_override_map = {keys = "op_type"}, import_graph = {"path"},
}

-- By the name of the parameter or option.
local by_parameter = {dtype = "dtype", dtypes = "dtype", types = "dtype",
                      out_type = "dtype", output_type = "dtype",
                      device = "device", path = "path", filename = "path",
                      dir = "path"}

-- The call that brackets[k] belongs to, with the path of keys down to it.
local function enclosing(source, brackets, k)
  local call = options.call(source, brackets, k)
  if call then return call, brackets[k] end
  local outer = brackets[k + 1]
  if outer and outer.open == "{" and outer.first <= brackets[k].at then
    local found = options.call(source, brackets, k + 1)
    if found then found.within = outer.key end
    return found, outer
  end
end

-- The object whose method is called by the expression that ends with word j.
local function object_before(source, j)
  if source.words[j - 1] ~= ":" then return nil end
  return (infer.ending(source, j - 2))
end

-- {name =, argument =, key =, is_key =, object =} of the string, word n.
local function spot_of(source)
  local n, brackets = source.n, source:brackets()
  local frame = brackets[1]
  if source:is_callee(n - 1) then
    local thing = infer.ending(source, n - 1)
    local name = thing and (thing.name or functions.name(thing.value))
    return {name = name, argument = options.shift(source, n - 1, name),
            object = object_before(source, n - 1)}
  end
  if not frame then return {} end
  if frame.open == "[" and frame.callee then
    return {index = infer.ending(source, frame.callee)}
  end
  local is_key = frame.open == "["
  local k = is_key and 2 or 1
  if is_key and not brackets[2] then return {} end
  local call, at = enclosing(source, brackets, k)
  if not call then return {} end
  local callee = at.callee or brackets[k + 1] and brackets[k + 1].callee
    or brackets[k + 2] and brackets[k + 2].callee
  return {name = call.name, argument = call.argument, is_key = is_key,
          key = call.within or brackets[k].open == "{" and brackets[k].key
            or nil, object = callee and object_before(source, callee)}
end

-- The kind of thing that a string at that spot names.
local function kind_at(spot)
  if spot.index then return spot.index.is == "g:" and "node" or "none" end
  if not spot.name then return nil end
  local row = arguments[spot.name]
    or arguments[spot.name:gsub("^x:", "")] or {}
  if spot.is_key then return row.keys or "none" end
  if spot.key then
    return by_parameter[spot.key]
      or row[spot.argument + 1] == "node" and "node" or nil
  end
  local parameter = known.parameters(spot.name)[spot.argument + 1]
  return row[spot.argument + 1] or by_parameter[parameter]
end

-- Values of an option that has a list of them.
local function add_allowed(list, spot)
  local key = spot.key or known.parameters(spot.name)[spot.argument + 1]
  local option = key and options.find(spot.name, key)
  if not option then return false end
  if option.type == "type" and not option.allowed then offer.dtype(list) end
  for _, value in ipairs(option.allowed or {}) do
    if value ~= "EXPLICIT" then list:add(value, "instance", option.type) end
  end
  return option.allowed ~= nil or option.type == "type"
end

-- x.dtype == "float32"
local function compares_dtype(source)
  local word = source.words[source.n - 1]
  return (word == "==" or word == "~=")
    and source.words[source.n - 2] == "dtype"
end

-- ---- asking ---------------------------------------------------------------

-- What the string that is open at the end has so far; nil where there is none,
-- false inside a comment.
local function body_of(source)
  local n = source.n
  local word, kind = source.words[n], source.kinds[n]
  if kind ~= "broken" and kind ~= "open" or source.stops[n] ~= #source.text then
    return nil
  end
  if word:find "^%-%-" then return false end
  return word:match "^[\"'](.*)$" or word:match "^%[=*%[(.*)$"
end

--- The graph and the name of the node that the open string names, or nil.
function within.node(source)
  local body = body_of(source)
  local spot = body and spot_of(source)
  local what = spot and kind_at(spot)
  if what ~= "node" and what ~= "feed" and what ~= "variable" then
    return nil
  end
  return graph_of(spot.object or spot.index), body
end

--- Candidates for the string that is open at the end, false inside a comment,
-- nil elsewhere.
-- @param new makes a list of candidates for a fragment
function within.string(source, new)
  local body = body_of(source)
  if not body then return body end
  if compares_dtype(source) then
    local list = new(body)
    offer.dtype(list)
    return list
  end
  local spot = spot_of(source)
  local what = kind_at(spot)
  local list = new(body)
  if offer[what] then
    offer[what](list, spot)
    return list
  end
  if what == "none" then return list end
  if spot.name and add_allowed(list, spot) then return list end
  return paths.add(new(body:match "[^/]*$"), body)
end

return within
