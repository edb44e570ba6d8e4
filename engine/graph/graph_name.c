/* graph_name.c - the table of a graph's names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/graph_name.h"

#include <string.h>

#include "engine/base/map.h"

enum { MAX_NAME = 1 << 16 };

void td_names_deinit(td_names *t) {
  td_free(t->at);
  td_free(t->slots);
  *t = (td_names){0};
}

static uint32_t hash_of(const char *text, size_t len) {
  return (uint32_t)td_hash(text, len, td_hash_secret());
}

static void put(td_names *t, uint32_t hash, uint32_t index) {
  uint32_t s = hash & (t->nslots - 1);
  while (t->slots[s].index) s = (s + 1) & (t->nslots - 1);
  t->slots[s] = (td_name_slot){hash, index};
}

bool td_names_reserve(td_names *t, size_t more) {
  size_t need = t->len + more;
  if (TD_LIKELY(need <= t->cap)) return true;
  if (more > INT32_MAX / 2 || need > INT32_MAX / 2) return false;
  size_t cap = t->cap ? 2 * (size_t)t->cap : 64;
  while (cap < need) cap *= 2;
  td_name_slot *slots = td_calloc(2 * cap, sizeof *slots);
  if (!slots) return false;
  td_name *at = td_realloc(t->at, cap * sizeof *at);
  if (!at) {
    td_free(slots);
    return false;
  }
  td_names old = *t;
  *t = (td_names){.at = at,
                  .len = old.len,
                  .cap = (uint32_t)cap,
                  .slots = slots,
                  .nslots = (uint32_t)(2 * cap)};
  for (uint32_t i = 0; i < old.nslots; i++)
    if (old.slots[i].index) put(t, old.slots[i].hash, old.slots[i].index);
  td_free(old.slots);
  return true;
}

td_name *td_names_find(const td_names *t, const char *text, size_t len) {
  if (t->nslots == 0) return NULL;
  uint32_t hash = hash_of(text, len), s = hash & (t->nslots - 1);
  for (; t->slots[s].index; s = (s + 1) & (t->nslots - 1)) {
    if (t->slots[s].hash != hash) continue;
    td_name *n = &t->at[t->slots[s].index - 1];
    if (n->len == len && memcmp(n->text, text, len) == 0) return n;
  }
  return NULL;
}

void td_names_add(td_names *t, const char *text, size_t len,
                  struct td_node *node) {
  t->at[t->len++] =
      (td_name){.text = text, .len = (uint32_t)len, .next = 1, .node = node};
  put(t, hash_of(text, len), t->len);
}

void td_names_reserved(td_names *t, const char *text, size_t len,
                       struct td_region *owner) {
  td_names_add(t, text, len, NULL);
  t->at[t->len - 1].owner = owner;
}

void td_names_clear_nodes(td_names *t, const struct td_region *owner) {
  uint32_t kept = 0;
  if (t->slots) memset(t->slots, 0, t->nslots * sizeof *t->slots);
  for (uint32_t i = 0; i < t->len; i++) {
    if (t->at[i].node || (owner && t->at[i].owner == owner)) continue;
    t->at[kept] = t->at[i];
    t->at[kept++].next = 1;
    put(t, hash_of(t->at[i].text, t->at[i].len), kept);
  }
  t->len = kept;
}

const char *td_names_free_one(td_names *t, const char *wanted, size_t len,
                              td_str *scratch) {
  td_name *taken = td_names_find(t, wanted, len);
  if (!taken) return wanted;
  for (uint32_t k = taken->next;; k++) {
    td_str_clear(scratch);
    td_str_addn(scratch, wanted, len);
    td_str_addf(scratch, "_%u", k);
    if (scratch->failed) break;
    taken->next = k + 1;
    if (!td_names_find(t, scratch->at, scratch->len)) return scratch->at;
  }
  td_str_deinit(scratch); /* `failed` would stay otherwise */
  return NULL;
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '.';
}

td_status *td_names_check(const char *name, bool exact) {
  size_t len = strnlen(name, MAX_NAME + 1);
  bool good = len > 0 && (is_letter(name[0]) || (exact && name[0] == '_'));
  for (size_t i = 1; good && i < len; i++)
    good = is_letter(name[i]) || strchr("_/-", name[i]);
  if (len > MAX_NAME)
    return td_error(TD_INVALID_ARGUMENT, "a name of more than %d bytes: %.60s",
                    MAX_NAME, name);
  if (good) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a name must be letters, digits, \".\" and then also "
                  "\"_\", \"/\", \"-\", not \"%.100s\"",
                  name);
}

int32_t td_names_port(const char *text) {
  int64_t port = 0;
  if (!text[0] || (text[0] == '0' && text[1])) return -1;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return -1;
    port = port * 10 + (*text - '0');
    if (port > INT32_MAX) return -1;
  }
  return (int32_t)port;
}
