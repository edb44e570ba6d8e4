--- commands/lsmagic.lua - %lsmagic: the commands.
--
-- SPDX-License-Identifier: Apache-2.0

local commands = require "tide.console.commands"

--- %lsmagic: what commands there are.
return function()
  for _, name in ipairs(commands.names()) do
    local call, text = commands.about(name)
    text = (text or ""):gsub("([.;]) .*", "%1"):gsub("[.;]$", "")
    print(("%-34s %s"):format(call or name, text))
  end
  print(("%-34s %s"):format("!command", "runs it in a shell"))
  print(("%-34s %s"):format("?name ??name", "what is known of it; its source"))
end
