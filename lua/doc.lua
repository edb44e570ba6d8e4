-- doc.lua - takes the doc comments out of the Lua library, for help and doc.
--
-- lua5.4 lua/doc.lua lua/tide/init.lua lua/tide/ops/array.lua ... > docs.lua
--
-- A block of comments that begins with three dashes documents the function
-- under it, or those that its lines `@function name(arguments)` name. The
-- module that is written gives a list of {module, of, name, call, text, usage,
-- options, op}; `of` is what stands before the name ("methods" in `function
-- methods:run`), `options` the names that args.read in its body takes, `op` the
-- op that its body hands its options to.
-- The block that opens a file is about the module: its name is "". A function
-- without a block has no text; a test looks whether it needs one.
-- SPDX-License-Identifier: Apache-2.0

local function module_name(path)
  local stem = assert(path:match "lua/tide/(.*)%.lua$", path)
  return (stem:gsub("/init$", ""):gsub("/", "."))
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

-- ---- what a function takes by name ----------------------------------------

-- The strings of a list in Lua source; names in it are lists of the file.
local function strings_of(source, file)
  local found = {}
  for name in source:gsub('%b""', ""):gmatch "[%a_][%w_]*" do
    local more = file:match("\nlocal " .. name .. " = (%b{})")
    for each in (more or ""):gmatch '"([%w_]+)"' do found[#found + 1] = each end
  end
  for each in source:gmatch '"([%w_]+)"' do found[#found + 1] = each end
  return found
end

-- A body with those of the file's local functions that it calls.
local function with_callees(body, file)
  local parts, seen = {body}, {}
  for name in body:gmatch "%f[%w_.]([%a_][%w_]*)[({]" do
    if not seen[name] then
      seen[name] = true
      parts[#parts + 1] = file:match("\nlocal function " .. name
                                     .. "(%b().-\nend)")
    end
  end
  return table.concat(parts, "\n")
end

-- The options that a function's body reads.
local function options_of(body, file)
  local list = {}
  local function take(known)
    table.move(strings_of(known or "", file), 1, 100, #list + 1, list)
  end
  body = with_callees(body, file)
  take(body:match "%f[%w_]o,%s*(%b{})")
  take(body:match "local known = (%b{})")
  for call in body:gmatch "%f[%w]read[%w_]*(%b())" do
    local known = call:match "^%([^,]-(%b()),%s*(%b{})" -- f(g(x), {...})
      or call:match "^%(.-,%s*(%b{})" or call:match "^%(.-,%s*([%w_]+),"
    take(known)
  end
  return list
end

-- Those of a layer, which its class lists.
local function layer_options(file)
  local list = {"name", "trainable", "reuse"}
  for _, key in ipairs{"positions", "options"} do
    local known = strings_of(file:match("%f[%w]" .. key .. " = (%b{})") or "",
                             file)
    table.move(known, 1, #known, #list + 1, list)
  end
  return list
end

-- The op that gets the options: core.op "Name"(x, o).
local function op_of(body)
  for op, call in body:gmatch 'core%.op "(%w+)"(%b())' do
    local last = call:match "([^,]*)%)$"
    if last:find "%f[%w_]o%f[^%w_]" or call:find "[%w_.]+%b()%)+$" then
      return op
    end
  end
end

-- ---- files ----------------------------------------------------------------

local function add(list, module, block, code, body, file)
  local text, names, usage = read_block(block)
  local function row(of, name, call)
    list[#list + 1] = {module = module, of = of, name = name, call = call,
                       text = text, usage = usage,
                       op = op_of(body), options = of == "layers"
                         and layer_options(file) or options_of(body, file)}
  end
  for _, name in ipairs(names) do row(split(name)) end
  if #names > 0 then return end
  local of, name, call = defined(code)
  if name then row(of, name, call) end
end

-- The function that begins with line i, to its end.
local function body_of(lines, i)
  local indent = (lines[i] or ""):match "^%s*"
  for k = i + 1, #lines do
    if lines[k]:find("^" .. indent .. "end") then
      return table.concat(lines, "\n", i, k)
    end
  end
  return ""
end

local function read_file(list, path)
  local module, block, first = module_name(path), nil, true
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  local file = table.concat(lines, "\n")
  for i, line in ipairs(lines) do
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
                           text = text, usage = "", options = {}}
      else
        add(list, module, block, line, body_of(lines, i), file)
      end
      block, first = nil, false
    elseif line:find "^function" then
      add(list, module, {}, line, body_of(lines, i), file)
    end
  end
end

-- A list of strings as Lua source.
local function quoted(list)
  local parts = {}
  for i, each in ipairs(list) do parts[i] = ("%q"):format(each) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local list = {}
for _, path in ipairs(arg) do read_file(list, path) end
print "return {"
for _, row in ipairs(list) do
  print(("  {module = %q, of = %q, name = %q, call = %q,\n   text = %q,\n   "
    .. "usage = %q,\n   options = %s, op = %s},"):format(row.module, row.of,
    row.name, row.call, row.text, row.usage, quoted(row.options),
    row.op and ("%q"):format(row.op) or "nil"))
end
print "}"
