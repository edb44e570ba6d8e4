-- metric_mean_absolute_error.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.393099069595337,
    0.389862269163132,
    0.379713773727417,
  },
}
