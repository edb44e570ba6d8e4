/* handle.h - ops that give the handle of something in a container.
 *
 * VarHandleOp, FIFOQueueV2, HashTableV2, ...: each finds what goes by its
 * shared_name, or its node's name, or makes it, and remembers the handle until
 * something was removed from the containers. What goes by a node's name in the
 * session's own container is that node's, and is dropped with it, for example
 * when a notebook's cell runs again; a variable outlives its node. Its row has TD_HANDLE_STATE; its
 * `run` calls td_handle_run with what its kind of resource is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_HANDLE_H
#define TD_HANDLE_H

#include "engine/device/kernel.h"
#include "engine/device/resource.h"

TD_BEGIN

typedef struct td_handle_kind {
  const char *type; /* "variable", "queue": a resource's object.type */
  /* A new one, as the node of kernel `k` says. Caller owns *out. */
  td_status *(*make)(const td_kernel *k, td_resource **out);
  /* (optional) Is what somebody may have made before what node `n` wants? */
  td_status *(*check)(const td_node *n, const td_resource *r);
} td_handle_kind;

td_status *td_handle_make(const td_kernel_info *info, void **state) TD_MUST_USE;
void td_handle_drop(void *state);
#define TD_HANDLE_STATE .make = td_handle_make, .drop = td_handle_drop

/* Output 0 is the handle. */
td_status *td_handle_run(td_kernel_ctx *c,
                         const td_handle_kind *kind) TD_MUST_USE;
/* The same of what outlives the node that made it. */
td_status *td_handle_run_lasting(td_kernel_ctx *c,
                                 const td_handle_kind *kind) TD_MUST_USE;
/* The resource whose handle is input i; it is of that type, which `what` names:
 * "a queue". Borrowed; valid while the input is. */
td_status *td_handle_in(const td_kernel_ctx *c, int i, const char *type,
                        const char *what, td_resource **out) TD_MUST_USE;

TD_END
#endif
