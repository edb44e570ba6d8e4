--- assist/paths.lua - the files and folders that a path being typed may mean.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local paths = {}

-- So many files of a folder are looked at, so many taken.
local MOST, MOST_TAKEN = 20000, 500

-- The folder and the beginning of a name in it; ~ is the user's home.
local function split(path)
  local folder, name = path:match "^(.*/)([^/]*)$"
  folder, name = folder or "", name or path
  local home = os.getenv "HOME"
  local where = home and folder:gsub("^~/", (home:gsub("%%", "%%%%")) .. "/")
    or folder
  return where == "" and "." or where, name
end

local function is_folder(path)
  return core.exists(path .. "/.")
end

--- Adds what may complete the last part of a path; gives the candidates back.
function paths.add(list, path)
  local folder, name = split(path)
  local ok, names = pcall(core.list, folder)
  if not ok then return list end
  local n, taken = 0, 0
  for each in names:gmatch "[^\0]+" do
    n = n + 1
    if n > MOST or taken > MOST_TAKEN then break end
    local hidden = each:find "^%." and not name:find "^%."
    if each:sub(1, #name):lower() == name:lower() and not hidden
       and utf8.len(each) then
      local more = is_folder(folder .. "/" .. each) and "/" or ""
      taken = taken + 1
      list:add(each .. more, "path")
    end
  end
  return list
end

return paths
