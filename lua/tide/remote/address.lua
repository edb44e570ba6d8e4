--- remote/address.lua - where a task listens: text, its parts, and one way of
-- writing it.
--
-- "tcp://host:port", and the same without tcp://; a host is a name, four
-- numbers, or what IPv6 has in brackets. "ipc:///path" is a socket on this
-- machine. Names are lower case once they are read.
-- SPDX-License-Identifier: Apache-2.0

local address = {}

local MOST_NAME = 253 -- characters of a host's name, as DNS has it
local MOST_PATH = 107 -- bytes of a socket's path, as the kernel has it
local MOST_PORT = 65535

-- ---- hosts -----------------------------------------------------------------

local function ipv6_wrong(host)
  local digits = host:gsub("%%[%w._-]+$", "")
  if digits:find "[^%x:.]" or not digits:find ":.*:" or digits:find ":::" then
    return ("[%s] is no IPv6 address"):format(host)
  end
end

local function ipv4_wrong(host)
  local n = 0
  for number in (host .. "."):gmatch "(%d*)%." do
    n = n + 1
    if number == "" or #number > 3 or tonumber(number) > 255 then n = 5 end
  end
  if n ~= 4 then return ("%s is no IPv4 address"):format(host) end
end

local function name_wrong(host)
  if host == "*" then return nil end
  if #host > MOST_NAME then
    return ("its host has %d characters, at most %d may be"):format(#host,
                                                                   MOST_NAME)
  end
  for label in (host:gsub("%.$", "") .. "."):gmatch "([^.]*)%." do
    if #label > 63 or not label:find "^[%w_][%w_-]*$" or label:find "%-$" then
      return ("\"%s\" is no name of a host"):format(host)
    end
  end
end

local function host_wrong(host, bracketed)
  if bracketed then return ipv6_wrong(host) end
  if not host:find "[^%d.]" then return ipv4_wrong(host) end
  return name_wrong(host)
end

-- ---- addresses -------------------------------------------------------------

local function parse_tcp(text)
  local bracketed = text:sub(1, 1) == "["
  local host, port
  if bracketed then
    host, port = text:match "^%[([^%]]*)%]:?(.*)$"
  else
    host, port = text:match "^([^:]*):?(.*)$"
  end
  if not host then return nil, "its [ has no ]" end
  if port:find(":", 1, true) then
    return nil, "it has more than one colon; write IPv6 in brackets, as in "
      .. "[::1]:8888"
  end
  if host == "" then return nil, "it has no host; write host:port" end
  if port == "" then return nil, "it has no port; write host:port" end
  local number = #port <= 5 and port:find "^%d+$" and tonumber(port)
  if not number or number > MOST_PORT then
    return nil, ("its port is \"%s\", not a number up to %d"):format(port,
                                                                    MOST_PORT)
  end
  local wrong = host_wrong(host, bracketed)
  if wrong then return nil, wrong end
  return {scheme = "tcp", host = host:lower(), bracketed = bracketed,
          port = number}
end

local function parse_ipc(path)
  if path:sub(1, 1) ~= "/" then
    return nil, "its path does not begin with /; write ipc:///path/of/socket"
  end
  if path:find "[%c\127]" then
    return nil, "its path has a control character"
  end
  if #path > MOST_PATH then
    return nil, ("its path has %d bytes, at most %d may be"):format(#path,
                                                                   MOST_PATH)
  end
  if path:sub(-1) == "/" then return nil, "its path names a folder" end
  return {scheme = "ipc", path = path}
end

--- The parts of an address, {scheme = "tcp", host =, port =} or {scheme =
-- "ipc", path =}; nil and why it is none.
-- @usage require("tide.remote.address").parse("[::1]:80").port  --> 80
function address.parse(text)
  if type(text) ~= "string" then
    return nil, ("it is a %s; write \"host:port\""):format(type(text))
  end
  if #text > 4096 then return nil, "it is too long" end
  local scheme, rest = text:match "^(%a[%w+.-]*)://(.*)$"
  if scheme == "ipc" then return parse_ipc(rest) end
  if scheme and scheme ~= "tcp" then
    return nil, ("there is no \"%s://\"; write tcp://host:port or ipc:///path")
      :format(scheme)
  end
  return parse_tcp(rest or text)
end

--- The address that has these parts, with its scheme.
-- @usage local address = require "tide.remote.address"
-- address.text(address.parse "Here:80")  --> tcp://here:80
function address.text(a)
  if a.scheme == "ipc" then return "ipc://" .. a.path end
  local host = a.bracketed and "[" .. a.host .. "]" or a.host
  return ("tcp://%s:%d"):format(host, a.port)
end

local every_host = {["*"] = true, ["0.0.0.0"] = true, ["::"] = true}

--- Why others cannot dial the address of these parts: it stands for every host
-- or any port, as one may where one listens. nil where they can.
function address.undialable(a)
  if a.scheme == "ipc" then return nil end
  if every_host[a.host] then
    return ("%s is no host that others can dial; name the machine"):format(
      a.host)
  end
  if a.port == 0 then
    return "port 0 stands for any; name the one to dial"
  end
end

return address
