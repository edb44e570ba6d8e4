--- console/owner.lua - what a cell builds is its own.
--
-- In a notebook, a cell that runs again replaces the nodes it built before in
-- the default graph: names are the same, variables of the same dtype and shape
-- keep their values, and what nobody uses any more leaves the graph, queues and
-- tables with what is in them. What other cells built on the old nodes goes on
-- working: these have names that end in ".old", and a note says which cells it
-- is. A cell is known by its id, else by its text; at the prompt none is.
--
-- A cell that fails half way keeps both: what it built before it failed, and
-- what its last whole run built. The next run replaces them.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local frontend = require "tide.frontend"
local graph = require "tide.graph.graph"
local json = require "tide.base.json"
local publish = require "tide.frontend.publish"
local session = require "tide.run.session"
local shapes = require "tide.tensor.shape"
local style = require "tide.show.style"
local watch = require "tide.console.watch"

local owner = {}

-- By graph: cells by key, the cell of each region, the variables cells made;
-- those that sessions know by another name, and how many ever were.
local books = setmetatable({}, {__mode = "k"})

local function book_of(g)
  if not books[g] then
    books[g] = {cells = {}, cell_of = setmetatable({}, {__mode = "k"}),
                variables = {}, held = setmetatable({}, {__mode = "k"}),
                parted = 0, gone = 0}
  end
  return books[g]
end

-- ---- what Lua keeps for a graph ---------------------------------------------

-- The op of what a collection holds: tensors, ops, variables.
local function op_of(x)
  local kind = core.kind(x)
  if kind == "op" then return x end
  if kind == "edge" then return x.op end
  local handle = type(x) == "table" and rawget(x, "handle")
  return core.kind(handle) == "edge" and handle.op or nil
end

-- Is x, of a cell, to be seen where things are listed? Not while its node has
-- another name.
local function listed(x)
  local op = op_of(x)
  return not op or not (core.is_gone(op) or core.region_has_old_name(op))
end

-- Lists of the graph without what is put aside; gives what is left out.
local function leave_out(state)
  local out = {}
  for name, list in pairs(state.collections) do
    local kept = {}
    for _, x in ipairs(list) do
      if listed(x) then
        kept[#kept + 1] = x
      else
        out[#out + 1] = {collection = name, value = x}
      end
    end
    state.collections[name] = kept
  end
  for name, v in pairs(state.variables) do
    if not listed(v) then
      state.variables[name] = nil
      out[#out + 1] = {variable = name, value = v}
    end
  end
  return out
end

-- Those that are there again go back.
local function put_back(state, left_out)
  for _, row in ipairs(left_out) do
    if listed(row.value) then
      if row.collection then
        table.insert(state.collections[row.collection], row.value)
      elseif not state.variables[row.variable] then
        state.variables[row.variable] = row.value
      end
    end
  end
end

local function forget_gone(t)
  for op in pairs(t) do
    if core.kind(op) and core.is_gone(op) then t[op] = nil end
  end
end

-- By their serials.
local function forget_functions(g, t)
  for serial in pairs(t) do
    if not core.function_name(g, serial) then t[serial] = nil end
  end
end

local function tidy(g, state)
  forget_gone(state.constructs)
  forget_gone(state.loop_variables)
  forget_gone(state.opened or {})
  forget_functions(g, state.functions or {})
  if state.global_step and core.is_gone(state.global_step.handle) then
    state.global_step = nil
  end
end

-- ---- names given out --------------------------------------------------------

-- Where names are kept: of layers, by the variable scope of the graph's root;
-- of functions.
local function lists_of(state)
  return {state.root_scope and state.root_scope.used or {},
          state.function_names or {}}
end

-- All of them now, as sets.
local function used_names(state)
  local sets = {}
  for i, list in ipairs(lists_of(state)) do
    sets[i] = {}
    for name in pairs(list) do sets[i][name] = true end
  end
  return sets
end

-- `sets` without what was there `before`.
local function new_names(sets, before)
  for i, set in ipairs(before) do
    for name in pairs(set) do sets[i][name] = nil end
  end
  return sets
end

local function free_names(state, sets)
  for i, list in ipairs(lists_of(state)) do
    for name in pairs(sets[i] or {}) do list[name] = nil end
    for name in pairs(list) do list[name] = 0 end -- numbers are sought anew
  end
end

-- ---- variables --------------------------------------------------------------

local function same_form(a, b)
  return a.dtype == b.dtype and shapes.text(a.shape) == shapes.text(b.shape)
end

local function rename(g, name, to)
  for s in pairs(session.open) do
    if s:core_graph() == g then s:core_rename(name, to) end
  end
end

-- A variable is made. One that was put aside and is of another form keeps what
-- it holds, under another name.
local function on_variable(run, v)
  local book, name = run.book
  for _, old in ipairs(book.variables) do
    if (book.held[old] or old.name) == v.name and not core.is_gone(old.handle)
       and not same_form(old, v) then
      if not name then
        book.parted = book.parted + 1
        name = ("%s.old.%d"):format(v.name, book.parted)
        rename(run.graph, v.name, name)
      end
      core.rename_variable(old.handle.op, name)
      book.held[old] = name
    end
  end
  table.insert(run.made, v)
end

-- Sessions drop what queues and the like hold whose nodes are gone.
local function drop_resources(g)
  for s in pairs(session.open) do
    if s:core_graph() == g then s:core_sweep() end
  end
end

-- And what is held for variables that are gone.
local function drop_values(run)
  local kept = {}
  for _, v in ipairs(run.book.variables) do
    local held = run.book.held[v] or v.name
    if not core.is_gone(v.handle) then
      kept[#kept + 1] = v
    elseif not run.graph:find(held) then
      rename(run.graph, held)
    end
  end
  run.book.variables = kept
end

-- ---- cells ------------------------------------------------------------------

local LONG = 4096 -- bytes of a cell that is known by its digest

-- What the request's cell is known by; nil where nothing is owned.
local function key_of(request)
  if frontend.kind ~= "notebook" or request.silent then return nil end
  local metadata = json.decode(frontend.metadata() or "{}")
  local id = type(metadata) == "table" and metadata.cellId
  if type(id) == "string" then return "id:" .. id end
  local code = request.code
  return "text:" .. (#code < LONG and code or core.sha256(code))
end

local function put_aside(run, cell)
  for _, region in ipairs(cell.regions) do
    core.region_retire(region, ("cell %s ran again as %s"):format(
      cell.label, run.label))
  end
  run.left_out = leave_out(run.state)
  free_names(run.state, cell.used)
end

--- Begins a run of the cell `key`, which is called `label` ("In[3]"), in the
-- default graph. Gives what finish takes; nil when nothing is to be owned.
function owner.start(key, label)
  core.region_enter()
  local g = graph.owner()
  local book = book_of(g)
  local cell = book.cells[key] or {regions = {}, used = {}, label = label}
  local run = {graph = g, state = graph.state(g), book = book, cell = cell,
               key = key, label = label, before = cell.label, made = {}}
  if not pcall(put_aside, run, cell) then return nil end -- final
  run.used = used_names(run.state)
  run.region = core.region_new(g)
  run.clock = core.clock()
  run.state.on_variable = function(v) on_variable(run, v) end
  core.region_enter(run.region)
  return run
end

local MOST = 8 << 20 -- bytes of nodes that are gone

-- May something be in the region, now or later? A function is put in when it is
-- first called.
local function is_alive(cell, region)
  local nodes, bytes, functions = core.region_stats(region)
  return nodes + functions > 0 or region == cell.current, bytes
end

-- Forgets the other regions. Lua does not see their memory, and must be told to
-- look for handles that hold it.
local function collect(book)
  for _, cell in pairs(book.cells) do
    local kept = {}
    for _, region in ipairs(cell.regions) do
      local alive, bytes = is_alive(cell, region)
      if alive then
        kept[#kept + 1] = region
      else
        book.gone = book.gone + bytes
      end
    end
    cell.regions = kept
  end
  if book.gone > MOST then
    book.gone = 0
    collectgarbage()
  end
end

local function by_number(a, b) return a.number < b.number end

local function number_of(label)
  return math.tointeger(label:match "%d+") or 0
end

-- Is a callable made of nodes of the regions of the set, or of such of `cell`
-- that are gone?
local function is_stale(step, book, set, cell)
  for _, list in ipairs{step.fetches, step.edges} do
    for _, x in ipairs(list) do
      local op = op_of(x)
      local region = core.region_of(op)
      if region and (set[region] or core.is_gone(op)
                     and book.cell_of[region] == cell) then
        return true
      end
    end
  end
  return false
end

-- Cells whose last run uses nodes of the regions, which are of `except`, in the
-- order of their labels.
local function users(book, g, regions, except)
  local set, found, list = core.region_users(g, regions), {}, {}
  local function add(region)
    local cell = book.cell_of[region]
    if cell and cell ~= except and cell.current == region and not found[cell]
    then
      found[cell] = true
      list[#list + 1] = {label = cell.label, number = number_of(cell.label)}
    end
  end
  for region in pairs(set) do add(region) end
  for _, step in pairs(watch.callables) do
    if step.region and is_stale(step, book, set, except) then
      add(step.region)
    end
  end
  table.sort(list, by_number)
  for i, row in ipairs(list) do list[i] = row.label end
  return list
end

-- The regions of a cell that a later run has replaced.
local function replaced(cell)
  local list = {}
  for _, region in ipairs(cell.regions) do
    if region ~= cell.current and region ~= cell.whole then
      list[#list + 1] = region
    end
  end
  return list
end

local function settle(run, ok)
  local cell, book = run.cell, run.book
  cell.current = run.region
  if ok then
    cell.whole = run.region
  elseif cell.whole then
    core.region_restore(cell.whole)
  end
  table.insert(cell.regions, run.region)
  book.cells[run.key] = cell
  book.cell_of[run.region] = cell
  cell.label, cell.seconds = run.label, core.clock() - run.clock
  cell.used = new_names(used_names(run.state), run.used)
  for _, v in ipairs(run.made) do table.insert(book.variables, v) end
end

local function note(list, label)
  local text = ("%s %s what %s built before: run %s again"):format(
    table.concat(list, ", "), #list == 1 and "uses" or "use", label,
    #list == 1 and "it" or "them")
  publish("display_data", {data = {["text/plain"] = text},
                           metadata = json.object{}, transient = json.object{}})
  return text
end

--- Ends a run: `ok` says whether the cell went through. Gives the note that was
-- shown, if any.
function owner.stop(run, ok)
  core.region_enter()
  run.state.on_variable = nil
  settle(run, ok)
  local gone = core.region_sweep(run.graph)
  put_back(run.state, run.left_out)
  tidy(run.graph, run.state)
  drop_values(run)
  if gone > 0 then drop_resources(run.graph) end
  collect(run.book)
  local list = ok and users(run.book, run.graph, replaced(run.cell), run.cell)
  if list and #list > 0 then return note(list, run.before) end
end

-- ---- around a cell ----------------------------------------------------------

--- Begins the run of a request's cell on a line.
function owner.begin(request, line)
  core.new_cell()
  local key = key_of(request)
  return key and owner.start(key, ("In[%d]"):format(line.count))
end

--- Ends what begin began (nil: nothing).
function owner.finish(run, ok)
  if run then owner.stop(run, ok) end
end

-- ---- %cells -----------------------------------------------------------------

local function rows_of(g)
  local book, rows = book_of(g), {}
  for _, cell in pairs(book.cells) do
    local row = {label = cell.label, number = number_of(cell.label),
                 nodes = 0, bytes = 0, seconds = cell.seconds}
    for _, region in ipairs(cell.regions) do
      local nodes, bytes = core.region_stats(region)
      row.nodes, row.bytes = row.nodes + nodes, row.bytes + bytes
    end
    rows[#rows + 1] = row
    for _, label in ipairs(users(book, g, replaced(cell), cell)) do
      row.stale_of = row.stale_of or {}
      table.insert(row.stale_of, label)
    end
  end
  table.sort(rows, by_number)
  return rows
end

local table_meta = {__name = "cells"}

local COLUMNS = "%-10s %8s %10s %10s%s"

function table_meta.__repr_pretty(self)
  local stale = {}
  for _, row in ipairs(self) do
    for _, label in ipairs(row.stale_of or {}) do stale[label] = true end
  end
  local lines = {COLUMNS:format("cell", "nodes", "bytes", "time", "")}
  for i, row in ipairs(self) do
    lines[i + 1] = COLUMNS:format(row.label, style.count(row.nodes),
      style.bytes(row.bytes), style.seconds(row.seconds or 0),
      stale[row.label] and "  stale: run it again" or "")
  end
  return table.concat(lines, "\n")
end
table_meta.__tostring = table_meta.__repr_pretty

--- Nodes, bytes and seconds by cell of the default graph: a list that shows as
-- a table.
function owner.table()
  return setmetatable(rows_of(core.graph()), table_meta)
end

--- Forgets all cells: %reset.
function owner.reset()
  books = setmetatable({}, {__mode = "k"})
end

return owner
