--- assist/options.lua - what a call takes by name: `padding = "SAME"`.
--
-- The options of a function are those that it reads (tide.docs has them from
-- its source) and the attributes of its op that are not deduced.
-- SPDX-License-Identifier: Apache-2.0

local infer = require "tide.assist.infer"
local known = require "tide.assist.known"
local functions = require "tide.help.functions"

local options = {}

-- What Tide's functions set by themselves, or take as an input.
local hidden = {T = true, Tidx = true, explicit_paddings = true, seed2 = true,
                use_cudnn_on_gpu = true}

-- All of a function that hands on none of its op's attributes, or whose source
-- does not name them plainly.
local all = {
  constant = "dtype shape name", placeholder = "name", range = "dtype name",
  get_variable = "dtype initializer regularizer trainable collections",
  parameterized_truncated_normal = "means stdevs minvals maxvals dtype seed "
    .. "name",
  stateless_random_uniform = "minval maxval dtype name",
  embedding_lookup_sparse = "combiner strategy max_norm name",
  matrix_diag_part = "k padding_value align name", save_image = "quality",
  parse_example = "names name", parse_single_example = "name",
  parse_sequence_example = "names name", parse_single_sequence_example = "name",
  nce_loss = "num_true sampled_values remove_accidental_hits strategy seed "
    .. "name",
  dct = "type n norm name", idct = "type n norm name",
  hann_window = "periodic dtype", hamming_window = "periodic dtype",
  eig = "compute_v name",
  fftshift = "name", ifftshift = "name", tables_initializer = "name",
  ["g:display"] = "scope nodes layout", ["g:picture"] = "scope nodes layout",
  ["g:summary"] = "nodes", ["g:estimate"] = "fetches shapes",
  ["p:run"] = "timeout as_values",
  ["losses.get_total_loss"] = "add_regularization_losses name",
  ["losses.mean_pairwise_squared_error"] = "weights loss_collection name",
}
all.config = "threads cpu_devices soft_placement passes_off cache memory_limit "
  .. "deterministic matmul cuda_sync"
all.sampled_softmax_loss = all.nce_loss
all["train.fit"] = "loss train data epochs batch metrics validation hooks "
  .. "inputs training session seed shuffle title quiet checkpoint resume "
  .. "save_seconds save_steps saver flags"
local of_files = "shard shuffle_files seed compression skip_errors"
all["data.records"] = of_files
all["data.lines"] = of_files .. " skip_lines"
all["data.fixed"] = of_files .. " header footer hop"
all["data.csv_files"] = of_files .. " columns types missing separator parallel"
all["data.image_files"] = "size channels shard shuffle_files seed parallel"
all["dataset:pipeline"] = "shard shuffle seed"
all["pipeline:map"], all["pipeline:filter"] = "parallel seed", "parallel seed"
for _, name in ipairs{"foldl", "foldr", "scan"} do
  all[name] = "reverse parallel_iterations swap_memory back_prop name"
end
for _, name in ipairs{"rfft", "rfft2d", "rfft3d", "irfft", "irfft2d",
                      "irfft3d"} do
  all[name] = "fft_length name"
end
for _, name in ipairs{"conv2d", "conv3d", "depthwise_conv2d"} do
  all[name] = "strides padding dilations rate data_format name"
end
for _, name in ipairs{"conv2d_transpose", "conv3d_transpose"} do
  all[name] = all.conv2d .. " output_shape"
end

-- Those beside what its source or its op names: by function, and by the module
-- of many.
local more = {
  random_uniform = "minval maxval dtype seed name",
  random_normal = "mean stddev dtype seed name",
  truncated_normal = "mean stddev dtype seed name",
  random_gamma = "beta dtype seed name", random_poisson = "dtype seed name",
  stateless_random_normal = "mean stddev dtype name",
  stateless_truncated_normal = "mean stddev dtype name",
  zeros = "dtype name", ones = "dtype name", fill = "dtype name",
  eye = "dtype name", linspace = "dtype name", flatten = "name",
  conv1d = "strides padding dilations data_format name",
  atrous_conv2d = "padding name", norm = "ord keep_dims name",
  separable_conv2d = "strides padding dilations data_format name",
  variable_scope = "reuse initializer regularizer dtype trainable",
  ["op:run"] = "timeout trace as_values check_numerics",
  ["x:eval"] = "timeout trace as_values check_numerics",
  ["initializers.random_uniform"] = "minval maxval seed",
  ["initializers.random_normal"] = "mean stddev seed",
  ["initializers.truncated_normal"] = "mean stddev seed",
  ["losses.huber_loss"] = "delta", ["losses.log_loss"] = "epsilon",
  ["losses.cosine_distance"] = "axis",
  ["metrics.mean_cosine_distance"] = "axis",
  ["metrics.mean_relative_error"] = "normalizer",
}
local of_module = {["nn.losses"] = "weights reduction loss_collection name",
                   ["nn.metrics"] = "weights name",
                   ["variables.initializers"] = "seed",
                   ["variables.variables"] = "name", ["ops.nn"] = "name",
                   ["ops.norm"] = "name", ["ops.linalg"] = "name",
                   ["ops.math"] = "name", ["train.clip"] = "name"}

-- Parameters that are tables of something else.
local no_options = {feeds = true, fetches = true, list = true, xs = true,
                    shape = true, vars = true, data = true, x = true}

-- The names of the options of a function that hands on those of its op.
local function names_of(name, row, op)
  local list = {table.unpack(row and row.options or {})}
  for _, a in ipairs(op and op.attrs or {}) do
    if not a.deduced and not (row and hidden[a.name]) then
      list[#list + 1] = a.name
    end
  end
  list[#list + 1] = more[name]
  if row and (#row.options == 0 or row.module == "nn.losses") then
    list[#list + 1] = of_module[row.module]
  end
  if op then list[#list + 1] = "name" end
  return table.concat(list, " ")
end

--- The options of the function of that public name: a list of {name =, type =,
-- default =, allowed =}.
function options.of(name)
  local op, list, seen = functions.op(name), {}, {}
  local attrs = {name = {name = "name", type = "string"}}
  for _, a in ipairs(op and op.attrs or {}) do attrs[a.name] = a end
  for key in (all[name] or names_of(name, known.row(name), op)):gmatch "%S+" do
    if not seen[key] then list[#list + 1] = attrs[key] or {name = key} end
    seen[key] = true
  end
  return list
end

--- The option `key` of a function, or nil.
function options.find(name, key)
  for _, option in ipairs(options.of(name)) do
    if option.name == key then return option end
  end
end

--- "bool = false", "{SAME, VALID}".
function options.text(option)
  local text = option.type or ""
  if option.allowed and option.type ~= "type" then
    text = text .. " {" .. table.concat(option.allowed, ", ") .. "}"
  end
  if option.default then text = text .. " = " .. option.default end
  return text
end

-- Is the argument that stands at position i (from 0) a table of options?
local function takes_options(name, i)
  local parameter = known.parameters(name)[i + 1]
  if parameter == "o" then return true end
  return i > 0 and not no_options[parameter or ""]
end

--- By how much positions differ from those of parameters: by 1 where a function
-- of td is called as a method.
function options.shift(source, callee, name)
  return name and source.words[callee - 1] == ":" and not name:find ":" and 1
    or 0
end

--- The call whose argument a bracket's frame is: {name =, thing =, argument =
-- its position from 0}; nil when it is no argument.
function options.call(source, brackets, k)
  local frame = brackets[k]
  local argument = 0
  if not frame.callee then
    local outer = brackets[k + 1]
    if frame.open ~= "{" or not outer or outer.open ~= "("
       or outer.first ~= frame.at then
      return nil
    end
    frame, argument = outer, outer.commas
  elseif frame.open == "(" then
    argument = frame.commas
  end
  local thing = frame.callee and infer.ending(source, frame.callee)
  if not thing then return nil end
  local name = thing.name or functions.name(thing.value)
  return {name = name, direct = frame == brackets[k],
          argument = argument + options.shift(source, frame.callee, name)}
end

--- Adds the options that may begin behind word `at`; true when there are any.
function options.add(source, at, list)
  local brackets = source:brackets()
  local frame = brackets[1]
  if not frame or frame.open ~= "{" or frame.first ~= at + 1 then return end
  local call = options.call(source, brackets, 1)
  if not call or not call.name then return end
  if not call.direct and not takes_options(call.name, call.argument) then
    return
  end
  local given = source.after:find "^%s*=[^=]" and "" or " = "
  for _, option in ipairs(options.of(call.name)) do
    list:add(option.name .. given, "property", options.text(option))
  end
  return true
end

return options
