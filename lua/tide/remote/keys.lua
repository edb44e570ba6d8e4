--- remote/keys.lua - key pairs, by which processes know each other.
--
-- Public keys are text of 40 characters. Secret ones never come into Lua: they
-- are named by the folder that they are in, tide.key of it; without a folder by
-- the user's own, ~/.config/tide.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local keys = {}

local TEXT = 40 -- characters of a key

-- "anna@lab", as far as that is known.
local function own_name()
  local user = os.getenv "USER" or os.getenv "LOGNAME" or "somebody"
  return (("%s@%s"):format(user, core.process().host):gsub("[%c%s#]", "_"))
end

local function folder_of(folder)
  return folder ~= nil and args.expect(folder, "string", "the folder of keys")
    or nil
end

--- Makes a pair, tide.key and tide.pub in a folder, which is made too.
-- @param[opt] folder the user's own without one
-- @param[opt] o name: stands behind the public key ("user@host"); force: also
-- where there is a pair
-- @return the public key; the folder
-- @raise already_exists without force
function keys.generate(folder, o)
  o = args.expect_all(args.read(o, {"name", "force"}, "generate"),
                      {force = "boolean"})
  return core.keys_generate(folder_of(folder), o.name or own_name(),
                            o.force == true)
end

--- The public key of a folder's pair; the folder.
-- @raise not_found where there is none; permission_denied where others may read
-- the secret
function keys.public(folder)
  return core.keys_public(folder_of(folder))
end

--- The public keys of a file: {{key =, name =}, ...}, by key. A line has a key,
-- and a name behind it; # begins a comment.
-- @raise invalid_argument, with the line
function keys.list(path)
  args.expect(path, "string", "the list of keys")
  local list = {}
  for line in core.keys_list(path):gmatch "[^\n]+" do
    list[#list + 1] = {key = line:sub(1, TEXT), name = line:sub(TEXT + 1)}
  end
  return list
end

--- The name of a key on a list ("" without one); nil where it is not there.
function keys.allowed(path, key)
  return core.keys_allowed(args.expect(path, "string", "the list of keys"), key)
end

--- A worker that listens at an address leaves its public key for others of this
-- user on this machine.
function keys.leave(address, key) core.keys_leave(address, key) end

--- The key that a worker of this machine has left for the address.
-- @raise not_found where none has, or the host is another
function keys.find(address) return core.keys_find(address) end

--- Takes the key away, if it is still this one.
function keys.remove(address, key) core.keys_remove(address, key) end

return keys
