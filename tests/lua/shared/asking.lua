-- shared/asking.lua - what tests of completion and of inspection share: the
-- names they ask about, and questions where a cursor stands.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local cell = require "tide.console.cell"

local asking = {}

local names = {}
names.__close = function(env)
  for name in pairs(env) do rawset(cell.env, name, nil) end
end

-- Gives cells the names of `env`, until it is closed.
function asking.provide(env)
  for name, x in pairs(env) do cell.provide(name, x) end
  return setmetatable(env, names)
end

-- Names that rows of both speak of, in a graph of their own.
function asking.names()
  td.reset()
  local x = td.placeholder("float32", {-1, 784}, "input/x")
  return {td = td, x = x, W = td.variable(td.zeros{3, 4}, "weights"),
          v = td.tensor{1, 2, 3}, sess = td.session(),
          g = td.get_default_graph(), opt = td.train.adam(0.1),
          y = td.relu(x, "act/relu")}
end

-- A test that calls check(row) for each row, with the names that make() gives.
function asking.rows(make, rows, check)
  return function()
    local _ <close> = asking.provide(make())
    for _, row in ipairs(rows) do check(row) end
  end
end

-- The reply of a service for a text whose cursor is where the first | stands,
-- and the text before it.
function asking.at(service, text, detail)
  local before, after = text:match "^([^|]*)|(.*)$"
  local reply = service({code = before .. after, detail_level = detail,
                         cursor_pos = utf8.len(before) or #before}, {})
  lu.assertNil(reply.metadata.tide_problem, text:sub(-200))
  return reply, before
end

-- A table whose every metamethod raises and counts in count.n.
function asking.trap(count)
  local meta = {}
  for name in ("index newindex call tostring len pairs concat eq lt le add "
               .. "unm name close metatable"):gmatch "%a+" do
    meta["__" .. name] = function()
      count.n = count.n + 1
      error "touched"
    end
  end
  return setmetatable({field = 1}, meta)
end

return asking
