--- base/args.lua - reading the arguments of library functions.
--
-- A plain table is data, structure or options; anything with a metatable is an
-- object. Options may be a table, a name, or absent.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"

local args = {}

--- A table without a metatable?
function args.plain(x)
  return type(x) == "table" and getmetatable(x) == nil
end

--- A graph tensor, a value, or an object that stands for one?
function args.is_tensor(x)
  local kind = core.kind(x)
  if kind then return kind == "edge" or kind == "tensor" end
  local meta = type(x) == "table" and getmetatable(x)
  return meta and meta.__tensor ~= nil or false
end

--- x, as a value if it is a literal: what has operators and methods.
function args.tensor(x)
  return args.is_tensor(x) and x or core.op "Identity"(x)
end

--- The dtype of a tensor, nil for a literal.
function args.dtype(x)
  return args.is_tensor(x) and x.dtype or nil
end

--- What x is, for messages: "graph tensor", "tensor", "table".
function args.what(x)
  local kind = core.kind(x)
  if kind then return kind == "edge" and "graph tensor" or kind end
  local meta = type(x) == "table" and getmetatable(x)
  return meta and meta.__name or type(x)
end

-- What to do with an argument that stands where options do.
local option_hints = {
  number = "; numbers that belong together are one list, such as {2, 3}",
  ["function"] = "; give it by name, as in {activation = td.relu}",
  boolean = "; give it by name, as in {training = true}",
}

--- A fresh table of options from a table, a name or nil.
function args.options(o, what)
  if o == nil then return {} end
  if type(o) == "string" then return {name = o} end
  if not args.plain(o) then
    core.error("invalid_argument", ("%s: the last argument is a table of "
      .. "options or a name, not %s%s"):format(what or "options", args.what(o),
                                               option_hints[type(o)] or ""))
  end
  local copy = {}
  for k, v in pairs(o) do copy[k] = v end
  if o.name ~= nil then args.expect(o.name, "string", "name") end
  return copy
end

--- Keys of a table as strings, sorted.
function args.sorted_keys(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = tostring(k) end
  table.sort(keys)
  return keys
end

--- Is x in a list?
function args.holds(list, x)
  for _, each in ipairs(list) do
    if each == x then return true end
  end
  return false
end

--- Raises for an option that is not in the list `known`, offering the nearest.
function args.check(o, known, what)
  local allowed = {}
  for _, name in ipairs(known) do allowed[name] = true end
  if o[1] ~= nil and not allowed[1] then
    core.error("invalid_argument", ("%s takes options by name (%s), given a "
      .. "list"):format(what, table.concat(known, ", ")))
  end
  for _, key in ipairs(args.sorted_keys(o)) do
    if not allowed[key] then
      errors.invalid("%s has no option \"%s\"%s; it takes %s", what, key,
        errors.did_you_mean(key, known),
        #known > 0 and table.concat(known, ", ") or "none")
    end
  end
  return o
end

--- Options read and checked in one go.
function args.read(o, known, what)
  if type(o) == "string" and not args.holds(known, "name") then
    core.error("invalid_argument", ("%s takes a table of options (%s), not the "
      .. "string \"%s\""):format(what, table.concat(known, ", "), o))
  end
  return args.check(args.options(o, what), known, what)
end

--- Splits `{784, 100, minval = -1}` into its list and its named part.
function args.split(t)
  local list, named = {}, {}
  for k, v in pairs(t) do
    if math.type(k) == "integer" then list[k] = v else named[k] = v end
  end
  return list, named
end

--- Has a plain table named keys?
function args.has_names(t)
  if not args.plain(t) then return false end
  for k in pairs(t) do
    if type(k) == "string" then return true end
  end
  return false
end

--- Raises when a list has a hole or a named key.
function args.check_list(t, what)
  if type(t) ~= "table" then
    core.error("invalid_argument", what .. " must be a list, not "
      .. args.what(t))
  end
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  if n ~= #t then
    core.error("invalid_argument", what .. " has a hole or a named key")
  end
  return t
end

--- Raises unless `x` is a number that is not NaN, at least `low` and at most
-- `high` where they are given, or a tensor, whose value shows in the run.
function args.expect_number(x, what, low, high)
  if args.is_tensor(x) then return x end
  args.expect(x, "number", what)
  if x == x and (not low or x >= low) and (not high or x <= high) then
    return x
  end
  local range = "a number"
  if low and high then
    range = ("from %g to %g"):format(low, high)
  elseif low or high then
    range = (low and "%g or more" or "%g or less"):format(low or high)
  end
  return core.error("invalid_argument", ("%s must be %s, given %g"):format(what,
    range, x))
end

--- The same with what must be above 0.
function args.expect_positive(x, what)
  args.expect_number(x, what)
  if type(x) == "number" and x <= 0 then
    core.error("invalid_argument", ("%s must be above 0, given %g"):format(what,
                                                                           x))
  end
  return x
end

--- Raises unless `x` can be called.
function args.expect_callable(x, what)
  local meta = type(x) == "table" and getmetatable(x)
  if type(x) ~= "function" and not (meta and meta.__call) then
    core.error("invalid_argument", ("%s must be a function such as td.relu, "
      .. "not %s"):format(what, args.what(x)))
  end
  return x
end

--- Raises unless `x` has the Lua type `want`, or is an "integer".
function args.expect(x, want, what)
  if type(x) ~= want and not (want == "integer" and math.type(x) == want) then
    local given = args.what(x)
    if type(x) == "number" then given = tostring(x) end
    core.error("invalid_argument", ("%s must be %s %s, not %s"):format(what,
      want == "integer" and "an" or "a", want, given))
  end
  return x
end

--- Raises for an option of another type: `types` is {timeout = "number"}.
function args.expect_all(o, types)
  for _, key in ipairs(args.sorted_keys(types)) do
    if o[key] ~= nil then args.expect(o[key], types[key], key) end
  end
  return o
end

return args
