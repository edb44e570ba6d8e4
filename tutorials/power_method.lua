--- power_method.lua - the largest eigenvalue of a matrix by repeated
-- multiplication: a loop that runs inside the graph.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local A = td.constant{{2.0, 1.0, 0.0}, {1.0, 3.0, 1.0}, {0.0, 1.0, 4.0}}
local start = td.ones{3, 1}

local function length(v) return v:square():sum():sqrt() end

-- v <- A v / |A v| until it turns no more.
local n, v = td.while_loop(
  function(_, _, turn) return turn:greater(1e-6) end,
  function(n, v)
    local next = A:matmul(v)
    next = next / length(next)
    return n + 1, next, length(next - v)
  end,
  {0, start / length(start), 1.0},
  {maximum_iterations = 1000})

local eigenvalue = v:matmul(A:matmul(v), {transpose_a = true})[{0, 0}]

local sess <close> = td.session()
local steps, value, vector = table.unpack(sess:run{n, eigenvalue, v})
print(("eigenvalue %.4f after %d steps"):format(value, steps)) --> 4.7321
print(vector)
