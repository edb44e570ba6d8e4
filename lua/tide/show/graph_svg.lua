--- show/graph_svg.lua - the drawing of a view of a graph.
--
-- Boxes of scopes that are alike have one colour; where there are several
-- devices the frame of a box tells its own. Widths of texts are estimates: the
-- font is whatever the reader has.
-- SPDX-License-Identifier: Apache-2.0

local colour = require "tide.show.colour"
local html = require "tide.show.html"
local layout = require "tide.show.layout"
local shapes = require "tide.tensor.shape"
local style = require "tide.show.style"
local svg = require "tide.show.svg"

local CHAR, WIDE, LINE = 6.3, 7.2, 14 -- of text of 11 pixels, plain and bold
local LABEL = 26           -- characters of a label
local MOST_LABELS = 50     -- edges up to which they are labelled
local SIDE_WIDTH = 230

local op_colours = {
  Placeholder = "#fff2cc", VarHandleOp = "#fce5cd", Const = "#eeeeee",
  ReadVariableOp = "#fdf1e3", _Arg = "#fff2cc", _Retval = "#d9ead3",
  _Send = "#e6d5ee", _Recv = "#e6d5ee",
}

-- ---- texts of a box --------------------------------------------------------

local function relative(root, name)
  if #name > #root.path and name:sub(1, #root.path) == root.path then
    return name:sub(#root.path + 1)
  end
  return name
end

-- The end of a long name tells more than its beginning.
local function short(name)
  local n = utf8.len(name)
  if not n then return html.cut(name, LABEL) end
  if n <= LABEL then return name end
  return "…" .. name:sub(utf8.offset(name, n - LABEL + 2))
end

local function nodes_text(n)
  return n == 1 and "1 node" or style.count(n) .. " nodes"
end

local function total_of(box)
  if box.scope then return box.scope.total end
  if not box.list then return 1 end
  local n = 0
  for _, each in ipairs(box.list) do n = n + total_of(each) end
  return n
end

-- What a constant is, where it is short.
local function constant_text(tree, i)
  local v = tree.graph:op(i - 1).attr.value
  if not v or v.size > 4 then return nil end
  return html.cut((tostring(v):gsub("^[^}]*} ?", "= ")), LABEL)
end

local function op_texts(tree, root, i)
  local name, type = relative(root, tree.names[i]), tree.types[i]
  if type == "Const" then
    return short(name), constant_text(tree, i) or "Const"
  end
  return short(name), type ~= name and type or nil
end

local function scope_texts(tree, root, scope)
  local name = short(relative(root, scope.path))
  if not scope.variable then return name, nodes_text(scope.total) end
  local attr = tree.graph:op(scope.variable - 1).attr
  return name:gsub("/$", ""), ("%s %s"):format(attr.dtype,
                                               shapes.text(attr.shape))
end

-- Two lines for a box.
local function texts_of(tree, root, box)
  if box.outside then return short(box.outside), nil end
  if box.op then return op_texts(tree, root, box.op) end
  if box.scope then return scope_texts(tree, root, box.scope) end
  local n = nodes_text(total_of(box))
  if box.rest then return "others", n end
  local first = box.list[1]
  if first.op then
    return short(relative(root, tree.names[first.op])) .. " …",
           ("%s %s"):format(style.count(#box.list), tree.types[first.op])
  end
  return short(relative(root, first.scope.path)) .. " …",
         ("%s alike, %s"):format(style.count(#box.list), n)
end

-- ---- colours ---------------------------------------------------------------

local function structure_of(box)
  if box.scope then return box.scope.structure end
  local first = box.list and box.list[1]
  return first and first.scope and first.scope.structure
end

-- Colours of structures that occur more than once, or hold many.
local function fills_of(tree, boxes)
  local fills = {}
  for _, box in ipairs(boxes) do
    local s = structure_of(box)
    if box.scope and box.scope.variable then
      fills[box], s = op_colours.VarHandleOp, nil
    end
    if s and not tree.fills[s] then
      tree.fills[s] = colour.areas[tree.n_fills % #colour.areas + 1]
      tree.n_fills = tree.n_fills + 1
    end
    fills[box] = fills[box] or s and tree.fills[s]
  end
  return fills
end

local function device_of(tree, box)
  if box.op then return tree.devices[box.op] end
  if box.outside or box.list then return nil end
  local found
  local function visit(scope)
    for _, i in ipairs(scope.ops) do
      local d = not (tree.pruned and tree.pruned[i]) and tree.devices[i]
      if found and d and found ~= d then return false end
      found = d or found
    end
    for _, child in ipairs(scope.children) do
      if visit(child) == false then return false end
    end
  end
  if visit(box.scope) == false then return nil end
  return found
end

-- ---- drawing ---------------------------------------------------------------

-- Is nothing in the box part of the program that is drawn?
local function is_pruned(tree, box)
  if not tree.pruned then return false end
  if box.op then return tree.pruned[box.op] end
  for _, each in ipairs(box.list or {}) do
    if not is_pruned(tree, each) then return false end
  end
  local function all(scope)
    for _, i in ipairs(scope.ops) do
      if not tree.pruned[i] then return false end
    end
    for _, child in ipairs(scope.children) do
      if not all(child) then return false end
    end
    return true
  end
  return not box.outside and (not box.scope or all(box.scope))
end

local function box_style(tree, box, fill)
  if box.outside then
    return {fill = "#ffffff", stroke = "#aaaaaa", ["stroke-dasharray"] = "3 2",
            rx = 10}
  end
  local device = tree.device_colours and device_of(tree, box)
  local pruned = is_pruned(tree, box)
  return {
    fill = pruned and "#f2f2f2" or box.op
      and (op_colours[tree.types[box.op]] or "#ffffff") or fill or "#e2e2e2",
    stroke = pruned and "#cccccc"
      or device and tree.device_colours[device] or "#555555",
    ["stroke-width"] = device and tree.device_colours[device] and 2 or nil,
    rx = box.op and 3 or 8,
  }
end

local function draw_box(d, tree, box, place, fill)
  local x, y = place.x - box.w / 2, place.y - box.h / 2
  if box.list then
    d:rect(x + 4, y - 4, box.w, box.h, box_style(tree, box, fill))
  end
  d:rect(x, y, box.w, box.h, box_style(tree, box, fill))
  local ink = is_pruned(tree, box) and "#aaaaaa" or nil
  local top = place.y + (box.second and -3 or 4)
  d:text(place.x, top, box.name, {["text-anchor"] = "middle", fill = ink,
    ["font-weight"] = not box.op and not box.outside and "bold" or nil})
  if box.second then
    d:text(place.x, top + 13, box.second, {["text-anchor"] = "middle",
      ["font-size"] = 9, fill = ink or "#666666"})
  end
  if box.marks then
    table.sort(box.marks)
    local text = table.concat(box.marks, " ")
    if #box.marks > 6 then
      text = table.concat(box.marks, " ", 1, 5) .. " …"
    end
    d:text(x + 2, y - 2, text, {["font-size"] = 8, fill = "#a33c00"})
  end
end

-- ---- edges -----------------------------------------------------------------

-- Spreads the ends of edges over the side of the box they meet, in the order
-- they come from.
local function spread(ends, box)
  table.sort(ends, function(a, b)
    if a.from ~= b.from then return a.from < b.from end
    return a.k < b.k
  end)
  local step = math.min(14, (box.w - 16) / math.max(#ends, 1))
  for i, e in ipairs(ends) do
    e.points[e.at] = e.points[e.at] + (i - (#ends + 1) / 2) * step
  end
end

-- Moves the ends of all edges from the middles of boxes to their sides.
local function attach(boxes, edges, lines)
  local sides = {}
  local function side(k, down)
    sides[k] = sides[k] or {[true] = {}, [false] = {}}
    return sides[k][down]
  end
  for k, e in ipairs(edges) do
    local p = lines[k]
    if p then
      local n = #p
      local down = p[n] > p[2]
      table.insert(side(e.from, down), {points = p, at = 1, from = p[3], k = k})
      table.insert(side(e.to, not down),
                   {points = p, at = n - 1, from = p[n - 3], k = k})
      p[2] = p[2] + (down and 1 or -1) * boxes[e.from].h / 2
      p[n] = p[n] - (down and 1 or -1) * (boxes[e.to].h / 2 + 5)
    end
  end
  for k, both in pairs(sides) do
    spread(both[true], boxes[k])
    spread(both[false], boxes[k])
  end
end

-- A smooth line through the places of an edge; its head goes to `heads`.
local function draw_edge(d, points, heads)
  local x, y = points[1], points[2]
  local list = {"M", x, y}
  for k = 3, #points, 2 do
    local to_x, to_y = points[k], points[k + 1]
    local half = (to_y - y) / 2
    list[#list + 1] = "C"
    table.move({x, y + half, to_x, to_y - half, to_x, to_y}, 1, 6, #list + 1,
               list)
    x, y = to_x, to_y
  end
  d:path(list)
  local high = y > points[2] and 5 or -5
  table.move({"M", x - 3, y, "h", 6, "l", -3, high, "z"}, 1, 9, #heads + 1,
             heads)
end

-- Edges of one look together: thicker ones hold several tensors, dashed ones
-- are control inputs, faint ones lead to what does not run.
local looks = {
  {stroke = "#dddddd"}, {stroke = "#777777"},
  {stroke = "#777777", ["stroke-width"] = 2},
  {stroke = "#bbbbbb", ["stroke-dasharray"] = "4 3"},
}

local function look_of(tree, e)
  if is_pruned(tree, e.to) then return 1 end
  if e.control then return 4 end
  return e.n > 1 and 3 or 2
end

local function draw_edges(d, tree, edges, lines)
  for look, o in ipairs(looks) do
    local heads = {}
    o.fill = "none"
    d:open(o)
    for k, e in ipairs(edges) do
      if lines[k] and look_of(tree, e.e) == look then
        draw_edge(d, lines[k], heads)
      end
    end
    d:close()
    if #heads > 0 then d:path(heads, {fill = o.stroke}) end
  end
end

local function overlaps(taken, x, y, w)
  for _, t in ipairs(taken) do
    if math.abs(t.x - x) < (t.w + w) / 2
       and math.abs(t.y - y) < (t.h + 8) / 2 then
      return true
    end
  end
  return false
end

-- Labels at the first place along their edge where nothing else is; those
-- without one are left out.
local function draw_labels(d, boxes, places, edges, lines)
  local taken = {}
  for k, box in ipairs(boxes) do
    taken[k] = {x = places[k].x, y = places[k].y, w = box.w, h = box.h}
  end
  for k, e in ipairs(edges) do
    local p, text = lines[k], e.e.label
    local w = text and #text * 4.4 + 4
    for _, share in ipairs{0.5, 0.35, 0.65, 0.2, 0.8} do
      if not text or not p then break end
      local at = #p > 4 and #p - 3 or 1
      local x = p[at] + (p[at + 2] - p[at]) * share
      x = math.max(w / 2, math.min(x, d.width - w / 2))
      local y = p[at + 1] + (p[at + 3] - p[at + 1]) * share
      if not overlaps(taken, x, y, w) then
        taken[#taken + 1] = {x = x, y = y, w = w, h = 10}
        d:rect(x - w / 2, y - 5, w, 10, {fill = "#ffffff"})
        d:text(x, y + 3, text, {["text-anchor"] = "middle", ["font-size"] = 8,
                                fill = "#444444"})
        break
      end
    end
  end
end

-- ---- what is around --------------------------------------------------------

local function draw_side(d, tree, root, side, x)
  d:text(x, 20, "constants, and what many use", {["font-weight"] = "bold"})
  local y = 36
  for k, box in ipairs(side) do
    if k > 40 then
      d:text(x, y, ("… %d more"):format(#side - 40))
      return
    end
    local name, second = texts_of(tree, root, box)
    d:text(x, y, ("%d"):format(box.mark), {["font-size"] = 8,
                                          fill = "#a33c00"})
    d:text(x + 16, y, second and ("%s  %s"):format(name, second) or name,
           {["font-size"] = 10})
    y = y + LINE
  end
end

-- What the colours of the devices mean: {name, x}, and how wide it is.
local function legend_of(tree)
  local list, x = {}, 12
  for k, device in ipairs(tree.device_list or {}) do
    local name = device == "" and "any device" or device
    list[k] = {name = name, x = x, stroke = tree.device_colours[device]}
    x = x + 30 + CHAR * #name
  end
  return list, #list > 0 and x or 0
end

local function draw_legend(d, list, y)
  for _, item in ipairs(list) do
    d:rect(item.x, y, 10, 10, {fill = "#ffffff", ["stroke-width"] = 2,
                               stroke = item.stroke})
    d:text(item.x + 16, y + 9, item.name, {["font-size"] = 10})
  end
end

local function measure(tree, v)
  for _, box in ipairs(v.boxes) do
    box.name, box.second = texts_of(tree, v.root, box)
    local n = style.columns(box.name) * (box.op and CHAR or WIDE)
    if box.second then n = math.max(n, style.columns(box.second) * 5.2) end
    box.w, box.h = n + 16, box.second and 32 or 20
  end
end

--- The drawing of a view.
return function(tree, v)
  measure(tree, v)
  local edges, place_of = {}, {}
  for k, box in ipairs(v.boxes) do place_of[box] = k end
  for _, e in ipairs(v.edges) do
    if place_of[e.from] and place_of[e.to] then
      edges[#edges + 1] = {from = place_of[e.from], to = place_of[e.to], e = e,
                           back = e.back}
    end
  end
  local plan = layout.layered(v.boxes, edges)
  local side = #v.side > 0
  local legend, legend_width = legend_of(tree)
  local height = math.max(plan.height, side
    and 40 + LINE * math.min(#v.side, 41) or 0)
  local d = svg.drawing(
    math.max(plan.width + (side and SIDE_WIDTH or 0), legend_width),
    height + (#legend > 0 and 20 or 0))
  attach(v.boxes, edges, plan.edges)
  draw_edges(d, tree, edges, plan.edges)
  if #edges <= MOST_LABELS then
    draw_labels(d, v.boxes, plan.nodes, edges, plan.edges)
  end
  local fills = fills_of(tree, v.boxes)
  for k, box in ipairs(v.boxes) do
    draw_box(d, tree, box, plan.nodes[k], fills[box])
  end
  if side then draw_side(d, tree, v.root, v.side, plan.width + 4) end
  draw_legend(d, legend, height + 2)
  return d
end
