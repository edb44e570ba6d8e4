--- train/init.lua - td.train: what turns a loss into a trained model.
--
-- Here are optimizers as ops over variables, learning rates as functions of the
-- step, averages of variables, and the loop that feeds batches, which is plain
-- Lua on public calls; savers, what is in their checkpoints, and supervisors of
-- jobs that may be killed. tide/train/*.lua hold them, a subject each.
-- SPDX-License-Identifier: Apache-2.0

local train = {}

for _, name in ipairs{"clip", "optimizers", "lbfgs", "schedules", "averages",
                      "fit", "hooks", "queue_runner", "coordinator",
                      "input", "checkpoints", "saver", "supervisor"} do
  for key, f in pairs(require("tide.train." .. name)) do train[key] = f end
end

return train
