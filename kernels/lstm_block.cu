/* lstm_block.cu - LSTM cells in one op, and their gradients, on a card: what is
 * computed is said in lstm_block.c and lstm_block_grad.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/recurrent.cuh"
#include "kernels/lstm_block.h"

namespace {

/* Columns of a gate: how many cells are before it, in cells. */
struct columns {
  int64_t n, at[TD_LSTM_GATES];
};

columns columns_of(int64_t n, const int *order) {
  columns g = {n, {}};
  for (int i = 0; i < TD_LSTM_GATES; i++) g.at[i] = order[i] * n;
  return g;
}

/* ---- forward ------------------------------------------------------------- */

enum { OUT_I, OUT_CS, OUT_F, OUT_O, OUT_CI, OUT_CO, OUT_H, OUTS };
enum { X, CS_PREV, H_PREV, W, WCI, WCF, WCO, B };

struct cell {
  columns g;
  const float *ahead, *now, *b; /* gates are sums of these */
  const float *before;          /* cs of the step before */
  const float *wci, *wcf, *wco; /* peepholes, or none */
  float forget_bias, clip;
  float *to[OUTS];

  __device__ inline float gate(int64_t row, int64_t k, int which) const {
    int64_t at = g.at[which] + k, in = 4 * row * g.n + at;
    return ahead[in] + now[in] + b[at];
  }
};

__global__ void step(int64_t count, cell l) {
  TD_EACH(i, count) {
    int64_t row = i / l.g.n, k = i - row * l.g.n;
    float before = l.before[i], in = l.gate(row, k, TD_LSTM_I);
    float forget = l.gate(row, k, TD_LSTM_F) + l.forget_bias;
    if (l.wci) in += l.wci[k] * before;
    if (l.wci) forget += l.wcf[k] * before;
    in = recurrent_sigmoid(in);
    forget = recurrent_sigmoid(forget);
    float ci = tanhf(l.gate(row, k, TD_LSTM_CI));
    float cs = in * ci + forget * before, out = l.gate(row, k, TD_LSTM_O);
    if (l.clip > 0) cs = cs > l.clip ? l.clip : cs < -l.clip ? -l.clip : cs;
    if (l.wci) out += l.wco[k] * cs;
    out = recurrent_sigmoid(out);
    float co = tanhf(cs);
    l.to[OUT_I][i] = in;
    l.to[OUT_CS][i] = cs;
    l.to[OUT_F][i] = forget;
    l.to[OUT_O][i] = out;
    l.to[OUT_CI][i] = ci;
    l.to[OUT_CO][i] = co;
    l.to[OUT_H][i] = out * co;
  }
}

/* The operands from x on begin at r->in[at]. */
td_status *run_steps(recurrent *r, int at, int64_t steps, const int *order) {
  const td_node *node = td_ctx_node(r->c);
  const float *const *in = r->in + at;
  int64_t n = r->sizes.cells, batch = r->sizes.batch, from = r->sizes.inputs;
  int64_t count = batch * n;
  float *ahead, *now;
  bool peephole = td_node_bool(node, "use_peephole");
  if (steps == 0 || count == 0) return nullptr;
  TD_TRY(recurrent_temp(r, steps * batch, 4 * n, &ahead));
  TD_TRY(recurrent_temp(r, batch, 4 * n, &now));
  TD_TRY(recurrent_product(r, steps * batch, 4 * n, from, in[X], in[W], false,
                           ahead));
  cell l = {columns_of(n, order),
            ahead,
            now,
            in[B],
            in[CS_PREV],
            peephole ? in[WCI] : nullptr,
            in[WCF],
            in[WCO],
            td_node_float(node, "forget_bias"),
            td_node_float(node, "cell_clip"),
            {}};
  const float *h = in[H_PREV];
  for (int k = 0; k < OUTS; k++) l.to[k] = r->out[k];
  for (int64_t t = 0; t < steps && !td_stopped(r->c); t++) {
    TD_TRY(recurrent_product(r, batch, 4 * n, n, h, in[W] + 4 * n * from, false,
                             now));
    TD_TRY(TD_LAUNCH(r->c, step, td_cuda_grid(r->c, count), TD_CUDA_BLOCK, 0,
                     count, l));
    h = l.to[OUT_H];
    l.before = l.to[OUT_CS];
    l.ahead += batch * 4 * n;
    for (int k = 0; k < OUTS; k++) l.to[k] += count;
  }
  return nullptr;
}

/* Nothing happens after the last step. */
td_status *clear_rest(recurrent *r, int64_t steps) {
  int64_t count = r->sizes.batch * r->sizes.cells;
  for (int k = 0; k < OUTS; k++)
    TD_TRY(recurrent_clear(r, r->out[k] + steps * count,
                           (r->sizes.times - steps) * count));
  return nullptr;
}

td_status *run_cell(td_kernel_ctx *c) {
  recurrent r = {};
  td_status *s = recurrent_begin(c, td_lstm_cell_args, td_lstm_cell_outs, &r);
  if (td_ok(s)) s = run_steps(&r, 0, 1, td_lstm_icfo);
  return recurrent_end(&r, s);
}

td_status *run_block_with(td_kernel_ctx *c, const int *order) {
  recurrent r = {};
  int64_t steps = 0;
  td_status *s = recurrent_begin(c, td_lstm_block_args, td_lstm_block_outs, &r);
  if (td_ok(s)) s = td_lstm_steps(c, &r.sizes, &steps);
  if (td_ok(s)) s = clear_rest(&r, steps);
  if (td_ok(s)) s = run_steps(&r, 1, steps, order);
  return recurrent_end(&r, s);
}

/* ---- a step back --------------------------------------------------------- */

/* Operands of a gradient from x on: these eight, then. */
enum { I = B + 1, CS, F, O, CI, CO };

struct back {
  columns g;
  const float *i, *cs, *f, *o, *ci, *co, *before, *cs_grad, *h_grad;
  const float *wci, *wcf, *wco; /* peepholes, or none */
  const float *dh;              /* of the step after, or none */
  float *dcs, *gates;
  bool first; /* dcs has nothing yet */
};

__global__ void step_back(int64_t count, back b) {
  TD_EACH(x, count) {
    int64_t row = x / b.g.n, k = x - row * b.g.n;
    float *to = b.gates + 4 * row * b.g.n + k;
    float i = b.i[x], f = b.f[x], o = b.o[x], ci = b.ci[x], co = b.co[x];
    float dh = b.h_grad[x] + (b.dh ? b.dh[x] : 0);
    float d_o = o * (1 - o) * dh * co;
    float dcs = (1 - co * co) * dh * o + b.cs_grad[x];
    if (!b.first) dcs += b.dcs[x];
    if (b.wci) dcs += d_o * b.wco[k];
    float df = f * (1 - f) * dcs * b.before[x], di = i * (1 - i) * dcs * ci;
    to[b.g.at[TD_LSTM_I]] = di;
    to[b.g.at[TD_LSTM_CI]] = (1 - ci * ci) * dcs * i;
    to[b.g.at[TD_LSTM_F]] = df;
    to[b.g.at[TD_LSTM_O]] = d_o;
    b.dcs[x] = dcs * f + (b.wci ? di * b.wci[k] + df * b.wcf[k] : 0);
  }
}

/* `given`: where cs_grad and h_grad are. The record of step t. */
back back_of(const recurrent *r, int at, int given, const int *order, int64_t t,
             float *dcs, float *gates) {
  const float *const *in = r->in + at;
  int64_t n = r->sizes.cells, from = t * r->sizes.batch * n;
  bool peephole = td_node_bool(td_ctx_node(r->c), "use_peephole");
  return {columns_of(n, order),
          in[I] + from,
          in[CS] + from,
          in[F] + from,
          in[O] + from,
          in[CI] + from,
          in[CO] + from,
          t == 0 ? in[CS_PREV] : in[CS] + from - r->sizes.batch * n,
          r->in[given] + from,
          r->in[given + 1] + from,
          peephole ? in[WCI] : nullptr,
          in[WCF],
          in[WCO],
          nullptr,
          dcs,
          gates + 4 * from,
          true};
}

/* ---- sums over the steps ------------------------------------------------- */

/* Column sums of {rows, stride}, each element times one of {rows, width}. */
struct total {
  typedef double sum;
  static constexpr int sums = 1;
  const float *from, *by;
  td_divider width;
  int64_t stride;
  float *to;

  __device__ inline void add(int64_t at, int64_t k, sum *s) const {
    float v = from[width.quotient(at) * stride + k];
    s[0] += (double)(by ? v * by[at] : v);
  }
  __device__ inline void end(int64_t k, const sum *s) const {
    to[k] = (float)s[0];
  }
};

td_status *sum(recurrent *r, int64_t rows, const float *from, const float *by,
               int64_t width, float *to) {
  total f = {from, by, td_divider_by(width), 4 * r->sizes.cells, to};
  return channels_run(r->c, channels_of(rows, width, 1), f);
}

/* to {m, n} = rows {k, m} transposed * from {k, n}. */
td_status *outer(recurrent *r, int64_t m, int64_t n, int64_t k,
                           const float *rows, const float *from, float *to) {
  if (m == 0 || n == 0) return nullptr;
  return tile_run(r->c, tile_of(1, m, n, k), recurrent_lines{rows, 1, m},
                  recurrent_lines{from, 1, n}, recurrent_cells{to, n});
}

/* *to: `first`, then all of `rest` but its last step. */
td_status *earlier(recurrent *r, int64_t steps, const float *first,
                   const float *rest, float **to) {
  int64_t n = r->sizes.cells, batch = r->sizes.batch, count = batch * n;
  TD_TRY(recurrent_temp(r, steps * batch, n, to));
  if (steps == 0 || count == 0) return nullptr;
  TD_CUDA(cudaMemcpyAsync(*to, first, (size_t)count * sizeof(float),
                          cudaMemcpyDeviceToDevice, td_cuda_stream(r->c)));
  if (steps > 1)
    TD_CUDA(cudaMemcpyAsync(*to + count, rest,
                            (size_t)((steps - 1) * count) * sizeof(float),
                            cudaMemcpyDeviceToDevice, td_cuda_stream(r->c)));
  return nullptr;
}

/* wci_grad, wcf_grad and wco_grad are outputs `out` and on. */
td_status *peepholes(recurrent *r, int at, int64_t steps, const int *order,
                     const float *gates, int out) {
  static const int which[] = {TD_LSTM_I, TD_LSTM_F, TD_LSTM_O};
  const float *const *in = r->in + at;
  int64_t n = r->sizes.cells, rows = steps * r->sizes.batch;
  bool peephole = td_node_bool(td_ctx_node(r->c), "use_peephole");
  float *before = nullptr;
  if (peephole) TD_TRY(earlier(r, steps, in[CS_PREV], in[CS], &before));
  for (int k = 0; k < 3; k++) {
    float *to = r->out[out + k];
    if (!peephole)
      TD_TRY(recurrent_clear(r, to, n));
    else
      TD_TRY(sum(r, rows, gates + order[which[k]] * n, k < 2 ? before : in[CS],
                 n, to));
  }
  return nullptr;
}

/* ---- gradients ----------------------------------------------------------- */

td_status *cell_back(recurrent *r) {
  int64_t count = r->sizes.batch * r->sizes.cells;
  back b = back_of(r, 0, 14, td_lstm_icfo, 0, r->out[0], r->out[1]);
  if (count > 0)
    TD_TRY(TD_LAUNCH(r->c, step_back, td_cuda_grid(r->c, count), TD_CUDA_BLOCK,
                     0, count, b));
  return peepholes(r, 0, 1, td_lstm_icfo, r->out[1], 2);
}

enum { X_GRAD, CS_PREV_GRAD, H_PREV_GRAD, W_GRAD, WCI_GRAD, B_GRAD = 7 };

td_status *go_back(recurrent *r, int64_t steps, const int *order,
                   float *gates) {
  int64_t n = r->sizes.cells, batch = r->sizes.batch, count = batch * n;
  const float *w = r->in[1 + W] + 4 * n * r->sizes.inputs;
  float *dh = r->out[H_PREV_GRAD];
  for (int64_t t = steps - 1; t >= 0 && !td_stopped(r->c); t--) {
    back b = back_of(r, 1, 16, order, t, r->out[CS_PREV_GRAD], gates);
    b.first = t == steps - 1;
    if (!b.first) b.dh = dh;
    TD_TRY(TD_LAUNCH(r->c, step_back, td_cuda_grid(r->c, count), TD_CUDA_BLOCK,
                     0, count, b));
    TD_TRY(recurrent_product(r, batch, n, 4 * n, b.gates, w, true, dh));
  }
  return nullptr;
}

/* Without a step nothing reaches what came before. */
td_status *block_back(recurrent *r, int64_t steps, const int *order) {
  const float *const *in = r->in + 1;
  int64_t n = r->sizes.cells, from = r->sizes.inputs;
  int64_t rows = steps * r->sizes.batch;
  float *gates, *before, *dw = r->out[W_GRAD];
  for (int k = X_GRAD; k <= H_PREV_GRAD; k++)
    TD_TRY(recurrent_clear(r, r->out[k], td_tensor_count(&r->c->out[k])));
  TD_TRY(recurrent_temp(r, rows, 4 * n, &gates));
  TD_TRY(go_back(r, steps, order, gates));
  TD_TRY(recurrent_product(r, rows, from, 4 * n, gates, in[W], true,
                           r->out[X_GRAD]));
  TD_TRY(peepholes(r, 1, steps, order, gates, WCI_GRAD));
  TD_TRY(sum(r, rows, gates, nullptr, 4 * n, r->out[B_GRAD]));
  TD_TRY(outer(r, from, 4 * n, rows, in[X], gates, dw));
  TD_TRY(earlier(r, steps, in[H_PREV], r->in[15], &before));
  return outer(r, n, 4 * n, rows, before, gates, dw + from * 4 * n);
}

td_status *run_cell_back(td_kernel_ctx *c) {
  recurrent r = {};
  td_status *s =
      recurrent_begin(c, td_lstm_cell_back_args, td_lstm_cell_back_outs, &r);
  if (td_ok(s)) s = cell_back(&r);
  return recurrent_end(&r, s);
}

td_status *run_back_with(td_kernel_ctx *c, const int *order) {
  recurrent r = {};
  int64_t steps = 0;
  td_status *s =
      recurrent_begin(c, td_lstm_block_back_args, td_lstm_block_back_outs, &r);
  if (td_ok(s)) s = td_lstm_steps(c, &r.sizes, &steps);
  if (td_ok(s)) s = block_back(&r, steps, order);
  return recurrent_end(&r, s);
}

/* ---- rows ---------------------------------------------------------------- */

td_status *run_block(td_kernel_ctx *c) {
  return run_block_with(c, td_lstm_icfo);
}
td_status *run_block_v2(td_kernel_ctx *c) {
  return run_block_with(c, td_lstm_ifco);
}
td_status *run_back(td_kernel_ctx *c) {
  return run_back_with(c, td_lstm_icfo);
}
td_status *run_back_v2(td_kernel_ctx *c) {
  return run_back_with(c, td_lstm_ifco);
}

#define ROW(op_, run_)                                                         \
  {.op = op_, .device = "CUDA", .types = "T=half|float", .run = run_}

const td_kernel_def kernels[] = {
    ROW("LSTMBlockCell", run_cell),
    ROW("BlockLSTM", run_block),
    ROW("BlockLSTMV2", run_block_v2),
    ROW("LSTMBlockCellGrad", run_cell_back),
    ROW("BlockLSTMGrad", run_back),
    ROW("BlockLSTMGradV2", run_back_v2),
    {},
};

} // namespace

TD_CUDA_MODULE(lstm_block, kernels)
