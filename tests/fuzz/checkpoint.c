/* checkpoint.c - libFuzzer: no bytes may break the reader of checkpoints.
 *
 *   "r" n:2 index:n data       the files as they are
 *   "e" n:2 entries:n data     entries, each a byte that says how long its key
 *                              is, one for its value, both: put into an index
 *                              with right checks
 *
 * What opens has tensors within the file, which are read, in whole and in part,
 * and mapped, with the same bytes and no more memory than the file has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/base/bytes.h"
#include "engine/base/file_stream.h"
#include "engine/io/checkpoint.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/sorted_table.h"
#include "tests/engine/base/mem_files.h"

enum { MOST_ENTRIES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good) {
  if (!good) __builtin_trap();
}

static void write_file(const char *path, const void *bytes, size_t n) {
  td_file *f;
  check(td_ok(td_file_open(path, TD_FILE_WRITE, &f)));
  check(td_ok(td_file_append(f, bytes, n)));
  check(td_ok(td_file_close(f)));
}

/* ---- an index of entries ------------------------------------------------- */

static int by_key(const void *a, const void *b) {
  const td_sorted_entry *x = a, *y = b;
  return td_sorted_compare(x->key, y->key);
}

/* Sorted, each key once; the header stands before them. */
static void make_index(td_bytes from, td_str *out) {
  td_sorted_entry e[MOST_ENTRIES + 1] = {0};
  td_str header = {0};
  size_t n = 1, kept = 1;
  td_checkpoint_header_put(1, &header);
  e[0] = (td_sorted_entry){{"", 0}, {header.at, header.len}};
  while (n <= MOST_ENTRIES && from.len >= 2) {
    size_t key = (uint8_t)from.at[0], value = (uint8_t)from.at[1];
    from.at += 2;
    from.len -= 2;
    if (!td_bytes_take(&from, key, &e[n].key) ||
        !td_bytes_take(&from, value, &e[n].value))
      break;
    n += key > 0;
  }
  qsort(e, n, sizeof *e, by_key);
  for (size_t i = 1; i < n; i++)
    if (by_key(&e[i], &e[kept - 1]) != 0) e[kept++] = e[i];
  check(td_ok(td_sorted_table_write(e, kept, out)));
  td_str_deinit(&header);
}

static bool write_files(const uint8_t *data, size_t size) {
  static bool known;
  if (!known) td_status_release(td_file_system_register(&mem_file_system));
  known = true;
  mem_files_clear();
  if (size < 3 || size > MEM_BYTES / 4) return false;
  size_t n = data[1] | (size_t)data[2] << 8;
  if (n > size - 3) n = size - 3;
  td_str index = {0};
  if (data[0] == 'e')
    make_index((td_bytes){(const char *)data + 3, n}, &index);
  else
    td_str_addn(&index, (const char *)data + 3, n);
  write_file("mem://f.index", td_str_c(&index), index.len);
  write_file("mem://f.data-00000-of-00001", data + 3 + n, size - 3 - n);
  td_str_deinit(&index);
  return true;
}

/* ---- reading ------------------------------------------------------------- */

/* A part that leaves the first and the last of each axis out. */
static td_slice middle_of(const td_shape *shape) {
  td_slice s = {.rank = shape->rank};
  for (int i = 0; i < s.rank; i++) {
    s.start[i] = shape->dim[i] > 2;
    s.length[i] = shape->dim[i] > 2 ? shape->dim[i] - 2 : -1;
  }
  return s;
}

static void read_one(const td_checkpoint *c, const td_checkpoint_entry *e,
                     size_t size) {
  td_tensor t, view;
  td_slice middle = middle_of(&e->shape);
  td_status *s = td_checkpoint_read(c, e, NULL, NULL, &t);
  td_status *mapped = td_checkpoint_map(c, e, &view);
  check(td_ok(s) == td_ok(mapped));
  if (td_ok(s)) {
    check(e->dtype == TD_STRING || td_tensor_bytes(&t) <= size);
    check(td_tensor_same(&t, &view));
    td_tensor_release(&t);
    td_tensor_release(&view);
  }
  td_status_release(s);
  td_status_release(mapped);
  s = td_checkpoint_read(c, e, &middle, NULL, &t);
  if (td_ok(s)) td_tensor_release(&t);
  td_status_release(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_checkpoint *c;
  if (!write_files(data, size)) return 0;
  td_status *s = td_checkpoint_open("mem://f", &c);
  if (!td_ok(s)) {
    td_status_release(s);
    return 0;
  }
  for (size_t i = 0; i < td_checkpoint_count(c); i++) {
    td_checkpoint_entry e = td_checkpoint_at(c, i), found;
    check(td_checkpoint_find(c, e.name, &found) && found.offset == e.offset);
    read_one(c, &e, size);
  }
  td_status_release(td_checkpoint_verify(c));
  td_checkpoint_close(c);
  return 0;
}
