--- insight/cost.lua - how many floating-point operations an op takes.
--
-- What is not listed takes one for each element of its first result, if these
-- are floats; what only moves takes none.
-- SPDX-License-Identifier: Apache-2.0

local dtypes = require "tide.tensor.dtype"
local shapes = require "tide.tensor.shape"
local sizes = require "tide.insight.sizes"

local cost = {}
local count, shape_of = sizes.count, sizes.shape_of

local function product(op)
  local x, y = op.inputs[1], op.outputs[1]
  local n, shape = count(y), shape_of(x)
  if not n or not shapes.known(shape) then return nil end
  local turned = op.attr.transpose_a or op.attr.adj_x
  return 2 * n * shape[turned and #shape - 1 or #shape]
end

-- A multiply-add for each element of a sparse matrix and column of the result.
local function sparse_product(op)
  local n, shape = count(op.inputs[2]), shape_of(op.outputs[1])
  return n and shape and shape[2] >= 0 and 2 * n * shape[2] or nil
end

local function reduction(op) return count(op.inputs[1]) end

-- A multiply-add for each tap of the filter w, at each place and channel of the
-- result y.
local function convolution(w, y)
  local n, shape = count(y), shape_of(w)
  if not n or not shapes.known(shape) then return nil end
  n = 2 * n
  for i = 1, #shape - 1 do n = n * shape[i] end
  return n
end

-- Of a depthwise one, those of one channel.
local function depthwise(w, y)
  local n, shape = count(y), shape_of(w)
  if not n or not shapes.known(shape) then return nil end
  return 2 * n * shape[1] * shape[2]
end

-- One for each cell of each window.
local function windows(x, op)
  local n, cells = count(x), 1
  for _, k in ipairs(op.attr.ksize) do cells = cells * k end
  return n and n * cells
end
local function pooling(op) return windows(op.outputs[1], op) end
local function pooling_back(op)
  return windows(op.inputs[#op.inputs], op)
end

-- Of a recurrent cell: a multiply-add for each row of x and each weight; the
-- gradient of a step leaves that for the weights to other ops.
local function recurrent(x, times, ...)
  local weights = {...}
  return function(op)
    local shape, n = shape_of(op.inputs[x]), 0
    for _, w in ipairs(weights) do n = n + (count(op.inputs[w]) or 0 / 0) end
    if not shapes.known(shape) or n ~= n then return nil end
    for i = 1, #shape - 1 do n = n * shape[i] end
    return 2 * times * n
  end
end

-- So many for each element of an input or an output.
local function per_input(k, i)
  return function(op)
    local n = count(op.inputs[i])
    return n and k * n
  end
end
local function per_output(k, i)
  return function(op)
    local n = count(op.outputs[i or 1])
    return n and k * n
  end
end

-- A scale and a shift; in training sums of x and of squared distances before.
local function batch_norm(op)
  local n = count(op.inputs[1])
  return n and n * (op.attr.is_training == false and 2 or 6)
end

-- A multiply-add for each channel of the window, and the power.
local function lrn(op)
  local n = count(op.inputs[1])
  return n and n * (2 * (2 * op.attr.depth_radius + 1) + 3)
end

local formulas = {MatMul = product, BatchMatMul = product,
                  BatchMatMulV2 = product, BatchMatMulV3 = product,
                  FusedBatchNorm = batch_norm, FusedBatchNormV2 = batch_norm,
                  FusedBatchNormV3 = batch_norm,
                  BatchNormWithGlobalNormalization = batch_norm,
                  LRN = lrn, LRNGrad = function(op) return 2 * lrn(op) end,
                  -- four corners, sixteen, and the cells of x under each place
                  ResizeBilinear = per_output(8),
                  ResizeBilinearGrad = per_input(8, 1),
                  ResizeBicubic = per_output(32),
                  ResizeBicubicGrad = per_input(32, 1),
                  ResizeArea = per_input(2, 1),
                  ResizeNearestNeighbor = per_output(0),
                  ResizeNearestNeighborGrad = per_input(1, 1),
                  CropAndResize = per_output(8),
                  CropAndResizeGradImage = per_input(8, 1),
                  CropAndResizeGradBoxes = per_input(16, 1),
                  -- softmax, both ways through the labels, the gradient
                  CTCLoss = per_input(9, 1), CTCGreedyDecoder = per_input(1, 1),
                  SparseTensorDenseMatMul = sparse_product,
                  Sum = reduction, Mean = reduction,
                  Prod = reduction, Max = reduction, Min = reduction,
                  ArgMax = reduction, ArgMin = reduction, L2Loss = reduction}
-- Two sums over the batch, and what they say of each element.
for _, version in ipairs{"", "V2", "V3"} do
  formulas["FusedBatchNormGrad" .. version] = per_input(9, 1)
end
for _, type in ipairs{"MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D"} do
  formulas[type], formulas[type .. "Grad"] = pooling, pooling_back
end
-- Every cell is in one window.
for _, type in ipairs{"FractionalMaxPool", "FractionalAvgPool"} do
  formulas[type] = reduction
  formulas[type .. "Grad"] = function(op) return count(op.outputs[1]) end
end
-- Every class, at each time, for each prefix of the beam.
function formulas.CTCBeamSearchDecoder(op)
  local n = count(op.inputs[1])
  return n and n * op.attr.beam_width
end
formulas.LSTMBlockCell = recurrent(1, 1, 4)
formulas.GRUBlockCell = recurrent(1, 1, 3, 4)
formulas.GRUBlockCellGrad = formulas.GRUBlockCell
for _, version in ipairs{"", "V2"} do
  formulas["BlockLSTM" .. version] = recurrent(2, 1, 5)
  formulas["BlockLSTMGrad" .. version] = recurrent(2, 2, 5)
end
formulas.MaxPoolWithArgmax = pooling
formulas.MaxPoolGradWithArgmax = per_input(1, 2)
-- The gradients take the same work; so do the additions and comparisons of a
-- dilation.
for type, of in pairs{Conv2D = convolution, Conv3D = convolution,
                      DepthwiseConv2dNative = depthwise,
                      Dilation2D = depthwise} do
  local version = type == "Conv3D" and "V2" or ""
  formulas[type] = function(op) return of(op.inputs[2], op.outputs[1]) end
  formulas[type .. "BackpropInput" .. version] = function(op)
    return of(op.inputs[2], op.inputs[3])
  end
  formulas[type .. "BackpropFilter" .. version] = function(op)
    return of(op.outputs[1], op.inputs[3])
  end
end

local free = {}
for _, type in ipairs{"Const", "Placeholder", "Identity", "IdentityN", "Enter",
  "Exit", "Switch", "Merge", "NextIteration", "LoopCond", "NoOp", "Reshape",
  "ExpandDims", "Squeeze", "Shape", "Size", "Rank", "ReadVariableOp",
  "VarHandleOp", "StopGradient", "PreventGradient", "StackPopV2",
  "StackPushV2", "ControlTrigger", "StackV2", "Snapshot"} do
  free[type] = true
end

--- Floating-point operations of one run; nil when shapes are not known.
function cost.operations(op)
  if free[op.type] then return 0 end
  if formulas[op.type] then return formulas[op.type](op) end
  local y = op.outputs[1]
  if not y or not dtypes.is_float(y.dtype) then return 0 end
  return count(y)
end

return cost
