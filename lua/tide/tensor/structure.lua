--- tensor/structure.lua - tables of tensors, nested at will.
--
-- What a loop goes through, or a cell keeps as its state, may be one tensor, a
-- list, or a table by names. Such a table is taken apart into a list, always in
-- the same order, and put together again.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local structure = {}

local DEEPEST = 100 -- tables in tables; more hold themselves

-- Does a table hold tensors or names, at any depth? Else it is data.
local function is_structure(x, depth)
  depth = depth or 0
  if not args.plain(x) or depth > DEEPEST then return false end
  if args.has_names(x) then return true end
  for _, v in pairs(x) do
    if args.is_tensor(v) or is_structure(v, depth + 1) then return true end
  end
  return false
end

local function keys_of(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  return keys
end

--- The tensors of a structure as a list; `what` are they, for messages.
function structure.flatten(x, what, list, depth)
  list, depth = list or {}, depth or 0
  if depth > DEEPEST then
    core.error("invalid_argument", ("%s nest deeper than %d: does a table hold "
      .. "itself?"):format(what, DEEPEST))
  elseif is_structure(x) then
    for _, k in ipairs(keys_of(x)) do
      structure.flatten(x[k], what, list, depth + 1)
    end
  elseif x == nil or core.kind(x) == "op" or type(x) == "function" then
    core.error("invalid_argument", ("%s must be tensors, not %s"):format(what,
      core.kind(x) or type(x)))
  else
    list[#list + 1] = core.edge(x)
  end
  return list
end

--- A structure like x, of the tensors of a list.
function structure.pack(x, list, at)
  at = at or {0}
  if is_structure(x) then
    local out = {}
    for _, k in ipairs(keys_of(x)) do
      out[k] = structure.pack(x[k], list, at)
    end
    return out
  end
  at[1] = at[1] + 1
  return list[at[1]]
end

--- Has x, of tensors, the form of `sizes`, a number or a table of them?
function structure.alike(sizes, x)
  if type(sizes) == "number" then return not is_structure(x) end
  if not args.plain(x) then return false end
  for k in pairs(x) do
    if sizes[k] == nil then return false end
  end
  for k, size in pairs(sizes) do
    if x[k] == nil or not structure.alike(size, x[k]) then return false end
  end
  return true
end

--- The numbers in a table like {c = 3, h = 4} as a list.
function structure.sizes(x, list)
  list = list or {}
  if type(x) == "number" then
    list[#list + 1] = x
  else
    for _, k in ipairs(keys_of(x)) do structure.sizes(x[k], list) end
  end
  return list
end

--- A table like that, of the tensors of a list in place of numbers.
function structure.in_place_of(x, list, at)
  at = at or {0}
  if type(x) == "table" then
    local out = {}
    for _, k in ipairs(keys_of(x)) do
      out[k] = structure.in_place_of(x[k], list, at)
    end
    return out
  end
  at[1] = at[1] + 1
  return list[at[1]]
end

return structure
