-- loops.lua - writes the graphs of tests/lua/shared/loop_rows.lua, gradients in
-- them, for TensorFlow to run: tide tests/peers/loops.lua DIR
--
-- DIR/graphs.txt has a line for each: name, what is fed, values, gradients.
-- SPDX-License-Identifier: Apache-2.0

package.path = "tests/lua/?.lua;" .. package.path

local td = require "tide"
local rows = require "shared.loop_rows"

local function names(edges)
  local list = {}
  for i, e in ipairs(edges) do list[i] = e.name end
  return table.concat(list, ",")
end

local out <close> = assert(io.open(arg[1] .. "/graphs.txt", "w"))
for _, list in ipairs{rows.loops, rows.arrays} do
  for _, row in ipairs(list) do
    td.reset()
    local ys, ds, xs = rows.build(row)
    td.get_default_graph():save(arg[1] .. "/" .. row[1] .. ".pb")
    out:write(row[1], " ", names(xs), " ", names(ys), " ", names(ds), "\n")
  end
end
