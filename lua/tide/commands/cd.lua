--- commands/cd.lua - %cd: where relative paths begin.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local last -- where the command was given

--- %cd [folder | -]: goes there; home without one, back with a dash.
return function(path)
  local here, home = core.cwd(), os.getenv "HOME" or "/"
  if path == "-" then
    path = last or here
  elseif path == "" then
    path = home
  end
  core.chdir((path:gsub("^~", home):gsub("^(['\"])(.*)%1$", "%2")))
  last = here
  print(core.cwd())
end
