--- run/config.lua - what there is on this machine, and what sessions take of
-- it.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local session = require "tide.run.session"

local config = {}

--- Names of the devices that the default session sees, or would see.
function config.devices()
  local sess = session.get_default_session()
  if sess then return sess:devices() end
  return core.devices(session.defaults.cpu_devices or 1)
end

--- This process among those of a session: "/job:localhost/replica:0/task:0".
function config.place()
  return (core.devices(1)[1]:gsub("/device:.*$", ""))
end

-- ---- memory ---------------------------------------------------------------

local limit -- as it was given last: bytes, {CUDA = bytes}, or nil: the usual

-- A number of bytes, such as 8e9.
local function bytes_of(x, what)
  local n = math.type(x) and math.tointeger(x)
  if not n or n < 0 then
    errors.invalid("config: %s must be a number of bytes, or 0 for what is "
      .. "usual, not %s", what, math.type(x) and tostring(x) or args.what(x))
  end
  return n
end

-- "CUDA" of "GPU". Other names are those of devices that there are.
local function type_of(name)
  local known = {CPU = true, CUDA = true, GPU = true}
  if not known[name] then
    for _, device in ipairs(config.devices()) do
      known[device:match "/device:([^:]*)"] = true
    end
  end
  if not known[name] then
    errors.invalid("config: memory_limit: no device is of type \"%s\"%s; there "
      .. "are %s", tostring(name), errors.did_you_mean(tostring(name),
      args.sorted_keys(known)), table.concat(args.sorted_keys(known), ", "))
  end
  return name == "GPU" and "CUDA" or name
end

-- All is read before anything is set.
local function set_limit(given)
  local of = {}
  if args.plain(given) then
    for name, bytes in pairs(given) do
      of[type_of(name)] = bytes_of(bytes, "memory_limit of "
                                           .. tostring(name))
    end
  else
    core.limit_memory(bytes_of(given, "memory_limit"))
  end
  for kind, bytes in pairs(of) do core.limit_memory(bytes, kind) end
  limit = args.plain(given) and of or given > 0 and bytes_of(given) or nil
end

-- ---- how devices compute --------------------------------------------------

local matmuls = {"float32", "tf32", "bfloat16"}

local function set_precision(o)
  local now = core.precision()
  local function or_now(given, was)
    if given == nil then return was end
    return given
  end
  core.set_precision(o.matmul or now.matmul,
                     or_now(o.deterministic, now.deterministic),
                     or_now(o.cuda_sync, now.sync))
end

-- ---- all ------------------------------------------------------------------

local of_sessions = {"threads", "cpu_devices", "soft_placement", "passes_off",
                     "cache"}
local of_devices = {"memory_limit", "deterministic", "matmul", "cuda_sync"}
local types = {deterministic = "boolean", matmul = "string",
               cuda_sync = "boolean"}

local function read(o)
  local known = table.move(of_devices, 1, #of_devices, #of_sessions + 1,
                           {table.unpack(of_sessions)})
  o = args.read(o, known, "config")
  args.expect_all(args.expect_all(o, session.types), types)
  if o.matmul and not args.holds(matmuls, o.matmul) then
    errors.invalid("config: matmul is one of %s, not \"%s\"%s",
      table.concat(matmuls, ", "), o.matmul,
      errors.did_you_mean(o.matmul, matmuls))
  end
  return o
end

--- Defaults for sessions made later: threads, cpu_devices (1), soft_placement
-- (true), passes_off, cache. And what holds for this process at once, for the
-- sessions that there are from their next step on; workers have their own:
--
-- memory_limit: bytes that tensors may take of the memory of each device, of
-- all CPUs together; {CUDA = 8e9}: of those of a type; 0: the usual, which is
-- 80 % of the machine's or its control group's, nine tenths of what a card has
-- free. A step that needs more ends with resource_exhausted, which names the
-- largest tensors.
--
-- matmul: what accelerators may take in place of float32 inside products and
-- convolutions: "float32" (nothing else), "tf32" (10 bits of mantissa) or
-- "bfloat16" (7); they sum in float32. CPUs always compute in float32.
--
-- deterministic: accelerators take no form of an op whose bits differ from run
-- to run, though another is faster.
--
-- cuda_sync: each kernel of a card is waited for, so that an error which stops
-- the card is that of its node; steps are slower. TIDE_CUDA_SYNC=1 does so,
-- too.
-- @param[opt] o options; what is not given stays as it is
-- @return what is set, and the machine's part as .machine
-- @raise invalid_argument for what is no option, or not of its kind
-- @usage td.config{memory_limit = 4e9, matmul = "tf32"}.matmul  --> tf32
function config.config(o)
  o = read(o)
  if o.memory_limit ~= nil then set_limit(o.memory_limit) end
  set_precision(o)
  for _, k in ipairs(of_sessions) do
    if o[k] ~= nil then session.defaults[k] = o[k] end
  end
  local precision = core.precision()
  local out = {machine = core.machine(), memory_limit = limit,
               matmul = precision.matmul, cuda_sync = precision.sync,
               deterministic = precision.deterministic}
  for k, v in pairs(session.defaults) do out[k] = v end
  return out
end

return config
