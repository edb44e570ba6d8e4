--- insight/sizes.lua - elements and bytes of tensors of the graph that is
-- estimated: a copy with the shapes of the feeds.
-- SPDX-License-Identifier: Apache-2.0

local dtypes = require "tide.tensor.dtype"
local shapes = require "tide.tensor.shape"

local sizes = {}

-- What reading a stack loses, the graph as it was built still knows.
local built

--- The graph that the copy is of.
function sizes.of_graph(g) built = g end

--- The shape of x.
function sizes.shape_of(x)
  local s = x.shape
  if shapes.known(s) then return s end
  local op = built:find(x.op.name)
  local edge = op and op.outputs[x.port + 1]
  return edge and shapes.known(edge.shape) and edge.shape or s
end

--- The elements of a shape, as a float, which no product of sizes overflows.
function sizes.count_of(shape)
  if not shapes.known(shape) then return nil end
  local n = 1.0
  for _, size in ipairs(shape) do n = n * size end
  return n
end

--- The elements of x; nil where they are not known.
function sizes.count(x)
  return x and sizes.count_of(sizes.shape_of(x)) or nil
end

--- The bytes of x; nil where they are not known.
function sizes.bytes_of(x)
  local size, n = dtypes.size(x.dtype), sizes.count(x)
  if x.dtype == "resource" or x.dtype == "variant" then return 0 end
  return size and n and size * n or nil
end

return sizes
