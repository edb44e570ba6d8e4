-- metric_mean_per_class_accuracy.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.25,
    0.233333349227905,
    0.208333343267441,
  },
}
