-- metric_auc_of_precision_by_trapezes.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.372222393751144,
    0.636904776096344,
    0.670129776000977,
  },
}
