-- errors.lua - what a wrong call is told.
--
-- A row is a mistake: its code, and the parts that the message must have: what
-- was expected, what was given, where it was built, what to do.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local core = require "tide.core"

local tests = {}

-- f must raise an error with that code whose text has all the parts. The error
-- of a file names a line of this one.
local function check(name, f, code, parts)
  local ok, e = pcall(f)
  lu.assertFalse(ok, name .. ": no error")
  lu.assertEquals(type(e), "table", name .. ": " .. tostring(e))
  lu.assertEquals(e.code, code, name .. ": " .. tostring(e))
  for _, part in ipairs(parts) do
    lu.assertStrContains(tostring(e), part)
  end
end

-- Makes a test of each row.
local function rows(group, list)
  for name, row in pairs(list) do
    tests[group .. "_" .. name] = function()
      check(name, row[1], row[2], table.move(row, 3, #row, 1, {}))
    end
  end
end

local invalid = "invalid_argument"
local HERE = "errors.lua:"

local function placeholder(shape, dtype)
  return td.placeholder(dtype or "float32", shape, "x")
end

local function run(...)
  local results = td.session():run(...)
  return results
end

-- ---- values, literals, tables ---------------------------------------------

rows("literal", {
  hole = {function() return (td.tensor{{1, 2}, {1, nil, 3}}) end, invalid,
          "at [2]", "hole", "nil cannot be an element", HERE},
  ragged = {function() return (td.tensor{{1, 2}, {3}}) end, invalid, "at [2]",
            "1 elements where an earlier row has 2", HERE},
  kind = {function() return (td.tensor{{1, print}}) end, invalid, "at [1][2]",
          "numbers, booleans or strings, not function"},
  mixed = {function() return (td.tensor{1, true}) end, invalid, "do not mix"},
  nothing = {function() return td.tensor{1} + nil end, invalid,
             "input \"y\" must be a tensor, not nil", "AddV2(x: T, y: T)",
             HERE},
  half = {function() return td.tensor{1} + 0.5 end, invalid, "0.5 is not whole",
          "int32", "td.cast", HERE},
  large = {function() return td.tensor({1}, "int8") + 300 end, invalid,
           "300 does not fit int8"},
  word = {function() return td.tensor{1} + "a" end, invalid, "expected int32",
          "given a string"},
  dtype = {function() return (td.cast({1}, "flaot64")) end, invalid,
           "no dtype \"flaot64\"", "did you mean \"float64\"?"},
})

rows("tensor", {
  ipairs = {function() for _ in ipairs(td.tensor{1}) do lu.fail "" end end,
            invalid, "counts from 0", "t:rows()"},
  length = {function() return #td.tensor{1} end, invalid, "t:dim(0)"},
  less = {function() return td.constant(1) < td.constant(2) end, invalid,
          "one boolean", "a:less(b)", ":item()"},
  assign = {function() td.tensor{1}[0] = 2 end, invalid, "never changes",
            "W[\"0:2\"]:assign(t)"},
  field = {function() return td.tensor{1}.shap end, invalid,
           "no field or method \"shap\"", "did you mean \"shape\"?"},
  function_as_method = {function() return td.constant{1}:concat() end, invalid,
                        "\"concat\"", "it is a function, td.concat"},
  slice = {function() return td.tensor{1}["1;2"] end, invalid,
           "\"1;2\" is no slice", "\"1:3\""},
  half_index = {function() return td.tensor{1, 2}[0.5] end, invalid,
                "an index must be an integer or a graph scalar, not 0.5", HERE},
  value_of_a_node = {function() return td.constant(1):item() end, invalid,
                     "a graph tensor has no item()", "x:eval()", HERE},
  shape = {function() td.tensor{1}.shape[1] = 2 end, invalid,
           "a shape is read-only", "x:reshape(list)", HERE},
  in_torch = {function() return td.constant{1}:view(1) end, invalid,
              "no field or method \"view\"", "write x:reshape{...}", HERE},
  index = {function() return td.tensor{1, 2}[7] end, invalid, "index 7",
           "2 elements", HERE},
})

-- ---- arguments ------------------------------------------------------------

rows("argument", {
  rounds_of_a_cipher = {function()
    td.raw.RandomIndexShuffle({0}, {1, 2, 3}, 9, {rounds = 5})
  end, invalid, "even number from 4", "5", HERE},
  few_rounds = {function()
    td.raw.RandomIndexShuffle({0}, {1, 2, 3}, 9, {rounds = 2})
  end, invalid, "rounds", "2", HERE},
  surplus = {function() return (td.relu({1.0}, td.tensor{2.0})) end, invalid,
             "surplus argument 2 (tensor)", "Relu(features: T)", HERE},
  surplus_graph_tensor = {function()
    return (td.matmul(td.zeros{1, 1}, {{1.0}}, td.zeros{1}))
  end, invalid, "matmul", "options or a name", "not graph tensor"},
  misspelt = {function()
    return (td.matmul({{1}}, {{1}}, {transpos_a = true}))
  end, invalid, "no attribute \"transpos_a\"",
    "did you mean \"transpose_a\"?", HERE},
  mistyped = {function()
    return (td.matmul({{1}}, {{1}}, {transpose_a = 3}))
  end, invalid, "transpose_a", "is a bool", "given 3"},
  missing = {function() return (td.raw.MatMul({{1}})) end, invalid,
             "input \"b\" is missing", "MatMul(a: T, b: T)"},
  none = {function() return (td.relu(nil)) end, invalid,
          "must be a tensor, not nil"},
  op = {function() return (td.relu(td.no_op())) end, invalid,
        "must be a tensor, not op"},
  list = {function() return (td.concat(td.tensor{1}, td.tensor{2})) end,
          invalid, "concat", "must be a list, not tensor"},
  colon = {function() return td:matmul({{1}}, {{1}}) end, invalid,
           "td.matmul is called with a dot"},
  colon_of_an_op = {function() return td:relu{1.0} end, invalid,
                    "td itself (td.NAME is called with a dot)"},
  dot = {function() return (td.session().run(td.constant(1))) end, invalid,
         "sess:run(...)", "given graph tensor"},
  numbers_in_a_row = {function() return (td.zeros(2, 3)) end, invalid, "zeros",
                      "not number", "one list, such as {2, 3}", HERE},
  surplus_number = {function() return (td.reshape({1}, 1, 1)) end, invalid,
                    "surplus argument 3 (number)", "one list, such as {2, 3}",
                    "Reshape(tensor: T", HERE},
  input_by_name = {function() return (td.sum({1}, {axis = 0})) end, invalid,
                   "no attribute \"axis\"",
                   "it is argument 2, given by its place",
                   "keep_dims: bool = false", HERE},
  in_numpy = {function() return (td.randn(2)) end, invalid, "no \"randn\"",
              "write td.random_normal{2, 3}", HERE},
  in_a_module = {function() return (td.train.Adam(0.1)) end, invalid,
                 "td.train has no \"Adam\"", "did you mean \"adam\"?", HERE},
  as_in_python = {function() return (td.train.AdamOptimizer(0.1)) end, invalid,
                  "no \"AdamOptimizer\"", "write td.train.adam(rate)", HERE},
  no_dtype = {function() return (td.cast({1})) end, invalid,
              "cast(x, dtype): the dtype is missing", HERE},
  method_with_a_dot = {function()
    return (td.get_default_graph().summary())
  end, invalid, "g:summary(...)", "given nil", HERE},
  group = {function() return (td.group(td.no_op(), td.no_op())) end, invalid,
           "td.group{a, b}", HERE},
  collection = {function() return (td.get_collection()) end, invalid,
                "the name of a collection must be a string, not nil", HERE},
  session_of_a_graph = {function()
    return (td.session(td.get_default_graph()))
  end, invalid, "td.session{graph = g}", HERE},
  name = {function() return td.sesion end, invalid,
          "did you mean \"session\"?", HERE},
  option = {function() return (td.session{thread = 2}) end, invalid,
            "no option \"thread\"", "did you mean \"threads\"?"},
  open_merge = {function() return (td.raw.Merge{false, false}) end, invalid,
                "Merge"},
})

-- ---- shapes and dtypes ----------------------------------------------------

rows("shape", {
  product = {function()
    return placeholder{-1, 784} * td.zeros{784, 10}
  end, invalid, "{-1, 784}", "{784, 10}", "do not broadcast", "x:matmul(y)",
    HERE},
  matmul = {function() return (td.matmul(td.zeros{2, 3}, td.zeros{2, 3})) end,
            invalid, "{2, 3} by {2, 3}", "3 columns, 2 rows", HERE},
  reshape = {function() return (td.reshape(td.zeros{4}, {3})) end, invalid,
             "{4} (4 elements)", "{3}", HERE},
  concat = {function()
    return (td.concat({td.zeros{2, 2}, td.zeros{3, 3}}, 0))
  end, invalid, "agree", "{3, 3}", "{2, 2}", HERE},
  dtypes = {function() -- 6.10, 4
    return placeholder({}, "float64") + placeholder{}
  end, invalid, "AddV2", "must be float64", "not float32", "cast it", HERE},
})

-- ---- graphs ---------------------------------------------------------------

local function imported(change)
  local path = os.tmpname()
  local g = td.graph()
  g:as_default(function()
    td.relu(td.relu(td.placeholder("float32", {2}, "xx"), "yy"), "zz")
  end)
  local file = assert(io.open(path, "wb"))
  file:write((change(g:save_bytes())))
  file:close()
  local ok, e = pcall(td.import_graph, path)
  os.remove(path)
  if not ok then error(e, 0) end
end

rows("graph", {
  other = {function() -- 6.10, 2
    local x = td.graph():as_default(function() return (td.constant(1, "x")) end)
    return run(x)
  end, invalid, "\"x:0\"", "another graph", "td.session{graph = x.graph}",
    HERE},
  mixed = {function()
    local x = td.graph():as_default(function() return (td.constant(1, "x")) end)
    return x + td.constant(1)
  end, invalid, "another graph", HERE},
  final = {function() -- 6.10, 3
    td.get_default_graph():finalize()
    return (td.constant(1))
  end, "failed_precondition", "the graph is final", HERE},
  unknown_op = {function() -- 6.10, 12
    imported(function(bytes) return (bytes:gsub("Relu", "Relv")) end)
    run(td.get_default_graph():edge "zz")
  end, "not_found", "op \"Relv\" (did you mean \"Relu\"?)", HERE},
  cycle = {function() -- 6.10, 13
    imported(function(bytes)
      return (bytes:gsub("xx", "zz"):gsub("zz", "xx", 1))
    end)
  end, invalid, "a cycle that passes no NextIteration",
    "\"yy\" <- \"zz\" <- \"yy\""},
  no_node = {function() return td.get_default_graph():op "nope" end,
             "not_found", "no node \"nope\""},
  bad_name = {function() return (td.relu(td.constant(1.0), "a b")) end, invalid,
              "a name must be", "not \"a b\"", HERE},
  device = {function() return (td.device("/foo", td.no_op)) end, invalid,
            "\"foo\" is none of", "/device:TYPE:N"},
})

-- ---- variables ------------------------------------------------------------

rows("variable", {
  uninitialised = {function() -- 6.10, 1
    return run(td.variable(1.0, "w"))
  end, "failed_precondition", "variable w is not initialised", "sess:init()",
    "\"w/Read\"", HERE},
  twice = {function() -- 6.10, 5
    td.get_variable("w", {1})
    return (td.get_variable("w", {1}))
  end, "already_exists", "variable \"w\" exists already, made at", HERE,
    "reuse = true"},
  nothing_to_reuse = {function()
    return (td.variable_scope("s", {reuse = true}, td.get_variable, "w", {1}))
  end, "not_found", "\"s/w\" to reuse", "make it first"},
  other_shape = {function()
    td.get_variable("w", {1})
    local _ <close> = td.variable_scope("", {reuse = true})
    return (td.get_variable("w", {2}))
  end, invalid, "shape {1}", "asked for {2}", HERE},
  assign_shape = {function()
    return (td.variable({1.0, 2.0}, "w"):assign{1.0})
  end, invalid, "\"w\" has shape {2}, given {1}", HERE},
  assign_dtype = {function()
    return (td.variable({1.0}, "w"):assign(td.constant{1}))
  end, invalid, "\"w\" is float32, given int32", "td.cast", HERE},
  assign_with_a_dot = {function()
    return (td.variable({1.0}, "w").assign({2.0}))
  end, invalid, "W:assign(t)", "given table where the variable should be",
    HERE},
  dtype_as_name = {function() return (td.variable({1}, "float32")) end, invalid,
                   "\"float32\" is a dtype, not a name",
                   "{dtype = \"float32\"}", HERE},
  no_shape = {function() return (td.get_variable "w") end, invalid,
              "\"w\" needs a shape", "get_variable(name, {2, 3})", HERE},
  initializer_not_called = {function()
    return (td.get_variable("w", {2}, {initializer = td.initializers.zeros}))
  end, invalid, "\"w\"", "gives a function", "td.initializers.zeros()", HERE},
  reuse = {function()
    return (td.variable_scope("s", {reuse = "yes"}, td.no_op))
  end, invalid, "reuse is true, false or \"auto\", not yes", HERE},
  field = {function() td.variable(1.0, "w").x = 3 end, invalid,
           "W:assign(t)", HERE},
})

-- ---- runs -----------------------------------------------------------------

rows("run", {
  string_key = {function()
    local images = placeholder{}
    return run(images, {images = 3.0})
  end, invalid, "no node \"images\"",
    "to feed the tensor in variable images write [images] ="},
  feed_dict = {function()
    local x = placeholder{}
    return run(x, {feed_dict = {[x] = 3.0}})
  end, invalid, "feeds are the second argument", "run(y, {[x] = value})"},
  two_fetches = {function()
    local x = td.constant(1)
    return run(x, x)
  end, invalid, "{[x] = value}, not graph tensor", "run({a, b}, feeds)"},
  a_value = {function() return run(td.tensor(1)) end, invalid,
             "fetch is tensor", "there already, without a run"},
  wait = {function()
    return (td.session():start(td.constant(1)):wait(0 / 0))
  end, invalid, "wait takes a number of seconds >= 0", "nan", HERE},
  not_fed = {function() return run(placeholder{2} * 2) end, invalid,
             "placeholder \"x\" (float32 {2}), which is not fed", "path: Mul",
             HERE},
  feed_shape = {function()
    local x = placeholder{-1, 784}
    return run(x, {[x] = {{1.0}}})
  end, invalid, "feed \"x:0\" expects float32 {-1, 784}",
    "given float32 {1, 1}", HERE},
  feed_dtype = {function()
    local x = placeholder({}, "int32")
    return run(x, {[x] = 1.5})
  end, invalid, "feed \"x:0\"", "1.5 is not whole", "int32", HERE},
  fed_twice = {function()
    local x = placeholder{}
    return run(x, {[x] = 1, x = 2})
  end, invalid, "\"x:0\" is fed twice"},
  fed_variable = {function()
    local w = td.variable(1.0, "w")
    return run(w, {[w] = 2.0})
  end, invalid, "\"w\"", "cannot be fed; assign to it"},
  fetch = {function() return run(3) end, invalid, "fetch is number",
           "graph tensors, ops, variables, names"},
  no_gradient = {function() return run{false} end, invalid,
                 "false stands for no gradient"},
  no_device = {function() -- 6.10, 8
    local x = td.device("/GPU:0", td.constant, 1, "c")
    local s = td.session{soft_placement = false}
    return (s:run(x))
  end, invalid, "asks for \"/device:GPU:0\"", "no such device",
    "Const has kernels for CPU", "devices: CPU:0", HERE},
  no_kernel = {function()
    return run(td.placeholder("qint8", {}):relu())
  end, invalid, "no CPU kernel for op Relu with T=qint8", "there are: T=",
    HERE},
  memory = {function() -- 6.10, 9
    local w = td.variable(td.zeros({1 << 20}, "some"), "w")
    local s = td.session()
    s:init()
    local many = td.zeros({1 << 20, 1 << 10, 1 << 10}, "many")
    return (s:run(many:sum() + w))
  end, "resource_exhausted", "(4.0 TiB)", "memory limit", "are in use",
    "the largest:", "w/Assign 4.0 MiB", "some 4.0 MiB", HERE},
  timeout = {function() -- 6.10, 10
    local i = td.while_loop(function(i) return i:greater_equal(0) end,
                            function(i) return i * 1 end, {1})
    return run(i, nil, {timeout = 0.02})
  end, "deadline_exceeded", "within 0.020 s", "waiting:", "while/", "waits for",
    HERE},
  closed = {function()
    local s = td.session()
    s:close()
    return (s:run(td.constant(1)))
  end, "failed_precondition", "the session is closed"},
})

-- ---- loops and branches ---------------------------------------------------

local function less_than_three(i) return i:less(3) end

rows("loop", {
  dtype = {function()
    return (td.while_loop(less_than_three,
                          function(i) return i:cast "float32" end, {0}))
  end, invalid, "loop variable 1 is int32", "the body gives float32", "td.cast",
    HERE},
  count = {function()
    return (td.while_loop(less_than_three, function(i) return i, i end, {0}))
  end, invalid, "1 loop variables", "2 results", HERE},
  shape = {function()
    return (td.while_loop(less_than_three, function(i, x)
      return i + 1, td.concat({x, x}, 0)
    end, {0, td.constant{1}}))
  end, invalid, "{1}", "{2}", "shape_invariants", HERE},
  outside = {function()
    local k
    td.while_loop(less_than_three, function(i)
      k = i + 1
      return k
    end, {0})
    return run(k)
  end, invalid, "inside the loop", "fetch what leaves the loop", HERE},
  branches = {function()
    return (td.cond(td.constant(true), function() return 1 end,
                    function() return 1.5 end))
  end, invalid, "int32 in the true branch", "float32 in the false one",
    "td.cast", HERE},
})

-- ---- strings --------------------------------------------------------------

rows("string", {
  axis = {function()
    return (td.reduce_join(td.tensor{{"a", "b"}}, 2))
  end, "out_of_range", "reduction_indices must be in [-2, 2)", "is 2", HERE},
  axis_of_many = {function()
    return (td.reduce_join(td.tensor{{"a", "b"}}, {0, 1, 5}))
  end, "out_of_range", "is 5"},
  axis_of_a_scalar = {function()
    return (td.reduce_join(td.tensor "a", 0))
  end, "out_of_range", "for rank 0"},
  axis_that_is_fed = {function()
    local axes = placeholder({1}, "int32")
    return run(td.reduce_join(td.tensor{{"a", "b"}}, axes), {[axes] = {-3}})
  end, "out_of_range", "is -3", HERE},
  axis_twice = {function()
    return (td.reduce_join(td.tensor{{"a", "b"}}, {0, -2}))
  end, invalid, "axis 0 twice"},
  position = {function() return (td.substr(td.tensor "moon", 5, 1)) end,
              invalid, "pos 5 is outside of string 0, \"moon\"", HERE},
  position_before = {function()
    return (td.substr(td.tensor "moon", -5, 1, {unit = "UTF8_CHAR"}))
  end, invalid, "pos -5"},
  number = {function() return (td.string_to_number(td.tensor{"1", "0xg"})) end,
            invalid, "string 1, \"0xg\", is no float32", HERE},
  fill = {function() return (td.as_string(td.tensor "a", {fill = "x"})) end,
          invalid, "fill must be", "not \"x\"", HERE},
})

-- ---- gradients ------------------------------------------------------------

rows("gradient", {
  of_nothing = {function() return (td.gradients(td.constant(1.0))) end, invalid,
                "gradients(ys, xs): the xs are missing", HERE},
  of_integers = {function()
    local x = td.constant(1)
    return (td.gradients(x * 2, x))
  end, invalid, "\"Mul:0\" is int32", "only floats", HERE},
  undefined = {function()
    local x = td.constant{1.0, 2.0}
    return (td.gradients((td.unique(x)), x))
  end, "not_found", "no gradient is defined for op Unique", "made at", HERE,
    "td.register_gradient", "td.stop_gradient"},
  nothing_to_train = {function()
    td.variable(1.0, "w")
    return (td.train.sgd(0.1):minimize(td.constant(1.0)))
  end, invalid, "no variable has a gradient", "does the loss depend on them?"},
})

-- ---- other processes -------------------------------------------------------

-- A task is named once.
function tests.tasks()
  local FAR = "/job:far/replica:0/task:1"
  local function told(message, task)
    local _, e = pcall(core.error, "unavailable", message)
    e.device, e.where = task .. "/device:CPU:0", nil
    return tostring(e)
  end
  lu.assertEquals(told("it broke", FAR),
                  "it broke (" .. FAR .. "/device:CPU:0)")
  lu.assertEquals(told(FAR .. " died", FAR), FAR .. " died (CPU:0)")
  lu.assertEquals(told("it broke", "/job:localhost/replica:0/task:0"),
                  "it broke (CPU:0)")
end

return tests
