/* staging.h - staging areas: what is in one, and how an op finds it.
 *
 * Each op finds its area by container and shared_name; there is no handle. An
 * area is a list of tuples by key: in a plain one keys count up, so that the
 * first is the oldest. A tuple of a map may come in parts, and go in parts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STAGING_H
#define TD_STAGING_H

#include "engine/base/vec.h"
#include "engine/device/resource.h"
#include "kernels/attempts.h"

TD_BEGIN

/* Complete; or with components still to come, or gone already. */
typedef struct td_staging_tuple {
  int64_t key;
  int n, missing;
  td_tensor *at; /* behind the struct; invalid where missing */
} td_staging_tuple;

td_staging_tuple *td_staging_tuple_new(int64_t key, int n); /* NULL: no memory */
void td_staging_tuple_free(td_staging_tuple *t);

typedef struct td_staging_list {
  TD_VEC(td_staging_tuple *) of; /* by key, ascending */
} td_staging_list;

td_staging_tuple *td_staging_lookup(const td_staging_list *l, int64_t key);
/* There is room, and no such key. */
void td_staging_insert(td_staging_list *l, td_staging_tuple *t);
void td_staging_erase(td_staging_list *l, const td_staging_tuple *t);
void td_staging_clear(td_staging_list *l); /* frees them all */

typedef struct td_staging {
  td_resource base;     /* first */
  td_attempts attempts; /* its mutex protects what follows */
  td_staging_list complete, incomplete;
  size_t bytes; /* of all tensors in it */
  int64_t next; /* key of a plain area's next tuple */
} td_staging;

extern const char td_staging_plain[]; /* object.type where it is no map */

static inline const char *td_staging_name(const td_staging *a) {
  return a->base.name ? a->base.name : "";
}

/* What those who wait at one are told. */
td_status *td_staging_was_reset(const td_staging *a) TD_MUST_USE;

/* The area of a node, which has TD_STAGING_STATE. Caller owns *out. */
td_status *td_staging_find(const td_kernel_ctx *c,
                           td_staging **out) TD_MUST_USE;
/* The one that the node found last; NULL: none. Caller owns the result. */
td_staging *td_staging_recall(const td_kernel_ctx *c);
void td_staging_release(td_staging *a); /* NULL is ok */

td_status *td_staging_make_state(const td_kernel_info *info,
                                 void **state) TD_MUST_USE;
void td_staging_drop_state(void *state);
#define TD_STAGING_STATE                                                       \
  .make = td_staging_make_state, .drop = td_staging_drop_state

TD_END
#endif
