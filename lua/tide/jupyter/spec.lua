--- jupyter/spec.lua - kernelspecs: writing Tide's, finding all, removing.
--
-- A kernelspec is a folder with kernel.json and pictures. Tide's says so in its
-- metadata, so that no other is overwritten or removed by mistake.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"
local folders = require "tide.jupyter.folders"
local json = require "tide.base.json"
local logo = require "tide.jupyter.logo"
local pipe = require "tide.jupyter.pipe"

local spec = {}

local MOST = 1 << 20 -- bytes of a kernel.json

local fail = errors.raise

local function names_in(folder)
  local names = {}
  for name in core.list(folder):gmatch "%Z+" do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- Names are of the characters that Jupyter takes.
local function folder_of(folder, name)
  if not name:find "^%w[%w._-]*$" then
    fail("invalid_argument", "\"%s\" is no name of a kernel: letters, digits "
      .. "and - . _, beginning with a letter or digit", name)
  end
  return folder .. "/" .. name
end

--- The path of this program that will still lead to it after an update: the
-- `tide` on PATH where that is it, else the file itself.
function spec.command()
  local file = core.executable()
  for _, path in ipairs(folders.on_path "tide") do
    if core.real_path(path) == file then return path end
  end
  return file
end

-- ---- reading ---------------------------------------------------------------

local function problem_of(s)
  if type(s) ~= "table" then return "kernel.json is no JSON object" end
  if type(s.argv) ~= "table" or type(s.argv[1]) ~= "string" then
    return "argv in kernel.json is no list of words"
  end
  for _, word in ipairs(s.argv) do
    if type(word) ~= "string" then
      return "argv in kernel.json is no list of words"
    end
  end
end

--- The kernelspec in a folder: {name, folder, and spec or problem}; nil where
-- there is none.
function spec.read(folder)
  local found = {name = folder:match "[^/]+$", folder = folder}
  local path = folder .. "/kernel.json"
  if not core.exists(path) then return nil end
  local ok, text = pcall(core.read_file, path, MOST)
  if not ok then
    found.problem = tostring(text)
    return found
  end
  local why
  found.spec, why = json.decode(text)
  found.problem = why or problem_of(found.spec)
  if found.problem then found.spec = nil end
  return found
end

--- Is it a kernelspec of Tide's?
function spec.is_ours(found)
  local metadata = found.spec and found.spec.metadata
  return type(metadata) == "table" and metadata.implementation == "tide"
end

--- All kernelspecs in the folders of Jupyter; .hidden_by is the folder of an
-- earlier one of the same name.
function spec.all()
  local list, first = {}, {}
  for _, dir in ipairs(folders.all()) do
    for _, name in ipairs(core.is_folder(dir) and names_in(dir) or {}) do
      local found = spec.read(dir .. "/" .. name)
      if found then
        found.hidden_by = first[name:lower()]
        first[name:lower()] = found.hidden_by or found.folder
        list[#list + 1] = found
      end
    end
  end
  return list
end

--- The kernel's ZeroMQ: {zmq = its version, curve = can it encrypt?}; nil where
-- this program has no kernel.
function spec.zeromq()
  local text = pipe.read{core.executable(), "kernel", "--probe"}
  return text and json.decode(text) or nil
end

-- ---- writing ---------------------------------------------------------------

-- What kernel.json holds. Clients encrypt where it says that it can.
local function contents(o)
  local zeromq = spec.zeromq()
  return {argv = {o.command, "kernel", "{connection_file}"},
          display_name = o.display_name, language = "lua",
          interrupt_mode = "message", kernel_protocol_version = "5.5",
          env = json.object(o.env),
          metadata = {implementation = "tide", version = core.version,
                      debugger = true, supported_encryption =
                        zeromq and zeromq.curve and {"curve"} or nil}}
end

-- nil where the engine has no PNG library.
local function png(side)
  local pixels = core.tensor(logo.pixels(side), "uint8")
  local ok, bytes = pcall(core.op "EncodePng", pixels)
  return ok and bytes:item() or nil
end

--- Writes a kernelspec. o: folder (of kernels), name, display_name, command,
-- env ({NAME = value}), replace (true: also another kernel's). Returns its
-- folder, and whether there was one before.
function spec.write(o)
  local folder = folder_of(o.folder, o.name)
  local old = spec.read(folder)
  if old and not spec.is_ours(old) and not o.replace then
    fail("already_exists", "%s is the kernel of something else; choose "
      .. "another --name, or --replace it", folder)
  end
  core.mkdirs(folder)
  core.write_file(folder .. "/logo-svg.svg", logo.svg())
  for _, side in ipairs{32, 64} do
    local bytes = png(side)
    local path = ("%s/logo-%dx%d.png"):format(folder, side, side)
    if bytes then core.write_file(path, bytes) end
  end
  core.write_file(folder .. "/kernel.json", json.encode(contents(o)) .. "\n")
  return folder, old ~= nil
end

--- Removes the kernelspec `name` of Tide's with its files, and returns its
-- folder; with `force` also another's, or a broken one.
function spec.remove(kernels, name, force)
  local folder = folder_of(kernels, name)
  local found = spec.read(folder)
  if not found then fail("not_found", "no kernelspec in %s", folder) end
  if not spec.is_ours(found) and not force then
    fail("failed_precondition", "%s is %s; --force removes it all the same",
         folder, found.problem and "broken: " .. found.problem
         or "the kernel of something else")
  end
  for _, file in ipairs(names_in(folder)) do
    local ok, why = os.remove(folder .. "/" .. file)
    if not ok then fail("unavailable", "cannot remove %s", why) end
  end
  local ok, why = os.remove(folder)
  if not ok then fail("unavailable", "cannot remove %s", why) end
  return folder
end

return spec
