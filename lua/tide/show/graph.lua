--- show/graph.lua - graphs as pictures: g:picture, and how a graph displays.
--
-- In a notebook: a drawing of the outermost scopes, and below it each scope
-- that can be opened, once for all that are alike, as far as LARGEST bytes go.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local autoload = require "tide.base.autoload"
local colour = require "tide.show.colour"
local draw = require "tide.show.graph_svg"
local html = require "tide.show.html"
local scopes = require "tide.show.scopes"
local style = require "tide.show.style"
local text = require "tide.show.graph_text"
local view = require "tide.show.graph_view"

local dot = autoload "tide.show.dot"

local graph = {}

local LARGEST = 110000 -- bytes of HTML after which no scope more is drawn
local MOST_SCOPES = 30

-- ---- reading ---------------------------------------------------------------

-- Colours of the devices where there are several.
local function devices(tree)
  local seen, list = {}, {}
  for _, d in ipairs(tree.devices) do
    if not seen[d] then
      seen[d] = true
      list[#list + 1] = d
    end
  end
  table.sort(list)
  if #list < 2 or #list > #colour.series then return end
  tree.device_list, tree.device_colours = list, {}
  for k, d in ipairs(list) do
    tree.device_colours[d] = colour.series[k]
  end
end

--- A tree of scopes made ready to be drawn; returns it.
function graph.prepare(tree)
  tree.fills, tree.n_fills = {}, 0
  devices(tree)
  return tree
end

--- A graph ready to be drawn.
function graph.read(g)
  return graph.prepare(scopes.read(g))
end

-- ---- HTML ------------------------------------------------------------------

local function note(v)
  local parts = {}
  if v.hidden > 0 then
    parts[1] = ("<div>%d control inputs are not drawn</div>"):format(v.hidden)
  end
  if v.dropped > 0 then
    parts[#parts + 1] = ("<div>%d edges are not drawn: those of fewest "
      .. "tensors</div>"):format(v.dropped)
  end
  return table.concat(parts)
end

-- Scopes that can be opened below a view, the ones alike together, in the order
-- of the tree.
local function foldable(v, done)
  local list, known = {}, {}
  local function offer(scope)
    if scope.total < 2 or scope.variable or done[scope.structure] then
      return
    end
    local row = known[scope.structure]
    if not row then
      row = {scope = scope, n = 0}
      known[scope.structure] = row
      list[#list + 1] = row
    end
    row.n = row.n + 1
  end
  local function visit(box)
    if box.scope then offer(box.scope) end
    for _, each in ipairs(box.list or {}) do visit(each) end
  end
  for _, box in ipairs(v.boxes) do visit(box) end
  return list
end

local function title_of(tree, row)
  local scope = row.scope
  local title = ("<b>%s</b> %s nodes: %s"):format(html.escape(scope.path),
    style.count(scope.total), html.escape(scopes.types_text(tree, scope, 5)))
  if row.n > 1 then
    title = title .. (" (and %s alike)"):format(style.count(row.n - 1))
  end
  return title
end

-- The picture of a scope, and, folded, those of the scopes in it.
local function levels(tree, root, budget)
  local v = view.of(tree, root)
  local parts = {draw(tree, v):image(root.path == "" and "graph"
                                     or "scope " .. root.path), note(v)}
  budget.bytes = budget.bytes - #parts[1]
  for _, row in ipairs(foldable(v, budget.done)) do
    if budget.bytes < 0 or budget.scopes == 0 then
      budget.cut = budget.cut + 1
    else
      budget.scopes = budget.scopes - 1
      budget.done[row.scope.structure] = true
      parts[#parts + 1] = html.fold(title_of(tree, row),
                                    levels(tree, row.scope, budget))
    end
  end
  return table.concat(parts)
end

--- A tree that was read, as HTML; from the scope `root` on.
function graph.html(tree, root)
  local budget = {bytes = LARGEST, scopes = MOST_SCOPES, done = {}, cut = 0}
  local body = levels(tree, root or tree.root, budget)
  local title = ("<b>Graph</b> of %s nodes"):format(style.count(#tree.names))
  if budget.cut > 0 then
    body = body .. ("<div>%d scopes are not drawn; "):format(budget.cut)
      .. "g:picture{scope = \"name/\"} draws one</div>"
  end
  return ("<div><div>%s</div>%s</div>"):format(title, body)
end

-- ---- pictures --------------------------------------------------------------

local picture = {__name = "graph picture"}
picture.__index = picture

local function root_of(p)
  local tree = graph.read(p.graph)
  local path = p.scope or ""
  if path ~= "" and path:sub(-1) ~= "/" then path = path .. "/" end
  local root = tree.by_path[path]
  if root then return tree, root end
  local known = {}
  for _, s in ipairs(tree.scopes) do known[#known + 1] = s.path end
  return errors.raise("not_found", "picture: the graph has no scope \"%s\"%s",
                      path, errors.did_you_mean(path, known))
end

--- The drawing as the text of an SVG file.
function picture:svg()
  if self.layout == "dot" then
    return dot(self.graph)
  end
  local tree, root = root_of(self)
  return draw(tree, view.of(tree, root, {small = self.nodes,
    most = self.nodes and math.max(self.nodes, 2)})):done()
end

function picture:__tostring()
  return ("Picture of a %s"):format(tostring(self.graph):lower())
end

function picture:__repr_pretty()
  return text(graph.read(self.graph))
end

function picture:__repr_html()
  if self.layout == "dot" or self.nodes then
    return html.image("image/svg+xml", self:svg(), {alt = "graph"})
  end
  return graph.html(root_of(self))
end

local layouts = {dot = true, own = true}

--- A picture of g: displays as one; :svg() gives the text of an SVG file.
-- @param[opt] o scope: only what is in this name scope; nodes: about how many
-- boxes to draw; layout: "own", or "dot" to have Graphviz do it, for graphs of
-- up to 400 nodes where it is installed
-- @function g:picture(o)
function graph.picture(g, o)
  o = args.read(o, {"scope", "nodes", "layout"}, "picture")
  args.expect_all(o, {scope = "string", nodes = "integer", layout = "string"})
  if o.layout and not layouts[o.layout] then
    core.error("invalid_argument", ("picture: layout is \"own\" or \"dot\", "
      .. "not \"%s\""):format(o.layout))
  end
  local p = setmetatable({graph = g, scope = o.scope, nodes = o.nodes,
                          layout = o.layout}, picture)
  root_of(p)
  return p
end

-- ---- the forms of a graph --------------------------------------------------

graph["text/plain"] = function(g) return text(scopes.read(g)) end
graph["text/html"] = function(g) return graph.html(graph.read(g)) end

return graph
