--- run/fetch.lua - structures of fetches and tables of feeds.
--
-- A fetch may be one handle, a name, or tables of them nested at will; results
-- come back in the same form. Tables are read in a fixed order (lists first,
-- then names sorted), so that nothing depends on the order of pairs.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"

local fetch = {}

local fail = errors.invalid

-- ---- handles --------------------------------------------------------------

-- A name as a handle: "x", "x:1" or "^x"; ops without results are ops.
local function named(g, name, feeding)
  local found = g:find(name:match("^%^?([^:]*)"))
  if not found then
    local names = {}
    for i, op in ipairs(g:ops()) do names[i] = op.name end
    local hint = errors.did_you_mean(name, names)
    local is_word = name:find "^[%a_][%w_]*$"
    if feeding and name == "feed_dict" then
      fail("feeds are the second argument themselves: run(y, {[x] = value})")
    elseif feeding and is_word then
      fail("no node \"%s\"; to feed the tensor in variable %s write [%s] =%s",
           name, name, name, hint)
    end
    fail("no node \"%s\" in the graph%s", name, hint)
  end
  if name:sub(1, 1) == "^" or (#found.outputs == 0 and not name:find(":")) then
    return found
  end
  return g:edge(name)
end

local function check_graph(g, x)
  if x.graph == g then return x end
  fail("%s, made at %s, belongs to another graph than the session's; run it "
    .. "in td.session{graph = x.graph}", tostring(x), x.origin)
end

-- ---- fetches --------------------------------------------------------------

local collect

local function leaf(list, x)
  local at = list.index[x]
  if not at then
    at = #list.handles + 1
    list.handles[at] = check_graph(list.graph, x)
    list.index[x] = at
  end
  return at
end

-- f(list, x, path), refusing what holds itself.
local function inside(f, list, x, path)
  if list.open[x] then
    fail("fetch%s is the table that it lies in: what holds itself cannot be "
      .. "fetched", path)
  end
  list.open[x] = true
  local plan = f(list, x, path)
  list.open[x] = nil
  return plan
end

local function collect_object(list, x, path)
  return collect(list, getmetatable(x).__fetch(x), path)
end

local function collect_table(list, t, path)
  local plan = {list = {}, names = {}}
  local items, rest = args.split(t)
  local n = 0
  for _ in pairs(items) do n = n + 1 end
  if n ~= #items then fail("the list of fetches%s has a hole", path) end
  for i, x in ipairs(items) do
    plan.list[i] = collect(list, x, path .. "[" .. i .. "]")
  end
  for _, key in ipairs(args.sorted_keys(rest)) do
    plan.names[key] = collect(list, rest[key], path .. "." .. key)
  end
  return plan
end

-- The plan of a structure: an index into the handles, or a table of plans.
function collect(list, x, path)
  local kind = core.kind(x)
  if kind == "edge" or kind == "op" then return leaf(list, x) end
  if type(x) == "string" then
    return leaf(list, named(list.graph, x))
  end
  local meta = type(x) == "table" and getmetatable(x)
  if meta and meta.__fetch then return inside(collect_object, list, x, path) end
  if args.plain(x) then return inside(collect_table, list, x, path) end
  local hint = x == false and " (false stands for no gradient)"
    or kind == "tensor" and " (a value is there already, without a run)" or ""
  fail("fetch%s is %s; fetched are graph tensors, ops, variables, names and "
    .. "tables of them%s", path, x == false and "false" or args.what(x), hint)
end

--- Reads a structure: the flat list of handles, and the plan to rebuild it.
function fetch.read(g, structure)
  local list = {graph = g, handles = {}, index = {}, open = {}}
  if structure == nil then fail("nothing to fetch is given") end
  local plan = collect(list, structure, "")
  return list.handles, plan
end

--- The results in the form of the structure.
function fetch.rebuild(plan, results)
  if type(plan) == "number" then return results[plan] end
  local out = {}
  for i, p in ipairs(plan.list) do out[i] = fetch.rebuild(p, results) end
  for key, p in pairs(plan.names) do out[key] = fetch.rebuild(p, results) end
  return out
end

--- A flat list of handles from one handle or a list.
function fetch.list(g, x)
  if not args.plain(x) then x = {x} end
  local handles, plan = fetch.read(g, x)
  if #handles ~= #x then
    fail("here the fetches are a flat list without repetition")
  end
  for _, p in ipairs(plan.list) do
    if type(p) ~= "number" then fail("here the fetches are a flat list") end
  end
  return handles
end

-- ---- feeds ----------------------------------------------------------------

--- The graph tensor that a key of a feed table names.
function fetch.feed_key(g, key)
  local kind = core.kind(key)
  if kind == "edge" then return check_graph(g, key) end
  if type(key) == "string" then
    local x = named(g, key, true)
    if core.kind(x) == "edge" then return x end
    fail("\"%s\" is an op without results and cannot be fed", key)
  end
  local meta = type(key) == "table" and getmetatable(key)
  if meta and meta.__tensor then
    fail("%s cannot be fed; assign to it", tostring(key))
  end
  fail("the key of a feed must be a graph tensor or a name, not %s",
       kind or type(key))
end

local function by_place(a, b)
  local i, j = a.edge.op.id, b.edge.op.id
  if i ~= j then return i < j end
  return a.edge.port < b.edge.port
end

--- A feed table as two lists: tensors, in the graph's order, and values.
function fetch.feeds(g, feeds)
  local edges, values, rows = {}, {}, {}
  if feeds == nil then return edges, values end
  if not args.plain(feeds) then
    fail("feeds are a table {[x] = value}, not %s; several fetches are one "
      .. "list: run({a, b}, feeds)", args.what(feeds))
  end
  for key, value in pairs(feeds) do
    if math.type(key) == "integer" then
      fail("a feed has no key; write {[x] = value}")
    end
    rows[#rows + 1] = {edge = fetch.feed_key(g, key), value = value}
  end
  table.sort(rows, by_place)
  for i, row in ipairs(rows) do
    if i > 1 and rows[i - 1].edge == row.edge then
      fail("\"%s\" is fed twice", row.edge.name)
    end
    edges[i], values[i] = row.edge, row.value
  end
  return edges, values
end

--- A list of tensors to be fed later, in the order given.
function fetch.feed_list(g, list)
  if list == nil then return {} end
  if not args.plain(list) then list = {list} end
  local edges = {}
  for i, key in ipairs(args.check_list(list, "the list of feeds")) do
    edges[i] = fetch.feed_key(g, key)
  end
  return edges
end

return fetch
