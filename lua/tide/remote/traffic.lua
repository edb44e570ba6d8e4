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

--- What this process sent to others and got from them so far: counts of values
-- {eager = that rode along in messages, offered = that did not, narrowed = of
-- both, in 16 bits, slowed = of these, on a slow link (td.session's compress),
-- pulled = that came in chunks, shared = through shared memory, unshared = that
-- could not, dropped = that nobody wanted}, and copied, bytes of what came.
-- TIDE_REMOTE_OFF, words with commas between, leaves ways out: shm, eager,
-- wanted (all is pulled at once), narrow; TIDE_OFF=one_recv sends a value once
-- for each node that needs it. `tide cluster bench` shows what each is worth.
-- @usage td.traffic().narrowed  --> 0
function traffic.traffic()
  return core.remote_traffic()
end

return traffic
