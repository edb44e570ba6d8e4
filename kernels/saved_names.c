/* saved_names.c - names and parts, read and compared; see saved_names.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/saved_names.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/text.h"

/* ---- operands ------------------------------------------------------------ */

static td_status *copy_name(td_bytes name, const char *what, char **out) {
  if (name.len == 0 || memchr(name.at, 0, name.len))
    return td_error(TD_INVALID_ARGUMENT, "%s \"%.*s\" is empty or has a NUL",
                    what, td_text_shown(name), name.at);
  *out = td_strndup(name.at, name.len);
  return *out ? NULL : td_oom();
}

td_status *td_saved_prefix(const td_tensor *t, const char *what, char **out) {
  td_shape_text text;
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not of shape %s",
                    what, td_shape_str(&t->shape, &text));
  return copy_name(td_text_at(t, 0), what, out);
}

static td_status *check_vector(const td_tensor *t, const char *what,
                               int64_t n) {
  td_shape_text text;
  if (t->shape.rank == 1 && t->shape.dim[0] == n) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be a vector with one string for each of the %lld "
                  "tensors, not of shape %s",
                  what, (long long)n, td_shape_str(&t->shape, &text));
}

static td_status *read_one(const td_tensor *names, const td_tensor *slices,
                           td_saved_name *s) {
  td_bytes part = slices ? td_text_at(slices, s->at) : (td_bytes){"", 0};
  TD_TRY(copy_name(td_text_at(names, s->at), "a tensor's name", &s->name));
  s->part = part.len > 0;
  return s->part ? td_slice_parse(part, &s->whole, &s->slice) : NULL;
}

td_status *td_saved_names_read(const td_tensor *names, const td_tensor *slices,
                               int64_t n, td_saved_names *out) {
  *out = (td_saved_names){0};
  TD_TRY(check_vector(names, "tensor_names", n));
  if (slices) TD_TRY(check_vector(slices, "shape_and_slices", n));
  out->of = td_calloc((size_t)n, sizeof *out->of);
  if (!out->of) return td_oom();
  out->len = n;
  for (int64_t i = 0; i < n; i++) {
    out->of[i].at = i;
    TD_TRY(read_one(names, slices, &out->of[i]));
  }
  return NULL;
}

void td_saved_names_free(td_saved_names *s) {
  for (int64_t i = 0; i < s->len; i++) td_free(s->of[i].name);
  td_free(s->of);
  *s = (td_saved_names){0};
}

static int by_name(const void *a, const void *b) {
  const td_saved_name *x = a, *y = b;
  int c = strcmp(x->name, y->name);
  return c ? c : x->at < y->at ? -1 : x->at > y->at;
}

void td_saved_names_sort(td_saved_names *s) {
  qsort(s->of, (size_t)s->len, sizeof *s->of, by_name);
}

td_status *td_saved_twice(td_status *s) {
  if (td_status_code(s) != TD_ALREADY_EXISTS) return s;
  td_status *told = td_error(TD_INVALID_ARGUMENT, "%s", td_status_message(s));
  td_status_release(s);
  return told;
}

/* ---- shapes -------------------------------------------------------------- */

td_status *td_saved_infer(td_infer *c, int i, int64_t n, const char *what) {
  td_shape shape;
  TD_TRY(td_infer_rank(c, i, 1, what, &shape));
  if (n < 0 || shape.dim[0] < 0 || shape.dim[0] == n) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s has %lld strings, and there are %lld tensors", what,
                  (long long)shape.dim[0], (long long)n);
}

td_status *td_saved_shape(td_bytes part, td_shape *out) {
  td_shape whole;
  td_slice slice;
  *out = td_shape_unknown();
  if (part.len == 0) return NULL;
  TD_TRY(td_slice_parse(part, &whole, &slice));
  return td_slice_shape(&whole, &slice, out);
}
