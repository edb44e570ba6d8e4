-- cube.lua - uses the op library beside it: value and gradient of x^3.
local td = require "tide"

td.load_library(arg and arg[1] or "./cube.so")

local x = td.placeholder("float32", {-1}, "x")
local y = td.cube(x)
local dx = td.gradients(y, {x})[1]
local sess = td.session()
print(sess:run({y, dx}, {[x] = {1, 2, 3}})[1])
print(sess:run({y, dx}, {[x] = {1, 2, 3}})[2])
