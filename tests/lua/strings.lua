-- strings.lua - strings beyond the rows of their ops: names, positions,
-- defaults.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local raises = helper.raises
local tests = {}

local function is(want, x) lu.assertEquals(x:table(), want) end

function tests.names_of_tensorflow()
  lu.assertEquals(td.strings.length, td.string_length)
  lu.assertEquals(td.strings.join({"a", "b"}, {separator = "+"}):item(), "a+b")
  is({"moon", "9"}, td.strings.lower(td.tensor{"MOON", "9"}))
  is({2, 3}, td.strings.length(td.tensor{"ab", "cde"}))
  raises("did you mean \"upper\"", function() return td.strings.uper end)
end

function tests.numbers()
  is({1.5, -2}, td.string_to_number(td.tensor{"1.5", "-2"}))
  is({7}, td.string_to_number(td.tensor{"7"}, "int64"))
  is({"1", "2"}, td.as_string(td.tensor{1, 2}))
  is({"1.50"}, td.as_string(td.tensor{1.5}, {precision = 2}))
  is({{1, 2}, {3, 4}}, td.decode_raw(td.tensor{"\1\2", "\3\4"}, "uint8"))
  raises("\"x\", is no float32", td.string_to_number, td.tensor{"x"})
end

function tests.split()
  local indices, values, shape = td.string_split(td.tensor{"a b", "c"})
  is({{0, 0}, {0, 1}, {1, 0}}, indices)
  is({"a", "b", "c"}, values)
  is({2, 2}, shape)
  local _, parts = td.string_split(td.tensor{"a,b,c"}, ",", {maxsplit = 1})
  is({"a", "b,c"}, parts)
end

function tests.reduce_join()
  local x = td.tensor{{"a", "b"}, {"c", "d"}}
  lu.assertEquals(td.reduce_join(x):item(), "abcd")
  is({"a-b", "c-d"}, td.reduce_join(x, 1, {separator = "-"}))
  is({{"ac", "bd"}}, td.reduce_join(x, {0}, {keep_dims = true}))
end

function tests.graphs()
  local x = td.placeholder("string", {-1})
  local y = td.strings.to_hash_bucket_fast(x, {num_buckets = 1000})
  local s = td.session()
  local a = s:run(y, {[x] = {"moon", "tide", "moon"}}):table()
  lu.assertEquals(a[1], a[3])
  lu.assertTrue(a[1] ~= a[2])
end

-- Strings are put together outside of the allocator, which knows the limit.
function tests.more_strings_than_memory_are_refused_before_any_is_made()
  local none = td.zeros({1 << 30, 1 << 10, 0}, "string")
  for _, x in ipairs{td.reduce_join(none, 2), td.fill({1 << 30, 1 << 10}, "x"),
                     td.empty({1 << 30, 1 << 10}, {dtype = "string"})} do
    lu.assertErrorMsgContains("memory limit", x.eval, x)
  end
end

-- RE2 takes time that grows with the text alone; PCRE2 may need more, and is
-- then stopped.
function tests.a_pattern_that_would_take_for_ever_is_refused()
  local text = ("a"):rep(40) .. "c"
  lu.assertErrorMsgContains("steps", td.regex_full_match, text, "(a|aa)+$")
  lu.assertErrorMsgContains("steps", td.regex_replace, text, "(a|aa)+$", "")
  lu.assertErrorMsgContains("back references", td.regex_replace, text,
    "(a)\\1", "")
end

function tests.long_texts_are_searched_in_parts()
  local text = ("ab "):rep(1000)
  local want = ("x "):rep(1000)
  lu.assertEquals(td.regex_replace(text, "[ab]+", "x"):item(), want)
  lu.assertEquals(td.regex_replace(text .. "\xff", "[ab]+", "x"):item(),
    want .. "\xff")
  lu.assertEquals(td.regex_replace(text .. "c", "[bc]$", ""):item(), text)
end

function tests.values_in_a_text()
  local n = td.value.range(10)
  lu.assertEquals(td.string_format("n = {}", n):item(), "n = [0 1 2 ... 7 8 9]")
  lu.assertEquals(td.strings.format("%d and %d", {n, "x"}, {placeholder = "%d",
    summarize = 1}):item(), "[0 ... 9] and \"x\"")
  local x = td.placeholder("float32", {-1})
  lu.assertEquals(td.string_format("{} {}", {x, 2}):eval{[x] = {0.5, 1}},
                  "[0.5 1] 2")
  helper.raises("1 placeholders \"{}\" for 2 inputs", td.string_format, "{}",
                {1, 2})
  helper.raises("template", td.string_format, 1, {2})
end

return tests
