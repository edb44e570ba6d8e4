-- embed.lua - writes the Lua library as one C file.
--
-- lua5.4 lua/embed.lua lua/tide/init.lua lua/tide/ops/*.lua > lua_library.c
-- Each file becomes an array of bytes under its module name.
-- SPDX-License-Identifier: Apache-2.0

local function module_name(path)
  local stem = path:match("^.*lua/(tide/.*)%.lua$")
  assert(stem, "not a module: " .. path)
  return (stem:gsub("/init$", ""):gsub("/", "."))
end

local rows = {}
print('#include "lua/bind.h"')
for i, path in ipairs(arg) do
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  local bytes = {}
  for k = 1, #text do
    local b = text:byte(k)
    bytes[k] = b < 128 and b or b - 256
  end
  if #text > 1000000 then error(path .. ": too large a module") end
  print(("static const char text_%d[] = {"):format(i))
  for k = 1, #bytes, 20 do
    print(table.concat(bytes, ",", k, math.min(k + 19, #bytes)) .. ",")
  end
  print("0};")
  local name = module_name(path)
  rows[#rows + 1] = ('  {"%s", "=[tide] %s", text_%d, %d},'):format(
    name, path:match("lua/tide/(.*)$"), i, #text)
end
print("const struct td_lua_file td_lua_library[] = {")
print(table.concat(rows, "\n"))
print("  {0}};")
