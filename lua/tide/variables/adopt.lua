--- variables/adopt.lua - the variables of a graph that came from elsewhere,
-- such as that of a session that was joined.
--
-- Of a variable its handle comes along, and of its other nodes those that ran;
-- the rest is made here. Initial values that did not come along are
-- placeholders, so that W:load(x) works. What was trainable is not known.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local graph = require "tide.graph.graph"
local session = require "tide.run.session"
local variables = require "tide.variables.variables"

local adopt = {}

-- The nodes that make handles, in their order; of one variable the newest, as
-- those of cells that ran again may stand beside it.
local function handles(g)
  local at, list = {}, {}
  for _, op in ipairs(g:ops()) do
    if op.type == "VarHandleOp" then
      local shared = op.attr.shared_name
      local name = shared ~= "" and shared or op.name
      if not at[name] then list[#list + 1] = name end
      at[name] = op
    end
  end
  return list, at
end

--- Makes variables of what g has, and puts them into its collection
-- "variables", where td.global_variables() and savers find them.
function adopt.all(g)
  local list, at = handles(g)
  local state = graph.state(g)
  local _ <close> = core.push{graph = g, prefix = "", flow = 0, pivot = false,
                              capture = false, clear_controls = true}
  for _, name in ipairs(list) do
    local v = variables.of_handle(name, at[name].outputs[1])
    graph.add_to_collection("variables", v)
    state.variables[name] = state.variables[name] or v
  end
end

--- The variables of the session's graph, local ones too. Of a session that was
-- joined by name those that it had then.
-- @return list of variables
-- @usage local s <close> = td.server{listen = "tcp://127.0.0.1:0"}
-- local o = {target = s.target, name = "job", outlive = true}
-- local made = td.session(o)
-- local n = td.variable(7, "n")
-- made:init()
-- made:leave()
-- local sess <close> = td.session{target = s.target, name = "job"}
-- sess:variables()[1]:eval()  --> 7
function adopt.of_session(sess)
  local list = {}
  local all = graph.state(session.graph_of(sess, "variables")).collections
  for _, name in ipairs{"variables", "local_variables"} do
    for _, v in ipairs(all[name] or {}) do
      if not core.is_gone(v.handle) then list[#list + 1] = v end
    end
  end
  return list
end

return adopt
