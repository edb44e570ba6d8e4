/* mutate.c - inputs that nobody asked for.
 *
 * Each input of a case in turn is replaced by one of another rank, without
 * elements, longer, shorter, turned round, or of extreme values; also two at
 * once: without elements, the same tensor, the lowest number and -1. The node
 * is built twice, with everything known of its inputs and with nothing, so that
 * the shape function and the kernel are each alone with the mistake.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/rows/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int changed_accepted, changed_refused;

/* ---- new tensors --------------------------------------------------------- */

/* Elements of `from`, again and again, in another shape. */
td_tensor refill(const td_tensor *from, td_shape shape) {
  td_tensor t;
  int64_t n = td_shape_count(&shape), m = td_tensor_count(from);
  if (from->dtype == TD_STRING) {
    const char *at[64];
    size_t len[64];
    assert_true(n <= 64);
    for (int64_t i = 0; i < n; i++) {
      at[i] = m ? td_tensor_str(from, i % m, &len[i]) : "s";
      if (!m) len[i] = 1;
    }
    OK(td_tensor_strings(&shape, at, len, &t));
    return t;
  }
  OK(td_tensor_new(NULL, from->dtype, &shape, &t));
  size_t size = td_dtype_size(from->dtype);
  if (m == 0) memset(t.data, 0, (size_t)n * size);
  for (int64_t i = 0; m && i < n; i++)
    memcpy((char *)t.data + (size_t)i * size,
           (const char *)from->data + (size_t)(i % m) * size, size);
  return t;
}

static td_shape with_dim(td_shape s, int k, int64_t n) {
  s.dim[k] = n;
  return s;
}

/* A new dimension of size 1 at k. */
static td_shape inserted(td_shape s, int k) {
  if (s.rank == TD_MAX_RANK) return s;
  for (int i = s.rank++; i > k; i--) s.dim[i] = s.dim[i - 1];
  s.dim[k] = 1;
  return s;
}

static td_shape without(td_shape s, int k) {
  for (s.rank--; k < s.rank; k++) s.dim[k] = s.dim[k + 1];
  return s;
}

static td_shape turned(td_shape s) {
  for (int i = 0; i < s.rank / 2; i++) {
    int64_t d = s.dim[i];
    s.dim[i] = s.dim[s.rank - 1 - i];
    s.dim[s.rank - 1 - i] = d;
  }
  return s;
}

/* ---- the list of changes ------------------------------------------------- */

enum { SHAPES_MADE = 22 };

static int other_shapes(const td_tensor *x, td_shape *out) {
  td_shape s = x->shape, ones = td_shape_scalar();
  int n = 0, last = s.rank - 1;
  out[n++] = td_shape_scalar();
  out[n++] = td_shape_vector(0);
  out[n++] = td_shape_vector(1);
  out[n++] = td_shape_matrix(0, INT64_C(1) << 40);
  out[n++] = td_shape_matrix(INT64_C(1) << 40, 0);
  out[n++] = inserted(s, 0);
  out[n++] = inserted(s, s.rank);
  while (ones.rank < TD_MAX_RANK) ones.dim[ones.rank++] = 1;
  out[n++] = ones;
  if (s.rank == 0) return n;
  out[n++] = without(s, 0);
  out[n++] = without(s, last);
  out[n++] = turned(s);
  out[n++] = with_dim(s, 0, 0);
  out[n++] = with_dim(s, last, 0);
  out[n++] = with_dim(s, 0, s.dim[0] + 1);
  out[n++] = with_dim(s, last, s.dim[last] + 1);
  if (s.dim[0] > 0) out[n++] = with_dim(s, 0, s.dim[0] - 1);
  if (s.dim[last] > 0) out[n++] = with_dim(s, last, s.dim[last] - 1);
  return n;
}

/* Value number v put into element i; false when there are no more. */
static bool other_value(td_tensor *t, int64_t i, int v) {
  static const double floats[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e300};
  static const int64_t ints[] = {-1,        0,         1,         2,        7,
                                 INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX};
  if (td_dtype_is_float(t->dtype) || td_dtype_is_complex(t->dtype)) {
    if (v >= (int)TD_COUNT(floats)) return false;
    td_tensor_set_f(t, i, floats[v]);
    return true;
  }
  if (!td_dtype_is_integer(t->dtype) || v >= (int)TD_COUNT(ints)) return false;
  td_tensor_set_i(t, i, ints[v]);
  return true;
}

/* ---- running one --------------------------------------------------------- */

static void check_whole(const row *r, const golden_case *c, const built *b,
                        const result *x) {
  for (int i = 0; i < x->n_out; i++) {
    const td_tensor *t = &x->out[i];
    const td_result *said = &b->node->out[i];
    td_shape_text was, is;
    if (!td_tensor_valid(t)) continue;
    if (t->dtype != said->dtype ||
        !td_shape_compatible(&t->shape, &said->shape))
      fail_msg("%s, case %d: output %d is %s, inferred %s", r->op, c->index, i,
               td_shape_str(&t->shape, &is), td_shape_str(&said->shape, &was));
  }
}

/* Without seeds random numbers are new every time. */
static bool by_entropy(const td_node *n) {
  return td_node_attr(n, "seed2") && td_node_int(n, "seed") == 0 &&
         td_node_int(n, "seed2") == 0;
}

/* Runs it twice; the status is that of the first run. */
static td_status *run_twice(const row *r, const golden_case *c,
                            const td_tensor *in, const built *b) {
  result first, second;
  if (b->node->n_out > MAX_OUT) return NULL; /* nobody wants to look at it */
  TD_TRY(run_node(b, c, in, 0xff, false, 1, &first));
  check_whole(r, c, b, &first);
  td_status *s = run_node(b, c, in, 0x11, true, 2, &second);
  if (!td_ok(s))
    fail_msg("%s, case %d: refused the second time: %s", r->op, c->index,
             td_status_message(s));
  if (!by_entropy(b->node) && !result_same(&first, &second, c->n_var))
    fail_msg("%s, case %d: two runs differ", r->op, c->index);
  result_drop(&first);
  result_drop(&second);
  return NULL;
}

void try_changed(const row *r, const golden_case *c, const td_tensor *in,
                 knowledge k, const td_note *change) {
  built b;
  td_status *s = build_changed(c, in, k, change, &b);
  if (td_ok(s)) {
    s = run_twice(r, c, in, &b);
    built_drop(&b);
  }
  if (td_ok(s)) {
    changed_accepted++;
  } else {
    changed_refused++;
    check_refusal(r, c, s);
  }
}

static void try_inputs(const row *r, const golden_case *c,
                       const td_tensor *in) {
  try_changed(r, c, in, VALUES, NULL);
  try_changed(r, c, in, NOTHING, NULL);
}

static void try_with(const row *r, const golden_case *c, int i, td_tensor t) {
  td_tensor in[MAX_IN];
  memcpy(in, c->in, sizeof in);
  in[i] = t;
  try_inputs(r, c, in);
  td_tensor_release(&t);
}

static void mutate_input(const row *r, const golden_case *c, int i) {
  td_shape shapes[SHAPES_MADE];
  const td_tensor *x = &c->in[i];
  int n = other_shapes(x, shapes);
  for (int k = 0; k < n; k++) try_with(r, c, i, refill(x, shapes[k]));
  if (x->dtype == TD_STRING || td_tensor_count(x) == 0) return;
  for (int v = 0;; v++) {
    td_tensor t;
    OK(td_tensor_copy(x, &t));
    if (!other_value(&t, v % td_tensor_count(&t), v)) {
      td_tensor_release(&t);
      return;
    }
    try_with(r, c, i, t);
  }
}

/* ---- two at once --------------------------------------------------------- */

/* Every element v, as far as the dtype can. */
static td_tensor filled(const td_tensor *x, int64_t v) {
  td_tensor t;
  OK(td_tensor_copy(x, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++) td_tensor_set_i(&t, i, v);
  return t;
}

static int64_t lowest(td_dtype t) {
  size_t bits = 8 * td_dtype_size(t);
  return -(INT64_C(1) << (bits - 2)) * 2;
}

static void try_pair(const row *r, const golden_case *c, int i, td_tensor x,
                     int j, td_tensor y) {
  td_tensor in[MAX_IN];
  memcpy(in, c->in, sizeof in);
  in[i] = x;
  in[j] = y;
  try_inputs(r, c, in);
  td_tensor_release(&x);
  td_tensor_release(&y);
}

/* Both empty, one tensor for both, the lowest number over -1. */
static void mutate_pair(const row *r, const golden_case *c, int i, int j) {
  const td_tensor *x = &c->in[i], *y = &c->in[j];
  try_pair(r, c, i, refill(x, td_shape_vector(0)), j,
           refill(y, td_shape_vector(0)));
  if (x->dtype != y->dtype) return;
  td_tensor a, b;
  td_tensor_retain(x, &a);
  td_tensor_retain(x, &b);
  try_pair(r, c, i, a, j, b);
  if (td_dtype_is_integer(x->dtype))
    try_pair(r, c, i, filled(x, lowest(x->dtype)), j, filled(y, -1));
}

void mutate_inputs(const row *r, const golden_case *c) {
  for (int i = 0; i < c->n_in; i++) {
    if (!td_tensor_valid(&c->in[i])) continue;
    mutate_input(r, c, i);
    for (int j = 0; j < c->n_in; j++)
      if (j != i && td_tensor_valid(&c->in[j])) mutate_pair(r, c, i, j);
  }
}
