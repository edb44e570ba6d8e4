--- layers/embedding.lua - a row of weights for each word.
-- SPDX-License-Identifier: Apache-2.0

local layer = require "tide.nn.layer"
local initializers = require "tide.variables.initializers"
local ops = require("tide.ops").ops

local embedding = {
  kind = "embedding", positions = {"input_dim", "output_dim"},
  takes_ids = true,
  options = {"embeddings_initializer", "embeddings_regularizer"},
}

function embedding:check()
  layer.count(self, "input_dim")
  layer.count(self, "output_dim")
end

function embedding.variables_dtype() return "float32" end

function embedding:rows(x)
  if x.dtype ~= "int32" and x.dtype ~= "int64" then
    layer.fail(self, "its input is int32 or int64, not %s", x.dtype)
  end
  return {{"embeddings", {self.input_dim, self.output_dim},
           initializer = self.embeddings_initializer
             or initializers.random_uniform{minval = -0.05, maxval = 0.05},
           regularizer = self.embeddings_regularizer}}
end

function embedding:apply(x)
  return ops.gather(self.embeddings, x)
end

--- Row x[i] of a table, for integers x of any shape; the rest of the table is
-- not read, and its gradient is sparse. Variable embeddings {input_dim,
-- output_dim}. Options: embeddings_initializer (uniform in +-0.05),
-- embeddings_regularizer.
-- @function layers.embedding(x, input_dim, output_dim, o)
-- @usage td.layers.embedding(td.constant{3, 1}, 10, 4).shape  --> {2, 4}
return layer.define(embedding)
