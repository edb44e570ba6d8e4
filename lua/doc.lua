-- doc.lua - takes the doc comments out of the Lua library, for help and doc.
--
-- lua5.4 lua/doc.lua lua/tide/init.lua lua/tide/ops.lua ... > docs.lua
--
-- A block of comments that begins with three dashes documents the function
-- under it, or those that its lines `@function name(arguments)` name. The
-- module that is written gives a list of {module, of, name, call, text, usage};
-- `of` is what stands before the name ("methods" in `function methods:run`).
-- The block that opens a file is about the module: its name is "". A function
-- without a block has no text; a test looks whether it needs one.
-- SPDX-License-Identifier: Apache-2.0

local function module_name(path)
  return (assert(path:match "lua/tide/(.*)%.lua$", path):gsub("/", "."))
end

-- "methods:run(fetches)" as of, name, call.
local function split(text)
  local path, call = text:match "^([%w_.:]+)%s*(%b())"
  path = path or text:match "^[%w_.:]+"
  if not path then return nil end
  local of, name = path:match "^(.-)[.:]?([%w_]+)$"
  return of, name, call or ""
end

-- What a line of code defines, if it is public.
local function defined(line)
  if not line or line:find "^%s*local" then return nil end
  local text = line:match "^%s*function%s+(.*)$"
  if text then return split(text) end
  local call = line:match "^return function(%b())"
  if call then return "", "return", call end
  local path = line:match "^([%w_.]+)%s*="
  if path then return split(path) end
end

-- The lines of a block: text, names it gives, examples.
local function read_block(lines)
  local text, names, usage = {}, {}, {}
  local into = text
  for _, line in ipairs(lines) do
    local tag, rest = line:match "^@(%w+)%s*(.*)$"
    if tag == "function" then
      names[#names + 1] = rest
    elseif tag == "usage" then
      into = usage
      usage[#usage + 1] = rest
    elseif not line:find "^SPDX" then
      if tag then into = text end
      into[#into + 1] = line
    end
  end
  local function joined(list)
    return (table.concat(list, "\n"):gsub("%s+$", ""))
  end
  return joined(text), names, joined(usage)
end

local function add(list, module, block, code)
  local text, names, usage = read_block(block)
  local function row(of, name, call)
    list[#list + 1] = {module = module, of = of, name = name, call = call,
                       text = text, usage = usage}
  end
  for _, name in ipairs(names) do row(split(name)) end
  if #names > 0 then return end
  local of, name, call = defined(code)
  if name then row(of, name, call) end
end

local function read_file(list, path)
  local module, block, first = module_name(path), nil, true
  for line in io.lines(path) do
    local begun = line:match "^%s*%-%-%- ?(.*)$"
    local more = block and line:match "^%s*%-%- ?(.*)$"
    if begun and not line:find "^%s*%-%-%-%-" then
      block = {begun}
    elseif more then
      block[#block + 1] = more
    elseif block then
      if first then
        local text = read_block(block)
        list[#list + 1] = {module = module, of = "", name = "", call = "",
                           text = text, usage = ""}
      else
        add(list, module, block, line)
      end
      block, first = nil, false
    elseif line:find "^function" then
      add(list, module, {}, line)
    end
  end
end

local list = {}
for _, path in ipairs(arg) do read_file(list, path) end
print "return {"
for _, row in ipairs(list) do
  print(("  {module = %q, of = %q, name = %q, call = %q,\n   text = %q,\n   "
    .. "usage = %q},"):format(row.module, row.of, row.name, row.call, row.text,
    row.usage))
end
print "}"
