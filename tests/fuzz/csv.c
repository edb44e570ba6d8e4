/* csv.c - libFuzzer: no text may break the reader of tables. The first byte
 * chooses options.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_columns(const td_csv *c, const double *missing) {
  static const td_dtype types[] = {TD_INVALID, TD_INT8,   TD_FLOAT64,
                                   TD_BOOL,    TD_STRING, TD_UINT64};
  int n = td_csv_columns(c);
  for (int i = 0; i < n && i < 12; i++)
    for (size_t k = 0; k < TD_COUNT(types); k++) {
      td_tensor t;
      td_status *s = td_csv_column(c, i, types[k], missing, &t);
      if (td_ok(s) && td_tensor_count(&t) != td_csv_rows(c)) __builtin_trap();
      if (td_ok(s))
        td_tensor_release(&t);
      else
        td_status_release(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const double missing = -1;
  td_csv *c;
  if (size == 0) return 0;
  td_csv_options o = {.separator = data[0] & 2 ? ';' : ',',
                      .header = data[0] & 1};
  td_status *s = td_csv_parse((const char *)data + 1, size - 1, "x", &o, &c);
  if (!td_ok(s)) {
    td_status_release(s);
    return 0;
  }
  read_columns(c, data[0] & 4 ? &missing : NULL);
  td_csv_free(c);
  return 0;
}
