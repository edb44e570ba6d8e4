--- namespaces.lua - td.nn, td.linalg, ...: ops where TensorFlow keeps them.
--
-- A place has every op of td under its own name, and some under shorter ones:
-- td.linalg.inv is td.matrix_inverse. td.nn has what is built of ops, too:
-- cells, recurrent networks, embeddings (tide/nn/).
-- SPDX-License-Identifier: Apache-2.0

local args = require "tide.base.args"
local autoload = require "tide.base.autoload"
local namespace = require "tide.ops"

local elsewhere = autoload "tide.base.elsewhere"
local errors = require "tide.base.errors"

-- By place: the short names.
local short = {
  nn = {}, math = {}, image = {},
  linalg = {
    inv = "matrix_inverse", det = "matrix_determinant",
    slogdet = "log_matrix_determinant", solve = "matrix_solve",
    lstsq = "matrix_solve_ls",
    triangular_solve = "matrix_triangular_solve", eigh = "self_adjoint_eig",
    diag = "matrix_diag", diag_part = "matrix_diag_part",
    set_diag = "matrix_set_diag", band_part = "matrix_band_part",
  },
  random = {
    uniform = "random_uniform", normal = "random_normal",
    gamma = "random_gamma", poisson = "random_poisson",
    shuffle = "random_shuffle", categorical = "multinomial",
    index_shuffle = "random_index_shuffle",
    stateless_uniform = "stateless_random_uniform",
    stateless_normal = "stateless_random_normal",
    stateless_categorical = "stateless_multinomial",
  },
  signal = {}, spectral = {},
  strings = {
    join = "string_join", split = "string_split", format = "string_format",
    length = "string_length",
    lower = "string_lower", upper = "string_upper", strip = "string_strip",
    to_number = "string_to_number", to_hash_bucket = "string_to_hash_bucket",
    to_hash_bucket_fast = "string_to_hash_bucket_fast",
  },
}

local namespaces = {}

-- What td has under `name` from the module tide.<place>.<...>, or nil.
local function built(place, name)
  local td = package.loaded.tide
  local module = getmetatable(td).__module_of[name]
  return module and module:find("^tide%." .. place .. "%.") and td[name] or nil
end

-- All names of a place, for completion and for offering the nearest.
local function names(place)
  local list = namespace.names()
  for name in pairs(short[place]) do list[#list + 1] = name end
  for name in pairs(getmetatable(package.loaded.tide).__module_of) do
    if built(place, name) then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

-- "td.linalg: the functions of td, and shorter names: band_part, det, ..."
local function describe(place)
  local list = args.sorted_keys(short[place])
  return ("td.%s: the functions of td%s"):format(place, #list > 0
    and ", and shorter names: " .. table.concat(list, ", ") or "")
end

--- What td calls what a place calls `name`; nil where there is none.
function namespaces.name_in(place, name)
  local long = short[place] and (short[place][name] or name)
  if long and (namespace.ops[long] or built(place, long)) then return long end
end

for place, known in pairs(short) do
  namespaces[place] = setmetatable({}, {
    __index = function(t, name)
      local f = namespace.ops[known[name] or name] or built(place, name)
      if not f then
        errors.invalid("td.%s has no \"%s\"%s", place, tostring(name),
                       elsewhere.hint(name, names(place)))
      end
      rawset(t, name, f)
      return f
    end,
    __complete = function() return names(place) end,
    __tostring = function() return describe(place) end,
  })
end

return namespaces
