--- console/cell.lua - the text of a cell as a chunk to run.
--
-- SPDX-License-Identifier: Apache-2.0

local cell = {}

-- "?name" asks for help.
local function question(code)
  local name = code:match "^%s*%?%s*([^\n]-)%s*$"
  if name then
    return ("require('tide').help(%s)"):format(name ~= "" and
                                               ("%q"):format(name) or "")
  end
end

--- The chunk of `code`, whose last expression's values it returns; nil and the
-- message where it is no Lua.
function cell.load(code, count)
  local name = ("=In[%d]"):format(count)
  code = question(code) or code
  local chunk = load("return " .. code, name, "t")
  if chunk then return chunk end
  return load(code, name, "t")
end

return cell
