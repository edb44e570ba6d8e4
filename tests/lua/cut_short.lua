-- cut_short.lua - what is made when it is first asked for is whole even when an
-- interrupt cut the first try short.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
require "tide"

local tests = {}

-- Modules loaded afresh until it is closed.
local function afresh(pattern)
  local kept = {}
  for name, module in pairs(package.loaded) do
    if name:find(pattern) then kept[name] = module end
  end
  for name in pairs(kept) do package.loaded[name] = nil end
  return setmetatable({}, {__close = function()
    for name in pairs(package.loaded) do
      if name:find(pattern) then package.loaded[name] = nil end
    end
    for name, module in pairs(kept) do package.loaded[name] = module end
  end})
end

-- Raises at the n-th instruction of f and at each after it, as an interrupt
-- does; true when f ends before.
local function cut(n, f)
  local function raise() error "interrupted" end
  local co = coroutine.create(f)
  debug.sethook(co, function()
    debug.sethook(raise, "crl", 1)
    raise()
  end, "", n)
  return coroutine.resume(co)
end

-- Where functions are defined, of every op.
local function ops()
  local namespace, list = require "tide.ops", {}
  for _, name in ipairs(namespace.names()) do
    local about = debug.getinfo(namespace.ops[name], "Su")
    list[#list + 1] = ("%s %s:%d %d %s"):format(name, about.short_src,
      about.linedefined, about.nparams, about.isvararg)
  end
  return table.concat(list, "\n")
end

local function rows()
  local list = {}
  for name in pairs(require "tide.help.reference".rows()) do
    list[#list + 1] = name
  end
  table.sort(list)
  return table.concat(list, "\n")
end

local function is_op()
  return require "tide.assist.known".is_op "MatMul"
end

local function methods()
  local list = {}
  for name in pairs(require "tide.assist.known".methods "edge") do
    list[#list + 1] = name
  end
  table.sort(list)
  return table.concat(list, "\n")
end

-- What is loaded afresh, and what must come out of it.
local lazy = {
  {"^tide%.ops", ops}, {"^tide%.help%.reference$", rows},
  {"^tide%.assist%.known$", is_op}, {"^tide%.assist%.known$", methods},
}

function tests.lazy()
  for _, row in ipairs(lazy) do
    local pattern, f = row[1], row[2]
    local whole, tries, n = f(), 0, 50
    repeat
      local _ <close> = afresh(pattern)
      local ended = cut(n, f)
      lu.assertTrue(f() == whole, ("%s, cut at %d"):format(pattern, n))
      n, tries = n * 5 // 4, tries + 1
    until ended
    lu.assertTrue(tries > 5, pattern)
  end
end

return tests
