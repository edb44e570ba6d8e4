--- train/saver.lua - td.train.saver: variables to files, and back.
--
-- A saver adds nodes to the graph (save_nodes.lua), runs them, and sees to it
-- that a folder holds the checkpoints that are wanted (retention.lua). Reading
-- begins with a look at what the checkpoint has: names, dtypes and shapes that
-- do not fit are told, all of them, before anything is changed.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local all_or_none = require "tide.train.all_or_none"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local files = require "tide.train.checkpoint_files"
local graph = require "tide.graph.graph"
local keep = require "tide.train.keep"
local retention = require "tide.train.retention"
local save_nodes = require "tide.train.save_nodes"
local session = require "tide.run.session"
local shapes = require "tide.tensor.shape"
local variables = require "tide.variables.variables"

local train = {}
local methods = {}
local meta = {__name = "saver"}

local fail = errors.invalid
local OURS = "^_tide/"
local GARBAGE = 1 << 24 -- bytes of values that may wait for the collector

-- ---- which variables ------------------------------------------------------

local function check_variable(v, g, what)
  if not variables.is_variable(v) then
    fail("saver: %s is %s; give what td.variable made", what, args.what(v))
  end
  if v.graph ~= g then
    fail("saver: variable \"%s\" belongs to another graph", v.name)
  end
  return v
end

local function check_name(name)
  if name == "" or name:find "%z" or name:find(OURS) then
    fail("saver: \"%s\" is no name for a variable on disk", name)
  end
  return name
end

-- {name =, variable =} by name, of a list and of names on disk.
local function items_of(given, g)
  local items, taken = {}, {}
  local function add(name, v)
    if taken[name] then
      fail("saver: two variables are to be saved as \"%s\"", name)
    end
    taken[name] = true
    items[#items + 1] = {name = check_name(name), variable = v}
  end
  local list, named = args.split(given)
  args.check_list(list, "saver: variables")
  for i, v in ipairs(list) do
    add(check_variable(v, g, ("%d of the variables"):format(i)).name, v)
  end
  for name, v in pairs(named) do
    add(args.expect(name, "string", "saver: a name on disk"),
        check_variable(v, g, ("\"%s\""):format(name)))
  end
  table.sort(items, function(a, b) return a.name < b.name end)
  return items
end

-- All variables of the graph that are still there.
local function all_of(g)
  local list = {}
  for _, v in ipairs(graph.state(g).collections.variables or {}) do
    if not core.is_gone(v.handle) then list[#list + 1] = v end
  end
  return list
end

local function same(a, b)
  if not a or #a ~= #b then return false end
  for i, item in ipairs(a) do
    if item.name ~= b[i].name or item.variable ~= b[i].variable then
      return false
    end
  end
  return true
end

-- Makes the nodes; again where the variables became others, or a notebook's
-- cell took the nodes with it.
local function prepare(self)
  local items = items_of(self.given or all_of(self.graph), self.graph)
  if #items == 0 then
    fail "saver: there is no variable to save; make the saver after them"
  end
  if same(self.items, items) and not core.is_gone(self.nodes.path) then
    return
  end
  self.nodes = save_nodes.add(self.graph, items, self.sharded)
  self.items = items
end

-- ---- making ---------------------------------------------------------------

local options = {"variables", "max_to_keep", "keep_hours", "best", "sharded",
                 "async"}
local types = {max_to_keep = "integer", keep_hours = "number",
               best = "string", sharded = "boolean", async = "boolean"}

local function read_options(o)
  o = args.expect_all(args.read(o, options, "saver"), types)
  if o.variables ~= nil and not args.plain(o.variables) then
    fail("saver: variables is a list {w, b} or a table {name_on_disk = w}, "
      .. "not %s", args.what(o.variables))
  end
  if o.best and o.best ~= "max" and o.best ~= "min" then
    fail("saver: best is \"max\" or \"min\", not \"%s\"", o.best)
  end
  if o.max_to_keep and o.max_to_keep < 0 then
    fail("saver: max_to_keep must be 1 or more, or 0 to keep all, given %d",
         o.max_to_keep)
  end
  if o.keep_hours then
    args.expect_positive(o.keep_hours, "saver: keep_hours")
  end
  return o
end

--- Is x what train.saver made?
function train.is_saver(x) return getmetatable(x) == meta end

--- What saves variables and restores them, as TensorFlow's Saver, whose files
-- it reads and which reads these. Make it after the variables and the
-- optimizer's op, so that all are there.
-- @param[opt] o variables: a list, or {name_on_disk = variable}; all of the
-- graph without it, those made later too. max_to_keep (5; 0: all): so many of
-- the newest stay. keep_hours: each time so much has passed, one of those that
-- would go stays for good. best = "max" or "min": beside the newest the best
-- max_to_keep by their metric stay. sharded: each device writes its own part.
-- async: save returns when it has taken hold of the values, and writes on while
-- steps run; these then copy a variable where they would have changed it in
-- place, so that memory grows by the variables once
-- @usage local v = td.variable({1.0, 2.0}, "v")
-- local saver = td.train.saver()
-- local sess, dir = td.session(), os.tmpname() .. ".d"
-- sess:init()
-- local prefix = saver:save(sess, dir .. "/model", {global_step = 10})
-- sess:run(v:assign{0.0, 0.0})
-- saver:restore(sess, prefix)
-- v:eval()  --> 1 2
function train.saver(o)
  o = read_options(o)
  local given = o.variables and {}
  for k, v in pairs(o.variables or {}) do given[k] = v end
  local self = {given = given, graph = graph.owner(), sharded = o.sharded,
                async = o.async,
                rule = retention.new{max = o.max_to_keep or 5,
                                     hours = o.keep_hours, best = o.best}}
  prepare(self)
  return setmetatable(self, meta)
end

function meta.__index(_, key)
  if methods[key] or type(key) ~= "string" then return methods[key] end
  for _, field in ipairs{"given", "sharded", "async", "items", "pending",
                         "latest"} do
    if key == field then return nil end
  end
  return fail("a saver has no \"%s\"%s; it has :save, :restore, :wait, :list, "
    .. ":best", key, errors.did_you_mean(key, args.sorted_keys(methods)))
end

function meta.__tostring(self)
  return ("Saver of %d variable%s"):format(#self.items,
                                           #self.items == 1 and "" or "s")
end

-- ---- both ways ------------------------------------------------------------

local function check_call(self, sess, what)
  if getmetatable(self) ~= meta then
    fail("%s is called with a colon: saver:%s(sess, path); given %s where the "
      .. "saver should be", what, what, args.what(self))
  end
  if core.kind(sess) ~= "session" then
    fail("saver:%s(sess, path): the first argument is a session, not %s", what,
         args.what(sess))
  end
  if session.graph_of(sess, "run") ~= self.graph then
    fail("saver: the session runs another graph than the saver's variables")
  end
end

-- ---- saving ---------------------------------------------------------------

-- A step given as a number, a variable or a graph tensor.
local function read_step(sess, step)
  if step == nil then return nil end
  local n = step
  if args.is_tensor(step) then
    n = core.kind(step) == "tensor" and step:item() or sess:run(step)
  end
  if math.type(n) ~= "integer" or n < 0 then
    fail("saver: global_step is a number of steps, 0 or more, or a tensor of "
      .. "one; given %s", type(n) == "number" and tostring(n) or args.what(n))
  end
  return n
end

local function check_path(path)
  args.expect(path, "string", "saver:save: the path")
  if path:find "%z" then fail "saver:save: a path has no byte 0" end
  if path == "" or path:sub(-1) == "/" or core.is_folder(path) then
    fail("saver:save: '%s' is a folder; give the name of a checkpoint in it, "
      .. "such as '%s/model'", path, (path:gsub("/+$", "")))
  end
end

local function check_metric(self, metric)
  if metric ~= nil then args.expect(metric, "number", "saver:save: metric") end
  if self.rule.best and metric == nil then
    fail("saver:save: a saver with best = \"%s\" needs metric = a number",
         self.rule.best)
  end
end

-- Raises for variables that have no value.
local function check_values(self, sess)
  local flags, none = {}, {}
  for i, item in ipairs(self.items) do
    flags[i] = item.variable.is_initialized
  end
  for i, is_there in ipairs(sess:run(flags)) do
    if not is_there then
      none[#none + 1] = ("\"%s\""):format(self.items[i].variable.name)
    end
  end
  if #none == 0 then return end
  local more = #none > 5 and (" and %d more"):format(#none - 5) or ""
  errors.raise("failed_precondition", "saver:save: variable%s %s%s: no value "
    .. "yet; sess:init() gives them their first", #none > 1 and "s" or "",
    table.concat(none, ", ", 1, math.min(#none, 5)), more)
end

-- What is fed to the save's nodes.
local function feeds_of(self, sess, prefix, step, o)
  local nodes = self.nodes
  local names, texts = keep.save(o.keep or {})
  return {
    [nodes.path] = core.tensor(prefix, "string"),
    [nodes.global_step] = core.tensor(step or -1, "int64"),
    [nodes.metric] = core.tensor(o.metric and o.metric + 0.0 or 0 / 0,
                                 "float64"),
    [nodes.random] = core.tensor(sess:core_save_states(), "string"),
    [nodes.keep_names] = core.tensor(names, "string"),
    [nodes.keep_texts] = core.tensor(texts, "string"),
  }
end

-- What is left to do once the files are there.
local function finish(self, job)
  self.latest = job.prefix
  self.rule:add(job.prefix, job.base, job.metric)
  return job.prefix
end

-- Takes shares of the values, and has them written in the background.
local function begin(self, sess, job, feeds)
  local edges = {}
  for i, item in ipairs(self.items) do edges[i] = item.edge end
  local values = sess:run(edges, nil, {as_values = true})
  for i, edge in ipairs(edges) do feeds[edge] = values[i] end
  job.handle = sess:start(self.nodes.save, feeds)
  self.pending = job
  return job.prefix
end

--- Saves the variables, with the session's random streams, as `path`, or as
-- path-<step>. When it returns, the checkpoint is whole and outlives a crash of
-- the machine (async: after :wait()); until then the one before is. A save that
-- still goes on in the background is waited for first, and its error raised.
-- @param sess a session with the saver's graph
-- @param path where: "folder/name"; folders are made
-- @param[opt] o global_step: a number, variable or graph tensor; with it, older
-- ones called path-<step> count for max_to_keep, also those of a job before.
-- metric: for best. keep: {name = thing}: objects with :state() and
-- :restore(s), plain tables, numbers, strings, values
-- @return the prefix: "folder/name-10"
-- @raise failed_precondition with the variables that have no value; unavailable
-- while another writes there; resource_exhausted when the disk is full
-- @usage local v = td.variable(1.0, "v")
-- local sess, dir = td.session(), os.tmpname() .. ".d"
-- sess:init()
-- local saver, history = td.train.saver{best = "max"}, {0.9}
-- saver:save(sess, dir .. "/m", {global_step = 1, metric = 0.9,
--                                keep = {history = history}})
-- saver:save(sess, dir .. "/m", {global_step = 2, metric = 0.8})
-- saver:best():match "m%-%d+"  --> m-1
function methods:save(sess, path, o)
  check_call(self, sess, "save")
  o = args.read(o, {"global_step", "metric", "keep"}, "saver:save")
  check_path(path)
  check_metric(self, o.metric)
  self:wait()
  prepare(self)
  check_values(self, sess)
  local step = read_step(sess, o.global_step)
  local job = {prefix = step and ("%s-%d"):format(path, step) or path,
               base = step and path or nil, metric = o.metric}
  local feeds = feeds_of(self, sess, job.prefix, step, o)
  self.rule:begin()
  if self.async then return begin(self, sess, job, feeds) end
  sess:run(self.nodes.save, feeds)
  return finish(self, job)
end

--- Waits for a save in the background, for `seconds` at most, and raises its
-- error. A session that is closed before ends the save without a checkpoint,
-- and so does the end of the script.
-- @return the prefix of the last save; nil when there was none; false when it
-- still goes on after `seconds`
function methods:wait(seconds)
  local job = self.pending
  if not job then return self.latest end
  local ok, e = pcall(job.handle.wait, job.handle, seconds)
  if not ok and seconds and e.code == "deadline_exceeded" then
    if not job.handle:done() then return false end
    ok, e = pcall(job.handle.wait, job.handle) -- it ended just now
  end
  if not ok and not job.handle:done() then
    error(e, 0) -- an interrupt: the save goes on
  end
  self.pending = nil
  if core.held() > GARBAGE then collectgarbage() end -- shares of variables
  if not ok then error(e, 0) end
  return finish(self, job)
end

-- ---- what fits ------------------------------------------------------------

local function text_of(x) return x.dtype .. " " .. shapes.text(x.shape) end

-- Sorts the items into restored, missing and differ, and tells what is left.
local function compare(self, c)
  local entries, used = {}, {}
  local report = {restored = {}, missing = {}, unused = {}, differ = {},
                  fits = {}}
  for _, e in ipairs(c:list()) do entries[e.name] = e end
  for _, item in ipairs(self.items) do
    local e, v = entries[item.name], item.variable
    used[item.name] = true
    if not e then
      table.insert(report.missing, item.name)
    elseif e.dtype ~= v.dtype or not shapes.compatible(v.shape, e.shape) then
      table.insert(report.differ, {name = item.name, variable = text_of(v),
                                   saved = text_of(e)})
    else
      table.insert(report.restored, item.name)
      table.insert(report.fits, item)
    end
  end
  for _, name in ipairs(args.sorted_keys(entries)) do
    if not used[name] and not name:find(OURS) then
      table.insert(report.unused, name)
    end
  end
  return report
end

-- Up to five of a list, each as f says.
local function some(list, f)
  local out = {}
  for i = 1, math.min(#list, 5) do out[i] = f(list[i]) end
  if #list > 5 then out[6] = ("and %d more"):format(#list - 5) end
  return table.concat(out, ", ")
end

local function check_fit(report, prefix)
  local parts = {}
  if #report.missing > 0 then
    parts[1] = "it lacks " .. some(report.missing, function(name)
      return ("\"%s\"%s"):format(name, errors.did_you_mean(name, report.unused))
    end)
  end
  if #report.differ > 0 then
    parts[#parts + 1] = some(report.differ, function(d)
      return ("\"%s\" is %s in it, and the variable %s"):format(d.name, d.saved,
                                                                d.variable)
    end)
  end
  if #parts == 0 then return end
  errors.raise(#report.differ > 0 and "invalid_argument" or "not_found",
    "saver:restore: checkpoint '%s' does not fit: %s. {partial = true} takes "
    .. "what fits", prefix, table.concat(parts, "; "))
end

-- ---- restoring ------------------------------------------------------------

local function texts_of(c)
  local texts = {}
  if not c:has "_tide/keep_names" then return texts end
  local names = c:read("_tide/keep_names"):table()
  local list = c:read("_tide/keep_texts"):table()
  for i, name in ipairs(names) do texts[name] = list[i] end
  return texts
end

-- What puts the kept things in place: {name = function}.
local function read_kept(c, prefix, o, report)
  local texts, todo = texts_of(c), {}
  for _, name in ipairs(args.sorted_keys(o.keep or {})) do
    local text = texts[name]
    if text then
      todo[name] = keep.restore(name, o.keep[name], text)
    elseif o.partial then
      table.insert(report.missing, "_tide/keep/" .. name)
    else
      errors.raise("not_found", "saver:restore: checkpoint '%s' keeps no "
        .. "\"%s\"%s", prefix, name,
        errors.did_you_mean(name, args.sorted_keys(texts)))
    end
  end
  return todo
end

-- By RestoreV2 where all fits, else by values that are fed to the assignments.
local function assign(self, sess, c, prefix, report)
  if #report.missing == 0 and #report.differ == 0 then
    return all_or_none(sess, report.fits, self.nodes.restore,
                       {[self.nodes.path] = core.tensor(prefix, "string")})
  end
  local ops, feeds = {}, {}
  for i, item in ipairs(report.fits) do
    ops[i], feeds[item.restored] = item.assign, c:read(item.name)
  end
  if #ops > 0 then all_or_none(sess, report.fits, ops, feeds) end
end

local function number_in(c, name)
  local x = c:has(name) and c:read(name):item()
  return x and x == x and x ~= -1 and x or nil
end

local function load(self, sess, c, prefix, report, o)
  local random = o.random
  if random == nil then random = not o.partial end
  random = random and c:has "_tide/random" and c:read("_tide/random"):item()
  local todo = read_kept(c, prefix, o, report)
  report.prefix = prefix
  report.global_step = number_in(c, "_tide/global_step")
  report.metric = number_in(c, "_tide/metric")
  assign(self, sess, c, prefix, report)
  if random then sess:core_load_states(random) end
  report.keep, report.fits = {}, nil
  for _, name in ipairs(args.sorted_keys(todo)) do
    report.keep[name] = todo[name]()
  end
  return report
end

local function restore_one(self, sess, prefix, o)
  local c <close> = core.checkpoint(prefix)
  local report = compare(self, c)
  if not o.partial then check_fit(report, prefix) end
  return load(self, sess, c, prefix, report, o)
end

-- The first of a folder's that is whole, with all of its bytes.
local function restore_newest(self, sess, folder, o)
  local list = files.all(folder)
  for i, prefix in ipairs(list) do
    local opens, c = pcall(core.checkpoint, prefix)
    if opens then c:close() end
    local ok, result = opens, c
    if opens then ok, result = pcall(restore_one, self, sess, prefix, o) end
    if ok then return result end
    local is_broken = files.is_broken(result)
      and (not opens or result.code == "data_loss")
    if i == #list or not is_broken then error(result, 0) end
    files.pass_over("saver:restore", result)
  end
  return errors.raise("not_found", "saver:restore: no checkpoint in '%s'",
                      folder)
end

--- Gives the variables the values that a checkpoint has, and the session its
-- random streams, so that a run goes on with the same bits. First everything is
-- compared: with a name that is missing, another shape or another dtype nothing
-- is changed and all of them are told.
-- @param sess a session with the saver's graph; it need not be initialised
-- @param path a prefix, or a folder, whose newest whole checkpoint is taken;
-- one that is damaged is told on stderr
-- @param[opt] o partial = true: what fits is restored, the rest stays as it is
-- (sess:init() then gives the others their first values). keep: {name = thing},
-- things as they were given to save: objects are restored, tables filled.
-- random = false: leave the random streams; so does partial unless true is
-- given
-- @return {restored = names, missing = names, unused = names, differ = list of
-- {name =, variable = "float32 {2}", saved = "float32 {3}"}, prefix =,
-- global_step =, metric =, keep = {name = thing}}
-- @raise not_found, invalid_argument for what does not fit, data_loss
-- @usage -- transfer: all but the last layer from another net, then only a new
-- -- head is trained
-- local x = td.placeholder("float32", {-1, 4}, "x")
-- local trunk = td.layers.dense(x, 3, {name = "trunk"})
-- local old = td.layers.dense(trunk, 2, {name = "head"})
-- local sess, dir = td.session(), os.tmpname() .. ".d"
-- sess:init()
-- td.train.saver():save(sess, dir .. "/old")
-- local new = td.layers.dense(trunk, 5, {name = "new_head"})
-- local loss = (new ^ 2):mean()
-- local step = td.train.sgd(0.1):minimize(loss,
--   {variables = td.trainable_variables "new_head/"})
-- local saver = td.train.saver{variables = td.global_variables()}
-- local told = saver:restore(sess, dir, {partial = true})
-- sess:init()
-- table.concat(told.missing, " ")  --> new_head/bias new_head/kernel
function methods:restore(sess, path, o)
  check_call(self, sess, "restore")
  o = args.read(o, {"partial", "keep", "random"}, "saver:restore")
  args.expect_all(o, {partial = "boolean", random = "boolean"})
  self:wait()
  prepare(self)
  local is_folder
  path, is_folder = files.read_path(path, "saver:restore")
  if is_folder then return restore_newest(self, sess, path, o) end
  return restore_one(self, sess, path, o)
end

-- ---- looking --------------------------------------------------------------

local function folder_of(self, folder)
  if folder == nil then return self.rule.folder end
  args.expect(folder, "string", "saver: the folder")
  return #folder > 1 and folder:gsub("/$", "") or folder
end

--- The checkpoints that are there, the oldest first: a list of {prefix =, time
-- = seconds, step =}, with best also metric. In the folder of the last save, or
-- in the one that is given.
function methods:list(folder)
  self:wait()
  folder = folder_of(self, folder)
  return folder and self.rule:list(folder) or {}
end

--- The prefix of the checkpoint with the best metric, or nil; folder as for
-- list.
function methods:best(folder)
  self:wait()
  folder = folder_of(self, folder)
  return folder and self.rule:best_of(folder)
end

--- The prefix of the newest whole checkpoint in a folder; nil when there is
-- none. One that is damaged is told on stderr and the one before taken; where
-- all are, that is an error.
-- @usage td.train.latest_checkpoint "/nowhere"  --> nil
function train.latest_checkpoint(folder)
  args.expect(folder, "string", "latest_checkpoint: the folder")
  if #folder > 1 then folder = folder:gsub("/$", "") end
  if not core.is_folder(folder == "" and "." or folder) then return nil end
  local c, prefix = files.newest(folder, "latest_checkpoint")
  if c then c:close() end
  return prefix
end

return train
