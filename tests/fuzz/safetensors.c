/* safetensors.c - libFuzzer: no bytes may break the reader of .safetensors
 * files.
 *
 * What opens has tensors that lie within the file and are found by their names;
 * each is read and mapped, with the same bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "engine/base/file_stream.h"
#include "engine/io/safetensors.h"
#include "tests/engine/base/mem_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char path[] = "mem://f";

static void check(bool good) {
  if (!good) __builtin_trap();
}

static uint64_t read_one(td_safetensors *f, size_t i) {
  td_safetensors_entry e;
  td_tensor t, view;
  size_t found;
  td_safetensors_at(f, i, &e);
  check(td_ok(td_safetensors_find(f, e.name, &found)) && found == i);
  td_status *s = td_safetensors_read(f, i, &t);
  check(td_ok(s) == (e.dtype != TD_INVALID));
  if (!td_ok(s)) {
    td_status_release(s);
    return e.size;
  }
  check(td_ok(td_safetensors_map(f, i, &view)));
  check(td_tensor_bytes(&t) == e.size && td_tensor_same(&t, &view));
  td_tensor_release(&t);
  td_tensor_release(&view);
  return e.size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_safetensors *f;
  if (!mem_files_only(path, data, size)) return 0;
  td_status *s = td_safetensors_open(path, &f);
  if (!td_ok(s)) {
    td_status_release(s);
    return 0;
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < td_safetensors_count(f); i++) bytes += read_one(f, i);
  check(bytes <= size);
  for (td_safetensors_pair p = {0}; td_safetensors_next_pair(f, &p);)
    check(p.key && p.value);
  td_safetensors_close(f);
  return 0;
}
