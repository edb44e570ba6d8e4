/* checkpoint_v1_write.c - writing checkpoints of version 1: the bytes that
 * TensorFlow writes for the same tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/checkpoint_v1.h"
#include "engine/io/field.h"
#include "engine/io/sorted_table.h"

/* A message is at most of so many bytes, and a file is put together in memory.
 */
static const size_t most_bytes = (size_t)1 << 31;

typedef struct slot {
  td_str key, value;
} slot;

typedef struct old_file {
  const td_checkpoint_v1_item *items;
  size_t n;
  slot *slots; /* n, then the table of contents, then by key */
} old_file;

static const td_shape *whole_of(const td_checkpoint_v1_item *x) {
  return x->whole ? x->whole : &x->tensor->shape;
}

static td_slice slice_of(const td_checkpoint_v1_item *x) {
  if (x->slice) return *x->slice;
  td_slice all = {.rank = x->tensor->shape.rank};
  for (int i = 0; i < all.rank; i++) all.length[i] = -1;
  return all;
}

static void put_message(td_str *out, int field, td_str *message) {
  td_field_put_bytes(out, field, (td_bytes){td_str_c(message), message->len});
  if (message->failed) out->failed = true;
  td_str_deinit(message);
}

/* ---- values -------------------------------------------------------------- */

/* The field of a TensorProto that has the values of a dtype; 0: none has, that
 * TensorFlow would read here. */
static int field_of(td_dtype dtype) {
  switch (dtype) {
  case TD_FLOAT32:
    return 5;
  case TD_FLOAT64:
    return 6;
  case TD_INT32:
  case TD_INT16:
  case TD_INT8:
  case TD_UINT8:
  case TD_UINT16:
  case TD_QINT8:
  case TD_QUINT8:
  case TD_QINT32:
    return 7;
  case TD_STRING:
    return 8;
  case TD_COMPLEX64:
    return 9;
  case TD_INT64:
    return 10;
  case TD_BOOL:
    return 11;
  case TD_COMPLEX128:
    return 12;
  case TD_FLOAT16:
    return 13;
  default:
    return 0;
  }
}

static void put_strings(const td_tensor *t, td_str *out) {
  for (int64_t i = 0; i < td_tensor_count(t); i++) {
    size_t len;
    const char *at = td_tensor_str(t, i, &len);
    td_field_put_bytes(out, 8, (td_bytes){at, len});
  }
}

/* Numbers as varints; a half is the number that its bits are. */
static void put_varints(const td_tensor *t, td_str *out) {
  const uint16_t *bits = t->data;
  int64_t n = td_tensor_count(t);
  for (int64_t i = 0; i < n; i++)
    td_varint_put(out, t->dtype == TD_FLOAT16
                           ? bits[i]
                           : (uint64_t)td_tensor_get_i(t, i));
}

static void put_values(const td_tensor *t, td_str *out) {
  int field = field_of(t->dtype);
  td_bytes raw = {t->data, td_tensor_bytes(t)};
  if (td_tensor_count(t) == 0) return;
  if (field == 8) {
    put_strings(t, out);
  } else if (field == 5 || field == 6 || field == 9 || field == 12) {
    td_field_put_bytes(out, field, raw); /* of fixed size, as they lie */
  } else {
    td_str packed = {0};
    put_varints(t, &packed);
    put_message(out, field, &packed);
  }
}

/* ---- a slice ------------------------------------------------------------- */

static td_status *check(const td_checkpoint_v1_item *x) {
  td_shape part;
  td_shape_text have, want;
  td_slice s = slice_of(x);
  const td_tensor *t = x->tensor;
  if (!field_of(t->dtype))
    return td_error(TD_UNIMPLEMENTED,
                    "tensor \"%s\" of dtype %s cannot be in a checkpoint of "
                    "version 1: use SaveV2",
                    x->name, td_dtype_name(t->dtype));
  if (td_tensor_bytes(t) > most_bytes / 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "tensor \"%s\" of %zu bytes is too large for a checkpoint "
                    "of version 1: use SaveV2, or slices",
                    x->name, td_tensor_bytes(t));
  TD_TRY(td_slice_shape(whole_of(x), &s, &part));
  if (td_shape_equal(&part, &t->shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "tensor \"%s\" of shape %s is no slice of shape %s", x->name,
                  td_shape_str(&t->shape, &have), td_shape_str(&part, &want));
}

static void fill(const td_checkpoint_v1_item *x, slot *out) {
  td_str data = {0}, values = {0};
  td_slice s = slice_of(x);
  td_slice_key(x->name, &s, &out->key);
  put_values(x->tensor, &values);
  td_field_put_bytes(&data, 1, (td_bytes){x->name, strlen(x->name)});
  td_checkpoint_slice_put(&data, 2, whole_of(x), &s);
  put_message(&data, 3, &values);
  put_message(&out->value, 2, &data);
}

/* ---- the table of contents ----------------------------------------------- */

/* The tensor of item i, and all its slices; the items behind them. */
static td_status *put_tensor(const old_file *w, size_t *i, td_str *out) {
  const td_checkpoint_v1_item *first = &w->items[*i];
  td_str meta = {0};
  td_status *bad = NULL;
  td_field_put_bytes(&meta, 1, (td_bytes){first->name, strlen(first->name)});
  td_checkpoint_shape_put(&meta, 2, whole_of(first));
  td_field_put(&meta, 3, (uint64_t)first->tensor->dtype);
  for (; *i < w->n && strcmp(w->items[*i].name, first->name) == 0; ++*i) {
    const td_checkpoint_v1_item *x = &w->items[*i];
    td_slice s = slice_of(x);
    if (x->tensor->dtype != first->tensor->dtype ||
        !td_shape_equal(whole_of(x), whole_of(first)))
      bad = td_status_first(
          bad, td_error(TD_INVALID_ARGUMENT,
                        "the slices of tensor \"%s\" do not agree in dtype and "
                        "shape",
                        x->name));
    td_checkpoint_slice_put(&meta, 4, whole_of(x), &s);
  }
  put_message(out, 1, &meta);
  return bad;
}

static td_status *put_contents(const old_file *w, td_str *out) {
  td_str contents = {0};
  td_status *bad = NULL;
  for (size_t i = 0; i < w->n && td_ok(bad);)
    bad = put_tensor(w, &i, &contents);
  td_field_put_bytes(&contents, 2, (td_bytes){"\x08\x01", 2}); /* producer 1 */
  put_message(out, 1, &contents);
  return bad;
}

/* ---- the file ------------------------------------------------------------ */

static int by_key(const void *a, const void *b) {
  const slot *x = a, *y = b;
  return td_sorted_compare((td_bytes){td_str_c(&x->key), x->key.len},
                           (td_bytes){td_str_c(&y->key), y->key.len});
}

static td_status *make_table(const old_file *w, td_str *out) {
  td_sorted_entry *e = td_calloc(w->n + 1, sizeof *e);
  td_status *s = e ? NULL : td_oom();
  for (size_t i = 0; td_ok(s) && i <= w->n; i++) {
    const slot *x = &w->slots[i];
    e[i].key = (td_bytes){td_str_c(&x->key), x->key.len};
    e[i].value = (td_bytes){td_str_c(&x->value), x->value.len};
    if (i > 0 && td_sorted_compare(e[i - 1].key, e[i].key) == 0)
      s = td_error(TD_ALREADY_EXISTS,
                   "a checkpoint is given the same slice of a tensor twice");
  }
  if (td_ok(s)) s = td_sorted_table_write(e, w->n + 1, out);
  td_free(e);
  return s;
}

static td_status *make_file(old_file *w, td_checkpoint_go_on go_on, void *arg,
                            td_str *out) {
  TD_TRY(put_contents(w, &w->slots[w->n].value));
  size_t total = 0;
  for (size_t i = 0; i <= w->n; i++) {
    if (i < w->n) {
      TD_TRY(check(&w->items[i]));
      if (go_on && !go_on(arg, false))
        return td_error(TD_CANCELLED, "writing a checkpoint was stopped");
      fill(&w->items[i], &w->slots[i]);
    }
    if (w->slots[i].key.failed || w->slots[i].value.failed) return td_oom();
    total += w->slots[i].value.len;
    if (total > most_bytes)
      return td_error(TD_RESOURCE_EXHAUSTED,
                      "a checkpoint of version 1 has at most %zu bytes: use "
                      "SaveV2",
                      most_bytes);
  }
  qsort(w->slots, w->n + 1, sizeof *w->slots, by_key);
  return make_table(w, out);
}

td_status *td_checkpoint_v1_write(const char *path,
                                  const td_checkpoint_v1_item *items, size_t n,
                                  td_checkpoint_go_on go_on, void *arg) {
  old_file w = {items, n, td_calloc(n + 1, sizeof *w.slots)};
  td_str bytes = {0};
  td_status *s = w.slots ? make_file(&w, go_on, arg, &bytes) : td_oom();
  for (size_t i = 0; w.slots && i <= n; i++) {
    td_str_deinit(&w.slots[i].key);
    td_str_deinit(&w.slots[i].value);
  }
  td_free(w.slots);
  if (td_ok(s) && go_on && !go_on(arg, true))
    s = td_error(TD_CANCELLED, "writing '%s' was stopped", path);
  if (td_ok(s)) s = td_file_write(path, bytes.at, bytes.len);
  td_str_deinit(&bytes);
  return s;
}
