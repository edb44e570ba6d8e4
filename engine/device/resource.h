/* resource.h - containers of named things that outlive a step; variables.
 *
 * A container maps (type, name) to a counted td_object. A session's default
 * container ("") is its own; named ones belong to the runtime and last until
 * reset. A resource tensor holds the object itself; an object whose container
 * was reset is `gone`, and the handle op makes a new one on its next run.
 *
 * A variable's lock is taken by the kernel machinery, as its row says
 * (`exclusive`, `shared` in kernel.h): kernels only read and write.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RESOURCE_H
#define TD_RESOURCE_H

#include "engine/device/lock.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_resources td_resources;

/* What every resource begins with. */
typedef struct td_resource {
  td_object object;   /* first: a td_resource is a td_object */
  const char *name;   /* owned */
  const char *container;
  int32_t gone;       /* atomic: its container was reset */
  td_lock lock;       /* protects the content */
  struct td_resource *next; /* the table's */
} td_resource;

/* Frees what td_resources_get gave it; for the `free` of a resource. */
void td_resource_deinit(td_resource *r);

td_status *td_resources_new(td_resources **out) TD_MUST_USE;
void td_resources_free(td_resources *m); /* lets go of everything */

typedef td_status *(*td_resource_make)(void *arg, td_resource **out);
/* Finds or makes; INVALID_ARGUMENT when the name is taken by another type. The
 * result is retained for the caller. `make` NULL: NOT_FOUND when absent. Sets
 * name and container of a new one. */
td_status *td_resources_get(td_resources *m, const char *container,
                            const char *type, const char *name,
                            td_resource_make make, void *arg,
                            td_resource **out) TD_MUST_USE;
/* Removes and marks gone; NOT_FOUND when absent. */
td_status *td_resources_remove(td_resources *m, const char *container,
                               const char *name) TD_MUST_USE;
/* What is called `from` is called `to` from now on, for who looks it up; NOT_FOUND
 * when absent, ALREADY_EXISTS when `to` is there. */
td_status *td_resources_rename(td_resources *m, const char *container,
                               const char *from, const char *to) TD_MUST_USE;
/* Removes a whole container (NULL: all). */
void td_resources_reset(td_resources *m, const char *container);
/* Grows with every removal. Atomic. */
uint64_t td_resources_generation(const td_resources *m);
/* Names in a container, in order of creation. */
void td_resources_list(td_resources *m, const char *container,
                       void (*visit)(void *arg, const td_resource *r),
                       void *arg);

/* ---- variables ---- */

#define TD_VARIABLE "variable" /* td_object.type, compared by strcmp once */

typedef struct td_variable {
  td_resource base;
  td_dtype dtype;
  td_shape shape;   /* declared; unknown sizes allowed */
  td_tensor value;  /* lock: base.lock. Invalid until initialised */
  td_tensor seen;   /* lock: base.lock. `value` where kernels of a device that
                       maps its memory see it; holds no count */
  bool sparse;      /* atomic. Rows are touched in place: reads copy */
} td_variable;

td_status *td_variable_new(td_dtype dtype, const td_shape *shape,
                           td_variable **out) TD_MUST_USE;
/* From now on its rows are worked on in place: sparse. */
void td_variable_by_rows(td_variable *v);

/* Process-wide counters for tests: bytes copied because a value to be written
 * in place was shared, and by reads of sparse variables. */
typedef struct td_variable_stats {
  int64_t copied_on_write;
  int64_t copied_on_read;
} td_variable_stats;
td_variable_stats td_variable_read_stats(void);

/* Inside kernels, lock held as the row says: see kernel.h td_var_*. */

TD_END
#endif
