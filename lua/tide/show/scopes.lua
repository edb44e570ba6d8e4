--- show/scopes.lua - the nodes of a graph by name scope, and which scopes are
-- alike.
--
-- A node "a/b/c" is in scope "a/b/"; a node "a" that has others below it is in
-- scope "a/". Two scopes are alike where the same ops were made in them in the
-- same order, with inputs from as far back.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local scopes = {}

local function new_scope(tree, path, parent)
  local scope = {path = path, parent = parent, children = {}, ops = {},
                 total = 0, depth = parent and parent.depth + 1 or 0}
  scope.name = parent and path:sub(#parent.path + 1) or path
  tree.by_path[path] = scope
  tree.scopes[#tree.scopes + 1] = scope
  if parent then table.insert(parent.children, scope) end
  return scope
end

-- The scope "a/b/", made with all around it.
local function scope_at(tree, path)
  local scope = tree.by_path[path]
  if scope then return scope end
  local outer = path:match "^(.*/)[^/]*/$" or ""
  return new_scope(tree, path, scope_at(tree, outer))
end

-- Puts op i into its scope.
local function file(tree, i)
  local name = tree.names[i]
  local scope = tree.by_path[name .. "/"]
    or scope_at(tree, name:match "^.*/" or "")
  tree.scope_of[i] = scope
  table.insert(scope.ops, i)
end

local function count(tree)
  for i = #tree.scopes, 1, -1 do -- the inner ones first
    local scope = tree.scopes[i]
    scope.total = scope.total + #scope.ops
    if scope.parent then
      scope.parent.total = scope.parent.total + scope.total
    end
  end
end

-- Gives scopes that are alike the same number.
local function compare(tree)
  local numbers, n = {}, 0
  for k = #tree.scopes, 1, -1 do
    local scope, parts = tree.scopes[k], {}
    for _, i in ipairs(scope.ops) do
      local inputs = tree.inputs[i]
      parts[#parts + 1] = tree.types[i]
      for at = 1, #inputs, 2 do
        local from = inputs[at] + 1
        parts[#parts + 1] = tree.scope_of[from] == scope and i - from or "x"
      end
    end
    for _, child in ipairs(scope.children) do
      parts[#parts + 1] = "/" .. child.structure
    end
    local key = table.concat(parts, " ")
    if not numbers[key] then
      n = n + 1
      numbers[key] = n
    end
    scope.structure = numbers[key]
  end
end

-- A variable's, and the initial value of those that optimizers make.
local of_variable = {VarHandleOp = true, AssignVariableOp = true,
                     VarIsInitializedOp = true, ReadVariableOp = true,
                     Const = true, Fill = true}

-- Tells the scopes that are a variable's and hold nothing else, and the reads
-- that wait for nothing: what they give is the variable.
local function find_variables(tree)
  for _, scope in ipairs(tree.scopes) do
    for _, i in ipairs(scope.ops) do
      if tree.types[i] == "VarHandleOp" and tree.names[i] .. "/" == scope.path
      then
        scope.variable = i
      end
    end
    for _, i in ipairs(scope.ops) do
      if not of_variable[tree.types[i]] then scope.variable = nil end
    end
    if #scope.children > 0 then scope.variable = nil end
  end
  for i, type in ipairs(tree.types) do
    if type == "ReadVariableOp" and not tree.controls[i] then
      tree.read_of[i] = tree.inputs[i][1] + 1
    end
  end
end

--- The nodes of a graph as a tree of scopes: names, types, devices, inputs and
-- controls as core.graph_nodes gives them, scope_of by node, root, scopes (the
-- outer ones first), by_path; a scope is {path =, name =, parent =, children =,
-- ops =, total = nodes in it, depth =, structure = a number, variable = the
-- node of its handle where it is a variable's}. read_of: by node that only
-- reads a variable, the node of that handle.
function scopes.read(g)
  local tree = {graph = g, by_path = {}, scopes = {}, scope_of = {},
                read_of = {}}
  tree.names, tree.types, tree.devices, tree.inputs, tree.controls =
    core.graph_nodes(g)
  tree.root = new_scope(tree, "")
  for i = 1, #tree.names do -- all scopes first, so that "a" finds "a/"
    scope_at(tree, tree.names[i]:match "^.*/" or "")
  end
  for i = 1, #tree.names do file(tree, i) end
  count(tree)
  compare(tree)
  find_variables(tree)
  return tree
end

--- Is scope `inner` the scope `outer`, or in it?
function scopes.within(inner, outer)
  while inner and inner.depth > outer.depth do inner = inner.parent end
  return inner == outer
end

--- What ops are called without the number that made their names unique.
function scopes.stem(name)
  return name:match "^(.-)_%d+/?$" or name:match "^(.-)/?$"
end

--- How many of each op there are in a scope, as text: "3 Conv2D, 2 Relu, …".
function scopes.types_text(tree, scope, most)
  local n, list = {}, {}
  local function visit(s)
    for _, i in ipairs(s.ops) do
      local type = tree.types[i]
      if not n[type] then list[#list + 1] = type end
      n[type] = (n[type] or 0) + 1
    end
    for _, child in ipairs(s.children) do visit(child) end
  end
  visit(scope)
  table.sort(list, function(a, b)
    if n[a] ~= n[b] then return n[a] > n[b] end
    return a < b
  end)
  local parts = {}
  for k = 1, math.min(#list, most) do
    parts[k] = ("%d %s"):format(n[list[k]], list[k])
  end
  if #list > most then parts[#parts + 1] = "…" end
  return table.concat(parts, ", ")
end

return scopes
