-- console_growth.lua - cells add to the graph between steps, which is no loop;
-- a loop in a cell is one.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local console = require "tide.console"
local notebook = require "shared.notebook"

local tests = {}

function tests.cells_are_no_loop()
  lu.assertNotNil(console)
  local nb <close> = notebook.open()
  nb:run [[
td = require 'tide'
x = td.placeholder('float32', {}, 'x')
function twice() return x * 2 end]]
  for i = 1, 50 do
    nb:run(("y%d = twice() y%d:eval{[x] = 3}"):format(i, i))
    lu.assertEquals(nb.err, "")
    lu.assertEquals(nb:result(), "6.0")
  end
  nb:run [[
for i = 1, 60 do
  local z = x + 1
  z:eval{[x] = i}
end]]
  lu.assertStrContains(nb.err, "tide: warning: the graph grows in a loop")
  lu.assertStrContains(nb.err, "each time by In[52]:2; it has")
end

return tests
