/* checkpoint_state.c - libFuzzer: no text may break the reader of `checkpoint`
 * files, and what is printed of one reads as the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_state.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
  if (!holds) __builtin_trap();
}

static void same(const td_checkpoint_state *a, const td_checkpoint_state *b) {
  must(!a->newest == !b->newest);
  must(!a->newest || !strcmp(a->newest, b->newest));
  must(a->paths.len == b->paths.len && a->times.len == b->times.len);
  for (size_t i = 0; i < a->paths.len; i++)
    must(!strcmp(a->paths.at[i], b->paths.at[i]));
  for (size_t i = 0; i < a->times.len; i++)
    must(a->times.at[i] == b->times.at[i]);
  must(a->preserved == b->preserved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_checkpoint_state a, b;
  td_bytes text = {(const char *)data, size};
  td_status *s = td_checkpoint_state_parse(text, &a);
  if (!td_ok(s)) {
    must(td_status_code(s) == TD_DATA_LOSS);
    td_status_release(s);
    return 0;
  }
  td_str again = {0};
  td_checkpoint_state_print(&a, &again);
  must(!again.failed);
  must(td_ok(
      td_checkpoint_state_parse((td_bytes){td_str_c(&again), again.len}, &b)));
  same(&a, &b);
  td_checkpoint_state_deinit(&a);
  td_checkpoint_state_deinit(&b);
  td_str_deinit(&again);
  return 0;
}
