/* definition.h - the definition of a function as a graph keeps it.
 *
 * To a graph it is bytes (a FunctionDef) with a name, the name of its gradient
 * and the names of what it calls, which is all that is needed to say who uses
 * it. What the bytes mean, only engine/graphdef knows. A definition never
 * changes, so graphs and their copies share it: another name or another
 * gradient is another definition. Inside engine/graph and engine/graphdef only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEFINITION_H
#define TD_DEFINITION_H

#include "engine/base/status.h"
#include "engine/base/str.h"

/* One piece of memory. */
typedef struct td_definition {
  int32_t refs; /* atomic */
  const char *name;
  td_bytes bytes;       /* as they came */
  const char *gradient; /* the function that is its gradient, or NULL */
  const char **calls;   /* what its body names that may be functions; NULL ends
                           the list */
} td_definition;

/* Copies everything. `gradient` may be NULL; NULL ends `calls`. Caller owns the
 * result. */
td_status *td_definition_new(const char *name, td_bytes bytes,
                             const char *gradient, const char *const *calls,
                             td_definition **out) TD_MUST_USE;
td_definition *td_definition_retain(td_definition *d);
void td_definition_release(td_definition *d);
/* `d` with that gradient. Caller owns the result. */
td_status *td_definition_with_gradient(const td_definition *d,
                                       const char *gradient,
                                       td_definition **out) TD_MUST_USE;
/* Do the two say different things, so that one name cannot mean both? */
bool td_definition_differs(const td_definition *a, const td_definition *b);

#endif
