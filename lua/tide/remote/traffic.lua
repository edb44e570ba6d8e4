--- remote/traffic.lua - what goes between processes: fewer bits of it, and how
-- much it was.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"

local traffic = {}

local NARROW = {Identity = {_wire = "bfloat16"}}

--- x, whose values go to other processes in 16 bits: half the bytes, and eight
-- bits of each float's mantissa. In the same process it stays as it is. The
-- gradient goes in full.
-- @param x a float32 tensor
-- @param[opt] dtype what it travels as: "bfloat16"
-- @usage td.on_wire(td.constant{1.0, 2.0})  --> 1 2
function traffic.on_wire(x, dtype)
  if dtype ~= nil and dtype ~= "bfloat16" then
    errors.invalid("on_wire: float32 travels as \"bfloat16\" or as it is, not "
      .. "as \"%s\"", tostring(dtype))
  end
  if not args.is_tensor(x) or core.edge(x).dtype ~= "float32" then
    errors.invalid("on_wire: what goes in 16 bits is a float32 tensor, not %s",
                   args.is_tensor(x) and core.edge(x).dtype or args.what(x))
  end
  x = core.edge(x)
  local _ <close> = core.push{colocate = x.op, device = false,
                              device_fn = false, notes = NARROW}
  return core.add("Identity", {x}, nil, "on_wire")
end

-- What a worker's text of numbers has, by its own names.
local COUNTS = {sent_bytes = "tide_sent_bytes_total",
                sent_messages = "tide_sent_messages_total",
                copied = "tide_values_copied_bytes_total"}
local MEMORY = {memory = "tide_device_memory_bytes",
                memory_peak = "tide_device_memory_peak_bytes"}

local function number(text) return math.tointeger(tonumber(text)) end

local function read_numbers(text)
  local out = {memory = 0, memory_peak = 0}
  for how, n in text:gmatch 'tide_values_total{how="(%l+)"} (%S+)' do
    out[how] = number(n)
  end
  for name, at in pairs(COUNTS) do
    out[name] = number(text:match("\n" .. at .. " (%S+)"))
  end
  for name, at in pairs(MEMORY) do -- devices of a kind share it
    for n in text:gmatch(at .. "{[^}]*} (%S+)") do
      out[name] = math.max(out[name], number(n))
    end
  end
  return out
end

--- What this process sent to others and got from them so far: counts of values
-- {eager = that rode along in messages, offered = that did not, narrowed = of
-- both, in 16 bits, slowed = of these, on a slow link (td.session's compress),
-- pulled = that came in chunks, shared = through shared memory, unshared = that
-- could not, dropped = that nobody wanted}, and copied, bytes of what came.
-- TIDE_REMOTE_OFF, words with commas between, leaves ways out: shm, eager,
-- wanted (all is pulled at once), narrow; TIDE_OFF=one_recv sends a value once
-- for each node that needs it. `tide cluster bench` shows what each is worth.
--
-- With a session, of its workers: by task, the same of each process and
-- sent_bytes, sent_messages, of all that it says to anybody; memory,
-- memory_peak, bytes of tensors there, and the most there were.
-- @param[opt] sess a session of this process
-- @raise unavailable where a worker does not answer
-- @usage td.traffic().narrowed  --> 0
function traffic.traffic(sess)
  if sess == nil then return core.remote_traffic() end
  local out = {}
  for _, row in ipairs(core.remote_rows(sess)) do
    if row.state ~= "dead" and row.task then
      out[row.task] = read_numbers(core.remote_stats(sess, row.task))
    end
  end
  return out
end

return traffic
