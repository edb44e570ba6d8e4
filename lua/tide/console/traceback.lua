--- console/traceback.lua - an error as it is shown.
--
-- SPDX-License-Identifier: Apache-2.0

--- Name, value and lines of an error: of what was raised, the frames it was
-- raised in (tide.front), and whether an interrupt did it.
return function(err, frames, interrupted)
  if interrupted then
    return "KeyboardInterrupt", "interrupted", {"interrupted"}
  end
  local text = tostring(err)
  local lines = {text}
  for i, f in ipairs(frames) do
    if f.line > 0 then
      lines[i + 1] = ("  %s:%d"):format(f.short_src, f.line)
    end
  end
  return "Error", text, lines
end
