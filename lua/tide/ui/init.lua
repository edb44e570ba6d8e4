--- ui/init.lua - td.ui: sliders, buttons and the like, live in a notebook.
--
-- A widget is shown by ending a cell with it or by td.display, and drawn by the
-- page; its fields are read and set from Lua: w.value, w.label, w.disabled. In
-- a terminal it is a line of text. A page's changes arrive while a step of a
-- session runs, so that a training loop sees them at its next step.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local forms = require "tide.ui.forms"
local json = require "tide.base.json"
local output = require "tide.ui.output"
local widget = require "tide.ui.widget"
local autoload = require "tide.base.autoload"

local interact = autoload "tide.ui.interact"

local ui = {}

local fail = errors.invalid

-- Options by name; a string alone is the label.
local function read(o, what, allowed)
  if type(o) == "string" then o = {label = o} end
  if o == nil then o = {} end
  args.expect(o, "table", what)
  local copy = {}
  for key, x in pairs(o) do copy[key] = x end
  return args.check(copy, allowed, what)
end

local function common(o, ...)
  local state = {}
  for _, key in ipairs{"label", "disabled", "tooltip", ...} do
    state[key] = o[key]
  end
  if state.label then args.expect(state.label, "string", "label") end
  return state
end

-- ---- sliders ----------------------------------------------------------------

local function clamp(x, low, high)
  return math.max(low, math.min(high, x))
end

local function bounded(state, convert)
  for _, key in ipairs{"min", "max", "value"} do
    state[key] = convert(state[key])
  end
  if state.max < state.min then state.max = state.min end
  state.value = clamp(state.value, state.min, state.max)
end

local function to_float(x)
  x = tonumber(x) or 0.0
  return x == x and x + 0.0 or 0.0
end

local function to_integer(x)
  x = to_float(x)
  return math.tointeger(math.floor(clamp(x, -2^53, 2^53) + 0.5))
end

local sliders = {
  IntSlider = function(state) bounded(state, to_integer) end,
  FloatSlider = function(state) bounded(state, to_float) end,
  FloatLogSlider = function(state)
    local value = to_float(state.value)
    state.min, state.max = to_float(state.min), to_float(state.max)
    local low, high = state.base ^ state.min, state.base ^ state.max
    state.value = clamp(value, low, high)
  end,
}

local slider_kinds = {}
for model, adjust in pairs(sliders) do
  slider_kinds[model] = {name = "slider", model = model, adjust = adjust,
                         text = forms.slider}
end

-- min, max, value and step; the model they ask for.
local function range(o)
  local min, max = o.min or 0, o.max
  if max == nil then max = math.type(min) == "integer" and 100 or min + 10 end
  local value = o.value == nil and min or o.value
  for key, x in pairs{min = min, max = max, value = value, step = o.step} do
    args.expect_number(x, "slider: " .. key)
  end
  if min > max then fail("slider: min %g is above max %g", min, max) end
  if o.step and o.step <= 0 then fail("slider: step must be above 0") end
  local whole = math.type(min) == "integer" and math.type(max) == "integer"
    and math.type(value) == "integer"
    and (o.step == nil or math.type(o.step) == "integer")
  return min, max, value, whole and "IntSlider" or "FloatSlider"
end

--- A slider: an integer one where all numbers are integers.
-- @param[opt] o label; min (0), max (100, 10.0 above a min that is none),
-- value (min), step (1; a hundredth of the range); log = true: a logarithmic
-- one, whose min must be above 0; disabled, tooltip
-- @return a widget; w.value is a number
-- @usage local lr = td.ui.slider{label = "lr", min = 1e-4, max = 1, log = true}
-- lr.value = 0.01
-- lr  --> lr [=========o----------] 0.01
function ui.slider(o)
  o = read(o, "slider", {"label", "min", "max", "value", "step", "log",
                         "disabled", "tooltip"})
  local min, max, value, model = range(o)
  local state = common(o)
  state.value, state.step = value, o.step
  if o.log then
    if min <= 0 then fail("slider: a logarithmic one has min above 0") end
    model = "FloatLogSlider"
    min, max = math.log(min, 10), math.log(max, 10)
    state.step = o.step or (max - min) / 100
    if state.step <= 0 then state.step = 0.1 end
  elseif model == "FloatSlider" and not o.step then
    state.step = max > min and (max - min) / 100 or 0.1
  end
  state.min, state.max = min, max
  return widget.new(slider_kinds[model], state)
end

--- A bar that fills: p.value goes from min (0) to max (100). Options label,
-- min, max, value, style: "success", "info", "warning", "danger".
-- @usage td.ui.progress{label = "epoch", value = 40}
--   --> epoch [########------------] 40%
function ui.progress(o)
  o = read(o, "progress", {"label", "min", "max", "value", "style", "tooltip"})
  local state = common(o)
  state.min, state.max = o.min or 0, o.max or 100
  state.value, state.bar_style = o.value or state.min, o.style
  for _, key in ipairs{"min", "max", "value"} do
    args.expect_number(state[key], "progress: " .. key)
  end
  return widget.new({name = "progress", model = "FloatProgress",
                     adjust = sliders.FloatSlider, text = forms.progress},
                    state)
end

-- ---- choices and text -------------------------------------------------------

local function index_of(list, x)
  for i, y in ipairs(list) do
    if x == y then return i end
  end
end

local select_fields = {
  value = {field = "index", get = function(_, state)
    return state._options_labels[(math.tointeger(state.index) or -1) + 1]
  end, set = function(self, x)
    if x == nil then return json.null end
    local list = self.options
    local at = index_of(list, x)
    if at then return at - 1 end
    return fail("select: \"%s\" is none of the options%s", tostring(x),
                errors.did_you_mean(x, list))
  end},
  options = {field = "_options_labels", get = function(_, state)
    return state._options_labels
  end, set = function(_, list)
    for i, x in ipairs(args.check_list(list, "select: the options")) do
      args.expect(x, "string", ("select: option %d"):format(i))
    end
    return json.array(table.move(list, 1, #list, 1, {}))
  end},
}

local function adjust_select(state)
  local n = #state._options_labels
  local at = math.tointeger(state.index)
  if state.index ~= json.null and (not at or at < 0 or at >= n) then
    state.index = n > 0 and 0 or json.null
  end
end

--- One of several strings: options (a list), value (the first), label; rows: a
-- list of so many lines instead of a menu. s.value is the string.
-- @usage local s = td.ui.select{label = "model", options = {"mlp", "cnn"}}
-- s.value = "cnn"
-- s  --> model mlp (cnn)
function ui.select(o)
  o = read(o, "select", {"label", "options", "value", "rows", "disabled",
                         "tooltip"})
  local state = common(o, "rows")
  local list = select_fields.options.set(nil, o.options or {})
  state._options_labels = list
  state.index = #list > 0 and 0 or json.null
  local self = {options = list}
  if o.value ~= nil then
    state.index = select_fields.value.set(self, o.value)
  end
  return widget.new({name = "select", model = o.rows and "Select" or "Dropdown",
                     fields = select_fields, adjust = adjust_select,
                     text = forms.select}, state)
end

--- A box to tick: label, value (false). c.value is a boolean.
-- @usage td.ui.checkbox{label = "shuffle", value = true}  --> [x] shuffle
function ui.checkbox(o)
  o = read(o, "checkbox", {"label", "value", "disabled", "tooltip"})
  local state = common(o)
  state.value = o.value or false
  args.expect(state.value, "boolean", "checkbox: value")
  return widget.new({name = "checkbox", model = "Checkbox",
                     text = forms.checkbox}, state)
end

--- A line to type: label, value (""), placeholder; live = false: changes count
-- once Enter is pressed. t.value is a string.
-- @usage td.ui.text{label = "name", value = "run 1"}  --> name "run 1"
function ui.text(o)
  o = read(o, "text", {"label", "value", "placeholder", "live", "disabled",
                       "tooltip"})
  local state = common(o, "placeholder")
  state.value = o.value or ""
  args.expect(state.value, "string", "text: value")
  if o.live == false then state.continuous_update = false end
  return widget.new({name = "text", model = "Text", text = forms.text}, state)
end

--- A button: label, style ("primary", "success", "info", "warning", "danger"),
-- icon; f, or b:on_click(f), is called with the button for each click.
-- @usage td.ui.button("Stop")  --> [ Stop ]
function ui.button(o, f)
  o = read(o, "button", {"label", "style", "icon", "disabled", "tooltip"})
  local state = common(o, "icon")
  state.button_style = o.style
  local self = widget.new({name = "button", model = "Button",
                           text = forms.button, custom = widget.click}, state)
  if f then self:on_click(f) end
  return self
end

--- A line of text that is shown: value.
-- @usage td.ui.label("ready")  --> ready
function ui.label(text)
  args.expect(text, "string", "label")
  return widget.new({name = "label", model = "Label", text = forms.label},
                    {value = text})
end

--- The same for HTML.
-- @usage td.ui.html("<b>ready</b>")  --> ready
function ui.html(text)
  args.expect(text, "string", "html")
  return widget.new({name = "html", model = "HTML", text = forms.html},
                    {value = text})
end

-- ---- output and boxes -------------------------------------------------------

--- A place for what functions print and show: o:capture(f, ...), o:clear().
function ui.output()
  return widget.new({name = "output", model = "Output", text = forms.output,
                     capture = output.capture}, {})
end

local function references(children)
  local list = {}
  for i, child in ipairs(args.check_list(children, "the widgets of a box")) do
    if not widget.is(child) then
      fail("a box holds widgets; %d is %s", i, args.what(child))
    end
    list[i] = widget.reference(child)
  end
  return json.array(list)
end

local box_fields = {children = {field = "children", get = function(self)
  return rawget(self, "held")
end, set = function(self, list)
  local refs = references(list)
  rawset(self, "held", table.move(list, 1, #list, 1, {}))
  return refs
end}}

local function box(name, model)
  return function(children)
    local refs = references(children)
    local self = widget.new({name = name, model = model, fields = box_fields,
                             text = forms[name]}, {children = refs})
    rawset(self, "held", table.move(children, 1, #children, 1, {}))
    return self
  end
end

--- Widgets beside each other: a list.
-- @usage td.ui.hbox{td.ui.label "a", td.ui.label "b"}  --> a  b
ui.hbox = box("hbox", "HBox")

--- Widgets below each other: a list.
-- @usage td.ui.vbox{td.ui.label "a", td.ui.label "b"}.children[2]  --> b
ui.vbox = box("vbox", "VBox")

--- Calls f with a table of values, and again whenever a control changes; what
-- it prints, displays and returns shows below the controls.
-- @param f function(values)
-- @param specs by name: a number (a slider around it), {min, max, step}, a list
-- of strings, a string, a boolean, a widget
-- @return a widget; its field `controls` has the controls by name
-- @usage local box = td.ui.interact(function(v) return v.n * 2 end, {n = 3})
-- box.controls.n.value  --> 3
function ui.interact(f, specs)
  return interact(ui, f, specs)
end

return ui
