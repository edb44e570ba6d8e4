--- show/layout.lua - where the nodes of a drawing go: in layers, from the top.
--
-- Edges against the flow are turned round; a node lies below all it comes from;
-- edges over several layers bend through places of their own; the order within
-- layers is that of few crossings (barycenters), the places are those nearest
-- to the neighbours' that the order allows (isotonic regression).
-- Source: Sugiyama, Tagawa and Toda, Methods for Visual Understanding of
-- Hierarchical System Structures, 1981.
-- SPDX-License-Identifier: Apache-2.0

local layout = {}

local GAP_X, GAP_Y = 18, 44
local SWEEPS = 12      -- over the layers, to order them
local SETTLE = 8       -- passes that move nodes towards their neighbours
local MOST_BENDS = 800

-- ---- layers ----------------------------------------------------------------

-- The edges that close a ring, and are turned round: those said to go back
-- first, which breaks loops where they are written.
local function acyclic(n, edges)
  local out, state, turned = {}, {}, {}
  for i = 1, n do out[i] = {} end
  for k, e in ipairs(edges) do
    if e.back then
      turned[k] = true
    elseif e.from ~= e.to then
      table.insert(out[e.from], k)
    end
  end
  for start = 1, n do
    local stack = not state[start] and {{start, 1}} or {}
    if #stack > 0 then state[start] = "open" end
    while #stack > 0 do
      local top = stack[#stack]
      local k = out[top[1]][top[2]]
      top[2] = top[2] + 1
      if not k then
        state[top[1]] = "done"
        stack[#stack] = nil
      else
        local to = edges[k].to
        if state[to] == "open" then
          turned[k] = true
        elseif not state[to] then
          state[to] = "open"
          stack[#stack + 1] = {to, 1}
        end
      end
    end
  end
  return turned
end

-- {from, to} of every edge that is no ring at one node, forward.
local function forward(n, edges)
  local turned, list = acyclic(n, edges), {}
  for k, e in ipairs(edges) do
    if e.from ~= e.to then
      list[#list + 1] = turned[k] and {from = e.to, to = e.from, edge = k}
        or {from = e.from, to = e.to, edge = k}
    end
  end
  return list
end

-- The layer of each node: below all it comes from, and where nothing comes to
-- it just above what it goes to.
local function layers_of(n, list)
  local before, after, waits, layer = {}, {}, {}, {}
  for i = 1, n do before[i], after[i], waits[i], layer[i] = {}, {}, 0, 1 end
  for _, e in ipairs(list) do
    table.insert(before[e.to], e.from)
    table.insert(after[e.from], e.to)
    waits[e.to] = waits[e.to] + 1
  end
  local queue, at = {}, 1
  for i = 1, n do if waits[i] == 0 then queue[#queue + 1] = i end end
  while queue[at] do
    for _, to in ipairs(after[queue[at]]) do
      layer[to] = math.max(layer[to], layer[queue[at]] + 1)
      waits[to] = waits[to] - 1
      if waits[to] == 0 then queue[#queue + 1] = to end
    end
    at = at + 1
  end
  for i = #queue, 1, -1 do
    local v, low = queue[i], math.huge
    for _, to in ipairs(after[v]) do low = math.min(low, layer[to]) end
    if #before[v] == 0 and low < math.huge then layer[v] = low - 1 end
  end
  return layer
end

-- ---- places for bends ------------------------------------------------------

-- Splits long edges: cells {w =, h =} by layer, those of the nodes first, and
-- the path of each edge from cell to cell of neighbouring layers.
local function cells_of(nodes, list, layer)
  local cells, rows, links, bends = {}, {}, {}, 0
  local function add(cell, at)
    rows[at] = rows[at] or {}
    table.insert(rows[at], cell)
    cell.up, cell.down, cell.layer = {}, {}, at
    return cell
  end
  for i, node in ipairs(nodes) do
    cells[i] = add({w = node.w, h = node.h}, layer[i])
  end
  for _, e in ipairs(list) do
    local path = {cells[e.from]}
    local span = layer[e.to] - layer[e.from] - 1
    if bends + span <= MOST_BENDS then
      for k = layer[e.from] + 1, layer[e.to] - 1 do
        bends = bends + 1
        path[#path + 1] = add({w = 4, h = 0}, k)
      end
    end
    path[#path + 1] = cells[e.to]
    for k = 2, #path do
      table.insert(path[k - 1].down, path[k])
      table.insert(path[k].up, path[k - 1])
    end
    links[e.edge] = path
  end
  return cells, rows, links
end

-- ---- order -----------------------------------------------------------------

local function number_row(row)
  for i, cell in ipairs(row) do cell.at = i end
end

local function sort_by(row, side)
  for _, cell in ipairs(row) do
    local sum = 0
    for _, other in ipairs(cell[side]) do sum = sum + other.at end
    cell.key = #cell[side] > 0 and sum / #cell[side] or cell.at
    cell.was = cell.at
  end
  table.sort(row, function(a, b)
    if a.key ~= b.key then return a.key < b.key end
    return a.was < b.was
  end)
  number_row(row)
end

local function order(rows)
  for _, row in ipairs(rows) do number_row(row) end
  for sweep = 1, SWEEPS do
    if sweep % 2 == 1 then
      for i = 2, #rows do sort_by(rows[i], "up") end
    else
      for i = #rows - 1, 1, -1 do sort_by(rows[i], "down") end
    end
  end
end

-- ---- places ----------------------------------------------------------------

-- The x nearest to those wanted that keep the order and the distances: least
-- squares, by pooling neighbours that would overlap.
local function settle(row, wanted)
  local offset, blocks = 0, {}
  for i, cell in ipairs(row) do
    if i > 1 then
      offset = offset + (row[i - 1].w + cell.w) / 2 + GAP_X
    end
    cell.offset = offset
    local block = {sum = wanted[i] - offset, n = 1}
    blocks[#blocks + 1] = block
    while #blocks > 1 do
      local a, b = blocks[#blocks - 1], blocks[#blocks]
      if a.sum / a.n <= b.sum / b.n then break end
      a.sum, a.n = a.sum + b.sum, a.n + b.n
      blocks[#blocks] = nil
    end
  end
  local i = 1
  for _, block in ipairs(blocks) do
    for _ = 1, block.n do
      row[i].x = block.sum / block.n + row[i].offset
      i = i + 1
    end
  end
end

local function wanted_by(row, side)
  local list = {}
  for i, cell in ipairs(row) do
    local sum = 0
    for _, other in ipairs(cell[side]) do sum = sum + other.x end
    list[i] = #cell[side] > 0 and sum / #cell[side] or cell.x
  end
  return list
end

local function place(rows)
  for _, row in ipairs(rows) do
    local zero = {}
    for i = 1, #row do zero[i] = 0 end
    settle(row, zero)
    local middle = (row[1].x + row[#row].x) / 2
    for _, cell in ipairs(row) do cell.x = cell.x - middle end
  end
  for pass = 1, SETTLE do
    if pass % 2 == 1 then
      for i = 2, #rows do settle(rows[i], wanted_by(rows[i], "up")) end
    else
      for i = #rows - 1, 1, -1 do
        settle(rows[i], wanted_by(rows[i], "down"))
      end
    end
  end
end

-- y of each layer; moves everything to where x and y are above `margin`.
local function finish(rows, margin)
  local left, right, y = math.huge, -math.huge, margin
  for _, row in ipairs(rows) do
    local high = 0
    for _, cell in ipairs(row) do
      high = math.max(high, cell.h)
      left = math.min(left, cell.x - cell.w / 2)
      right = math.max(right, cell.x + cell.w / 2)
    end
    for _, cell in ipairs(row) do cell.y = y + high / 2 end
    y = y + high + GAP_Y
  end
  for _, row in ipairs(rows) do
    for _, cell in ipairs(row) do cell.x = cell.x - left + margin end
  end
  return right - left + 2 * margin, y - GAP_Y + margin
end

-- x and y of the cells of a path, from the one at which it begins.
local function points_of(path, first)
  local points, turned = {}, path[1] ~= first
  for i = 1, #path do
    local cell = path[turned and #path + 1 - i or i]
    points[#points + 1], points[#points + 2] = cell.x, cell.y
  end
  return points
end

--- Lays out nodes {w =, h =} and edges {from =, to =, back =} (indices of
-- nodes; does it go against the flow?).
-- @return {width =, height =, nodes = {{x =, y =}, ...} (middles), edges =
-- {{x, y, x, y, ...}, ...}}, an edge from its source to its target; false for
-- one from a node to itself
function layout.layered(nodes, edges, margin)
  margin = margin or 12
  local out = {width = 2 * margin, height = 2 * margin, nodes = {}, edges = {}}
  if #nodes == 0 then return out end
  local list = forward(#nodes, edges)
  local cells, rows, links = cells_of(nodes, list, layers_of(#nodes, list))
  order(rows)
  place(rows)
  out.width, out.height = finish(rows, margin)
  for i, cell in ipairs(cells) do out.nodes[i] = {x = cell.x, y = cell.y} end
  for k, e in ipairs(edges) do
    out.edges[k] = links[k] and points_of(links[k], cells[e.from]) or false
  end
  return out
end

return layout
