--- insight/compare.lua - td.compare(a, b): where two runs part.
--
-- Two graphs, or one graph in two sessions (other devices, passes, threads), or
-- either beside values dumped to an npz file, are computed node by node with
-- the same feeds. A node is bad when it differs by more than rounding explains:
-- what its inputs differ by, carried through the op to first order, and a
-- rounding error of the op's own, all by largest elements. So the first bad
-- node is where an error begins, not where it shows.
-- Source: Higham, Accuracy and Stability of Numerical Algorithms, chapter 3.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local dtypes = require "tide.tensor.dtype"
local fetch = require "tide.run.fetch"
local files = require "tide.data.files"
local ops = require("tide.ops").ops

local compare = {}

local fail = errors.invalid

-- ---- two sides ------------------------------------------------------------

local function shown(edge)
  local t = edge.dtype
  return t ~= "resource" and t ~= "variant" and t ~= "string"
end

-- Tensors outside of loops and branches that need nothing that is not fed.
local function computable(g, fed)
  local blocked, list = {}, {}
  for _, op in ipairs(g:ops()) do
    local blocks = op.flow ~= 0
    for _, x in ipairs(op.inputs) do
      if not x or (blocked[x.op] and not fed[x]) then blocks = true end
    end
    for _, before in ipairs(op.control_inputs) do
      blocks = blocks or blocked[before] or false
    end
    local first = op.outputs[1]
    if op.type == "Placeholder" then blocks = not fed[first] end
    if op.type == "Exit" or op.type == "Merge" then blocks = op.flow ~= 0 end
    if blocks then blocked[op] = true end
    local changes = op.type:match "^Resource" or op.type:match "^Assign"
    if not blocks and not changes then
      for _, y in ipairs(op.outputs) do
        if shown(y) and op.type ~= "Switch" then list[#list + 1] = y end
      end
    end
  end
  return list
end

-- Values by name of one side.
local function values_of(session, feeds)
  local g = session:core_graph()
  local edges = fetch.feeds(g, feeds)
  local fed = {}
  for _, x in ipairs(edges) do fed[x] = true end
  local list = computable(g, fed)
  local out, values = session:run(list, feeds, {as_values = true}), {}
  for i, x in ipairs(list) do values[x.name] = out[i] end
  return values
end

-- A side: what gives its values, and its graph when it has one.
local function open_side(x, what)
  local kind = core.kind(x)
  if kind == "session" then return {session = x, graph = x:core_graph()} end
  if kind == "graph" then
    local s = core.session(x, {})
    s:init()
    return {session = s, graph = x, own = true}
  end
  if type(x) == "string" then return {values = files.load_npz(x)} end
  if args.plain(x) then return {values = x} end
  fail("compare: %s is a graph, a session, values by name or the path of an "
    .. "npz file, not %s", what, kind or type(x))
end

-- Feeds by name, for both graphs.
local function feeds_of(side, feeds, names)
  local out = {}
  for key, v in pairs(feeds or {}) do
    local name = type(key) == "string" and key or key.name
    out[names and names(name) or name] = v
  end
  local known = {}
  for name, v in pairs(out) do
    if side.graph:find(name:match "^[^:]*") then known[name] = v end
  end
  return known
end

local function compute(side, feeds, names)
  if not side.session then return side.values end
  local values = values_of(side.session, feeds_of(side, feeds, names))
  if side.own then side.session:close() end
  return values
end

-- ---- distances ------------------------------------------------------------

local function number(x)
  return core.kind(x) == "tensor" and x:item() or x
end

local function wide(v)
  if dtypes.is_complex(v.dtype) then return ops.cast(v, "complex128") end
  return ops.cast(v, "float64")
end

-- The largest finite element, 0 without one.
local function largest(v)
  if v.size == 0 then return 0 end
  local a = ops.abs(wide(v))
  return number(ops.max(ops.where(ops.is_finite(a), a, ops.zeros_like(a))))
end

-- The largest difference; infinite where one is NaN or infinite and the other
-- something else.
local function distance(x, y)
  if x.size == 0 then return 0 end
  local a, b = wide(x), wide(y)
  local d = ops.abs(a - b)
  local same = ops.logical_or(ops.equal(a, b), ops.logical_and(
    ops.not_equal(a, a), ops.not_equal(b, b)))
  local zero = ops.zeros_like(d)
  d = ops.where(same, zero, d)
  return number(ops.max(ops.where(ops.is_nan(d), zero + math.huge, d)))
end

-- ---- bounds ---------------------------------------------------------------

local unit = {float16 = 2^-11, bfloat16 = 2^-8, float32 = 2^-24,
              float64 = 2^-53, complex64 = 2^-24, complex128 = 2^-53}

-- How many roundings of its own an element takes: terms of the sums inside.
local function terms(op, inputs, out)
  if op.type:match "MatMul" then
    local shape = inputs[1].shape
    return shape[op.attr.transpose_a and #shape - 1 or #shape] or 1
  end
  local n, m = inputs[1] and inputs[1].size or 1, math.max(out.size, 1)
  return math.max(1, n / m)
end

local carry = {}

function carry.Add(_, e) return e[1] + e[2] end
carry.AddV2, carry.Sub = carry.Add, carry.Add

function carry.Mul(x, e) return x[1] * e[2] + x[2] * e[1] + e[1] * e[2] end

-- What the inputs differ by, in the output: `x` are the largest elements of the
-- inputs, `e` their differences, `out` the largest of the output, k the terms.
local function carried(op, x, e, out, k)
  if op.type:match "MatMul" then return k * carry.Mul(x, e) end
  if carry[op.type] then return carry[op.type](x, e) end
  local sum = 0
  for i = 1, #x do
    if e[i] > 0 then
      sum = sum + math.max(e[i] * k, x[i] > 0 and out * e[i] / x[i] or 0)
    end
  end
  return 8 * sum -- not known what op it is: its slope within this
end

-- ---- rows -----------------------------------------------------------------

-- What rounding explains of a difference at `edge`, 0 where nothing rounds.
local function bound_of(edge, value, u, state)
  local op = edge.op
  local x, e, inputs = {}, {}, {}
  for i, input in ipairs(op.inputs) do
    x[i] = state.largest[input.name] or 0
    e[i] = state.error[input.name] or 0
    inputs[i] = state.values[input.name]
  end
  local k, out = terms(op, inputs, value), state.largest[edge.name]
  local own = out
  if op.type:match "MatMul" then
    own = x[1] * x[2]
  elseif x[1] and k > 1 then
    own = math.max(out, x[1])
  end
  return carried(op, x, e, out, k) + 4 * k * u * own
end

local function is_inexact(t) return unit[t] ~= nil end

-- One tensor of both sides, as a row; `y` nil: the other side has none, and the
-- difference is taken to be what rounding explains.
local function row_of(edge, x, y, state)
  local row = {name = edge.name, op = edge.op.type, origin = edge.op.origin}
  state.largest[edge.name] = largest(x)
  local u = unit[x.dtype] and math.max(unit[x.dtype], y and unit[y.dtype] or 0)
  row.bound = u and state.slack * bound_of(edge, x, u, state) or 0
  state.error[edge.name] = row.bound
  if not y then return row end
  local alike = is_inexact(x.dtype) and is_inexact(y.dtype)
    or x.dtype == y.dtype
  if x.shape ~= y.shape or not alike then
    row.error, row.bad = math.huge, true
    row.why = ("%s %s and %s %s"):format(x.dtype, x.shape, y.dtype, y.shape)
    return row
  end
  row.error = distance(x, y)
  row.bad = row.error > row.bound
  state.error[edge.name] = row.error
  return row
end

local meta = {}

function meta.__tostring(r)
  local lines = {("%d tensors compared, %d beyond rounding"):format(#r.rows,
                                                                    r.bad)}
  local f = r.first
  if f then
    lines[2] = ("first: \"%s\" (%s, %s): error %.3g, rounding explains %.3g%s")
      :format(f.name, f.op, f.origin, f.error, f.bound,
              f.why and "; " .. f.why or "")
  end
  return table.concat(lines, "\n")
end

--- Where two runs part.
-- @param a a graph (run in a session of its own, variables initialised), a
-- session, or values: {["x:0"] = value} or the path of an npz file
-- @param b another; at least one of the two has a graph
-- @param[opt] o feeds {[x or "x:0"] = value}; map: how a name of a is called in
-- b, a table or function; slack: what bounds are multiplied by (1); dump: path
-- of an npz file to write a's values to
-- @return {rows = {{name =, op =, origin =, error =, bound =, bad =}, ...} in
-- the graph's order, bad = how many, first = the first bad row or nil}
-- @usage td.tanh(td.placeholder("float32", {2}, "x"))
-- local other = td.session{cpu_devices = 2}
-- td.compare(td.session(), other, {feeds = {x = {1, 2}}}).bad  --> 0
function compare.compare(a, b, o)
  o = args.read(o, {"feeds", "map", "slack", "dump"}, "compare")
  local sa, sb = open_side(a, "the first"), open_side(b, "the second")
  local map = o.map or {}
  local function names(name)
    if type(map) == "function" then return map(name) or name end
    return map[name] or name
  end
  local va, vb = compute(sa, o.feeds), compute(sb, o.feeds, names)
  if o.dump then files.save_npz(o.dump, va) end
  local g = sa.graph or sb.graph or fail("compare: one of the two must be a "
    .. "graph or a session: names alone have no order")
  local state = {error = {}, largest = {}, values = va, slack = o.slack or 1}
  local r = {rows = {}, bad = 0}
  for _, op in ipairs(g:ops()) do
    for _, edge in ipairs(op.outputs) do
      local x = va[edge.name]
      local y = vb[names(edge.name)]
      local row = x and row_of(edge, x, y, state)
      if x and y then
        r.rows[#r.rows + 1] = row
        if row.bad then
          r.bad = r.bad + 1
          r.first = r.first or row
        end
      end
    end
  end
  if #r.rows == 0 then fail("compare: the two have no tensor in common") end
  return setmetatable(r, meta)
end

return compare
