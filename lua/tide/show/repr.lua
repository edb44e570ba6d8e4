--- show/repr.lua - who knows how a value looks: td.register_repr, metamethods,
-- and the displays of the library.
--
-- An object of Lua may define how it is shown, by fields of its metatable:
-- __repr_pretty(self) text, __repr_html, __repr_svg, __repr_png (the bytes),
-- __repr_markdown, __repr_latex; or __repr_mimebundle(self), which gives a
-- table of texts by mime type and, if wanted, one of metadata.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local autoload = require "tide.base.autoload"

local handles = autoload "tide.show.handles"
local tensor = autoload "tide.show.tensor"
local tensor_html = autoload "tide.show.tensor_html"

local repr = {}

local registered = {} -- {matches = function, mime =, f =}, latest first

local fields = {["text/plain"] = "__repr_pretty", ["text/html"] = "__repr_html",
                ["image/svg+xml"] = "__repr_svg", ["image/png"] = "__repr_png",
                ["text/markdown"] = "__repr_markdown",
                ["text/latex"] = "__repr_latex",
                bundle = "__repr_mimebundle"}

--- Rich forms, the one to take first.
repr.rich = {"text/html", "image/png", "image/svg+xml", "text/markdown",
             "text/latex"}

-- The forms of the library's own objects: by kind, by form.
local built_in = {
  tensor = {["text/plain"] = function(t) return tensor.text(t) end,
            ["text/html"] = function(t) return tensor_html(t) end},
  variable = {["text/html"] = function(v) return handles.variable(v) end},
  queue = {["text/html"] = function(q) return handles.queue(q) end},
  lookup_table = {["text/html"] = function(t)
    return handles.lookup_table(t)
  end},
  graph = autoload "tide.show.graph",
  cluster = autoload "tide.show.cluster",
  session = handles, op = handles, edge = handles,
}

-- Does x go by that name: a Lua type, a handle's kind, a metatable's __name?
local function named(name)
  return function(x)
    if core.kind(x) == name or type(x) == name then return true end
    local meta = debug.getmetatable(x)
    return type(meta) == "table" and rawget(meta, "__name") == name
  end
end

--- Says how values look that are not one's own.
-- @param of "tensor", "graph", ..., the __name of a metatable, or a function
-- that tells whether it is meant
-- @param mime "text/plain", "text/html", "image/svg+xml", "image/png",
-- "text/markdown" or "text/latex"
-- @param f gives the text, or a PNG's bytes, of a value
-- @usage td.register_repr("point", "text/plain", function(p)
--   return ("(%g, %g)"):format(p.x, p.y)
-- end)
function repr.register_repr(of, mime, f)
  if not fields[mime] or mime == "bundle" then
    local known = args.sorted_keys(fields)
    table.remove(known, 1)
    core.error("invalid_argument", ("register_repr: the form is %s, not %s")
      :format(table.concat(known, ", "), tostring(mime)))
  end
  if type(of) ~= "function" then args.expect(of, "string", "register_repr") end
  args.expect_callable(f, "register_repr: what gives the form")
  table.insert(registered, 1, {
    matches = type(of) == "string" and named(of) or of, mime = mime, f = f})
end

local function from_registered(x, mime)
  for _, row in ipairs(registered) do
    if row.mime == mime and row.matches(x) then return row.f end
  end
end

local function from_metatable(x, mime)
  local meta = debug.getmetatable(x)
  if type(x) == "string" or type(meta) ~= "table" then return nil end
  return rawget(meta, fields[mime])
end

local function from_library(x, mime)
  local meta = debug.getmetatable(x)
  local kind = core.kind(x) or type(meta) == "table" and rawget(meta, "__forms")
  local forms = kind and built_in[kind]
  return forms and forms[mime]
end

--- The function that gives the form `mime` of x ("bundle": the whole of it), or
-- nil.
function repr.find(x, mime)
  return from_registered(x, mime) or from_metatable(x, mime)
    or from_library(x, mime)
end

return repr
