-- workers_table.lua - the table of workers: what is wrong is seen, whatever is
-- in the rows, in text and in HTML.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local bundle = require "tide.show.bundle"
local helper = require "helper"
local markup = require "shared.markup"
local style = require "tide.show.style"
local workers = require "tide.remote.table"

local contains = helper.contains
local tests = {}

local function row_of(i, more)
  local row = {
    task = "/job:worker/task:" .. i, state = "up", heartbeat = 0.25,
    steps = 1000 * i, step_rate = 31.44, memory = 1300000000, bytes_in = 5000,
    bytes_out = 6500000, devices = {"CPU:0", "CPU:1", "CUDA:0"}}
  for key, value in pairs(more or {}) do row[key] = value end
  return row
end

local function rows_of(n)
  local rows = {}
  for i = n, 1, -1 do rows[#rows + 1] = row_of(i - 1) end
  return rows
end

-- Lines of the table, each at most `width` wide.
local function lines_of(rows, o)
  local lines = {}
  for line in (workers.text(rows, o) .. "\n"):gmatch "([^\n]*)\n" do
    line = helper.bare(line)
    lu.assertTrue(style.columns(line) <= o.width, line)
    lines[#lines + 1] = line
  end
  return lines
end

function tests.few()
  local lines = lines_of(rows_of(2), {width = 100})
  lu.assertEquals(lines, {
    "2 workers: 2 up; memory 2.6 GB, in 10 kB, out 13 MB",
    "task      state  heard  steps/s  memory    in     out  devices        "
      .. "steps",
    "────────  ─────  ─────  ───────  ──────  ────  ──────  ─────────────  "
      .. "─────",
    "worker 0  ● up   0.2 s     31.4  1.3 GB  5 kB  6.5 MB  2 CPU, 1 CUDA  "
      .. "    0",
    "worker 1  ● up   0.2 s     31.4  1.3 GB  5 kB  6.5 MB  2 CPU, 1 CUDA  "
      .. "1,000",
  })
end

-- A step that failed is no trouble of the worker's, and is told.
function tests.a_last_error()
  local rows = rows_of(2)
  rows[2].last_error = "no value is left (dequeue)"
  local text = workers.text(rows, {width = 80})
  contains(text, "2 workers: 2 up",
           "\n  last error: no value is left (dequeue)")
  rows[2].error = "it is dead"
  lu.assertNotStrContains(workers.text(rows, {width = 80}), "last error")
  markup.check(workers.html(rows))
end

-- What is asked for fits into 80 columns, however large the numbers are.
function tests.large_numbers()
  local row = row_of(11, {steps = 1234567890, step_rate = 98765,
    memory = 987654321000, bytes_in = 98765432100000, bytes_out = 1 << 40,
    heartbeat = 59.94, state = "suspect",
    devices = {"/job:worker/task:0/device:CPU:0"},
    error = ("silent "):rep(60)})
  local lines = lines_of({row}, {width = 80})
  lu.assertEquals(#lines, 7) -- an error has three
  for _, line in ipairs(lines) do
    lu.assertTrue(utf8.len(line) <= 80, line)
  end
  contains(lines[2], "task", "heard", "steps/s", "memory", "in", "out",
           "devices")
  contains(lines[7], "…")
  contains(workers.text({row}, {width = 100}), "1.23 G")
end

function tests.none()
  lu.assertEquals(workers.text({}, {width = 80}), "No workers")
  markup.check(workers.html{})
end

-- In order of tasks as numbers, whatever the order of the rows.
function tests.order()
  local rows = rows_of(12)
  rows[13] = row_of(0, {task = "/job:ps/replica:0/task:0"})
  local text = workers.text(rows, {width = 80})
  local at = 0
  for _, name in ipairs{"ps 0", "worker 0", "worker 2", "worker 10",
                        "worker 11"} do
    local found = text:find("\n" .. name .. " ", 1, true)
    lu.assertTrue(found and found > at, name)
    at = found
  end
end

function tests.those_in_trouble_are_shown()
  local rows = rows_of(100)
  rows[3].state, rows[3].heartbeat = "suspect", 3.21
  rows[50].state, rows[50].heartbeat = "dead", 734
  rows[50].error = ("it was\nnot heard "):rep(50)
  rows[70].error = setmetatable({}, {__tostring = function()
    return "an error object"
  end})
  rows[71].error = {message = "a plain one"}
  local text = table.concat(lines_of(rows, {width = 80, rows = 6}), "\n")
  contains(text, "100 workers: 98 up, 1 dead, 1 suspect",
           "worker 97  ◐ suspect", "3.2 s", "worker 50  ✕ dead", "12:14",
           "\n  it was not heard it was", "…\n", "\n  an error object\n",
           "\n  a plain one\n",
           "\n94 more, all up")
  contains(workers.text(rows, {width = 80, rows = 3}),
           "97 more, 1 of them in trouble")
  contains(workers.text(rows_of(3), {width = 80, rows = 1}), "2 more, all up")
end

function tests.narrow()
  local rows = rows_of(3)
  rows[2].error = ("x"):rep(300)
  for width = 20, 120, 7 do lines_of(rows, {width = width}) end
end

-- ---- HTML ------------------------------------------------------------------

function tests.html()
  local rows = rows_of(100)
  rows[4].error = "<b>&\"'" .. ("long "):rep(100)
  rows[5].error = "short"
  rows[6].state = "<dead>"
  local data = bundle(workers.of(rows)).data
  local page = markup.check(data["text/html"])
  contains(page, "100 workers: 99 up, 1 &lt;dead&gt;", "<details><summary>",
           "&lt;b&gt;&amp;&quot;&#39;long", ">short</div>",
           "<b>· &lt;dead&gt;</b>", "60 more, all up",
           "overflow-x: auto", "overflow-wrap: anywhere")
  lu.assertNil(page:find "color", "both themes show through")
  contains(data["text/plain"], "100 workers: 99 up", "60 more, all up")
  lu.assertEquals(tostring(rows):match "^%d+ workers", "100 workers")
  lu.assertEquals(rows[4].task, "/job:worker/task:96") -- still a plain list
end

-- ---- anything --------------------------------------------------------------

-- Fields that are missing, of a wrong type, out of range, not text.
function tests.random_rows()
  math.randomseed(5)
  local values = {0, -1, 1.5, 1e300, -1e300, 0 / 0, math.huge, math.maxinteger,
                  math.mininteger, "", "a\0b\27[1m", "\xff\xfe", "<td>", true,
                  false, {}, {"CPU:0", 5}, {{}}, ("long"):rep(3000), "\n",
                  "/job:w/task:99999999999999999999", print}
  local fields = {"task", "state", "heartbeat", "steps", "step_rate", "memory",
                  "bytes_in", "bytes_out", "devices", "error"}
  for _ = 1, 150 do
    local rows = rows_of(math.random(0, 4))
    for _, row in ipairs(rows) do
      for _ = 1, math.random(6) do
        row[fields[math.random(#fields)]] = values[math.random(#values + 1)]
      end
    end
    for _, line in ipairs(lines_of(rows, {width = 70})) do
      lu.assertTrue(utf8.len(line) ~= nil and not line:find "%c")
    end
    markup.check(workers.html(rows))
  end
end

return tests
