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

static void fill_slots(td_names *t) {
  for (uint32_t i = 0; i < t->len; i++) {
    uint32_t s = t->at[i].hash & (t->nslots - 1);
    while (t->slots[s]) s = (s + 1) & (t->nslots - 1);
    t->slots[s] = i + 1;
  }
}

bool td_names_reserve(td_names *t, size_t more) {
  size_t need = t->len + more;
  if (TD_LIKELY(need <= t->cap)) return true;
  if (more > INT32_MAX / 2 || need > INT32_MAX / 2) return false;
  size_t cap = t->cap ? 2 * (size_t)t->cap : 64;
  while (cap < need) cap *= 2;
  uint32_t *slots = td_alloc_zero(2 * cap, sizeof *slots);
  if (!slots) return false;
  td_name *at = td_realloc(t->at, cap * sizeof *at);
  if (!at) {
    td_free(slots);
    return false;
  }
  td_free(t->slots);
  *t = (td_names){.at = at,
                  .len = t->len,
                  .cap = (uint32_t)cap,
                  .slots = slots,
                  .nslots = (uint32_t)(2 * cap)};
  fill_slots(t);
  return true;
}

static td_name *find(const td_names *t, const char *text, size_t len,
                     uint32_t hash) {
  if (t->nslots == 0) return NULL;
  uint32_t s = hash & (t->nslots - 1);
  for (; t->slots[s]; s = (s + 1) & (t->nslots - 1)) {
    td_name *n = &t->at[t->slots[s] - 1];
    if (n->hash == hash && n->len == len && memcmp(n->text, text, len) == 0)
      return n;
  }
  return NULL;
}

td_name *td_names_find(const td_names *t, const char *text, size_t len) {
  return find(t, text, len, (uint32_t)td_hash(text, len, 0));
}

void td_names_add(td_names *t, const char *text, size_t len,
                  struct td_node *node) {
  uint32_t hash = (uint32_t)td_hash(text, len, 0);
  uint32_t s = hash & (t->nslots - 1);
  while (t->slots[s]) s = (s + 1) & (t->nslots - 1);
  t->at[t->len++] = (td_name){.text = text,
                              .len = (uint32_t)len,
                              .hash = hash,
                              .next = 1,
                              .node = node};
  t->slots[s] = t->len;
}

void td_names_clear_nodes(td_names *t) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < t->len; i++)
    if (!t->at[i].node) t->at[kept++] = t->at[i];
  t->len = kept;
  if (t->slots) memset(t->slots, 0, t->nslots * sizeof *t->slots);
  fill_slots(t);
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
