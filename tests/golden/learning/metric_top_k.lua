-- metric_top_k.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.333333343267441,
    0.333333343267441,
    0.333333343267441,
  },
}
