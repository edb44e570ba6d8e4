-- random_loops.lua - loops drawn from a seed, made of their bare nodes.
--
-- What td.while_loop takes care of is left to chance here: ops of loop
-- constants that wait for no pivot, loops that begin in the last iteration of
-- the one around them, LoopConds that ask loop constants alone, variables that
-- die while their loop goes on. Graphs of other makers have all of them.
--
-- A value is {edge, needs}: the tokens of what must hold for it to be live. A
-- token is a body ("this iteration is not the last"), a side of a cond, or a
-- loop variable, which is resolved when its loop is closed.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"
local rng = require "tide.base.rng"

local random_loops = {}

--- How often each kind of thing was drawn, over all programs of this process.
random_loops.drawn = {}

local function note(name)
  random_loops.drawn[name] = (random_loops.drawn[name] or 0) + 1
end

-- ---- values ---------------------------------------------------------------

local function pick(p, list)
  return list[p.random:integer(1, #list)]
end

local function chance(p, percent)
  return p.random:integer(1, 100) <= percent
end

local function union(...)
  local all = {}
  for _, needs in ipairs{...} do
    for token in pairs(needs) do all[token] = true end
  end
  return all
end

-- An op of one result made of values.
local function op(type, inputs, attrs)
  local edges, needs = {}, {}
  for i, v in ipairs(inputs) do edges[i], needs[i] = v.edge, v.needs end
  return {edge = core.add(type, edges, attrs),
          needs = union(table.unpack(needs))}
end

local function constant(x, dtype)
  return {edge = td.constant(x, dtype), needs = {}}
end

-- `v`, of the context around `c`, inside it; once each.
local function bring(c, v)
  if c.brought[v] then return c.brought[v] end
  local inside = op("Enter", {v}, {frame_name = c.frame, is_constant = true,
                                   parallel_iterations = c.parallel})
  c.brought[v] = inside
  return inside
end

-- A number of the root, or a value there, brought into `c`.
local function number(c, x, dtype)
  if c.outer then return bring(c, number(c.outer, x, dtype)) end
  return dtype and constant(x, dtype) or x
end

local function any(p, c) return pick(p, c.values) end

-- What `build` gives, after some value of `c` perhaps.
local function after(p, c, build)
  if not chance(p, 15) then return build() end
  local first = any(p, c)
  local _ <close> = core.push{controls = {first.edge.op}}
  local v = build()
  return {edge = v.edge, needs = union(v.needs, first.needs)}
end

local function add(c, v)
  c.values[#c.values + 1] = v
  return v
end

-- ---- pieces ---------------------------------------------------------------

local grow

local pieces = {}

function pieces.op(p, c)
  local type, x, y = pick(p, {"AddV2", "Mul", "Sub"}), any(p, c), any(p, c)
  local z = after(p, c, function() return op(type, {x, y}) end)
  add(c, op("Tanh", {z}))
end

-- Of loop constants alone, and without a pivot.
function pieces.free(p, c)
  local x = number(c, p.random:uniform(-1, 1), "float64")
  local y = chance(p, 50) and number(c, 0.5, "float64") or any(p, c)
  add(c, op("Tanh", {op("AddV2", {x, y})}))
end

function pieces.random(p, c)
  local shape = number(c, {}, "int32")
  add(c, op("RandomUniform", {shape}, {
    dtype = "float64", seed = p.random:integer(1, 99),
    seed2 = p.random:integer(1, 99)}))
end

local function is_low(p, c)
  local at = number(c, p.random:uniform(-0.5, 0.5), "float64")
  return op("Less", {any(p, c), at})
end

-- Both sides of a cond; one of them may be used alone. What a side takes from
-- the context must be live too.
function pieces.cond(p, c)
  local pred, x = is_low(p, c), any(p, c)
  local edges = {core.add("Switch", {x.edge, pred.edge})}
  local needs, sides = {}, {}
  for i = 1, 2 do
    local token = {}
    local v = {edge = edges[i], needs = union(x.needs, pred.needs,
                                              {[token] = true})}
    sides[i] = op("Tanh", {op("AddV2", {v, any(p, c)})})
    needs[i] = union(sides[i].needs)
    needs[i][token] = nil
  end
  local merged = core.add("Merge", {{sides[1].edge, sides[2].edge}})
  add(c, {edge = merged, needs = union(needs[1], needs[2])})
  if chance(p, 20) then add(c, sides[1]) end
end

-- A frame that does not turn: without LoopCond, or with one that says no.
function pieces.frame(p, c)
  p.frames = p.frames + 1
  local frame = {frame_name = "frame" .. p.frames, parallel_iterations = 1,
                 is_constant = chance(p, 50)}
  local x = op("Tanh", {op("Enter", {any(p, c)}, frame)})
  if chance(p, 50) then
    local no = op("Enter", {number(c, false, "bool")}, frame)
    local going = op("LoopCond", {no})
    local off = core.add("Switch", {x.edge, going.edge})
    x = {edge = off, needs = union(x.needs, no.needs)}
  end
  add(c, op("Exit", {x}))
end

-- A variable grows by one each time: it counts what has run, in dead places
-- and last iterations too.
function pieces.tick(p, c)
  local counter, one = number(c, p.counter), number(c, 1, "int32")
  local x, first = any(p, c), any(p, c)
  local tick
  do
    local waits = chance(p, 50) and {first.edge.op} or {}
    local _ <close> = core.push{controls = waits}
    tick = core.add("AssignAddVariableOp", {counter.edge, one.edge},
                    {dtype = "int32"})
  end
  local _ <close> = core.push{controls = {tick}}
  local y = op("Identity", {x})
  y.needs = union(y.needs, first.needs)
  add(c, y)
end

-- ---- loops ----------------------------------------------------------------

-- `ways`: how many NextIterations it has.
local function open_variable(c, initial, ways)
  local enter = op("Enter", {initial}, {frame_name = c.frame,
                                        parallel_iterations = c.parallel})
  c.serial = c.serial + 1
  local token = ("variable %s %d"):format(c.frame, c.serial)
  local inputs = {enter.edge, false}
  if ways == 2 then inputs[3] = false end
  local merge = core.add("Merge", {inputs}, {T = enter.edge.dtype})
  local var = {initial = initial, token = token, next = nil, ways = ways,
               merge = {edge = merge, needs = union(initial.needs,
                                                    {[token] = true})}}
  c.vars[#c.vars + 1] = var
  return var
end

-- Does the loop go on? The counter says so, or chance alone.
local function going(p, c, counter)
  if chance(p, 10) then
    note "by_constants"
    c.by_constants = true
    pieces.random(p, c)
    return op("Less", {table.remove(c.values), number(c, 0.6, "float64")})
  end
  local go = op("Less", {counter.merge,
                         number(c, p.random:integer(0, 3), "int32")})
  if chance(p, 20) then
    note "and_constants"
    local less = op("Less", {number(c, 0, "float64"),
                             number(c, 1, "float64")})
    go = op("LogicalAnd", {go, less})
  end
  return go
end

local function split(c, x, go)
  local off, on = core.add("Switch", {x.edge, go.edge})
  local needs = union(x.needs, go.needs)
  return {edge = off, needs = needs},
         {edge = on, needs = union(needs, {[c.body] = true})}
end

local function close_variable(p, c, var, value)
  local _, on = split(c, value, c.go)
  local sides = {on.edge}
  var.next = on
  if var.ways == 2 then -- from either side of a cond
    local pred = is_low(p, c)
    sides = {core.add("Switch", {on.edge, pred.edge})}
    var.next = {needs = union(on.needs, pred.needs)}
  end
  for i, edge in ipairs(sides) do
    local next = core.add("NextIteration", {edge})
    core.set_back_edge(var.merge.edge.op, i, next)
  end
end

-- Tokens of the variables of `c` become what they stand for; the end of the
-- loop is no longer waited for.
local function resolve(c, needs)
  local all, of = {}, {}
  for _, var in ipairs(c.vars) do of[var.token] = var end
  local function visit(list)
    for token in pairs(list) do
      if not all[token] then
        all[token] = true
        local var = of[token]
        if var then
          visit(var.initial.needs)
          visit(var.next.needs)
        end
      end
    end
  end
  visit(needs)
  for token in pairs(of) do all[token] = nil end
  all[c.body] = nil
  return all
end

-- What lives in the body alone never leaves the loop.
local function exit(c, value)
  local off = split(c, value, c.go)
  local left = op("Exit", {off})
  left.needs = resolve(c, left.needs)
  if value.needs[c.body] then left.needs[{}] = true end
  return left
end

function pieces.loop(p, c, depth)
  if depth == 0 then return pieces.op(p, c) end
  p.frames = p.frames + 1
  local inner = {outer = c, frame = "frame" .. p.frames, values = {}, vars = {},
                 brought = {}, serial = 0, body = "body " .. p.frames,
                 parallel = pick(p, {1, 2, 10})}
  local zero = number(c, 0, "int32")
  if chance(p, 40) then -- as if made in the body
    zero = op("Cast", {op("Mul", {any(p, c), number(c, 0, "float64")})},
              {DstT = "int32"})
  end
  local counter = open_variable(inner, zero)
  for _ = 1, p.random:integer(1, 2) do
    local initial = any(p, c)
    local enter = after(p, c, function() return op("Identity", {initial}) end)
    add(inner, open_variable(inner, enter, chance(p, 20) and 2 or 1).merge)
  end
  for _ = 1, p.random:integer(0, 2) do add(inner, bring(inner, any(p, c))) end
  inner.go = op("LoopCond", {going(p, inner, counter)})
  for i = 1, 2 do
    local _, on = split(inner, inner.values[i] or inner.values[1], inner.go)
    add(inner, on)
  end
  grow(p, inner, depth - 1)
  close_variable(p, inner, counter,
                 op("AddV2", {counter.merge, number(inner, 1, "int32")}))
  for i = 2, #inner.vars do
    close_variable(p, inner, inner.vars[i], any(p, inner))
  end
  for i = 2, #inner.vars do add(c, exit(inner, inner.vars[i].merge)) end
  -- Where no variable is asked, pruning may leave a loop that does not turn.
  if chance(p, 30) and not inner.by_constants then
    note "exit_of_anything"
    add(c, exit(inner, any(p, inner)))
  end
end

local names = {"op", "op", "free", "free", "random", "random", "cond", "cond",
               "frame", "tick", "loop", "loop", "loop", "loop"}
random_loops.names = {"op", "free", "random", "cond", "frame", "tick", "loop"}

function grow(p, c, depth)
  for _ = 1, p.random:integer(1, 4) do
    local name = pick(p, names)
    note(name)
    pieces[name](p, c, depth)
  end
end

--- Builds the program of `seed` in the current graph: lists of results that are
-- sure to be live, of what is fed, and of the values fed; and what there is
-- besides: `before`, an op to run first, `targets`, ops to run with the
-- results, `after`, a tensor to look at when all is over.
function random_loops.build(seed)
  local handle = core.add("VarHandleOp", {}, {
    dtype = "int32", shape = {}, shared_name = "counter", container = ""})
  local p = {random = rng.new(seed), frames = 0,
             counter = {edge = handle, needs = {}}}
  local more = {
    before = core.add("AssignVariableOp", {handle, td.constant(0)},
                      {dtype = "int32"}),
    after = core.add("ReadVariableOp", {handle}, {dtype = "int32"}),
    targets = {}}
  local xs, values = {}, {}
  local root = {values = {}}
  for i = 1, 3 do
    xs[i] = td.placeholder("float64", {})
    values[i] = td.tensor(0.3 * i - 0.5, "float64")
    add(root, {edge = xs[i], needs = {}})
  end
  note "loop"
  pieces.loop(p, root, 3)
  grow(p, root, 3)
  local ys = {}
  for i = 4, #root.values do
    local v = root.values[i]
    if next(v.needs) == nil then ys[#ys + 1] = v.edge end
    more.targets[i - 3] = v.edge.op
  end
  ys[#ys + 1] = td.identity(xs[1])
  return ys, xs, values, more
end

return random_loops
