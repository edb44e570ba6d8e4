--- run/value.lua - td.value.NAME: creators that compute now.
--
-- td.zeros{2} is a node; td.value.zeros{2} is the array. What is random draws
-- anew on each call, the same again after td.seed(n).
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
local namespace = require "tide.ops"

local ops = namespace.ops

-- Builds f(...) in a graph of its own and computes it.
local function compute(name, f, ...)
  local outer = graph.state()
  local seed = core.graph():get_seed()
  outer.draws = outer.draws + 1
  local g = core.graph_new()
  if seed then g:set_seed(seed) end
  local _ <close> = core.push{graph = g, prefix = name .. outer.draws .. "/"}
  local handles = table.pack(f(...))
  local fetches = {}
  for i = 1, handles.n do fetches[i] = core.edge(handles[i]) end
  local s <close> = core.session(g, {})
  return s:core_run(fetches, {}, {}, {as_values = true})
end

return setmetatable({}, {__index = function(t, name)
  local f = ops[name]
  if not f then
    errors.invalid("td.value has no \"%s\"%s", tostring(name),
                   errors.did_you_mean(name, namespace.names()))
  end
  local function now(...)
    return table.unpack(compute(name, f, ...))
  end
  rawset(t, name, now)
  return now
end, __complete = namespace.names})
