/* npz.c - libFuzzer: no bytes may break the reader of .npz archives.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "engine/base/file_stream.h"
#include "engine/io/npz.h"
#include "tests/engine/base/mem_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char path[] = "mem://f";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { LIMIT = 1 << 20 };
  td_npz *z;
  if (!mem_files_only(path, data, size)) return 0;
  td_status *s = td_npz_open(path, LIMIT, &z);
  if (!td_ok(s)) {
    td_status_release(s);
    return 0;
  }
  for (size_t i = 0; i < td_npz_count(z); i++) {
    td_tensor t;
    s = td_npz_read(z, td_npz_name(z, i), &t);
    if (td_ok(s)) {
      if (td_tensor_bytes(&t) > LIMIT) __builtin_trap();
      td_tensor_release(&t);
    }
    td_status_release(s);
  }
  td_npz_close(z);
  return 0;
}
