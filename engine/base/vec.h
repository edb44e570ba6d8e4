/* vec.h - a growable array of anything.
 *
 *   TD_VEC(int) v = {0};
 *   if (!td_vec_push(&v, 3)) return td_oom();
 *   td_vec_free(&v);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_VEC_H
#define TD_VEC_H

#include "engine/base/base.h"

TD_BEGIN

#define TD_VEC(type)                                                           \
  struct {                                                                     \
    type *at;                                                                  \
    size_t len, cap;                                                           \
  }

/* Room for `more` further elements; false when there is no memory. */
#define td_vec_reserve(v, more)                                                \
  ((v)->cap - (v)->len >= (size_t)(more) ||                                    \
   td_vec_grow((void **)&(v)->at, &(v)->cap, (v)->len, (size_t)(more),         \
               sizeof(*(v)->at)))
#define td_vec_push(v, x)                                                      \
  (td_vec_reserve((v), 1) ? ((v)->at[(v)->len++] = (x), true) : false)
#define td_vec_free(v)                                                         \
  (td_free((v)->at), (v)->at = NULL, (v)->len = (v)->cap = 0)

bool td_vec_grow(void **at, size_t *cap, size_t len, size_t more, size_t size);
void td_free(void *p);

TD_END
#endif
