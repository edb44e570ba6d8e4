/* function_impl.h - what the files of functions and of the GraphDef reader share.
 *
 * None of these locks but td_function_add_to.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FUNCTION_IMPL_H
#define TD_FUNCTION_IMPL_H

#include "engine/graphdef/function.h"
#include "engine/graphdef/graph.pb-c.h"
#include "engine/graph/graph_impl.h"

/* ---- one definition ---- */

/* Is a FunctionDef whole (function_check.c)? */
td_status *td_function_check(const Td__FunctionDef *def) TD_MUST_USE;
/* `def` is what the bytes say; they are copied (function_def.c). Caller owns the
 * result. */
td_status *td_function_define(const Td__FunctionDef *def, td_bytes bytes,
                              const char *gradient, td_arena *scratch,
                              td_definition **out) TD_MUST_USE;
/* `d` where `from` is called `to`, itself included. Caller owns the result. */
td_status *td_function_renamed(const td_definition *d, const char *from,
                               const char *to, td_definition **out) TD_MUST_USE;
/* `name` is called "name.old" from now on, wherever it is named. On error
 * nothing has changed. */
td_status *td_function_rename_old(td_graph *g, const char *name) TD_MUST_USE;

/* ---- libraries ---- */

/* Checks and copies one definition into the library of `g`, a graph in the
 * making; *name (may be NULL) is its name, which the bytes hold. Does not look
 * for recursion. */
td_status *td_function_put(td_graph *g, const void *def, size_t len,
                           const char **name) TD_MUST_USE;
/* Names the gradient of a function of `g`. */
td_status *td_function_set_gradient(td_graph *g, const char *name,
                                    const char *gradient) TD_MUST_USE;
/* To add the functions of `from` to those of `to`, in two steps as
 * td_function_library_unite and _take; the first may also give other names to
 * functions of retired regions. New ones are of region `r` of `to`. */
td_status *td_function_unite(td_graph *to, td_graph *from,
                             const td_region *r) TD_MUST_USE;
void td_function_take(td_graph *to, td_graph *from, td_region *r);
/* As td_function_add, for a region of `g`. Locks. */
td_status *td_function_add_to(td_graph *g, td_region *r, const char *name,
                              const void *def, size_t len) TD_MUST_USE;

#endif
