--- commands/workers.lua - %workers: the processes that take part.
--
-- SPDX-License-Identifier: Apache-2.0

local session = require "tide.run.session"

--- %workers: the workers of the default session, as a table.
return function()
  local sess = session.get_default_session()
  if not sess then return print "No workers: there is no session" end
  return sess:workers()
end
