/* tensor_string.c - tensors of byte strings.
 *
 * One block: count + 1 offsets, then all text in order. An offset counts from
 * the start of the buffer, so a view of rows needs another data pointer only,
 * and the block can be sent and received as it is. Nothing in a block that came
 * from outside may be read before td_tensor_strings_check.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/tensor/tensor.h"

const char *td_tensor_str(const td_tensor *t, int64_t i, size_t *len) {
  const uint64_t *offset = (const uint64_t *)t->data + i;
  *len = offset[1] - offset[0];
  return (const char *)t->buffer->data + offset[0];
}

static td_status *too_large(const td_shape *shape) {
  td_shape_text text;
  return td_error(TD_INVALID_ARGUMENT,
                  td_shape_known(shape)
                      ? "a string tensor of shape %s is too large"
                      : "a tensor needs a known shape, not %s",
                  td_shape_str(shape, &text));
}

td_status *td_tensor_strings_new(const td_shape *shape, size_t total,
                                 td_tensor *out, uint64_t **offsets,
                                 char **text) {
  int64_t count = td_shape_count(shape);
  size_t table, bytes;
  td_buffer *b;
  if (count < 0 || !td_mul((size_t)count + 1, sizeof **offsets, &table) ||
      !td_add(table, total, &bytes) || bytes > PTRDIFF_MAX)
    return too_large(shape);
  TD_TRY(td_buffer_new(NULL, bytes, &b));
  b->readonly = true;
  *offsets = b->data;
  *text = (char *)b->data + table;
  (*offsets)[0] = table;
  (*offsets)[count] = bytes;
  *out = (td_tensor){
      .shape = *shape, .dtype = TD_STRING, .buffer = b, .data = b->data};
  return NULL;
}

td_status *td_tensor_strings(const td_shape *shape, const char *const *at,
                             const size_t *len, td_tensor *out) {
  int64_t count = td_shape_count(shape);
  size_t total = 0;
  uint64_t *offset;
  char *text;
  for (int64_t i = 0; i < count; i++)
    if (!td_add(total, len[i], &total)) return too_large(shape);
  TD_TRY(td_tensor_strings_new(shape, total, out, &offset, &text));
  for (int64_t i = 0; i < count; i++) {
    if (len[i]) memcpy(text, at[i], len[i]);
    text += len[i];
    offset[i + 1] = offset[i] + len[i];
  }
  return NULL;
}

td_status *td_tensor_strings_check(const td_tensor *t) {
  const td_buffer *b = t->buffer;
  int64_t count = td_shape_count(&t->shape);
  size_t start = (size_t)((const char *)t->data - (const char *)b->data);
  if (count < 0 || start > b->size || (uintptr_t)t->data % sizeof(uint64_t) ||
      (b->size - start) / sizeof(uint64_t) <= (uint64_t)count)
    return td_error(TD_DATA_LOSS,
                    "a string tensor of %zu bytes has no place for the "
                    "aligned offsets of %lld elements",
                    b->size, (long long)count);
  const uint64_t *offset = t->data;
  for (int64_t i = 0; i <= count; i++)
    if (offset[i] > b->size || (i && offset[i] < offset[i - 1]))
      return td_error(TD_DATA_LOSS,
                      "offset %lld of a string tensor is %llu: not between "
                      "the one before and the end at %zu",
                      (long long)i, (unsigned long long)offset[i], b->size);
  return NULL;
}
