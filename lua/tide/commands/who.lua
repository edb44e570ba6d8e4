--- commands/who.lua - %who: the names there are.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local autoload = require "tide.base.autoload"
local graph = require "tide.graph.graph"
local session = require "tide.run.session"
local value = require "tide.show.value"
local names = require "tide.assist.names"
local frontend = require "tide.frontend"

local queues = autoload "tide.flow.queues"

-- "3 of 32 elements" of a queue in the default session, where that has it.
local function filled(q)
  local sess = session.get_default_session()
  return sess and queues.state(q, sess)
end

-- A value in a few words.
local function brief(x, kind)
  local ok, text = frontend.protected(value.text, x)
  text = ok and text:match "^[^\n]*" or "?"
  local state = kind == "queue" and filled(x)
  if state then text = ("%s: %s"):format(x.name, state) end
  local width = core.width() - 36
  if (utf8.len(text) or #text) > width then
    local stop = utf8.offset(text, width - 2) or width - 2
    text = text:sub(1, stop - 1) .. "..."
  end
  return text
end

-- "queue" of what the library shows as one.
local function kind_of(x)
  local meta = type(x) == "table" and getmetatable(x)
  return core.kind(x) or type(meta) == "table" and rawget(meta, "__forms")
    or type(x)
end

local function line(name, x)
  local kind = kind_of(x)
  print(("%-20s %-12s %s"):format(name, kind, brief(x, kind)))
end

-- Queues that no name has, such as those of td.train.batch.
local function others(seen, pattern)
  local n = 0
  for _, q in ipairs(graph.get_collection "queues") do
    if not seen[q] and (pattern == "" or q.name:find(pattern)) then
      n = n + 1
      line("", q)
    end
  end
  return n
end

--- %who [pattern]: the names you have made, what they are, and their values;
-- of queues, those without a name too, how full they are.
return function(pattern)
  local n, seen = 0, {}
  for _, e in ipairs(names.list()) do
    seen[e.value] = true
    if pattern == "" or e.name:find(pattern) then
      n = n + 1
      line(e.name, e.value)
    end
  end
  n = n + others(seen, pattern)
  if n == 0 then print "no names yet" end
end
