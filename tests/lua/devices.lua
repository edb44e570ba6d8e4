-- devices.lua - loops and their gradients, programs and bare loops drawn by
-- chance: wherever their nodes run, the same bits, and nothing waits for ever.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local slices = require "tide.tensor.indexed_slices"
local random_loops = require "shared.random_loops"
local random_program = require "shared.random_program"
local rows = require "shared.loop_rows"
local scattered = require "shared.scattered"

local tests = {}
local soak = os.getenv "TIDE_SOAK"

local function check_row(row)
  scattered.check(function()
    local ys, ds, xs = rows.build(row)
    table.move(ds, 1, #ds, #ys + 1, ys)
    return ys, xs, row[3]
  end, soak and 50 or 2)
end

for _, list in ipairs{rows.loops, rows.arrays} do
  for _, row in ipairs(list) do
    tests["same_bits_" .. row[1]] = function() check_row(row) end
  end
end

-- ---- programs drawn by chance ---------------------------------------------

local X = td.tensor({{0.5, -0.25, 1.0}, {0.125, -1.0, 0.75}}, "float64")
local values = {X, X * 0.5, X + 0.25}

-- The value of a program and its gradients.
local function build(program)
  local xs = {}
  for i = 1, 3 do xs[i] = td.placeholder("float64", {2, 3}) end
  local ys = {program(table.unpack(xs))}
  for _, dx in ipairs(td.gradients(ys[1], xs)) do
    if dx then ys[#ys + 1] = slices.is(dx) and dx:dense() or dx end
  end
  return ys, xs, values
end

-- One derivative of a derivative that has no gradient says so.
local function refused(program)
  local ok, e = pcall(build, program)
  td.reset()
  if ok then return false end
  lu.assertEquals(e.code, "unimplemented", tostring(e))
  return true
end

-- Each of `names` was drawn often enough.
local function check_drawn(names, drawn, many)
  for _, name in ipairs(names) do
    local times = drawn[name] or 0
    lu.assertTrue(times * 2 >= many, name .. " was drawn " .. times .. " times")
  end
end

function tests.same_bits_of_random_programs()
  local many, out = soak and 1000 or 40, 0
  for seed = 1, many do
    local program = random_program.new(seed)
    if refused(program) then
      out = out + 1
    else
      scattered.check(function() return build(program) end, 1)
    end
  end
  lu.assertTrue(out <= 1 + many // 50, out .. " programs have no gradient")
  check_drawn(random_program.names, random_program.drawn, many)
end

function tests.same_bits_of_random_loops()
  local many = soak and 5000 or 100
  for seed = 1, many do
    scattered.check(function() return random_loops.build(seed) end, 1)
  end
  check_drawn(random_loops.names, random_loops.drawn, many)
end

return tests
