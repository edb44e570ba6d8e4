--- commands/pwd.lua - %pwd: the folder that relative paths begin in.
--
-- SPDX-License-Identifier: Apache-2.0

--- %pwd: the folder that relative paths begin in.
return function()
  return require "tide.core".cwd()
end
