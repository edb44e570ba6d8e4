/* gru_block.c - a step of a GRU cell in one op, and its gradient.
 *
 *   [r, u] = sigmoid([x, h_prev] w_ru + b_ru)
 *   c = tanh([x, r h_prev] w_c + b_c)
 *   h = u h_prev + (1 - u) c
 *
 * Cho et al. (2014), with u and 1 - u changed about. The rows of w_ru and w_c
 * for x and for h are multiplied apart, so that nothing is put side by side.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu.h"
#include "kernels/recurrent.h"
#include "kernels/unary.h"

typedef struct gru {
  td_recurrent r;
  const float *x, *h_prev, *w_ru, *w_c, *b_ru, *b_c;
  const float *from_x, *from_h;         /* {batch, 2 cells} or {batch, cells} */
  const float *rs, *us, *cs, *dh, *dhr; /* of the gradient */
  float *to[4];
  td_tensor temp[2];
  td_isa isa;
} gru;

static void read_operands(gru *g) {
  const float **to[] = {&g->x,   &g->h_prev, &g->w_ru,
                        &g->w_c, &g->b_ru,   &g->b_c};
  for (size_t i = 0; i < TD_COUNT(to); i++)
    *to[i] = td_recurrent_in(&g->r, (int)i);
  for (int i = 0; i < 4; i++) g->to[i] = td_recurrent_out(&g->r, i);
  g->isa = td_cpu_isa();
}

static void each_row(gru *g, void (*f)(void *, int64_t, int64_t)) {
  td_for(g->r.c, g->r.sizes.batch, td_grain_of(8 * g->r.sizes.cells), f, g);
}

static td_status *end(gru *g, td_status *s) {
  td_tensor_release(&g->temp[0]);
  td_tensor_release(&g->temp[1]);
  return td_recurrent_end(&g->r, s);
}

/* ---- GRUBlockCell -------------------------------------------------------- */

/* r and u; h is where r h_prev waits for its product. */
static void gate_rows(void *arg, int64_t begin, int64_t end) {
  const gru *g = arg;
  int64_t n = g->r.sizes.cells;
  for (int64_t row = begin; row < end; row++) {
    float *r = g->to[0] + row * n, *u = g->to[1] + row * n;
    float *rh = g->to[3] + row * n;
    const float *x = g->from_x + 2 * row * n, *h = g->from_h + 2 * row * n;
    for (int64_t k = 0; k < n; k++) {
      r[k] = x[k] + h[k] + g->b_ru[k];
      u[k] = x[n + k] + h[n + k] + g->b_ru[n + k];
    }
    td_unary_apply(TD_UNARY_Sigmoid, TD_FLOAT32, g->isa, n, r, r);
    td_unary_apply(TD_UNARY_Sigmoid, TD_FLOAT32, g->isa, n, u, u);
    for (int64_t k = 0; k < n; k++) rh[k] = r[k] * g->h_prev[row * n + k];
  }
}

static void state_rows(void *arg, int64_t begin, int64_t end) {
  const gru *g = arg;
  int64_t n = g->r.sizes.cells;
  for (int64_t row = begin; row < end; row++) {
    const float *u = g->to[1] + row * n, *before = g->h_prev + row * n;
    float *c = g->to[2] + row * n, *h = g->to[3] + row * n;
    for (int64_t k = 0; k < n; k++)
      c[k] = g->from_x[row * n + k] + g->from_h[row * n + k] + g->b_c[k];
    td_unary_apply(TD_UNARY_Tanh, TD_FLOAT32, g->isa, n, c, c);
    for (int64_t k = 0; k < n; k++) h[k] = u[k] * before[k] + (1 - u[k]) * c[k];
  }
}

static td_status *forward(gru *g) {
  td_recurrent *r = &g->r;
  int64_t n = r->sizes.cells, batch = r->sizes.batch, in = r->sizes.inputs;
  read_operands(g);
  TD_TRY(td_recurrent_temp(r, batch, 2 * n, &g->temp[0]));
  TD_TRY(td_recurrent_temp(r, batch, 2 * n, &g->temp[1]));
  float *x = g->temp[0].data, *h = g->temp[1].data;
  g->from_x = x;
  g->from_h = h;
  TD_TRY(td_recurrent_product(r, batch, 2 * n, in, g->x, g->w_ru, false, x));
  TD_TRY(td_recurrent_product(r, batch, 2 * n, n, g->h_prev,
                              g->w_ru + in * 2 * n, false, h));
  each_row(g, gate_rows);
  TD_TRY(td_recurrent_product(r, batch, n, in, g->x, g->w_c, false, x));
  TD_TRY(td_recurrent_product(r, batch, n, n, g->to[3], g->w_c + in * n, false,
                              h));
  each_row(g, state_rows);
  return NULL;
}

/* ---- GRUBlockCellGrad ---------------------------------------------------- */

enum { D_X, D_H_PREV, D_C, D_RU };

/* Of c before its tanh, and of u before its sigmoid. */
static void candidate_rows(void *arg, int64_t begin, int64_t end) {
  const gru *g = arg;
  int64_t n = g->r.sizes.cells;
  for (int64_t row = begin; row < end; row++) {
    int64_t at = row * n;
    float *dc = g->to[D_C] + at, *du = g->to[D_RU] + 2 * at + n;
    for (int64_t k = 0; k < n; k++) {
      float u = g->us[at + k], c = g->cs[at + k], dh = g->dh[at + k];
      dc[k] = dh * (1 - u) * (1 - c * c);
      du[k] = dh * (g->h_prev[at + k] - c) * u * (1 - u);
    }
  }
}

/* Of r before its sigmoid. */
static void reset_rows(void *arg, int64_t begin, int64_t end) {
  const gru *g = arg;
  int64_t n = g->r.sizes.cells;
  for (int64_t row = begin; row < end; row++) {
    const float *r = g->rs + row * n, *dhr = g->dhr + row * n;
    float *dr = g->to[D_RU] + 2 * row * n;
    for (int64_t k = 0; k < n; k++)
      dr[k] = dhr[k] * g->h_prev[row * n + k] * r[k] * (1 - r[k]);
  }
}

static void sum_rows(void *arg, int64_t begin, int64_t end) {
  const gru *g = arg;
  int64_t n = g->r.sizes.cells, in = g->r.sizes.inputs;
  for (int64_t k = begin * in; k < end * in; k++) g->to[D_X][k] += g->from_x[k];
  for (int64_t k = begin * n; k < end * n; k++)
    g->to[D_H_PREV][k] += g->dhr[k] * g->rs[k] + g->dh[k] * g->us[k];
}

static td_status *backward(gru *g) {
  td_recurrent *r = &g->r;
  int64_t n = r->sizes.cells, batch = r->sizes.batch, in = r->sizes.inputs;
  const float **more[] = {&g->rs, &g->us, &g->cs, &g->dh};
  read_operands(g);
  for (int i = 0; i < 4; i++) *more[i] = td_recurrent_in(r, 6 + i);
  TD_TRY(td_recurrent_temp(r, batch, in, &g->temp[0]));
  TD_TRY(td_recurrent_temp(r, batch, n, &g->temp[1]));
  float *dx = g->temp[0].data, *dhr = g->temp[1].data;
  float *dc = g->to[D_C], *dru = g->to[D_RU];
  g->from_x = dx;
  g->dhr = dhr;
  each_row(g, candidate_rows);
  TD_TRY(td_recurrent_product(r, batch, in, n, dc, g->w_c, true, dx));
  TD_TRY(td_recurrent_product(r, batch, n, n, dc, g->w_c + in * n, true, dhr));
  each_row(g, reset_rows);
  TD_TRY(td_recurrent_product(r, batch, in, 2 * n, dru, g->w_ru, true,
                              g->to[D_X]));
  TD_TRY(td_recurrent_product(r, batch, n, 2 * n, dru, g->w_ru + in * 2 * n,
                              true, g->to[D_H_PREV]));
  each_row(g, sum_rows);
  return NULL;
}

/* ---- ops ----------------------------------------------------------------- */

#define ARGS                                                                   \
  {"x", "BI"}, {"h_prev", "BN"}, {"w_ru", "S2"}, {"w_c", "SN"}, {"b_ru", "2"}, \
  {                                                                            \
    "b_c", "N"                                                                 \
  }

const td_recurrent_arg td_gru_args[] = {ARGS, {NULL, NULL}};
const td_recurrent_arg td_gru_grad_args[] = {
    ARGS, {"r", "BN"}, {"u", "BN"}, {"c", "BN"}, {"d_h", "BN"}, {NULL, NULL}};
const char *const td_gru_outs[] = {"BN", "BN", "BN", "BN", NULL};
const char *const td_gru_grad_outs[] = {"BI", "BN", "BN", "B2", NULL};

static td_status *cell_infer(td_infer *c) {
  return td_recurrent_infer(c, td_gru_args, td_gru_outs);
}

static td_status *grad_infer(td_infer *c) {
  return td_recurrent_infer(c, td_gru_grad_args, td_gru_grad_outs);
}

static td_status *cell_run(td_kernel_ctx *c) {
  gru g = {0};
  td_status *s = td_recurrent_begin(c, td_gru_args, td_gru_outs, &g.r);
  if (td_ok(s)) s = forward(&g);
  return end(&g, s);
}

static td_status *grad_run(td_kernel_ctx *c) {
  gru g = {0};
  td_status *s =
      td_recurrent_begin(c, td_gru_grad_args, td_gru_grad_outs, &g.r);
  if (td_ok(s)) s = backward(&g);
  return end(&g, s);
}

/* The gradient leaves the products for the weights to other ops. */
static void gru_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_recurrent_flops(c, 0, 2) + td_recurrent_flops(c, 0, 3);
}

#define CELL "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T"

static const td_op_def ops[] = {
    {.type = "GRUBlockCell",
     .sig = CELL " -> r: T, u: T, c: T, h: T; T: {float}",
     .shape = cell_infer,
     .cost = gru_cost,
     .doc = "One step of a GRU cell; h is the last of the results.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "GRUBlockCellGrad",
     .sig = CELL ", r: T, u: T, c: T, d_h: T -> d_x: T, d_h_prev: T, "
                 "d_c_bar: T, d_r_bar_u_bar: T; T: {float}",
     .shape = grad_infer,
     .cost = gru_cost,
     .doc = "Gradients of GRUBlockCell: of x and h_prev, and of c and of "
            "[r, u] before their functions.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "GRUBlockCell",
     .device = "CPU",
     .types = "T=float",
     .run = cell_run},
    {.op = "GRUBlockCellGrad",
     .device = "CPU",
     .types = "T=float",
     .run = grad_run},
    {0},
};

TD_MODULE(gru_block, ops, kernels)
