/* checkpoint_v1.c - libFuzzer: no messages may break the reading of checkpoints
 * of version 1. The first two bytes are the length of the table of contents,
 * which follows; the rest is the value of each of a few slices.
 *
 * The table itself is sound: its checks would hide all else. Its blocks are
 * what the fuzzer of checkpoints reads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/io/checkpoint_v1.h"
#include "engine/io/sorted_table.h"
#include "tests/engine/base/mem_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char path[] = "mem://f";

static void must(bool holds) {
  if (!holds) __builtin_trap();
}

/* A scalar, a vector, the first two rows of "x", and all of it. */
static int make_keys(td_str *keys) {
  static const td_slice slices[] = {
      {.rank = 0},
      {.rank = 1, .length = {-1}},
      {.rank = 2, .length = {-1, -1}},
      {.rank = 2, .start = {0, 0}, .length = {2, -1}},
  };
  for (size_t i = 0; i < TD_COUNT(slices); i++)
    td_slice_key("x", &slices[i], &keys[i]);
  return (int)TD_COUNT(slices);
}

static bool make_file(td_bytes contents, td_bytes value, td_str *file) {
  td_str keys[4] = {{0}};
  td_sorted_entry e[5] = {{{"", 0}, contents}};
  int n = make_keys(keys);
  for (int i = 0; i < n; i++)
    e[1 + i] = (td_sorted_entry){{keys[i].at, keys[i].len}, value};
  td_status *s = td_sorted_table_write(e, (size_t)n + 1, file);
  for (int i = 0; i < n; i++) td_str_deinit(&keys[i]);
  td_status_release(s);
  return !s;
}

static void read_entry(const td_checkpoint_v1 *c, const char *name) {
  td_checkpoint_entry e;
  td_tensor t;
  must(td_checkpoint_v1_find(c, name, &e));
  td_slice part = {.rank = e.shape.rank};
  for (int i = 0; i < part.rank; i++) part.length[i] = e.shape.dim[i] / 2;
  for (int half = 0; half < 2; half++) {
    td_status *s = td_checkpoint_v1_read(c, &e, half ? &part : NULL, &t);
    if (!s) {
      must(t.dtype == e.dtype && (half || td_shape_equal(&t.shape, &e.shape)));
      td_tensor_release(&t);
    }
    td_status_release(s);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_str file = {0};
  td_checkpoint_v1 *c;
  if (size < 2) return 0;
  size_t n = (size_t)data[0] | (size_t)data[1] << 8;
  data += 2;
  size -= 2;
  if (n > size) n = size;
  td_bytes contents = {(const char *)data, n};
  td_bytes value = {(const char *)data + n, size - n};
  if (make_file(contents, value, &file) &&
      mem_files_only(path, td_str_c(&file), file.len)) {
    td_status *s = td_checkpoint_v1_open(path, &c);
    if (!s) {
      for (size_t i = 0; i < td_checkpoint_v1_count(c); i++)
        read_entry(c, td_checkpoint_v1_name(c, i));
      td_checkpoint_v1_close(c);
    }
    td_status_release(s);
  }
  td_str_deinit(&file);
  return 0;
}
