/* tensor_stack.c - many tensors side by side as one; see tensor.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/tensor/tensor.h"

/* ---- shapes -------------------------------------------------------------- */

/* *each, of which sizes may be -1, becomes the least that all fit into. */
static td_status *fit(const td_tensor *at, int64_t n, td_shape *each) {
  td_shape said = *each;
  td_shape_text a, b;
  for (int k = 0; k < each->rank; k++)
    if (said.dim[k] < 0) each->dim[k] = 0;
  for (int64_t i = 0; i < n; i++) {
    bool fits = at[i].shape.rank == each->rank;
    for (int k = 0; fits && k < each->rank; k++) {
      if (said.dim[k] < 0 && at[i].shape.dim[k] > each->dim[k])
        each->dim[k] = at[i].shape.dim[k];
      fits = at[i].shape.dim[k] <= each->dim[k];
    }
    if (!fits)
      return td_error(TD_INVALID_ARGUMENT,
                      "element %lld is of shape %s, which does not fit into %s",
                      (long long)i, td_shape_str(&at[i].shape, &a),
                      td_shape_str(&said, &b));
  }
  return NULL;
}

static td_status *same(const td_tensor *at, int64_t n, const td_shape *each) {
  td_shape_text a, b;
  for (int64_t i = 0; i < n; i++)
    if (!td_shape_equal(&at[i].shape, each))
      return td_error(TD_INVALID_ARGUMENT,
                      "element %lld is of shape %s, those before it of %s: "
                      "batches of different shapes are padded (padded_batch)",
                      (long long)i, td_shape_str(&at[i].shape, &a),
                      td_shape_str(each, &b));
  return NULL;
}

static td_status *with_first(const td_shape *each, int64_t n, td_shape *out) {
  if (each->rank >= TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT,
                    "elements of rank %d have no room for another dimension",
                    each->rank);
  *out = *each;
  out->rank++;
  out->dim[0] = n;
  for (int k = 0; k < each->rank; k++) out->dim[k + 1] = each->dim[k];
  return NULL;
}

/* ---- copying ------------------------------------------------------------- */

/* An element's rows into `to`, whose rows may be longer: fn(arg, first in `to`,
 * first in the element, how many) for each run that is dense in both. */
typedef struct runs {
  const td_shape *room, *shape;
  void (*fn)(struct runs *r, int64_t to, int64_t from, int64_t count);
  char *to;
  const td_tensor *from;
  const char **texts;
  size_t *lens;
  size_t size;
} runs;

static void each_run(runs *r, int axis, int64_t to, int64_t from) {
  const td_shape *s = r->shape, *room = r->room;
  bool dense = true;
  for (int k = axis + 1; k < s->rank; k++) dense &= s->dim[k] == room->dim[k];
  if (axis == s->rank || dense) {
    int64_t count = td_shape_span(s, axis, s->rank);
    if (count) r->fn(r, to, from, count);
    return;
  }
  int64_t out = td_shape_span(room, axis + 1, room->rank);
  int64_t in = td_shape_span(s, axis + 1, s->rank);
  for (int64_t i = 0; i < s->dim[axis]; i++)
    each_run(r, axis + 1, to + i * out, from + i * in);
}

static void copy_plain(runs *r, int64_t to, int64_t from, int64_t count) {
  memcpy(r->to + (size_t)to * r->size,
         (const char *)r->from->data + (size_t)from * r->size,
         (size_t)count * r->size);
}

static void copy_text(runs *r, int64_t to, int64_t from, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    r->texts[to + i] = td_tensor_str(r->from, from + i, &r->lens[to + i]);
}

/* The beginning of what is copied next comes into the caches: where elements
 * lie in no order the processor does not foresee it. */
static void fetch_ahead(const td_tensor *t) {
  enum { LINE = 64, AHEAD = 8 * LINE };
  size_t bytes = td_tensor_bytes(t);
  for (size_t i = 0; i < bytes && i < AHEAD; i += LINE)
    __builtin_prefetch((const char *)t->data + i);
}

static void copy_all(runs *r, const td_tensor *at, int64_t n) {
  int64_t row = td_shape_span(r->room, 0, r->room->rank);
  for (int64_t i = 0; i < n; i++) {
    if (r->to && i + 1 < n) fetch_ahead(&at[i + 1]);
    r->from = &at[i];
    r->shape = &at[i].shape;
    each_run(r, 0, i * row, 0);
  }
}

static void fill(td_tensor *t, const td_tensor *pad) {
  size_t size = td_dtype_size(t->dtype), bytes = td_tensor_bytes(t);
  if (!pad) {
    if (bytes) memset(t->data, 0, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i += size)
    memcpy((char *)t->data + i, pad->data, size);
}

static td_status *stack_plain(td_allocator *a, const td_tensor *at, int64_t n,
                              const td_shape *each, const td_shape *shape,
                              bool pads, const td_tensor *pad, td_tensor *out) {
  TD_TRY(td_tensor_new(a, at[0].dtype, shape, out));
  runs r = {.room = each,
            .fn = copy_plain,
            .to = out->data,
            .size = td_dtype_size(out->dtype)};
  if (pads) fill(out, pad);
  copy_all(&r, at, n);
  return NULL;
}

static td_status *stack_texts(const td_tensor *at, int64_t n,
                              const td_shape *each, const td_shape *shape,
                              const td_tensor *pad, td_tensor *out) {
  int64_t count = td_shape_count(shape);
  size_t bytes;
  if (count < 0 || !td_mul((size_t)count + 1, sizeof(size_t), &bytes))
    return td_oom();
  runs r = {.room = each,
            .fn = copy_text,
            .texts = td_calloc((size_t)count + 1, sizeof *r.texts),
            .lens = td_calloc((size_t)count + 1, sizeof *r.lens)};
  size_t len = 0;
  const char *text = pad ? td_tensor_str(pad, 0, &len) : "";
  td_status *s = r.texts && r.lens ? NULL : td_oom();
  for (int64_t i = 0; td_ok(s) && i < count; i++)
    r.texts[i] = text, r.lens[i] = len;
  if (td_ok(s)) copy_all(&r, at, n);
  if (td_ok(s)) s = td_tensor_strings(shape, r.texts, r.lens, out);
  td_free(r.texts);
  td_free(r.lens);
  return s;
}

td_status *td_tensor_stack(td_allocator *a, const td_tensor *at, int64_t n,
                           const td_shape *room, const td_tensor *pad,
                           td_tensor *out) {
  td_shape each = room ? *room : at[0].shape, shape;
  TD_TRY(room ? fit(at, n, &each) : same(at, n, &each));
  TD_TRY(with_first(&each, n, &shape));
  if (at[0].dtype == TD_STRING)
    return stack_texts(at, n, &each, &shape, pad, out);
  if (td_dtype_is_plain(at[0].dtype))
    return stack_plain(a, at, n, &each, &shape, room != NULL, pad, out);
  return td_error(TD_INVALID_ARGUMENT, "tensors of %s cannot be batched",
                  td_dtype_name(at[0].dtype));
}
