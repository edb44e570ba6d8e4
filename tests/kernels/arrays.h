/* arrays.h - random tensors, and ops run on them with what was inferred
 * checked: for the tests of array ops.
 *
 * Every call builds the node twice: on constants, where all that can be known
 * is known, and on placeholders whose shapes are hidden in part. Either shape
 * must fit what the kernel then makes, on one thread and on three.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEST_ARRAYS_H
#define TD_TEST_ARRAYS_H

#include "engine/device/eval.h"
#include "tests/kernels/net.h"

enum { MAX_IN = 8, MAX_OUT = 8 };

/* One dtype for every size of an element, and strings. */
static const td_dtype dtypes[] = {TD_UINT8,   TD_FLOAT16,    TD_FLOAT32,
                                  TD_FLOAT64, TD_COMPLEX128, TD_STRING};

static inline int64_t below(uint64_t *r, int64_t n) {
  return (int64_t)(draw(r) % (uint64_t)n);
}

static inline td_dtype any_dtype(uint64_t *r) {
  return dtypes[below(r, TD_COUNT(dtypes))];
}

/* Sizes from 0 on, 0 seldom; fewer elements where there are many axes. */
static inline td_shape any_shape(uint64_t *r, int low, int high) {
  td_shape s = {.rank = low + (int32_t)below(r, high - low + 1)};
  for (int k = 0; k < s.rank; k++)
    s.dim[k] = below(r, 30) == 0 ? 0
               : s.rank > 8      ? 1 + (below(r, 3) == 0)
                                 : 1 + below(r, s.rank > 4 ? 3 : 6);
  return s;
}

static inline td_tensor any_strings(uint64_t *r, td_shape s) {
  int64_t n = td_shape_count(&s);
  char text[16];
  uint64_t *offset;
  char *to;
  td_tensor t;
  OK(td_tensor_strings_new(&s, (size_t)n * 6, &t, &offset, &to));
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = draw(r) % 1000000;
    for (int k = 0; k < 6; k++, x /= 10) text[k] = (char)('0' + x % 10);
    memcpy(to + 6 * i, text, 6);
    offset[i + 1] = offset[i] + 6;
  }
  return t;
}

static inline td_tensor any_tensor(uint64_t *r, td_dtype dtype, td_shape s) {
  td_tensor t;
  if (dtype == TD_STRING) return any_strings(r, s);
  OK(td_tensor_new(NULL, dtype, &s, &t));
  uint8_t *bytes = t.data;
  for (size_t i = 0; i < td_tensor_bytes(&t); i++) bytes[i] = (uint8_t)draw(r);
  return t;
}

static inline td_tensor vector64(int n, const int64_t *v) {
  td_shape s = td_shape_vector(n);
  td_tensor t;
  OK(td_tensor_from(TD_INT64, &s, v, &t));
  return t;
}

static inline td_tensor scalar64(int64_t v) {
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT64, v, &t));
  return t;
}

static inline td_tensor scalar32(int64_t v) {
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT32, v, &t));
  return t;
}

/* ---- elements ------------------------------------------------------------ */

static inline void coordinates(const td_shape *s, int64_t i, int64_t *at) {
  for (int k = s->rank - 1; k >= 0; k--) {
    at[k] = i % s->dim[k];
    i /= s->dim[k];
  }
}

static inline int64_t place(const td_shape *s, const int64_t *at) {
  int64_t i = 0;
  for (int k = 0; k < s->rank; k++) i = i * s->dim[k] + at[k];
  return i;
}

static inline bool same_element(const td_tensor *a, int64_t i,
                                const td_tensor *b, int64_t j) {
  if (a->dtype == TD_STRING) {
    size_t na, nb;
    const char *x = td_tensor_str(a, i, &na), *y = td_tensor_str(b, j, &nb);
    return na == nb && memcmp(x, y, na) == 0;
  }
  size_t size = td_dtype_size(a->dtype);
  return memcmp((const char *)a->data + (size_t)i * size,
                (const char *)b->data + (size_t)j * size, size) == 0;
}

static inline bool zero_element(const td_tensor *a, int64_t i) {
  static const char zero[16];
  size_t n;
  if (a->dtype == TD_STRING) return td_tensor_str(a, i, &n) && n == 0;
  n = td_dtype_size(a->dtype);
  return memcmp((const char *)a->data + (size_t)i * n, zero, n) == 0;
}

/* ---- calls --------------------------------------------------------------- */

typedef struct request {
  const char *op;
  td_tensor in[MAX_IN];
  int n_in;
  td_note attrs[8];
  int n_attrs;
  td_tensor out[MAX_OUT];
  int n_out;
} request;

static inline void request_in(request *q, td_tensor t) {
  q->in[q->n_in++] = t;
}
static inline void request_int(request *q, const char *name, int64_t v) {
  q->attrs[q->n_attrs++] = (td_note){name, td_attr_int(v)};
}

static inline void drop_outputs(request *q) {
  for (int i = 0; i < q->n_out; i++) td_tensor_release(&q->out[i]);
  q->n_out = 0;
}

static inline void request_end(request *q) {
  for (int i = 0; i < q->n_in; i++) td_tensor_release(&q->in[i]);
  drop_outputs(q);
  *q = (request){0};
}

static inline td_edge known_input(td_graph *g, const td_tensor *t) {
  td_build b;
  td_edge e = {NULL, 0};
  td_build_init(&b, g, "Const", "x");
  td_build_attr(&b, "value", td_attr_tensor(t));
  td_build_attr(&b, "dtype", td_attr_type(t->dtype));
  OK(td_build_node(&b, &e.node));
  return e;
}

static inline td_edge hidden_input(td_graph *g, const td_tensor *t,
                                   uint64_t *r) {
  td_build b;
  td_edge e = {NULL, 0};
  td_shape s = t->shape;
  for (int k = 0; k < s.rank; k++)
    if (below(r, 3) == 0) s.dim[k] = -1;
  if (below(r, 4) == 0) s = td_shape_unknown();
  td_build_init(&b, g, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(t->dtype));
  td_build_attr(&b, "shape", td_attr_shape(&s));
  OK(td_build_node(&b, &e.node));
  return e;
}

static inline td_status *build_request(const request *q, td_graph *g,
                                       uint64_t *hide, td_node **n) {
  td_build b;
  td_edge in[MAX_IN] = {{0}};
  for (int i = 0; i < q->n_in; i++)
    in[i] = hide ? hidden_input(g, &q->in[i], hide) : known_input(g, &q->in[i]);
  td_build_init(&b, g, q->op, NULL);
  td_build_flat(&b, in, q->n_in);
  for (int i = 0; i < q->n_attrs; i++)
    td_build_attr(&b, q->attrs[i].name, q->attrs[i].value);
  return td_build_node(&b, n);
}

static inline void check_shapes(const request *q, const td_node *n) {
  td_shape_text a, b;
  for (int i = 0; i < q->n_out; i++)
    if (!td_shape_compatible(&n->out[i].shape, &q->out[i].shape))
      fail_msg("%s: shape %s was inferred, %s came", q->op,
               td_shape_str(&n->out[i].shape, &a),
               td_shape_str(&q->out[i].shape, &b));
}

static inline td_status *eval_request(request *q, const td_node *n,
                                      td_device *d) {
  request again = *q;
  TD_TRY(td_eval_node(n, d, 3, q->in, q->out, NULL));
  q->n_out = again.n_out = n->n_out;
  check_shapes(q, n);
  OK(td_eval_node(n, d, 1, again.in, again.out, NULL));
  for (int i = 0; i < n->n_out; i++)
    assert_true(td_tensor_same(&q->out[i], &again.out[i]));
  drop_outputs(&again);
  return NULL;
}

static inline td_status *call_request(request *q, uint64_t *hide) {
  td_graph *g;
  td_device *d;
  td_node *n = NULL;
  OK(td_graph_new(&g));
  OK(td_device_cpu_new("/job:localhost/replica:0/task:0", 0, 0, &d));
  td_status *s = build_request(q, g, hide, &n);
  if (td_ok(s)) s = eval_request(q, n, d);
  td_device_release(d);
  td_graph_release(g);
  return s;
}

/* An error must come both ways: the kernel sees what inference cannot. */
static inline td_status *ask(request *q, uint64_t *r) {
  td_status *hidden = call_request(q, r);
  drop_outputs(q);
  td_status *known = call_request(q, NULL);
  if (td_ok(hidden) != td_ok(known))
    fail_msg("%s: hidden \"%s\", known \"%s\"", q->op,
             hidden ? td_status_message(hidden) : "",
             known ? td_status_message(known) : "");
  td_status_release(hidden);
  return known;
}

#endif
