-- misspelt.lua - every public function that takes options refuses one that it
-- does not know: the error names it, the nearest there is, and all there are.
--
-- A function with a parameter `o` that `calls` has no line of fails the test:
-- none is forgotten.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local helper = require "helper"
local known = require "tide.assist.known"
local options = require "tide.assist.options"
local reference = require "tide.help.reference"

local tests = {}

-- ---- the calls --------------------------------------------------------------

-- Calls with `o` where the options go, under the names of td.help; a line that
-- begins with blanks goes on with the one before it. For what m, images and the
-- like are, see `things`.
local calls = [[
abs(m, o)
acc:apply(1.0, 0, o)
acc:set_step(1, o)
acc:take(1, o)
accumulator("float32", {}, o)
add_n({m, m}, o)
adjust_brightness(images, 0.1, o)
all(b, 0, o)
angle(c, o)
any(b, 0, o)
argmax(m, 0, o)
argmin(m, 0, o)
assert(b, {m}, o)
atrous_conv2d(images, td.zeros{3, 3, 3, 4}, 2, "SAME", o)
avg_pool(images, 2, 2, "SAME", o)
avg_pool2d(images, 2, 2, "SAME", o)
avg_pool3d(td.zeros{1, 4, 4, 4, 2}, 2, 2, "SAME", o)
barrier("float32", {}, o)
barrier:close(o)
barrier:take(1, o)
basic_rnn_cell(3, o)
batch_normalization(m, 0.0, 1.0, nil, nil, 0.1, o)
bidirectional_dynamic_rnn(cell, td.lstm_cell(3), td.zeros{2, 3, 4}, o)
bitcast(m, "int32", o)
case({{td.constant(true), function() return m end}}, o)
cast(m, "int32", o)
central_crop(images, 0.5, o)
chart(o)
check_numerics(m, "m", o)
cholesky_solve(m, m, o)
clear_output(o)
clip_by_norm(m, 1.0, o)
clip_by_value(m, 0.0, 1.0, o)
cluster(nil, o)
comm.open("target", {}, o)
compare(m, m, o)
complex(m, m, o)
concat({m, m}, 0, o)
cond(td.constant(true), function() return m end, function() return m end, o)
config(o)
conj(c, o)
constant({1, 2}, o)
conv1d(td.zeros{1, 8, 3}, td.zeros{3, 3, 4}, 1, "SAME", o)
convolution(td.zeros{1, 8, 3}, td.zeros{3, 3, 4}, o)
decode_csv(s, {0}, o)
decode_padded_raw(s, 2, "uint8", o)
eig(m, o)
eigvals(m, o)
erosion2d(images, td.zeros{2, 2, 3}, o)
parse_example(s, {x = td.var_len_feature "int64"}, o)
parse_single_example(td.constant("a"), {x = td.var_len_feature "int64"}, o)
parse_sequence_example(s, {sequence = {x = td.var_len_feature "int64"}}, o)
parse_single_sequence_example("", {context = {}}, o)
parse_tensor(td.constant("a"), "int32", o)
fifo_queue(4, "float32", {}, o)
padding_fifo_queue(4, "float32", {}, o)
pool(images, 2, "MAX", o)
conv2d(images, td.zeros{3, 3, 3, 4}, 1, "SAME", o)
conv2d_transpose(images, td.zeros{3, 3, 4, 3}, {1, 8, 8, 4}, 1, "SAME", o)
conv3d(td.zeros{1, 4, 4, 4, 2}, td.zeros{2, 2, 2, 2, 3}, 1, "SAME", o)
conv3d_transpose(td.zeros{1, 4, 4, 4, 2}, td.zeros{2, 2, 2, 3, 2}, {1, 4, 4,
  4, 3}, 1, "SAME", o)
convert_image_dtype(images, "float64", o)
crelu(m, -1, o)
crop_to_bounding_box(images, 0, 0, 2, 2, o)
cumprod(m, 0, o)
cumsum(m, 0, o)
data.cifar10(o)
data.cifar10_files(o)
data.click_log(o)
data.csv("/none", o)
data.csv_files("/none", o)
data.digits(o)
data.fixed("/none", 1, o)
data.image_files("/none", o)
data.images("/none", o)
data.lines("/none", o)
data.mnist(o)
data.read_records("/none", o)
data.records("/none", o)
data.shapes(o)
data.text(o)
dataset:batches(1, o)
dataset:pipeline(o)
dataset:shuffled(o)
dct(v, o)
decode_raw(s, "int32", o)
depthwise_conv2d(images, td.zeros{3, 3, 3, 1}, 1, "SAME", o)
display(m, o)
divide(m, m, o)
draw(m, o)
dropout(m, 0.5, o)
dropout_wrapper(cell, o)
dynamic_rnn(cell, td.zeros{2, 3, 4}, o)
priority_queue(4, "float32", {}, o)
q:close(o)
q:dequeue(1, o)
q:dequeue_up_to(1, o)
q:is_closed(o)
q:size(o)
random_shuffle_queue(4, "float32", {}, o)
raw_rnn(cell, td.relu, o)
read_file("/none", o)
reader.fixed_length(3, o)
reader.identity(o)
reader.text_lines(o)
reader.tf_records(o)
reader.whole_file(o)
einsum("ij,jk->ik", m, m, o)
embedding_lookup(W, {0}, o)
embedding_lookup_sparse(W, {indices = {{0, 0}}, values = {0},
  dense_shape = {1, 1}}, nil, o)
ensure_shape(m, {2, 2}, o)
expand_dims(m, 0, o)
eye(2, 2, o)
fftshift(v, nil, o)
fill({2}, 1.0, o)
flatten(m, o)
flip_left_right(images, o)
flip_up_down(images, o)
foldl(td.add, v, 0, o)
foldr(td.add, v, 0, o)
frame(v, 1, 1, o)
func(function(x) return x end, {"float32"}, o)
fused_batch_norm(images, {1, 1, 1}, {0, 0, 0}, o)
g:display(o)
g:estimate({}, o)
g:picture(o)
g:summary(o)
gather(m, {0}, 0, o)
gelu(m, o)
get_variable("w", {2}, o)
global_variables_initializer(o)
gradients(loss, W, o)
grayscale_to_rgb(td.zeros{8, 8, 1}, o)
group({m}, o)
gru_cell(3, o)
hamming_window(4, o)
hann_window(4, o)
hash_table({"a"}, {1}, 0, o)
idct(v, o)
ifftshift(v, nil, o)
imag(c, o)
image_grid(images, o)
import_graph("/none", o)
initializers.glorot_normal(o)
initializers.glorot_uniform(o)
initializers.he_normal(o)
initializers.he_uniform(o)
initializers.identity(o)
initializers.lecun_normal(o)
initializers.lecun_uniform(o)
initializers.orthogonal(o)
initializers.random_normal(o)
initializers.random_uniform(o)
initializers.truncated_normal(o)
initializers.uniform_unit_scaling(o)
initializers.variance_scaling(o)
inverse_stft(td.complex(m, m), 2, 1, o)
irfft(c, nil, o)
irfft2d(td.complex(m, m), nil, o)
irfft3d(td.zeros({2, 2, 2}, "complex64"), nil, o)
l2_normalize(m, 0, o)
layers.average_pooling2d(images, 2, 2, o)
layers.batch_normalization(images, o)
layers.conv2d(images, 4, 3, o)
layers.conv2d_transpose(images, 4, 3, o)
layers.dense(m, 3, o)
layers.dropout(m, 0.5, o)
layers.embedding(v, 4, 3, o)
layers.flatten(m, o)
layers.layer_normalization(m, o)
layers.max_pooling2d(images, 2, 2, o)
layers.separable_conv2d(images, 4, 3, o)
layers.sequential({td.layers.flatten()}, o)
linspace(0.0, 1.0, 3, o)
load_csv("/none", o)
load_image("/none", o)
load_npy("/none", o)
load_safetensors("/none", o)
local_variables_initializer(o)
log_poisson_loss(m, m, o)
logdet(m, o)
logical_xor(b, b, o)
logsumexp(m, 0, o)
losses.absolute_difference(m, m, o)
losses.compute_weighted_loss(m, 1.0, o)
losses.cosine_distance(m, m, o)
losses.get_total_loss(o)
losses.hinge_loss(m, m, o)
losses.huber_loss(m, m, o)
losses.log_loss(m, m, o)
losses.mean_pairwise_squared_error(m, m, o)
losses.mean_squared_error(m, m, o)
losses.sigmoid_cross_entropy(m, m, o)
losses.softmax_cross_entropy(m, m, o)
losses.sparse_softmax_cross_entropy(v, m, o)
lua_op(function(x) return x end, "float32", o)
lstm_cell(3, o)
map_fn(td.negative, v, o)
matmul(m, m, o)
matching_files("/none", o)
matrix_diag(m, o)
matrix_diag_part(m, o)
matrix_set_diag(m, {1.0, 2.0}, o)
matrix_solve_ls(m, m, o)
matrix_transpose(m, o)
max(m, 0, o)
max_pool(images, 2, 2, "SAME", o)
max_pool2d(images, 2, 2, "SAME", o)
max_pool3d(td.zeros{1, 4, 4, 4, 2}, 2, 2, "SAME", o)
max_pool_with_argmax(images, 2, 2, "SAME", o)
mean(m, 0, o)
metrics.accuracy(v, v, o)
metrics.auc(b, {0.5, 0.5}, o)
metrics.false_negatives(b, b, o)
metrics.false_positives(b, b, o)
metrics.mean(m, o)
metrics.mean_absolute_error(m, m, o)
metrics.mean_cosine_distance(m, m, o)
metrics.mean_iou(v, v, 3, o)
metrics.mean_per_class_accuracy(v, v, 3, o)
metrics.mean_relative_error(m, m, o)
metrics.mean_squared_error(m, m, o)
metrics.percentage_below(m, 1.0, o)
metrics.precision(b, b, o)
metrics.precision_at_thresholds(b, {0.5, 0.5}, {0.5}, o)
metrics.recall(b, b, o)
metrics.recall_at_thresholds(b, {0.5, 0.5}, {0.5}, o)
metrics.root_mean_squared_error(m, m, o)
metrics.top_k({0, 1}, m, 1, o)
metrics.true_negatives(b, b, o)
metrics.true_positives(b, b, o)
min(m, 0, o)
mod(v, v, o)
moments(m, 0, o)
multi_cell({cell}, o)
mutable_table("int64", "int64", 0, o)
nce_loss(W, {0.0, 0.0}, {{0}}, {{1.0, 2.0}}, 1, 2, o)
no_op(o)
norm(m, 0, o)
one_hot(v, 3, 1.0, 0.0, o)
ones({2}, o)
op:run({}, o)
optimizer:apply_gradients({}, o)
optimizer:compute_gradients(loss, o)
optimizer:minimize(loss, o)
options(o, {width = 1}, "options")
overlap_and_add(m, 1, o)
p:run(loss, {}, o)
pad(m, {{1, 1}, {1, 1}}, o)
pad_to_bounding_box(images, 0, 0, 9, 9, o)
parameterized_truncated_normal({2}, o)
per_image_standardization(images, o)
placeholder("float32", {2}, o)
pipeline:batch(2, o)
pipeline:batches(2, o)
pipeline:bucket("x", {2}, 2, o)
pipeline:filter(td.identity, o)
pipeline:map(td.identity, o)
pipeline:padded_batch(2, o)
pipeline:shuffle(2, o)
placeholder_with_default(m, {2, 2}, o)
print(m, "m", o)
prod(m, 0, o)
progress({1}, o)
random_brightness(images, 0.1, o)
random_contrast(images, 0.1, 0.2, o)
random_crop(images, {1, 2, 2, 3}, o)
random_flip_left_right(images, o)
random_flip_up_down(images, o)
random_gamma({2}, 1.0, o)
random_hue(images, 0.1, o)
random_normal({2}, o)
random_poisson(1.0, {2}, o)
random_saturation(images, 0.1, 0.2, o)
random_uniform({2}, o)
range(0, 3, 1, o)
real(c, o)
record_writer("/none/a", o)
reduce_all(b, 0, o)
reduce_any(b, 0, o)
reduce_join(s, 0, o)
reduce_logsumexp(m, 0, o)
reduce_max(m, 0, o)
reduce_mean(m, 0, o)
reduce_min(m, 0, o)
reduce_prod(m, 0, o)
reduce_sum(m, 0, o)
residual_wrapper(cell, o)
resize_image_with_crop_or_pad(images, 4, 4, o)
resize_images(images, {4, 4}, o)
reverse(m, 0, o)
rfft(m, nil, o)
rfft2d(m, nil, o)
rfft3d(td.zeros{2, 2, 2}, nil, o)
rgb_to_grayscale(images, o)
rot90(images, 1, o)
sampled_softmax_loss(W, {0.0, 0.0}, {{0}}, {{1.0, 2.0}}, 1, 2, o)
save_image("/none", td.value.zeros{2, 2, 3}, o)
save_npz("/none", {}, o)
save_safetensors("/none", {}, o)
saver:restore(sess, "/none/m", o)
saver:save(sess, "/none/m", o)
scan(td.add, v, 0, o)
separable_conv2d(images, td.zeros{3, 3, 3, 1}, td.zeros{1, 1, 3, 4}, 1,
  "SAME", o)
sequence_example(o)
sequence_mask(v, 3, o)
server(o)
sess:attach("ipc:///none", o)
sess:detach("none", o)
sess:loop(loss, o)
sess:panel(o)
sess:run(loss, {}, o)
sess:start(loss, {}, o)
session(o)
sessions("ipc:///none", o)
sigmoid_cross_entropy(m, m, o)
sigmoid_cross_entropy_with_logits(m, m, o)
silu(m, 1.0, o)
softmax_cross_entropy(m, m, o)
softmax_cross_entropy_with_logits(m, m, o)
sparse_softmax_cross_entropy(m, v, o)
sparse_softmax_cross_entropy_with_logits(m, v, o)
split(m, 2, 0, o)
squeeze(images, 0, o)
stack({m, m}, 0, o)
staging_area("float32", {}, o)
stateless_random_normal({2}, {1, 2}, o)
stateless_random_uniform({2}, {1, 2}, o)
stateless_shuffle(v, {1, 2}, o)
stateless_truncated_normal({2}, {1, 2}, o)
static_rnn(cell, {td.zeros{2, 4}}, o)
stft(m, 1, 1, o)
string_format("{}", s, o)
string_split(s, " ", o)
string_to_number({"1"}, "float32", o)
sum(m, 0, o)
swish(m, 1.0, o)
table({{a = 1}}, o)
tables_initializer(o)
tensor_array("float32", 2, o)
test.close(1.0, 1.0, o)
test.gradient(td.square, {1.0}, o)
text:sequences(1, 1, o)
top_k(m, 1, o)
trace(m, o)
train.adadelta(0.1, o)
train.adagrad(0.1, o)
train.adam(0.1, o)
train.batch(m, 2, o)
train.bucket_by_sequence_length(1, m, 2, {2}, o)
train.chart(nil, o)
train.cosine_decay(0.1, 1, 2, o)
train.cosine_decay_restarts(0.1, 1, 2, o)
train.early_stop(o)
train.evaluate(o)
train.exponential_decay(0.1, 1, 2, 0.5, o)
train.fit(o)
train.ftrl(0.1, o)
train.global_norm({m}, o)
train.input_producer(m, o)
train.inverse_time_decay(0.1, 1, 2, 0.5, o)
train.lbfgs(1.0, o)
train.load_variable("/none", "x", o)
train.momentum(0.1, 0.9, o)
train.moving_average(0.9, o)
train.natural_exp_decay(0.1, 1, 2, 0.5, o)
train.piecewise_constant(1, {1}, {0.1, 0.2}, o)
train.polynomial_decay(0.1, 1, 2, o)
train.predict(o)
train.proximal_adagrad(0.1, o)
train.proximal_sgd(0.1, o)
train.queue_runner(q, q:enqueue(1.0), o)
train.range_input_producer(3, o)
train.rmsprop(0.1, o)
train.saver(o)
train.sgd(0.1, o)
train.shuffle_batch(m, 2, o)
train.slice_input_producer(m, o)
train.string_input_producer("a", o)
train.supervisor(o)
transpose(m, {1, 0}, o)
transpose_image(images, o)
truediv(m, m, o)
truncated_normal({2}, o)
tuple({m}, o)
ui.button(o)
ui.checkbox(o)
ui.progress(o)
ui.select(o)
ui.slider(o)
ui.text(o)
unstack(m, 0, o)
variable(1.0, o)
variable_scope("a", o, td.no_op)
variables_initializer({W}, o)
W:assign(m, o)
W:assign_add(m, o)
W:assign_sub(m, o)
W:scatter_add({0}, {{1.0, 2.0}}, o)
W:scatter_div({0}, {{1.0, 2.0}}, o)
W:scatter_max({0}, {{1.0, 2.0}}, o)
W:scatter_min({0}, {{1.0, 2.0}}, o)
W:scatter_mul({0}, {{1.0, 2.0}}, o)
W:scatter_sub({0}, {{1.0, 2.0}}, o)
W:scatter_update({0}, {{1.0, 2.0}}, o)
W[key]:assign({1.0, 2.0}, o)
vocabulary("words.txt", o)
weighted_cross_entropy(m, m, 1.0, o)
weighted_cross_entropy_with_logits(m, m, 1.0, o)
where(b, m, m, o)
while_loop(function(i) return i < 1 end, function(i) return i + 1 end, {0}, o)
x:eval({}, o)
xw_plus_b(m, m, {0.0, 0.0}, o)
zero_fraction(m, o)
zeros({2}, o)
]]

-- What the calls are about, in a graph of their own.
local function things()
  td.reset()
  local W = td.variable(td.zeros{2, 2}, "W")
  local m = td.constant{{1.0, 2.0}, {3.0, 4.0}}
  local sess = td.session()
  return {
    W = W, key = 1, m = m, x = m, v = td.constant{1, 2},
    b = td.constant{true, false}, s = td.constant{"a b", "c"},
    c = td.complex(m, m), images = td.zeros{1, 8, 8, 3}, loss = td.sum(W),
    op = m.op, g = td.get_default_graph(), sess = sess,
    p = sess:partial_run_setup({m}), cell = td.lstm_cell(3),
    q = td.fifo_queue(4, "float32", {}),
    optimizer = td.train.sgd(0.1), dataset = td.data.of{x = {1.0, 2.0}},
    pipeline = td.data.of{x = {1, 2}}:pipeline(),
    text = td.data.text{name = "sentences"}.train,
    saver = td.train.saver(),
    acc = td.accumulator("float32", {}), barrier = td.barrier("float32", {}),
  }
end

-- {name =, call(o)} of each call.
local function list_of_calls()
  local list = {}
  for line in calls:gsub("\n +", " "):gmatch "[^\n]+" do
    local name = line:match "^[%w_.]+:?[%w_]*"
    if line:find "^W%[key%]" then name = "W[key]:assign" end
    local code = name:find ":" and line or "td." .. line
    list[#list + 1] = {name = name, call = function(o)
      local all = things()
      local _ <close> = all.sess
      all.o, all.td = o, td
      return assert(load("return " .. code, "=" .. name, "t", all))()
    end}
  end
  return list
end

-- ---- what they answer -------------------------------------------------------

-- The options that an error lists: of a function those it takes, of an op the
-- name, its signature being told.
local function listed(text)
  local list = {}
  for name in (text:match "; it takes ([%w_, ]+)" or "name"):gmatch "[%w_]+" do
    list[#list + 1] = name
  end
  return list
end

local function check(row)
  local e = tostring(helper.raises("\"nosuch\"", row.call, {nosuch = 1}))
  lu.assertTrue(e:find "has no option \"nosuch\".*; it takes " ~= nil
    or e:find "^no attribute \"nosuch\".*; %u%w+%(.*%) %-> " ~= nil, e)
  for _, name in ipairs(listed(e)) do
    if #name > 2 and name ~= "none" then
      helper.raises(("did you mean \"%s\"?"):format(name), row.call,
                    {["q" .. name] = 1})
    end
  end
end

function tests.options_are_refused()
  for _, row in ipairs(list_of_calls()) do
    local ok, e = pcall(check, row)
    lu.assertTrue(ok, row.name .. ": " .. (ok and "" or tostring(e.msg or e)))
  end
end

-- Those that completion cannot know: they are what its caller says, or none.
local untold = {options = true, ["train.sgd"] = true, ["W[key]:assign"] = true}

function tests.completion_offers_what_is_taken()
  for _, row in ipairs(list_of_calls()) do
    local e = tostring(helper.raises("\"nosuch\"", row.call, {nosuch = 1}))
    if e:find "; it takes " and not untold[row.name] then
      local offered, taken = {}, listed(e)
      for _, o in ipairs(options.of(row.name)) do
        offered[#offered + 1] = o.name
      end
      table.sort(offered)
      table.sort(taken)
      lu.assertEquals(offered, taken, row.name)
    end
  end
end

function tests.all_functions_are_tried()
  local tried, missing = {}, {}
  for _, row in ipairs(list_of_calls()) do tried[row.name] = true end
  for name in pairs(reference.rows()) do
    for _, parameter in ipairs(known.parameters(name)) do
      if parameter == "o" and not tried[name] then
        missing[#missing + 1] = name
      end
    end
  end
  table.sort(missing)
  lu.assertEquals(table.concat(missing, " "), "")
end

-- ---- functions of a user's own ----------------------------------------------

tests.own_options = helper.each{
  {"net has no option \"widht\"; did you mean \"width\"?; it takes classes, "
   .. "width", function()
    td.options({widht = 2}, {classes = 10, width = 1}, "net")
  end},
  {"net: width must be a number, not string", function()
    td.options({width = "2"}, {width = 1}, "net")
  end},
  {"net takes its options as a table, not number", function()
    td.options(3, {width = 1}, "net")
  end},
  {"net takes its options as a table, not graph tensor", function()
    td.options(td.zeros{}, {width = 1}, "net")
  end},
  {"options: the function's name must be a string, not nil", function()
    td.options({}, {width = 1})
  end},
}

function tests.own_defaults()
  local training = td.placeholder("bool", {})
  local given = {training = training}
  local o = td.options(given, {width = 1, training = false}, "net")
  lu.assertEquals(o.width, 1)
  lu.assertTrue(o.training == training)
  lu.assertNil(given.width)
  lu.assertEquals(td.options(nil, {width = 1}, "net"), {width = 1})
end

return tests
