/* plumbing.c - constants, placeholders, and ops that hand on what they get.
 *
 * Identity and its kin move their input to the output, or share it: nothing is
 * copied. A constant's tensor is brought into the device's memory once, when
 * the program is compiled, and never written: its buffer is read-only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "engine/base/mem.h"
#include "engine/device/kernel.h"

/* ---- NoOp, Identity, StopGradient, PreventGradient ----------------------- */

static td_status *nothing(td_kernel_ctx *c) {
  (void)c;
  return NULL;
}

static td_status *pass_all(td_kernel_ctx *c) {
  for (int i = 0; i < c->n_out; i++) td_out_pass(c, i, i);
  return NULL;
}

static td_status *each_same(td_infer *c) {
  for (int i = 0; i < td_infer_outputs(c); i++)
    td_infer_out(c, i, *td_infer_in(c, i));
  return NULL;
}

/* ---- Const --------------------------------------------------------------- */

static td_status *const_infer(td_infer *c) {
  td_infer_out(c, 0, td_infer_attr(c, "value")->tensor->shape);
  return NULL;
}

/* Programs of one graph share the buffer and may be compiled at once. */
static void make_readonly(td_buffer *b) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  if (!b->readonly) b->readonly = true;
  pthread_mutex_unlock(&mutex);
}

static td_status *const_make(const td_kernel_info *info, void **state) {
  td_device *d = info->device;
  const td_tensor *value = td_node_attr(info->node, "value")->tensor;
  td_tensor *t = td_alloc_zero(1, sizeof *t);
  if (!t) return td_oom();
  td_status *s = td_device_transfer_wait(d, value, d->memory, t);
  if (!td_ok(s)) {
    td_free(t);
    return s;
  }
  make_readonly(t->buffer);
  *state = t;
  return NULL;
}

static void const_drop(void *state) {
  td_tensor_release(state);
  td_free(state);
}

static td_status *const_run(td_kernel_ctx *c) {
  td_out_set(c, 0, c->kernel->state);
  return NULL;
}

/* ---- Placeholder, PlaceholderWithDefault --------------------------------- */

static td_status *placeholder_infer(td_infer *c) {
  td_infer_out(c, 0, *td_infer_attr_shape(c, "shape"));
  return NULL;
}

/* It only runs where nobody fed it. */
static td_status *placeholder_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  td_shape_text shape;
  return td_error(TD_INVALID_ARGUMENT, "you must feed placeholder %s (%s %s)",
                  n->name, td_dtype_name(n->out[0].dtype),
                  td_shape_str(&n->out[0].shape, &shape));
}

static td_status *check_default(const td_shape *in, const td_shape *want) {
  td_shape_text a, b;
  if (td_shape_compatible(in, want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a default of shape %s for a placeholder of shape %s",
                  td_shape_str(in, &a), td_shape_str(want, &b));
}

static td_status *default_infer(td_infer *c) {
  const td_shape *want = td_infer_attr_shape(c, "shape");
  TD_TRY(check_default(td_infer_in(c, 0), want));
  td_infer_out(c, 0, *want);
  return NULL;
}

static td_status *default_run(td_kernel_ctx *c) {
  const td_attr *want = td_node_attr(td_ctx_node(c), "shape");
  TD_TRY(check_default(&td_in(c, 0)->shape, td_attr_as_shape(want)));
  td_out_pass(c, 0, 0);
  return NULL;
}

/* ---- EnsureShape --------------------------------------------------------- */

static td_status *wrong_shape(const td_shape *in, const td_shape *want) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT, "the tensor must be of shape %s, not %s",
                  td_shape_str(want, &b), td_shape_str(in, &a));
}

static td_status *ensure_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  const td_shape *want = td_infer_attr_shape(c, "shape");
  td_shape shape;
  if (!td_shape_merge(in, want, &shape)) return wrong_shape(in, want);
  td_infer_out(c, 0, shape);
  return NULL;
}

static td_status *ensure_run(td_kernel_ctx *c) {
  const td_shape *want = td_node_attr(td_ctx_node(c), "shape")->shape;
  const td_shape *in = &td_in(c, 0)->shape;
  if (!td_shape_compatible(in, want)) return wrong_shape(in, want);
  td_out_pass(c, 0, 0);
  return NULL;
}

/* ---- CheckNumerics ------------------------------------------------------- */

enum { HAS_NAN = 1, HAS_INF = 2, SCAN_GRAIN = 1 << 16 };

typedef struct scan {
  const void *at;
  td_dtype dtype;
  unsigned found; /* atomic: HAS_NAN, HAS_INF */
} scan;

/* Without its sign a float is infinite when it equals `inf`, a NaN above. */
static unsigned scan_16(const uint16_t *x, int64_t n, unsigned inf) {
  unsigned found = 0;
  for (int64_t i = 0; i < n; i++) {
    unsigned bits = x[i] & 0x7fffu;
    found |= bits > inf ? HAS_NAN : bits == inf ? HAS_INF : 0;
  }
  return found;
}

static unsigned scan_32(const uint32_t *x, int64_t n) {
  unsigned found = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = x[i] & 0x7fffffffu, inf = 0x7f800000u;
    found |= bits > inf ? HAS_NAN : bits == inf ? HAS_INF : 0;
  }
  return found;
}

static unsigned scan_64(const uint64_t *x, int64_t n) {
  unsigned found = 0;
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = x[i] & UINT64_MAX >> 1, inf = (uint64_t)0x7ff << 52;
    found |= bits > inf ? HAS_NAN : bits == inf ? HAS_INF : 0;
  }
  return found;
}

static void scan_piece(void *arg, int64_t begin, int64_t end) {
  scan *s = arg;
  unsigned found;
  int64_t n = end - begin;
  if (s->dtype == TD_FLOAT64)
    found = scan_64((const uint64_t *)s->at + begin, n);
  else if (s->dtype == TD_FLOAT32)
    found = scan_32((const uint32_t *)s->at + begin, n);
  else
    found = scan_16((const uint16_t *)s->at + begin, n,
                    s->dtype == TD_FLOAT16 ? 0x7c00 : 0x7f80);
  if (found) __atomic_fetch_or(&s->found, found, __ATOMIC_RELAXED);
}

static td_status *check_numerics(td_kernel_ctx *c) {
  static const char *const what[] = {"", "NaN", "Inf", "Inf and NaN"};
  const td_tensor *x = td_in(c, 0);
  scan s = {.at = x->data, .dtype = x->dtype};
  td_for(c, td_tensor_count(x), SCAN_GRAIN, scan_piece, &s);
  if (s.found)
    return td_error(TD_INVALID_ARGUMENT, "%s : Tensor had %s values",
                    td_node_string(td_ctx_node(c), "message"), what[s.found]);
  td_out_pass(c, 0, 0);
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION .section = "Graph plumbing, feeds/fetches, no-ops"

static const td_op_def ops[] = {
    {.type = "NoOp",
     .sig = "->",
     .shape = td_shape_none,
     .doc = "Does nothing; a place for control edges.",
     .kind = TD_KIND_NOOP,
     .flags = TD_CHEAP | TD_NO_GRADIENT,
     SECTION},
    {.type = "Const",
     .sig = "-> output: dtype; value: tensor; dtype: type",
     .shape = const_infer,
     .doc = "A constant tensor.",
     .lua = "constant",
     .kind = TD_KIND_CONST,
     .flags = TD_CHEAP | TD_NO_GRADIENT,
     SECTION},
    {.type = "Placeholder",
     .sig = "-> output: dtype; dtype: type; shape: shape = ?",
     .shape = placeholder_infer,
     .doc = "A tensor that must be fed.",
     .kind = TD_KIND_PLACEHOLDER,
     .flags = TD_CHEAP | TD_NO_FOLD,
     SECTION},
    {.type = "PlaceholderWithDefault",
     .sig = "input: dtype -> output: dtype; dtype: type; shape: shape",
     .shape = default_infer,
     .doc = "Passes its input on unless something else is fed.",
     .flags = TD_CHEAP,
     SECTION},
    {.type = "Identity",
     .sig = "input: T -> output: T; T: type",
     .shape = td_shape_same,
     .doc = "The input.",
     .kind = TD_KIND_IDENTITY,
     .flags = TD_CHEAP,
     .example = "td.identity(td.tensor{1, 2})  --> {1, 2}",
     SECTION},
    {.type = "IdentityN",
     .sig = "input: T -> output: T; T: list(type) >= 1",
     .shape = each_same,
     .doc = "The inputs, each as it is.",
     .kind = TD_KIND_IDENTITY,
     .flags = TD_CHEAP,
     .example = "td.identity_n({{1, 2}, {3}})[1]  --> 1 2",
     SECTION},
    {.type = "StopGradient",
     .sig = "input: T -> output: T; T: type",
     .shape = td_shape_same,
     .doc = "The input, as a constant to gradients.",
     .kind = TD_KIND_IDENTITY,
     .flags = TD_CHEAP | TD_NO_GRADIENT,
     .example = "td.stop_gradient(td.tensor{1, 2})  --> {1, 2}",
     SECTION},
    {.type = "PreventGradient",
     .sig = "input: T -> output: T; T: type; message: string = \"\"",
     .shape = td_shape_same,
     .doc = "The input; asking for a gradient through it is an error.",
     .lua = "",
     .kind = TD_KIND_IDENTITY,
     .flags = TD_CHEAP,
     SECTION},
    {.type = "EnsureShape",
     .sig = "input: T -> output: T; shape: shape; T: type",
     .shape = ensure_infer,
     .doc = "The input, or an error when it is not of that shape.",
     .flags = TD_CHEAP,
     .example = "td.ensure_shape(td.tensor{1, 2}, {shape = {-1}})  --> {1, 2}",
     SECTION},
    {.type = "Snapshot",
     .sig = "input: T -> output: T; T: type",
     .shape = td_shape_same,
     .doc = "The input as it is now; values never change here.",
     .flags = TD_CHEAP,
     .lua = "",
     .section = "Beyond"},
    {.type = "DeepCopy",
     .sig = "x: T -> y: T; T: type",
     .shape = td_shape_same,
     .doc = "The input: values are never changed, so a share is as good as a "
            "copy.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .lua = "",
     .section = "Beyond"},
    {.type = "GuaranteeConst",
     .sig = "input: T -> output: T; T: type",
     .shape = td_shape_same,
     .doc = "The input, which its maker promises never to change.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .lua = "",
     .section = "Beyond"},
    {.type = "CheckNumericsV2",
     .sig = "tensor: T -> output: T; T: {bfloat16, half, float, double}; "
            "message: string",
     .shape = td_shape_same,
     .doc = "As CheckNumerics.",
     .flags = TD_STATEFUL,
     .lua = "",
     .section = "Beyond"},
    {.type = "CheckNumerics",
     .sig = "tensor: T -> output: T; T: {bfloat16, half, float, double}; "
            "message: string",
     .shape = td_shape_same,
     .doc = "The input, or an error when it holds a NaN or an infinity.",
     .flags = TD_STATEFUL,
     SECTION},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE

static const td_kernel_def kernels[] = {
    {.op = "NoOp", .run = nothing, CPU},
    {.op = "Const",
     .device = "CPU",
     .run = const_run,
     .make = const_make,
     .drop = const_drop,
     .flags = TD_KERNEL_INLINE | TD_KERNEL_OWN},
    {.op = "Placeholder", .run = placeholder_run, CPU},
    {.op = "PlaceholderWithDefault", .run = default_run, CPU},
    {.op = "Identity", .run = pass_all, CPU},
    {.op = "IdentityN", .run = pass_all, CPU},
    {.op = "StopGradient", .run = pass_all, CPU},
    {.op = "PreventGradient", .run = pass_all, CPU},
    {.op = "EnsureShape", .run = ensure_run, CPU},
    {.op = "Snapshot", .run = pass_all, CPU},
    {.op = "DeepCopy", .run = pass_all, CPU},
    {.op = "GuaranteeConst", .run = pass_all, CPU},
    {.op = "CheckNumericsV2", .device = "CPU", .run = check_numerics},
    {.op = "CheckNumerics", .device = "CPU", .run = check_numerics},
    {0},
};

TD_MODULE(plumbing, ops, kernels)
