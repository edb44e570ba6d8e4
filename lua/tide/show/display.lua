--- show/display.lua - td.display and its like: what shows beside results.
--
-- In a notebook what has an id can be changed where it stands. A terminal and a
-- script print the text form.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local autoload = require "tide.base.autoload"
local style = require "tide.show.style"

local bundle = autoload "tide.show.bundle"
local out = autoload "tide.frontend.publish"

local has_frontend = pcall(require, "tide.frontend")

local display = {}

-- Prints or publishes a message of the Jupyter protocol.
local function publish(type, content)
  if has_frontend then
    out(type, content)
  elseif content.data then
    print(content.data["text/plain"])
  end
end

local function message(x, id)
  local content = bundle(x, style.frontend() ~= "notebook")
  if id then content.transient = {display_id = id} end
  return content
end

local made = 0

--- An id for a display that no other has.
function display.new_id()
  made = made + 1
  return ("tide-%d-%x"):format(made, core.random_bits() & 0xffffffff)
end

--- Shows x in its best form.
-- @param x any value
-- @param[opt] o id: a string by which td.update_display changes it later; true
-- makes one up
-- @return the id, if any
function display.display(x, o)
  o = args.read(o, {"id"}, "display")
  local id = o.id
  if id == true then id = display.new_id() end
  if id then args.expect(id, "string", "display: id") end
  publish("display_data", message(x, id))
  if id then return id end
end

--- Shows the picture of a graph; the options are those of picture, and id.
-- @function g:display(o)
function display.graph(g, o)
  o = args.options(o, "display")
  local id = o.id
  o.id = nil
  return display.display(g:picture(o), {id = id})
end

--- Shows x in place of what was displayed with that id.
function display.update_display(id, x)
  args.expect(id, "string", "update_display: id")
  publish("update_display_data", message(x, id))
end

--- Takes away what the cell has shown.
-- @param[opt] o wait = true: only when the next output comes, so that nothing
-- flickers
function display.clear_output(o)
  o = args.read(o, {"wait"}, "clear_output")
  publish("clear_output", {wait = o.wait or false})
end

-- ---- text in a form --------------------------------------------------------

-- A class of objects that are their text, in one form.
local function class(name, field, plain)
  local meta = {__name = name}
  meta[field] = function(self) return self.text end
  meta.__repr_pretty = plain
  meta.__tostring = plain
  return function(text)
    args.expect(text, "string", name)
    return setmetatable({text = text}, meta)
  end
end

local function itself(self) return self.text end

local function described(what)
  return function(self) return ("<%s, %d bytes>"):format(what, #self.text) end
end

-- HTML without its tags, as far as a terminal shows it.
local function stripped(self)
  local text = self.text:gsub("<br */?>", "\n"):gsub("<[^<>]*>", "")
  return (text:gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&amp;", "&"))
end

--- Markup that displays as HTML. In a notebook that is not trusted, scripts and
-- some styles in it are left out.
-- @usage td.html("<b>7</b> of 9")  --> 7 of 9
display.html = class("html", "__repr_html", stripped)

--- Text that displays as Markdown.
display.markdown = class("markdown", "__repr_markdown", itself)

--- A formula or text that displays as LaTeX: "$x^2$".
display.latex = class("latex", "__repr_latex", itself)

--- A drawing: the text of an SVG file.
display.svg = class("svg", "__repr_svg", described "SVG drawing")

--- A picture: the bytes of a PNG file.
display.png = class("png", "__repr_png", described "PNG picture")

return display
