--- show/graph_view.lua - what of a graph is in one drawing: boxes, and edges
-- between them.
--
-- A view is of one scope. Scopes inside are boxes; the smallest are opened as
-- long as the drawing stays small. Of too many boxes those of one stem ("Add",
-- "Add_1", ...) share one. A variable is one box, and so are its reads. What
-- feeds many boxes (constants, a learning rate) goes to a list at the side, and
-- its edges are marks.
-- SPDX-License-Identifier: Apache-2.0

local scopes = require "tide.show.scopes"
local shapes = require "tide.tensor.shape"

local view = {}

local SMALL = 16       -- boxes up to which scopes are opened
local MOST = 70        -- boxes of a drawing
local MANY = 5         -- boxes that use one, from which on it goes to the side
local MOST_CONTROLS = 30 -- control edges that are drawn
local MOST_EDGES = 400
local MOST_OUTSIDE = 8 -- boxes for what comes from outside

-- ---- boxes -----------------------------------------------------------------

-- The scopes that are open in a view of `root`.
local function opened(root, small)
  local open, n = {[root] = true}, #root.ops + #root.children
  local list, alike = {}, {}
  local function offer(scope)
    for _, child in ipairs(scope.children) do
      list[#list + 1] = child
      alike[child.structure] = (alike[child.structure] or 0) + 1
    end
  end
  offer(root)
  while #list > 0 and n <= small do
    local best = 1
    for k = 2, #list do
      if list[k].total < list[best].total then best = k end
    end
    local scope = table.remove(list, best)
    local more = #scope.ops + #scope.children - 1
    if n + more <= small and alike[scope.structure] < 3
       and not scope.variable then
      n, open[scope] = n + more, true
      offer(scope)
    end
  end
  return open
end

-- The boxes before any share one: {op = i} or {scope = s}, in the order of the
-- first node in them.
local function boxes_of(tree, root, open)
  local list = {}
  local function visit(scope)
    for _, i in ipairs(scope.ops) do
      if scope.variable or not tree.read_of[i] then
        list[#list + 1] = {op = i, first = i}
      end
    end
    for _, child in ipairs(scope.children) do
      if open[child] then
        visit(child)
      else
        local inner = child
        while #inner.ops == 0 do inner = inner.children[1] end
        list[#list + 1] = {scope = child, first = inner.ops[1]}
      end
    end
  end
  visit(root)
  table.sort(list, function(a, b) return a.first < b.first end)
  return list
end

-- Boxes of one stem and structure as one, {list = boxes}, the most frequent
-- first, until there are few enough; what is left over shares a last one.
local function gathered(tree, list, most)
  if #list <= most then return list end
  local groups, order = {}, {}
  for _, box in ipairs(list) do
    local key = box.op and tree.types[box.op] .. " "
      .. scopes.stem(tree.names[box.op]) or "/" .. box.scope.structure
    if not groups[key] then
      groups[key] = {list = {}, first = box.first}
      order[#order + 1] = groups[key]
    end
    table.insert(groups[key].list, box)
  end
  table.sort(order, function(a, b)
    if #a.list ~= #b.list then return #a.list > #b.list end
    return a.first < b.first
  end)
  local out, n = {}, #list
  local rest = {list = {}, first = math.huge, rest = true}
  for _, group in ipairs(order) do
    if #group.list > 1 and n > most - 1 then
      out[#out + 1] = group
      n = n - #group.list + 1
    else
      for _, box in ipairs(group.list) do
        local into = #out < most - 1 and out or rest.list
        into[#into + 1] = box
        rest.first = into == out and rest.first
          or math.min(rest.first, box.first)
      end
    end
  end
  if #rest.list > 0 then out[#out + 1] = rest end
  table.sort(out, function(a, b) return a.first < b.first end)
  return out
end

-- The box of each node in the view.
local function index(boxes)
  local of_op, of_scope = {}, {}
  local function add(box, part)
    if part.op then of_op[part.op] = box end
    if part.scope then of_scope[part.scope] = box end
    for _, each in ipairs(part.list or {}) do add(box, each) end
  end
  for k, box in ipairs(boxes) do
    box.index = k
    add(box, box)
  end
  return of_op, of_scope
end

local function finder(tree, boxes, open)
  local of_op, of_scope = index(boxes)
  local function box_of_scope(scope)
    if of_scope[scope] ~= nil then return of_scope[scope] end
    local box = scope.parent and not open[scope] and box_of_scope(scope.parent)
      or false
    of_scope[scope] = box
    return box
  end
  return function(i)
    return of_op[i] or box_of_scope(tree.scope_of[i])
  end
end

-- ---- what comes from outside -----------------------------------------------

-- What a node outside of `root` is called there: the outermost scope it is in
-- that does not hold root, or itself.
local function outside_of(tree, root, i)
  local scope = tree.scope_of[i]
  if scopes.within(root, scope) then return i, tree.names[i] end
  while not scopes.within(root, scope.parent) do scope = scope.parent end
  return scope, scope.path
end

local function outsider(tree, root, boxes)
  local known, n = {}, 0
  return function(i)
    local key, name = outside_of(tree, root, i)
    if known[key] then return known[key] end
    n = n + 1
    local box = n < MOST_OUTSIDE and {outside = name}
      or known.rest or {outside = "others outside"}
    if n >= MOST_OUTSIDE then known.rest = box end
    if not box.index then
      boxes[#boxes + 1] = box
      box.index = #boxes
    end
    known[key] = box
    return box
  end
end

-- ---- edges -----------------------------------------------------------------

local function each_op(scope, f)
  for _, i in ipairs(scope.ops) do f(i) end
  for _, child in ipairs(scope.children) do each_op(child, f) end
end

-- Edges between boxes: {from =, to =, n =, id =, port =, control =}.
local function edges_of(tree, root, find, outside)
  local edges, known = {}, {}
  local function add(from, to, id, port)
    local control = port < 0
    if from == to then return end
    local key = from.index << 21 | to.index << 1 | (control and 1 or 0)
    local e = known[key]
    if not e then
      e = {from = from, to = to, n = 0, id = id, port = port, seen = {},
           control = control, back = tree.types[id + 1] == "NextIteration"}
      known[key] = e
      edges[#edges + 1] = e
    end
    local tensor = id << 16 | (port & 0xffff)
    if not e.seen[tensor] then
      e.seen[tensor] = true
      e.n = e.n + 1
    end
  end
  local function source(id)
    local i = tree.read_of[id + 1] or id + 1
    if root.parent and not scopes.within(tree.scope_of[i], root) then
      return outside(i)
    end
    return find(i)
  end
  each_op(root, function(i)
    if tree.read_of[i] then return end
    local to, inputs = find(i), tree.inputs[i]
    for at = 1, #inputs, 2 do
      add(source(inputs[at]), to, inputs[at], inputs[at + 1])
    end
    for _, id in ipairs(tree.controls[i] or {}) do
      add(source(id), to, id, -1)
    end
  end)
  return edges
end

local function label_of(tree, e)
  if e.control then return nil end
  if e.n > 1 then return ("%d tensors"):format(e.n) end
  local x = tree.graph:edge(e.id, e.port)
  return x.dtype .. " " .. shapes.text(x.shape)
end

-- ---- the side --------------------------------------------------------------

-- Moves what feeds many, and constants, to the side: numbers them, and marks
-- those that they feed.
local function aside(tree, boxes, edges)
  local uses, comes = {}, {}
  for _, e in ipairs(edges) do
    uses[e.from] = (uses[e.from] or 0) + 1
    comes[e.to] = (comes[e.to] or 0) + 1
  end
  local crowded = #boxes > 12
  local list = {}
  for _, box in ipairs(boxes) do
    local leaf = not comes[box]
    local constant = box.op and tree.types[box.op] == "Const"
    if leaf and (uses[box] or 0) >= MANY
       or crowded and constant and leaf and uses[box] then
      list[#list + 1] = box
      box.mark, box.uses = #list, uses[box]
    end
  end
  local kept = {}
  for _, e in ipairs(edges) do
    if e.from.mark then
      e.to.marks = e.to.marks or {}
      table.insert(e.to.marks, e.from.mark)
    else
      kept[#kept + 1] = e
    end
  end
  return list, kept
end

local function without_controls(edges)
  local n, kept = 0, {}
  for _, e in ipairs(edges) do if e.control then n = n + 1 end end
  if n <= MOST_CONTROLS then return edges, 0 end
  for _, e in ipairs(edges) do
    if not e.control then kept[#kept + 1] = e end
  end
  return kept, n
end

-- Of too many edges those of most tensors.
local function strongest(edges)
  local n = #edges
  if n <= MOST_EDGES then return edges, 0 end
  for k, e in ipairs(edges) do e.place = k end
  table.sort(edges, function(a, b)
    if a.n ~= b.n then return a.n > b.n end
    return a.place < b.place
  end)
  local kept = table.move(edges, 1, MOST_EDGES, 1, {})
  table.sort(kept, function(a, b) return a.place < b.place end)
  return kept, n - MOST_EDGES
end

--- What a drawing of scope `root` has.
-- @param[opt] o small, most: numbers of boxes
-- @return {boxes =, edges = {{from =, to =, n =, label =, control =}, ...},
-- side = boxes at the side, hidden = control edges that are not drawn, dropped
-- = other edges that are not drawn}; a box is {op = i}, {scope =}, {list =
-- boxes} or {outside = name}, with marks of the side
function view.of(tree, root, o)
  local open = opened(root, o and o.small or SMALL)
  local boxes = gathered(tree, boxes_of(tree, root, open), o and o.most or MOST)
  local find = finder(tree, boxes, open)
  local edges = edges_of(tree, root, find, outsider(tree, root, boxes))
  local side, kept = aside(tree, boxes, edges)
  local shown, hidden = without_controls(kept)
  local dropped
  shown, dropped = strongest(shown)
  local drawn = {}
  for _, box in ipairs(boxes) do
    if not box.mark then drawn[#drawn + 1] = box end
  end
  for _, e in ipairs(shown) do e.label = label_of(tree, e) end
  return {root = root, boxes = drawn, edges = shown, side = side,
          hidden = hidden, dropped = dropped}
end

return view
