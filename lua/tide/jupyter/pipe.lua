--- jupyter/pipe.lua - what another program prints.
--
-- SPDX-License-Identifier: Apache-2.0

local pipe = {}

--- A word as the shell takes it, whatever is in it.
function pipe.quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- What the program of a list of words prints, its stderr dropped, under the
-- environment variables `env`; nil when it printed nothing.
function pipe.read(words, env)
  local line = {"env"}
  for name, value in pairs(env or {}) do
    line[#line + 1] = pipe.quote(name .. "=" .. tostring(value))
  end
  for _, word in ipairs(words) do line[#line + 1] = pipe.quote(word) end
  local p <close> = assert(io.popen(table.concat(line, " ") .. " 2>/dev/null"))
  local text = p:read "a"
  return text ~= "" and text or nil
end

return pipe
