-- tutorials.lua - the tutorials run, and end where they say.
--
-- Each is run in smoke mode where it has one; those that take a moment are run
-- whole as well, and under TIDE_SOAK all of them.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"

local tests = {}
local soak = os.getenv "TIDE_SOAK" ~= nil

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- What the tutorial prints, given its arguments.
local function output_of(name, ...)
  td.reset()
  local lines = {}
  local path = "tutorials/" .. name .. ".lua"
  local outer, printing = rawget(_G, "arg"), print
  rawset(_G, "arg", {[0] = path, ...})
  rawset(_G, "print", function(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]) end
    lines[#lines + 1] = table.concat(words, "\t")
  end)
  local ok, e = pcall(assert(loadfile(path)))
  rawset(_G, "arg", outer)
  rawset(_G, "print", printing)
  lu.assertTrue(ok, name .. ": " .. tostring(e))
  return table.concat(lines, "\n")
end

-- Name, what its output must hold when run whole; slow: only under TIDE_SOAK;
-- folder: the flag that takes one of its own.
local rows = {
  {"figure1", "10\t"},
  {"osdi_figure1", "2."},
  {"power_method", "eigenvalue 4.7321"},
  {"quadratic", "step 40: f = 0.000000"},
  {"linear_regression", "formula:  float32 {3} 2.98"},
  {"kmeans", "moved 0.0000"},
  {"user_optimizer", "float32 {2} 1 1"},
  {"gpu", "it learns"},
  {"queues", "learned from 2400 sentences"},
  {"deep_lstm_devices", "/device:CPU:3"},
  {"rnn_while", "the sand keeps no step of the moon. the moon", slow = true},
  {"mnist_mlp", "test_accuracy: 0.9", slow = true},
  {"mnist_convnet", "test_accuracy: 0.9", slow = true},
  {"cifar10", "test_accuracy: ", slow = true},
  {"input_pipeline", "in the same order: yes"},
  {"dream", "the network is sure", slow = true},
  {"char_rnn", "nats a character", slow = true},
  {"wide_deep", "with the odds known", slow = true},
  {"ptb_lstm", "a bigram model's: ", slow = true},
  {"word2vec", "mean cosine: ", slow = true},
  {"seq2seq", "reversed whole: ", slow = true},
  {"autoencoder", "epoch 5: loss", slow = true},
  {"dqn", "mean return: ", slow = true},
  {"resume", "digest: ", slow = true, folder = "--dir"},
  {"fine_tune", "trunk of 0 to 4", slow = true},
  {"gan", "epoch 19: discriminator", slow = true},
}

-- The words that give a tutorial a folder; it goes with the last value.
local function own_folder(flag)
  if not flag then return {} end
  local path = os.tmpname()
  os.remove(path)
  return {flag, path}, setmetatable({}, {__close = function()
    os.execute("rm -rf '" .. path .. "'")
  end})
end

local function run_smoke(name, flag)
  local words <const>, _ <close> = own_folder(flag)
  lu.assertTrue(#output_of(name, "--smoke", table.unpack(words)) > 0)
end

local function run_whole(name, flag, want)
  local words <const>, _ <close> = own_folder(flag)
  lu.assertStrContains(output_of(name, table.unpack(words)), want)
end

for _, row in ipairs(rows) do
  local name, want = row[1], row[2]
  tests[name] = function()
    if read("tutorials/" .. name .. ".lua"):find("smoke = false", 1, true) then
      run_smoke(name, row.folder)
    end
    if not row.slow or soak then run_whole(name, row.folder, want) end
  end
end

function tests.all_have_a_row()
  local known = {}
  for _, row in ipairs(rows) do known[row[1]] = true end
  local pipe <close> = assert(io.popen "ls tutorials/*.lua")
  for path in pipe:lines() do
    local name = path:match "([%w_]+)%.lua$"
    lu.assertTrue(known[name], name .. " has no row")
    local text = read(path)
    lu.assertStrContains(text, "--- " .. name .. ".lua - ")
  end
end

local function source(name) return read("tutorials/" .. name .. ".lua") end

-- Lines of a text that are code; at most 80 columns each.
local function lines_of_code(text, without)
  local n = 0
  for line in text:gmatch "[^\n]+" do
    lu.assertTrue(#line <= 80, line)
    local code = line:match "^%s*(.-)%s*$"
    if code ~= "" and not code:find "^%-%-"
       and not code:find(without or "\0", 1, true)
    then
      n = n + 1
    end
  end
  return n
end

-- tutorials/README.md names every program, and none that is not there.
function tests.all_are_listed()
  local listed, found = {}, {}
  for name in read "tutorials/README.md":gmatch "`([%w_]+)%.lua`" do
    listed[#listed + 1] = name
  end
  for _, dir in ipairs{"tutorials", "tutorials/models"} do
    local pipe <close> = assert(io.popen("ls " .. dir))
    for line in pipe:lines() do
      found[#found + 1] = line:match "^([%w_]+)%.lua$"
    end
  end
  table.sort(listed)
  table.sort(found)
  lu.assertEquals(listed, found)
end

-- As long as in Python: the figure of the white paper, with its gradients but
-- without the initializer it leaves out; that of OSDI, without the import; the
-- slides' deep LSTM on devices, without the cells.
function tests.the_papers_programs_are_no_longer_than_in_python()
  lu.assertEquals(lines_of_code(source "figure1", ":init()"), 12)
  lu.assertEquals(lines_of_code(source "osdi_figure1", "require"), 15)
  local loops = source "deep_lstm_devices":match "%-%- The slides' loops.-\n\n"
  lu.assertEquals(lines_of_code(loops), 7)
end

return tests
