/* reduce_plan.c - which axes are folded, and how memory looks then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/reduce.h"

td_status *td_reduce_axes(const td_tensor *axes, int rank, bool *folded) {
  td_shape_text text;
  memset(folded, 0, TD_MAX_RANK * sizeof *folded);
  if (axes->shape.rank > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "reduction_indices must be a scalar or a vector, not %s",
                    td_shape_str(&axes->shape, &text));
  int64_t n = td_tensor_count(axes);
  for (int64_t i = 0; i < n; i++) {
    int axis;
    TD_TRY(td_infer_axis(td_tensor_get_i(axes, i), rank, "reduction_indices",
                         &axis));
    if (folded[axis])
      return td_error(TD_INVALID_ARGUMENT,
                      "reduction_indices names dimension %d twice", axis);
    folded[axis] = true;
  }
  return NULL;
}

td_shape td_reduce_shape(const td_shape *shape, const bool *folded, bool keep) {
  td_shape out = {.rank = 0};
  for (int i = 0; i < shape->rank; i++)
    if (!folded[i])
      out.dim[out.rank++] = shape->dim[i];
    else if (keep)
      out.dim[out.rank++] = 1;
  return out;
}

/* Axes of more than one element, neighbours of one kind merged. */
typedef struct merged {
  int n;
  int64_t size[TD_MAX_RANK];
  bool folded[TD_MAX_RANK];
} merged;

static void merge(const td_shape *shape, const bool *folded, merged *m) {
  m->n = 0;
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dim[i] == 1) continue;
    if (m->n && m->folded[m->n - 1] == folded[i]) {
      m->size[m->n - 1] *= shape->dim[i];
    } else {
      m->folded[m->n] = folded[i];
      m->size[m->n++] = shape->dim[i];
    }
  }
}

/* From the innermost axis out: the width, the rows of a block, and the rest. */
void td_reduce_plan_of(const td_shape *shape, const bool *folded,
                       td_reduce_plan *p) {
  merged m;
  merge(shape, folded, &m);
  *p = (td_reduce_plan){.groups = 1, .blocks = 1, .rows = 1, .width = 1};
  int64_t inner = 1;
  int last = m.n - 1;
  if (last >= 0 && !m.folded[last]) inner *= p->width = m.size[last--];
  if (last >= 0) inner *= p->rows = m.size[last--];
  for (; last >= 0; last--) {
    int64_t size = m.size[last];
    if (m.folded[last]) {
      p->blocks *= size;
      p->folded_size[p->n_folded] = size;
      p->folded_step[p->n_folded++] = inner;
    } else {
      p->groups *= size;
      p->kept_size[p->n_kept] = size;
      p->kept_step[p->n_kept++] = inner;
    }
    inner *= size;
  }
}
