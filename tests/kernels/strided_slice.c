/* strided_slice.c - StridedSlice and its gradient against Python's rules.
 *
 * The reference takes the positions one by one and each dimension as Python's
 * slice.indices does, then walks begin, begin + stride, ... until end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

enum { POSITIONS = TD_MAX_RANK + 2 };

typedef struct spec {
  int n;
  int64_t begin[POSITIONS], end[POSITIONS], stride[POSITIONS];
  int64_t begin_mask, end_mask, ellipsis, new_axis, shrink;
} spec;

/* What it takes: indices of each input axis, and the result's shape. */
typedef struct taken {
  int64_t index[TD_MAX_RANK][128], count[TD_MAX_RANK];
  td_shape out;
  bool bad, deep;
} taken;

static void add(taken *t, int64_t size) {
  if (t->out.rank == TD_MAX_RANK)
    t->deep = true;
  else
    t->out.dim[t->out.rank++] = size;
}

static void take_axis(taken *t, const spec *s, int i, int axis, int64_t dim) {
  int64_t step = s->stride[i], b = s->begin[i], e = s->end[i];
  int64_t *n = &t->count[axis];
  *n = 0;
  if (s->shrink >> i & 1) {
    if (b < 0) b += dim;
    t->bad = t->bad || step <= 0 || b < 0 || b >= dim;
    t->index[axis][(*n)++] = b;
    return;
  }
  t->bad = t->bad || step == 0;
  if (t->bad) return;
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
  if (b < 0) b += dim;
  if (e < 0) e += dim;
  b = b < low ? low : b > high ? high : b;
  e = e < low ? low : e > high ? high : e;
  if (s->begin_mask >> i & 1) b = step > 0 ? 0 : dim - 1;
  if (s->end_mask >> i & 1) e = step > 0 ? dim : -1;
  for (; step > 0 ? b < e : b > e; b += step) t->index[axis][(*n)++] = b;
  add(t, *n);
}

static void take_all(taken *t, int axis, int64_t dim) {
  for (int64_t k = 0; k < dim; k++) t->index[axis][k] = k;
  t->count[axis] = dim;
  add(t, dim);
}

static void reference(const td_shape *in, const spec *s, taken *t) {
  int used = 0, ellipses = 0, axis = 0;
  *t = (taken){0};
  for (int i = 0; i < s->n; i++) {
    ellipses += s->ellipsis >> i & 1;
    used += !((s->ellipsis | s->new_axis) >> i & 1);
  }
  t->bad = ellipses > 1 || used > in->rank;
  for (int i = 0; i < s->n && !t->bad; i++) {
    if (s->ellipsis >> i & 1)
      for (int k = in->rank - used; k > 0; k--, axis++)
        take_all(t, axis, in->dim[axis]);
    else if (s->new_axis >> i & 1)
      add(t, 1);
    else {
      take_axis(t, s, i, axis, in->dim[axis]);
      axis++;
    }
  }
  for (; axis < in->rank && !t->bad; axis++) take_all(t, axis, in->dim[axis]);
}

static spec any_spec(uint64_t *r, int rank) {
  spec s = {.n = (int)below(r, rank + 2)};
  for (int i = 0; i < s.n; i++) {
    s.begin[i] = below(r, 15) - 7;
    s.end[i] = below(r, 20) ? below(r, 15) - 7 : INT64_MIN + below(r, 2);
    s.stride[i] = below(r, 2) ? 1 : below(r, 9) - 4;
    if (s.stride[i] == 0 && below(r, 4)) s.stride[i] = 2;
    s.begin_mask |= (int64_t)(below(r, 3) == 0) << i;
    s.end_mask |= (int64_t)(below(r, 3) == 0) << i;
    s.new_axis |= (int64_t)(below(r, 8) == 0) << i;
    s.shrink |= (int64_t)(below(r, 6) == 0) << i;
  }
  if (s.n && below(r, 3) == 0) s.ellipsis = 1 << below(r, s.n);
  if (below(r, 50) == 0) s.ellipsis |= 3;
  return s;
}

static void add_spec(request *q, const spec *s) {
  request_in(q, vector64(s->n, s->begin));
  request_in(q, vector64(s->n, s->end));
  request_in(q, vector64(s->n, s->stride));
  request_int(q, "begin_mask", s->begin_mask);
  request_int(q, "end_mask", s->end_mask);
  request_int(q, "ellipsis_mask", s->ellipsis);
  request_int(q, "new_axis_mask", s->new_axis);
  request_int(q, "shrink_axis_mask", s->shrink);
}

/* The element of the input that element i of what is taken comes from. */
static int64_t source(const td_shape *in, const taken *t, int64_t i) {
  int64_t at[TD_MAX_RANK];
  for (int k = in->rank - 1; k >= 0; k--) {
    at[k] = t->index[k][i % t->count[k]];
    i /= t->count[k];
  }
  return place(in, at);
}

static void gradient(uint64_t *r, const td_shape *in, const spec *s,
                     const taken *t) {
  bool *hit = td_calloc((size_t)td_shape_count(in) + 1, sizeof *hit);
  request q = {.op = "StridedSliceGrad"};
  request_in(&q, vector64(in->rank, in->dim));
  add_spec(&q, s);
  request_in(&q, any_tensor(r, any_dtype(r), t->out));
  OK(ask(&q, r));
  assert_true(td_shape_equal(&q.out[0].shape, in));
  for (int64_t i = 0; i < td_shape_count(&t->out); i++) {
    int64_t at = source(in, t, i);
    assert_true(same_element(&q.out[0], at, &q.in[4], i));
    hit[at] = true;
  }
  for (int64_t i = 0; i < td_shape_count(in); i++)
    assert_true(hit[i] || zero_element(&q.out[0], i));
  td_free(hit);
  request_end(&q);
}

static void slice(uint64_t *r, td_shape in, spec s) {
  taken t;
  request q = {.op = "StridedSlice"};
  reference(&in, &s, &t);
  request_in(&q, any_tensor(r, any_dtype(r), in));
  add_spec(&q, &s);
  if (t.bad || t.deep) {
    td_code code = t.bad ? TD_INVALID_ARGUMENT : TD_UNIMPLEMENTED;
    FAILS(ask(&q, r), code, "");
  } else {
    OK(ask(&q, r));
    assert_true(td_shape_equal(&q.out[0].shape, &t.out));
    for (int64_t i = 0; i < td_shape_count(&t.out); i++)
      assert_true(same_element(&q.out[0], i, &q.in[0], source(&in, &t, i)));
    gradient(r, &in, &s, &t);
  }
  request_end(&q);
}

static void test_random_specs(void **state) {
  uint64_t r = 1;
  (void)state;
  for (int i = 0; i < 2000; i++) {
    td_shape in = any_shape(&r, 0, TD_MAX_RANK);
    slice(&r, in, any_spec(&r, in.rank));
  }
}

static void test_large(void **state) {
  uint64_t r = 2;
  (void)state;
  for (int i = 0; i < 20; i++)
    slice(&r, td_shape_of(2, (int64_t[]){127, 100}), any_spec(&r, 2));
}

static void refuse(spec s, const char *part) {
  uint64_t r = 3;
  request q = {.op = "StridedSlice"};
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(2, 3)));
  add_spec(&q, &s);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, part);
  request_end(&q);
}

static void test_messages(void **state) {
  (void)state;
  refuse((spec){.n = 1}, "strides[0] must not be 0");
  refuse((spec){.n = 1, .begin = {2}, .stride = {1}, .shrink = 1},
         "index 2 is out of range for dimension 0");
  refuse((spec){.n = 1, .stride = {-1}, .shrink = 1}, "must be positive");
  refuse((spec){.n = 2, .stride = {1, 1}, .ellipsis = 3}, "one ellipsis");
  refuse((spec){.n = 3, .stride = {1, 1, 1}}, "3 dimensions are sliced");
}

static void test_bad_gradient(void **state) {
  uint64_t r = 4;
  spec s = {.n = 1, .end = {3}, .stride = {2}};
  request q = {.op = "StridedSliceGrad"};
  (void)state;
  request_in(&q, vector64(2, (int64_t[]){3, 4}));
  add_spec(&q, &s);
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(3, 4)));
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "the shape of the slice, {2, 4}");
  ((int64_t *)q.in[0].data)[0] = -1;
  FAILS(call_request(&q, &r), TD_INVALID_ARGUMENT, "negative");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_specs),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_bad_gradient),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
