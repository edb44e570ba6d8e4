--- commands/tour.lua - %tour: a few steps for a newcomer.
--
-- Each step shows a few lines of Lua, runs them and says what was seen. A step
-- needs nothing from those before it.
-- SPDX-License-Identifier: Apache-2.0

local cell = require "tide.console.cell"
local paint = require "tide.console.paint"

-- Title, text, code.
local steps = {
  {"a tensor", [[
An array of numbers of one type. Every op of Tide takes and gives tensors; on
tensors that hold values it computes at once.]], [[
x = td.tensor{{1.0, 2.0}, {3.0, 4.0}}
x * 10 + 1]]},
  {"ops", [[
td.NAME is an op; ?NAME tells about it, Tab completes it. Many are methods of a
tensor too, and slices count from 0, as TensorFlow does.]], [[
x = td.tensor{{1.0, 2.0}, {3.0, 4.0}}
td.matmul(x, x):sum(), x["0, :"] ]]},
  {"a graph", [[
A placeholder has no value yet. What is computed from one becomes a node of
a graph: a plan that can be differentiated, split over devices, run again.]], [[
td.reset()
a = td.placeholder("float32", {}, "a")
b = td.square(a) + 1
b]]},
  {"a session", [[
A session runs graphs. It is told what to compute and what the placeholders
hold; a result of rank 0 is a Lua number.]], [[
td.reset()
a = td.placeholder("float32", {}, "a")
b = td.square(a) + 1
sess = td.session()
sess:run(b, {[a] = 3})]]},
  {"a variable", [[
A variable keeps its value from run to run, in the session. It begins when it
is initialised.]], [[
td.reset()
n = td.variable(0.0, "n")
up = n:assign_add(1.0)
sess = td.session()
sess:init()
for i = 1, 3 do sess:run(up) end
sess:run(n)]]},
  {"gradients", [[
td.gradients adds the nodes that compute derivatives: here of x^3 at 2.]], [[
td.reset()
x = td.placeholder("float32", {}, "x")
y = x * x * x
dx = td.gradients(y, {x})[1]
td.session():run({y, dx}, {[x] = 2})]]},
  {"training", [[
An optimiser is one more node: each run of it changes the variables a
little, so that the loss gets smaller. Here a line is fitted to points.]], [[
td.reset()
x = td.constant{0.0, 1.0, 2.0, 3.0}
y = td.constant{1.0, 3.0, 5.0, 7.0}
w, b = td.variable(0.0, "w"), td.variable(0.0, "b")
loss = td.square(w * x + b - y):mean()
step = td.train.adam(0.1):minimize(loss)
sess = td.session()
sess:init()
for i = 1, 300 do sess:run(step) end
print(("y = %.2f x + %.2f"):format(sess:run(w), sess:run(b)))]]},
  {"saving", [[
A checkpoint is variables in files, there as a whole or not at all. A saver
writes one and puts it back. fit{checkpoint = dir} and td.train.supervisor save
by themselves, and a job that was killed goes on where it was.]], [[
td.reset()
n = td.variable(1.0, "n")
sess = td.session()
sess:init()
dir = os.tmpname()
os.remove(dir)
saver = td.train.saver()
saver:save(sess, dir .. "/model")
sess:run(n:assign(5.0))
saver:restore(sess, dir)
os.execute("rm -r " .. dir)
sess:run(n)]]},
  {"mistakes", [[
An error names the op, the node and your line, and says what would do.
%debug after one tells more: the node's inputs, its way to the result.]], [[
ok, e = pcall(td.matmul, td.value.ones{2, 3}, td.value.ones{2, 3})
print(e)]]},
  {"looking", [[
Whatever stands last in a line or a cell is shown in its best form: tensors,
graphs, tables. td.display shows something in between; a semicolon at the
end hides it.]],
   [[
td.reset()
x = td.placeholder("float32", {-1, 4}, "x")
h = td.tanh(td.matmul(x, td.variable(td.zeros{4, 2}, "W")))
td.get_default_graph()]]},
  {"files, and more", [[
Arrays go to files and come back. Files too big for memory are read through
pipelines, ahead of use: ?data.records tells. From here: ?, %lsmagic, the
tutorials, and td.help "matmul".]], [[
path = os.tmpname()
td.save_npy(path, td.tensor{1.0, 2.0, 3.0})
x = td.load_npy(path)
os.remove(path)
x]]},
}

local function show(step, n)
  print(paint.strong(("%d/%d  %s"):format(n, #steps, step[1])))
  print(step[2])
  print ""
  for line in step[3]:gmatch "[^\n]+" do print("  " .. paint.lua(line)) end
  print ""
  if n < #steps then
    print(paint.faint "%tour goes on")
  else
    print(paint.faint "%tour 1 begins again")
  end
end

--- %tour [n]: the next of eleven steps through Tide, or step n.
return function(text, state)
  local n = (state.line.toured or 0) % #steps + 1
  if text ~= "" then n = math.tointeger(tonumber(text)) end
  local step = steps[n]
  if not step then
    error(("%%tour has the steps 1 to %d"):format(#steps), 0)
  end
  state.line.toured = n
  show(step, n)
  return assert(cell.load(step[3], "=tour"))()
end
