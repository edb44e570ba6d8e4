/* function_library.h - the functions that a graph carries, by name.
 *
 * The graph keeps definitions (definition.h) and knows who calls whom; reading
 * and making them is for engine/graphdef, which sits above. Entries are sorted
 * by name, and no function calls itself, through whatever others. As a node
 * does, an entry belongs to a region (region.h): it can go when the region was
 * retired and nobody calls the function any more.
 *
 * Who is used is told in an array used[], by index in the library. Nothing here
 * locks: the caller holds the lock of the graph. Inside engine/graph and
 * engine/graphdef only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FUNCTION_LIBRARY_H
#define TD_FUNCTION_LIBRARY_H

#include "engine/base/vec.h"
#include "engine/graph/definition.h"

struct td_region;

typedef struct td_function_entry {
  td_definition *definition; /* retained */
  struct td_region *region;
  uint64_t serial; /* unlike any other's of the graph, and stays; 0: none */
} td_function_entry;

typedef struct td_function_library {
  TD_VEC(td_function_entry) list; /* sorted by name */
  uint64_t serials;               /* the last one given */
} td_function_library;

/* NULL when absent. */
td_function_entry *td_function_library_find(const td_function_library *l,
                                            const char *name);
/* Its index; -1 when absent. */
ptrdiff_t td_function_library_index(const td_function_library *l,
                                    const char *name);
/* Takes ownership of `d` when it succeeds; ALREADY_EXISTS when another has its
 * name, the same again is no error. Neither recursion nor the region's count is
 * looked at: for libraries in the making. */
td_status *td_function_library_add(td_function_library *l, td_definition *d,
                                   struct td_region *r) TD_MUST_USE;
/* All of `from` into `to`, which is empty; they are of region `r`. */
td_status *td_function_library_copy(const td_function_library *from,
                                    td_function_library *to,
                                    struct td_region *r) TD_MUST_USE;
void td_function_library_clear(td_function_library *l);
/* INVALID_ARGUMENT when a function calls itself. order[] (may be NULL; room for
 * all): indices, who is called before who calls. */
td_status *td_function_library_order(const td_function_library *l,
                                     size_t *order) TD_MUST_USE;

/* To add all of `from` to `to`, as of region `r`, in two steps. The first may
 * fail, and then neither has changed: it checks that the union is sound, gives
 * it to `from` and makes room in `to`. The second puts it into `to`. */
td_status *td_function_library_unite(td_function_library *to,
                                     td_function_library *from,
                                     const struct td_region *r) TD_MUST_USE;
void td_function_library_take(td_function_library *to,
                              td_function_library *from, struct td_region *r);

/* used[] becomes true for all that used ones call or have for gradients, and
 * that these do; `order` is that of td_function_library_order. */
void td_function_library_add_called(const td_function_library *l,
                                    const size_t *order, bool *used);
/* ... for all that call used ones, and so on. */
void td_function_library_add_callers(const td_function_library *l,
                                     const size_t *order, bool *used);
/* Takes out those that are not used. */
void td_function_library_sweep(td_function_library *l, const bool *used);
/* Puts entries whose definitions were replaced into the order of names. */
void td_function_library_sort(td_function_library *l);

#endif
