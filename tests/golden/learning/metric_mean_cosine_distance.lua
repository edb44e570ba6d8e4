-- metric_mean_cosine_distance.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.943510830402374,
    0.925268709659576,
    0.920893609523773,
  },
}
