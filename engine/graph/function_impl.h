/* function_impl.h - functions as the GraphDef reader and graph copies see them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FUNCTION_IMPL_H
#define TD_FUNCTION_IMPL_H

#include "engine/graph/function.h"
#include "engine/graph/graph_impl.h"

/* None of these locks. */

/* Checks and copies one definition into `g`; *name (may be NULL) is its name,
 * which the bytes hold. Does not look for recursion. */
td_status *td_functions_put(td_graph *g, const void *def, size_t len,
                            const char **name) TD_MUST_USE;
/* Names the gradient of a function of `g`. */
td_status *td_functions_set_gradient(td_graph *g, const char *name,
                                     const char *gradient) TD_MUST_USE;
/* No function of `at` calls itself. */
td_status *td_functions_check(const td_function *at, size_t n) TD_MUST_USE;
/* Gives `from` the functions of both, sorted, and `to` the room for them, or
 * changes nothing. td_functions_move then cannot fail. */
td_status *td_functions_join(td_graph *to, td_graph *from) TD_MUST_USE;
void td_functions_move(td_graph *to, td_graph *from);

#endif
