/* serialized.c - tensors as strings of bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/serialized.h"

#include "engine/graphdef/graphdef.h"

/* A message may say that one value stands for many: they take this at most. */
static const size_t most_repeated = (size_t)1 << 30;

td_status *td_serialized_write(const td_tensor *t, char **bytes, size_t *len) {
  return td_tensorproto_write(t, bytes, len);
}

td_status *td_serialized_read(td_bytes from, td_tensor *out) {
  td_status *s = td_tensorproto_read(from.at, from.len, most_repeated, out);
  if (td_ok(s) || td_status_code(s) == TD_RESOURCE_EXHAUSTED) return s;
  td_status *told =
      td_error(TD_INVALID_ARGUMENT, "a string of %zu bytes is no tensor: %s",
               from.len, td_status_message(s));
  td_status_release(s);
  return told;
}
