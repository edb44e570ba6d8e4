--- show/program.lua - sess:program: what a step would run, where, and what of
-- the graph it leaves out.
--
-- The plan has a graph for each device, with _Arg for feeds, _Retval for
-- fetches, _Send and _Recv between devices. In the picture of the whole graph
-- what does not run is grey.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local draw = require "tide.show.graph_svg"
local fetch = require "tide.run.fetch"
local session = require "tide.run.session"
local graph = require "tide.show.graph"
local html = require "tide.show.html"
local scopes = require "tide.show.scopes"
local style = require "tide.show.style"
local text = require "tide.show.graph_text"
local view = require "tide.show.graph_view"

local program = {}
local methods = {}
local meta = {__name = "program", __index = methods}

-- ---- reading ---------------------------------------------------------------

-- Feeds as a list, or as a table with values.
local function feed_list(g, feeds)
  if args.plain(feeds) and #feeds == 0 and next(feeds) ~= nil then
    return (fetch.feeds(g, feeds))
  end
  return fetch.feed_list(g, feeds)
end

--- What a step would run, planned but not run: displays as a picture of the
-- graph in which the rest is grey, and as a graph for each device.
-- @param fetches as run takes them
-- @param[opt] feeds a list of tensors to be fed, or a table as run takes it
-- @usage local x = td.placeholder("float32", {}, "x")
-- td.session():program(x * 2, {x}).nodes  --> 4
-- @function sess:program(fetches, feeds)
function program.program(sess, fetches, feeds)
  local g = session.graph_of(sess, "program")
  local handles = fetch.read(g, fetches)
  local edges = feed_list(g, feeds)
  local plan = sess:core_program(handles, edges)
  local p = {parts = {}, folded = plan.folded, merged = plan.merged, nodes = 0,
             fetches = handles, feeds = edges, graph = g}
  for i, part in ipairs(plan) do
    p.parts[i] = part
    p.nodes = p.nodes + part.graph:size()
  end
  return setmetatable(p, meta)
end

-- ---- text ------------------------------------------------------------------

local function names(list)
  local out = {}
  for i = 1, math.min(#list, 6) do out[i] = list[i].name end
  if #list > 6 then out[7] = ("… %d more"):format(#list - 6) end
  return #out > 0 and table.concat(out, ", ") or "nothing"
end

local function head(p)
  return ("Program of %s nodes on %d device%s, for %s fed %s"):format(
    style.count(p.nodes), #p.parts, #p.parts == 1 and "" or "s",
    names(p.fetches), names(p.feeds))
end

local function changes(p)
  return ("graph of %s nodes; %s computed while planning, %s merged with "
    .. "others like them"):format(style.count(p.graph:size()),
    style.count(p.folded), style.count(p.merged))
end

function meta.__tostring(p) return head(p) end

function meta.__repr_pretty(p)
  local lines = {head(p), changes(p)}
  for _, part in ipairs(p.parts) do
    local tree = text(scopes.read(part.graph)):gsub("^Graph of", "%%0", 1)
    lines[#lines + 1] = part.device .. ": " .. tree:gsub("%%0", "graph of")
  end
  return table.concat(lines, "\n")
end

-- ---- HTML ------------------------------------------------------------------

-- The whole graph, which knows what does not run and where the rest does.
local function whole(p)
  local tree = scopes.read(p.graph)
  local runs = {}
  for _, part in ipairs(p.parts) do
    for _, name in ipairs((core.graph_nodes(part.graph))) do
      runs[name] = part.device
    end
  end
  for _, x in ipairs(p.feeds) do
    runs[x.op.name] = runs[x.op.name] or "fed"
  end
  tree.pruned, tree.devices = {}, {}
  for i, name in ipairs(tree.names) do
    tree.devices[i] = runs[name] or "does not run"
    tree.pruned[i] = not runs[name]
  end
  graph.prepare(tree)
  if tree.device_colours then
    tree.device_colours["does not run"] = "#cccccc"
  end
  return tree
end

-- The graph of a part, whose nodes are all on its device.
local function tree_of(part)
  local tree = scopes.read(part.graph)
  for i in ipairs(tree.names) do tree.devices[i] = part.device end
  return graph.prepare(tree)
end

function meta.__repr_html(p)
  local tree = whole(p)
  local parts = {("<b>%s</b><div>%s</div>"):format(html.escape(head(p)),
    html.escape(changes(p))), draw(tree, view.of(tree, tree.root)):image(
    "the graph; what does not run is grey")}
  for _, part in ipairs(p.parts) do
    parts[#parts + 1] = html.fold(("<b>%s</b> %s nodes"):format(
      html.escape(part.device), style.count(part.graph:size())),
      graph.html(tree_of(part)), #p.parts > 1)
  end
  return "<div>" .. table.concat(parts) .. "</div>"
end

--- The drawing of the whole graph as the text of an SVG file.
function methods.svg(p)
  local tree = whole(p)
  return draw(tree, view.of(tree, tree.root)):done()
end

return program
