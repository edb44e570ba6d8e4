--- tensor/shape.lua - what `t.shape` is: a list of sizes.
--
-- Sizes count from 1 as Lua's tables do; -1 is an unknown size. The list itself
-- lies behind an empty table, so that writing to a shape raises.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local meta = {}
local list_of = core.shape_list

function meta.__index(s, i)
  return list_of(s)[i]
end

function meta.__len(s)
  return #list_of(s)
end

function meta.__pairs(s)
  return next, list_of(s)
end

--- Shapes equal any table of the same sizes.
function meta.__eq(a, b)
  a, b = list_of(a), list_of(b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

--- "{2, -1}"
function meta.__tostring(s)
  return "{" .. table.concat(list_of(s), ", ") .. "}"
end

function meta.__concat(a, b)
  return tostring(a) .. tostring(b)
end

function meta.__newindex()
  core.error("invalid_argument", "a shape is read-only: make a list of its "
    .. "sizes, {table.unpack(x.shape)}, and change that; x:reshape(list) gives "
    .. "a tensor of another shape")
end

core.set_shape_meta(meta)

local shape = {}

--- A plain list as a shape.
function shape.of(list)
  return core.shape_of({table.unpack(list)})
end

--- What was asked for as the shape of variable `name`: a list of sizes, or one.
function shape.asked(given, name)
  if math.type(given) == "integer" then given = {given} end
  if type(given) ~= "table" then
    core.error("invalid_argument", ("variable \"%s\": a shape is a list of "
      .. "sizes such as {2, 3}, not %s"):format(name,
      core.kind(given) or type(given)))
  end
  for i, size in ipairs{table.unpack(given)} do
    if math.type(size) ~= "integer" then
      core.error("invalid_argument", ("variable \"%s\": size %d of the shape "
        .. "must be a whole number, given %s"):format(name, i, tostring(size)))
    end
  end
  return shape.of(given)
end

--- Is every size known? `s` may be nil (unknown rank).
function shape.known(s)
  if not s then return false end
  for i = 1, #s do
    if s[i] < 0 then return false end
  end
  return true
end

--- Number of elements, nil when unknown.
function shape.count(s)
  if not shape.known(s) then return nil end
  local n = 1
  for i = 1, #s do n = n * s[i] end
  return n
end

--- Could a tensor have both shapes? nil is an unknown rank.
function shape.compatible(a, b)
  if not a or not b then return true end
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] >= 0 and b[i] >= 0 and a[i] ~= b[i] then return false end
  end
  return true
end

--- Is every tensor of shape `b` one of shape `a`?
function shape.allows(a, b)
  if not a then return true end
  if not b or #a ~= #b then return false end
  for i = 1, #a do
    if a[i] >= 0 and a[i] ~= b[i] then return false end
  end
  return true
end

--- For messages: "{2, -1}", "unknown".
function shape.text(s)
  return s and meta.__tostring(s) or "unknown"
end

return shape
