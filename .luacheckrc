-- luacheck: the library, its tests and the tutorials know Lua 5.4 only.
std = "lua54"
max_line_length = 80
-- `local _ <close>` in an inner block closes what that block opened.
ignore = {"421/_", "431/_", "411/_"}
