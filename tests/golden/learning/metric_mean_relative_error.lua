-- metric_mean_relative_error.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    -1.05131280422211,
    0.219315886497498,
    0.198541104793549,
  },
}
