--- ui/interact.lua - td.ui.interact: a function with a control for each of its
-- arguments.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local output = require "tide.ui.output"
local widget = require "tide.ui.widget"

-- A slider for a number: around it, or between the bounds of a list.
local function slider(ui, label, spec)
  if type(spec) == "table" then
    local min, max, step = spec[1], spec[2], spec[3]
    local value = spec.value or min
    return ui.slider{label = label, min = min, max = max, step = step,
                     value = value}
  end
  local reach = spec == 0 and 1 or spec
  if math.type(spec) == "float" and spec == 0 then reach = 1.0 end
  local low, high = -reach, 3 * reach
  if low > high then low, high = high, low end
  return ui.slider{label = label, min = low, max = high, value = spec}
end

-- The control that a value of the table stands for.
local function control(ui, label, spec)
  if widget.is(spec) then return spec end
  if type(spec) == "boolean" then
    return ui.checkbox{label = label, value = spec}
  elseif type(spec) == "string" then
    return ui.text{label = label, value = spec}
  elseif type(spec) == "number" then
    return slider(ui, label, spec)
  elseif type(spec) == "table" and type(spec[1]) == "string" then
    return ui.select{label = label, options = spec, value = spec.value}
  elseif type(spec) == "table" and #spec >= 2 and #spec <= 3 then
    return slider(ui, label, spec)
  end
  core.error("invalid_argument", ("interact: %s is a number, {min, max, step}, "
    .. "a list of strings, a string, a boolean or a widget, not %s"):format(
    label, args.what(spec)))
end

--- What td.ui.interact does; `ui` is the module.
return function(ui, f, specs)
  args.expect_callable(f, "interact: the function")
  args.expect(specs, "table", "interact: the controls")
  local controls, rows, out = {}, {}, ui.output()
  for _, name in ipairs(args.sorted_keys(specs)) do
    controls[name] = control(ui, tostring(name), specs[name])
    rows[#rows + 1] = controls[name]
  end
  local function call()
    local values = {}
    for name, c in pairs(controls) do values[name] = c.value end
    out:clear()
    local got = table.pack(out:capture(f, values))
    if got.n > 0 and got[1] ~= nil then output.show(out, got[1]) end
  end
  for _, c in ipairs(rows) do c:on_change(call) end
  rows[#rows + 1] = out
  call()
  local box = ui.vbox(rows)
  rawset(box, "controls", controls)
  return box
end
