/* save.c - SaveV2: tensors to a checkpoint, as an errand. Save and SaveSlices
 * do the same to a file of version 1, which is put together in memory.
 *
 * The errand takes the tensors off the kernel and lets go of each when it is
 * written, so that nothing is held, or copied, for longer than it must.
 *
 * A step that is cancelled does not wait for its save, which stops at its next
 * piece, removes what it wrote and gives up its claim on the prefix. Who saves
 * there again meanwhile waits for that. Once all data are on the disk it is the
 * other way round: the step waits until the checkpoint is there. So none comes
 * into being that a step was told did not.
 *
 * A process that ends has its saves stop in the same way and waits for that, so
 * that neither pieces of files nor claims stay.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/waiter.h"
#include "engine/io/checkpoint_v1.h"
#include "engine/io/checkpoint_writer.h"
#include "kernels/cost.h"
#include "kernels/errand.h"
#include "kernels/saved_names.h"

typedef struct saving {
  td_errand base;      /* first */
  struct saving *next; /* of those that run; `lock` */
  char *prefix;
  td_saved_names names;
  td_tensor *tensors; /* by their places in the operands */
} saving;

static void saving_drop(td_errand *e) {
  saving *s = (saving *)e;
  for (int64_t i = 0; s->tensors && i < s->names.len; i++)
    td_tensor_release(&s->tensors[i]);
  td_free(s->tensors);
  td_saved_names_free(&s->names);
  td_free(s->prefix);
  td_free(s);
}

/* ---- those that run ------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static saving *running; /* `lock` */
static td_waiter ended; /* woken when one ends, or is cancelled */
static pid_t process;   /* `lock`: whose end waits for them; 0: none's yet */
static int32_t ending;  /* atomic: it ends */

static const int64_t patience = 10 * (int64_t)1000000000; /* ns */

static bool none_runs(void *arg) {
  (void)arg;
  pthread_mutex_lock(&lock);
  bool none = !running;
  pthread_mutex_unlock(&lock);
  return none;
}

/* A forked child has its parent's list, and none of its threads. */
static void at_end(void) {
  if (getpid() != process) return;
  __atomic_store_n(&ending, 1, __ATOMIC_RELEASE);
  td_waiter_wake(&ended);
  (void)!td_waiter_wait(&ended, td_clock_now() + patience, NULL, none_runs,
                        NULL);
}

static bool is_ending(void) {
  return __atomic_load_n(&ending, __ATOMIC_ACQUIRE) != 0;
}

/* None begins once the others are waited for, nor when nobody will wait: atexit
 * refuses when it is too late. */
static td_status *enter(saving *s) {
  pthread_mutex_lock(&lock);
  if (!process && !is_ending() && !atexit(at_end)) process = getpid();
  bool late = is_ending() || !process;
  if (!late) {
    s->next = running;
    running = s;
  }
  pthread_mutex_unlock(&lock);
  return late ? td_error(TD_CANCELLED, "the process ends") : NULL;
}

static void leave(saving *s) {
  pthread_mutex_lock(&lock);
  saving **at = &running;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  pthread_mutex_unlock(&lock);
  td_waiter_wake(&ended);
}

static bool is_wanted(saving *s) {
  return !is_ending() && td_errand_wanted(&s->base);
}

/* Does one that was cancelled still clear up where `me` wants to write? */
static bool some_stop(const saving *me) {
  bool some = false;
  pthread_mutex_lock(&lock);
  for (saving *s = running; s && !some; s = s->next)
    some = s != me && strcmp(s->prefix, me->prefix) == 0 && !is_wanted(s);
  pthread_mutex_unlock(&lock);
  return some;
}

static bool may_try(void *arg) {
  saving *s = arg;
  return !is_wanted(s) || !some_stop(s);
}

static bool wait_for_others(saving *s) {
  return td_waiter_wait(&ended, INT64_MAX, NULL, may_try, s) == TD_WAITED_READY;
}

/* The claim of a save that was cancelled is waited for, no other's. */
static td_status *open_alone(saving *s, td_checkpoint_writer **w) {
  for (;;) {
    bool stops = some_stop(s);
    td_status *bad = td_checkpoint_writer_open(s->prefix, w);
    if (td_status_code(bad) != TD_UNAVAILABLE || !stops || !is_wanted(s) ||
        !wait_for_others(s))
      return bad;
    td_status_release(bad);
  }
}

/* ---- writing ------------------------------------------------------------- */

static bool go_on(void *arg, bool last) {
  return is_wanted(arg) && (!last || td_errand_hold(arg));
}

static td_status *put_one(td_checkpoint_writer *w, const td_saved_name *n,
                          const td_tensor *t) {
  if (!n->part || td_slice_is_whole(&n->whole, &n->slice))
    return td_checkpoint_writer_add(w, n->name, t);
  return td_checkpoint_writer_add_slice(w, n->name, &n->whole, &n->slice, t);
}

static td_status *write_all(saving *s) {
  td_checkpoint_writer *w;
  TD_TRY(open_alone(s, &w));
  td_checkpoint_writer_ask(w, go_on, s);
  td_status *bad = NULL;
  for (int64_t i = 0; td_ok(bad) && i < s->names.len; i++) {
    const td_saved_name *n = &s->names.of[i];
    bad = put_one(w, n, &s->tensors[n->at]);
    td_tensor_release(&s->tensors[n->at]);
  }
  if (td_ok(bad)) bad = td_checkpoint_writer_commit(w);
  td_checkpoint_writer_close(w);
  return bad;
}

static td_status *save(td_errand *e) {
  saving *s = (saving *)e;
  TD_TRY(enter(s));
  td_status *bad = write_all(s);
  leave(s);
  return td_saved_twice(bad);
}

/* ---- writing version 1 --------------------------------------------------- */

static td_status *save_v1(td_errand *e) {
  saving *s = (saving *)e;
  size_t n = (size_t)s->names.len;
  td_saved_names_sort(&s->names);
  td_checkpoint_v1_item *items = td_calloc(n, sizeof *items);
  if (!items) return td_oom();
  td_status *bad = enter(s);
  for (size_t i = 0; i < n; i++) {
    const td_saved_name *x = &s->names.of[i];
    items[i] = (td_checkpoint_v1_item){.name = x->name,
                                       .whole = x->part ? &x->whole : NULL,
                                       .slice = x->part ? &x->slice : NULL,
                                       .tensor = &s->tensors[x->at]};
  }
  if (td_ok(bad)) {
    bad = td_checkpoint_v1_write(s->prefix, items, n, go_on, s);
    leave(s);
  }
  td_free(items);
  return td_saved_twice(bad);
}

/* ---- the kernel ---------------------------------------------------------- */

static td_status *check_tensor(const td_saved_name *n, const td_tensor *t) {
  td_shape part;
  td_shape_text have, want;
  if (t->dtype == TD_RESOURCE || t->dtype == TD_VARIANT)
    return td_error(TD_UNIMPLEMENTED,
                    "tensor \"%s\" of dtype %s cannot be saved: it is no value",
                    n->name, td_dtype_name(t->dtype));
  if (!n->part) return NULL;
  TD_TRY(td_slice_shape(&n->whole, &n->slice, &part));
  if (td_shape_equal(&part, &t->shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "tensor \"%s\" of shape %s is no slice of shape %s, which "
                  "shape_and_slices tells of",
                  n->name, td_shape_str(&t->shape, &have),
                  td_shape_str(&part, &want));
}

/* Tensors are the inputs from `first` on: the third tells of slices, if it is
 * none of them. */
static td_status *prepare(td_kernel_ctx *c, saving *s, const char *what,
                          int first) {
  int n = c->n_in - first;
  TD_TRY(td_saved_prefix(td_in(c, 0), what, &s->prefix));
  TD_TRY(td_saved_names_read(td_in(c, 1), first > 2 ? td_in(c, 2) : NULL, n,
                             &s->names));
  for (int64_t i = 0; i < n; i++)
    TD_TRY(check_tensor(&s->names.of[i],
                        td_in(c, first + (int)s->names.of[i].at)));
  s->tensors = td_calloc((size_t)n, sizeof *s->tensors);
  if (!s->tensors) return td_oom();
  for (int i = 0; i < n; i++) {
    s->tensors[i] = c->in[first + i]; /* moved: freed once it is written */
    c->in[first + i] = (td_tensor){.dtype = TD_INVALID};
  }
  return NULL;
}

static void start(td_kernel_ctx *c, const td_errand_kind *kind,
                  const char *what, int first) {
  saving *s = td_calloc(1, sizeof *s);
  td_status *bad = s ? prepare(c, s, what, first) : td_oom();
  if (td_ok(bad)) {
    s->base.kind = kind;
    s->base.what = s->prefix;
    td_errand_start(&s->base, c);
    return;
  }
  if (s) saving_drop(&s->base);
  td_kernel_done(c, bad);
}

static void save_start(td_kernel_ctx *c) {
  static const td_errand_kind kind = {"saves", save, NULL, saving_drop};
  start(c, &kind, "prefix", 3);
}

static const td_errand_kind kind_v1 = {"saves", save_v1, NULL, saving_drop};

static void save_v1_start(td_kernel_ctx *c) {
  start(c, &kind_v1, "filename", 2);
}

static void save_slices_start(td_kernel_ctx *c) {
  start(c, &kind_v1, "filename", 3);
}

static void save_cancel(td_kernel_ctx *c) {
  td_errand_cancel(c);
  td_waiter_wake(&ended);
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *save_infer(td_infer *c) {
  int n = td_infer_inputs(c) - 3;
  TD_TRY(td_infer_rank(c, 0, 0, "prefix", NULL));
  TD_TRY(td_saved_infer(c, 1, n, "tensor_names"));
  return td_saved_infer(c, 2, n, "shape_and_slices");
}

static td_status *save_v1_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "filename", NULL));
  return td_saved_infer(c, 1, td_infer_inputs(c) - 2, "tensor_names");
}

static td_status *save_slices_infer(td_infer *c) {
  int n = td_infer_inputs(c) - 3;
  TD_TRY(td_infer_rank(c, 0, 0, "filename", NULL));
  TD_TRY(td_saved_infer(c, 1, n, "tensor_names"));
  return td_saved_infer(c, 2, n, "shapes_and_slices");
}

#define ROW                                                                    \
  .cost = td_cost_none, .lua = "", .flags = TD_STATEFUL | TD_NO_GRADIENT,      \
  .host = "*", .section = "I/O: readers, checkpoints, files"

static const td_op_def ops[] = {
    {.type = "SaveV2",
     .sig = "prefix: string, tensor_names: string, shape_and_slices: string, "
            "tensors: dtypes -> ; dtypes: list(type) >= 1",
     .shape = save_infer,
     .doc =
         "Writes tensors, or slices of them, to a checkpoint, which is there "
         "as a whole or not at all.",
     ROW},
    {.type = "Save",
     .sig = "filename: string, tensor_names: string, data: T -> ; "
            "T: list(type) >= 1",
     .shape = save_v1_infer,
     .doc = "Writes tensors to a checkpoint of version 1, for old programs.",
     ROW},
    {.type = "SaveSlices",
     .sig = "filename: string, tensor_names: string, "
            "shapes_and_slices: string, data: T -> ; T: list(type) >= 1",
     .shape = save_slices_infer,
     .doc = "Writes tensors and slices to a checkpoint of version 1, for old "
            "programs.",
     ROW},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "SaveV2",
     .device = "CPU",
     .start = save_start,
     .cancel = save_cancel,
     .why = td_errand_why},
    {.op = "Save",
     .device = "CPU",
     .start = save_v1_start,
     .cancel = td_errand_cancel,
     .why = td_errand_why},
    {.op = "SaveSlices",
     .device = "CPU",
     .start = save_slices_start,
     .cancel = td_errand_cancel,
     .why = td_errand_why},
    {0},
};

TD_MODULE(save, ops, kernels)
