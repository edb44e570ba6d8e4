/* pooling.h - windows that slide over images and volumes, and what is done
 * under them: what all pooling ops share.
 *
 * Every layout is seen as [outer, three axes, inner]: NHWC has its channels
 * inside, where loops run over many at once; NCHW has them outside, and loops
 * run over the windows of a row that are not cut at its ends. Where such rows
 * are short the operands are copied with their channels inside. A window
 * that pools channels is one that slides along a single axis. Windows are cut
 * at the edges of the input, so that padding is never read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_POOLING_H
#define TD_POOLING_H

#include "engine/base/cpu.h"
#include "engine/device/kernel.h"
#include "kernels/element.h"

TD_BEGIN

/* ---- geometry (pooling_window.c) ---- */

enum { TD_POOLING_AXES = 3 };

typedef struct td_pooling_axis {
  int64_t in, out, window, stride, before; /* before: cells of padding */
} td_pooling_axis;

typedef struct td_pooling {
  td_shape in, out; /* of the tensors */
  int64_t outer, inner;
  int64_t channels; /* that are the last part of outer; else 1 */
  td_pooling_axis axis[TD_POOLING_AXES];
} td_pooling;

/* What an op says of its windows, before the input's sizes are known. */
typedef struct td_pooling_spec {
  int rank; /* of the tensors: 4 or 5 */
  bool known;
  bool strict; /* in a shape function: a window too large is an error, where a
                  kernel gives nothing, as in TensorFlow */
  int64_t ksize[5], strides[5];
  const char *padding;
  const struct td_attr *explicit_paddings; /* may be NULL */
  bool channels_first;
} td_pooling_spec;

/* From attributes, in a shape function and in a kernel. ksize and strides of
 * the V2 ops are the inputs from `sizes` on; -1: attributes. */
td_status *td_pooling_infer(td_infer *c, int rank, int sizes,
                            td_pooling_spec *spec) TD_MUST_USE;
/* A cost function's: one for each cell of so many windows. */
void td_pooling_cost(td_infer *c, td_cost *cost, double windows);
td_status *td_pooling_read(const td_kernel_ctx *c, int rank, int sizes,
                           td_pooling_spec *spec) TD_MUST_USE;

/* The output's shape of an input's, unknown sizes allowed. */
td_status *td_pooling_shape(const td_pooling_spec *spec, const td_shape *in,
                            td_shape *out) TD_MUST_USE;
/* The whole of it, of a known shape. */
td_status *td_pooling_of(const td_pooling_spec *spec, const td_shape *in,
                         td_pooling *p) TD_MUST_USE;
/* "`what` must be of shape .., not .." */
td_status *td_pooling_check(const td_tensor *t, const td_shape *want,
                            const char *what) TD_MUST_USE;

/* The part of a window that lies inside the input. */
typedef struct td_pooling_window {
  int64_t count[TD_POOLING_AXES]; /* cells along each axis; 0: none at all */
  int64_t step[TD_POOLING_AXES];  /* elements from one to the next */
  int64_t lane; /* elements from a lane to the next: see the loops */
} td_pooling_window;

typedef struct td_pooling_at {
  td_pooling_window w;
  int64_t image, cells; /* which of outer; cells in the window */
  int64_t cell;         /* number of the first cell in its image */
  int64_t x, y;         /* elements before it, and before the output */
  int64_t row_cell, row_x, row_y; /* the same of the row; x: of the image */
} td_pooling_at;

/* Row of outputs i of outer * axis[0].out * axis[1].out, then its output k. */
void td_pooling_row(const td_pooling *p, int64_t i, td_pooling_at *at);
void td_pooling_place(const td_pooling *p, int64_t k, td_pooling_at *at);

/* ---- what kernels check, on any device ---- */

/* ksize and strides are inputs from `sizes` on; -1: attributes. Input 0 is
 * pooled; of a gradient the others fit it. */
td_status *td_pooling_max_of(const td_kernel_ctx *c, int rank, int sizes,
                             td_pooling *p) TD_MUST_USE;
td_status *td_pooling_max_grad_of(const td_kernel_ctx *c, int rank, int sizes,
                                  bool second, td_pooling *p) TD_MUST_USE;
td_status *td_pooling_avg_of(const td_kernel_ctx *c, int rank,
                             td_pooling *p) TD_MUST_USE;
/* p->in is what input 0 says. *nothing: all of the gradient is 0. */
td_status *td_pooling_avg_grad_of(const td_kernel_ctx *c, int rank,
                                  td_pooling *p, bool *nothing) TD_MUST_USE;
/* *images: what places grow by from one image to the next, or 0. */
td_status *td_pooling_argmax_of(const td_kernel_ctx *c, td_pooling *p,
                                int64_t *images) TD_MUST_USE;
td_status *td_pooling_argmax_grad_of(const td_kernel_ctx *c, td_pooling *p,
                                     int64_t *images) TD_MUST_USE;

/* ---- loops (pooling_loops.h) ---- */

/* Over n lanes: neighbouring channels of one window (lane: 1), or windows of a
 * row without channels inside, whose outputs are neighbours (lane: the stride).
 * x is the first cell of lane 0. Cells are numbered in the order of memory. */
typedef struct td_pooling_loops {
  /* y = the largest, `start` where none is larger; a NaN never is, but as
   * `start` it gives way to all. */
  void (*max)(const td_pooling_window *w, int64_t n, const void *x,
              double start, void *y);
  /* The first of the largest and which it is; a NaN only where it is first.
   * -1 where there are no cells. */
  void (*find)(const td_pooling_window *w, int64_t n, const void *x, void *best,
               int32_t *at);
  /* dx of cell at[i] += dy[i] */
  void (*give)(const td_pooling_window *w, int64_t n, const int32_t *at,
               const void *dy, void *dx);
  /* dx += dy wherever x is y */
  void (*give_equal)(const td_pooling_window *w, int64_t n, const void *x,
                     const void *y, const void *dy, void *dx);
  /* z = g at the first cell where x is y; 0 where there is none */
  void (*take_equal)(const td_pooling_window *w, int64_t n, const void *x,
                     const void *y, const void *g, void *z);
  /* y = the sum over cells / the number of them; floats only */
  void (*mean)(const td_pooling_window *w, int64_t n, const void *x,
               double cells, void *y);
  /* dx += dy * scale; floats only */
  void (*spread)(const td_pooling_window *w, int64_t n, const void *dy,
                 double scale, void *dx);
} td_pooling_loops;

typedef td_pooling_loops td_pooling_table[TD_DTYPES];
extern const td_pooling_table td_pooling_scalar, td_pooling_avx2,
    td_pooling_avx512;
/* The best that `isa` may run; not of float16 and bfloat16. */
const td_pooling_loops *td_pooling_loops_of(td_dtype t, td_isa isa);

/* ---- runs (pooling_run.c) ---- */

enum { TD_POOLING_BLOCK = 256 }; /* channels of one call that finds places */

typedef struct td_pooling_job td_pooling_job;
/* What is done with channels [from, from + n) of one window; with one channel,
 * n windows of a row (at->w.lane being their stride), the first being `at`. */
typedef void (*td_pooling_step)(const td_pooling_job *j,
                                const td_pooling_at *at, int64_t from,
                                int64_t n);

struct td_pooling_job {
  td_pooling pool;
  const td_pooling_loops *loops;
  size_t size;       /* bytes of an element, as loops see it */
  const char *in[3]; /* operands, float where the tensors are half */
  char *out;
  td_tensor *result; /* output 0 */
  double start;      /* for max */
  bool plain;        /* steps write `out` only, and not where things are */
  bool turned;       /* operands have their channels inside */
  td_tensor held[4]; /* float copies of halves, the last of the result */
  td_tensor turn[4]; /* the same of what is turned */
};

/* Begins a job: `n` inputs from `first` on and output 0 of `shape`, for a pool
 * that is already set. Ends with td_pooling_end, also after an error. */
td_status *td_pooling_begin(td_kernel_ctx *c, td_pooling_job *j, int first,
                            int n, const td_shape *shape) TD_MUST_USE;
/* Stores the result; takes and recount the status so far. */
td_status *td_pooling_end(td_kernel_ctx *c, td_pooling_job *j,
                          td_status *s) TD_MUST_USE;
/* The lowest number of a dtype, where TensorFlow's 2-D maxima begin. */
double td_pooling_lowest(td_dtype t);

/* Once for each output, on all its channels. */
void td_pooling_outputs(const td_kernel_ctx *c, td_pooling_job *j,
                        td_pooling_step step);
/* Once for each output and block of channels, into inputs that begin as zeros:
 * windows overlap, so that a block of an image's channels is one piece. */
void td_pooling_inputs(const td_kernel_ctx *c, td_pooling_job *j,
                       td_pooling_step step);

TD_END
#endif
