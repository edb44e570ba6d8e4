--- console/terminal.lua - messages as they look on a terminal.
--
-- SPDX-License-Identifier: Apache-2.0

local printers = {}

function printers.execute_result(content)
  print(content.data["text/plain"])
end

printers.display_data = printers.execute_result

function printers.error(content)
  print(table.concat(content.traceback, "\n"))
end

--- Prints a message; what a terminal cannot show is left out.
return function(type, content)
  local f = printers[type]
  if f then f(content) end
end
