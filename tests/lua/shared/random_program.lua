-- random_program.lua - functions drawn from a seed: ops, conds, loops, maps,
-- folds, tensor arrays, calls of functions and derivatives, nested in each
-- other.
--
-- Every value is a float64 tensor of shape {2, 3} and stays small, so that any
-- piece may be put into any place. The same seed is the same program.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local rng = require "tide.base.rng"

local random_program = {}

-- What a program is made of: by name, a function of the program, of how deep
-- it may nest and of the tensors at hand.
local pieces = {}

-- How often each piece was drawn, over all programs of this process.
random_program.drawn = {}

local function pick(p, list)
  return list[p.random:integer(1, #list)]
end

-- One more tensor: a piece, or at the bottom one that is there.
local function grow(p, depth, at_hand)
  if depth <= 0 or p.left <= 0 then return pick(p, at_hand) end
  p.left = p.left - 1
  local name = pick(p, p.names)
  random_program.drawn[name] = (random_program.drawn[name] or 0) + 1
  return pieces[name](p, depth - 1, at_hand)
end

local function with(at_hand, ...)
  local list = table.move(at_hand, 1, #at_hand, 1, {})
  for _, x in ipairs{...} do list[#list + 1] = x end
  return list
end

local function small(x) return td.tanh(x) end

local function is_low(p, x)
  return x:sum():less(p.random:uniform(-1, 1))
end

-- ---- ops ------------------------------------------------------------------

function pieces.unary(p, depth, at_hand)
  local f = pick(p, {td.tanh, td.sigmoid, td.sin, td.relu, td.square,
                     td.softplus, td.negative, td.identity})
  return small(f(grow(p, depth, at_hand)))
end

function pieces.binary(p, depth, at_hand)
  local x, y = grow(p, depth, at_hand), grow(p, depth, at_hand)
  return small(pick(p, {td.add, td.multiply, td.subtract, td.maximum,
                        td.squared_difference})(x, y))
end

function pieces.reduced(p, depth, at_hand)
  local x = grow(p, depth, at_hand)
  return x + x:sum({p.random:integer(0, 1)}, {keep_dims = true}) * 0.125
end

function pieces.matmul(p, depth, at_hand)
  local x, y = grow(p, depth, at_hand), grow(p, depth, at_hand)
  return small(x:matmul(y, {transpose_b = true}):matmul(x))
end

function pieces.moved(p, depth, at_hand)
  local x, y = grow(p, depth, at_hand), grow(p, depth, at_hand)
  return td.concat({x["1:2"], y["0:1, ::-1"]}, 0)
end

function pieces.gathered(p, depth, at_hand)
  local x = grow(p, depth, at_hand)
  return td.gather(x, {p.random:integer(0, 1), p.random:integer(0, 1)})
end

function pieces.chosen(p, depth, at_hand)
  local x, y = grow(p, depth, at_hand), grow(p, depth, at_hand)
  return td.where(x:less(y), x, y * 0.5)
end

-- ---- control flow ---------------------------------------------------------

function pieces.cond(p, depth, at_hand)
  local x = grow(p, depth, at_hand)
  return td.cond(is_low(p, x), function() return grow(p, depth, at_hand) end,
                 function() return small(x + grow(p, depth, at_hand)) end)
end

function pieces.loop(p, depth, at_hand)
  local n, x = p.random:integer(0, 3), grow(p, depth, at_hand)
  local parallel = pick(p, {1, 2, 10})
  local _, y, z = td.while_loop(function(i) return i:less(n) end,
    function(i, h, s)
      local inner = grow(p, depth, with(at_hand, h, s))
      return i + 1, small(h * 0.5 + inner), s * 0.5 + h
    end, {0, x, pick(p, at_hand)}, {parallel_iterations = parallel})
  return y + z * 0.25
end

-- A loop that begins with what is outside of all, wherever it is: only its
-- place says that it is not to run.
function pieces.constants(p, depth, at_hand)
  local n, x = p.random:integer(1, 3), pick(p, p.outside)
  local _, y = td.while_loop(function(i) return i:less(n) end, function(i, h)
    local inner = grow(p, depth, {h, pick(p, p.outside)})
    return i + 1, small(h * 0.5 + inner + td.sin(pick(p, p.outside)))
  end, {p.zero, x}, {parallel_iterations = pick(p, {1, 10})})
  return y + pick(p, at_hand)
end

-- Numbers that hang on nothing.
function pieces.noise(p, depth, at_hand)
  local noise = td.random_uniform({2, 3}, {dtype = "float64",
                                           seed = p.random:integer(1, 999)})
  return small(grow(p, depth, at_hand) + noise)
end

function pieces.map(p, depth, at_hand)
  local xs = td.stack({grow(p, depth, at_hand), pick(p, at_hand)})
  return td.map_fn(function(x)
    return grow(p, depth, with(at_hand, x)) * 0.5
  end, xs):sum({0})
end

function pieces.fold(p, depth, at_hand)
  local xs = td.stack({grow(p, depth, at_hand), pick(p, at_hand)})
  local f = function(a, x) return small(a + grow(p, depth, {a, x})) end
  return pick(p, {td.foldl, td.foldr})(f, xs, pick(p, at_hand))
end

function pieces.scan(p, depth, at_hand)
  local xs = td.stack({grow(p, depth, at_hand), pick(p, at_hand)})
  return td.scan(function(a, x) return small(a * 0.5 + x) end, xs,
                 pick(p, at_hand)):sum({0})
end

function pieces.array(p, depth, at_hand)
  local array = td.tensor_array("float64", 2, {clear_after_read = false})
  for i = 0, 1 do array = array:write(i, grow(p, depth, at_hand)) end
  return small(array:stack():sum({0}) + array:read(p.random:integer(0, 1)))
end

-- ---- functions and derivatives ----------------------------------------------

function pieces.func(p, depth, at_hand)
  local f = td.func(function(x, y)
    return small(x * grow(p, depth, with(at_hand, x, y)) + y)
  end, {"float64", "float64"}, {shapes = {{2, 3}, {2, 3}}})
  return f(f(grow(p, depth, at_hand), pick(p, at_hand)), pick(p, at_hand))
end

local product = td.custom_gradient(function(x, y) return td.sin(x) * y end,
  function(dy, x, y) return dy * td.cos(x) * y, dy * td.sin(x) end)

function pieces.custom(p, depth, at_hand)
  return product(grow(p, depth, at_hand), pick(p, at_hand))
end

function pieces.derivative(p, depth, at_hand)
  local x = pick(p, at_hand) * 1
  local y = td.sin(x) * grow(p, depth, {x})
  return small(td.gradients(y, x) or x)
end

local names = {}
for name in pairs(pieces) do names[#names + 1] = name end
table.sort(names)
random_program.names = names

--- A function of three tensors of shape {2, 3}, drawn from `seed`.
-- @param without a set of pieces that are not drawn
function random_program.new(seed, without)
  local allowed = {}
  for _, name in ipairs(names) do
    if not (without and without[name]) then allowed[#allowed + 1] = name end
  end
  return function(...)
    local p = {random = rng.new(seed), left = 24, names = allowed,
               outside = {...}, zero = td.constant(0)}
    local at_hand, out = {...}, nil
    for _ = 1, 3 do
      local x = grow(p, 3, at_hand)
      out = out and out + x or x
      at_hand = with(at_hand, x)
    end
    return out
  end
end

return random_program
