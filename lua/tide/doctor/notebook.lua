--- doctor/notebook.lua - kernelspecs, and the programs that use them.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local folders = require "tide.jupyter.folders"
local json = require "tide.base.json"
local pipe = require "tide.jupyter.pipe"
local spec = require "tide.jupyter.spec"

local PATIENCE = 2 -- seconds that a kernel may take to answer

-- ---- kernelspecs -----------------------------------------------------------

-- The file that a kernelspec would start; nil where there is none.
local function program(word)
  if not word:find "/" then return folders.on_path(word)[1] end
  return core.allows(word, "x") and not core.is_folder(word) and word or nil
end

-- Starts the kernel and asks; the milliseconds it took, or nil and why not.
local function answers(s)
  local words = {core.executable(), "kernel", "--probe", tostring(PATIENCE)}
  for _, word in ipairs(s.argv) do words[#words + 1] = word end
  local text = pipe.read(words, type(s.env) == "table" and s.env or nil)
  local reply, why = json.decode(text or "")
  if not reply then return nil, why end
  return reply.ms, reply.error
end

-- The command line that writes a kernelspec anew.
local function reinstall(found)
  local kernels = found.folder:match "^(.*)/[^/]*$"
  local prefix = kernels:match "^(.*)/share/jupyter/kernels$"
  local where = kernels == folders.user() .. "/kernels" and ""
    or prefix and " --prefix " .. prefix
    or " (with JUPYTER_DATA_DIR)"
  local name = found.name ~= "tide" and " --name " .. found.name or ""
  return "tide install-kernel" .. name .. where
end

local function check_ours(r, found)
  local ms, why = answers(found.spec)
  if not ms then
    r:problem("kernel", ("%s does not answer: %s"):format(found.folder,
              tostring(why)), reinstall(found))
    return
  end
  local text = ("%s answers in %.0f ms"):format(found.folder, ms)
  if found.spec.metadata.version ~= core.version then
    r:note("kernel", ("%s, but was installed by version %s"):format(text,
           tostring(found.spec.metadata.version)), reinstall(found))
  else
    r:ok("kernel", text)
  end
end

local function check_spec(r, found)
  local ours = spec.is_ours(found) or found.name:find "^tide"
  if found.problem then
    r:problem("kernel", found.folder .. ": " .. found.problem,
              ours and reinstall(found) or "remove or mend that folder")
  elseif not program(found.spec.argv[1]) then
    r:problem("kernel", ("%s: its program %s is not there"):format(
              found.folder, found.spec.argv[1]),
              ours and reinstall(found) or "remove or mend that folder")
  elseif found.hidden_by then
    r:note("kernel", ("%s is hidden by %s"):format(found.folder,
           found.hidden_by))
  elseif ours then
    check_ours(r, found)
  else
    r:ok("kernel", found.folder .. " (not Tide's)")
  end
end

local function kernels(r)
  local ours = false
  for _, found in ipairs(spec.all()) do
    ours = ours or spec.is_ours(found)
    check_spec(r, found)
  end
  if not ours then
    r:note("kernel", "Jupyter does not know Tide", "tide install-kernel")
  end
end

-- ---- programs --------------------------------------------------------------

local CLIENTS = {"jupyter", "jupyter-lab", "jupyter-console",
                 "jupyter-nbconvert", "papermill"}

-- The Python that a script's first line names.
local function python_of(script)
  local ok, text = pcall(core.read_file, script, 1 << 20)
  return ok and text:match "^#!%s*(/%S*python[%d.]*)" or nil
end

-- papermill must know how to write parameters in Lua.
local function translator(r, papermill)
  local python = python_of(papermill)
  if not python then return end
  local found = pipe.read{python, "-c",
                          "import papermill_tide; print('yes')"}
  if found then
    r:ok("papermill", papermill .. ", with papermill_tide")
  else
    r:note("papermill", papermill .. ": it cannot give parameters to Tide's "
      .. "notebooks", python .. " -m pip install jupyter/papermill_tide")
  end
end

local function clients(r)
  local missing = {}
  for _, name in ipairs(CLIENTS) do
    local path = folders.on_path(name)[1]
    if not path then
      missing[#missing + 1] = name
    elseif name == "papermill" then
      translator(r, path)
    else
      r:ok(name:gsub("^jupyter%-", ""), path)
    end
  end
  if #missing == 0 then return end
  r:note("clients", "not on PATH: " .. table.concat(missing, ", "),
         "make lab has them all, or pip install jupyterlab jupyter-console "
         .. "papermill")
end

--- What notebooks need.
return function(r)
  r:begin "notebook"
  kernels(r)
  clients(r)
end
