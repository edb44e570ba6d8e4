/* lstm_block_grad.c - gradients of the fused LSTM ops, from the last step back.
 *
 * Each step gives the gradients of its gates, and those of h and cs before it;
 * the gradients of x and of all weights are products and sums over the steps
 * once they are there. A clipped cell passes its gradient on, as in TensorFlow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/blas/gemm.h"
#include "kernels/lstm_block.h"

typedef struct back {
  td_recurrent r;
  const int *order;
  int64_t steps, t;
  bool peephole;
  const float *x, *cs_prev, *h_prev, *w, *wci, *wcf, *wco, *b;
  const float *i, *cs, *f, *o, *ci, *co, *h;
  const float *cs_grad, *h_grad;
  float *dgates;           /* {steps batch, 4 cells} */
  float *dcs;              /* {batch, cells}: of cs before the step done last */
  const float *dh;         /* the same of h; NULL before the first */
  bool first;              /* dcs has nothing yet */
  td_tensor held, earlier; /* dgates; cs or h of the step before each */
} back;

/* ---- a step -------------------------------------------------------------- */

typedef struct place {
  const float *i, *cs, *f, *o, *ci, *co, *before, *cs_grad, *h_grad, *dh;
  float *dcs, *gate[TD_LSTM_GATES];
} place;

static place place_of(const back *b, int64_t row) {
  int64_t n = b->r.sizes.cells, batch = b->r.sizes.batch;
  int64_t at = (b->t * batch + row) * n;
  const float *before = b->t == 0 ? b->cs_prev : b->cs + (b->t - 1) * batch * n;
  place p = {.i = b->i + at,
             .cs = b->cs + at,
             .f = b->f + at,
             .o = b->o + at,
             .ci = b->ci + at,
             .co = b->co + at,
             .before = before + row * n,
             .cs_grad = b->cs_grad + at,
             .h_grad = b->h_grad + at,
             .dh = b->dh ? b->dh + row * n : NULL,
             .dcs = b->dcs + row * n};
  for (int g = 0; g < TD_LSTM_GATES; g++)
    p.gate[g] = b->dgates + 4 * at + b->order[g] * n;
  return p;
}

static void do_row(const back *b, const place *p) {
  for (int64_t k = 0; k < b->r.sizes.cells; k++) {
    float i = p->i[k], f = p->f[k], o = p->o[k], ci = p->ci[k], co = p->co[k];
    float dh = p->h_grad[k] + (p->dh ? p->dh[k] : 0);
    float d_o = o * (1 - o) * dh * co;
    float dcs = (1 - co * co) * dh * o + p->cs_grad[k];
    if (!b->first) dcs += p->dcs[k];
    if (b->peephole) dcs += d_o * b->wco[k];
    float df = f * (1 - f) * dcs * p->before[k];
    float di = i * (1 - i) * dcs * ci;
    p->gate[TD_LSTM_I][k] = di;
    p->gate[TD_LSTM_CI][k] = (1 - ci * ci) * dcs * i;
    p->gate[TD_LSTM_F][k] = df;
    p->gate[TD_LSTM_O][k] = d_o;
    p->dcs[k] = dcs * f;
    if (b->peephole) p->dcs[k] += di * b->wci[k] + df * b->wcf[k];
  }
}

static void do_rows(void *arg, int64_t begin, int64_t end) {
  const back *b = arg;
  for (int64_t row = begin; row < end; row++) {
    place p = place_of(b, row);
    do_row(b, &p);
  }
}

static void do_step(back *b) {
  td_for(b->r.c, b->r.sizes.batch, td_grain_of(8 * b->r.sizes.cells), do_rows,
         b);
  b->first = false;
}

/* ---- sums over the steps ------------------------------------------------- */

typedef struct sums {
  int64_t rows, width, stride; /* of `from`, from one row to the next */
  const float *from, *by;      /* by: {rows, width}, or NULL */
  float *to;
} sums;

static void sum_columns(void *arg, int64_t begin, int64_t end) {
  const sums *j = arg;
  for (int64_t k = begin; k < end; k++) j->to[k] = 0;
  for (int64_t row = 0; row < j->rows; row++) {
    const float *from = j->from + row * j->stride;
    const float *by = j->by ? j->by + row * j->width : NULL;
    for (int64_t k = begin; k < end; k++)
      j->to[k] += by ? from[k] * by[k] : from[k];
  }
}

static void sum(const back *b, const float *from, const float *by,
                int64_t width, float *to) {
  sums j = {.rows = b->steps * b->r.sizes.batch,
            .width = width,
            .stride = 4 * b->r.sizes.cells,
            .from = from,
            .by = by,
            .to = to};
  td_for(b->r.c, width, td_grain_of(j.rows), sum_columns, &j);
}

/* *earlier: `first`, then all of `rest` but its last step. */
static td_status *set_earlier(back *b, const float *first, const float *rest) {
  int64_t n = b->r.sizes.cells, batch = b->r.sizes.batch, step = batch * n;
  td_tensor_release(&b->earlier);
  TD_TRY(td_recurrent_temp(&b->r, b->steps * batch, n, &b->earlier));
  if (b->steps == 0 || step == 0) return NULL;
  float *to = b->earlier.data;
  memcpy(to, first, (size_t)step * sizeof *to);
  memcpy(to + step, rest, (size_t)((b->steps - 1) * step) * sizeof *to);
  return NULL;
}

/* wci_grad, wcf_grad and wco_grad are outputs `at` and on. */
static td_status *peepholes(back *b, int at) {
  int64_t n = b->r.sizes.cells;
  static const int gates[] = {TD_LSTM_I, TD_LSTM_F, TD_LSTM_O};
  if (b->peephole) TD_TRY(set_earlier(b, b->cs_prev, b->cs));
  for (int k = 0; k < 3; k++) {
    float *to = td_recurrent_out(&b->r, at + k);
    const float *by = k < 2 ? b->earlier.data : b->cs;
    if (b->peephole)
      sum(b, b->dgates + b->order[gates[k]] * n, by, n, to);
    else if (n > 0)
      memset(to, 0, (size_t)n * sizeof *to);
  }
  return NULL;
}

/* to {k, 4 cells} = rows {steps batch, k} transposed * dgates. */
static td_status *weights(back *b, const float *rows, int64_t k, float *to) {
  int64_t n = 4 * b->r.sizes.cells;
  td_product p = {.dtype = TD_FLOAT32,
                  .m = k,
                  .n = n,
                  .k = b->steps * b->r.sizes.batch,
                  .a = rows,
                  .b = b->dgates,
                  .c = to,
                  .lda = k,
                  .ldb = n,
                  .ldc = n,
                  .trans_a = true};
  return k == 0 || n == 0 ? NULL : td_gemm(b->r.c, &p, 1, NULL);
}

/* ---- LSTMBlockCellGrad --------------------------------------------------- */

#define GATES(dims)                                                            \
  {"i", dims}, {"cs", dims}, {"f", dims}, {"o", dims}, {"ci", dims}, {         \
    "co", dims                                                                 \
  }
#define GIVEN(dims)                                                            \
  {"cs_grad", dims}, {"h_grad", dims}, {                                       \
    NULL, NULL                                                                 \
  }

const td_recurrent_arg td_lstm_cell_back_args[] = {
    {"x", "BI"}, TD_LSTM_WEIGHTS, GATES("BN"), GIVEN("BN")};
const td_recurrent_arg td_lstm_block_back_args[] = {
    {"seq_len_max", ""}, {"x", "TBI"}, TD_LSTM_WEIGHTS,
    GATES("TBN"),        {"h", "TBN"}, GIVEN("TBN")};
const char *const td_lstm_cell_back_outs[] = {"BN", "B4", "N", "N", "N", NULL};
const char *const td_lstm_block_back_outs[] = {"TBI", "BN", "BN", "S4", "N",
                                               "N",   "N",  "4",  NULL};

static td_status *cell_infer(td_infer *c) {
  return td_recurrent_infer(c, td_lstm_cell_back_args, td_lstm_cell_back_outs);
}

static td_status *block_infer(td_infer *c) {
  return td_recurrent_infer(c, td_lstm_block_back_args,
                            td_lstm_block_back_outs);
}

/* The operands from x on begin at input `at`; those of the gradient, without
 * the h that a sequence has, at `given`. */
static void read_operands(back *b, int at, int given, const int *order) {
  const float **to[] = {&b->x,   &b->cs_prev, &b->h_prev, &b->w, &b->wci,
                        &b->wcf, &b->wco,     &b->b,      &b->i, &b->cs,
                        &b->f,   &b->o,       &b->ci,     &b->co};
  for (size_t k = 0; k < TD_COUNT(to); k++)
    *to[k] = td_recurrent_in(&b->r, at + (int)k);
  b->cs_grad = td_recurrent_in(&b->r, given);
  b->h_grad = td_recurrent_in(&b->r, given + 1);
  b->order = order;
  b->first = true;
  b->peephole = td_node_bool(td_ctx_node(b->r.c), "use_peephole");
}

static td_status *end(back *b, td_status *s) {
  td_tensor_release(&b->held);
  td_tensor_release(&b->earlier);
  return td_recurrent_end(&b->r, s);
}

static td_status *cell_run(td_kernel_ctx *c) {
  back b = {.steps = 1};
  td_status *s = td_recurrent_begin(c, td_lstm_cell_back_args,
                                    td_lstm_cell_back_outs, &b.r);
  if (td_ok(s)) {
    read_operands(&b, 0, 14, td_lstm_icfo);
    b.dcs = td_recurrent_out(&b.r, 0);
    b.dgates = td_recurrent_out(&b.r, 1);
    do_step(&b);
    s = peepholes(&b, 2);
  }
  return end(&b, s);
}

/* ---- BlockLSTMGrad ------------------------------------------------------- */

enum { X_GRAD, CS_PREV_GRAD, H_PREV_GRAD, W_GRAD, WCI_GRAD, B_GRAD = 7 };

static td_status *go_back(back *b) {
  td_recurrent *r = &b->r;
  int64_t n = r->sizes.cells, batch = r->sizes.batch, from = r->sizes.inputs;
  float *dh = td_recurrent_out(r, H_PREV_GRAD);
  TD_TRY(td_recurrent_temp(r, b->steps * batch, 4 * n, &b->held));
  b->dgates = b->held.data;
  b->dcs = td_recurrent_out(r, CS_PREV_GRAD);
  for (b->t = b->steps - 1; b->t >= 0 && !td_stopped(r->c); b->t--) {
    do_step(b);
    TD_TRY(td_recurrent_product(r, batch, n, 4 * n,
                                b->dgates + 4 * b->t * batch * n,
                                b->w + 4 * n * from, true, dh));
    b->dh = dh;
  }
  return NULL;
}

/* Without a step nothing reaches what came before. */
static void clear(back *b) {
  for (int k = X_GRAD; k <= H_PREV_GRAD; k++)
    if (td_tensor_count(&b->r.out[k]) > 0)
      memset(b->r.out[k].data, 0, td_tensor_bytes(&b->r.out[k]));
}

static td_status *run_steps(back *b) {
  td_recurrent *r = &b->r;
  int64_t n = r->sizes.cells, from = r->sizes.inputs;
  float *dw = td_recurrent_out(r, W_GRAD);
  clear(b);
  TD_TRY(go_back(b));
  TD_TRY(td_recurrent_product(r, b->steps * r->sizes.batch, from, 4 * n,
                              b->dgates, b->w, true,
                              td_recurrent_out(r, X_GRAD)));
  TD_TRY(peepholes(b, WCI_GRAD));
  sum(b, b->dgates, NULL, 4 * n, td_recurrent_out(r, B_GRAD));
  TD_TRY(weights(b, b->x, from, dw));
  TD_TRY(set_earlier(b, b->h_prev, b->h));
  return weights(b, b->earlier.data, n, dw + from * 4 * n);
}

static td_status *block_with(td_kernel_ctx *c, const int *order) {
  back b = {.steps = 0};
  td_status *s = td_recurrent_begin(c, td_lstm_block_back_args,
                                    td_lstm_block_back_outs, &b.r);
  if (td_ok(s)) s = td_lstm_steps(c, &b.r.sizes, &b.steps);
  if (td_ok(s)) {
    read_operands(&b, 1, 16, order);
    b.h = td_recurrent_in(&b.r, 15);
    s = run_steps(&b);
  }
  return end(&b, s);
}

static td_status *block_run(td_kernel_ctx *c) {
  return block_with(c, td_lstm_icfo);
}

static td_status *block_v2_run(td_kernel_ctx *c) {
  return block_with(c, td_lstm_ifco);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Twice the work of a step, for x and for the weights. The gradient of one step
 * leaves the products to other ops: a dozen for each gate. */
static void block_cost(td_infer *c, td_cost *cost) {
  cost->flops = 2 * td_recurrent_flops(c, 1, 4);
}

TD_COST_OUTPUT(cell_cost, 12, 0)

/* ---- tables -------------------------------------------------------------- */

/* clang-format off */
#define CELL "cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T, " \
  "i: T, cs: T, f: T, o: T, ci: T, co: T, "
#define PEEPHOLES "wci_grad: T, wcf_grad: T, wco_grad: T"
#define END "; use_peephole: bool; T: {half, float}"
#define BLOCK "seq_len_max: int64, x: T, " CELL \
  "h: T, cs_grad: T, h_grad: T -> x_grad: T, cs_prev_grad: T, " \
  "h_prev_grad: T, w_grad: T, " PEEPHOLES ", b_grad: T" END
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "LSTMBlockCellGrad",
     .sig =
         "x: T, " CELL
         "cs_grad: T, h_grad: T -> cs_prev_grad: T, dicfo: T, " PEEPHOLES END,
     .shape = cell_infer,
     .cost = cell_cost,
     .doc = "Gradients of LSTMBlockCell: of cs_prev, of the gates, of the "
            "peepholes.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "BlockLSTMGrad",
     .sig = BLOCK,
     .shape = block_infer,
     .cost = block_cost,
     .doc = "Gradients of BlockLSTM for all that it takes.",
     .lua = "",
     .host = "seq_len_max",
     .section = "Neural-network building blocks"},
    {.type = "BlockLSTMGradV2",
     .sig = BLOCK,
     .shape = block_infer,
     .cost = block_cost,
     .doc = "Gradients of BlockLSTMV2 for all that it takes.",
     .lua = "",
     .host = "seq_len_max",
     .section = "Neural-network building blocks"},
    {0},
};

#define CPU(type, f)                                                           \
  { .op = type, .device = "CPU", .types = "T=half|float", .run = f }

static const td_kernel_def kernels[] = {
    CPU("LSTMBlockCellGrad", cell_run),
    CPU("BlockLSTMGrad", block_run),
    CPU("BlockLSTMGradV2", block_v2_run),
    {0},
};

TD_MODULE(lstm_block_grad, ops, kernels)
