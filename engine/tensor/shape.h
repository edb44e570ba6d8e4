/* shape.h - sizes of a tensor, known or partly known.
 *
 * rank -1 is an unknown rank, a size of -1 an unknown size. Values always have
 * known shapes. Rank is at most TD_MAX_RANK.
 *
 * The rank comes first and copies stop at the sizes that are there: a shape of
 * few sizes costs what it did if more were impossible, since the memory behind
 * them is not looked at. Sizes beyond the rank have no meaning.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SHAPE_H
#define TD_SHAPE_H

#include <string.h>

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

enum { TD_MAX_RANK = 16 };

typedef struct td_shape {
  int32_t rank;
  int64_t dim[TD_MAX_RANK];
} td_shape;

/* *to = *from, as far as there are sizes: most shapes are short. */
static inline void td_shape_set(td_shape *to, const td_shape *from) {
  to->rank = from->rank;
  if (from->rank == 0) return;
  if (TD_LIKELY(from->rank <= 2)) {
    to->dim[0] = from->dim[0];
    to->dim[1] = from->dim[1];
  } else if (TD_LIKELY(from->rank <= 8)) {
    memcpy(to->dim, from->dim, 8 * sizeof *to->dim);
  } else {
    *to = *from;
  }
}

/* td_shape_of(2, (int64_t[]){3, 4}); rank -1: unknown. rank must be <=
 * TD_MAX_RANK (else the result is of unknown rank); sizes below 0 are unknown. */
td_shape td_shape_of(int rank, const int64_t *dims);
td_shape td_shape_scalar(void);
td_shape td_shape_vector(int64_t n);
td_shape td_shape_matrix(int64_t rows, int64_t cols);
td_shape td_shape_unknown(void);
td_shape td_shape_ranked(int rank); /* of that rank, sizes unknown */

/* UNIMPLEMENTED with both numbers when no tensor has so many dimensions. */
td_status *td_shape_check_rank(int64_t rank) TD_MUST_USE;
bool td_shape_known(const td_shape *s); /* rank and every size */
/* Number of elements; -1 when not known or when the product of the sizes that
 * are not 0 is over INT64_MAX (so that strides always fit). */
int64_t td_shape_product(const td_shape *s);
static inline int64_t td_shape_count(const td_shape *s) {
  return s->rank == 0 ? 1 : td_shape_product(s);
}
/* Elements of the axes [begin, end) of a shape that has been counted. */
int64_t td_shape_span(const td_shape *s, int begin, int end);
/* Of a dense array: elements from one index of each axis to the next. */
void td_shape_strides(const td_shape *s, int64_t *strides);
bool td_shape_equal(const td_shape *a, const td_shape *b); /* as written */
/* Could both describe one value? */
bool td_shape_compatible(const td_shape *a, const td_shape *b);
/* What both say together; false when they contradict. */
bool td_shape_merge(const td_shape *a, const td_shape *b, td_shape *out);
/* Is every value of shape `s` one of shape `wide`? */
bool td_shape_allows(const td_shape *wide, const td_shape *s);
/* What is true of both: the narrowest shape that allows either. */
td_shape td_shape_widen(const td_shape *a, const td_shape *b);
/* NumPy's rule, unknown sizes allowed; false when they do not broadcast. */
bool td_shape_broadcast(const td_shape *a, const td_shape *b, td_shape *out);
/* "{3, -1}", "{}", "?" for unknown rank. Appends. */
void td_shape_print(const td_shape *s, td_str *out);
/* The same into a buffer of td_shape_text size; for messages. */
typedef struct td_shape_text {
  char text[352];
} td_shape_text;
const char *td_shape_str(const td_shape *s, td_shape_text *buf);

TD_END
#endif
