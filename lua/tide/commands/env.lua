--- commands/env.lua - %env: variables of the environment.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

--- %env [NAME [= value]]: all of them, one, or sets it for this process and its
-- children.
return function(text)
  local name, value = text:match "^([%w_]+)%s*[=%s]%s*(.*)$"
  if name then return core.setenv(name, value) end
  if text ~= "" then return os.getenv(text) end
  os.execute "env | sort"
end
