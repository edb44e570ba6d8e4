/* resource.h - containers of named things that outlive a step.
 *
 * A container maps (type, name) to a counted td_object. A session's default
 * container ("") is its own; named ones belong to the runtime and last until
 * reset. A resource tensor holds the object itself; an object whose container
 * was reset is `gone`, and the handle op makes a new one on its next run.
 *
 * What a node makes under its own name, because nobody gave it another, is the
 * node's: another node that takes the name (graph/region.h) makes one for itself,
 * and what belongs to a node that is no more can be swept.
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
  uint64_t home;      /* incarnation of the device it lives on, 0: none */
  uint64_t maker;     /* serial of the node it belongs to, 0: to all that name
                         it; under the table's mutex */
  td_lock lock;       /* protects the content */
  /* (optional) It was taken out of its container: whoever waits at it is told.
   * Outside of all locks. */
  void (*removed)(struct td_resource *r);
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
/* The same for the node with that serial: what another node made for itself is
 * not found, but what this one did, even if it was not called "x.old" then. With 0 it is td_resources_get, and what it finds belongs to nobody
 * any more. `make` must not be NULL. */
td_status *td_resources_get_own(td_resources *m, const char *container,
                                const char *type, const char *name,
                                uint64_t maker, td_resource_make make,
                                void *arg, td_resource **out) TD_MUST_USE;
/* Removes and marks gone; NOT_FOUND when absent. */
td_status *td_resources_remove(td_resources *m, const char *container,
                               const char *name) TD_MUST_USE;
/* What is called `from` is called `to` from now on, for who looks it up; NOT_FOUND
 * when absent, ALREADY_EXISTS when `to` is there. */
td_status *td_resources_rename(td_resources *m, const char *container,
                               const char *from, const char *to) TD_MUST_USE;
/* Removes a whole container (NULL: all). */
void td_resources_reset(td_resources *m, const char *container);
/* Removes what lives on the device of that incarnation. */
void td_resources_drop_on(td_resources *m, uint64_t home);
/* Which nodes there are: their serials, ascending; those that came since have
 * greater ones than `last`. */
typedef struct td_makers {
  uint64_t *serials;
  size_t n;
  uint64_t last;
} td_makers;
/* Removes what belongs to a node that is no more. */
void td_resources_sweep(td_resources *m, const td_makers *alive);
/* Grows with every removal. Atomic. */
uint64_t td_resources_generation(const td_resources *m);
/* Names in a container, in order of creation. */
void td_resources_list(td_resources *m, const char *container,
                       void (*visit)(void *arg, const td_resource *r),
                       void *arg);
/* What lives on the device of that incarnation, in all containers. */
void td_resources_list_on(td_resources *m, uint64_t home,
                          void (*visit)(void *arg, const td_resource *r),
                          void *arg);

TD_END
#endif
