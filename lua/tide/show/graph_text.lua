--- show/graph_text.lua - a graph as a tree of its name scopes, for a terminal.
--
-- As many scopes are open as a screen holds, the smallest first; scopes beside
-- each other that are alike share a line.
-- SPDX-License-Identifier: Apache-2.0

local html = require "tide.show.html"
local scopes = require "tide.show.scopes"
local shapes = require "tide.tensor.shape"
local style = require "tide.show.style"
local value = require "tide.show.value"

local MOST_LINES = 40
local MOST_ALIKE = 12 -- ops of one stem, from which on they share a line

-- Names may hold anything.
local function clean(name)
  if not name:find "[%c\128-\255]" then return name end
  return value.quote(name):sub(2, -2)
end

local function outputs_text(tree, i)
  local op, parts = tree.graph:op(i - 1), {}
  for k, y in ipairs(op.outputs) do
    if k == 4 then
      parts[k] = "…"
      break
    end
    parts[k] = y.dtype .. " " .. shapes.text(y.shape)
  end
  return table.concat(parts, ", ")
end

-- Inputs of the same scope by the ends of their names.
local function inputs_text(tree, scope, i)
  local parts, inputs, path = {}, tree.inputs[i], scope.path
  for at = 1, math.min(#inputs, 8), 2 do
    local name = tree.names[inputs[at] + 1]
    if #name > #path and name:sub(1, #path) == path then
      name = name:sub(#path + 1)
    end
    name = clean(name)
    parts[#parts + 1] = inputs[at + 1] > 0 and name .. ":" .. inputs[at + 1]
      or name
  end
  if #inputs > 8 then parts[#parts + 1] = "…" end
  return table.concat(parts, ", ")
end

-- Ops of a scope as rows: single ones, or {stem, list} of many of one stem.
local function op_rows(tree, scope)
  local by_stem, rows = {}, {}
  for _, i in ipairs(scope.ops) do
    local stem = scopes.stem(tree.names[i]:sub(#scope.path + 1))
      .. " " .. tree.types[i]
    local row = by_stem[stem]
    if not row then
      row = {ops = {}, stem = stem}
      by_stem[stem] = row
      rows[#rows + 1] = row
    end
    table.insert(row.ops, i)
  end
  local out = {}
  for _, row in ipairs(rows) do
    if #row.ops >= MOST_ALIKE then
      out[#out + 1] = row
    else
      for _, i in ipairs(row.ops) do out[#out + 1] = {ops = {i}} end
    end
  end
  return out
end

-- Scopes of a scope as rows {first, last, n =}: those alike in one.
local function scope_rows(scope)
  local rows = {}
  for _, child in ipairs(scope.children) do
    local row = rows[#rows]
    if row and row[1].structure == child.structure then
      row[2], row.n = child, row.n + 1
    else
      rows[#rows + 1] = {child, child, n = 1}
    end
  end
  return rows
end

local function rows_of(tree, scope)
  scope.rows = scope.rows or {ops = op_rows(tree, scope),
                              scopes = scope_rows(scope)}
  return scope.rows
end

-- Which scopes are open, so that at most MOST_LINES lines come of it.
local function opened(tree)
  local open = {[tree.root] = true}
  local rows = rows_of(tree, tree.root)
  local lines, list = #rows.ops + #rows.scopes, {}
  local function offer(scope)
    for _, row in ipairs(rows_of(tree, scope).scopes) do
      list[#list + 1] = row[1]
    end
  end
  offer(tree.root)
  while #list > 0 do
    local best = 1
    for k = 2, #list do
      if list[k].total < list[best].total then best = k end
    end
    local scope = table.remove(list, best)
    local inner = rows_of(tree, scope)
    local more = #inner.ops + #inner.scopes
    if lines + more > MOST_LINES then break end
    lines, open[scope] = lines + more, true
    offer(scope)
  end
  return open
end

local function op_line(tree, scope, row)
  local i = row.ops[1]
  local name = tree.names[i]:sub(#scope.path + 1)
  if name == "" or #tree.names[i] < #scope.path then
    name = tree.names[i]:match "[^/]*$"
  end
  if #row.ops > 1 then
    return ("%s …  %s nodes %s"):format(clean(name), style.count(#row.ops),
                                        tree.types[i])
  end
  local device = tree.devices[i]
  local line = ("%s  %s(%s)"):format(clean(name), tree.types[i],
                                     inputs_text(tree, scope, i))
  local outputs = outputs_text(tree, i)
  if outputs ~= "" then line = line .. " -> " .. outputs end
  return device ~= "" and line .. "  " .. device or line
end

local function scope_line(tree, row)
  local scope = row[1]
  local name = clean(scope.name)
  local each = scope.total == 1 and "node" or "nodes"
  if row.n > 1 then
    name = ("%s … %s"):format(name, clean(row[2].name))
    each = each .. " each"
  end
  return ("%s  %s%s %s: %s"):format(name,
    row.n > 1 and ("%d alike, "):format(row.n) or "", style.count(scope.total),
    each, scopes.types_text(tree, scope, 4))
end

local function add_lines(lines, tree, scope, open, width)
  local indent = ("  "):rep(scope.depth)
  local rows = rows_of(tree, scope)
  local function add(line)
    lines[#lines + 1] = html.cut(indent .. line, width)
  end
  for k, row in ipairs(rows.ops) do
    if #lines > MOST_LINES then
      add(("… %s more"):format(style.count(#rows.ops - k + 1)))
      break
    end
    add(op_line(tree, scope, row))
  end
  for k, row in ipairs(rows.scopes) do
    if #lines > MOST_LINES + 8 then
      add(("… %s scopes more"):format(style.count(#rows.scopes - k + 1)))
      break
    end
    add(scope_line(tree, row))
    if open[row[1]] then add_lines(lines, tree, row[1], open, width) end
  end
end

--- A tree of scopes as text.
return function(tree, width)
  local n = #tree.names
  local lines = {("Graph of %s nodes%s"):format(style.count(n),
    #tree.scopes > 1 and (", %s scopes"):format(style.count(#tree.scopes - 1))
    or "")}
  add_lines(lines, tree, tree.root, opened(tree), width or style.width())
  return table.concat(lines, "\n")
end
