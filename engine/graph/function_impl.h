/* function_impl.h - functions as the GraphDef reader and graph copies see them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FUNCTION_IMPL_H
#define TD_FUNCTION_IMPL_H

#include "engine/graph/function.h"
#include "engine/graph/graph.pb-c.h"
#include "engine/graph/graph_impl.h"

/* None of these locks. */

/* ---- one definition (function_def.c) ---- */

/* `p` is what the bytes `def` say; they are copied. Caller owns the result. */
td_status *td_function_new(const Td__FunctionDef *p, td_bytes def,
                           const char *gradient, td_function **out) TD_MUST_USE;
td_function *td_function_retain(td_function *f);
void td_function_release(td_function *f);
/* `f` with that gradient. Caller owns the result. */
td_status *td_function_with_gradient(const td_function *f, const char *gradient,
                                     td_function **out) TD_MUST_USE;
/* `f` where `from` is called `to`, itself included. Caller owns the result. */
td_status *td_function_renamed(const td_function *f, const char *from,
                               const char *to, td_function **out) TD_MUST_USE;

/* ---- libraries (function.c) ---- */

/* Checks and copies one definition into `g`; *name (may be NULL) is its name,
 * which the bytes hold. Does not look for recursion. */
td_status *td_functions_put(td_graph *g, const void *def, size_t len,
                            const char **name) TD_MUST_USE;
/* Names the gradient of a function of `g`. */
td_status *td_functions_set_gradient(td_graph *g, const char *name,
                                     const char *gradient) TD_MUST_USE;
/* No function of `at` calls itself. order[] (may be NULL; room for n): their
 * indices, who is called before who calls. */
td_status *td_functions_order(const td_member *at, size_t n,
                              size_t *order) TD_MUST_USE;
/* Gives `from` the functions of both, sorted, and `to` the room for them, or
 * changes nothing but names of functions put aside. td_functions_move then
 * cannot fail. New ones are of region `r` of `to`. */
td_status *td_functions_join(td_graph *to, td_graph *from,
                             td_region *r) TD_MUST_USE;
void td_functions_move(td_graph *to, td_graph *from, td_region *r);
/* As td_function_add, for a region of `g`. Locks. */
td_status *td_functions_add(td_graph *g, td_region *r, const char *name,
                            const void *def, size_t len) TD_MUST_USE;
/* NULL when absent. */
td_member *td_functions_find(const td_graph *g, const char *name);
void td_functions_free(td_graph *g);

/* ---- names and users (function_rename.c) ---- */

/* `name` is called "name.old" from now on, wherever it is named. On error
 * nothing has changed. */
td_status *td_functions_rename_old(td_graph *g, const char *name) TD_MUST_USE;
/* Does node `n` name a used function? */
bool td_functions_named(const td_node *n, const bool *used);
/* used[i] becomes true for functions that node `n` names. */
void td_functions_mark(const td_node *n, bool *used);
/* ... for those that used ones call or have for gradients; `order` is that of
 * td_functions_order. */
void td_functions_called(const td_graph *g, const size_t *order, bool *used);
/* ... for those that call used ones. */
void td_functions_callers(const td_graph *g, const size_t *order, bool *used);
/* Takes out those that are not used. */
void td_functions_cut(td_graph *g, const bool *used);

/* A function of region `r` comes or goes (region.c). */
void td_functions_enter(td_region *r);
void td_functions_leave(td_region *r);

#endif
