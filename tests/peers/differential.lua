-- differential.lua - Tide's side of differential.py: differential.lua DIR SEED...
--
-- Imports DIR/SEED.pb, feeds DIR/SEED.npz, and writes DIR/SEED.out.npz with the
-- results in the order of DIR/SEED.txt: fetches, then gradients. Any tensor may
-- be fed; npz has no bfloat16, so its values come in float32. An error is
-- printed as "seed SEED: OP NODE MESSAGE".
-- SPDX-License-Identifier: Apache-2.0

local td = require "tide"

local folder = arg[1]

local function plan(seed)
  local p = {fetch = {}, feed = {}, loss = {}, gradient = {}}
  for line in io.lines(folder .. "/" .. seed .. ".txt") do
    local word, name = line:match("^(%w+) (.+)$")
    table.insert(p[word], name)
  end
  return p
end

local function run(seed)
  local p, path = plan(seed), folder .. "/" .. seed
  local g = td.graph()
  g:as_default(function()
    td.import_graph(path .. ".pb")
    local fetches = {}
    for i, name in ipairs(p.fetch) do fetches[i] = g[name] end
    if p.loss[1] then
      local xs = {}
      for i, name in ipairs(p.gradient) do xs[i] = g[name] end
      local found = td.gradients(g[p.loss[1]], xs)
      for i in ipairs(xs) do
        fetches[#fetches + 1] = found[i] or td.constant(false)
      end
    end
    local feeds, values = {}, td.load_npz(path .. ".npz")
    for i, name in ipairs(p.feed) do
      local edge, value = g[name], values["f" .. i - 1]
      feeds[edge] = value.dtype == edge.dtype and value
        or td.cast(value, edge.dtype)
    end
    local sess = td.session{graph = g, threads = 1,
                            passes_off = {"fold", "cse"}}
    local results = sess:run(fetches, feeds, {as_values = true})
    sess:close()
    local out = {}
    for i, value in ipairs(results) do out["r" .. i - 1] = value end
    td.save_npz(path .. ".out.npz", out)
  end)
end

for i = 2, #arg do
  local ok, err = pcall(run, arg[i])
  if not ok then
    local op, node = "?", "?"
    if type(err) == "table" then op, node = err.op or op, err.node or node end
    print(("seed %s: %s %s %s"):format(arg[i], op, node,
      tostring(err):match("^[^\n]*")))
  end
end
