-- literals.lua - values from Lua tables: dtypes, shapes, what is refused.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises = helper.raises
local tests = {}

-- data, dtype given, dtype got, shape
local rows = {
  {1, nil, "int32", {}},
  {1.0, nil, "float32", {}},
  {true, nil, "bool", {}},
  {"a", nil, "string", {}},
  {{1, 2}, nil, "int32", {2}},
  {{1, 2.5}, nil, "float32", {2}},
  {{{1, 2, 3}, {4, 5, 6}}, nil, "int32", {2, 3}},
  {{{}, {}}, nil, "float32", {2, 0}},
  {{1, 2}, "float64", "float64", {2}},
  {{1, 2}, "int64", "int64", {2}},
  {{1, 255}, "uint8", "uint8", {2}},
  {{1.0, 2.0}, "int32", "int32", {2}},
  {{1, 2}, "float16", "float16", {2}},
  {{1, 2}, "bfloat16", "bfloat16", {2}},
  {{"a", "bc"}, nil, "string", {2}},
  {{1, 2}, "complex64", "complex64", {2}},
}

function tests.dtype_and_shape()
  for i, row in ipairs(rows) do
    local t = td.tensor(row[1], row[2])
    lu.assertEquals(t.dtype, row[3], "row " .. i)
    lu.assertTrue(t.shape == row[4], "row " .. i .. ": " .. tostring(t.shape))
    lu.assertEquals(t.rank, #row[4], "row " .. i)
  end
end

function tests.values_come_back()
  for _, data in ipairs{{1, 2, 3}, {{1.5, -2.0}}, {true}, {"", "x\0y"}} do
    lu.assertEquals(td.tensor(data):table(), data)
  end
  lu.assertEquals(td.tensor(7):item(), 7)
  lu.assertEquals(td.tensor{{5.5}}:item(), 5.5)
end

function tests.refused()
  raises("ragged", td.tensor, {{1, 2}, {3}})
  raises("ragged", td.tensor, {{1}, 2})
  raises("hole", td.tensor, {1, nil, 3})
  raises("mix", td.tensor, {1, true})
  raises("not fit", td.tensor, {256}, "uint8")
  raises("not fit", td.tensor, {-1}, "uint8")
  raises("not fit", td.tensor, 1 << 40)
  raises("td.cast", td.tensor, {0.5}, "int32")
  raises("function", td.tensor, {print})
  raises("dtype", td.tensor, {1}, "float33")
end

function tests.reshaped()
  local t = td.tensor({1, 2, 3, 4, 5, 6}, "float32", {2, 3})
  lu.assertEquals(t:table(), {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}})
  raises("", td.tensor, {1, 2, 3}, nil, {2, 2})
end

function tests.literals_beside_tensors()
  local x = td.tensor({1, 2}, "float64")
  lu.assertEquals((x + 1).dtype, "float64")
  lu.assertEquals((0.5 * x):table(), {0.5, 1.0})
  local n = td.tensor{1, 2}
  lu.assertEquals((n + 2.0):table(), {3, 4})
  raises("not whole", function() return n + 0.5 end)
  local b = td.tensor({1, 2}, "uint8")
  raises("not fit", function() return b + 300 end)
end

function tests.shapes_are_lists()
  local s = td.tensor{{1, 2, 3}}.shape
  lu.assertEquals(#s, 2)
  lu.assertEquals(tostring(s), "{1, 3}")
  lu.assertTrue(s == td.tensor{{4, 5, 6}}.shape)
  lu.assertFalse(s == td.tensor{4}.shape)
  raises("read-only", function() s[3] = 1 end)
  lu.assertEquals(tostring(td.placeholder("float32", {-1, 2}).shape), "{-1, 2}")
  lu.assertNil(td.placeholder("float32").shape)
end

function tests.dtype_constants()
  lu.assertEquals(td.float32, "float32")
  lu.assertEquals(td.tensor({1}, td.int64).dtype, "int64")
end

-- Literals alone: one of them that is a float makes floats of all.
function tests.together()
  lu.assertEquals(td.add({1.0}, 2).dtype, "float32")
  lu.assertEquals(td.add(2, {1.0}).dtype, "float32")
  lu.assertEquals(td.add({1}, 2).dtype, "int32")
  lu.assertTrue(td.less({-1.0}, 0):table()[1])
  lu.assertEquals({td.truediv(1, 4):item(), td.mean{1, 2}:item()}, {0.25, 1.5})
end

function tests.printing()
  lu.assertStrContains(tostring(td.tensor{1, 2}), "int32 {2}")
  lu.assertEquals(tostring(td.placeholder("float32", {-1, 2}, "p")),
                  'Tensor "p:0" float32 {-1, 2}')
end

function tests.rows()
  local seen = {}
  for i, row in td.tensor{{1, 2}, {3, 4}}:rows() do seen[i] = row:table() end
  lu.assertEquals(seen, {[0] = {1, 2}, {3, 4}})
  local function walk(by, t) for _ in by(t) do lu.fail "it walks" end end
  raises("rows()", walk, ipairs, td.tensor{1, 2})
  raises("rows()", walk, pairs, td.tensor{1, 2})
  raises("no #", function() return #td.tensor{1} end)
end

function tests.packing()
  local n = td.constant(3)
  helper.gives({3, 4}, td.add({n, 4}, 0))
  lu.assertTrue(td.zeros{n, 2}.shape == {3, 2})
  local x = td.placeholder("float32", {-1, 4})
  lu.assertTrue(td.zeros{x:dim(0), x:dim(1)}.shape == {-1, 4})
end

return tests
