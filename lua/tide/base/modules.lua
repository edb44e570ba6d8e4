--- base/modules.lua - the modules of a folder, as the build found them.
--
-- A folder whose files are all of one kind (ops, rules of gradients, layers,
-- commands) is read by this: a new file is known without being listed anywhere.
-- SPDX-License-Identifier: Apache-2.0

--- Their names, sorted: those of "layers" are "average_pooling2d", ...
return function(folder)
  local list, pattern = {}, "^tide%." .. folder .. "%.([%w_]+)$"
  for module in pairs(package.preload) do
    list[#list + 1] = module:match(pattern)
  end
  table.sort(list)
  return list
end
