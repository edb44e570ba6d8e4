--- ui/widget.lua - one widget: its state here, and its copy on the page.
--
-- Widgets speak the protocol of ipywidgets, version 2.1.0, over a comm each.
-- What the page sends is echoed to all pages, taken, and where it had to be
-- changed (a value out of range) sent back. Reading a field is a look into a
-- table: a loop may read what a callback has just written.
-- Source: ipywidgets' message protocol 2.1.0.
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local errors = require "tide.base.errors"
local comm = require "tide.ui.channels"
local json = require "tide.base.json"
local models = require "tide.ui.models"

local widget = {}

local TARGET, CONTROL = "jupyter.widget", "jupyter.widget.control"
local VERSION = {version = "2.1.0"}

local known = {} -- those not closed, and layouts and styles: by id

-- ---- models on the page -----------------------------------------------------

-- What a page keeps the state of: a channel and the state.
local function announce(state, on_message)
  local c = comm.open(TARGET, {state = state, buffer_paths = json.array{}},
                      {metadata = VERSION})
  local model = {comm = c, state = state}
  known[c.id] = model
  c:on_message(function(data, buffers) on_message(model, data, buffers) end)
  c:on_close(function() known[c.id] = nil end)
  return model
end

local function send_state(model, method, keys)
  local state = model.state
  if keys then
    state = json.object{}
    for _, key in ipairs(keys) do state[key] = model.state[key] end
  end
  model.comm:send{method = method, state = state, buffer_paths = json.array{}}
end

local function reference(model) return "IPY_MODEL_" .. model.comm.id end

-- A message to a layout or a style, which a page may change at will.
local function take_freely(model, data)
  if data.method == "request_state" then send_state(model, "update") end
  if data.method ~= "update" or type(data.state) ~= "table" then return end
  for key, x in pairs(data.state) do
    if model.state[key] ~= nil then model.state[key] = x end
  end
end

-- ---- the class --------------------------------------------------------------

local methods = {}

-- Fields by their names in Lua.
local names = {label = "description"}

local function model_of(self) return rawget(self, "model") end

local fail = errors.invalid

local function no_field(self, key)
  local list = {}
  for name in pairs(model_of(self).state) do
    if name:sub(1, 1) ~= "_" then list[#list + 1] = name end
  end
  for name in pairs(methods) do list[#list + 1] = name end
  for name in pairs(self.kind.fields or {}) do list[#list + 1] = name end
  table.sort(list)
  fail("td.ui.%s has no field \"%s\"%s", self.kind.name, tostring(key),
       errors.did_you_mean(key, list))
end

local meta = {__name = "widget"}

function meta.__index(self, key)
  local kind = rawget(self, "kind")
  if methods[key] then return methods[key] end
  local own = kind.fields and kind.fields[key]
  if own then return own.get(self, model_of(self).state) end
  local x = model_of(self).state[names[key] or key]
  if x == nil then no_field(self, key) end
  if x == json.null then return nil end
  return x
end

local function notify(self)
  local value = self.value
  if value == rawget(self, "last") then return end
  rawset(self, "last", value)
  for _, f in ipairs(rawget(self, "watchers")) do
    comm.call("on_change of td.ui." .. self.kind.name, f, value, self)
  end
end

-- The widget's fields as they have to be.
local function settle(self)
  local adjust = self.kind.adjust
  if adjust then adjust(model_of(self).state) end
end

local function has_value(self)
  return model_of(self).state.value ~= nil or self.kind.fields
    and self.kind.fields.value
end

function meta.__newindex(self, key, x)
  local model, kind = model_of(self), self.kind
  local own = kind.fields and kind.fields[key]
  local field = own and own.field or names[key] or key
  if model.state[field] == nil or field:sub(1, 1) == "_" and not own then
    no_field(self, key)
  end
  if own then
    model.state[field] = own.set(self, x)
  else
    local was = model.state[field]
    if x ~= nil and was ~= json.null and type(was) ~= type(x) then
      fail("td.ui.%s: %s is a %s, not %s", kind.name, key, type(was),
           args.what(x))
    end
    model.state[field] = x == nil and json.null or x
  end
  settle(self)
  send_state(model, "update", {field, field ~= "value" and model.state.value
                               ~= nil and "value" or nil})
  if has_value(self) then notify(self) end
end

-- ---- from the page ----------------------------------------------------------

local function take_update(self, sent)
  local model = model_of(self)
  local echo, keys = json.object{}, {}
  for key, x in pairs(sent) do
    if type(key) == "string" and model.state[key] ~= nil
       and key:sub(1, 7) ~= "_model_" and key:sub(1, 6) ~= "_view_" then
      echo[key] = x
      keys[#keys + 1] = key
    end
  end
  if #keys == 0 then return end
  table.sort(keys)
  model.comm:send{method = "echo_update", state = echo,
                  buffer_paths = json.array{}}
  for _, key in ipairs(keys) do
    local was, x = model.state[key], echo[key]
    if was == json.null or x == json.null or type(was) == type(x) then
      model.state[key] = x
    end
  end
  settle(self)
  local changed = {}
  for _, key in ipairs(keys) do
    if model.state[key] ~= echo[key] then changed[#changed + 1] = key end
  end
  if #changed > 0 then send_state(model, "update", changed) end
  if has_value(self) then notify(self) end
end

local function take(self, data, buffers)
  if data.method == "update" and type(data.state) == "table" then
    take_update(self, data.state)
  elseif data.method == "request_state" then
    send_state(model_of(self), "update")
  elseif data.method == "custom" and type(data.content) == "table" then
    local custom = self.kind.custom
    if custom then custom(self, data.content, buffers) end
  end
end

comm.register(CONTROL, function(c)
  c:on_message(function(data)
    if data.method ~= "request_states" then return end
    local states = json.object{}
    for id, model in pairs(known) do
      states[id] = {model_name = model.state._model_name,
                    model_module = model.state._model_module,
                    model_module_version = model.state._model_module_version,
                    state = model.state}
    end
    c:send{method = "update_states", states = states,
           buffer_paths = json.array{}}
  end)
end)

-- ---- making -----------------------------------------------------------------

--- A widget of `kind`: {name, model, fields, adjust, text, custom}, with the
-- fields of its state that are given.
function widget.new(kind, given)
  local row = models.widgets[kind.model]
  local state = row[2]()
  for key, x in pairs(given) do state[names[key] or key] = x end
  if kind.adjust then kind.adjust(state) end
  state.layout = reference(announce(models.layout(), take_freely))
  if row[1] then
    state.style = reference(announce(models.style(row[1]), take_freely))
  end
  local self = setmetatable({kind = kind, watchers = {}, clicks = {}}, meta)
  rawset(self, "model", announce(state, function(_, data, buffers)
    take(self, data, buffers)
  end))
  if has_value(self) then rawset(self, "last", self.value) end
  return self
end

--- Is x a widget?
function widget.is(x)
  return type(x) == "table" and getmetatable(x) == meta
end

--- What stands for a widget in the state of another.
function widget.reference(self) return reference(model_of(self)) end

--- A message about a button, from the page.
function widget.click(self, content)
  if content.event ~= "click" then return end
  for _, f in ipairs(rawget(self, "clicks")) do
    comm.call("on_click of td.ui.button", f, self)
  end
end

-- ---- methods ----------------------------------------------------------------

--- f(value, widget) is called when the value has changed, by the page or from
-- Lua: beside a cell while a step runs.
function methods:on_change(f)
  args.expect_callable(f, "on_change")
  if not has_value(self) then
    fail("td.ui.%s has no value that could change", self.kind.name)
  end
  table.insert(rawget(self, "watchers"), f)
  return self
end

--- f(button) is called for each click on a button.
function methods:on_click(f)
  args.expect_callable(f, "on_click")
  if self.kind.name ~= "button" then
    fail("on_click is for buttons; td.ui.%s has on_change", self.kind.name)
  end
  table.insert(rawget(self, "clicks"), f)
  return self
end

--- Runs f(...) and shows what it prints and displays inside an output widget;
-- gives what f does.
function methods:capture(f, ...)
  if not self.kind.capture then
    fail("capture is for td.ui.output, not td.ui.%s", self.kind.name)
  end
  return self.kind.capture(self, f, ...)
end

--- Takes away what an output widget shows.
function methods:clear()
  if not self.kind.capture then
    fail("clear is for td.ui.output, not td.ui.%s", self.kind.name)
  end
  self.outputs = json.array{}
end

--- Takes the widget off the page, for good.
function methods:close()
  for _, key in ipairs{"layout", "style"} do
    local id = tostring(model_of(self).state[key]):match "^IPY_MODEL_(%x+)$"
    local model = known[id or ""]
    if model then
      known[id] = nil
      model.comm:close()
    end
  end
  known[model_of(self).comm.id] = nil
  model_of(self).comm:close()
end

--- Sets fields of the layout: w:layout_with{width = "50%"}.
function methods:layout_with(fields)
  args.expect(fields, "table", "layout_with")
  local id = model_of(self).state.layout:match "^IPY_MODEL_(%x+)$"
  local model, keys = known[id], {}
  for key, x in pairs(fields) do
    if model.state[key] == nil then fail("a layout has no \"%s\"", key) end
    model.state[key] = x
    keys[#keys + 1] = key
  end
  send_state(model, "update", keys)
  return self
end

-- ---- shown ------------------------------------------------------------------

--- The widget as text, for terminals.
function widget.text(self) return self.kind.text(self) end

meta.__tostring = widget.text
meta.__repr_pretty = widget.text

function meta.__repr_mimebundle(self)
  return {["text/plain"] = widget.text(self),
          ["application/vnd.jupyter.widget-view+json"] = {
            version_major = 2, version_minor = 0,
            model_id = model_of(self).comm.id}}
end

return widget
