-- far.lua - uses the device of the library beside it.
local td = require "tide"

local sess = td.session()
td.load_library(arg and arg[1] or "./far.so") -- the session sees it, too
local x = td.placeholder("float32", {-1}, "x")
local y = td.device("/device:FAR:0", function()
  return td.add(x * x, 1, "add")
end)
print(sess:run(y, {[x] = {1, 2, 3}}))
for line in sess:explain_placement():gmatch "[^\n]+" do
  if line:match "%(add%)" then print(line) end
end
