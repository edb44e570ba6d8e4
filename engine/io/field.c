/* field.c - fields of messages; see field.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/field.h"

#include "engine/base/bytes.h"

bool td_field_take(td_bytes *from, td_field *f) {
  uint64_t tag, len;
  *f = (td_field){0};
  if (!td_varint_take(from, &tag) || tag >> 3 == 0 || tag >> 3 >= 1 << 29)
    return false;
  f->number = (int)(tag >> 3);
  switch (tag & 7) {
  case 0:
    return td_varint_take(from, &f->v);
  case 1:
    return td_bytes_get(from, 8, &f->v);
  case 5:
    return td_bytes_get(from, 4, &f->v);
  case 2:
    return td_varint_take(from, &len) && len <= from->len &&
           td_bytes_take(from, len, &f->bytes);
  default:
    return false;
  }
}

void td_field_put(td_str *out, int number, uint64_t v) {
  td_varint_put(out, (uint64_t)number << 3);
  td_varint_put(out, v);
}

void td_field_put_bytes(td_str *out, int number, td_bytes bytes) {
  td_varint_put(out, (uint64_t)number << 3 | 2);
  td_varint_put(out, bytes.len);
  td_str_addn(out, bytes.at, bytes.len);
}
