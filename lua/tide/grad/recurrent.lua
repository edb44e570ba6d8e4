--- grad/recurrent.lua - gradients of the fused recurrent cells.
--
-- Only cs and h of an LSTM, and h of a GRU, pass gradients on: what else the
-- ops give is kept for these.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local ops = require("tide.ops").ops

local grad = {}

-- dy, or zeros.
local function given(dy, y) return dy or ops.zeros_like(y) end

-- Arguments of an op's gradient: what it took and gave, the rest, attributes.
local function arguments(op, outputs, ...)
  local list = {table.unpack(op.inputs)}
  for i = 1, outputs do list[#list + 1] = op.outputs[i] end
  for _, x in ipairs{...} do list[#list + 1] = x end
  return list
end

local function sequence(gradient_op)
  return function(op, _, dcs, _, _, _, _, dh)
    local list = arguments(op, 7, given(dcs, op.outputs[2]),
                           given(dh, op.outputs[7]))
    list[#list + 1] = {use_peephole = op.attr.use_peephole}
    return false, core.op(gradient_op)(table.unpack(list))
  end
end
grad.BlockLSTM = sequence "BlockLSTMGrad"
grad.BlockLSTMV2 = sequence "BlockLSTMGradV2"

-- Of [x, h] w + b: dx, dh, dw, db.
local function affine(x, h, w, dy)
  local dxh = ops.matmul(dy, w, {transpose_b = true})
  local inputs = ops.slice(ops.shape(x), {1}, {1})
  local cells = ops.slice(ops.shape(h), {1}, {1})
  local parts = core.op "SplitV"(dxh, ops.concat({inputs, cells}, 0), 1,
                                 {num_split = 2})
  local dw = ops.matmul(ops.concat({x, h}, 1), dy, {transpose_a = true})
  return parts[1], parts[2], dw, ops.sum(dy, {0})
end

function grad.LSTMBlockCell(op, _, dcs, _, _, _, _, dh)
  local x, _, h_prev, w = table.unpack(op.inputs)
  local list = arguments(op, 6, given(dcs, op.outputs[2]),
                         given(dh, op.outputs[7]))
  list[#list + 1] = {use_peephole = op.attr.use_peephole}
  local dcs_prev, dgates, dwci, dwcf, dwco =
    core.op "LSTMBlockCellGrad"(table.unpack(list))
  local dx, dh_prev, dw, db = affine(x, h_prev, w, dgates)
  return dx, dcs_prev, dh_prev, dw, dwci, dwcf, dwco, db
end

function grad.GRUBlockCell(op, _, _, _, dh)
  local x, h_prev, w_ru, w_c = table.unpack(op.inputs)
  local dx, dh_prev, dc, dru = core.op "GRUBlockCellGrad"(table.unpack(
    arguments(op, 3, given(dh, op.outputs[4]))))
  local _, _, dw_ru, db_ru = affine(x, h_prev, w_ru, dru)
  local _, _, dw_c, db_c = affine(x, h_prev * op.outputs[1], w_c, dc)
  return dx, dh_prev, dw_ru, dw_c, db_ru, db_c
end

return grad
