-- metric_precision.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.128023490309715,
    0.28609237074852,
    0.348485082387924,
  },
}
