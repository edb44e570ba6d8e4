-- keys.lua - key pairs from Lua and from `tide keygen`: public keys are text,
-- secret ones stay in their files.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local core = require "tide.core"
local folder = require "shared.folder"
local helper = require "helper"
local keygen = require "tide.cli.keygen"
local keys = require "tide.remote.keys"

local contains, raises = helper.contains, helper.raises
local tests = {}

local OTHER = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"

-- With the variable set to `value`, what f(...) gives.
local function with(name, value, f, ...)
  local before = os.getenv(name)
  core.setenv(name, value)
  local result = table.pack(pcall(f, ...))
  core.setenv(name, before)
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

-- ---- pairs and lists -------------------------------------------------------

function tests.pairs_of_keys()
  local dir <close> = folder.temp()
  local key, where = keys.generate(dir "pair", {name = "anna@lab"})
  lu.assertEquals({#key, where}, {40, dir "pair"})
  lu.assertEquals(keys.public(dir "pair"), key)
  lu.assertEquals(folder.read(dir "pair/tide.pub"), key .. "  anna@lab\n")
  raises("tide.key' is there already", keys.generate, dir "pair")
  local second = keys.generate(dir "pair", {force = true})
  lu.assertNotEquals(second, key)
  lu.assertEquals(keys.public(dir "pair"), second)
  contains(folder.read(dir "pair/tide.pub"), second .. "  ",
           "@" .. core.process().host)
  raises("there is no secret key", keys.public, dir "none")
  raises("the folder of keys must be a string, not 5", keys.public, 5)
  raises("generate has no option \"nam\"; did you mean \"name\"?",
         keys.generate, dir "more", {nam = "x"})
  raises("one line of text", keys.generate, dir "more", {name = "a\nb"})
  os.execute("chmod 640 '" .. dir "pair/tide.key" .. "'")
  local e = raises("chmod 600", keys.public, dir "pair")
  lu.assertEquals(e.code, "permission_denied")
end

function tests.the_folder_of_the_user()
  local dir <close> = folder.temp()
  local key, where = with("XDG_CONFIG_HOME", dir.path, keys.generate)
  lu.assertEquals(where, dir "tide")
  lu.assertEquals({with("XDG_CONFIG_HOME", dir.path, keys.public)},
                  {key, dir "tide"})
end

function tests.lists_of_keys()
  local dir <close> = folder.temp()
  local own = keys.generate(dir "pair", {name = "anna@lab"})
  local path = dir "allowed"
  folder.write(path, "# who may come in\n" .. OTHER .. "\n"
    .. folder.read(dir "pair/tide.pub"))
  lu.assertEquals(keys.allowed(path, own), "anna@lab")
  lu.assertEquals(keys.allowed(path, OTHER), "")
  local list = keys.list(path)
  lu.assertEquals(#list, 2)
  for _, row in ipairs(list) do
    lu.assertEquals(row.name, keys.allowed(path, row.key))
  end
  folder.write(path, "# nobody\n")
  lu.assertEquals(keys.list(path), {})
  lu.assertNil(keys.allowed(path, own))
  folder.write(path, "\nanna\n")
  raises("allowed', line 2: a key has 40 characters, this word has 4",
         keys.list, path)
  raises("a public key is 40 characters", keys.allowed, path, "x")
  raises("the list of keys must be a string", keys.list)
end

function tests.keys_on_this_machine()
  local dir <close> = folder.temp()
  local function here(f, ...)
    return with("XDG_RUNTIME_DIR", dir.path, f, ...)
  end
  local own = keys.generate(dir "pair")
  here(keys.leave, "tcp://*:8888", own)
  lu.assertEquals(here(keys.find, "tcp://localhost:8888"), own)
  here(keys.remove, "tcp://*:8888", OTHER)
  lu.assertEquals(here(keys.find, "localhost:8888"), own)
  here(keys.remove, "tcp://*:8888", own)
  local e = raises("no worker of this user has left its public key", here,
                   keys.find, "tcp://localhost:8888")
  lu.assertEquals(e.code, "not_found")
  raises("a public key is 40 characters", here, keys.leave, "tcp://*:1", own
    .. " ")
end

-- ---- the command -----------------------------------------------------------

-- Exit code, what it printed, what it told on stderr.
local function run(...)
  local printed, write, show = {}, io.write, print
  local words = {...}
  local function put(...) printed[#printed + 1] = table.concat{...} end
  rawset(io, "write", put)
  rawset(_G, "print", function(...) put(..., "\n") end)
  local told, code = folder.told(keygen, words)
  rawset(io, "write", write)
  rawset(_G, "print", show)
  return code, table.concat(printed), told
end

function tests.keygen()
  local dir <close> = folder.temp()
  local code, text = run(dir "a", "--name", "me@here")
  local key = keys.public(dir "a")
  lu.assertEquals(code, 0)
  lu.assertEquals(text, ("Secret key: %s/tide.key\nPublic key: %s/tide.pub\n"
    .. "%s\n"):format(dir "a", dir "a", key))
  contains(folder.read(dir "a/tide.pub"), key .. "  me@here\n")
  code, text = run(dir "a", "--show")
  lu.assertEquals({code, text}, {0, key .. "\n"})
  local told
  code, text, told = run(dir "a")
  lu.assertEquals({code, text}, {1, ""})
  contains(told, "tide: '", "tide.key' is there already", "(--force)")
  lu.assertEquals((run(dir "a", "--force")), 0)
  lu.assertNotEquals(keys.public(dir "a"), key)
end

function tests.keygen_used_wrongly()
  local code, text, told = run("a", "b")
  lu.assertEquals({code, text}, {2, ""})
  contains(told, "usage: tide keygen [DIR]")
  code, text, told = run("--forse")
  lu.assertEquals({code, text}, {2, ""})
  contains(told, "--force")
  code, text = run("--help")
  lu.assertEquals(code, 0)
  contains(text, "usage: tide keygen [DIR]")
  code, text, told = run("/nowhere/of/tests", "--show")
  lu.assertEquals({code, text}, {1, ""})
  contains(told, "there is no secret key '/nowhere/of/tests/tide.key'")
end

return tests
