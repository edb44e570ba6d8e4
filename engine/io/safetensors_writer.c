/* safetensors_writer.c - writing .safetensors files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/safetensors_writer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/file_replace.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/io/safetensors_header.h"

enum { ALIGN = 8 }; /* where the data begin */

/* What is to be written where. */
typedef struct place {
  const td_safetensors_spec *spec;
  size_t index; /* of the spec */
  int kind;     /* in td_safetensors_kinds */
} place;

struct td_safetensors_writer {
  td_file_replace *file;
  td_arena names;
  td_safetensors_spec *specs; /* n of them */
  place *places;              /* in the file's order */
  size_t n, next;
};

/* ---- what may be written ------------------------------------------------- */

static int kind_of(td_dtype t) {
  for (int i = 0; i < TD_SAFETENSORS_KINDS; i++)
    if (t && td_safetensors_kinds[i].dtype == t) return i;
  return -1;
}

static td_status *refuse_dtype(const td_safetensors_spec *s) {
  return td_error(TD_INVALID_ARGUMENT,
                  "tensor '%.200s': .safetensors files hold no %s%s", s->name,
                  td_dtype_name(s->dtype),
                  s->dtype == TD_COMPLEX128         ? ": cast it to complex64"
                  : td_dtype_in(s->dtype, TD_PLAIN) ? ": cast it to an integer"
                                                    : "");
}

static td_status *check_spec(const td_safetensors_spec *s) {
  if (!td_utf8_valid(s->name, strlen(s->name)))
    return td_error(TD_INVALID_ARGUMENT,
                    "tensor '%.200s': a name in a .safetensors file is UTF-8",
                    s->name);
  if (!strcmp(s->name, TD_SAFETENSORS_METADATA))
    return td_error(TD_INVALID_ARGUMENT,
                    "no tensor of a .safetensors file can be called '%s'",
                    s->name);
  if (td_shape_count(&s->shape) < 0)
    return td_error(TD_INVALID_ARGUMENT, "tensor '%.200s' has no known shape",
                    s->name);
  return kind_of(s->dtype) < 0 ? refuse_dtype(s) : NULL;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const place *)a)->spec->name, ((const place *)b)->spec->name);
}

/* The widest dtypes come first. */
static int by_place(const void *a, const void *b) {
  int x = ((const place *)a)->kind, y = ((const place *)b)->kind;
  return x != y ? y - x : by_name(a, b);
}

static td_status *make_places(td_safetensors_writer *w) {
  for (size_t i = 0; i < w->n; i++) {
    TD_TRY(check_spec(&w->specs[i]));
    w->places[i] = (place){&w->specs[i], i, kind_of(w->specs[i].dtype)};
  }
  qsort(w->places, w->n, sizeof *w->places, by_name);
  for (size_t i = 1; i < w->n; i++)
    if (by_name(&w->places[i - 1], &w->places[i]) == 0)
      return td_error(TD_INVALID_ARGUMENT, "two tensors are called '%.200s'",
                      w->places[i].spec->name);
  qsort(w->places, w->n, sizeof *w->places, by_place);
  return NULL;
}

/* ---- the header ---------------------------------------------------------- */

static void add_string(td_str *out, const char *s) {
  td_str_json(out, s, strlen(s));
}

static td_status *add_metadata(const td_safetensors_pair *pairs, size_t n,
                               td_str *out) {
  if (n == 0) return NULL;
  td_str_add(out, "\"" TD_SAFETENSORS_METADATA "\":{");
  for (size_t i = 0; i < n; i++) {
    const char *key = pairs[i].key, *value = pairs[i].value;
    if (!td_utf8_valid(key, strlen(key)) ||
        !td_utf8_valid(value, strlen(value)))
      return td_error(TD_INVALID_ARGUMENT,
                      "metadata '%.200s' is not UTF-8, as .safetensors files "
                      "must have it",
                      key);
    if (i) td_str_addc(out, ',');
    add_string(out, key);
    td_str_addc(out, ':');
    add_string(out, value);
  }
  td_str_add(out, "},");
  return NULL;
}

static td_status *add_tensor(const place *p, uint64_t *end, td_str *out) {
  const td_shape *shape = &p->spec->shape;
  uint64_t begin = *end, size;
  if (__builtin_mul_overflow((uint64_t)td_shape_count(shape),
                             td_dtype_size(p->spec->dtype), &size) ||
      __builtin_add_overflow(begin, size, end))
    return td_error(TD_INVALID_ARGUMENT, "tensor '%.200s' is too large",
                    p->spec->name);
  add_string(out, p->spec->name);
  td_str_addf(out, ":{\"dtype\":\"%s\",\"shape\":[",
              td_safetensors_kinds[p->kind].name);
  for (int i = 0; i < shape->rank; i++)
    td_str_addf(out, i ? ",%lld" : "%lld", (long long)shape->dim[i]);
  td_str_addf(out, "],\"data_offsets\":[%llu,%llu]},",
              (unsigned long long)begin, (unsigned long long)*end);
  return NULL;
}

/* All before the data. */
static td_status *make_header(const td_safetensors_writer *w,
                              const td_safetensors_pair *pairs, size_t n_pairs,
                              td_str *out) {
  uint64_t end = 0;
  td_bytes_put(out, 0, 8); /* the length, filled in below */
  td_str_addc(out, '{');
  TD_TRY(add_metadata(pairs, n_pairs, out));
  for (size_t i = 0; i < w->n; i++)
    TD_TRY(add_tensor(&w->places[i], &end, out));
  if (out->failed) return td_oom();
  if (out->at[out->len - 1] == ',')
    out->at[out->len - 1] = '}';
  else
    td_str_addc(out, '}');
  while (!out->failed && out->len % ALIGN) td_str_addc(out, ' ');
  if (out->failed) return td_oom();
  if (out->len - 8 > TD_SAFETENSORS_HEADER_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "names and metadata make a header of %zu bytes; the most "
                    "of a .safetensors file is %d",
                    out->len - 8, TD_SAFETENSORS_HEADER_MAX);
  for (int i = 0; i < 8; i++)
    out->at[i] = (char)((uint64_t)(out->len - 8) >> 8 * i);
  return NULL;
}

/* ---- the file ------------------------------------------------------------ */

static td_status *start(td_safetensors_writer *w, const char *path,
                        const td_safetensors_spec *specs,
                        const td_safetensors_pair *pairs, size_t n_pairs) {
  td_str header = {0};
  w->specs = td_calloc(w->n ? w->n : 1, sizeof *w->specs);
  w->places = td_calloc(w->n ? w->n : 1, sizeof *w->places);
  if (!w->specs || !w->places) return td_oom();
  for (size_t i = 0; i < w->n; i++) {
    w->specs[i] = specs[i];
    w->specs[i].name = td_arena_str(&w->names, specs[i].name);
    if (!w->specs[i].name) return td_oom();
  }
  TD_TRY(make_places(w));
  td_status *s = make_header(w, pairs, n_pairs, &header);
  if (td_ok(s)) s = td_file_replace_open(path, &w->file);
  if (td_ok(s)) s = td_file_replace_append(w->file, header.at, header.len);
  td_str_deinit(&header);
  return s;
}

td_status *
td_safetensors_writer_open(const char *path, const td_safetensors_spec *specs,
                           size_t n, const td_safetensors_pair *pairs,
                           size_t n_pairs, td_safetensors_writer **out) {
  td_safetensors_writer *w = td_calloc(1, sizeof *w);
  if (!w) return td_oom();
  w->n = n;
  td_arena_init(&w->names);
  td_status *s = start(w, path, specs, pairs, n_pairs);
  if (td_ok(s))
    *out = w;
  else
    td_safetensors_writer_close(w);
  return s;
}

size_t td_safetensors_writer_next(const td_safetensors_writer *w) {
  return w->next < w->n ? w->places[w->next].index : w->n;
}

td_status *td_safetensors_writer_add(td_safetensors_writer *w,
                                     const td_tensor *t) {
  td_shape_text want, have;
  if (w->next == w->n)
    return td_error(TD_FAILED_PRECONDITION, "all %zu tensors are written",
                    w->n);
  const td_safetensors_spec *spec = w->places[w->next].spec;
  if (t->dtype != spec->dtype || !td_shape_equal(&t->shape, &spec->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "tensor '%.200s' is %s %s, given %s %s", spec->name,
                    td_dtype_name(spec->dtype),
                    td_shape_str(&spec->shape, &want), td_dtype_name(t->dtype),
                    td_shape_str(&t->shape, &have));
  if (!td_tensor_touchable(t))
    return td_error(TD_FAILED_PRECONDITION,
                    "tensor '%.200s' is in the memory of %s: copy it to the "
                    "host first",
                    spec->name, t->buffer->allocator->name);
  TD_TRY(td_file_replace_append(w->file, t->data, td_tensor_bytes(t)));
  w->next++;
  return NULL;
}

td_status *td_safetensors_writer_commit(td_safetensors_writer *w) {
  if (w->next == w->n) return td_file_replace_commit(w->file);
  return td_error(TD_FAILED_PRECONDITION,
                  "tensor '%.200s' and %zu more are not written yet",
                  w->places[w->next].spec->name, w->n - w->next - 1);
}

void td_safetensors_writer_close(td_safetensors_writer *w) {
  if (!w) return;
  td_file_replace_close(w->file);
  td_free(w->specs);
  td_free(w->places);
  td_arena_deinit(&w->names);
  td_free(w);
}
