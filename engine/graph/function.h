/* function.h - the library of functions that a graph carries.
 *
 * Definitions arrive with a GraphDef and leave with it; attributes of kind func
 * name them. Kept as their FunctionDef bytes, sorted by name. A body must be
 * whole (every result given, every input there), and no function may call
 * itself, through whatever others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FUNCTION_H
#define TD_FUNCTION_H

#include "engine/graph/graph.h"

TD_BEGIN

/* Copies `def` (FunctionDef bytes). ALREADY_EXISTS when another definition has
 * that name; the same bytes again are no error. */
td_status *td_function_add(td_graph *g, const char *name, const void *def,
                           size_t len) TD_MUST_USE;
/* All functions of `from` into `to`, a graph that has none. */
td_status *td_function_copy(const td_graph *from, td_graph *to) TD_MUST_USE;
/* Borrowed until the next function is added; NULL when absent. */
const td_bytes *td_function_find(const td_graph *g, const char *name);
int td_function_count(const td_graph *g);
/* In the order of names. Borrowed; valid while `g` lives. */
const char *td_function_name(const td_graph *g, int i);

TD_END
#endif
