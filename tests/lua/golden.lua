-- golden.lua - gradient rules against real TensorFlow's gradients.
--
-- tests/golden/<Op>.pb and ranks/<Op>.pb there hold, beside an op's results,
-- the gradients of sum(output * weight) (golden.proto). Each case becomes a
-- GraphDef, with constant inputs and again with floats of which nothing is
-- known, so that a rule must not lean on known shapes or values.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local slices = require "tide.tensor.indexed_slices"

local dir = "tests/golden/"
local tests = {}

-- ---- protobuf: a message as {[field] = {values}} ---------------------------

local function varint(s, at)
  local v, shift = 0, 0
  repeat
    local b = s:byte(at)
    v, shift, at = v | (b & 127) << shift, shift + 7, at + 1
  until b < 128
  return v, at
end

local function message(s)
  local fields, at = {}, 1
  while at <= #s do
    local key, v
    key, at = varint(s, at)
    v, at = varint(s, at)
    if key & 7 == 2 then
      v, at = s:sub(at, at + v - 1), at + v
    end
    local list = fields[key >> 3] or {}
    fields[key >> 3] = list
    list[#list + 1] = v
  end
  return fields
end

local function number(v)
  local out = {}
  while v > 127 do
    out[#out + 1] = string.char(v & 127 | 128)
    v = v >> 7
  end
  return table.concat(out) .. string.char(v)
end

-- A field of bytes or of a whole number.
local function field(n, v)
  if math.type(v) == "integer" then return number(n << 3) .. number(v) end
  return number(n << 3 | 2) .. number(#v) .. v
end

local function attr(name, value)
  return field(5, field(1, name) .. field(2, value))
end

-- ---- a case as a graph -----------------------------------------------------

local FLOAT = {[1] = true, [2] = true, [14] = true, [19] = true} -- dtypes
local unknown_rank = field(7, field(3, 1))

-- A constant, as an item of a GraphDef.
local function constant(name, tensor)
  return field(1, field(1, name) .. field(2, "Const")
    .. attr("dtype", field(6, message(tensor)[1][1]))
    .. attr("value", field(8, tensor)))
end

-- The same, but of a float no shape and no value is known. Axes and sizes stay
-- constants: some rules ask for that.
local function unknown(name, tensor)
  if not FLOAT[message(tensor)[1][1]] then return constant(name, tensor) end
  return constant(name .. "_value", tensor)
    .. field(1, field(1, name) .. field(2, "PlaceholderWithDefault")
      .. field(3, name .. "_value")
      .. attr("dtype", field(6, message(tensor)[1][1]))
      .. attr("shape", unknown_rank))
end

local GRAPH, INPUT, OUTPUT, GRADIENT = 1, 2, 3, 5 -- fields of a case

-- The weights of output o (golden.proto).
local function weights(o, y)
  local w = {}
  for i = 0, y.size - 1 do w[i + 1] = ((7 * i + 3 * o) % 11 - 5.5) / 8 end
  return core.tensor(core.tensor(w, y.dtype, {y.size}), nil, y.shape)
end

-- The gradients that we make of a case and TensorFlow's, by input.
local function both(case, input)
  local g, bytes = core.graph(), {case[GRAPH][1]}
  local function add(prefix, list, make)
    for i, tensor in ipairs(list) do
      if tensor ~= "" then
        bytes[#bytes + 1] = make(prefix .. i - 1, tensor)
      end
    end
  end
  add("in", case[INPUT], input)
  add("out", case[OUTPUT] or {}, constant)
  add("grad", case[GRADIENT], constant)
  g:import_bytes(table.concat(bytes))
  local ys, xs, ws, want = {}, {}, {}, {}
  for o, tensor in ipairs(case[OUTPUT]) do
    local y = tensor ~= "" and g:edge("out" .. o - 1)
    if y and y.dtype:find "float" then
      ys[#ys + 1] = g:edge("op:" .. o - 1)
      ws[#ws + 1] = weights(o - 1, y)
    end
  end
  for i, tensor in ipairs(case[GRADIENT]) do
    if tensor ~= "" then
      xs[#xs + 1] = g:edge("in" .. i - 1)
      want[#want + 1] = g:edge("grad" .. i - 1)
    end
  end
  return td.gradients(ys, xs, {grad_ys = ws}), want
end

local function dense(x)
  return slices.is(x) and x:dense() or x
end

-- No gradient is as good as zeros.
local function check_case(where, case, input)
  td.reset()
  local got, want = both(case, input)
  for i, w in ipairs(want) do
    local g, precise = got[i], w.dtype == "float64"
    g = g and dense(g) or core.op "ZerosLike"(w)
    local ok, e = pcall(td.test.close, g, w, {rtol = precise and 1e-10 or 1e-5,
                                              atol = precise and 1e-12 or 1e-6})
    lu.assertTrue(ok, ("%s, gradient %d: %s"):format(where, i, tostring(e)))
  end
end

local function check_op(op, cases)
  for i, bytes in ipairs(cases) do
    local case = message(bytes)
    if case[GRADIENT] then
      check_case(("%s, case %d"):format(op, i - 1), case, constant)
      check_case(("%s, case %d, nothing known"):format(op, i - 1), case,
                 unknown)
    end
  end
end

-- ---- the files -------------------------------------------------------------

local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

-- An op's file, and the one of its cases by rank.
for _, op in ipairs(core.op_names()) do
  for _, folder in ipairs{"", "ranks/"} do
    local path = dir .. folder .. op .. ".pb"
    local f = io.open(path, "rb")
    if f then
      f:close()
      tests[folder:gsub("/", "_") .. op] = function()
        check_op(folder .. op, message(read(path))[4])
      end
    end
  end
end

return tests
