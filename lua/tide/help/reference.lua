--- help/reference.lua - what there is to know of every public name.
--
-- An entry comes from a doc comment (tide.docs, made by the build), from the op
-- registry, or from both. `td.help`, `tide ops` and `tide doc` show entries.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local docs = require "tide.docs"
local errors = require "tide.base.errors"
local namespaces = require "tide.namespaces"
local rules = require "tide.autodiff.rules"
local dtype = require "tide.tensor.dtype"
local ops = require("tide.ops").ops
local td = require "tide"

local meta = getmetatable(td)

local reference = {}

-- How the objects are called whose methods stand in a table of a module, and
-- tables of td; in the order in which a bare name is looked for.
local prefixes = {"sess:", "x:", "op:", "g:", "W:", "W[key]:", "optimizer:",
                  "average:", "array:", "q:", "coord:", "dataset:", "text:",
                  "vocab:", "slices:", "cell:", "lookup:", "h:", "p:",
                  "barrier:", "acc:", "area:", "mutex:", "pipeline:", "loop:",
                  "writer:", "saver:", "sv:", "c:",
                  "train.", "data.", "layers.", "metrics.", "losses."}
local objects = {
  ["tensor.tensor.methods"] = "x:", ["run.session.tensor.methods"] = "x:",
  ["run.session.tensor.op_methods"] = "op:", ["graph.graph.methods"] = "g:",
  ["variables.variables.methods"] = "W:",
  ["variables.variables.part"] = "W[key]:", ["run.session.methods"] = "sess:",
  ["remote.server.methods"] = "server:",
  ["run.session.partial"] = "p:", ["run.session.handle"] = "h:",
  ["control.tensor_array.methods"] = "array:",
  ["flow.queues.methods"] = "q:",
  ["train.coordinator.coordinator"] = "coord:",
  ["flow.tables.methods"] = "lookup:",
  ["tensor.indexed_slices.methods"] = "slices:",
  ["data.dataset.methods"] = "dataset:", ["nn.cells.cell"] = "cell:",
  ["train.optimizer.optimizer"] = "optimizer:",
  ["train.averages.average"] = "average:",
  ["data.pipeline.methods"] = "pipeline:",
  ["data.pipeline.iterator"] = "loop:",
  ["data.record_files.methods"] = "writer:",
  ["data.text.methods"] = "text:", ["data.vocab.methods"] = "vocab:",
  ["flow.barrier.methods"] = "barrier:", ["flow.mutex.methods"] = "mutex:",
  ["flow.accumulator.methods"] = "acc:",
  ["flow.staging_area.methods"] = "area:",
  ["train.saver.methods"] = "saver:",
  ["train.supervisor.supervisor"] = "sv:",
  ["remote.cluster.methods"] = "c:",
}

-- What a comment may say itself: `@function g:summary(o)`.
local of_object = {g = true, sess = true}

-- Library functions for ops that the registry knows by another name.
local op_of = {
  sum = "Sum", mean = "Mean", prod = "Prod", max = "Max", min = "Min",
  all = "All", any = "Any", truediv = "RealDiv", divide = "RealDiv",
  mod = "FloorMod", random_normal = "RandomStandardNormal",
  softmax_cross_entropy = "SoftmaxCrossEntropyWithLogits",
  sparse_softmax_cross_entropy = "SparseSoftmaxCrossEntropyWithLogits",
}

-- ---- what the comments say ------------------------------------------------

-- Rows of tide.docs by their public name, without "td."; and about modules.
local by_name, by_module

local function last_part(module) return module:match "[^.]*$" end

-- Modules that are tables of td, by module: {["nn.losses"] = "losses"}.
local function tables_of()
  local list = {}
  for name, module in pairs(meta.__modules) do list[module:sub(6)] = name end
  return list
end

-- The public name of a row, or nil.
local function public_name(row, tables)
  if row.name:find "^_" then return nil end
  local place = row.module .. "." .. row.of
  if objects[place] then return objects[place] .. row.name end
  if of_object[row.of] then return row.of .. ":" .. row.name end
  if row.module:find "^ops%." and row.of == "ops" then return row.name end
  if row.module == "init" and row.of == "td" then return row.name end
  if row.module:find "^layers%." and row.of == "layers" then
    return "layers." .. row.name
  end
  local own = tables[row.module]
  if row.name == "return" and own then return own end
  local owner = row.module:match "^([%w_]+)%." -- train.clip is part of train
  if owner == row.of and tables[owner] then
    return owner .. "." .. row.name
  end
  if row.of ~= last_part(row.module) then return nil end
  if own then return own .. "." .. row.name end
  return meta.__module_of[row.name] == "tide." .. row.module and row.name or nil
end

local function load_docs()
  if by_module then return end
  local names, modules = {}, {}
  local tables = tables_of()
  for _, row in ipairs(docs) do
    if row.name == "" then
      modules[row.module] = row
    else
      local name = public_name(row, tables)
      if name and not (names[name] and names[name].text ~= "") then
        names[name] = row
      end
    end
  end
  by_name, by_module = names, modules
end

-- Lines as paragraphs; the head of a module without its file's name.
local function tidy(text)
  return (text:gsub("^[%w_/]+%.lua %- ", ""))
end

-- ---- entries --------------------------------------------------------------

local function op_entry(type, name)
  local info = core.op_info(type)
  return {name = name, kind = "op", call = "", text = info.doc, usage = "",
          op = info}
end

-- The op that a function of the library makes, if it is about one.
local function find_op(name)
  local type = op_of[name] or core.op_type(name)
  return type and core.op_info(type) or nil
end

local function function_entry(name, row)
  local method = name:find(":", 1, true)
  local plain = not method and not name:find(".", 1, true)
  return {name = method and name or "td." .. name,
          kind = method and "method" or "function", call = row.call,
          module = row.module, text = row.text, usage = row.usage,
          op = plain and find_op(name) or nil}
end

-- Another name for the same function: both are ops.
local function same_as(name)
  local f = rawget(ops, name)
  for other, row in pairs(f and by_name or {}) do
    if row.text ~= "" and other ~= name and rawget(ops, other) == f then
      local entry = function_entry(other, row)
      entry.name, entry.also = "td." .. name, "td." .. other
      return entry
    end
  end
end

local function module_entry(name, module)
  local row = by_module[module]
  return row and {name = "td." .. name, kind = "module", call = "",
                  text = tidy(row.text), usage = row.usage}
end

local function known(name)
  return rawget(td, name) or meta.__module_of[name] or meta.__modules[name]
    or ops[name]
end

-- A name of td that is no function with a comment of its own.
local function other_entry(name)
  if not known(name) then return nil end
  local same = same_as(name)
  if same then return same end
  if core.op_type(name) then
    return op_entry(core.op_type(name), "td." .. name)
  end
  local module = meta.__modules[name]
  if module then return module_entry(name, module:sub(6)) end
  if meta.__module_of[name] == "tide.namespaces" then
    return module_entry(name, "namespaces")
  end
  if dtype.is_name(name) then
    return module_entry(name, "tensor.dtype")
  end
end

-- "nn.relu" is "relu": places such as td.nn have the names of td, and some
-- shorter ones.
local function in_place(name)
  local place, rest = name:match "^(%l+)%.([%w_]+)$"
  return place and namespaces.name_in(place, rest) or name
end

--- What is known of a name: "matmul", "td.train.sgd", "sess:run", "MatMul", a
-- method without its object, an error code.
-- @return {name, kind, call, text, usage, op}, or nil
function reference.entry(name)
  load_docs()
  name = in_place(name:gsub("^td%.", ""))
  local module = meta.__module_of[name] and meta.__module_of[name]:sub(6)
  local row = by_name[name] or module and by_name[module .. "." .. name]
  if row then return function_entry(name, row) end
  local entry = other_entry(name)
  if entry then return entry end
  local type = op_of[name] or name:match "^raw%.(.*)$" or name
  if core.op_info(type) then return op_entry(type, "td.raw." .. type) end
  if errors.codes[name] then
    return {name = name, kind = "error", call = "", usage = "",
            text = errors.codes[name]}
  end
  for _, prefix in ipairs(prefixes) do
    if by_name[prefix .. name] then
      return function_entry(prefix .. name, by_name[prefix .. name])
    end
  end
end

--- What a module is about: the first comment of its file, without its name.
function reference.about(module)
  load_docs()
  return by_module[module] and tidy(by_module[module].text)
end

--- The subcommands of `tide` that are modules: a list of {name, text}.
function reference.commands()
  local list = {}
  for _, row in ipairs(docs) do
    local name = row.name == "" and row.module:match "^cli%.(.*)$"
    if name then list[#list + 1] = {name = name, text = tidy(row.text)} end
  end
  return list
end

--- The type of the op that the function of a public name makes, or nil.
function reference.op_of(name)
  load_docs()
  return by_name[name] and by_name[name].op or op_of[name]
end

--- What the comments say of every public name: {[name] = row of tide.docs}, the
-- names without "td.". Borrowed.
function reference.rows()
  load_docs()
  return by_name
end

--- Every name that has an entry, sorted: of td, of its tables, of objects.
function reference.names()
  load_docs()
  local seen, list = {}, {}
  local function add(name)
    if not seen[name] then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  for name in pairs(by_name) do add(name) end
  for _, name in ipairs(meta.__complete()) do
    add(name)
  end
  table.sort(list)
  return list
end

-- ---- examples -------------------------------------------------------------

-- Arguments to try an op with: element by element, then segments.
local samples = {
  {"{0.25, 0.5}", "{1.0, 2.0}", "{0.5, 0.75}"}, {"{5, 6}", "{1, 2}", "{3, 4}"},
  {"{true, false}", "{true, true}"},
  {"{2.0, 4.0, 6.0}", "{0, 0, 1}", "2"},
  {"{2.0, 4.0, 6.0}", "{0, 2}", "{0, 0}"},
}

-- An example of an op of that name that computes with some sample.
local function made_example(info, name)
  local n = #info.inputs
  if n == 0 or info.stateful then return "" end
  for _, sample in ipairs(samples) do
    local code = ("%s(%s)"):format(name, table.concat(sample, ", ", 1,
                                                      math.min(n, #sample)))
    local ok, result = pcall(reference.run, code)
    if ok and core.kind(result) == "tensor" then
      return code .. "  --> " .. tostring(result):gsub("%s+", " ")
    end
  end
  return ""
end

--- Runs an example: lines of Lua, then an expression, whose value it gives.
function reference.run(code)
  local lines, problem = {}, nil
  for line in code:gmatch "[^\n]+" do lines[#lines + 1] = line end
  for i = #lines, 1, -1 do -- not the first that can: "do f()", "return end"
    local chunk, why = load(("local td = require 'tide'\n%s\nreturn %s"):format(
      table.concat(lines, "\n", 1, i - 1), table.concat(lines, "\n", i)),
      "=example", "t")
    if chunk then return chunk() end
    problem = why
  end
  error(problem)
end

--- The examples of an entry: lines of Lua with `--> result`, or "".
function reference.example(entry)
  if entry.usage ~= "" then return entry.usage end
  if not entry.op then return "" end
  if entry.op.example ~= "" then return entry.op.example end
  return entry.kind == "op" and made_example(entry.op, entry.name) or ""
end

--- Has the op a gradient?
function reference.has_gradient(info)
  return rules.get(info.name) and true or false
end

return reference
