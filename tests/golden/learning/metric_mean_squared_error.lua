-- metric_mean_squared_error.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.198234736919403,
    0.190732687711716,
    0.183214887976646,
  },
}
