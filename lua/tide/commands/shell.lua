--- commands/shell.lua - what !command does.
--
-- SPDX-License-Identifier: Apache-2.0

--- !command: runs it in a shell; Ctrl-C ends it.
return function(text)
  local ok, how, code = os.execute(text)
  if not ok then print(("[%s %d]"):format(how, code)) end
end
