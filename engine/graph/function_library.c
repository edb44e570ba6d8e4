/* function_library.c - finding, joining and dropping functions of a graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/function_library.h"

#include <string.h>

#include "engine/graph/graph_impl.h"

/* ---- regions ------------------------------------------------------------- */

/* A region is held once for all functions that are of it. */
static void enter(td_region *r) {
  if (!td_region_is_root(r) && r->functions++ == 0) td_region_retain(r);
}

static void leave(td_region *r) {
  if (r && !td_region_is_root(r) && --r->functions == 0) td_region_release(r);
}

/* ---- entries ------------------------------------------------------------- */

static const char *name_at(const td_function_library *l, size_t i) {
  return l->list.at[i].definition->name;
}

/* Index of the first whose name is not before `name`. */
static size_t place_of(const td_function_library *l, const char *name) {
  size_t low = 0, n = l->list.len;
  while (low < n) {
    size_t mid = low + (n - low) / 2;
    if (strcmp(name_at(l, mid), name) < 0)
      low = mid + 1;
    else
      n = mid;
  }
  return low;
}

ptrdiff_t td_function_library_index(const td_function_library *l,
                                    const char *name) {
  size_t i = place_of(l, name);
  return i < l->list.len && strcmp(name_at(l, i), name) == 0 ? (ptrdiff_t)i
                                                             : -1;
}

td_function_entry *td_function_library_find(const td_function_library *l,
                                            const char *name) {
  ptrdiff_t i = td_function_library_index(l, name);
  return i < 0 ? NULL : &l->list.at[i];
}

static td_status *exists(const char *name) {
  return td_error(TD_ALREADY_EXISTS,
                  "another function \"%.100s\" exists already", name);
}

td_status *td_function_library_add(td_function_library *l, td_definition *d,
                                   td_region *r) {
  size_t n = l->list.len, i = place_of(l, d->name);
  if (i < n && strcmp(name_at(l, i), d->name) == 0) {
    if (td_definition_differs(l->list.at[i].definition, d))
      return exists(d->name);
    td_definition_release(d);
    return NULL;
  }
  if (!td_vec_reserve(&l->list, 1)) return td_oom();
  td_function_entry *at = l->list.at + i;
  memmove(at + 1, at, (n - i) * sizeof *at);
  *at = (td_function_entry){.definition = d, .region = r};
  l->list.len++;
  return NULL;
}

td_status *td_function_library_copy(const td_function_library *from,
                                    td_function_library *to, td_region *r) {
  if (!td_vec_reserve(&to->list, from->list.len)) return td_oom();
  for (size_t i = 0; i < from->list.len; i++)
    to->list.at[to->list.len++] = (td_function_entry){
        .definition = td_definition_retain(from->list.at[i].definition),
        .region = r,
        .serial = from->list.at[i].serial};
  to->serials = from->serials;
  return NULL;
}

void td_function_library_clear(td_function_library *l) {
  for (size_t i = 0; i < l->list.len; i++) {
    td_definition_release(l->list.at[i].definition);
    leave(l->list.at[i].region);
  }
  td_vec_free(&l->list);
}

void td_function_library_sort(td_function_library *l) {
  for (size_t i = 1; i < l->list.len; i++) {
    td_function_entry e = l->list.at[i];
    size_t k = i;
    for (; k > 0 && strcmp(name_at(l, k - 1), e.definition->name) > 0; k--)
      l->list.at[k] = l->list.at[k - 1];
    l->list.at[k] = e;
  }
}

/* ---- recursion ----------------------------------------------------------- */

/* Depth first: who is open calls the one above it. */
typedef struct descent {
  const td_function_library *library;
  size_t *order; /* NULL, or room for those that are done */
  size_t done;
  uint8_t *state; /* by index */
  struct {
    size_t function;
    size_t call; /* the next of its calls to look at */
  } * open;
  size_t depth;
} descent;

enum { UNSEEN, OPEN, DONE };

static void open_function(descent *d, size_t i) {
  d->open[d->depth].function = i;
  d->open[d->depth++].call = 0;
  d->state[i] = OPEN;
}

static td_status *descend(descent *d, size_t from) {
  d->depth = 0;
  open_function(d, from);
  while (d->depth > 0) {
    size_t i = d->open[d->depth - 1].function;
    const td_definition *f = d->library->list.at[i].definition;
    const char *name = f->calls[d->open[d->depth - 1].call++];
    if (!name) {
      d->state[i] = DONE;
      d->depth--;
      if (d->order) d->order[d->done++] = i;
      continue;
    }
    ptrdiff_t next = td_function_library_index(d->library, name);
    if (next < 0 || d->state[next] == DONE) continue;
    if (d->state[next] == OPEN)
      return td_error(TD_INVALID_ARGUMENT,
                      "function \"%.100s\" calls itself, by way of \"%.100s\"",
                      name, f->name);
    open_function(d, (size_t)next);
  }
  return NULL;
}

td_status *td_function_library_order(const td_function_library *l,
                                     size_t *order) {
  size_t n = l->list.len;
  descent d = {.library = l, .order = order};
  d.state = td_calloc(n, sizeof *d.state);
  d.open = td_calloc(n, sizeof *d.open);
  td_status *s = d.state && d.open ? NULL : td_oom();
  for (size_t i = 0; i < n && td_ok(s); i++)
    if (d.state[i] == UNSEEN) s = descend(&d, i);
  td_free(d.state);
  td_free(d.open);
  return s;
}

/* ---- joining ------------------------------------------------------------- */

/* Two functions of one name must be one. It is of the one region of the two
 * that is not retired; NULL: that of `b`, which is `r`. */
static td_status *merge_entry(const td_function_entry *a,
                              const td_definition *b, const td_region *r,
                              td_function_entry *out) {
  if (td_definition_differs(a->definition, b)) return exists(b->name);
  *out = *a;
  if (a->region->retired && !r->retired) out->region = NULL;
  if (!a->definition->gradient && b->gradient)
    return td_definition_with_gradient(a->definition, b->gradient,
                                       &out->definition);
  td_definition_retain(out->definition);
  return NULL;
}

/* The union, in the order of names; out->list has the room. What has region
 * NULL is to be of `r`. */
static td_status *merge(const td_function_library *to,
                        const td_function_library *from, const td_region *r,
                        td_function_library *out) {
  size_t i = 0, j = 0, a = to->list.len, b = from->list.len;
  for (; i < a || j < b; out->list.len++) {
    td_function_entry *e = &out->list.at[out->list.len];
    int order = i == a   ? 1
                : j == b ? -1
                         : strcmp(name_at(to, i), name_at(from, j));
    if (order == 0) {
      TD_TRY(
          merge_entry(&to->list.at[i++], from->list.at[j++].definition, r, e));
    } else if (order < 0) {
      *e = to->list.at[i++];
      td_definition_retain(e->definition);
    } else {
      *e = (td_function_entry){
          .definition = td_definition_retain(from->list.at[j++].definition)};
    }
  }
  return td_function_library_order(out, NULL);
}

td_status *td_function_library_unite(td_function_library *to,
                                     td_function_library *from,
                                     const td_region *r) {
  td_function_library all = {0};
  if (from->list.len == 0) return NULL;
  td_status *s = td_vec_reserve(&all.list, to->list.len + from->list.len)
                     ? merge(to, from, r, &all)
                     : td_oom();
  if (td_ok(s) && !td_vec_reserve(&to->list, from->list.len)) s = td_oom();
  if (!td_ok(s)) {
    for (size_t i = 0; i < all.list.len; i++)
      td_definition_release(all.list.at[i].definition);
    td_vec_free(&all.list);
    return s;
  }
  td_function_library_clear(from);
  from->list.at = all.list.at;
  from->list.len = all.list.len;
  from->list.cap = all.list.cap;
  return NULL;
}

/* A region is entered before another is left: they may be one. */
void td_function_library_take(td_function_library *to,
                              td_function_library *from, td_region *r) {
  size_t n = from->list.len;
  if (n == 0) return;
  for (size_t i = 0; i < n; i++) {
    td_function_entry *e = &from->list.at[i];
    if (!e->region) e->region = r;
    if (!e->serial) e->serial = ++to->serials;
    enter(e->region);
  }
  for (size_t i = 0; i < to->list.len; i++) {
    td_definition_release(to->list.at[i].definition);
    leave(to->list.at[i].region);
  }
  memcpy(to->list.at, from->list.at, n * sizeof *to->list.at);
  to->list.len = n;
  from->list.len = 0;
}

/* ---- users --------------------------------------------------------------- */

/* Marks function `name`; true when it was not. */
static bool mark(const td_function_library *l, const char *name, bool *used) {
  ptrdiff_t i = name ? td_function_library_index(l, name) : -1;
  if (i < 0 || used[i]) return false;
  return used[i] = true;
}

/* A gradient may come before what it is the gradient of. */
void td_function_library_add_called(const td_function_library *l,
                                    const size_t *order, bool *used) {
  for (bool more = true; more;) {
    more = false;
    for (size_t i = l->list.len; i-- > 0;) {
      const td_definition *d = l->list.at[order[i]].definition;
      if (!used[order[i]]) continue;
      for (const char **c = d->calls; *c; c++) mark(l, *c, used);
      more = mark(l, d->gradient, used) || more;
    }
  }
}

void td_function_library_add_callers(const td_function_library *l,
                                     const size_t *order, bool *used) {
  for (size_t i = 0; i < l->list.len; i++) {
    const td_definition *d = l->list.at[order[i]].definition;
    for (const char **c = d->calls; *c && !used[order[i]]; c++) {
      ptrdiff_t called = td_function_library_index(l, *c);
      used[order[i]] = called >= 0 && used[called];
    }
  }
}

void td_function_library_sweep(td_function_library *l, const bool *used) {
  size_t kept = 0;
  for (size_t i = 0; i < l->list.len; i++) {
    td_function_entry e = l->list.at[i];
    if (used[i]) {
      l->list.at[kept++] = e;
      continue;
    }
    td_definition_release(e.definition);
    leave(e.region);
  }
  l->list.len = kept;
}
