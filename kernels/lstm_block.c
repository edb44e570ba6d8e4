/* lstm_block.c - LSTM cells in one op: a step of one, or a whole sequence.
 *
 *   i = sigmoid(gates[i] + wci cs_prev)     ci = tanh(gates[ci])
 *   f = sigmoid(gates[f] + wcf cs_prev + forget_bias)
 *   cs = clip(i ci + f cs_prev)             co = tanh(cs)
 *   o = sigmoid(gates[o] + wco cs)          h = o co
 *
 * with gates = [x, h_prev] w + b, the peepholes wci, wcf and wco only where
 * they are used. What x adds to the gates does not wait for h: it is one
 * product over all steps, and a step multiplies by the rows of w for h only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/lstm_block.h"

#include <string.h>

#include "kernels/cpu.h"
#include "kernels/unary.h"
#include "kernels/operand.h"

const int td_lstm_icfo[] = {0, 1, 2, 3}, td_lstm_ifco[] = {0, 2, 1, 3};

enum { OUT_I, OUT_CS, OUT_F, OUT_O, OUT_CI, OUT_CO, OUT_H, OUTS };

typedef struct lstm {
  td_recurrent r;
  const int *order; /* td_lstm_icfo, td_lstm_ifco */
  int64_t steps, t; /* how many, and which one */
  bool peephole;
  float forget_bias, clip;
  const float *x, *cs_prev, *h_prev, *w, *wci, *wcf, *wco, *b;
  td_tensor ahead, gates; /* {steps batch, 4 cells}, {batch, 4 cells} */
  td_isa isa;
} lstm;

td_status *td_lstm_steps(const td_kernel_ctx *c, const td_recurrent_sizes *z,
                         int64_t *steps) {
  TD_TRY(td_operand_scalar(td_in(c, 0), "seq_len_max", steps));
  if (*steps < 0 || *steps > z->times)
    return td_error(TD_INVALID_ARGUMENT,
                    "seq_len_max is %lld, which is not in [0, %lld]",
                    (long long)*steps, (long long)z->times);
  if (z->batch == 0 || z->cells == 0) *steps = 0;
  return NULL;
}

/* ---- a step -------------------------------------------------------------- */

/* Of row `at`: the sum of everything that a gate takes. */
static void sum_gate(const lstm *l, int64_t row, int gate, const float *peep,
                     const float *cs, float more, float *y) {
  int64_t n = l->r.sizes.cells, from = l->order[gate] * n;
  int64_t at = l->t * l->r.sizes.batch + row;
  const float *ahead = (const float *)l->ahead.data + 4 * at * n + from;
  const float *now = (const float *)l->gates.data + 4 * row * n + from;
  const float *b = l->b + from;
  for (int64_t k = 0; k < n; k++) y[k] = ahead[k] + now[k] + b[k] + more;
  for (int64_t k = 0; peep && k < n; k++) y[k] += peep[k] * cs[k];
}

static void do_row(const lstm *l, int64_t row, const float *before) {
  int64_t n = l->r.sizes.cells, at = (l->t * l->r.sizes.batch + row) * n;
  float *y[OUTS], clip = l->clip;
  for (int k = 0; k < OUTS; k++) y[k] = td_recurrent_out(&l->r, k) + at;
  const float *i = y[OUT_I], *ci = y[OUT_CI], *f = y[OUT_F];
  sum_gate(l, row, TD_LSTM_I, l->peephole ? l->wci : NULL, before, 0, y[OUT_I]);
  sum_gate(l, row, TD_LSTM_CI, NULL, NULL, 0, y[OUT_CI]);
  sum_gate(l, row, TD_LSTM_F, l->peephole ? l->wcf : NULL, before,
           l->forget_bias, y[OUT_F]);
  td_unary_apply(TD_UNARY_Sigmoid, TD_FLOAT32, l->isa, n, i, y[OUT_I]);
  td_unary_apply(TD_UNARY_Tanh, TD_FLOAT32, l->isa, n, ci, y[OUT_CI]);
  td_unary_apply(TD_UNARY_Sigmoid, TD_FLOAT32, l->isa, n, f, y[OUT_F]);
  float *cs = y[OUT_CS], *h = y[OUT_H];
  for (int64_t k = 0; k < n; k++) cs[k] = i[k] * ci[k] + f[k] * before[k];
  for (int64_t k = 0; clip > 0 && k < n; k++)
    cs[k] = cs[k] > clip ? clip : cs[k] < -clip ? -clip : cs[k];
  sum_gate(l, row, TD_LSTM_O, l->peephole ? l->wco : NULL, cs, 0, y[OUT_O]);
  td_unary_apply(TD_UNARY_Sigmoid, TD_FLOAT32, l->isa, n, y[OUT_O], y[OUT_O]);
  td_unary_apply(TD_UNARY_Tanh, TD_FLOAT32, l->isa, n, cs, y[OUT_CO]);
  for (int64_t k = 0; k < n; k++) h[k] = y[OUT_O][k] * y[OUT_CO][k];
}

/* Output k of the step before, or what came before the first. */
static const float *before(const lstm *l, int k, const float *first) {
  int64_t step = l->r.sizes.batch * l->r.sizes.cells;
  return l->t == 0 ? first : td_recurrent_out(&l->r, k) + (l->t - 1) * step;
}

static void do_rows(void *arg, int64_t begin, int64_t end) {
  const lstm *l = arg;
  const float *cs = before(l, OUT_CS, l->cs_prev);
  for (int64_t row = begin; row < end; row++)
    do_row(l, row, cs + row * l->r.sizes.cells);
}

/* ---- steps --------------------------------------------------------------- */

static td_status *run_steps(lstm *l) {
  td_recurrent *r = &l->r;
  int64_t n = r->sizes.cells, batch = r->sizes.batch, from = r->sizes.inputs;
  TD_TRY(td_recurrent_temp(r, l->steps * batch, 4 * n, &l->ahead));
  TD_TRY(td_recurrent_temp(r, batch, 4 * n, &l->gates));
  TD_TRY(td_recurrent_product(r, l->steps * batch, 4 * n, from, l->x, l->w,
                              false, l->ahead.data));
  for (l->t = 0; l->t < l->steps && !td_stopped(r->c); l->t++) {
    TD_TRY(td_recurrent_product(r, batch, 4 * n, n, before(l, OUT_H, l->h_prev),
                                l->w + 4 * n * from, false, l->gates.data));
    td_for(r->c, batch, td_grain_of(16 * n), do_rows, l);
  }
  return NULL;
}

/* Nothing happens after the last step. */
static void clear_rest(lstm *l, int64_t times) {
  int64_t step = l->r.sizes.batch * l->r.sizes.cells;
  size_t rest = (size_t)((times - l->steps) * step) * sizeof(float);
  for (int k = 0; k < OUTS && rest > 0; k++)
    memset(td_recurrent_out(&l->r, k) + l->steps * step, 0, rest);
}

/* The operands from x on begin at input `at`. */
static void read_operands(lstm *l, int at, const int *order) {
  const td_node *node = td_ctx_node(l->r.c);
  const float **to[] = {&l->x,   &l->cs_prev, &l->h_prev, &l->w,
                        &l->wci, &l->wcf,     &l->wco,    &l->b};
  for (size_t i = 0; i < TD_COUNT(to); i++)
    *to[i] = td_recurrent_in(&l->r, at + (int)i);
  l->order = order;
  l->peephole = td_node_bool(node, "use_peephole");
  l->forget_bias = td_node_float(node, "forget_bias");
  l->clip = td_node_float(node, "cell_clip");
  l->isa = td_cpu_isa();
}

static td_status *end(lstm *l, td_status *s) {
  td_tensor_release(&l->ahead);
  td_tensor_release(&l->gates);
  return td_recurrent_end(&l->r, s);
}

/* ---- ops ----------------------------------------------------------------- */

const td_recurrent_arg td_lstm_cell_args[] = {
    {"x", "BI"}, TD_LSTM_WEIGHTS, {NULL, NULL}};
const td_recurrent_arg td_lstm_block_args[] = {
    {"seq_len_max", ""}, {"x", "TBI"}, TD_LSTM_WEIGHTS, {NULL, NULL}};
const char *const td_lstm_cell_outs[] = {"BN", "BN", "BN", "BN",
                                         "BN", "BN", "BN", NULL};
const char *const td_lstm_block_outs[] = {"TBN", "TBN", "TBN", "TBN",
                                          "TBN", "TBN", "TBN", NULL};

static td_status *cell_infer(td_infer *c) {
  return td_recurrent_infer(c, td_lstm_cell_args, td_lstm_cell_outs);
}

static td_status *block_infer(td_infer *c) {
  return td_recurrent_infer(c, td_lstm_block_args, td_lstm_block_outs);
}

static td_status *cell_run(td_kernel_ctx *c) {
  lstm l = {.steps = 1};
  td_status *s =
      td_recurrent_begin(c, td_lstm_cell_args, td_lstm_cell_outs, &l.r);
  if (td_ok(s)) {
    read_operands(&l, 0, td_lstm_icfo);
    s = run_steps(&l);
  }
  return end(&l, s);
}

static td_status *block_with(td_kernel_ctx *c, const int *order) {
  lstm l = {.steps = 0};
  td_status *s =
      td_recurrent_begin(c, td_lstm_block_args, td_lstm_block_outs, &l.r);
  if (td_ok(s)) s = td_lstm_steps(c, &l.r.sizes, &l.steps);
  if (td_ok(s)) {
    read_operands(&l, 1, order);
    clear_rest(&l, l.r.sizes.times);
    s = run_steps(&l);
  }
  return end(&l, s);
}

static td_status *block_run(td_kernel_ctx *c) {
  return block_with(c, td_lstm_icfo);
}

static td_status *block_v2_run(td_kernel_ctx *c) {
  return block_with(c, td_lstm_ifco);
}

static void cell_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_recurrent_flops(c, 0, 3);
}

static void block_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_recurrent_flops(c, 1, 4);
}

/* clang-format off */
#define WEIGHTS "cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T"
#define RESULTS " -> i: T, cs: T, f: T, o: T, ci: T, co: T, h: T; "
#define END "use_peephole: bool = false; T: {half, float}"
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "LSTMBlockCell",
     .sig = "x: T, " WEIGHTS RESULTS
            "forget_bias: float = 1; cell_clip: float = 3; " END,
     .shape = cell_infer,
     .cost = cell_cost,
     .doc = "One step of an LSTM cell; gates i, ci, f, o in the columns of w; "
            "h is the last of the results.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "BlockLSTM",
     .sig = "seq_len_max: int64, x: T, " WEIGHTS RESULTS
            "forget_bias: float = 1; cell_clip: float = 3; " END,
     .shape = block_infer,
     .cost = block_cost,
     .doc = "An LSTM cell over x, {times, batch, inputs}, seq_len_max steps of "
            "it; zeros after them. Gates i, ci, f, o.",
     .lua = "",
     .host = "seq_len_max",
     .section = "Neural-network building blocks"},
    {.type = "BlockLSTMV2",
     .sig = "seq_len_max: int64, x: T, " WEIGHTS RESULTS
            "cell_clip: float = 0; " END,
     .shape = block_infer,
     .cost = block_cost,
     .doc = "BlockLSTM without a forget bias, gates i, f, ci, o.",
     .lua = "",
     .host = "seq_len_max",
     .section = "Neural-network building blocks"},
    {0},
};

#define CPU(type, f)                                                           \
  { .op = type, .device = "CPU", .types = "T=half|float", .run = f }

static const td_kernel_def kernels[] = {
    CPU("LSTMBlockCell", cell_run),
    CPU("BlockLSTM", block_run),
    CPU("BlockLSTMV2", block_v2_run),
    {0},
};

TD_MODULE(lstm_block, ops, kernels)
