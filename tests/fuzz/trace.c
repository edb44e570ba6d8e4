/* trace.c - libFuzzer: no bytes may break the reader of other processes' traces.
 * What it takes lies within the step, and can be shown.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/trace_pack.h"

enum { CLOCK = 1000, UNTIL = 5000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(td_trace *t) {
  int64_t n;
  td_str out = {0};
  const td_trace_event *e = td_trace_events(t, &n);
  for (int64_t i = 0; i < n; i++)
    if (e[i].ready < 0 || e[i].start < e[i].ready || e[i].end < e[i].start ||
        e[i].end > UNTIL || !td_trace_is_of(e[i].device, "/task:0"))
      __builtin_trap();
  if (n < 1000) td_trace_chrome(t, &out);
  td_str_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const devices[] = {"/task:0/device:CPU:0"};
  td_trace_terms terms = {"/task:0", devices, 1, CLOCK, 0, UNTIL};
  td_trace *t;
  int64_t dropped;
  td_status *s = td_trace_new(&t);
  if (!s) {
    s = td_trace_unpack(t, data, size, &terms, &dropped);
    if (!s) check(t);
    td_trace_release(t);
  }
  td_status_release(s);
  return 0;
}
