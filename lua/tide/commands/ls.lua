--- commands/ls.lua - %ls: what is in a folder.
--
-- SPDX-License-Identifier: Apache-2.0

--- %ls [options] [paths]: as the command of that name.
return function(text)
  os.execute("ls " .. text)
end
