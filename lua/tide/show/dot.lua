--- show/dot.lua - a graph drawn by Graphviz, where it is installed.
--
-- The program runs as a child: what it does wrong cannot hurt.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local html = require "tide.show.html"
local shapes = require "tide.tensor.shape"

local MOST = 400 -- nodes

local function quote(s)
  return '"' .. html.cut(s, 80):gsub('[\\"]', "\\%0"):gsub("%c", " ") .. '"'
end

local function fill(type)
  if type == "Placeholder" then return "#fff2cc" end
  if type == "VarHandleOp" then return "#fce5cd" end
  return type == "Const" and "#eeeeee" or "#ffffff"
end

--- A graph in Graphviz's language.
local function source(g)
  local lines = {"digraph g {",
    'node [shape=box style="rounded,filled" fontname="sans-serif" fontsize=11]',
    'edge [fontname="sans-serif" fontsize=8 color="#777777"]'}
  for _, op in ipairs(g:ops()) do
    lines[#lines + 1] = ("n%d [label=%s fillcolor=\"%s\"]"):format(op.id,
      quote(op.name .. "\\n" .. op.type):gsub("\\\\n", "\\n"), fill(op.type))
    for _, x in ipairs(op.inputs) do
      if x then
        lines[#lines + 1] = ("n%d -> n%d [label=%s]"):format(x.op.id, op.id,
          quote(x.dtype .. " " .. shapes.text(x.shape)))
      end
    end
    for _, before in ipairs(op.control_inputs) do
      lines[#lines + 1] = ("n%d -> n%d [style=dashed]"):format(before.id, op.id)
    end
  end
  lines[#lines + 1] = "}\n"
  return table.concat(lines, "\n")
end

local function run(path)
  local pipe = io.popen(("dot -Tsvg '%s' 2>/dev/null")
    :format(path:gsub("'", "'\\''")))
  local out = pipe and pipe:read "a"
  local ok = pipe and pipe:close()
  return ok and out
end

--- The SVG text that dot makes of g.
return function(g)
  if g:size() > MOST then
    core.error("invalid_argument", ("layout = \"dot\" is for graphs of up to "
      .. "%d nodes, this one has %d; without it Tide lays it out"):format(MOST,
      g:size()))
  end
  local path = core.temp_file()
  core.write_file(path, source(g))
  local out = run(path)
  os.remove(path)
  local svg = out and out:match "<svg.*</svg>"
  if not svg then
    core.error("unavailable", "layout = \"dot\" needs Graphviz: the program "
      .. "dot was not found, or failed (Debian: apt install graphviz); without "
      .. "it Tide lays the graph out")
  end
  return svg
end
