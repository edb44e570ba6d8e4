-- metric_root_mean_squared_error.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.44523561000824,
    0.436729550361633,
    0.428036093711853,
  },
}
