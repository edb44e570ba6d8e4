/* optional.c - tensors that may be absent, as a variant.
 *
 * The gradient that TensorFlow 2 takes of a branch wants values of the branch
 * that was taken; for those of the other one there are optionals without value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/variant.h"

typedef struct optional {
  td_variant variant; /* first: an optional is a td_variant */
  int32_t n;          /* values */
  td_tensor at[];     /* n of them, counted each */
} optional;

static td_status *zeros_of(td_kernel_ctx *c, const td_variant *v,
                           td_variant **out);
static td_status *sum_of(td_kernel_ctx *c, const td_variant *a,
                         const td_variant *b, td_variant **out);

static const td_variant_class optional_class = {
    .name = "optional", .zeros = zeros_of, .sum = sum_of};

/* ---- life ---------------------------------------------------------------- */

static void optional_free(td_object *o) {
  optional *x = (optional *)o;
  for (int32_t i = 0; i < x->n; i++) td_tensor_release(&x->at[i]);
  td_free(x);
}

static void release(optional *x) {
  td_object_release(&x->variant.object);
}

/* Its values are TD_INVALID. */
static td_status *new_optional(int32_t n, optional **out) {
  optional *x = td_calloc(1, sizeof *x + (size_t)n * sizeof *x->at);
  if (!x) return td_oom();
  x->variant.object =
      (td_object){.refs = 1, .type = td_variant_type, .free = optional_free};
  x->variant.of = &optional_class;
  x->n = n;
  *out = x;
  return NULL;
}

/* ---- zeros and sums ------------------------------------------------------ */

static td_status *zeros_of(td_kernel_ctx *c, const td_variant *v,
                           td_variant **out) {
  const optional *from = (const optional *)v;
  td_status *s = NULL;
  optional *x = NULL;
  TD_TRY(new_optional(from->n, &x));
  x->variant.depth = v->depth;
  for (int32_t i = 0; i < from->n && td_ok(s); i++)
    s = td_variant_zeros_like(c, &from->at[i], &x->at[i]);
  if (td_ok(s))
    *out = &x->variant;
  else
    release(x);
  return s;
}

static td_status *sum_of(td_kernel_ctx *c, const td_variant *v,
                         const td_variant *w, td_variant **out) {
  const optional *a = (const optional *)v, *b = (const optional *)w;
  td_status *s = NULL;
  optional *x = NULL;
  if (a->n != b->n)
    return td_error(TD_INVALID_ARGUMENT,
                    "optionals cannot be added of which one has %d values, the "
                    "other %d",
                    a->n, b->n);
  TD_TRY(new_optional(a->n, &x));
  x->variant.depth = v->depth > w->depth ? v->depth : w->depth;
  for (int32_t i = 0; i < a->n && td_ok(s); i++)
    s = td_variant_sum(c, &a->at[i], &b->at[i], &x->at[i]);
  if (td_ok(s))
    *out = &x->variant;
  else
    release(x);
  return s;
}

/* ---- kernels ------------------------------------------------------------- */

static td_status *none_run(td_kernel_ctx *c) {
  td_variant *v = NULL;
  TD_TRY(td_variant_none(&v));
  return td_variant_out(c, 0, v);
}

static td_status *from_run(td_kernel_ctx *c) {
  td_status *s = NULL;
  optional *x = NULL;
  TD_TRY(new_optional(c->n_in, &x));
  for (int i = 0; i < c->n_in && td_ok(s); i++) {
    s = td_variant_holds(&x->variant, td_in(c, i));
    if (td_ok(s)) td_tensor_retain(td_in(c, i), &x->at[i]);
  }
  if (td_ok(s)) return td_variant_out(c, 0, &x->variant);
  release(x);
  return s;
}

/* NULL: it has no value. */
static td_status *optional_in(const td_kernel_ctx *c, const optional **out) {
  const td_variant *v = NULL;
  TD_TRY(td_variant_in(c, 0, NULL, "optional", &v));
  *out = NULL;
  if (v->of == &td_variant_nothing) return NULL;
  TD_TRY(td_variant_in(c, 0, &optional_class, "optional", &v));
  *out = (const optional *)v;
  return NULL;
}

static td_status *has_run(td_kernel_ctx *c) {
  const optional *x = NULL;
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(optional_in(c, &x));
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(bool *)y->data = x != NULL;
  return NULL;
}

static td_status *check_value(const td_kernel_ctx *c, const optional *x,
                              int i) {
  const td_attr *said = td_node_attr(td_ctx_node(c), "output_shapes");
  td_dtype want = td_ctx_node(c)->out[i].dtype;
  const td_tensor *t = &x->at[i];
  td_shape_text a, b;
  if (t->dtype != want)
    return td_error(TD_INVALID_ARGUMENT, "value %d is %s, not %s", i,
                    td_dtype_name(t->dtype), td_dtype_name(want));
  if (i < said->len && !td_shape_compatible(&said->shapes[i], &t->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "value %d is of shape %s, but output_shapes says %s", i,
                    td_shape_str(&t->shape, &a),
                    td_shape_str(&said->shapes[i], &b));
  return NULL;
}

static td_status *get_run(td_kernel_ctx *c) {
  const optional *x = NULL;
  TD_TRY(optional_in(c, &x));
  if (!x)
    return td_error(TD_INVALID_ARGUMENT,
                    "the optional has no value; OptionalHasValue tells before");
  if (x->n != c->n_out)
    return td_error(TD_INVALID_ARGUMENT, "the optional has %d values, not %d",
                    x->n, c->n_out);
  for (int i = 0; i < c->n_out; i++) {
    TD_TRY(check_value(c, x, i));
    td_out_set(c, i, &x->at[i]);
  }
  return NULL;
}

/* Never looked at: the place of a value in a branch that does not compute it.
 */
static td_status *fake_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  td_shape shape = *td_attr_as_shape(td_node_attr(n, "shape"));
  td_tensor t;
  if (shape.rank < 0) shape = td_shape_scalar();
  for (int k = 0; k < shape.rank; k++)
    if (shape.dim[k] < 0) shape.dim[k] = 0;
  if (n->out[0].dtype == TD_RESOURCE)
    return td_error(TD_INVALID_ARGUMENT, "there is no fake resource");
  TD_TRY(td_variant_zeros(c, n->out[0].dtype, &shape, &t));
  td_out_set(c, 0, &t);
  td_tensor_release(&t);
  return NULL;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *fake_infer(td_infer *c) {
  td_infer_out(c, 0, *td_infer_attr_shape(c, "shape"));
  return NULL;
}

static td_status *get_infer(td_infer *c) {
  const td_attr *said = td_infer_attr(c, "output_shapes");
  TD_TRY(td_infer_rank(c, 0, 0, "optional", NULL));
  if (said->len != td_infer_outputs(c))
    return td_error(TD_INVALID_ARGUMENT,
                    "output_shapes must be a shape for each of %d values, has "
                    "%d",
                    td_infer_outputs(c), said->len);
  for (int i = 0; i < said->len; i++) td_infer_out(c, i, said->shapes[i]);
  return NULL;
}

static td_status *has_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "optional", NULL));
  return td_infer_scalars(c);
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators",                \
  .cost = td_cost_none, .host = "*", .lua = ""

static const td_op_def ops[] = {
    {.type = "OptionalNone",
     .sig = "-> optional: variant",
     .shape = td_infer_scalars,
     .doc = "An optional without value.",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {.type = "OptionalFromValue",
     .sig = "components: Toutput_types -> optional: variant; "
            "Toutput_types: list(type) >= 1",
     .shape = td_infer_scalars,
     .doc = "An optional that has these tensors for its value.",
     SECTION},
    {.type = "OptionalHasValue",
     .sig = "optional: variant -> has_value: bool",
     .shape = has_infer,
     .doc = "Does the optional have a value?",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {.type = "OptionalGetValue",
     .sig = "optional: variant -> components: output_types; "
            "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
     .shape = get_infer,
     .doc = "The value of an optional that has one.",
     SECTION},
    {.type = "FakeParam",
     .sig = "-> output: dtype; dtype: type; shape: shape",
     .shape = fake_infer,
     .doc = "Stands for a value that nobody will look at.",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "OptionalNone", .device = "CPU", .run = none_run},
    {.op = "OptionalFromValue", .device = "CPU", .run = from_run},
    {.op = "OptionalHasValue", .device = "CPU", .run = has_run},
    {.op = "OptionalGetValue", .device = "CPU", .run = get_run},
    {.op = "FakeParam", .device = "CPU", .run = fake_run},
    {0},
};

TD_MODULE(optional, ops, kernels)
