/* graph_name.h - the names of a graph. Inside engine/graph and engine/graphdef.
 *
 * A table made for this: names lie in the graph's arenas, a look-up hashes
 * once, room is taken before and adding then cannot fail. Each name remembers the
 * next number to try behind it, so that n nodes asking for one name cost n
 * steps. Under the graph's lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPH_NAME_H
#define TD_GRAPH_NAME_H

#include "engine/base/mem.h"
#include "engine/base/status.h"
#include "engine/base/str.h"

struct td_node;
struct td_region;

typedef struct td_name {
  const char *text; /* an arena's */
  uint32_t len;
  uint32_t next;        /* x_<next> is the first worth a try */
  struct td_node *node; /* NULL: reserved */
  struct td_region *owner; /* of a reserved one: the region that `text` is of */
} td_name;

/* With the hash beside it, so that a probe rarely touches the name. */
typedef struct td_name_slot {
  uint32_t hash;
  uint32_t index; /* in `at` + 1, 0 is empty */
} td_name_slot;

typedef struct td_names {
  td_name *at; /* in order of arrival */
  uint32_t len, cap;
  td_name_slot *slots;
  uint32_t nslots; /* power of two, 2 * cap */
} td_names;

void td_names_deinit(td_names *t);
bool td_names_reserve(td_names *t, size_t more) TD_MUST_USE;
td_name *td_names_find(const td_names *t, const char *text, size_t len);
/* `text` must not be there yet; td_names_reserve gave the room. */
void td_names_add(td_names *t, const char *text, size_t len,
                  struct td_node *node);
/* The same for a name whose node may follow. */
void td_names_reserved(td_names *t, const char *text, size_t len,
                       struct td_region *owner);
/* Forgets everything but names reserved by others than `owner`. */
void td_names_clear_nodes(td_names *t, const struct td_region *owner);
/* `wanted` when free, else with a number behind, written into `scratch`. NULL
 * when there is no memory. */
const char *td_names_free_one(td_names *t, const char *wanted, size_t len,
                              td_str *scratch);
/* [A-Za-z0-9.][A-Za-z0-9_./-]*; `exact` names may begin with "_" too. */
td_status *td_names_check(const char *name, bool exact) TD_MUST_USE;
/* The number behind the ":" of "node:1"; -1 when it is none. */
int32_t td_names_port(const char *text);

#endif
