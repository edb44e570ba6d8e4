-- models.lua - tutorials/models: sizes known from the papers, summaries, width,
-- and both ways to run them.
--
-- Only graphs are built here; steps.lua trains.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"

local tests = {}

local function load(name)
  return dofile("tutorials/models/" .. name .. ".lua")
end

local function images(size, n)
  return td.placeholder("float32", {n or -1, size, size, 3}, "images")
end

local function count()
  local n = 0
  for _, v in ipairs(td.trainable_variables()) do n = n + v.size end
  return n
end

-- Parameters that are trained: in millions as the papers round them, and to the
-- last one, of the same nets elsewhere: torchvision's alexnet, vgg11 and
-- resnet50, the Caffe GoogLeNet, Keras' InceptionV3. Then 10^9 multiply-adds
-- an image takes.
local rows = {
  {"alexnet", 224, 61100840, 0.71},
  {"overfeat", 231, 145920872, 2.81},
  {"vgg_a", 224, 132863336, 7.6},
  {"googlenet", 224, 6998552, 1.5, auxiliary = {13378280, 3}},
  {"inception_v3", 299, 23817352, 5.7, auxiliary = {27143152, 2}},
  {"resnet50", 224, 25557032, 3.8},
}

for _, row in ipairs(rows) do
  local name, size, n, work = table.unpack(row)

  tests[name .. "_has_the_papers_parameters"] = function()
    local logits = load(name)(images(size))
    lu.assertEquals(logits.shape, {-1, 1000})
    lu.assertEquals(count(), n)
    lu.assertEquals(#td.get_collection "update_ops", 0)
  end

  -- Layer by layer; moving averages are told apart.
  tests[name .. "_summary"] = function()
    load(name)(images(size), {classes = 10})
    local all = 0
    for _, v in ipairs(td.global_variables()) do all = all + v.size end
    local text = td.get_default_graph():summary()
    lu.assertStrMatches(text:match "[^\n]* variables +[^\n]*",
                        ("%d variables +%d parameters +%d bytes"):format(
                          #td.global_variables(), all, 4 * all))
    lu.assertStrMatches(text:match "\n  trained[^\n]*\n[^\n]*",
      ("\n  trained +%d parameters +%d bytes\n  not trained +%d parameters +%d "
      .. "bytes"):format(count(), 4 * count(), all - count(),
                         4 * (all - count())))
    for _, v in ipairs(td.trainable_variables()) do
      local layer, kind = v.name:match "^(.*/)([^/]*)$"
      lu.assertStrContains(text, layer .. " ")
      lu.assertStrContains(text, kind .. " ")
    end
  end

  -- The rest are activations, and what draws the first weights.
  tests[name .. "_estimate"] = function()
    load(name)(images(size, 1))
    local flops = td.get_default_graph():estimate({}).flops
    lu.assertTrue(flops > 2e9 * work, "too few: " .. flops)
    lu.assertTrue(flops < 2e9 * work * 1.15, "too many: " .. flops)
  end

  tests[name .. "_is_narrow_and_shared"] = function()
    local build = load(name)
    local o = {classes = 7, width = 1 / 1000}
    lu.assertEquals(build(images(size, 2), o).shape, {2, 7})
    for _, v in ipairs(td.trainable_variables()) do
      lu.assertTrue(v.shape[#v.shape] == 1 or v.shape[#v.shape] <= 7, v.name)
    end
    local before = #td.global_variables()
    helper.raises("exists already", build, images(size, 2), o)
    td.variable_scope("", {reuse = true}, build, images(size, 2), o)
    lu.assertEquals(#td.global_variables(), before)
  end

  if row.auxiliary then
    tests[name .. "_auxiliary"] = function()
      local heads = {load(name)(images(size), {auxiliary = true})}
      lu.assertEquals(#heads, row.auxiliary[2])
      for _, logits in ipairs(heads) do
        lu.assertEquals(logits.shape, {-1, 1000})
      end
      lu.assertEquals(count(), row.auxiliary[1])
    end
  end
end

function tests.misspelt_options()
  for _, row in ipairs(rows) do
    td.reset()
    helper.raises(row[1] .. " has no option \"widht\"; did you mean "
      .. "\"width\"?", load(row[1]), images(row[2]), {widht = 2})
    helper.raises(row[1] .. ": training must be a boolean, not string",
                  load(row[1]), images(row[2]), {training = "yes"})
    lu.assertEquals(#td.global_variables(), 0)
  end
end

-- A graph scalar says whether they train: then two runs differ by dropout.
function tests.training_may_be_fed()
  for _, row in ipairs(rows) do
    td.reset()
    td.seed(1)
    local training = td.placeholder("bool", {}, "training")
    local x = images(row[2] > 230 and 75 or 64, 2)
    local logits = load(row[1])(x, {classes = 5, width = 1 / 32,
                                    training = training})
    local value = td.value.random_uniform{2, x:dim(1), x:dim(2), 3, seed = 1}
    local sess <close> = td.session()
    sess:init()
    local function run(yes)
      return sess:run(logits, {[x] = value, [training] = yes})
    end
    lu.assertEquals(run(false):table(), run(false):table(), row[1])
    lu.assertNotEquals(run(true):table(), run(false):table(), row[1])
  end
end

return tests
