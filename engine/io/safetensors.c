/* safetensors.c - reading .safetensors files.
 *
 * Sizes are compared with the file's before memory is taken. A mapping is of
 * the file as a whole and shared by all tensors that look into it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/safetensors.h"

#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/base/nearest.h"
#include "engine/io/safetensors_header.h"

enum { LENGTH = 8 }; /* bytes that say how long the header is */

/* The file in memory, as long as a tensor looks into it. */
typedef struct mapping {
  int32_t refs; /* atomic */
  td_file_mapping m;
} mapping;

struct td_safetensors {
  char *path;
  td_file *file;
  uint64_t size; /* of the file */
  td_safetensors_header header;
  uint32_t crc;    /* of the header as it was read */
  mapping *mapped; /* NULL until it is asked for */
};

/* ---- opening ------------------------------------------------------------- */

static td_status *cut_short(const td_safetensors *f) {
  return td_error(TD_DATA_LOSS, "'%s' was cut short while it was read",
                  f->path);
}

static td_status *read_at(td_safetensors *f, uint64_t offset, void *to,
                          size_t n) {
  size_t got;
  TD_TRY(td_file_read_at(f->file, offset, to, n, &got));
  return got == n ? NULL : cut_short(f);
}

/* How long the header is. */
static td_status *read_length(td_safetensors *f, size_t *len) {
  char first[LENGTH];
  uint64_t n;
  td_bytes b = {first, LENGTH};
  TD_TRY(td_file_size(f->file, &f->size));
  if (f->size < LENGTH)
    return td_error(TD_DATA_LOSS,
                    "'%s' is no readable .safetensors file: it has %llu bytes",
                    f->path, (unsigned long long)f->size);
  TD_TRY(read_at(f, 0, first, LENGTH));
  td_bytes_get(&b, LENGTH, &n);
  if (n > TD_SAFETENSORS_HEADER_MAX || n > f->size - LENGTH)
    return td_error(TD_DATA_LOSS,
                    "'%s' is no readable .safetensors file: a header of %llu "
                    "bytes in a file of %llu (the most is %d)",
                    f->path, (unsigned long long)n, (unsigned long long)f->size,
                    TD_SAFETENSORS_HEADER_MAX);
  *len = (size_t)n;
  return NULL;
}

static td_status *read_header(td_safetensors *f) {
  td_safetensors_header *h = &f->header;
  TD_TRY(td_file_open(f->path, TD_FILE_READ, &f->file));
  TD_TRY(read_length(f, &h->len));
  h->text = td_malloc(h->len + 1);
  if (!h->text) return td_oom();
  TD_TRY(read_at(f, LENGTH, h->text, h->len));
  h->text[h->len] = '\0';
  f->crc = td_crc32c(h->text, h->len);
  return td_safetensors_header_parse(h, f->path, f->size - LENGTH - h->len);
}

td_status *td_safetensors_open(const char *path, td_safetensors **out) {
  td_safetensors *f = td_calloc(1, sizeof *f);
  if (!f) return td_oom();
  f->path = td_strdup(path);
  td_status *s = f->path ? read_header(f) : td_oom();
  if (td_ok(s))
    *out = f;
  else
    td_safetensors_close(f);
  return s;
}

static void unmap(mapping *m) {
  if (!m || __atomic_fetch_sub(&m->refs, 1, __ATOMIC_ACQ_REL) > 1) return;
  td_file_unmap(&m->m);
  td_free(m);
}

void td_safetensors_close(td_safetensors *f) {
  if (!f) return;
  unmap(f->mapped);
  td_status_release(td_file_close(f->file));
  td_safetensors_header_deinit(&f->header);
  td_free(f->path);
  td_free(f);
}

/* ---- what is in it ------------------------------------------------------- */

static const td_safetensors_record *record(const td_safetensors *f, size_t i) {
  return &f->header.tensors[f->header.order[i]];
}

static const char *name_of(const td_safetensors *f, size_t i) {
  return f->header.text + record(f, i)->name;
}

size_t td_safetensors_count(const td_safetensors *f) {
  return f->header.n;
}

void td_safetensors_at(const td_safetensors *f, size_t i,
                       td_safetensors_entry *out) {
  const td_safetensors_record *r = record(f, i);
  const td_safetensors_kind *kind = &td_safetensors_kinds[r->kind];
  out->name = name_of(f, i);
  out->kind = kind->name;
  out->dtype = kind->dtype;
  out->shape = td_safetensors_header_shape(&f->header, r);
  out->size = r->size;
}

static td_status *missing(const td_safetensors *f, const char *name) {
  td_nearest near = td_nearest_to(name);
  td_hint hint;
  for (size_t i = 0; i < f->header.n; i++) td_nearest_try(&near, name_of(f, i));
  return td_error(TD_NOT_FOUND, "'%s' has no tensor '%.200s' among its %zu%s",
                  f->path, name, f->header.n, td_nearest_hint(&near, &hint));
}

td_status *td_safetensors_find(const td_safetensors *f, const char *name,
                               size_t *i) {
  size_t low = 0, high = f->header.n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(name_of(f, middle), name);
    if (order == 0) {
      *i = middle;
      return NULL;
    }
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return missing(f, name);
}

bool td_safetensors_next_pair(const td_safetensors *f, td_safetensors_pair *p) {
  const td_safetensors_header *h = &f->header;
  if (h->pairs == 0) return false;
  const char *end = h->text + h->metadata + h->metadata_len;
  p->key = p->key ? p->value + strlen(p->value) + 1 : h->text + h->metadata;
  if (p->key == end) return false;
  p->value = p->key + strlen(p->key) + 1;
  return true;
}

/* ---- tensors ------------------------------------------------------------- */

static td_status *check_readable(const td_safetensors *f,
                                 const td_safetensors_entry *e) {
  if (e->dtype) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "tensor '%.200s' in '%s' has dtype %s, which has no "
                  "counterpart here: convert it to F16 or F32 first",
                  e->name, f->path, e->kind);
}

static uint64_t place_of(const td_safetensors *f, size_t i) {
  return LENGTH + f->header.len + record(f, i)->begin;
}

td_status *td_safetensors_read(td_safetensors *f, size_t i, td_tensor *out) {
  td_safetensors_entry e;
  td_safetensors_at(f, i, &e);
  TD_TRY(check_readable(f, &e));
  TD_TRY(td_tensor_new(NULL, e.dtype, &e.shape, out));
  td_status *s = read_at(f, place_of(f, i), out->data, (size_t)e.size);
  if (!td_ok(s)) {
    td_tensor_release(out);
    return s;
  }
  if (e.dtype == TD_BOOL) /* any byte may be there: only 0 and 1 are bools */
    for (size_t k = 0; k < e.size; k++)
      ((uint8_t *)out->data)[k] = ((uint8_t *)out->data)[k] != 0;
  return NULL;
}

/* Is what was mapped the file that was opened? Another may have taken its
 * name. */
static bool is_same(const td_safetensors *f, const td_file_mapping *m) {
  uint64_t len = 0;
  td_bytes b = {m->at, m->size};
  return m->size == f->size && td_bytes_get(&b, LENGTH, &len) &&
         len == f->header.len && td_crc32c(b.at, (size_t)len) == f->crc;
}

static td_status *map_file(td_safetensors *f) {
  mapping *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->refs = 1;
  td_status *s = td_file_map(f->path, &m->m);
  if (td_ok(s) && !is_same(f, &m->m))
    s = td_error(TD_ABORTED, "'%s' was replaced while it was read", f->path);
  if (td_ok(s))
    f->mapped = m;
  else
    unmap(m);
  return s;
}

static void release_view(void *arg, void *data, size_t size) {
  (void)data, (void)size;
  unmap(arg);
}

/* May its bytes be used where they are? */
static bool is_usable(const td_safetensors_entry *e, const uint8_t *at) {
  if (e->size == 0 || (uintptr_t)at % td_dtype_size(e->dtype)) return false;
  for (size_t i = 0; e->dtype == TD_BOOL && i < e->size; i++)
    if (at[i] > 1) return false;
  return true;
}

static td_status *view(td_safetensors *f, const td_safetensors_entry *e,
                       void *at, td_tensor *out) {
  mapping *m = f->mapped;
  td_buffer *b;
  TD_TRY(td_buffer_wrap(at, (size_t)e->size, release_view, m, &b));
  __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
  b->readonly = true;
  *out = (td_tensor){b, at, e->dtype, e->shape};
  return NULL;
}

td_status *td_safetensors_map(td_safetensors *f, size_t i, td_tensor *out) {
  td_safetensors_entry e;
  td_safetensors_at(f, i, &e);
  TD_TRY(check_readable(f, &e));
  if (!f->mapped) TD_TRY(map_file(f));
  uint8_t *at = (uint8_t *)f->mapped->m.at + place_of(f, i);
  return is_usable(&e, at) ? view(f, &e, at, out)
                           : td_safetensors_read(f, i, out);
}
