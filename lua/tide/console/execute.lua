--- console/execute.lua - service "execute": runs a cell.
--
-- SPDX-License-Identifier: Apache-2.0

local front = require "tide.front"
local json = require "tide.json"
local cell = require "tide.console.cell"
local bundle = require "tide.console.bundle"
local publish = require "tide.console.publish"
local traceback = require "tide.console.traceback"

-- The values a cell gave, as the data of a result; nil when there are none.
local function result_of(values)
  if values.n == 0 then return nil end
  if values.n == 1 then return bundle(values[1]) end
  local parts = {}
  for i = 1, values.n do parts[i] = bundle(values[i]).data["text/plain"] end
  return {data = {["text/plain"] = table.concat(parts, "\t")},
          metadata = json.object{}}
end

local function failed(line, request, ename, evalue, trace)
  local content = {ename = ename, evalue = evalue,
                   traceback = json.array(trace)}
  if not request.silent then publish("error", content) end
  content.status = "error"
  content.execution_count = line.count
  return content
end

local function run(line, request, chunk)
  local got = table.pack(front.protected(chunk))
  if got[1] then return table.pack(table.unpack(got, 2, got.n)) end
  return nil, failed(line, request, traceback(got[2], got[3], got[4]))
end

--- Runs request.code; what is shown is published, the reply returned.
return function(request, line)
  local counted = not request.silent and request.store_history ~= false
  if counted then line.count = line.count + 1 end
  if not request.silent then
    publish("execute_input",
            {code = request.code, execution_count = line.count})
  end
  local chunk, why = cell.load(request.code, line.count)
  if not chunk then
    return failed(line, request, "SyntaxError", why, {why})
  end
  local values, reply = run(line, request, chunk)
  if not values then return reply end
  local result = result_of(values)
  if result and not request.silent then
    result.execution_count = line.count
    publish("execute_result", result)
  end
  return {status = "ok", execution_count = line.count, payload = json.array{},
          user_expressions = json.object{}}
end
