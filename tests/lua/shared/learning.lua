-- shared/learning.lua - rows that real TensorFlow has computed as well.
--
-- tests/golden/learning/NAME.lua holds each; tests/peers/learning.py says what
-- goes in.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local slices = require "tide.tensor.indexed_slices"
local dtypes = require "tide.tensor.dtype"

local function golden(name)
  return dofile("tests/golden/learning/" .. name .. ".lua")
end
local learning = {}

local function numbers(k, shape, dtype)
  local n, list = 1, {}
  for _, size in ipairs(shape) do n = n * size end
  for i = 0, n - 1 do
    list[i + 1] = math.sin(1 + 0.7 * i + 1.3 * k) / 2
  end
  return td.tensor(td.tensor(list, dtype, {n}), nil, shape)
end

local inputs

--- The next input of a row, in that shape; float64 unless `dtype` says so.
function learning.given(shape, dtype)
  local x = td.constant(numbers(#inputs, shape, dtype or "float64"))
  inputs[#inputs + 1] = x
  return x
end

-- sum(y * cos(i / 2)) over all floats.
local function total(ys)
  local parts = {}
  for _, y in ipairs(ys) do
    if dtypes.is_float(y.dtype) then
      local v = y:reshape{-1}
      local i = td.range(td.size(v)):cast(y.dtype)
      parts[#parts + 1] = (v * td.cos(i / 2)):sum():cast "float64"
    end
  end
  return parts[1] and td.add_n(parts)
end

local function dense(d, x)
  if not d then return td.zeros_like(x) end
  return slices.is(d) and d:dense() or d
end

local function initialise(sess)
  sess:init()
  local names = {}
  for k, v in ipairs(td.global_variables()) do
    names[k] = v.name
    local start = numbers(99 + k, v.shape, v.dtype)
    if v.name:find "variance" then start = start * start + 1 end
    sess:run(v:assign(start))
  end
  return names
end

local function compare(what, got, want, o)
  lu.assertEquals(#got, #want, what)
  for i, w in ipairs(want) do
    local x = got[i]
    local ok, e = pcall(td.test.close, x, td.tensor(w, x.dtype),
                        x.dtype == "float64" and o or nil)
    lu.assertTrue(ok, ("%s %d: %s"):format(what, i, tostring(e)))
  end
end

--- The test of a row: build() -> tensors gives what TensorFlow gave, and so do
-- the gradients, the names of the variables, and what they are after the ops
-- of the collection "update_ops" have run.
function learning.test(name, build, o)
  o = o or {rtol = 1e-9, atol = 1e-11}
  return function()
    inputs = {}
    local want = golden(name)
    local ys = table.pack(build(learning.given))
    local weights, xs = td.trainable_variables(), {}
    for _, x in ipairs(inputs) do
      if dtypes.is_float(x.dtype) then xs[#xs + 1] = x end
    end
    table.move(weights, 1, #weights, #xs + 1, xs)
    local loss, ds = want.gradients and total(ys), {}
    for i, d in ipairs(loss and td.gradients(loss, xs) or {}) do
      ds[i] = dense(d, xs[i])
    end
    local sess <close> = td.session()
    lu.assertEquals(initialise(sess), want.variables or {})
    local values, gradients = table.unpack(
      sess:run({{table.unpack(ys)}, ds}, nil, {as_values = true}))
    compare("value", values, want.values, o)
    compare("gradient", gradients, want.gradients or {}, o)
    if want.after then
      sess:run(td.get_collection "update_ops")
      local after = {}
      for _, v in ipairs(td.global_variables()) do
        if not v.trainable then
          after[#after + 1] = sess:run(v, nil, {as_values = true})
        end
      end
      compare("after", after, want.after, o)
    end
  end
end

--- The test of a metric: build(given) -> value, update. given(shape) is one of
-- three batches. After each the value is what TensorFlow gave, and so is the
-- update.
function learning.stream_test(name, build)
  return function()
    inputs = {}
    local want = golden(name).values
    local batch = td.placeholder("int32", {})
    local value, update = build(function(shape)
      return td.gather(learning.given{3, table.unpack(shape)}, batch)
    end)
    local sess <close> = td.session()
    sess:init()
    local values, updates = {}, {}
    for k = 1, 3 do
      updates[k] = sess:run(update, {[batch] = k - 1}, {as_values = true})
      values[k] = sess:run(value, nil, {as_values = true})
    end
    compare("value", values, want)
    compare("update", updates, want)
  end
end

return learning
