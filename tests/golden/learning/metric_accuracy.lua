-- metric_accuracy.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.855621814727783,
    0.408314049243927,
    0.378966122865677,
  },
}
