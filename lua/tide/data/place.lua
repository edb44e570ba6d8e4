-- data/place.lua - where a loop over batches stands, as a string.
--
-- Numbers after the name of what is looped over: those that a loop must share
-- to go on from there (sizes, counts), and those that say where.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"

local place = {}

local MAGIC = "tide.place.1"

--- The state of a loop `what`: its `facts`, {{name, integer}, ...}, and the
-- integers that say where it stands.
function place.pack(what, facts, where)
  local numbers = {}
  for i, fact in ipairs(facts) do numbers[i] = fact[2] end
  table.move(where, 1, #where, #numbers + 1, numbers)
  return string.pack("<zzI4", MAGIC, what, #numbers)
    .. string.pack("<" .. ("i8"):rep(#numbers), table.unpack(numbers))
end

--- The integers that say where a loop of these facts stands. Raises
-- "invalid_argument" when the state is another's, with what differs.
function place.unpack(s, what, facts, count)
  args.expect(s, "string", "restore")
  local total = #facts + count
  local ok, magic, of, n, at = pcall(string.unpack, "<zzI4", s)
  if not ok or magic ~= MAGIC or of ~= what or n ~= total
     or #s ~= at - 1 + 8 * total then
    errors.invalid("restore: this is not the state of such a loop")
  end
  local numbers = {string.unpack("<" .. ("i8"):rep(total), s, at)}
  for i, fact in ipairs(facts) do
    if numbers[i] ~= fact[2] then
      errors.invalid("restore: the state is of a loop whose %s is %d, not %d",
                     fact[1], numbers[i], fact[2])
    end
  end
  return table.unpack(numbers, #facts + 1, total)
end

return place
