-- compare.lua - ops on a card and on the processor, inputs drawn by chance:
--   build/tide tests/cuda/compare.lua [-s SEED] [FAMILY...]
--
-- TensorFlow's answers (tests/rows) are of a few small shapes; here are the
-- others: nothing, one element, one more or less than a warp or a block, odd
-- sizes, operands that begin anywhere in a buffer. A family is a file of lines
-- in tests/cuda/compare, one line an op:
--
--   {"Add", dtypes = {"float32", "half"}, shapes = {{{33}, {1}}, ...},
--    attrs = {...}, units = 1, low = -3, high = 3, special = true}
--
-- shapes   a list of cases, each a list of the inputs: a shape, or {value =
--          literal, dtype = name} for an operand that is given, or {like =
--          dtype, shape...} for one of another dtype than the line's
-- attrs    attributes, the same for all cases; or a list of such
-- units    how far results may be apart, in units in the last place of the
--          largest of them; 0: the same
-- special  floats may be infinite, NaN and 0
-- T        name of the attribute that is to be `dtype`, where no input tells
--
-- The plugin is $TIDE_LIBRARY, or the one on the fake runtime.
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"
local core = require "tide.core"

local here = arg[0]:match "^(.*/)" or ""
local families, seed = {}, 1
do
  local i = 1
  while arg[i] do
    if arg[i] == "-s" then
      seed, i = tonumber(arg[i + 1]), i + 1
    else
      families[#families + 1] = arg[i]
    end
    i = i + 1
  end
end
if #families == 0 then families = {"math", "move", "nn", "rows"} end

td.load_library(os.getenv "TIDE_LIBRARY" or "build/cuda-fake/libtide_cuda.so")
local CARD, HOST = "/device:CUDA:0", "/device:CPU:0"

-- ---- values ----------------------------------------------------------------

local fraction = {float16 = 10, half = 10, bfloat16 = 7, float32 = 23,
  float = 23, complex64 = 23}
local floats = {float16 = true, half = true, bfloat16 = true, float32 = true,
  float64 = true, complex64 = true, complex128 = true}

local function count(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return n
end

local odd = {1 / 0, -1 / 0, 0 / 0, 0.0, -0.0}

local function number(line, dtype)
  local low, high = line.low or -3, line.high or 3
  if floats[dtype] then
    if line.special and math.random(12) == 1 then return odd[math.random(5)] end
    return low + (high - low) * math.random()
  end
  if dtype == "bool" then return math.random(0, 1) end
  if dtype:find "^u" then low = math.max(low, 0) end
  return math.random(math.ceil(low), math.floor(high)) + 0.0
end

local function drawn(line, dtype, n)
  local v = {}
  for i = 1, n do v[i] = number(line, dtype) end
  return core.tensor(v, "float64", {n})
end

-- ---- nodes -----------------------------------------------------------------

local op = setmetatable({}, {__index = function(t, name)
  t[name] = core.op(name)
  return t[name]
end})

local function on(device, f)
  local _ <close> = core.push{device = device}
  return f()
end

-- A fed input of the dtype, made on the host. With `from`, a view of the card's
-- that begins so many elements behind the buffer.
local function input(c, given, dtype, from)
  local shape = {table.unpack(given)} -- without `like`
  local n = count(shape) + from
  local function fed()
    local x = op.Placeholder{dtype = "float64", shape = {n}}
    c.feeds[#c.feeds + 1] = x
    c.values[#c.values + 1] = drawn(c.line, dtype, n)
    return x
  end
  local whole = on(HOST, function()
    local x = fed()
    if dtype:find "complex" then
      return op.Cast(op.Complex(x, fed(), {Tout = "complex128"}),
        {DstT = dtype})
    end
    return op.Cast(x, {DstT = dtype})
  end)
  local function seen()
    local x = from > 0 and op.Slice(whole, {from}, {count(shape)}) or whole
    return op.Reshape(x, core.tensor(shape, "int32", {#shape}))
  end
  return on(HOST, seen), on(from > 0 and CARD or HOST, seen)
end

-- The output as real numbers on the host; of a complex one both parts.
local function parts(y)
  return on(HOST, function()
    local flat = op.Reshape(y, {-1})
    if y.dtype:find "complex" then
      local wide = op.Cast(flat, {DstT = "complex128"})
      return {op.Real(wide, {Tout = "float64"}),
        op.Imag(wide, {Tout = "float64"})}
    end
    return {op.Cast(flat, {DstT = "float64"})}
  end)
end

local function outputs(y)
  if core.kind(y) == "edge" then return {y} end
  local list = {}
  for i, one in ipairs(y) do list[i] = one end
  return list
end

-- ---- comparing -------------------------------------------------------------

local function finite(x)
  return x == x and math.abs(x) < 1 / 0
end

local function near(a, b, allowed)
  if a ~= a or b ~= b then return a ~= a and b ~= b end
  if not finite(a) or not finite(b) then return a == b end
  return math.abs(a - b) <= allowed
end

-- NIL, or what differs.
local function difference(line, dtype, want, got)
  want, got = want:table(), got:table()
  local most, n = 0, #want
  if #got ~= n then return "another shape" end
  for i = 1, n do
    if finite(want[i]) then most = math.max(most, math.abs(want[i])) end
  end
  local unit = floats[dtype] and 2.0 ^ -(fraction[dtype] or 52) or 0
  local allowed = (line.units or 0) * unit * most
  for i = 1, n do
    if not near(want[i], got[i], allowed) then
      return ("element %d is %.17g, on the processor %.17g; %.3g allowed")
        :format(i, got[i], want[i], allowed)
    end
  end
end

-- ---- one case --------------------------------------------------------------

local function text(shapes)
  local s = {}
  for i, one in ipairs(shapes) do
    s[i] = one.value and "value" or "{" .. table.concat(one, ", ") .. "}"
  end
  return table.concat(s, " ")
end

local function build(c, shapes, dtype, attrs, from)
  local left, right, o = {}, {}, {}
  for k, v in pairs(attrs) do o[k] = v end
  if c.line.T then o[c.line.T] = dtype end
  for i, one in ipairs(shapes) do
    if one.value then
      left[i] = core.edge(core.tensor(one.value, one.dtype or "int32"))
      right[i] = left[i]
    else
      left[i], right[i] = input(c, one, one.like or dtype, from)
    end
  end
  if c.line.list then left, right = {left}, {right} end
  local name = c.line[1]
  left[#left + 1], right[#right + 1] = o, o
  local host = on(HOST, function()
    return outputs(op[name](table.unpack(left)))
  end)
  return host,
    on(CARD, function() return outputs(op[name](table.unpack(right))) end)
end

local passed, failed, skipped = 0, 0, 0

local function run_case(line, shapes, dtype, attrs, from)
  local graph = core.graph_new()
  local _ <close> = core.push{graph = graph}
  local c = {line = line, feeds = {}, values = {}}
  local host, card = build(c, shapes, dtype, attrs, from)
  local fetches, at = {}, {}
  for i = 1, #host do
    for k, y in ipairs(parts(host[i])) do
      at[#at + 1] = {#fetches + 1, host[i].dtype}
      fetches[#fetches + 1] = y
      fetches[#fetches + 1] = parts(card[i])[k]
    end
  end
  local session <close> = core.session(graph, {threads = 1,
    soft_placement = false, passes_off = {"fold", "cse"}})
  local got = session:core_run(fetches, c.feeds, c.values, {as_values = true})
  for _, a in ipairs(at) do
    local e = difference(line, a[2], got[a[1]], got[a[1] + 1])
    if e then return e end
  end
end

local function try(line, shapes, dtype, attrs, from)
  local ok, e = xpcall(run_case, function(x)
    return os.getenv "TIDE_TRACE" and debug.traceback(tostring(x))
      or tostring(x)
  end, line, shapes, dtype, attrs, from)
  if ok and not e then
    passed = passed + 1
    return
  end
  failed = failed + 1
  local a = {}
  for k, v in pairs(attrs) do a[#a + 1] = k .. "=" .. tostring(v) end
  print(("%s of %s %s %s%s: %s"):format(line[1], dtype, text(shapes),
    table.concat(a, " "), from > 0 and " from " .. from or "", e))
end

-- Views are of the card where it has Slice and Reshape.
local views = pcall(function()
  local graph = core.graph_new()
  local _ <close> = core.push{graph = graph}
  local y = on(CARD, function()
    return op.Reshape(op.Slice(core.edge(core.tensor({1, 2, 3}, "float32")),
      {1}, {2}), {2, 1})
  end)
  local session <close> = core.session(graph, {soft_placement = false})
  session:core_run({y}, {}, {}, {as_values = true})
end)

local function run_line(line)
  local attrs = line.attrs or {}
  if not attrs[1] then attrs = {attrs} end
  for _, dtype in ipairs(line.dtypes or {"float32"}) do
    for _, a in ipairs(attrs) do
      for _, shapes in ipairs(line.shapes) do
        try(line, shapes, dtype, a, 0)
        if views then
          try(line, shapes, dtype, a, math.random(1, 3))
        else
          skipped = skipped + 1
        end
      end
    end
  end
end

for _, family in ipairs(families) do
  local lines = loadfile(here .. "compare/" .. family .. ".lua")
  if lines then
    for i, line in ipairs(lines()) do
      math.randomseed(seed, i)
      run_line(line)
    end
  end
end
print(("%d passed, %d failed, %d views not tried"):format(passed, failed,
  skipped))
os.exit(failed == 0)
