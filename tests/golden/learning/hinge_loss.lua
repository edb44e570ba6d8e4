-- hinge_loss.lua
-- Made by tests/peers/learning.py with TensorFlow 2.21.0.
-- SPDX-License-Identifier: Apache-2.0

return {
  values = {
    0.941525816917419,
  },
  gradients = {
    {{1, -0}, {-0, 1}},
  },
}
