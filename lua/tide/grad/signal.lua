--- grad/signal.lua - gradients of Fourier transforms.
--
-- A transform is a matrix F with F^H F = n; its gradient is F^H dy. Of reals
-- only the first half of the numbers is kept: the gradient of the rest stands
-- in that half, twice, but for the first number and, of an even length, the
-- last, which have no twin.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local dtypes = require "tide.tensor.dtype"
local shape = require "tide.autodiff.rule_shape"
local shapes = require "tide.tensor.shape"
local ops = require("tide.ops").ops

local grad = {}

-- ---- complex numbers ------------------------------------------------------

-- x times the product of its last `axes` sizes, or divided by it.
local function scaled(x, axes, divide)
  local n = ops.prod(shape.sizes(x)[-axes .. ":"])
  local size = ops.cast(ops.cast(n, dtypes.part[x.dtype] or x.dtype), x.dtype)
  return divide and x / size or x * size
end

for axes, suffix in ipairs{"", "2D", "3D"} do
  local forth, back = "FFT" .. suffix, "IFFT" .. suffix
  grad[forth] = function(_, dy) return scaled(core.op(back)(dy), axes) end
  grad[back] = function(_, dy) return scaled(core.op(forth)(dy), axes, true) end
end

-- ---- reals ----------------------------------------------------------------

-- The half y of a transform of `length` reals, times 1 where a number has no
-- twin and `factor` where it has one.
local function weighed(y, length, factor)
  local k = ops.range(shape.sizes(y)["-1"])
  local n = length["-1"]
  local alone = ops.logical_or(ops.equal(k, 0), ops.equal(k * 2, n))
  local part = dtypes.part[y.dtype]
  local ones = ops.cast(ops.ones_like(k), part)
  return y * ops.cast(ops.where(alone, ones, ones * factor), y.dtype)
end

-- dx with zeros for what was not read of x.
local function padded(dx, x)
  if shapes.known(x.shape) and dx.shape == x.shape then return dx end
  local missing = shape.sizes(x) - shape.sizes(dx)
  return core.op "Pad"(dx, ops.stack({missing * 0, missing}, 1))
end

for axes, suffix in ipairs{"", "2D", "3D"} do
  local forth, back = "RFFT" .. suffix, "IRFFT" .. suffix
  grad[forth] = function(op, dy)
    local x, length = op.inputs[1], op.inputs[2]
    local dx = core.op(back)(weighed(dy, length, 0.5), length,
                             {Treal = x.dtype})
    return padded(scaled(dx, axes), x), false
  end
  grad[back] = function(op, dy)
    local x, length = op.inputs[1], op.inputs[2]
    local dx = core.op(forth)(scaled(dy, axes, true), length,
                              {Tcomplex = x.dtype})
    return padded(weighed(dx, length, 2.0), x), false
  end
end

return grad
