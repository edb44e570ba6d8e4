--- help/lua_library.lua - the functions of Lua's own libraries.
--
-- A line for each. By name: {call =, text =}.
-- SPDX-License-Identifier: Apache-2.0

local library = {}

local text = [[
assert(v, message, ...): Gives its arguments back; raises message when v is nil
  or false.
collectgarbage(option, arg): Works the garbage collector: "collect", "count"
  (kilobytes in use), "step", "stop", ...
dofile(filename): Runs a file of Lua and gives what it returns.
error(message, level): Raises an error; level says whose line it names (1 this
  function, 2 its caller, 0 none).
getmetatable(object): The metatable of an object, or its field __metatable.
ipairs(t): For loops over the list t: i, value from 1 on to the first nil.
load(chunk, chunkname, mode, env): Compiles text as a function; nil and a
  message when it is no Lua.
loadfile(filename, mode, env): The same for a file.
next(table, index): The key after index in a table and its value; nil after the
  last.
pairs(t): For loops over all keys and values of t, in no order.
pcall(f, ...): Calls f: true and its results, or false and the error.
print(...): Writes its arguments to standard output, as tostring gives them.
rawequal(v1, v2): Are they the same? Runs no metamethod.
rawget(table, index): table[index] without metamethods.
rawlen(v): #v without metamethods.
rawset(table, index, value): table[index] = value without metamethods.
require(modname): Loads a module once and gives what it returned.
select(n, ...): The arguments from the n-th on; with "#" how many there are.
setmetatable(table, metatable): Gives a table its metatable and returns the
  table.
tonumber(e, base): The number that a string says, or nil.
tostring(v): Any value as text, by __tostring where there is one.
type(v): "nil", "number", "string", "boolean", "table", "function", "thread" or
  "userdata".
warn(msg1, ...): Gives out a warning; warn "@on" shows them.
xpcall(f, msgh, ...): As pcall, with a function that gets the error where it
  was raised.
string.byte(s, i, j): The bytes i to j of s as numbers.
string.char(...): The string of these bytes.
string.dump(function, strip): A function as binary code, for load.
string.find(s, pattern, init, plain): Where the pattern is first found: start,
  end, captures; nil when it is not.
string.format(formatstring, ...): Text with values in it: %d %s %g %5.2f %q %x
  %%.
string.gmatch(s, pattern, init): For loops over all matches of a pattern.
string.gsub(s, pattern, repl, n): s with matches replaced by a text, from a
  table or by a function; and how many.
string.len(s): Its length in bytes.
string.lower(s): In small letters.
string.match(s, pattern, init): The captures of the first match, or nil.
string.pack(fmt, v1, v2, ...): Values as bytes, by a format.
string.packsize(fmt): How many bytes string.pack makes.
string.rep(s, n, sep): s n times, sep between.
string.reverse(s): The bytes backwards.
string.sub(s, i, j): The bytes i to j; negative ones count from the end.
string.unpack(fmt, s, pos): The values that string.pack wrote, and where the
  rest begins.
string.upper(s): In capital letters.
table.concat(list, sep, i, j): The strings and numbers of a list as one string.
table.insert(list, pos, value): Puts a value into a list, at its end without
  pos.
table.move(a1, f, e, t, a2): Copies a1[f] to a1[e] to a2[t] and on.
table.pack(...): Its arguments as a list with field n.
table.remove(list, pos): Takes an element out of a list, the last without pos.
table.sort(list, comp): Sorts a list in place; comp(a, b) says whether a is
  first.
table.unpack(list, i, j): The elements of a list as results.
math.abs(x): Without its sign.
math.acos(x): Arc cosine, in radians.
math.asin(x): Arc sine, in radians.
math.atan(y, x): Arc tangent of y / x, in radians, in its quadrant.
math.ceil(x): The smallest integer not below x.
math.cos(x): Cosine of radians.
math.deg(x): Radians in degrees.
math.exp(x): e to the power of x.
math.floor(x): The largest integer not above x.
math.fmod(x, y): The remainder of x / y, rounded towards zero.
math.log(x, base): Logarithm, natural without a base.
math.max(x, ...): The largest.
math.min(x, ...): The smallest.
math.modf(x): Whole part and fraction.
math.rad(x): Degrees in radians.
math.random(m, n): A random float in [0, 1), or an integer from m to n.
math.randomseed(x, y): Seeds math.random (td.seed seeds Tide's ops).
math.sin(x): Sine of radians.
math.sqrt(x): Square root.
math.tan(x): Tangent of radians.
math.tointeger(x): x as an integer when it is a whole number, or nil.
math.type(x): "integer", "float", or nil for what is no number.
math.ult(m, n): Is m below n as unsigned integers?
io.close(file): Closes a file.
io.flush(): Writes what is buffered for standard output.
io.input(file): The file that io.read reads, or sets it.
io.lines(filename, ...): For loops over the lines of a file.
io.open(filename, mode): Opens a file: "r", "w", "a", "rb", ...; nil and a
  message when it cannot.
io.output(file): The file that io.write writes, or sets it.
io.popen(prog, mode): Runs a program and reads what it prints, or writes to it.
io.read(...): Reads standard input: "l" a line, "n" a number, "a" all, or a
  count of bytes.
io.tmpfile(): A file that goes when the program ends.
io.type(obj): "file", "closed file", or nil.
io.write(...): Writes strings and numbers to standard output.
os.clock(): Processor seconds used by the program.
os.date(format, time): A date as text or, with "*t", as a table.
os.difftime(t2, t1): Seconds between two times.
os.execute(command): Runs a command of the shell.
os.exit(code, close): Ends the program.
os.getenv(varname): A variable of the environment, or nil.
os.remove(filename): Deletes a file.
os.rename(oldname, newname): Renames a file.
os.setlocale(locale, category): Sets the locale.
os.time(table): Seconds since 1970, now or of a date.
os.tmpname(): The name of a new empty file in a folder of temporary ones.
utf8.char(...): The code points as UTF-8.
utf8.codes(s, lax): For loops over positions and code points.
utf8.codepoint(s, i, j, lax): The code points of bytes i to j.
utf8.len(s, i, j, lax): How many code points; nil and a position when it is no
  UTF-8.
utf8.offset(s, n, i): The byte at which the n-th code point begins.
coroutine.close(co): Ends a coroutine and closes what it has open.
coroutine.create(f): A coroutine that will run f.
coroutine.isyieldable(co): May it yield?
coroutine.resume(co, ...): Runs a coroutine on: true and what it yields, or
  false and the error.
coroutine.running(): The coroutine that runs, and whether it is the main one.
coroutine.status(co): "running", "suspended", "normal" or "dead".
coroutine.wrap(f): A coroutine as a function that resumes it.
coroutine.yield(...): Gives back to who resumed.
debug.debug(): Reads and runs lines of input.
debug.gethook(thread): The hook that is set.
debug.getinfo(thread, f, what): A table about a function or a level of the
  stack.
debug.getlocal(thread, f, var): Name and value of a local.
debug.getmetatable(value): The metatable, whatever __metatable says.
debug.getregistry(): The table of what C keeps.
debug.getupvalue(f, up): Name and value of an upvalue.
debug.getuservalue(u, n): A value that belongs to a userdata.
debug.sethook(thread, hook, mask, count): Calls hook on calls, returns, lines
  or instructions.
debug.setlocal(thread, level, var, value): Sets a local.
debug.setmetatable(value, table): Sets the metatable of any value.
debug.setupvalue(f, up, value): Sets an upvalue.
debug.setuservalue(udata, value, n): Sets a value that belongs to a userdata.
debug.traceback(thread, message, level): The stack as text.
debug.upvalueid(f, n): What tells upvalues apart.
debug.upvaluejoin(f1, n1, f2, n2): Makes an upvalue of f1 one of f2.
]]

local last
for line in text:gmatch "[^\n]+" do
  local more = line:match "^  (.*)$"
  if more then
    last.text = last.text .. " " .. more
  else
    local name, call, about = line:match "^([%w_.]+)(%b()): (.*)$"
    last = {call = call, text = about}
    library[name] = last
  end
end

--- The row of a function by its public name: "_G.print", "string.format".
function library.find(name)
  return name and library[(name:gsub("^_G%.", ""))]
end

return library
