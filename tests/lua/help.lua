-- help.lua - every public name is documented, every example holds.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"
local help = require "tide.help.help"
local reference = require "tide.help.reference"
local folder = require "shared.folder"
local helper = require "helper"

local raises = helper.raises
local tests = {}

-- ---- what there is --------------------------------------------------------

local function is_documented(name)
  local entry = reference.entry(name)
  return entry and entry.text ~= "" or false
end

-- Names in texts that stand for something else: whose op, any name.
local elsewhere = {["td.cube"] = true, ["td.name"] = true}

-- What is td.a.b?
local function resolve(name)
  local x = td
  for part in name:gmatch "%.([%w_]+)" do
    local ok, field = pcall(function() return x[part] end)
    if not ok or field == nil then return nil end
    x = field
  end
  return x
end

-- Every td.name in the text of a page, a message, an example or a program of
-- ours is one that there is: nobody is sent to what does not exist.
function tests.texts_name_what_there_is()
  local pipe <close> = io.popen("find README.md ARCHITECTURE.md lua/tide "
    .. "tutorials -name '*.lua' -o -name '*.md' -o -name '*.ipynb'")
  local n, missing = 0, {}
  for path in pipe:lines() do
    local f <close> = assert(io.open(path))
    for name in f:read "a":gmatch "%f[%w_.]td%.[%l][%w_.]*%w" do
      n = n + 1
      local any = elsewhere[name] or name:find "%.%u" -- td.layers.NAME
      if not any and resolve(name) == nil then
        missing[#missing + 1] = path .. ": " .. name
      end
    end
  end
  lu.assertTrue(n > 1000)
  lu.assertEquals(missing, {})
end

function tests.every_public_name_is_documented()
  local missing = {}
  local function check(name)
    if not is_documented(name) then missing[#missing + 1] = name end
  end
  for _, name in ipairs(reference.names()) do check(name) end
  for name in pairs(getmetatable(td).__modules) do
    local module = td[name]
    for key, x in pairs(type(module) == "table" and module or {}) do
      if type(x) == "function" and type(key) == "string"
         and not key:find "^_" and name ~= "value" then
        check(name .. "." .. key)
      end
    end
  end
  table.sort(missing)
  lu.assertEquals(missing, {}, "names without a `---` comment")
end

-- The methods that the binding gives to its objects.
function tests.every_method_of_the_binding_is_documented()
  local registry = debug.getregistry()
  for kind, prefix in pairs{tensor = "x:", graph = "g:", session = "sess:"} do
    local _, methods = debug.getupvalue(registry["tide." .. kind].__index, 1)
    for name in pairs(methods) do
      if not name:find "^core_" and name ~= "import_bytes" and name ~= "flow"
      then
        lu.assertTrue(is_documented(prefix .. name), prefix .. name)
      end
    end
  end
  for name in pairs(registry["tide.handle"].__index) do
    lu.assertTrue(is_documented("h:" .. name), "h:" .. name)
  end
end

function tests.every_op_is_documented()
  for _, type in ipairs(core.op_names()) do
    lu.assertTrue(#core.op_info(type).doc > 0, type)
  end
end

-- Those without a result to show: what they do is beyond one line.
local without_example = {
  no_op = true, parameterized_truncated_normal = true,
  stateless_random_uniform = true, record_input = true, write_file = true,
}

function tests.every_op_under_a_name_has_an_example()
  for _, name in ipairs(reference.names()) do
    local entry = reference.entry(name)
    if entry.op and not without_example[name] then
      lu.assertTrue(reference.example(entry) ~= "", name .. " has no example; "
        .. "give its comment a line `@usage code  --> result`, or its row "
        .. ".example")
    end
  end
end

-- ---- examples -------------------------------------------------------------

-- The words of a text, without the dtype in front.
local function words(text)
  local list = {}
  for word in text:gsub("^%a+%d* ", ""):gmatch "[-%w.]+" do
    list[#list + 1] = word
  end
  return list
end

local function same(a, b)
  local x, y = tonumber(a), tonumber(b)
  if not x or not y then return a == b end
  return math.abs(x - y) <= 1e-5 * math.max(1, math.abs(y))
end

-- Does `got` end with the words of `want`?
local function ends_with(got, want)
  got, want = words(got), words(want)
  for i = 0, #want - 1 do
    local word = got[#got - i]
    if not word or not same(word, want[#want - i]) then return false end
  end
  return true
end

local function shown(x)
  if core.kind(x) == "edge" then x = x:eval(nil, {as_values = true}) end
  if type(x) ~= "table" or getmetatable(x) then return tostring(x) end
  local parts = {}
  for i, part in ipairs(x) do parts[i] = shown(part) end
  return table.concat(parts, " ")
end

-- Until it is closed os.tmpname gives names in a folder, which goes then: an
-- example may leave files.
local function collect_files()
  local dir, tmpname, n = folder.temp(), os.tmpname, 0
  rawset(os, "tmpname", function()
    n = n + 1
    return dir("file_" .. n)
  end)
  return setmetatable({}, {__close = function()
    rawset(os, "tmpname", tmpname)
    getmetatable(dir).__close(dir)
  end})
end

-- Runs the examples of the list's entries that say what they give.
local function check_examples(names, prefix, least)
  local count = 0
  local _ <close> = collect_files()
  for _, name in ipairs(names) do
    local example = reference.example(reference.entry(prefix .. name))
    local code, want = example:match "^(.-)%s*%-%->%s*(.*)$"
    if code then
      td.reset()
      td.seed(1)
      local got = shown(reference.run(code))
      lu.assertTrue(ends_with(got, want), example .. " gives " .. got)
      count = count + 1
    end
  end
  lu.assertTrue(count > least, count)
end

function tests.examples_of_functions_hold()
  check_examples(reference.names(), "", 100)
end

function tests.examples_of_ops_hold()
  check_examples(core.op_names(), "raw.", 100)
end

-- ---- asking ---------------------------------------------------------------

-- Name, what the answer holds.
local answers = {
  {"matmul", "td.matmul(a, b, o)"}, {"matmul", "op MatMul(a: T, b: T)"},
  {"matmul", "transpose_a: bool = false"}, {"matmul", "gradient: yes"},
  {"matmul", "CPU: float32"}, {"matmul", "> td.matmul("},
  {"MatMul", "td.raw.MatMul(a, b, {transpose_a = false"},
  {"td.sqrt", "shape: that of the first input"},
  {"add", "broadcast as in NumPy"}, {"argmax", "gradient: none"},
  {"sess:run", "deadline_exceeded"}, {"run", "Computes what is fetched"},
  {"train.adam", "beta1 (0.9)"}, {"td.train", "optimizers"},
  {"x:item", "rank 0"}, {"reduce_mean", "true quotient"},
  {"float32", "A dtype is a string"}, {"out_of_range", "the end of the data"},
  {"W:scatter_add", "occurs twice"}, {"nn", "td.linalg.inv"},
  {"td.nn.lstm_cell", "td.lstm_cell(n, o)"}, {"nn.relu", "op Relu"},
  {"linalg.inv", "td.matrix_inverse"}, {"cell:zero_state", "to begin with"},
  {"saver", "td.train.saver(o)"}, {"sv:should_stop", "before each step"},
}

function tests.answers()
  for _, row in ipairs(answers) do
    local text = help.text(row[1])
    lu.assertStrContains(text or "nothing on " .. row[1], row[2])
  end
  lu.assertNil(help.text "nothing of that name")
end

function tests.misspelt_names_get_the_nearest()
  raises("no help on \"matmull\"; did you mean \"matmul\"?", td.help, "matmull")
  raises("did you mean \"sess:run\"?", td.help, "sess:ran")
  raises("did you mean \"MatMul\"?", td.help, "MatMull")
  raises("help: the name must be a string", td.help, 3)
end

-- ---- the whole ------------------------------------------------------------

function tests.the_reference_holds_every_name()
  local manual = require "tide.help.manual"
  local sections = manual.sections "usage: tide [options]\n\n  -e CODE  runs it"
  local seen = {}
  for _, section in ipairs(sections) do
    for _, row in ipairs(section.rows) do seen[row.name] = true end
  end
  for _, name in ipairs(reference.names()) do
    local entry = reference.entry(name)
    if entry.module then lu.assertTrue(seen[entry.name], name) end
  end
  for _, type in ipairs(core.op_names()) do
    local info = core.op_info(type)
    if type:sub(1, 1) ~= "_" then
      lu.assertTrue(seen["td." .. info.lua] or seen["td.raw." .. type], type)
    end
  end
  for code in pairs(require("tide.base.errors").codes) do
    lu.assertTrue(seen[code], code)
  end
  local page = manual.html(sections)
  lu.assertStrContains(page, '<h3 id="td.matmul">td.matmul(a, b, o)</h3>')
  lu.assertStrContains(page, "T in {float32")
  lu.assertNil(page:find "<[%w_]+>%s*&&")
  local text = manual.markdown(sections)
  lu.assertStrContains(text, "### `sess:run(fetches, feeds, o)`")
  lu.assertStrContains(text, "```lua\ntd.concat({{1, 2}, {3}}, 0)  --> 1 2 3")
  local man = manual.man "usage: tide\n\n  -e CODE  runs it\n"
  lu.assertStrContains(man, ".TH TIDE 1")
  lu.assertStrContains(man, "\\-e CODE  runs it")
  lu.assertStrContains(man, ".B tide ops")
end

function tests.every_code_of_the_engine_is_described()
  local file <close> = assert(io.open "engine/base/status.h")
  for code in file:read "a":gmatch "TD_([A-Z_]+) = [1-9]" do
    lu.assertTrue(is_documented(code:lower()), code)
  end
end

local function output(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return (pipe:read "a")
end

function tests.at_the_prompt()
  local binary = output "readlink /proc/$PPID/exe":match "%S+"
  local text = output("printf '?matmul\\n ? sess:run \\n?matmull\\n1 + 1\\n' | "
                      .. binary .. " -i")
  lu.assertStrContains(text, "td.matmul(a, b, o)")
  lu.assertStrContains(text, "Computes what is fetched")
  lu.assertStrContains(text, "did you mean \"matmul\"?")
  lu.assertStrContains(text, "> 2")
end

return tests
