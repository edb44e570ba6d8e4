-- metric_auc_minoring.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.600000023841858,
    0.714285671710968,
    0.727272689342499,
  },
}
