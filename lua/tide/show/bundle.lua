--- show/bundle.lua - a value in the forms it can be shown in.
--
-- Always text, and at most one rich form (a chart has a picture beside its
-- data). What goes wrong inside of a display shows below the text, which stays.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local html = require "tide.show.html"
local json = require "tide.base.json"
local repr = require "tide.show.repr"
local value = require "tide.show.value"

local has_frontend, frontend = pcall(require, "tide.frontend")

-- f(...) of the user: true and a result, or false and what went wrong.
local function safely(f, ...)
  if not has_frontend then return pcall(f, ...) end
  local ok, result, _, interrupted = frontend.protected(f, ...)
  if not ok and interrupted then return false, "interrupted" end
  return ok, result
end

-- The form `mime` of x: text; nil and why where there was an error.
local function form(x, mime)
  local found, f = safely(repr.find, x, mime)
  if not found then return nil, tostring(f) end
  if not f then return nil end
  local ok, text = safely(f, x)
  if ok and type(text) == "string" then return text end
  if ok and text == nil then return nil end
  if ok then text = "a string is expected, not " .. type(text) end
  return nil, ("%s: %s"):format(mime, tostring(text))
end

-- Forms as they go out: pictures as HTML, which an untrusted notebook shows
-- too; bytes as base64.
local outgoing = {
  ["image/png"] = function(bytes) return "image/png", core.base64(bytes) end,
  ["image/svg+xml"] = function(text)
    return "text/html", html.image("image/svg+xml", text, {alt = "drawing"})
  end,
}

local function rich_form(x, out)
  for _, mime in ipairs(repr.rich) do
    local text, why = form(x, mime)
    if why then return why end
    if text then
      local as = outgoing[mime]
      if as then mime, text = as(text) end
      out.data[mime] = text
      return nil
    end
  end
end

local function plain_form(x)
  local text, why = form(x, "text/plain")
  if text then return text, why end
  local ok, own = safely(value.text, x)
  if ok then return own, why end
  return ("<%s>"):format(type(x)), why or tostring(own)
end

-- All forms by one function of the object.
local function whole(x, out)
  local found, f = safely(repr.find, x, "bundle")
  if not found then return nil, tostring(f) end
  if not f then return false end
  local got, data, metadata = safely(function()
    return {f(x)}
  end)
  if got then data, metadata = data[1], data[2] end
  if not got or type(data) ~= "table" then
    return nil, "__repr_mimebundle: " .. (got and "a table is expected, not "
      .. type(data) or tostring(data))
  end
  for mime, text in pairs(data) do out.data[mime] = text end
  out.metadata = json.object(type(metadata) == "table" and metadata or {})
  return true
end

--- {data = {[mime type] = text}, metadata = {}} of any value; with text_only no
-- rich form is made.
return function(x, text_only)
  local out, why = {data = {}, metadata = json.object{}}, nil
  if text_only then out.data["text/plain"], why = form(x, "text/plain") end
  if not out.data["text/plain"] then
    local done
    done, why = whole(x, out)
    if not done and not text_only then why = why or rich_form(x, out) end
  end
  if type(out.data["text/plain"]) ~= "string" then
    local text, also = plain_form(x)
    out.data["text/plain"] = text
    why = why or also
  end
  if why then
    out.data["text/plain"] = ("%s\n(its display failed: %s)"):format(
      out.data["text/plain"], why)
  end
  return out
end
