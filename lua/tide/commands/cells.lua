--- commands/cells.lua - %cells: what each cell has built.
--
-- In a notebook cells own their nodes. At the prompt, a node belongs to the
-- cell whose line made it: its origin says so.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local owner = require "tide.console.owner"
local dtypes = require "tide.tensor.dtype"
local shapes = require "tide.tensor.shape"
local style = require "tide.show.style"

-- Bytes that a node holds between runs: of a constant, of a variable.
local function bytes_of(op)
  local shape, dtype
  if op.type == "Const" then
    shape, dtype = op.outputs[1].shape, op.outputs[1].dtype
  elseif op.type == "VarHandleOp" then
    shape, dtype = op.attr.shape, op.attr.dtype
  end
  local n = shape and shapes.count(shape)
  return n and n * (dtypes.size(dtype) or 0) or 0
end

-- {name =, nodes =, bytes =} of each cell with nodes, in their order.
local function count(g)
  local list, by_name = {}, {}
  for _, op in ipairs(g:ops()) do
    local name = (op.origin or ""):match "^(.*):%d+$" or "elsewhere"
    local row = by_name[name]
    if not row then
      row = {name = name, nodes = 0, bytes = 0}
      by_name[name], list[#list + 1] = row, row
    end
    row.nodes, row.bytes = row.nodes + 1, row.bytes + bytes_of(op)
  end
  return list
end

--- %cells: nodes of the default graph, their bytes, and time, by cell.
return function(_, state)
  local owned = owner.table()
  if #owned > 0 then return print(owned) end
  local seconds = state.line.seconds or {}
  print(("%-24s %8s %10s %12s"):format("cell", "nodes", "bytes", "time"))
  for _, row in ipairs(count(core.graph())) do
    local n = tonumber(row.name:match "^In%[(%d+)%]$")
    print(("%-24s %8s %10s %12s"):format(row.name, style.count(row.nodes),
      style.bytes(row.bytes), seconds[n] and style.seconds(seconds[n]) or ""))
  end
end
