/* gru_block.cu - a step of a GRU cell, and its gradient, on a card: what is
 * computed is said in gru_block.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/recurrent.cuh"

namespace {

struct gates {
  const float *x, *h, *b, *h_prev; /* products {batch, 2 cells}; a bias */
  float *r, *u, *rh;
};

__global__ void gate(int64_t batch, int64_t n, gates g) {
  TD_EACH(i, batch * n) {
    int64_t row = i / n, k = i - row * n, at = i + row * n;
    float r = recurrent_sigmoid(g.x[at] + g.h[at] + g.b[k]);
    g.r[i] = r;
    g.u[i] = recurrent_sigmoid(g.x[at + n] + g.h[at + n] + g.b[n + k]);
    g.rh[i] = r * g.h_prev[i];
  }
}

__global__ void state(int64_t batch, int64_t n, const float *x, const float *rh,
                      const float *b, const float *u, const float *h_prev,
                      float *c, float *h) {
  TD_EACH(i, batch * n) {
    float v = tanhf(x[i] + rh[i] + b[i % n]);
    c[i] = v;
    h[i] = u[i] * h_prev[i] + (1 - u[i]) * v;
  }
}

enum { X, H_PREV, W_RU, W_C, B_RU, B_C, R, U, C, D_H };

td_status *forward(recurrent *r) {
  td_kernel_ctx *c = r->c;
  int64_t n = r->sizes.cells, batch = r->sizes.batch, in = r->sizes.inputs;
  float *x, *h, *rh;
  if (batch * n == 0) return nullptr;
  TD_TRY(recurrent_temp(r, batch, 2 * n, &x));
  TD_TRY(recurrent_temp(r, batch, 2 * n, &h));
  TD_TRY(recurrent_temp(r, batch, n, &rh));
  TD_TRY(recurrent_product(r, batch, 2 * n, in, r->in[X], r->in[W_RU], false,
                           x));
  TD_TRY(recurrent_product(r, batch, 2 * n, n, r->in[H_PREV],
                           r->in[W_RU] + in * 2 * n, false, h));
  gates g = {x, h, r->in[B_RU], r->in[H_PREV], r->out[0], r->out[1], rh};
  TD_TRY(TD_LAUNCH(c, gate, td_cuda_grid(c, batch * n), TD_CUDA_BLOCK, 0, batch,
                   n, g));
  TD_TRY(recurrent_product(r, batch, n, in, r->in[X], r->in[W_C], false, x));
  TD_TRY(recurrent_product(r, batch, n, n, rh, r->in[W_C] + in * n, false, h));
  return TD_LAUNCH(c, state, td_cuda_grid(c, batch * n), TD_CUDA_BLOCK, 0,
                   batch, n, x, h, r->in[B_C], r->out[1], r->in[H_PREV],
                   r->out[2], r->out[3]);
}

/* ---- gradient ------------------------------------------------------------ */

enum { D_X, D_H_PREV, D_C, D_RU };

struct known {
  const float *h_prev, *r, *u, *c, *dh;
};

/* Of c before its tanh, and of u before its sigmoid. */
__global__ void candidate(int64_t batch, int64_t n, known v, float *dc,
                          float *dru) {
  TD_EACH(i, batch * n) {
    int64_t at = i + i / n * n;
    float u = v.u[i], c = v.c[i], dh = v.dh[i];
    dc[i] = dh * (1 - u) * (1 - c * c);
    dru[at + n] = dh * (v.h_prev[i] - c) * u * (1 - u);
  }
}

/* Of r before its sigmoid. */
__global__ void reset(int64_t batch, int64_t n, known v, const float *dhr,
                      float *dru) {
  TD_EACH(i, batch * n) {
    float r = v.r[i];
    dru[i + i / n * n] = dhr[i] * v.h_prev[i] * r * (1 - r);
  }
}

__global__ void add(int64_t n, const float *x, float *to) {
  TD_EACH(i, n) to[i] += x[i];
}

__global__ void add_state(int64_t n, known v, const float *dhr, float *to) {
  TD_EACH(i, n) to[i] += dhr[i] * v.r[i] + v.dh[i] * v.u[i];
}

td_status *backward(recurrent *r) {
  td_kernel_ctx *c = r->c;
  int64_t n = r->sizes.cells, batch = r->sizes.batch, in = r->sizes.inputs;
  known v = {r->in[H_PREV], r->in[R], r->in[U], r->in[C], r->in[D_H]};
  float *dx, *dhr, *dc = r->out[D_C], *dru = r->out[D_RU];
  if (batch * n == 0) return recurrent_clear(r, r->out[D_X], batch * in);
  dim3 grid = td_cuda_grid(c, batch * n);
  TD_TRY(recurrent_temp(r, batch, in, &dx));
  TD_TRY(recurrent_temp(r, batch, n, &dhr));
  TD_TRY(TD_LAUNCH(c, candidate, grid, TD_CUDA_BLOCK, 0, batch, n, v, dc, dru));
  TD_TRY(recurrent_product(r, batch, in, n, dc, r->in[W_C], true, dx));
  TD_TRY(recurrent_product(r, batch, n, n, dc, r->in[W_C] + in * n, true, dhr));
  TD_TRY(TD_LAUNCH(c, reset, grid, TD_CUDA_BLOCK, 0, batch, n, v, dhr, dru));
  TD_TRY(recurrent_product(r, batch, in, 2 * n, dru, r->in[W_RU], true,
                           r->out[D_X]));
  TD_TRY(recurrent_product(r, batch, n, 2 * n, dru, r->in[W_RU] + in * 2 * n,
                           true, r->out[D_H_PREV]));
  if (in > 0)
    TD_TRY(TD_LAUNCH(c, add, td_cuda_grid(c, batch * in), TD_CUDA_BLOCK, 0,
                     batch * in, dx, r->out[D_X]));
  return TD_LAUNCH(c, add_state, grid, TD_CUDA_BLOCK, 0, batch * n, v, dhr,
                   r->out[D_H_PREV]);
}

td_status *run_cell(td_kernel_ctx *c) {
  recurrent r = {};
  td_status *s = recurrent_begin(c, td_gru_args, td_gru_outs, &r);
  if (td_ok(s)) s = forward(&r);
  return recurrent_end(&r, s);
}

td_status *run_grad(td_kernel_ctx *c) {
  recurrent r = {};
  td_status *s = recurrent_begin(c, td_gru_grad_args, td_gru_grad_outs, &r);
  if (td_ok(s)) s = backward(&r);
  return recurrent_end(&r, s);
}

const td_kernel_def kernels[] = {
    {.op = "GRUBlockCell",
     .device = "CUDA",
     .types = "T=float",
     .run = run_cell},
    {.op = "GRUBlockCellGrad",
     .device = "CUDA",
     .types = "T=float",
     .run = run_grad},
    {},
};

} // namespace

TD_CUDA_MODULE(gru_block, kernels)
