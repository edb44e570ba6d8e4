--- doctor/machine.lua - the processor, the libraries, and whether they compute.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local libraries = require "tide.doctor.libraries"
local spec = require "tide.jupyter.spec"
local td = require "tide"

local function processor(r)
  local m = core.machine()
  local count, quota = core.processors()
  local text = ("kernels for %s, %d thread%s on %d processor%s"):format(m.isa,
    m.threads, m.threads == 1 and "" or "s", count, count == 1 and "" or "s")
  if quota > 0 then text = text .. (", a quota of %d"):format(quota) end
  if m.isa ~= m.best_isa then
    r:note("processor", ("%s; it has %s"):format(text, m.best_isa),
           "unset TIDE_ISA")
  else
    r:ok("processor", text)
  end
end

-- Without them Tide computes with code of its own, slower.
local function doors(r)
  local found = core.doors()
  for _, row in ipairs(libraries.doors) do
    local d = found[row.name]
    if d.used then
      r:ok(row.name, d.about)
    else
      r:problem(row.name, d.about .. "; Tide computes without it, slower",
                "apt-get install " .. row.package)
    end
  end
end

local function optional(r)
  for _, row in ipairs(libraries.optional) do
    local found = libraries.find(row)
    if found then
      r:ok(row.name, found)
    else
      r:note(row.name, "not found; " .. row.use .. " will not work",
             "apt-get install " .. row.package)
    end
  end
end

local function zeromq(r)
  local about = spec.zeromq()
  if not about then
    r:problem("libzmq", "this program does not tell")
  elseif about.curve then
    r:ok("libzmq", about.zmq .. ", with encryption (curve)")
  else
    r:note("libzmq", about.zmq .. ", without encryption (curve)",
           "apt-get install libzmq5, which has it")
  end
end

-- Devices of libraries beside Tide's own.
local function plugins(r)
  for _, line in ipairs(libraries.plugins()) do
    if line.ok then
      r:ok(line.name, line.text)
    else
      r:note(line.name, line.text, line.broken and "make rebuilds it" or nil)
    end
  end
end

-- A product whose result is known, through the whole engine.
local function computes(r)
  local ok, why = pcall(function()
    local graph = td.graph()
    local _ <close> = graph:as_default()
    local x = td.constant{{1.0, 2.0}, {3.0, 4.0}}
    local y = td.session{graph = graph}:run(x:matmul(x))
    local t = y:table()
    assert(t[1][1] == 7 and t[1][2] == 10 and t[2][1] == 15 and t[2][2] == 22,
           "a product is wrong: " .. tostring(y))
  end)
  if ok then
    r:ok("engine", "a graph runs, and its result is right")
  else
    r:problem("engine", tostring(why), "make test tells more")
  end
end

--- What Tide runs on.
return function(r)
  r:begin "machine"
  processor(r)
  doors(r)
  zeromq(r)
  optional(r)
  plugins(r)
  computes(r)
end
