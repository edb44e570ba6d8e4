-- slicing.lua - t[0], t["1:3, ..., ::-1, new"], computed bounds.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local function cube()
  local list = {}
  for i = 1, 24 do list[i] = i - 1 end
  return td.tensor(list, "int32", {2, 3, 4})
end

-- key, shape, first and last element
local rows = {
  {0, {3, 4}, 0, 11},
  {-1, {3, 4}, 12, 23},
  {"1", {3, 4}, 12, 23},
  {"0, 1", {4}, 4, 7},
  {"0, 1, 2", {}, 6, 6},
  {":, 1:3", {2, 2, 4}, 4, 23},
  {":, :, ::2", {2, 3, 2}, 0, 22},
  {"::-1", {2, 3, 4}, 12, 11},
  {":, ::-1, ::-1", {2, 3, 4}, 11, 12},
  {"..., 0", {2, 3}, 0, 20},
  {"0, ..., -1", {3}, 3, 11},
  {"new", nil},
  {"..., new", {2, 3, 4, 1}, 0, 23},
  {":, new, 1:2", {2, 1, 1, 4}, 4, 19},
  {"1:1", {0, 3, 4}},
  {"-1:", {1, 3, 4}, 12, 23},
  {":-1", {1, 3, 4}, 0, 11},
  {"0:100", {2, 3, 4}, 0, 23},
  {{0}, {3, 4}, 0, 11},
  {{":", {1, 3}}, {2, 2, 4}, 4, 23},
  {{":", {1, 3}, -1}, {2, 2}, 7, 23},
  {{0, {0, 3, 2}}, {2, 4}, 0, 11},
  {{"...", {false, 2}}, {2, 3, 2}, 0, 21},
}

local function flat(x)
  return td.tensor(x, nil, {x.size}):table()
end

function tests.values()
  local t = cube()
  for i, row in ipairs(rows) do
    local key, shape = row[1], row[2]
    if shape then
      local got = t[key]
      lu.assertTrue(got.shape == shape, "row " .. i .. ": "
                    .. tostring(got.shape))
      if row[3] then
        local list = flat(got)
        lu.assertEquals({list[1], list[#list]}, {row[3], row[4]}, "row " .. i)
      end
    end
  end
end

function tests.nodes()
  local t = td.constant(cube())
  for i, row in ipairs(rows) do
    if row[2] then
      lu.assertTrue(t[row[1]].shape == row[2], "row " .. i)
    end
  end
  helper.gives({4, 5, 6, 7}, t["0, 1"])
end

function tests.computed_bounds()
  local t = td.constant(cube())
  local i, wide = td.constant(1), td.constant(2, "int64")
  helper.gives({4, 5, 6, 7}, t[{0, i}])
  helper.gives({4, 5, 6, 7}, cube()[{0, i}])
  helper.gives({12, 13, 14, 15}, t[i][0])
  helper.gives({{0, 1, 2, 3}, {4, 5, 6, 7}}, t[{0, {0, wide}}])
  helper.gives({{4, 5, 6, 7}}, t[{0, {i, wide}}])
  lu.assertEquals(cube()[td.tensor(1)][0][0]:item(), 12)
end

function tests.identifiers_are_fields()
  local t = cube()
  lu.assertEquals(t.rank, 3)
  raises("no field or method \"sumo\" on a tensor; did you mean \"sum\"?",
         function() return t.sumo end)
end

function tests.refused()
  local t = cube()
  raises("no slice", function() return t["a:b"] end)
  raises("at most three", function() return t["1:2:3:4"] end)
  raises("step is 0", function() return t["::0"] end)
  raises("empty", function() return t["1,"] end)
  raises("once", function() return t["..., ..."] end)
  raises("integer", function() return t[1.5] end)
  raises("integer", function() return t[{true}] end)
  raises("", function() return t[7] end)
  raises("", function() return t["0, 0, 0, 0"] end)
  raises("never changes", function() t[0] = 1 end)
  raises("cannot be assigned", function() td.constant{1}[0] = 1 end)
end

return tests
