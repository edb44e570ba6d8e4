-- metric_auc.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.600000023841858,
    0.714285612106323,
    0.727272689342499,
  },
}
