--- data/pipeline.lua - input pipelines: elements read from files or memory,
-- changed, mixed and batched ahead of use.
--
-- A pipeline here is a description; each use of it (a loop over batches, the
-- tensors of :next) makes one that runs (engine/pipeline), with a place of its
-- own. An element is a table of tensors by column. Functions of elements are
-- built once, into a graph of their own, and run on the engine's threads. Where
-- elements come from is pipeline_sources.lua.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"
local graph = require "tide.graph.graph"
require "tide.run.session"
local shapes = require "tide.tensor.shape"

local pipeline = {}
local methods = {}

local fail = errors.invalid

-- ---- descriptions ---------------------------------------------------------

local meta = {__name = "pipeline"}

function meta.__index(_, name)
  if methods[name] then return methods[name] end
  if math.type(name) then
    fail("the elements of a pipeline have no numbers; for e in p:batches() do "
      .. "goes over them")
  end
  return fail("a pipeline has no \"%s\"%s", tostring(name),
              errors.did_you_mean(name, args.sorted_keys(methods)))
end

function meta.__call()
  fail("a pipeline is not a loop itself: for e in p:batches() do, or "
    .. "p:batches(n), goes over it")
end

function meta.__len()
  fail("how many elements a pipeline has is known when it was read: for e in "
    .. "p:batches() do counts them")
end

function meta.__tostring(self)
  local parts = {}
  for i, c in ipairs(self.specs) do
    parts[i] = ("%s %s %s"):format(self.columns[i], c.dtype,
                                   shapes.text(c.shape))
  end
  return ("Pipeline %s: %s"):format(table.concat(self.words, " | "),
                                    table.concat(parts, ", "))
end

-- The pipeline that runs, with the seeds given (drawn where there are none).
-- Each stage is {add = function(p, seed), seeded =}.
local function build(self, seeds)
  local p = self.source(seeds[1])
  for i, stage in ipairs(self.stages) do stage.add(p, seeds[i + 1]) end
  return p
end

-- A seed for each stage that draws: its own, or the next that follows from
-- td.seed.
local function draw_seeds(self)
  local seeds = {self.seed or self.draws and graph.next_seed() or 0}
  for i, stage in ipairs(self.stages) do
    seeds[i + 1] = stage.seed or stage.draws and graph.next_seed() or 0
  end
  return seeds
end

-- The description with another stage: add(p, seed) puts it behind the others.
local function with(self, word, stage, columns)
  local new = {source = self.source, seed = self.seed, draws = self.draws,
               stages = {table.unpack(self.stages)},
               words = {table.unpack(self.words)},
               columns = columns or self.columns,
               batched = stage.batches or self.batched}
  table.insert(new.stages, stage)
  table.insert(new.words, word)
  local seeds = {}
  for i = 1, #new.stages + 1 do seeds[i] = 1 end
  local p = build(new, seeds)
  new.specs = p:columns()
  p:close()
  return setmetatable(new, meta)
end

--- A pipeline over the elements of a source.
-- @param word what it is called when it is printed
-- @param columns the names of its columns, in their order
-- @param make (seed) -> one that runs
-- @param o {seed =, draws = does it need one?}
function pipeline.new(word, columns, make, o)
  local self = {source = make, seed = o.seed or false,
                draws = o.draws or false, stages = {}, batched = false,
                words = {word}, columns = columns}
  local p = make(1)
  self.specs = p:columns()
  p:close()
  return setmetatable(self, meta)
end

local function integer(x, what, low)
  args.expect(x, "integer", what)
  if x < low then fail("%s must be at least %d, not %d", what, low, x) end
  return x
end

local function seed_option(o, what)
  if o.seed ~= nil then args.expect(o.seed, "integer", what .. ": seed") end
  return o.seed
end

-- ---- functions of elements ------------------------------------------------

local reserved = {epoch = true, step = true}

--- Raises unless a column may be called that.
function pipeline.check_name(name, what)
  if type(name) ~= "string" or reserved[name] then
    fail("%s: a column has a name, other than epoch and step, not %s", what,
         type(name) == "string" and name or args.what(name))
  end
end

-- What f is given: a column that there is not is an error, not nil.
local function columns_for(self, what)
  return setmetatable({}, {__index = function(_, name)
    fail("%s: there is no column \"%s\"%s; there are %s", what, tostring(name),
         errors.did_you_mean(name, self.columns),
         table.concat(self.columns, ", "))
  end})
end

-- An edge for a column that f gives.
local function column_edge(name, x, what)
  pipeline.check_name(name, what)
  if args.plain(x) and next(x) ~= nil and x[1] == nil then
    local keys = args.sorted_keys(x)
    fail("%s: column \"%s\" is a table of %s; each tensor of it is a column of "
      .. "its own, as in {%s_%s = t.%s}", what, name,
      table.concat(keys, ", "), name, keys[#keys], keys[#keys])
  end
  return core.edge(x)
end

-- f in a graph of its own, on placeholders for the columns.
local function trace(self, f, seed, what)
  local g = core.graph_new()
  g:set_seed(seed)
  local feeds, result = {}, nil
  g:as_default(function()
    local e = columns_for(self, what)
    for i, c in ipairs(self.specs) do
      feeds[i] = core.add("Placeholder", {},
        {dtype = c.dtype, shape = c.shape or false}, self.columns[i])
      e[self.columns[i]] = feeds[i]
    end
    result = f(e)
    setmetatable(e, nil) -- it may be the result
    if args.is_tensor(result) then
      result = core.edge(result)
      return
    end
    if not args.plain(result) then
      fail("%s: the function gives %s, not %s", what, what == "filter"
        and "a bool scalar" or "a table of tensors by name",
        args.what(result))
    end
    for name, x in pairs(result) do
      result[name] = column_edge(name, x, what)
    end
  end)
  return g, feeds, result
end

-- Those of the feeds that the fetches need, with the numbers of their columns.
local function needed(feeds, fetches)
  local seen, used, numbers = {}, {}, {}
  local function visit(op)
    if seen[op] then return end
    seen[op] = true
    for _, x in ipairs(op.inputs) do visit(x.op) end
    for _, c in ipairs(op.control_inputs) do visit(c) end
  end
  for _, x in ipairs(fetches) do visit(x.op) end
  for i, x in ipairs(feeds) do
    if seen[x.op] then
      used[#used + 1] = x
      numbers[#numbers + 1] = i - 1
    end
  end
  return used, numbers
end

-- A session for the traced graph, with what it needs made ready.
local function ready_session(g)
  local s = core.session(g, {})
  s:init()
  return s
end

-- A stage of `kind` that runs f; `fetched` makes the list of what is fetched
-- from its result.
local function calling(self, kind, f, parallel, fetched)
  local traced = {}
  return function(p, seed)
    if traced.seed ~= seed then
      local g, feeds, result = trace(self, f, seed, kind)
      local fetches = fetched(result)
      traced = {seed = seed, fetches = fetches, session = ready_session(g)}
      traced.feeds, traced.numbers = needed(feeds, fetches)
    end
    p[kind](p, traced.session, traced.feeds, traced.fetches, traced.numbers,
            parallel)
  end
end

local function read_parallel(o, what)
  o = args.read(o, {"parallel", "seed"}, what)
  local n = o.parallel or core.pool_size()
  return integer(n, what .. ": parallel", 1), seed_option(o, what)
end

--- A pipeline of what f gives for each element: f(e) takes the columns as graph
-- tensors in a table, and gives a table of those there are then. It is built
-- once and runs on the engine's threads, several elements at once (option
-- `parallel`: as many as there are processors), in their order; random ops in
-- it draw by epoch and number of the element.
-- @usage p:map(function(e) return {x = td.decode_raw(e.record, "uint8")} end)
function methods:map(f, o)
  args.expect_callable(f, "map")
  local parallel, seed = read_parallel(o, "map")
  local names
  local function fetched(result)
    if not args.plain(result) then
      fail("map: the function gives a table of tensors by name, as in "
        .. "{image = x}, not one tensor")
    end
    local list = {}
    names = args.sorted_keys(result)
    for i, name in ipairs(names) do list[i] = result[name] end
    if #list == 0 then fail("map: the function gives no column") end
    return list
  end
  local add = calling(self, "map", f, parallel, fetched)
  local new = with(self, "map", {add = add, seed = seed, draws = true})
  new.columns = names
  return new
end

--- A pipeline of the elements for which f(e) gives true, a bool scalar. Options
-- as of map.
function methods:filter(f, o)
  args.expect_callable(f, "filter")
  local parallel, seed = read_parallel(o, "filter")
  local function fetched(result)
    if not args.is_tensor(result) or result.dtype ~= "bool" then
      fail("filter: the function gives a bool scalar")
    end
    return {result}
  end
  local add = calling(self, "filter", f, parallel, fetched)
  return with(self, "filter", {add = add, seed = seed, draws = true})
end

-- ---- order and number -----------------------------------------------------

--- Each time one of n elements at hand, by chance; drawn anew for each epoch.
-- Option seed; else it follows from td.seed.
function methods:shuffle(n, o)
  o = args.read(o, {"seed"}, "shuffle")
  integer(n, "shuffle: n", 1)
  return with(self, ("shuffle(%d)"):format(n), {
    add = function(p, seed) p:shuffle(n, seed) end,
    seed = seed_option(o, "shuffle"), draws = true})
end

--- n epochs as one; without n for ever.
function methods:repeat_(n)
  if n == math.huge then n = nil end
  if n ~= nil then integer(n, "repeat_: n", 0) end
  return with(self, ("repeat(%s)"):format(n or ""),
              {add = function(p) p:repeat_(n or -1) end})
end

--- The first n elements of each epoch.
function methods:take(n)
  integer(n, "take: n", 0)
  return with(self, ("take(%d)"):format(n),
              {add = function(p) p:first(n) end})
end

--- All but the first n elements of each epoch.
function methods:skip(n)
  integer(n, "skip: n", 0)
  return with(self, ("skip(%d)"):format(n), {add = function(p) p:skip(n) end})
end

--- Keeps the elements of the first epoch; later ones are given from these, and
-- the stages before are not asked again: what is random in them stays as it
-- was. Without a path in memory, for as long as the loop. With one in a file,
-- which is made anew where there is none, and read at once where there is one:
-- remove it when the stages before change. It is there when an epoch was whole;
-- one that is cut short by take, or has errors, is not kept.
-- @raise "failed_precondition", from the loop: the file holds other columns;
-- "data_loss": it is damaged
-- @usage p:map(decode):cache("train.cache"):shuffle(1000):batch(32)
function methods:cache(path)
  if path ~= nil then
    args.expect(path, "string", "cache: path")
    if path == "" or path:find "\0" then fail("cache: the path is no path") end
  end
  return with(self, path and ("cache(%s)"):format(path) or "cache",
              {add = function(p) p:cache(path) end})
end

--- Keeps n elements ready, beyond the two that each stage does; fewer once
-- those of a stage hold 256 MiB.
function methods:prefetch(n)
  integer(n, "prefetch: n", 1)
  return with(self, ("prefetch(%d)"):format(n),
              {add = function(p) p:prefetch(n) end})
end

-- ---- batches --------------------------------------------------------------

--- n elements side by side; the last batch of an epoch is shorter, unless
-- drop_remainder is set. Elements have one shape: see padded_batch.
function methods:batch(n, o)
  o = args.read(o, {"drop_remainder"}, "batch")
  integer(n, "batch: n", 1)
  local whole = o.drop_remainder == true
  return with(self, ("batch(%d)"):format(n),
              {add = function(p) p:batch{n = n, whole = whole} end,
               batches = true})
end

-- Options shapes and values, tables by column, as lists in the columns' order.
local function paddings(self, o, what)
  local room, pad = {}, {}
  for _, key in ipairs{"shapes", "values"} do
    if o[key] ~= nil and not args.plain(o[key]) then
      fail("%s: %s is a table by column", what, key)
    end
    for _, name in ipairs(args.sorted_keys(o[key] or {})) do
      if not args.holds(self.columns, name) then
        fail("%s: %s: there is no column \"%s\"%s", what, key, name,
             errors.did_you_mean(name, self.columns))
      end
    end
  end
  for i, name in ipairs(self.columns) do
    local shape, c = (o.shapes or {})[name], self.specs[i]
    if shape == nil then
      if not c.shape then
        fail("%s: the rank of column \"%s\" is not known; give shapes = {%s = "
          .. "{-1}}", what, name, name)
      end
      shape = {}
      for k = 1, #c.shape do shape[k] = -1 end
    end
    room[i] = shape
    local value = (o.values or {})[name]
    pad[i] = value ~= nil and core.tensor(value, c.dtype) or false
  end
  return room, pad
end

--- n elements side by side, padded to one shape: the longest of the batch in
-- each dimension, or options shapes = {column = {sizes, -1 for that}}, with 0,
-- false or "", or values = {column = scalar}. Option drop_remainder.
function methods:padded_batch(n, o)
  o = args.read(o, {"shapes", "values", "drop_remainder"}, "padded_batch")
  integer(n, "padded_batch: n", 1)
  local room, pad = paddings(self, o, "padded_batch")
  local whole = o.drop_remainder == true
  return with(self, ("padded_batch(%d)"):format(n), {add = function(p)
    p:batch{n = n, whole = whole, room = room, pad = pad}
  end, batches = true})
end

--- Padded batches of n elements of like lengths: those whose column `length`,
-- an integer scalar, is below bounds[1], below bounds[2], ..., the rest.
-- Options as of padded_batch.
function methods:bucket(length, bounds, n, o)
  o = args.read(o, {"shapes", "values", "drop_remainder"}, "bucket")
  integer(n, "bucket: n", 1)
  args.check_list(bounds, "bucket: bounds")
  local number
  for i, name in ipairs(self.columns) do
    if name == length then number = i - 1 end
  end
  if not number then
    fail("bucket: there is no column \"%s\"%s", tostring(length),
         errors.did_you_mean(length, self.columns))
  end
  for _, b in ipairs(bounds) do args.expect(b, "integer", "bucket: a bound") end
  local room, pad = paddings(self, o, "bucket")
  local whole = o.drop_remainder == true
  return with(self, ("bucket(%s, %d)"):format(length, n), {add = function(p)
    p:bucket(number, bounds, {n = n, whole = whole, room = room, pad = pad})
  end, batches = true})
end

-- ---- states ---------------------------------------------------------------

-- Seeds, an epoch and a step before what the engine saves.
local function pack(seeds, epoch, step, state)
  return string.pack("<I4", #seeds)
    .. string.pack("<" .. ("i8"):rep(#seeds), table.unpack(seeds))
    .. string.pack("<i8i8", epoch, step) .. state
end

local function unpack_state(s, count)
  args.expect(s, "string", "restore")
  local ok, n, at = pcall(string.unpack, "<I4", s)
  if not ok or n ~= count or #s < 4 + 8 * n + 16 then
    fail("restore: this is not the state of a pipeline of these stages")
  end
  local seeds = {string.unpack("<" .. ("i8"):rep(n), s, at)}
  at = table.remove(seeds)
  local epoch, step
  epoch, step, at = string.unpack("<i8i8", s, at)
  return seeds, epoch, step, s:sub(at)
end

-- ---- loops ----------------------------------------------------------------

local iterator = {}
iterator.__index = iterator

-- The one that runs, made when the first batch is asked for.
local function running(self)
  self.p = self.p or build(self.of, self.seeds)
  return self.p
end

local function named(self, ...)
  if select("#", ...) == 0 then return nil end
  self.step = self.step + 1
  local e = {epoch = self.epoch, step = self.step}
  for i, name in ipairs(self.of.columns) do e[name] = (select(i, ...)) end
  return e
end

function iterator:__call()
  if self.closed then return nil end
  while true do
    local p = running(self)
    if self.at_end then
      if self.epoch >= self.epochs then return nil end
      self.epoch, self.at_end, self.begin = self.epoch + 1, false, self.step
      p:again()
    end
    local e = named(self, p:take())
    if e then return e end
    self.at_end = true
    if self.step == self.begin then return nil end -- an epoch without elements
  end
end

--- Ends it at once; a loop that ends does so too.
function iterator:close()
  self.closed = true
  if self.p then self.p:close() end
  self.p = nil
end
iterator.__close = iterator.close

--- Where the loop stands, a string: what was given so far is behind it.
function iterator:state()
  if self.closed then fail("state: the loop is over") end
  local at_end = self.at_end and 1 or 0
  return pack(self.seeds, self.epoch * 2 + at_end, self.step,
              running(self):save())
end

--- Goes on from a state, of a loop over a pipeline of the same stages.
function iterator:restore(s)
  local seeds, epoch, step, state = unpack_state(s, #self.seeds)
  local p = build(self.of, seeds)
  p:load(state)
  if self.p then self.p:close() end
  self.p, self.seeds, self.step, self.begin = p, seeds, step, -1
  self.epoch, self.at_end, self.closed = epoch // 2, epoch % 2 == 1, false
  return self
end

--- A loop over elements, or over batches of n: for b in p:batches(100,
-- {epochs = 3}) do. Each element is a table of values by column, with epoch and
-- step, both from 1. Options: epochs (1; math.huge), drop_remainder.
-- @return an iterator with :state(), :restore(s), :close()
function methods:batches(n, o)
  if args.plain(o) and o.shuffle ~= nil then
    fail("batches: a pipeline is mixed by a stage: p:shuffle(n), n elements at "
      .. "hand")
  end
  o = args.read(o, {"epochs", "drop_remainder"}, "batches")
  local epochs = o.epochs or 1
  if epochs ~= math.huge then integer(epochs, "batches: epochs", 0) end
  local of = n and self:batch(n, {drop_remainder = o.drop_remainder}) or self
  return setmetatable({of = of, seeds = draw_seeds(of), epochs = epochs,
                       epoch = 1, step = 0, begin = 0,
                       at_end = epochs == 0}, iterator)
end

-- ---- in a graph -----------------------------------------------------------

local published = 0

-- Makes self.live run, in place of one that did.
local function publish(self, seeds, state)
  local p = build(self, seeds)
  if state then p:load(state) end
  local live = self.live
  if live.p then live.p:close() end
  live.p, live.seeds = p, seeds
  p:publish(live.name)
end

--- The columns as graph tensors: each step that needs one takes the next
-- element, whatever session it is of. At the end a step fails with
-- "out_of_range", until :rewind(). In a graph that is saved they are to be fed.
function methods:next()
  if not rawget(self, "live") then
    published = published + 1
    rawset(self, "live", {name = ("pipeline_%d"):format(published)})
    publish(self, draw_seeds(self))
  end
  local types, sizes = {}, {}
  for i, c in ipairs(self.specs) do
    types[i], sizes[i] = c.dtype, c.shape or false
  end
  local state = graph.state()
  state.pipelines = state.pipelines or {}
  table.insert(state.pipelines, self.live)
  local list = table.pack(core.add("PipelineNext", {}, {
    pipeline = self.live.name, output_types = types, output_shapes = sizes}))
  if args.plain(list[1]) then list = list[1] end
  local e = {}
  for i, name in ipairs(self.columns) do e[name] = list[i] end
  return e
end

local function live(self, what)
  return rawget(self, "live") or fail("%s: of a pipeline whose :next() is in a "
    .. "graph; a loop has one of its own", what)
end

--- Where the tensors of :next() stand, a string.
function methods:state()
  local l = live(self, "state")
  return pack(l.seeds, 0, 0, l.p:save())
end

--- The tensors of :next() go on from a state.
function methods:restore(s)
  live(self, "restore")
  local seeds, _, _, state = unpack_state(s, #self.stages + 1)
  publish(self, seeds, state)
end

--- The tensors of :next() give nothing more: what waits for them, and what is
-- computed ahead, is cancelled. (Else that ends with the graph.)
function methods:close()
  live(self, "close").p:close()
end

--- The tensors of :next() begin again.
function methods:rewind()
  publish(self, live(self, "rewind").seeds)
end

return pipeline
