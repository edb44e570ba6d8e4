--- script/options.lua - td.options: the options of a user's own function.
--
-- Networks and the like take a table at their end as Tide's functions do. Read
-- by this, a misspelt option is an error and not a default that nobody wanted.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local options = {}

--- The options that a function was given, with defaults for the rest: a table
-- of its own. Raises for an option that has no default, offering the nearest,
-- and for one of another type than its default; a tensor may stand for any.
-- @param[opt] given a table {classes = 10}; nil: none
-- @param defaults {name = value} of all options there are
-- @param what the function's name, for errors
-- @usage local o = td.options({width = 0.5}, {classes = 1000, width = 1},
--   "alexnet")
-- o.classes * o.width  --> 500
function options.options(given, defaults, what)
  args.expect(what, "string", "options: the function's name")
  args.expect(defaults, "table", "options: the defaults")
  if given ~= nil and not args.plain(given) then
    core.error("invalid_argument", ("%s takes its options as a table, not %s")
      :format(what, args.what(given)))
  end
  local names = args.sorted_keys(defaults)
  local o = args.read(given, names, what)
  for _, key in ipairs(names) do
    if o[key] == nil then
      o[key] = defaults[key]
    elseif not args.is_tensor(o[key]) then
      args.expect(o[key], type(defaults[key]), what .. ": " .. key)
    end
  end
  return o
end

return options
