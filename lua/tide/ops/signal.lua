--- ops/signal.lua - Fourier transforms of reals, and what is built on them:
-- frames, windows, spectrograms, cosine transforms. td.signal has them too.
--
-- A signal is the last axis; axes before it are a batch.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local dtypes = require "tide.tensor.dtype"
local errors = require "tide.base.errors"
local namespace = require "tide.ops"

local ops = namespace.ops

namespace.not_methods{"hann_window", "hamming_window"}

-- ---- sizes: numbers where they are known, else graph tensors --------------

-- Size `axis` of x.
local function size(x, axis)
  local known = x.shape and x:dim(axis)
  return math.type(known) and known or ops.shape(x)[axis]
end

local function known(...)
  for _, n in ipairs{...} do
    if not math.type(n) then return false end
  end
  return true
end

local function larger(a, b)
  return known(a, b) and math.max(a, b) or ops.maximum(a, b)
end

-- A vector of sizes.
local function vector(list)
  return known(table.unpack(list)) and core.tensor(list, "int32")
    or ops.stack(list)
end

-- As many zeros.
local function origin(rank)
  local list = {}
  for i = 1, rank do list[i] = 0 end
  return vector(list)
end

-- x with `n` values more at the end of axis -1 (or -2), as Pad wants it.
local function more(x, n, axis, fill)
  if n == 0 then return x end
  local before = x.rank or errors.invalid("a signal of unknown rank")
  local pads = {}
  for i = 1, before do
    pads[i] = vector{0, i == before + axis + 1 and n or 0}
  end
  return ops.pad(x, ops.stack(pads), {constant_values = fill})
end

-- ---- transforms of reals --------------------------------------------------

-- x as a tensor of one of the dtypes that `table` has.
local function of_kind(x, table, fallback, what)
  if not args.is_tensor(x) then x = core.tensor(x, fallback) end
  if not table[x.dtype] then
    errors.invalid("%s takes %s, not %s; cast it first", what,
      table.float32 and "float32 or float64" or "complex64 or complex128",
      x.dtype)
  end
  return x
end

-- An integer, a tensor, or a list of these.
local function check_lengths(given, what)
  local list = type(given) == "table" and given or {given}
  for _, n in ipairs(list) do
    if math.type(n) ~= "integer" and not args.is_tensor(n) then
      errors.invalid("%s: fft_length must be whole numbers, one for each axis, "
        .. "not %s", what, args.what(n))
    end
  end
  return list == given and given or args.is_tensor(given) and given or list
end

-- The lengths that were given, or those of x: of the last axis made by
-- `of_last`.
local function lengths(x, given, axes, of_last, what)
  if given ~= nil then return check_lengths(given, what) end
  local list = {}
  for i = 1, axes do list[i] = size(x, i - axes - 1) end
  list[axes] = of_last(list[axes])
  return list
end

-- How much is missing at the end of each axis of x for its last ones to have
-- the `wanted` sizes; nil where nothing is. Nothing of x need be known.
local function missing(x, wanted)
  local list, any = {}, false
  for i, want in ipairs(wanted) do
    local has = x.shape and size(x, i - #wanted - 1)
    if not x.shape or not known(has, want) then
      local more_of = ops.maximum(
        vector(wanted) - ops.shape(x)[-#wanted .. ":"], 0)
      return ops.concat({ops.fill(ops.stack{ops.rank(x) - #wanted}, 0),
                         more_of}, 0)
    end
    list[x.rank - #wanted + i] = math.max(want - has, 0)
    any = any or want > has
  end
  for i = 1, any and x.rank - #wanted or 0 do list[i] = 0 end
  return any and vector(list) or nil
end

-- x, where its last axes are shorter than these, with zeros.
local function long_enough(x, wanted)
  local after = missing(x, wanted)
  return after and ops.pad(x, ops.stack({after * 0, after}, 1)) or x
end

-- The lengths as a list, of a tensor that holds them too.
local function listed(length, axes)
  if not args.is_tensor(length) then return length end
  local list = {}
  for i = 1, axes do list[i] = length[i - 1] end
  return list
end

local function transform(name, axes, back)
  local op = name:upper()
  local from = back and dtypes.part or dtypes.whole
  local fallback = back and "complex64" or "float32"
  local function last(n) return back and larger((n - 1) * 2, 0) or n end
  ops[name] = function(x, fft_length, o)
    if args.has_names(fft_length) and o == nil then
      fft_length, o = fft_length.fft_length, fft_length
    end
    o = args.read(o, {"name", "fft_length"}, name)
    x = of_kind(x, from, fallback, name)
    if x.rank and x.rank < axes then
      errors.invalid("%s takes at least %d axes, given a tensor of rank %d",
                     name, axes, x.rank)
    end
    local length = lengths(x, fft_length, axes, last, name)
    local list = {table.unpack(listed(length, axes))}
    if #list == axes then
      if back then list[axes] = list[axes] // 2 + 1 end
      x = long_enough(x, list)
    end
    if not args.is_tensor(length) then length = vector(length) end
    return core.op(op)(x, length, {
      name = o.name, [back and "Treal" or "Tcomplex"] = from[x.dtype]})
  end
end

--- The first half of the Fourier transform of reals over the last axis, n / 2 +
-- 1 numbers. `fft_length` (the size of x) cuts x or adds zeros.
-- @function ops.rfft(x, fft_length, o)
-- @usage td.rfft{1.0, 2.0, 3.0, 4.0}  --> 10+0i -2+2i -2+0i
transform("rfft", 1)
--- The same over the last two axes; `fft_length` is a list of two.
-- @function ops.rfft2d(x, fft_length, o)
-- @usage td.rfft2d{{1.0, 2.0}, {3.0, 4.0}}  --> 10+0i -2+0i -4+0i 0+0i
transform("rfft2d", 2)
--- The same over the last three axes.
-- @function ops.rfft3d(x, fft_length, o)
-- @usage td.rfft3d{{{1.0, 2.0}}}  --> 3+0i -1+0i
transform("rfft3d", 3)
--- The reals of which x is the first half of the transform; `fft_length` is
-- 2 (n - 1) without another, and must be given where it is odd.
-- @function ops.irfft(x, fft_length, o)
-- @usage td.irfft(td.rfft{1.0, 2.0, 3.0, 4.0})  --> 1 2 3 4
transform("irfft", 1, true)
--- The same over the last two axes.
-- @function ops.irfft2d(x, fft_length, o)
-- @usage td.irfft2d(td.rfft2d{{1.0, 2.0}})  --> 1 2
transform("irfft2d", 2, true)
--- The same over the last three axes.
-- @function ops.irfft3d(x, fft_length, o)
-- @usage td.irfft3d(td.rfft3d{{{1.0, 2.0}}})  --> 1 2
transform("irfft3d", 3, true)

-- x rolled by half of each of `axes` (all), or back.
local function shift(name, back)
  ops[name] = function(x, axes, o)
    o = args.read(o, {"name"}, name)
    x = args.tensor(x)
    if math.type(axes) == "integer" then axes = {axes} end
    if not axes then
      axes = {}
      for i = 1, x.rank or errors.invalid("%s needs axes", name) do
        axes[i] = i - 1
      end
    end
    local by = {}
    for i, axis in ipairs(axes) do
      local half = size(x, axis) // 2
      by[i] = back and 0 - half or half
    end
    return core.op "Roll"(x, vector(by), vector(axes), {name = o.name})
  end
end

--- x with frequency 0 in the middle of `axes` (all without it).
-- @function ops.fftshift(x, axes, o)
-- @usage td.fftshift{0, 1, 2, -2, -1}  --> -2 -1 0 1 2
shift("fftshift")
--- What undoes fftshift.
-- @function ops.ifftshift(x, axes, o)
-- @usage td.ifftshift{-2, -1, 0, 1, 2}  --> 0 1 2 -2 -1
shift("ifftshift", true)

-- ---- windows --------------------------------------------------------------

-- a - (1 - a) cos(2 pi i / n).
local function window(name, a)
  ops[name] = function(length, o)
    o = args.read(o, {"periodic", "dtype"}, name)
    if math.type(length) ~= "integer" or length < 0 then
      errors.invalid("%s takes a length, an integer from 0 on", name)
    end
    local n = length - (o.periodic ~= false and length % 2 == 0 and 0 or 1)
    local list = {}
    for i = 1, length do
      local angle = n == 0 and math.pi or 2 * math.pi * (i - 1) / n
      list[i] = a - (1 - a) * math.cos(angle)
    end
    return core.tensor(list, o.dtype or "float32")
  end
end

--- The Hann window of a length, periodic unless told otherwise.
-- @function ops.hann_window(length, o)
-- @usage td.hann_window(4)  --> 0 0.5 1 0.5
window("hann_window", 0.5)
--- The Hamming window of a length, periodic unless told otherwise.
-- @function ops.hamming_window(length, o)
-- @usage td.hamming_window(4, {periodic = false})  --> 0.08 0.77 0.77 0.08
window("hamming_window", 0.54)

-- ---- frames ---------------------------------------------------------------

-- Lengths and steps are integers from 1 on.
local function positive(what, name, n)
  if math.type(n) ~= "integer" or n < 1 then
    errors.invalid("%s: %s is an integer from 1 on, not %s", what, name,
                   tostring(n))
  end
end

--- The signal in frames of `length` that begin every `step`, on a new axis.
-- Option pad_end: also those that reach over the end, with pad_value (0).
-- @usage td.signal.frame({1, 2, 3, 4, 5}, 3, 2)  --> 1 2 3 3 4 5
function ops.frame(x, length, step, o)
  o = args.read(o, {"pad_end", "pad_value", "name"}, "frame")
  positive("frame", "length", length)
  positive("frame", "step", step)
  x = args.tensor(x)
  local n = size(x, -1)
  local count = larger((n - length) // step + 1, 0)
  if o.pad_end then
    count = (n + step - 1) // step
    x = more(x, larger((count - 1) * step + length - n, 0), -1,
             o.pad_value or 0)
  end
  local first = ops.expand_dims(core.op "Range"(0, count * step, step), 1)
  local each = first + core.op "Range"(0, length, 1)
  return ops.gather(x, each, -1, {name = o.name})
end

--- Frames, in the last two axes, added up at every `step`: what undoes frame
-- for frames that do not overlap.
-- @usage td.signal.overlap_and_add({{1, 2}, {3, 4}}, 1)  --> 1 5 4
function ops.overlap_and_add(x, step, o)
  o = args.read(o, {"name"}, "overlap_and_add")
  positive("overlap_and_add", "step", step)
  x = args.tensor(x)
  local frames, length = size(x, -2), size(x, -1)
  local parts = (length + step - 1) // step -- of a frame, each a step long
  local lead = ops.shape(x)["0:-2"]
  x = more(more(x, parts * step - length, -1), parts, -2)
  local function as(...)
    x = ops.reshape(x, ops.concat({lead, vector{...}}, 0))
  end
  local rank = x.rank + 1
  as(frames + parts, parts, step)
  local perm = {}
  for i = 1, rank do perm[i] = i - 1 end
  perm[rank - 2], perm[rank - 1] = rank - 2, rank - 3
  x = ops.transpose(x, perm)
  as((frames + parts) * parts, step) -- one row less: each part moves on by one
  x = ops.slice(x, origin(rank - 1),
                ops.concat({lead, vector{(frames + parts - 1) * parts, step}},
                           0))
  as(parts, frames + parts - 1, step)
  x = ops.sum(x, -3)
  as((frames + parts - 1) * step)
  return ops.slice(x, origin(rank - 2), ops.concat(
    {lead, vector{larger((frames - 1) * step + length, 0)}}, 0),
    {name = o.name})
end

-- The window of a length from the option window_fn: hann_window without it,
-- none when it is false.
local function windowed(x, length, o)
  if o.window_fn == false then return x end
  local f = o.window_fn or ops.hann_window
  return x * f(length, {dtype = x.dtype})
end

local function power_of_two(n)
  local p = 1
  while p < n do p = p * 2 end
  return p
end

--- The short-time Fourier transform: that of windowed frames. Options
-- fft_length (the power of two that holds a frame), window_fn(length, {dtype =
-- t}) (hann_window; false: none), pad_end.
-- @usage td.signal.stft(td.ones{16}, 8, 4).shape  --> {3, 5}
function ops.stft(x, length, step, o)
  o = args.read(o, {"fft_length", "window_fn", "pad_end", "name"}, "stft")
  x = of_kind(x, dtypes.whole, "float32", "stft")
  local frames = ops.frame(x, length, step, {pad_end = o.pad_end})
  return ops.rfft(windowed(frames, length, o),
                  {o.fft_length or power_of_two(length)}, {name = o.name})
end

--- Signals from short-time transforms: frames, windowed and added up. Options
-- fft_length, window_fn as stft; inverse_stft_window_fn makes the window that
-- undoes an stft.
function ops.inverse_stft(x, length, step, o)
  o = args.read(o, {"fft_length", "window_fn", "name"}, "inverse_stft")
  positive("inverse_stft", "length", length)
  x = of_kind(x, dtypes.part, "complex64", "inverse_stft")
  local n = o.fft_length or power_of_two(length)
  local frames = ops.irfft(x, {n})
  if n > length then frames = frames[(".., :%d"):format(length)] end
  if n < length then frames = more(frames, length - n, -1) end
  return ops.overlap_and_add(windowed(frames, length, o), step,
                             {name = o.name})
end

--- A window_fn for inverse_stft which undoes an stft of frames every `step`
-- with the window `forward` (hann_window).
function ops.inverse_stft_window_fn(step, forward)
  positive("inverse_stft_window_fn", "step", step)
  return function(length, o)
    local w = (forward or ops.hann_window)(length, o)
    local parts = (length + step - 1) // step
    local squares = ops.reshape(more(ops.square(w), parts * step - length, -1),
                                {parts, step})
    local sum = ops.tile(ops.sum(squares, 0), {parts})[(":%d"):format(length)]
    return ops.div_no_nan(w, sum)
  end
end

-- ---- cosine transforms ----------------------------------------------------

-- exp(i k sign pi / 2n) for k < n, twice.
local function turns(n, sign, t)
  local re, im = {}, {}
  for k = 1, n do
    local angle = sign * (k - 1) * math.pi / (2 * n)
    re[k], im[k] = 2 * math.cos(angle), 2 * math.sin(angle)
  end
  return ops.complex(core.tensor(re, t), core.tensor(im, t))
end

-- The first of n numbers times a, the others times b.
local function weights(n, a, b, t)
  local list = {a}
  for k = 2, n do list[k] = b end
  return core.tensor(list, t)
end

local cosine = {}

cosine[1] = function(x)
  return ops.real(ops.rfft(ops.concat({x, ops.reverse(x["..., 1:-1"], -1)},
                                      -1)))
end

cosine[2] = function(x, n, t, ortho)
  local y = ops.rfft(x, {2 * n})[("..., :%d"):format(n)] * turns(n, -1, t)
  y = ops.real(y)
  local a = 0.5 / math.sqrt(n)
  return ortho and y * weights(n, a, a * math.sqrt(2), t) or y
end

cosine[3] = function(x, n, t, ortho)
  local a = math.sqrt(n)
  x = x * (ortho and weights(n, a, a * math.sqrt(0.5), t)
           or weights(n, n + 0.0, n + 0.0, t))
  local z = turns(n, 1, t) * ops.complex(x, ops.zeros_like(x))
  return ops.irfft(z, {2 * n})[("..., :%d"):format(n)]
end

cosine[4] = function(x, n, t, ortho)
  local y = cosine[2](more(x, n, -1), 2 * n, t)["..., 1::2"]
  return ortho and y * math.sqrt(0.5 / n) or y
end

local function cosine_transform(what, kinds)
  return function(x, o)
    o = args.read(o, {"type", "n", "norm", "name"}, what)
    local kind, ortho = o.type or 2, o.norm == "ortho"
    if not kinds[kind] or o.norm ~= nil and not ortho
       or ortho and kind == 1 then
      errors.invalid("%s: type is 1 to 4, and norm \"ortho\" for 2 to 4", what)
    end
    x = of_kind(x, dtypes.whole, "float32", what)
    local n = size(x, -1)
    if o.n then
      positive(what, "n", o.n)
      x = ops.slice(x, origin(x.rank), ops.concat(
        {ops.shape(x)["0:-1"], vector{known(n) and math.min(n, o.n)
                                      or ops.minimum(n, o.n)}}, 0))
      x = more(x, larger(o.n - n, 0), -1)
      n = o.n
    end
    if not known(n) or n < (kind == 1 and 2 or 1) then
      errors.invalid("%s: the size of the last axis must be known, and 1 (of "
                     .. "type 1: 2) at least; option n gives it", what)
    end
    return ops.identity(cosine[kinds[kind]](x, n, x.dtype, ortho), o.name)
  end
end

--- The cosine transform of the last axis. Options type (2; 1 to 4), n (its
-- length: x is cut or gets zeros), norm ("ortho").
-- @function ops.dct(x, o)
-- @usage td.signal.dct{1.0, 1.0}  --> 4 0
ops.dct = cosine_transform("dct", {1, 2, 3, 4})
--- What undoes dct of the same type, but for a factor; options as dct.
-- @function ops.idct(x, o)
-- @usage td.signal.idct({1.0, 0.0}, {norm = "ortho"})  --> 0.7071 0.7071
ops.idct = cosine_transform("idct", {1, 3, 2, 4})
