-- metric_percentage_below.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.400000005960464,
    0.600000023841858,
    0.600000023841858,
  },
}
