--- ui/models.lua - the widgets' models: their state when nothing is said.
--
-- A page draws a widget from its state alone; the names, versions and defaults
-- are those of ipywidgets' base 2.0.0, controls 2.0.0 and output 1.0.0.
-- Source: ipywidgets' jupyterwidgetmodels.
-- SPDX-License-Identifier: Apache-2.0

local json = require "tide.base.json"

local null = json.null

local models = {}

local modules = {base = {"@jupyter-widgets/base", "2.0.0"},
                 controls = {"@jupyter-widgets/controls", "2.0.0"},
                 output = {"@jupyter-widgets/output", "1.0.0"}}

-- What all models have; `view` nil: it is not seen.
local function identity(name, module, view, view_module)
  local model, of = modules[module], modules[view_module or module]
  return {_model_name = name, _model_module = model[1],
          _model_module_version = model[2], _view_name = view or null,
          _view_module = of[1], _view_module_version = of[2],
          _view_count = null}
end

local function with(state, ...)
  for _, more in ipairs{...} do
    for key, x in pairs(more) do state[key] = x end
  end
  return state
end

-- A table of nulls.
local function nulls(names)
  local t = {}
  for name in names:gmatch "%S+" do t[name] = null end
  return t
end

-- ---- what widgets refer to --------------------------------------------------

--- Where a widget stands on the page.
function models.layout()
  return with(identity("LayoutModel", "base", "LayoutView"), nulls [[
    align_content align_items align_self border_bottom border_left border_right
    border_top bottom display flex flex_flow grid_area grid_auto_columns
    grid_auto_flow grid_auto_rows grid_column grid_gap grid_row
    grid_template_areas grid_template_columns grid_template_rows height
    justify_content justify_items left margin max_height max_width min_height
    min_width object_fit object_position order overflow padding right top
    visibility width]])
end

local font = "font_family font_size font_style font_variant font_weight "
  .. "text_color text_decoration"

-- Styles: the fields each has besides the width of the description.
local styles = {
  Slider = "handle_color", Description = "", Checkbox = "background",
  Text = "background font_size text_color", Progress = "bar_color",
  Label = "background " .. font,
  HTML = "background font_size text_color",
}

--- How the widgets of a kind look: "Slider", "Text", ...
function models.style(kind)
  local state = identity(kind .. "StyleModel", "controls", "StyleView", "base")
  if kind == "Button" then
    return with(state, nulls("button_color " .. font))
  end
  return with(state, nulls(styles[kind]), {description_width = ""})
end

-- ---- widgets ----------------------------------------------------------------

local function seen(name, module)
  return with(identity(name .. "Model", module or "controls", name .. "View"),
              {_dom_classes = json.array{}, tabbable = null, tooltip = null})
end

local function described(name)
  return with(seen(name), {description = "", description_allow_html = false})
end

local function slider(name, format)
  return with(described(name), {behavior = "drag-tap", continuous_update = true,
    disabled = false, orientation = "horizontal", readout = true,
    readout_format = format})
end

--- By name: a function that gives the state, and the kind of its style.
models.widgets = {
  IntSlider = {"Slider", function()
    return with(slider("IntSlider", "d"), {value = 0, min = 0, max = 100,
                                           step = 1})
  end},
  FloatSlider = {"Slider", function()
    return with(slider("FloatSlider", ".3g"), {value = 0.0, min = 0.0,
                                               max = 10.0, step = 0.1})
  end},
  FloatLogSlider = {"Slider", function()
    return with(slider("FloatLogSlider", ".3g"), {value = 1.0, base = 10.0,
      min = 0.0, max = 4.0, step = 0.1})
  end},
  Dropdown = {"Description", function()
    return with(described("Dropdown"), {disabled = false, index = null,
                                        _options_labels = json.array{}})
  end},
  Select = {"Description", function()
    return with(described("Select"), {disabled = false, index = null, rows = 5,
                                      _options_labels = json.array{}})
  end},
  Checkbox = {"Checkbox", function()
    return with(described("Checkbox"), {disabled = false, indent = true,
                                        value = false})
  end},
  Text = {"Text", function()
    return with(described("Text"), {continuous_update = true, disabled = false,
                                    placeholder = "", value = ""})
  end},
  Button = {"Button", function()
    return with(seen("Button"), {button_style = "", description = "",
                                 disabled = false, icon = ""})
  end},
  FloatProgress = {"Progress", function()
    return with(described("FloatProgress"), {bar_style = "", value = 0.0,
      min = 0.0, max = 100.0, orientation = "horizontal"})
  end},
  Label = {"Label", function()
    return with(described("Label"), {placeholder = "", value = ""})
  end},
  HTML = {"HTML", function()
    return with(described("HTML"), {placeholder = "", value = ""})
  end},
  HBox = {nil, function()
    return with(seen("HBox"), {box_style = "", children = json.array{}})
  end},
  VBox = {nil, function()
    return with(seen("VBox"), {box_style = "", children = json.array{}})
  end},
  Output = {nil, function()
    return with(seen("Output", "output"), {msg_id = "",
                                           outputs = json.array{}})
  end},
}

-- The view of a progress bar has a shorter name than its model.
local progress = models.widgets.FloatProgress[2]
models.widgets.FloatProgress[2] = function()
  return with(progress(), {_view_name = "ProgressView"})
end

return models
