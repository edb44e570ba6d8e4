/* cudnn_conv.c - a kernel's convolution by cuDNN.
 *
 * Images stay where they are, in either layout. The filter, which an op has as
 * {window, in, out}, is turned into what goes with the layout: {out, window,
 * in} with channels last, {out, in, window} with channels first; its gradient
 * is turned back. That is little beside the rest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/strided_copy.h"

static const size_t most_room = (size_t)1 << 30; /* of workspace */

struct td_cudnn {
  td_cudnn_card card; /* api NULL: it cannot be used */
  td_cudnn_plans *plans;
  size_t room;
};

/* ---- the device's ---------------------------------------------------------
 */

/* Where plans are kept, "" when nowhere. */
static void find_folder(td_str *out) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (base && *base)
    td_str_addf(out, "%s/tide/cudnn", base);
  else if (home && *home)
    td_str_addf(out, "%s/.cache/tide/cudnn", home);
}

static td_status *start(td_cuda *d, td_cudnn *n, const td_cudnn_api *api) {
  size_t limit = td_allocator_read_stats(d->base.memory).limit;
  td_str folder;
  n->room = limit && limit / 4 < most_room ? limit / 4 : most_room;
  TD_TRY(td_cudnn_card_init(api, NULL, &n->card));
  int e = api->SetStream(n->card.handle,
                         td_cuda_stream_of(d->events, TD_CUDA_COMPUTE));
  if (e) return td_cudnn_error(api, e, "a stream");
  td_str_init(&folder);
  find_folder(&folder);
  td_status *s = td_cudnn_plans_new(
      &n->card, folder.len && !folder.failed ? td_str_c(&folder) : NULL,
      &n->plans);
  td_str_deinit(&folder);
  return s;
}

/* NULL: cuDNN is not there, or did not start. The device's lock is held. */
static td_cudnn *cudnn_of(td_cuda *d) {
  if (TD_LIKELY(d->cudnn)) return d->cudnn->plans ? d->cudnn : NULL;
  const td_cudnn_api *api = td_cudnn_open();
  td_cudnn *n = td_calloc(1, sizeof *n);
  if (!n) return NULL;
  d->cudnn = n;
  td_status *s = api ? start(d, n, api) : NULL;
  if (!td_ok(s)) td_cudnn_card_deinit(&n->card, false);
  td_status_release(s);
  return n->plans ? n : NULL;
}

void td_cudnn_free(td_cudnn *d, bool dead) {
  if (!d) return;
  td_cudnn_plans_free(d->plans);
  td_cudnn_card_deinit(&d->card, dead);
  td_free(d);
}

static bool is_of_type(td_dtype t) {
  return t == TD_FLOAT16 || t == TD_BFLOAT16 || t == TD_FLOAT32 ||
         t == TD_FLOAT64;
}

/* ---- running ------------------------------------------------------------- */

typedef struct job {
  td_kernel_ctx *c;
  const td_conv_plan *p;
  const td_tensor *x, *w, *y; /* the op's; one of them is what is made */
  td_tensor turned, workspace;
} job;

/* Between the op's filter and cuDNN's. */
static td_status *turn(job *j, bool back) {
  const td_conv *c = &j->p->conv;
  int64_t in = c->in_channels / c->groups, out = c->out_channels;
  int64_t window = td_conv_window(c);
  bool outer = j->p->rule.channels_first;
  const struct {
    int64_t count, ours, theirs;
  } loops[] = {{out, 1, in * window},
               {window, in * out, outer ? 1 : in},
               {in, out, outer ? window : 1}};
  const void *from = back ? j->turned.data : j->w->data;
  void *to = back ? j->w->data : j->turned.data;
  td_strided_copy m;
  td_strided_copy_init(&m);
  for (size_t i = 0; i < TD_COUNT(loops); i++)
    td_strided_copy_loop(&m, loops[i].count,
                         back ? loops[i].theirs : loops[i].ours,
                         back ? loops[i].ours : loops[i].theirs);
  return td_cuda_copy_strided(j->c, &m, td_dtype_size(j->w->dtype), from, NULL,
                              to);
}

static td_status *take_memory(job *j, const td_cudnn_plan *plan) {
  td_shape filter = td_shape_vector(td_tensor_count(j->w));
  td_shape bytes = td_shape_vector((int64_t)plan->workspace);
  TD_TRY(td_temp(j->c, j->w->dtype, &filter, &j->turned));
  return plan->workspace ? td_temp(j->c, TD_UINT8, &bytes, &j->workspace)
                         : NULL;
}

static td_status *run_with(job *j, const td_cudnn *n,
                           const td_cudnn_plan *plan) {
  bool back = j->p->pass == TD_CONV_WEIGHTS;
  if (!back) TD_TRY(turn(j, false));
  td_cudnn_run r = {.x = j->x->data,
                    .w = j->turned.data,
                    .y = j->y->data,
                    .workspace = j->workspace.data};
  TD_TRY(td_cudnn_plan_run(&n->card, plan, &r));
  return back ? turn(j, true) : NULL;
}

static td_status *run_plan(job *j, const td_cudnn *n,
                           const td_cudnn_plan *plan) {
  td_status *s = take_memory(j, plan);
  if (td_ok(s)) s = run_with(j, n, plan);
  td_tensor_release(&j->turned);
  td_tensor_release(&j->workspace);
  return s;
}

/* A plan that does not run gives way to the next; where memory is short, less
 * of it will do for kernels of ours. */
static td_status *run_any(job *j, td_cudnn *n, const td_cudnn_conv *v,
                          bool *done) {
  const td_cudnn_plan *plan;
  TD_TRY(td_cudnn_plans_find(n->plans, v, n->room, &plan));
  while (plan) {
    td_status *s = run_plan(j, n, plan);
    *done = td_ok(s);
    bool other = !*done && td_status_code(s) == TD_INTERNAL;
    td_status_release(s);
    if (!other) return NULL;
    TD_TRY(td_cudnn_plans_next(n->plans, v, n->room, &plan));
  }
  return NULL;
}

td_status *td_cudnn_convolve(td_kernel_ctx *c, const td_conv_plan *p,
                             td_tensor *to, bool *done) {
  const td_tensor *a = td_in(c, p->a), *b = td_in(c, p->b);
  job j = {.c = c, .p = p, .x = a, .w = b, .y = to};
  td_cudnn_conv v;
  *done = false;
  if (!is_of_type(to->dtype)) return NULL;
  td_cudnn *n = cudnn_of(td_cuda_of(c));
  if (!n) return NULL;
  if (p->pass == TD_CONV_DATA)
    j = (job){.c = c, .p = p, .x = to, .w = a, .y = b};
  if (p->pass == TD_CONV_WEIGHTS)
    j = (job){.c = c, .p = p, .x = a, .w = to, .y = b};
  td_cudnn_conv_of(p, to->dtype, j.x->data, j.y->data, &v);
  return run_any(&j, n, &v, done);
}
