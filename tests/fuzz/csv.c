/* csv.c - libFuzzer: no text may break the reader of tables. The first byte
 * chooses options.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4096 };

static void read_columns(td_csv *c, bool fill) {
  static const td_dtype types[] = {TD_INVALID, TD_INT8,   TD_FLOAT64,
                                   TD_BOOL,    TD_STRING, TD_UINT64};
  static td_csv_as as[MOST];
  static td_tensor out[MOST];
  int n = td_csv_columns(c);
  for (size_t k = 0; n <= MOST && k < TD_COUNT(types); k++) {
    for (int i = 0; i < n; i++)
      as[i] = (td_csv_as){types[(k + (size_t)i) % TD_COUNT(types)], fill, -1};
    td_status *s = td_csv_read(c, as, out);
    for (int i = 0; td_ok(s) && i < n; i++)
      if (td_tensor_count(&out[i]) != td_tensor_count(&out[0]))
        __builtin_trap();
    for (int i = 0; i < n; i++) td_tensor_release(&out[i]);
    td_status_release(s);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_csv *c;
  if (size == 0) return 0;
  td_csv_options o = {.separator = data[0] & 2 ? ';' : ',',
                      .header = data[0] & 1};
  td_status *s = td_csv_parse((const char *)data + 1, size - 1, "x", &o, &c);
  if (!td_ok(s)) {
    td_status_release(s);
    return 0;
  }
  read_columns(c, data[0] & 4);
  td_csv_free(c);
  return 0;
}
