--- ui/forms.lua - widgets as text, for terminals and saved notebooks.
--
-- SPDX-License-Identifier: Apache-2.0

local forms = {}

local WIDE = 20 -- columns of a bar

local function labelled(self, text)
  local label = self.label
  if label == "" then return text end
  return label .. " " .. text
end

local function bar(part, mark, rest)
  part = math.max(0, math.min(1, part == part and part or 0))
  local n = math.floor(part * WIDE + 0.5)
  return mark:rep(n) .. rest:rep(WIDE - n)
end

local function part_of(value, min, max)
  return max > min and (value - min) / (max - min) or 0
end

--- lr [=====o--------------] 0.1
function forms.slider(self)
  local part
  if self.kind.model == "FloatLogSlider" then
    part = part_of(math.log(self.value, self.base), self.min, self.max)
  else
    part = part_of(self.value, self.min, self.max)
  end
  local text = bar(part, "=", "-")
  local at = math.max(1, math.floor(part * WIDE + 0.5))
  return labelled(self, ("[%so%s] %.6g"):format(text:sub(1, at - 1),
                                               text:sub(at + 1), self.value))
end

--- model (mlp) cnn rnn
function forms.select(self)
  local list = {}
  for i, name in ipairs(self.options) do
    list[i] = name == self.value and "(" .. name .. ")" or name
  end
  return labelled(self, table.concat(list, " "))
end

--- [x] shuffle
function forms.checkbox(self)
  local mark = self.value and "[x]" or "[ ]"
  return self.label == "" and mark or mark .. " " .. self.label
end

--- title: "a"
function forms.text(self)
  return labelled(self, ("%q"):format(self.value))
end

--- [ Run ]
function forms.button(self) return "[ " .. self.label .. " ]" end

--- training [########------------] 40%
function forms.progress(self)
  local part = part_of(self.value, self.min, self.max)
  return labelled(self, ("[%s] %.0f%%"):format(bar(part, "#", "-"),
                                              100 * part))
end

--- What it says.
function forms.label(self) return self.value end

--- HTML without its tags.
function forms.html(self)
  return (self.value:gsub("<[^<>]*>", ""))
end

--- What was written into it.
function forms.output(self)
  local list = {}
  for i, out in ipairs(self.outputs) do
    list[i] = out.text or out.data and out.data["text/plain"]
      or out.traceback and table.concat(out.traceback, "\n") or ""
    list[i] = list[i]:gsub("\n$", "")
  end
  return table.concat(list, "\n")
end

local function joined(between)
  return function(self)
    local list = {}
    for i, child in ipairs(self.children) do
      list[i] = child.kind.text(child)
    end
    return table.concat(list, between)
  end
end

--- Children beside each other, and below each other.
forms.hbox = joined "  "
forms.vbox = joined "\n"

return forms
