/* session_tensor.c - tensors that stay in a session from step to step, by a
 * handle.
 *
 * They lie in the session's own container, so that they end with it, under a
 * name that nobody else has: what another session gave out is not found here.
 * They lie in host memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/entropy.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/device/kernel.h"
#include "engine/device/resource.h"
#include "kernels/cost.h"

static const char type[] = "session tensor";

typedef struct kept {
  td_resource base; /* first */
  td_tensor value;
} kept;

static void kept_free(td_object *o) {
  kept *k = (kept *)o;
  td_tensor_release(&k->value);
  td_resource_deinit(&k->base);
  td_free(k);
}

static td_status *kept_make(void *arg, td_resource **out) {
  kept *k = td_calloc(1, sizeof *k);
  if (!k) return td_oom();
  k->base.object =
      (td_object){.refs = 1, .type = type, .free = kept_free, .named = true};
  td_tensor_retain(arg, &k->value);
  *out = &k->base;
  return NULL;
}

static td_status *in_session(const td_kernel_ctx *c) {
  if (c->step->own) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "a tensor can only be kept in a session");
}

/* ---- keeping ------------------------------------------------------------- */

static td_status *keep(td_kernel_ctx *c, td_resource **out) {
  td_str name;
  TD_TRY(in_session(c));
  unsigned long long id[] = {td_entropy(), td_entropy()};
  td_str_init(&name);
  td_str_addf(&name, "%s;%016llx%016llx", td_ctx_node(c)->name, id[0], id[1]);
  td_status *s = name.failed ? td_oom() : NULL;
  if (td_ok(s))
    s = td_resources_get(c->step->own, "", type, td_str_c(&name), kept_make,
                         (void *)td_in(c, 0), out);
  td_str_deinit(&name);
  return s;
}

/* A handle that nobody gets is worth nothing. */
static td_status *give(td_kernel_ctx *c, td_resource *r, td_status *s) {
  if (!td_ok(s))
    td_status_release(td_resources_remove(c->step->own, "", r->name));
  return s;
}

static td_status *handle_run(td_kernel_ctx *c) {
  td_resource *r = NULL;
  td_shape scalar = td_shape_scalar();
  TD_TRY(keep(c, &r));
  size_t len = strlen(r->name);
  td_status *s = td_tensor_strings(&scalar, &r->name, &len, &c->out[0]);
  s = give(c, r, s);
  td_object_release(&r->object);
  return s;
}

static td_status *handle_v2_run(td_kernel_ctx *c) {
  td_resource *r = NULL;
  TD_TRY(keep(c, &r));
  td_object_retain(&r->object);
  td_status *s =
      give(c, r, td_tensor_object(TD_RESOURCE, &r->object, &c->out[0]));
  td_object_release(&r->object);
  return s;
}

/* ---- using it ------------------------------------------------------------ */

static td_status *not_there(const char *name, td_status *s) {
  if (td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status_release(s);
  return td_error(TD_INVALID_ARGUMENT,
                  "this session keeps no tensor of handle \"%.200s\": it was "
                  "deleted, or another session gave it out",
                  name);
}

/* The tensor whose handle is input 0. Caller owns *out. */
static td_status *find(const td_kernel_ctx *c, kept **out) {
  const td_tensor *t = td_in(c, 0);
  size_t len;
  TD_TRY(in_session(c));
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "handle must be a scalar, not of rank "
                    "%d",
                    t->shape.rank);
  const char *at = td_tensor_str(t, 0, &len);
  char *name = td_malloc(len + 1);
  if (!name) return td_oom();
  if (len) memcpy(name, at, len);
  name[len] = '\0';
  td_status *s = td_resources_get(c->step->own, "", type, name, NULL, NULL,
                                  (td_resource **)out);
  if (!td_ok(s)) s = not_there(name, s);
  td_free(name);
  return s;
}

static td_status *tensor_run(td_kernel_ctx *c) {
  kept *k = NULL;
  td_dtype dtype = td_kernel_type(c->kernel, 0);
  td_status *s = NULL;
  TD_TRY(find(c, &k));
  if (k->value.dtype == dtype)
    td_out_set(c, 0, &k->value);
  else
    s = td_error(TD_INVALID_ARGUMENT,
                 "the tensor of handle %s is %s and cannot be had as %s",
                 k->base.name, td_dtype_name(k->value.dtype),
                 td_dtype_name(dtype));
  td_object_release(&k->base.object);
  return s;
}

static td_status *delete_run(td_kernel_ctx *c) {
  kept *k = NULL;
  TD_TRY(find(c, &k));
  td_status *s = td_resources_remove(c->step->own, "", k->base.name);
  if (!td_ok(s)) s = not_there(k->base.name, s); /* another was quicker */
  td_object_release(&k->base.object);
  return s;
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *by_handle_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "handle", NULL));
  return td_infer_any(c);
}

#define SECTION                                                                \
  .cost = td_cost_none, .lua = "", .host = "*",                                \
  .section = "Data flow: queues, stacks, arrays, accumulators",                \
  .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP

static const td_op_def ops[] = {
    {.type = "GetSessionHandle",
     .sig = "value: T -> handle: string; T: type",
     .shape = td_infer_scalars,
     .doc = "Keeps a tensor in the session, for later steps, by a handle.",
     SECTION},
    {.type = "GetSessionHandleV2",
     .sig = "value: T -> handle: resource; T: type",
     .shape = td_infer_scalars,
     .doc = "Keeps a tensor in the session; its handle is the name of what it "
            "gives.",
     SECTION},
    {.type = "GetSessionTensor",
     .sig = "handle: string -> value: dtype; dtype: type",
     .shape = by_handle_infer,
     .doc = "The tensor that a session keeps by a handle.",
     SECTION},
    {.type = "DeleteSessionTensor",
     .sig = "handle: string ->",
     .shape = by_handle_infer,
     .doc = "Has a session keep the tensor of a handle no more.",
     SECTION},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE

static const td_kernel_def kernels[] = {
    {.op = "GetSessionHandle", .run = handle_run, CPU},
    {.op = "GetSessionHandleV2", .run = handle_v2_run, CPU},
    {.op = "GetSessionTensor", .run = tensor_run, CPU},
    {.op = "DeleteSessionTensor", .run = delete_run, CPU},
    {0},
};

TD_MODULE(session_tensor, ops, kernels)
