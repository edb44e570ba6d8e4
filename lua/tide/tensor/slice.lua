--- tensor/slice.lua - t[0], t["1:3, ..., ::-1, new"], t[{":", {a, b}, -1}].
--
-- Every form becomes a list of items, and the list one StridedSlice. Counting
-- is from 0; a negative index counts from the end; the end of a range is not
-- in it. Bounds may be graph scalars.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local slice = {}

local function bad(text, why)
  core.error("invalid_argument", ("\"%s\" is no slice: %s; examples: \"0\", "
    .. "\"1:3\", \"::-1\", \"..., new\""):format(text, why))
end

local function number_in(text, part)
  if part == "" then return nil end
  local n = math.tointeger(tonumber(part))
  if not n or not part:match("^%-?%d+$") then
    bad(text, "\"" .. part .. "\" is not an integer")
  end
  return n
end

-- One item between commas.
local function parse_item(text, item)
  if item == "..." or item == "new" then return {kind = item} end
  if not item:find(":", 1, true) then
    if item == "" then bad(text, "an item is empty") end
    return {kind = "index", at = number_in(text, item)}
  end
  local parts = {}
  for part in (item .. ":"):gmatch("([^:]*):") do
    parts[#parts + 1] = part:match("^%s*(.-)%s*$")
  end
  if #parts > 3 then bad(text, "a range has at most three parts") end
  local step = number_in(text, parts[3] or "")
  if step == 0 then bad(text, "the step is 0") end
  return {kind = "range", from = number_in(text, parts[1]),
          to = number_in(text, parts[2]), step = step}
end

local function parse_text(text, items)
  for item in (text .. ","):gmatch("([^,]*),") do
    items[#items + 1] = parse_item(text, item:match("^%s*(.-)%s*$"))
  end
end

-- A bound: integer, graph scalar, or the number in a value.
local function bound(x, what)
  if not x or math.type(x) == "integer" then return x or nil end
  local kind = core.kind(x)
  if kind == "tensor" then return bound(x:item(), what) end
  if args.is_tensor(x) then
    if x.dtype ~= "int32" and x.dtype ~= "int64" then
      core.error("invalid_argument", ("%s must be int32 or int64, not %s")
        :format(what, x.dtype))
    end
    return x
  end
  core.error("invalid_argument", ("%s must be an integer or a graph scalar, "
    .. "not %s"):format(what, type(x) == "number" and x or args.what(x)))
end

local function parse_element(x, items)
  if type(x) == "string" then
    parse_text(x, items)
  elseif args.plain(x) then
    items[#items + 1] = {kind = "range", from = bound(x[1], "a bound"),
                         to = bound(x[2], "a bound"),
                         step = bound(x[3], "a step")}
  else
    items[#items + 1] = {kind = "index", at = bound(x, "an index")}
  end
end

--- The items of any key.
function slice.parse(key)
  local items = {}
  if args.plain(key) then
    for i = 1, #args.check_list(key, "a slice") do
      parse_element(key[i], items)
    end
  else
    parse_element(key, items)
  end
  return items
end

-- Begin, end and stride of one item; bits go to the masks.
local function place(spec, item)
  local bit, n = 1 << #spec.begin, #spec.begin + 1
  local from, to, step = 0, 0, 1
  if item.kind == "index" then
    from, to = item.at, item.at + 1
    spec.shrink_axis_mask = spec.shrink_axis_mask | bit
  elseif item.kind == "new" then
    spec.new_axis_mask = spec.new_axis_mask | bit
  elseif item.kind == "..." then
    if spec.ellipsis_mask ~= 0 then bad("...", "it may stand once only") end
    spec.ellipsis_mask = bit
  else
    if item.from == nil then spec.begin_mask = spec.begin_mask | bit end
    if item.to == nil then spec.end_mask = spec.end_mask | bit end
    from, to, step = item.from or 0, item.to or 0, item.step or 1
  end
  spec.begin[n], spec.finish[n], spec.strides[n] = from, to, step
end

-- Bounds of one slice have one dtype: int64 if any has.
local function unify(lists)
  local wide, any = false, false
  for _, list in ipairs(lists) do
    for _, x in ipairs(list) do
      if args.is_tensor(x) then
        any, wide = true, wide or x.dtype == "int64"
      end
    end
  end
  if not any then return lists end
  local dtype, out = wide and "int64" or "int32", {}
  for i, list in ipairs(lists) do
    out[i] = {}
    for k, x in ipairs(list) do
      out[i][k] = args.is_tensor(x) and x.dtype ~= dtype
        and core.op "Cast"(x, {DstT = dtype}) or x
    end
  end
  return out, dtype
end

--- What StridedSlice takes: begin, end, strides, and its attributes.
function slice.spec(key)
  local spec = {begin = {}, finish = {}, strides = {}, begin_mask = 0,
                end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0,
                shrink_axis_mask = 0}
  local items = slice.parse(key)
  if #items > 32 then
    core.error("invalid_argument", "a slice has at most 32 items")
  end
  for _, item in ipairs(items) do place(spec, item) end
  local lists, dtype = unify{spec.begin, spec.finish, spec.strides}
  local masks = {Index = dtype or "int32"}
  for k, v in pairs(spec) do
    if math.type(v) == "integer" then masks[k] = v end
  end
  return lists[1], lists[2], lists[3], masks
end

--- t[key].
function slice.take(t, key)
  local begin, finish, strides, masks = slice.spec(key)
  return core.op "StridedSlice"(t, begin, finish, strides, masks)
end

return slice
