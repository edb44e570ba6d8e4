/* graphdef_name.c - the names of a file's nodes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/graphdef/graphdef_read_impl.h"

td_status *td_import_name(td_import *m, td_item *n) {
  const char *name = n->def->name, *prefix = m->o->prefix;
  size_t len = strlen(name);
  n->name = name;
  if (prefix) {
    size_t size = strlen(prefix) + len + 2;
    char *text = td_arena_alloc(&m->arena, size);
    if (!text) return td_oom();
    snprintf(text, size, "%s/%s", prefix, name);
    n->name = text;
  }
  TD_TRY(td_import_blame(td_names_check(name, true), n));
  if (td_names_find(&m->names, name, len))
    return td_import_blame(
        td_error(TD_INVALID_ARGUMENT, "two nodes are called \"%.200s\"", name),
        n);
  td_names_add(&m->names, name, len, NULL);
  return NULL;
}
