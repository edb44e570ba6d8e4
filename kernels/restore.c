/* restore.c - RestoreV2, Restore and RestoreSlice: tensors of a checkpoint, of
 * either version, as an errand.
 *
 * All names, dtypes and shapes are compared before anything is read, then
 * tensors are read in the order in which they stand in the files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/nearest.h"
#include "engine/io/checkpoint_v1.h"
#include "kernels/cost.h"
#include "kernels/errand.h"
#include "kernels/saved_names.h"
#include "kernels/text.h"

typedef struct wanted {
  td_checkpoint_entry e;
  const td_saved_name *name;
} wanted;

typedef struct restoring {
  td_errand base; /* first */
  char *prefix;
  bool old_first; /* a file of version 1 goes before one of version 2 */
  td_saved_names names;
  td_dtype *dtypes;   /* wanted, by place */
  td_device *device;  /* whose host memory the tensors are to be in; held */
  td_tensor *tensors; /* read, by place */
} restoring;

static void restoring_drop(td_errand *e) {
  restoring *r = (restoring *)e;
  for (int64_t i = 0; r->tensors && i < r->names.len; i++)
    td_tensor_release(&r->tensors[i]);
  td_free(r->tensors);
  td_free(r->dtypes);
  td_saved_names_free(&r->names);
  td_device_release(r->device);
  td_free(r->prefix);
  td_free(r);
}

/* ---- either version ------------------------------------------------------ */

typedef struct source {
  td_checkpoint *v2; /* one of both */
  td_checkpoint_v1 *v1;
} source;

static td_status *open_one(const char *prefix, bool old, source *out) {
  return old ? td_checkpoint_v1_open(prefix, &out->v1)
             : td_checkpoint_open(prefix, &out->v2);
}

static td_status *open_either(const restoring *r, source *out) {
  *out = (source){0};
  for (int i = 0; i < 2; i++) {
    td_status *s = open_one(r->prefix, r->old_first == (i == 0), out);
    if (td_status_code(s) != TD_NOT_FOUND) return s;
    td_status_release(s);
  }
  return td_error(TD_NOT_FOUND,
                  "there is no checkpoint '%s': neither '%s.index' nor a file "
                  "of version 1",
                  r->prefix, r->prefix);
}

static void close_either(source *c) {
  td_checkpoint_close(c->v2);
  td_checkpoint_v1_close(c->v1);
}

static bool find(const source *c, const char *name, td_checkpoint_entry *out) {
  return c->v2 ? td_checkpoint_find(c->v2, name, out)
               : td_checkpoint_v1_find(c->v1, name, out);
}

static size_t count(const source *c) {
  return c->v2 ? td_checkpoint_count(c->v2) : td_checkpoint_v1_count(c->v1);
}

static const char *name_at(const source *c, size_t i) {
  return c->v2 ? td_checkpoint_at(c->v2, i).name
               : td_checkpoint_v1_name(c->v1, i);
}

static td_status *read_one(const restoring *r, const source *c,
                           const wanted *w) {
  const td_slice *part = w->name->part ? &w->name->slice : NULL;
  td_tensor *out = &r->tensors[w->name->at];
  return c->v2 ? td_checkpoint_read(c->v2, &w->e, part, r->device->host, out)
               : td_checkpoint_v1_read(c->v1, &w->e, part, out);
}

/* ---- what is missing, or another ----------------------------------------- */

enum { MOST_NAMED = 5 };

/* "x", or "x" (did you mean "y"?) */
static void name_missing(const source *c, const char *name, td_str *out) {
  td_hint hint;
  td_nearest near = td_nearest_to(name);
  for (size_t i = 0; i < count(c); i++) td_nearest_try(&near, name_at(c, i));
  td_str_addf(out, "\"%s\"%s", name, td_nearest_hint(&near, &hint));
}

/* NOT_FOUND if names of `r` are none of the checkpoint's. */
static td_status *check_names(const restoring *r, const source *c) {
  td_checkpoint_entry e;
  td_str list = {0};
  int64_t n = 0;
  for (int64_t i = 0; i < r->names.len; i++) {
    if (find(c, r->names.of[i].name, &e)) continue;
    if (n > 0 && n < MOST_NAMED) td_str_add(&list, ", ");
    if (n++ < MOST_NAMED) name_missing(c, r->names.of[i].name, &list);
  }
  if (n > MOST_NAMED)
    td_str_addf(&list, " and %lld more", (long long)(n - MOST_NAMED));
  td_status *s = NULL;
  if (n > 0)
    s = td_error(TD_NOT_FOUND, "checkpoint '%s' has no tensor%s %s", r->prefix,
                 n > 1 ? "s" : "", td_str_c(&list));
  if (list.failed) {
    td_status_release(s);
    s = td_oom();
  }
  td_str_deinit(&list);
  return s;
}

static td_status *check_entry(const restoring *r, const wanted *w) {
  td_shape_text have, want;
  td_dtype dtype = r->dtypes[w->name->at];
  if (w->e.dtype != dtype)
    return td_error(TD_INVALID_ARGUMENT,
                    "checkpoint '%s' has tensor \"%s\" as %s, and it is to be "
                    "restored as %s",
                    r->prefix, w->name->name, td_dtype_name(w->e.dtype),
                    td_dtype_name(dtype));
  if (!w->name->part || td_shape_equal(&w->e.shape, &w->name->whole))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "checkpoint '%s' has tensor \"%s\" of shape %s, and "
                  "shape_and_slices takes a part of one of shape %s",
                  r->prefix, w->name->name, td_shape_str(&w->e.shape, &have),
                  td_shape_str(&w->name->whole, &want));
}

/* ---- reading ------------------------------------------------------------- */

/* Tensors in slices last, as their slices are anywhere. */
static int by_place(const void *a, const void *b) {
  const wanted *x = a, *y = b;
  if (!x->e.n_slices != !y->e.n_slices) return x->e.n_slices ? 1 : -1;
  if (x->e.shard != y->e.shard) return x->e.shard < y->e.shard ? -1 : 1;
  if (x->e.offset != y->e.offset) return x->e.offset < y->e.offset ? -1 : 1;
  return 0;
}

static td_status *read_all(restoring *r, const source *c, wanted *w) {
  TD_TRY(check_names(r, c));
  for (int64_t i = 0; i < r->names.len; i++) {
    w[i].name = &r->names.of[i];
    (void)find(c, w[i].name->name, &w[i].e);
    TD_TRY(check_entry(r, &w[i]));
  }
  qsort(w, (size_t)r->names.len, sizeof *w, by_place);
  for (int64_t i = 0; i < r->names.len; i++) {
    if (!td_errand_wanted(&r->base))
      return td_error(TD_CANCELLED, "restoring was stopped");
    TD_TRY(read_one(r, c, &w[i]));
  }
  return NULL;
}

static bool go_on(void *arg, bool last) {
  (void)last;
  return td_errand_wanted(arg);
}

static td_status *restore(td_errand *e) {
  restoring *r = (restoring *)e;
  source c;
  TD_TRY(open_either(r, &c));
  if (c.v2) td_checkpoint_ask(c.v2, go_on, e);
  wanted *w = td_calloc((size_t)r->names.len, sizeof *w);
  td_status *s = w ? read_all(r, &c, w) : td_oom();
  td_free(w);
  close_either(&c);
  return s;
}

static td_status *give(td_errand *e, td_kernel_ctx *c) {
  const restoring *r = (const restoring *)e;
  for (int i = 0; i < c->n_out; i++) td_out_set(c, i, &r->tensors[i]);
  return NULL;
}

/* ---- the kernel ---------------------------------------------------------- */

static td_status *prepare(td_kernel_ctx *c, restoring *r) {
  size_t n = (size_t)c->n_out;
  r->dtypes = td_calloc(n, sizeof *r->dtypes);
  r->tensors = td_calloc(n, sizeof *r->tensors);
  if (!r->dtypes || !r->tensors) return td_oom();
  for (int i = 0; i < c->n_out; i++)
    r->dtypes[i] = td_kernel_type(c->kernel, i);
  r->device = td_device_retain(c->kernel->device);
  return NULL;
}

static td_status *prepare_many(td_kernel_ctx *c, restoring *r) {
  TD_TRY(prepare(c, r));
  TD_TRY(td_saved_prefix(td_in(c, 0), "prefix", &r->prefix));
  return td_saved_names_read(td_in(c, 1), td_in(c, 2), c->n_out, &r->names);
}

/* A scalar as a vector of one; the same buffer, not held. */
static td_status *vector_of(const td_tensor *t, const char *what,
                            td_tensor *out) {
  td_shape_text text;
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not of shape %s",
                    what, td_shape_str(&t->shape, &text));
  *out = *t;
  out->shape = td_shape_vector(1);
  return NULL;
}

static td_status *prepare_old(td_kernel_ctx *c, restoring *r) {
  td_tensor name, part;
  r->old_first = true;
  TD_TRY(prepare(c, r));
  TD_TRY(td_saved_prefix(td_in(c, 0), "file_pattern", &r->prefix));
  TD_TRY(vector_of(td_in(c, 1), "tensor_name", &name));
  if (c->n_in == 2) return td_saved_names_read(&name, NULL, 1, &r->names);
  TD_TRY(vector_of(td_in(c, 2), "shape_and_slice", &part));
  return td_saved_names_read(&name, &part, 1, &r->names);
}

static void start(td_kernel_ctx *c,
                  td_status *(*prepare_it)(td_kernel_ctx *c, restoring *r)) {
  static const td_errand_kind kind = {"restores", restore, give,
                                      restoring_drop};
  restoring *r = td_calloc(1, sizeof *r);
  td_status *bad = r ? prepare_it(c, r) : td_oom();
  if (td_ok(bad)) {
    r->base.kind = &kind;
    r->base.what = r->prefix;
    td_errand_start(&r->base, c);
    return;
  }
  if (r) restoring_drop(&r->base);
  td_kernel_done(c, bad);
}

static void restore_start(td_kernel_ctx *c) {
  start(c, prepare_many);
}

static void restore_old_start(td_kernel_ctx *c) {
  start(c, prepare_old);
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *restore_infer(td_infer *c) {
  int n = td_infer_outputs(c);
  TD_TRY(td_infer_rank(c, 0, 0, "prefix", NULL));
  TD_TRY(td_saved_infer(c, 1, n, "tensor_names"));
  TD_TRY(td_saved_infer(c, 2, n, "shape_and_slices"));
  const td_tensor *parts = td_infer_const(c, 2);
  for (int i = 0; parts && i < n; i++) {
    td_shape shape;
    TD_TRY(td_saved_shape(td_text_at(parts, i), &shape));
    td_infer_out(c, i, shape);
  }
  return NULL;
}

static td_status *restore_old_infer(td_infer *c) {
  static const char *const names[] = {"file_pattern", "tensor_name",
                                      "shape_and_slice"};
  int n = td_infer_inputs(c);
  td_shape shape = td_shape_unknown();
  for (int i = 0; i < n; i++) TD_TRY(td_infer_rank(c, i, 0, names[i], NULL));
  const td_tensor *part = n > 2 ? td_infer_const(c, 2) : NULL;
  if (part) TD_TRY(td_saved_shape(td_text_at(part, 0), &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

#define ROW                                                                    \
  .cost = td_cost_none, .lua = "", .flags = TD_STATEFUL | TD_NO_GRADIENT,      \
  .host = "*", .section = "I/O: readers, checkpoints, files"

static const td_op_def ops[] = {
    {.type = "RestoreV2",
     .sig = "prefix: string, tensor_names: string, shape_and_slices: string -> "
            "tensors: dtypes; dtypes: list(type) >= 1",
     .shape = restore_infer,
     .doc = "Tensors of a checkpoint, or slices of them, by their names.",
     ROW},
    {.type = "Restore",
     .sig = "file_pattern: string, tensor_name: string -> tensor: dt; "
            "dt: type; preferred_shard: int = -1",
     .shape = restore_old_infer,
     .doc = "A tensor of a checkpoint of version 1.",
     ROW},
    {.type = "RestoreSlice",
     .sig = "file_pattern: string, tensor_name: string, "
            "shape_and_slice: string -> tensor: dt; "
            "dt: type; preferred_shard: int = -1",
     .shape = restore_old_infer,
     .doc = "A slice of a tensor of a checkpoint of version 1.",
     ROW},
    {0},
};

#define KERNEL .device = "CPU", .cancel = td_errand_cancel, .why = td_errand_why

static const td_kernel_def kernels[] = {
    {.op = "RestoreV2", .start = restore_start, KERNEL},
    {.op = "Restore", .start = restore_old_start, KERNEL},
    {.op = "RestoreSlice", .start = restore_old_start, KERNEL},
    {0},
};

TD_MODULE(restore, ops, kernels)
