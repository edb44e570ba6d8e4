--- cli/keygen.lua - `tide keygen [DIR]`: key pairs of workers and their users.
--
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local flags = require "tide.script.flags"
local keys = require "tide.remote.keys"

local USAGE = [[
usage: tide keygen [DIR] [--force] [--name NAME]
       tide keygen [DIR] --show

Makes a key pair in DIR, else in $XDG_CONFIG_HOME/tide or ~/.config/tide:
tide.key is secret, tide.pub is for others. Workers take their own pair from
there, and who attaches to them takes his. A line of tide.pub on a worker's
list of keys lets its owner in.

  --force       in place of a pair that is there: who knows its public key will
                not know the new one
  --name NAME   what stands behind the public key (user@host)
  --show        print the public key of the pair that is there
]]

local function act(f)
  local dir = f[1] and f[1]:gsub("(.)/+$", "%1")
  if f.show then
    print((keys.public(dir)))
    return
  end
  local key, folder = keys.generate(dir, {
    name = f.name ~= "" and f.name or nil, force = f.force})
  io.write(("Secret key: %s/tide.key\nPublic key: %s/tide.pub\n%s\n"):format(
    folder, folder, key))
end

--- Runs the command; returns its exit code.
return function(words)
  if args.holds(words, "--help") or args.holds(words, "-h") then
    io.write(USAGE)
    return 0
  end
  local ok, f = pcall(flags.flags, {force = false, show = false, name = ""},
                      words)
  if not ok or #f > 1 then
    if not ok then io.stderr:write("tide: ", f.message, "\n\n") end
    io.stderr:write(USAGE)
    return 2
  end
  local done, why = pcall(act, f)
  if done then return 0 end
  local text = tostring(why)
  if type(why) == "table" and why.code == "already_exists" then
    text = text .. " (--force)"
  end
  io.stderr:write("tide: ", text, "\n")
  return 1
end
