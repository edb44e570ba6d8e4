/* kill.c - the kill ring: what was cut, to be put back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/kill.h"

void td_edit_kill_init(td_edit_kill *k) {
  *k = (td_edit_kill){0};
}

void td_edit_kill_deinit(td_edit_kill *k) {
  for (int i = 0; i < TD_EDIT_KILL_MOST; i++) td_str_deinit(&k->ring[i]);
}

/* Puts a whole text in the place of an entry, or leaves the entry alone. */
static bool put(td_str *entry, td_bytes first, td_bytes second) {
  td_str made;
  td_str_init(&made);
  td_str_addn(&made, first.at, first.len);
  td_str_addn(&made, second.at, second.len);
  if (made.failed) {
    td_str_deinit(&made);
    return false;
  }
  td_str_deinit(entry);
  *entry = made;
  return true;
}

void td_edit_kill_add(td_edit_kill *k, const char *text, size_t len,
                      td_edit_kill_how how) {
  if (!len) return;
  k->back = 0;
  td_bytes cut = {text, len}, none = {"", 0};
  if (how == TD_EDIT_KILL_NEW || !k->n) {
    int slot = k->n ? (k->newest + 1) % TD_EDIT_KILL_MOST : 0;
    if (!put(&k->ring[slot], cut, none)) return;
    k->newest = slot;
    if (k->n < TD_EDIT_KILL_MOST) k->n++;
    return;
  }
  td_str *e = &k->ring[k->newest];
  td_bytes old = {td_str_c(e), e->len};
  if (how == TD_EDIT_KILL_APPEND)
    put(e, old, cut);
  else
    put(e, cut, old);
}

static td_bytes entry(const td_edit_kill *k) {
  if (!k->n) return (td_bytes){0};
  const td_str *e =
      &k->ring[(k->newest - k->back + TD_EDIT_KILL_MOST) % TD_EDIT_KILL_MOST];
  return (td_bytes){td_str_c(e), e->len};
}

td_bytes td_edit_kill_yank(td_edit_kill *k) {
  k->back = 0;
  return entry(k);
}

td_bytes td_edit_kill_pop(td_edit_kill *k) {
  if (k->n) k->back = (k->back + 1) % k->n;
  return entry(k);
}
