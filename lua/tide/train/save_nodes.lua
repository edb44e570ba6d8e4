--- train/save_nodes.lua - the nodes that save variables and restore them.
--
-- As in TensorFlow they are part of the graph: SaveV2 with what reads the
-- variables, RestoreV2 with what assigns to them, under names "save/...", and
-- the path is fed; a program that gets the graph can save and restore by
-- running save/control_dependency and save/restore_all, feeding save/Const.
--
-- Sharded, each device has a SaveV2 and a RestoreV2 of its own; the parts, in
-- PREFIX_temp/, become one checkpoint by MergeV2Checkpoints. Nothing is
-- assigned before all is read: a damaged file changes no variable.
--
-- Beside the variables stand, under "_tide/", what TensorFlow has no place for:
-- random streams, things that are kept, the step, the metric. They are fed.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local scope = require "tide.graph.scope"

local save_nodes = {}

-- What is fed beside the variables: name on disk, and what it is unless fed.
local extras = {
  {field = "global_step", name = "_tide/global_step", default = -1,
   dtype = "int64", shape = {}},
  {field = "keep_names", name = "_tide/keep_names", default = {},
   dtype = "string", shape = {-1}},
  {field = "keep_texts", name = "_tide/keep_texts", default = {},
   dtype = "string", shape = {-1}},
  {field = "metric", name = "_tide/metric", default = 0 / 0,
   dtype = "float64", shape = {}},
  {field = "random", name = "_tide/random", default = "", dtype = "string",
   shape = {}},
}

local function fed(name, default, dtype, shape)
  local initial = core.add("Const", {}, {dtype = dtype, value =
    core.tensor(default, dtype)}, name .. "/default")
  return core.add("PlaceholderWithDefault", {initial},
                  {dtype = dtype, shape = shape}, name)
end

local function strings(list, name)
  return core.add("Const", {}, {dtype = "string", value =
    core.tensor(list, "string")}, name)
end

-- ---- devices --------------------------------------------------------------

-- Where a variable of device `spec` is written: there if it is a CPU, else on
-- the CPU of its task.
local function writer_of(spec)
  if spec == "" or spec:lower():find "cpu:" then return spec end
  return (spec:gsub("/?device:.*$", "")) .. "/device:CPU:0"
end

-- Items by device, in the order of the devices' names.
local function by_device(items)
  local groups, names = {}, {}
  for _, item in ipairs(items) do
    local device = writer_of(item.variable.device or "")
    if not groups[device] then
      groups[device] = {device = device}
      names[#names + 1] = device
    end
    table.insert(groups[device], item)
  end
  table.sort(names)
  for i, name in ipairs(names) do names[i] = groups[name] end
  return names
end

-- ---- saving ---------------------------------------------------------------

-- A share of the variable's value: one that sparse updates work on would be
-- copied, which is more memory than a save may take.
local function share_of(v)
  local shared = core.add("DisableCopyOnRead", {v.handle}, nil,
                          "DisableCopyOnRead")
  local _ <close> = core.push{controls = {shared}}
  return core.add("ReadVariableOp", {v.handle}, {dtype = v.dtype}, "Read")
end

-- What a SaveV2 takes: names, parts (none), tensors, dtypes.
local function operands(group)
  local names, parts, edges, dtypes = {}, {}, {}, {}
  for i, item in ipairs(group) do
    names[i], parts[i] = item.name, ""
    item.edge = item.edge or share_of(item.variable)
    edges[i] = item.edge
    dtypes[i] = item.dtype or item.variable.dtype
  end
  return names, parts, edges, dtypes
end

local function save_group(group, path, controls)
  local names, parts, edges, dtypes = operands(group)
  local _ <close> = core.push{controls = controls,
                              device = group.device ~= "" and group.device
                                       or nil}
  return core.add("SaveV2", {path, strings(names, "SaveV2/tensor_names"),
                             strings(parts, "SaveV2/shape_and_slices"), edges},
                  {dtypes = dtypes}, "SaveV2")
end

local function save_whole(nodes, group)
  return save_group(group, nodes.path)
end

local function save_shards(nodes, groups)
  local base = core.add("StringJoin", {{nodes.path,
    core.tensor("_temp/part", "string")}}, nil, "StringJoin")
  local paths, done = {}, {}
  for i, group in ipairs(groups) do
    paths[i] = core.add("ShardedFilename", {base,
      core.tensor(i - 1, "int32"), core.tensor(#groups, "int32")}, nil,
      "ShardedFilename")
    done[i] = save_group(group, paths[i])
  end
  local _ <close> = core.push{controls = done}
  local list = core.add("Pack", {paths}, {axis = 0},
                        "MergeV2Checkpoints/checkpoint_prefixes")
  return core.add("MergeV2Checkpoints", {list, nodes.path}, nil,
                  "MergeV2Checkpoints")
end

-- ---- restoring ------------------------------------------------------------

local function restore_group(nodes, group)
  local names, parts, dtypes = {}, {}, {}
  for i, item in ipairs(group) do
    names[i], parts[i], dtypes[i] = item.name, "", item.variable.dtype
  end
  local _ <close> = core.push{device = group.device ~= "" and group.device
                                       or nil}
  return core.add("RestoreV2", {nodes.path,
    strings(names, "RestoreV2/tensor_names"),
    strings(parts, "RestoreV2/shape_and_slices")}, {dtypes = dtypes},
    "RestoreV2")
end

-- The tensors of several groups, none of which is there before all are read.
local function wait_for_all(read)
  local ops = {}
  for i, edges in ipairs(read) do ops[i] = edges[1].op end
  local _ <close> = core.push{controls = ops}
  for _, edges in ipairs(read) do
    local _ <close> = core.push{colocate = edges[1].op}
    for k, edge in ipairs(edges) do
      edges[k] = core.add("Identity", {edge}, nil, "restored")
    end
  end
end

-- Are variables asked to be on other tasks?
local function has_tasks(groups)
  for _, group in ipairs(groups) do
    for _, item in ipairs(group) do
      if (item.variable.device or ""):find "/job:" then return true end
    end
  end
  return false
end

-- No variable changes before the values of all are where their variables are: a
-- worker that cannot read or hold its own leaves those of the others as they
-- were.
local function assign_together(groups)
  local ready, ops, assigns = {}, {}, {}
  for _, group in ipairs(groups) do
    for _, item in ipairs(group) do
      local _ <close> = core.push{colocate = item.variable.handle.op}
      ready[item] = core.add("Identity", {item.restored}, nil, "ready")
      ops[#ops + 1] = ready[item].op
    end
  end
  local _ <close> = core.push{controls = {scope.group(ops, "all_ready")}}
  for _, group in ipairs(groups) do
    for _, item in ipairs(group) do
      assigns[#assigns + 1] = core.add("AssignVariableOp", {
        item.variable.handle, ready[item]}, {dtype = item.variable.dtype},
        "AssignTogether")
    end
  end
  return assigns
end

local function restore_all(nodes, groups)
  local read, assigns = {}, {}
  for i, group in ipairs(groups) do read[i] = restore_group(nodes, group) end
  if #groups > 1 then wait_for_all(read) end
  for i, group in ipairs(groups) do
    for k, item in ipairs(group) do
      item.restored = read[i][k]
      item.assign = core.add("AssignVariableOp", {item.variable.handle,
        item.restored}, {dtype = item.variable.dtype}, "Assign")
      assigns[#assigns + 1] = item.assign
    end
  end
  if has_tasks(groups) then assigns = assign_together(groups) end
  nodes.restore = scope.group(assigns, "restore_all")
end

-- ---- all ------------------------------------------------------------------

local function add_extras(nodes, items)
  for _, e in ipairs(extras) do
    local edge = fed(e.field, e.default, e.dtype, e.shape)
    nodes[e.field] = edge
    items[#items + 1] = {name = e.name, edge = edge, dtype = e.dtype}
  end
end

--- Adds the nodes for a list of items {name = on disk, variable =} of graph g.
-- Each item gets `restored`, the edge that its `assign` takes: it may be fed.
-- @return {path =, save = op, restore = op, global_step =, metric =, random =,
-- keep_names =, keep_texts =}: edges to be fed, and ops to be run
function save_nodes.add(g, items, sharded)
  local _ <close> = core.push{graph = g, flow = 0, capture = false,
    pivot = false, clear_controls = true, device = false, device_fn = false,
    colocate = false, prefix = g:unique "save" .. "/"}
  local nodes, own = {}, {}
  nodes.path = fed("Const", "model", "string", {})
  local groups = sharded and by_device(items)
    or {table.move(items, 1, #items, 1, {device = ""})}
  local saved = {}
  add_extras(nodes, own)
  for i, group in ipairs(groups) do
    saved[i] = table.move(group, 1, #group, 1, {device = group.device})
    if i == 1 then table.move(own, 1, #own, #group + 1, saved[i]) end
  end
  local op = sharded and save_shards(nodes, saved)
    or save_whole(nodes, saved[1])
  do
    local _ <close> = core.push{controls = {op}}
    nodes.save = core.add("Identity", {nodes.path}, nil,
                          "control_dependency").op
  end
  restore_all(nodes, groups)
  return nodes
end

return save_nodes
