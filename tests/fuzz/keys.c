/* keys.c - libFuzzer: no bytes may break the reader of lists of keys. What it
 * takes is in order, is found, and can be written and read again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/remote/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const td_keys_list *list) {
  td_keys_key key, last, again;
  char text[TD_KEY_TEXT + 1];
  for (size_t i = 0; i < td_keys_list_count(list); i++, last = key) {
    const char *name = td_keys_list_at(list, i, &key);
    td_keys_print(&key, text);
    if (td_keys_list_find(list, &key) != name || strchr(name, '\n') ||
        (i > 0 && memcmp(&last, &key, sizeof key) >= 0) ||
        !td_keys_parse(text, TD_KEY_TEXT, &again) ||
        memcmp(&key, &again, sizeof key) != 0)
      __builtin_trap();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_keys_list *list;
  td_status *s = td_keys_list_parse((const char *)data, size, "x", &list);
  if (!td_ok(s)) {
    td_status_release(s);
    return 0;
  }
  check(list);
  td_keys_list_free(list);
  return 0;
}
