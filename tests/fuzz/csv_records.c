/* csv_records.c - libFuzzer: no text may break DecodeCSV. The first byte
 * chooses attributes; the rest is records with a zero byte between them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/device/eval.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COLUMNS = 4, MOST = 64 /* records */ };

static td_device *cpu;
static td_tensor defaults[COLUMNS];

static void must(bool holds) {
  if (!holds) __builtin_trap();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  const char *word = "none";
  size_t len = 4;
  td_shape scalar = td_shape_scalar(), none = td_shape_vector(0);
  (void)argc;
  (void)argv;
  must(td_ok(td_device_cpu_new("/job:localhost/replica:0/task:0", 0, 0, &cpu)));
  must(td_ok(td_tensor_scalar_i(TD_INT32, -1, &defaults[0])));
  must(td_ok(td_tensor_new(NULL, TD_FLOAT64, &none, &defaults[1])));
  must(td_ok(td_tensor_strings(&scalar, &word, &len, &defaults[2])));
  must(td_ok(td_tensor_scalar_i(TD_INT64, 1, &defaults[3])));
  return 0;
}

static td_tensor records(const char *data, size_t size) {
  const char *at[MOST], *end = data + size;
  size_t len[MOST];
  int n = 0;
  td_tensor t;
  for (; n < MOST - 1 && data < end; n++) {
    const char *zero = memchr(data, 0, (size_t)(end - data));
    at[n] = data;
    len[n] = (size_t)((zero ? zero : end) - data);
    data += len[n] + 1;
  }
  td_shape shape = td_shape_vector(n);
  must(td_ok(td_tensor_strings(&shape, at, len, &t)));
  return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const int groups[] = {1, COLUMNS};
  static const int64_t columns[] = {0, 2, 3, 7};
  td_tensor in[1 + COLUMNS], out[COLUMNS];
  int n = 0;
  if (size == 0) return 0;
  const td_note attrs[] = {
      {"field_delim", td_attr_string(data[0] & 1 ? ";" : ",")},
      {"use_quote_delim", td_attr_bool(data[0] & 2)},
      {"na_value", td_attr_string(data[0] & 4 ? "NA" : "")},
      {"select_cols", td_attr_ints(columns, data[0] & 8 ? COLUMNS : 0)}};
  in[0] = records((const char *)data + 1, size - 1);
  memcpy(in + 1, defaults, sizeof defaults);
  td_status *s = td_eval(td_op_find("DecodeCSV"), cpu, 1, in, groups, attrs,
                         TD_COUNT(attrs), out, COLUMNS, &n, NULL);
  must(td_ok(s) || td_status_code(s) == TD_INVALID_ARGUMENT);
  if (td_ok(s)) {
    td_status *sound = td_tensor_strings_check(&out[2]);
    must(td_ok(sound) && td_shape_equal(&out[2].shape, &in[0].shape));
    for (int i = 0; i < COLUMNS; i++) td_tensor_release(&out[i]);
  }
  td_status_release(s);
  td_tensor_release(&in[0]);
  return 0;
}
