--- base/elsewhere.lua - what things are called in Torch, NumPy and Python,
-- and what they are called here: errors about unknown names offer it.
-- SPDX-License-Identifier: Apache-2.0

local errors = require "tide.base.errors"

local elsewhere = {}

local here = {
  -- making
  Tensor = "td.tensor{...}", array = "td.tensor{...}",
  arange = "td.range(n)", rand = "td.random_uniform{2, 3}",
  randn = "td.random_normal{2, 3}", full = "td.fill({2, 3}, x)",
  empty = "td.zeros{2, 3}", from_numpy = "td.tensor(table)",
  convert_to_tensor = "td.constant(x)", Variable = "td.variable(x)",
  None = "-1 for an unknown size, nil for an unknown rank",
  -- shapes
  view = "x:reshape{...}", resize = "x:reshape{...}",
  unsqueeze = "x:expand_dims(axis)", newaxis = "x[\":, new\"]",
  permute = "x:transpose{...}", t = "x:transpose()", T = "x:transpose()",
  cat = "td.concat(list, axis)", pack = "td.stack(list)",
  unpack = "td.unstack(x)", expand = "x:broadcast_to{...}",
  numel = "x.size", ndim = "x.rank", get_shape = "x.shape",
  -- mathematics
  mm = "x:matmul(y)", bmm = "x:matmul(y)", dot = "(x * y):sum()",
  batch_matmul = "x:matmul(y)", sub = "x - y", mul = "x * y",
  neg = "-x", modulo = "x % y", clamp = "x:clip_by_value(low, high)",
  -- dtypes, devices
  float = "td.float32, x:cast \"float32\"",
  double = "td.float64, x:cast \"float64\"",
  half = "td.float16, x:cast \"float16\"", int = "td.int32, x:cast \"int32\"",
  long = "td.int64, x:cast \"int64\"", type = "x:cast(dtype)",
  astype = "x:cast(dtype)", to = "x:cast(dtype), td.device(name, f)",
  cuda = "td.device(\"/gpu:0\", f)", cpu = "td.device(\"/cpu:0\", f)",
  -- values
  numpy = "x:table()", tolist = "x:table()", data = "x:table()",
  -- steps
  run = "x:eval() or sess:run(x)", feed = "sess:run(y, {[x] = value})",
  backward = "td.gradients(y, xs)", autograd = "td.gradients(y, xs)",
  GradientTape = "td.gradients(y, xs)", no_grad = "td.stop_gradient(x)",
  detach = "td.stop_gradient(x)", optim = "td.train",
  initialize_all_variables = "sess:init()", Session = "td.session()",
  InteractiveSession = "td.session()", Print = "td.print(x, message)",
  -- files, pictures
  save = "td.train.saver():save(sess, path), td.save_npz(path, {name = value})",
  load = "td.train.saver():restore(sess, path), td.load_npz(path)",
  saver = "td.train.saver()", Saver = "td.train.saver()",
  restore = "td.train.saver():restore(sess, path)",
  NewCheckpointReader = "td.train.list_variables(path)",
  load_checkpoint = "td.train.list_variables(path)",
  read_image = "td.load_image(path)", imread = "td.load_image(path)",
  plot = "td.chart{data = {y = list}}", imshow = "td.image_grid(x)",
  show = "td.display(x)", summary = "td.get_default_graph():summary()",
  tqdm = "td.progress(n)", trange = "td.progress(n)",
  -- layers, losses
  Linear = "td.layers.dense(x, units)", linear = "td.layers.dense(x, units)",
  Dense = "td.layers.dense(x, units)", lstm = "td.nn.lstm_cell(units)",
  gru = "td.nn.gru_cell(units)", LSTM = "td.nn.lstm_cell(units)",
  GRU = "td.nn.gru_cell(units)", rnn = "td.nn.dynamic_rnn(cell, x)",
  RNN = "td.nn.dynamic_rnn(cell, x)", LSTMCell = "td.nn.lstm_cell(units)",
  BasicLSTMCell = "td.nn.lstm_cell(units)", GRUCell = "td.nn.gru_cell(units)",
  MultiRNNCell = "td.nn.multi_cell{cell, cell}",
  DropoutWrapper = "td.nn.dropout_wrapper(cell, o)",
  Conv2d = "td.layers.conv2d(x, filters, kernel_size)",
  Conv2D = "td.layers.conv2d(x, filters, kernel_size)",
  MaxPool2d = "td.layers.max_pooling2d(x, pool_size, strides)",
  BatchNorm2d = "td.layers.batch_normalization(x)",
  activation = "the function itself, such as td.relu(x)",
  Sequential = "td.layers.sequential{layer, layer}",
  cross_entropy = "td.nn.sparse_softmax_cross_entropy(logits, labels)",
  CrossEntropyLoss = "td.nn.sparse_softmax_cross_entropy(logits, labels)",
  mse = "td.losses.mean_squared_error(labels, predictions)",
  mse_loss = "td.losses.mean_squared_error(labels, predictions)",
  MSELoss = "td.losses.mean_squared_error(labels, predictions)",
  xavier = "td.initializers.glorot_uniform()",
  kaiming = "td.initializers.he_normal()", L2 = "td.regularizers.l2(scale)",
  optimizers = "td.train", keras = "td.layers", GradientDescentOptimizer =
  "td.train.sgd(rate)", SGD = "td.train.sgd(rate)", minimize =
  "td.train.sgd(rate):minimize(loss)", AdamOptimizer = "td.train.adam(rate)",
  -- records
  Example = "td.example{key = value}",
  SequenceExample = "td.sequence_example{feature_lists = lists}",
  FixedLenFeature = "td.fixed_len_feature(shape, dtype)",
  VarLenFeature = "td.var_len_feature(dtype)",
  RaggedFeature = "td.ragged_feature(dtype)",
  FixedLenSequenceFeature = "td.fixed_len_sequence_feature(shape, dtype)",
}

--- The end of an error about the unknown `name`: what it is here, else the
-- nearest of the names there are, else "".
function elsewhere.hint(name, names)
  local known = here[name]
  if known then return "; write " .. known end
  return errors.did_you_mean(name, names)
end

return elsewhere
