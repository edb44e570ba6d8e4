-- metric_precision_at_thresholds.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    {0.5, 0.5, 0.5},
    {0.583333313465118, 0.625, 0.75},
    {0.588235318660736, 0.666666686534882, 0.714285731315613},
  },
}
