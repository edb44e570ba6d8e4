--- doctor/libraries.lua - the libraries that Tide computes with, or can use.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"

local libraries = {}

--- Those that multiply: Tide does without them, slower.
libraries.doors = {
  {name = "OpenBLAS", package = "libopenblas0-pthread"},
  {name = "oneDNN", package = "libdnnl2"},
}

--- Those opened when they are needed: the names of their files, and what for;
-- `data`: what they give are the numbers that a run computes with.
libraries.optional = {
  {name = "libpng", files = {"libpng16.so.16"}, package = "libpng16-16",
   use = "PNG files, pictures in notebooks", data = true},
  {name = "libjpeg", files = {"libjpeg.so.62"}, package = "libjpeg62-turbo",
   use = "JPEG files", data = true},
  {name = "giflib", files = {"libgif.so.7"}, package = "libgif7",
   use = "GIF files", data = true},
  {name = "libzip", files = {"libzip.so.4", "libzip.so.5"},
   package = "libzip4", use = ".npz files"},
  {name = "libpcre2", files = {"libpcre2-8.so.0"}, package = "libpcre2-8-0",
   use = "regular expressions", data = true},
  {name = "libcurl", files = {"libcurl.so.4"}, package = "libcurl4",
   use = "downloads"},
}

--- The name of an optional library's file, and where it is; nil without it.
function libraries.find(row)
  for _, file in ipairs(row.files) do
    local found, where = core.opens(file)
    if found then return file, where end
  end
end

--- What the libraries beside Tide's own, which bring devices, tell: a list of
-- {name =, text =, ok =}; of one that cannot be loaded, its file and why, and
-- `broken`.
function libraries.plugins()
  local out = {}
  for _, p in ipairs(core.plugins()) do
    if p.why then
      out[#out + 1] = {name = p.path:match "[^/]*$", text = p.why,
                       broken = true}
    end
    for name, sign, text in (p.about or ""):gmatch "([^\n]-)([:!]) ([^\n]*)" do
      out[#out + 1] = {name = name, text = text, ok = sign == ":"}
    end
  end
  return out
end

--- What decides about bits: {name = version} of Tide, the build of its engine,
-- its library in Lua (a digest), Lua itself, and the libraries; of those that
-- do not tell theirs, the name of the file. "none" stands for what is not
-- there.
function libraries.versions()
  local versions = {tide = core.version, build = core.build(),
                    library = core.library_digest(), Lua = _VERSION}
  local found = core.doors()
  for _, row in ipairs(libraries.doors) do
    local d = found[row.name]
    versions[row.name] = d.used and d.about or "none"
  end
  for _, row in ipairs(libraries.optional) do
    if row.data then
      local _, where = libraries.find(row)
      local real = where and where ~= "" and core.real_path(where) or where
      versions[row.name] = real and real:match "[^/]*$" or "none"
    end
  end
  return versions
end

return libraries
