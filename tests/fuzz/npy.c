/* npy.c - libFuzzer: no bytes may break the reader of .npy arrays.
 *
 * What it reads is written, and read again the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good) {
  if (!good) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_tensor t, again;
  char *bytes;
  size_t len;
  td_status *s = td_npy_decode(data, size, "x", &t);
  if (!td_ok(s)) {
    td_status_release(s);
    return 0;
  }
  check(td_tensor_bytes(&t) <= size);
  check(td_ok(td_npy_encode(&t, &bytes, &len)));
  check(td_ok(td_npy_decode(bytes, len, "y", &again)));
  check(td_tensor_same(&t, &again));
  td_tensor_release(&t);
  td_tensor_release(&again);
  td_free(bytes);
  return 0;
}
