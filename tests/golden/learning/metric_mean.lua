-- metric_mean.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.235672384500504,
    0.00433891639113426,
    0.0661093443632126,
  },
}
