-- metric_auc_of_precision.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.394841313362122,
    0.6474569439888,
    0.677617192268372,
  },
}
