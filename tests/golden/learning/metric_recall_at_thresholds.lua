-- metric_recall_at_thresholds.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    {0.999999761581421, 0.939805805683136, 0.816952049732208},
    {0.99999988079071, 0.966138303279877, 0.90349268913269},
    {0.988444685935974, 0.968779921531677, 0.916389286518097},
  },
}
