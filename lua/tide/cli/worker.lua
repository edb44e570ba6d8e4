--- cli/worker.lua - `tide worker`: runs parts of graphs for those who attach.
--
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local flags = require "tide.script.flags"
local keys = require "tide.remote.keys"
local op_library = require "tide.graph.op_library"
local server = require "tide.remote.server"

local USAGE = [[
usage: tide worker --listen ADDRESS [--job worker] [--task 0] [options]
       tide worker --cluster FILE --job JOB --task N [options]

Runs parts of graphs for those who attach to it (sess:attach), until SIGINT or
SIGTERM. ADDRESS is tcp://HOST:PORT (port 0: any that is free; what goes over
tcp is encrypted) or ipc:///PATH in a folder that only its user may enter.

  --cluster FILE     a JSON file of jobs and addresses (td.cluster): says where
                     the task listens
  --cpu-devices N    how many CPU devices it has (1)
  --threads N        how many threads a step gets (all)
  --memory-limit N   bytes of tensors; 512M, 8G (80 % of the machine's)
  --library FILES    op libraries to load, with commas between
  --advertise ADDR   what others dial, where that is not ADDRESS
  --data-port N      the second port, for bulk data (any that is free)
  --key FILE         its secret key, tide.key, or its folder (~/.config/tide,
                     where a pair is made once, as by tide keygen)
  --allow FILE       the public keys of those who may attach, a line each, as in
                     their tide.pub; # begins a comment (whoever knows the
                     worker's public key)
  --metrics H:PORT   its numbers for Prometheus, over HTTP, which is neither
                     encrypted nor asks for a key; a PORT alone is one of
                     127.0.0.1
  --patience N       others count as dead after N x 5 s of silence
                     (TIDE_PATIENCE, or 1): more where machines have far too
                     much to do; give it to clients too

A line tells when it is ready, and over tcp a second one its public key, a third
one where that is kept. Processes of the same user on this machine find the key
by the address.

Tensors beyond the memory limit are an error of their step. The process takes at
most an eighth and 512 MiB more, for graphs and messages; the exit code is 71
when a library cannot go on at that. Else it is 0 after a signal, 1 after an
error, 2 for words that are wrong.
]]

local DEFAULTS = {listen = "", job = "", task = -1, cluster = "",
                  cpu_devices = 0, threads = 0, memory_limit = "",
                  library = "", advertise = "", data_port = 0, key = "",
                  allow = "", metrics = "", patience = 0.0}

local NOT_KEPT = "its pair is new, and goes with this process: "

local units = {[""] = 1, K = 1 << 10, M = 1 << 20, G = 1 << 30, T = 1 << 40}

-- Bytes of "8G".
local function bytes_of(text)
  local number, unit = text:upper():match "^(%d+%.?%d*)([KMGT]?)I?B?$"
  local n = number and tonumber(number) * units[unit]
  if not n or n < 1 or n >= 2^62 then
    errors.invalid("--memory-limit is a number of bytes such as 8G, given "
      .. "\"%s\"", text)
  end
  return math.floor(n)
end

local function given(x, none)
  if x ~= none then return x end
end

local function options(f)
  return {listen = given(f.listen, ""), job = given(f.job, ""),
          task = given(f.task, -1), cluster = given(f.cluster, ""),
          cpu_devices = given(f.cpu_devices, 0), threads = given(f.threads, 0),
          memory_limit = f.memory_limit ~= "" and bytes_of(f.memory_limit)
            or nil,
          advertise = given(f.advertise, ""),
          data_port = given(f.data_port, 0), key = given(f.key, ""),
          allow = given(f.allow, ""), metrics = given(f.metrics, ""),
          patience = given(f.patience, 0.0)}
end

-- Makes the user's pair where he has none, so that a worker that is started
-- again is the same to those who know its key. Two may begin at once.
local function keep_key()
  local ok, why = pcall(keys.public)
  if ok or why.code ~= "not_found" then return "" end
  local made, key, folder = pcall(keys.generate)
  if made then
    return "its pair is new, and kept in " .. folder
  end
  if key.code == "already_exists" then return "" end
  return NOT_KEPT .. tostring(key)
end

local function kept_in()
  local ok, key, folder = pcall(keys.public)
  return ok and "its pair is kept in " .. folder or NOT_KEPT .. tostring(key)
end

-- What is said of the key: which it is, and where it stays.
local function key_lines(s, f, made)
  if not s.public_key then return "" end
  return ("public key %s\n%s\n"):format(s.public_key, f.key ~= ""
    and "its pair is that of " .. f.key or made ~= "" and made or kept_in())
end

local function act(f)
  local own = f.key == "" and not f.listen:find "^ipc:"
  local made = own and keep_key() or ""
  for path in f.library:gmatch "[^,]+" do op_library.load_library(path) end
  local s = server.server(options(f))
  server.serve(s, function()
    io.write(("tide worker /job:%s/task:%d listens on %s\n%s%s"):format(s.job,
      s.task, s.target, key_lines(s, f, made), s.metrics
      and "metrics at " .. s.metrics .. "\n" or ""))
    io.flush()
  end)
end

--- Runs the command; returns its exit code.
return function(words)
  if args.holds(words, "--help") or args.holds(words, "-h") then
    io.write(USAGE)
    return 0
  end
  local ok, f = pcall(flags.flags, DEFAULTS, words)
  if not ok or #f > 0 or f.listen == "" and f.cluster == "" then
    if not ok then io.stderr:write("tide: ", f.message, "\n\n") end
    io.stderr:write(USAGE)
    return 2
  end
  local done, why = pcall(act, f)
  if done then return 0 end
  io.stderr:write("tide: ", tostring(why), "\n")
  return 1
end
