-- metric_mean_iou.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.450125068426132,
    0.235041573643684,
    0.20050211250782,
  },
}
