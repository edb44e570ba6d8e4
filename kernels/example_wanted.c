/* example_wanted.c - keys, dtypes, shapes and defaults of what is asked for, as
 * features.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/example_wanted.h"

#include "engine/base/mem.h"
#include "kernels/array.h"
#include "kernels/text.h"

/* ---- dense shapes and their defaults ------------------------------------- */

static bool has_rows(const td_shape *s) {
  return s->rank > 0 && s->dim[0] < 0;
}

/* Elements of a dense feature, or of one of its rows. */
td_status *td_example_elements(const td_shape *s, const char *of, int index,
                               int64_t *each) {
  td_shape one = *s;
  td_shape_text text;
  if (has_rows(s)) one.dim[0] = 1;
  if (!td_shape_known(&one))
    return td_error(TD_INVALID_ARGUMENT,
                    "%sdense_shapes[%d] must be known but for its first size, "
                    "not %s",
                    of, index, td_shape_str(s, &text));
  TD_TRY(td_array_count(&one, each));
  if (*each > 0 || !has_rows(s)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%sdense_shapes[%d] is %s: rows of no elements cannot be "
                  "counted",
                  of, index, td_shape_str(s, &text));
}

/* Is `given` a default of that feature? */
td_status *td_example_check_preset(const td_shape *s, const td_shape *given,
                                   const char *of, int index) {
  td_shape_text want, have;
  int64_t count = td_shape_count(given);
  if (has_rows(s) && count != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "%sdense_defaults[%d] fills rows up (%sdense_shapes[%d] is "
                    "%s): it must have one element, not shape %s",
                    of, index, of, index, td_shape_str(s, &want),
                    td_shape_str(given, &have));
  if (has_rows(s) || count == 0 || td_shape_equal(s, given)) return NULL;
  return td_error(
      TD_INVALID_ARGUMENT,
      "%sdense_defaults[%d] is of shape %s, %sdense_shapes[%d] is %s", of,
      index, td_shape_str(given, &have), of, index, td_shape_str(s, &want));
}

td_status *td_example_check_keys(const td_shape *s, const char *what, int n) {
  td_shape_text text;
  td_shape want = td_shape_vector(n);
  if (td_shape_compatible(s, &want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be a vector of %d keys, one for each dtype, not of "
                  "shape %s",
                  what, n, td_shape_str(s, &text));
}

/* ---- features as they are asked for -------------------------------------- */

td_bytes td_example_key_at(const td_example_keys *k, int i) {
  if (k->attr) return k->attr->ss[i];
  return k->vector ? td_text_at(k->tensors, i) : td_text_at(&k->tensors[i], 0);
}

td_status *td_example_check_scalars(const td_kernel_ctx *c, int arg,
                                    const char *what) {
  int begin, n;
  td_shape_text text;
  td_node_in_range(td_ctx_node(c), arg, &begin, &n);
  for (int i = 0; i < n; i++)
    if (td_in(c, begin + i)->shape.rank != 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "%s[%d] must be a scalar, not of shape %s", what, i,
                      td_shape_str(&td_in(c, begin + i)->shape, &text));
  return NULL;
}

void td_example_want_sparse(td_example_wanted *w, const td_example_keys *k) {
  const td_node *node = td_ctx_node(w->ctx);
  int indices, values, shapes, n;
  td_node_out_range(node, 0, &indices, &n);
  td_node_out_range(node, 1, &values, &n);
  td_node_out_range(node, 2, &shapes, &n);
  for (int i = 0; i < n; i++)
    w->features[w->n++] =
        (td_example_feature){.key = td_example_key_at(k, i),
                             .form = TD_EXAMPLE_SPARSE,
                             .dtype = node->out[values + i].dtype,
                             .indices = indices + i,
                             .values = values + i,
                             .shapes = shapes + i};
}

td_status *td_example_want_dense(td_example_wanted *w, const td_example_keys *k,
                                 const char *of, int first_default) {
  const td_node *node = td_ctx_node(w->ctx);
  const td_attr *shapes =
      td_node_attr(node, *of ? "context_dense_shapes" : "dense_shapes");
  int values, n;
  td_node_out_range(node, 3, &values, &n);
  for (int i = 0; i < n; i++) {
    td_example_feature *f = &w->features[w->n++];
    *f = (td_example_feature){.key = td_example_key_at(k, i),
                              .form = TD_EXAMPLE_DENSE,
                              .dtype = node->out[values + i].dtype,
                              .values = values + i,
                              .shape = shapes->shapes[i],
                              .rows = has_rows(&shapes->shapes[i]),
                              .preset = td_in(w->ctx, first_default + i)};
    TD_TRY(td_example_elements(&f->shape, of, i, &f->each));
    TD_TRY(td_example_check_preset(&f->shape, &f->preset->shape, of, i));
  }
  return NULL;
}

void td_example_want_ragged(td_example_wanted *w, const td_example_keys *k) {
  const td_node *node = td_ctx_node(w->ctx);
  int values, splits, n;
  td_node_out_range(node, 4, &values, &n);
  td_node_out_range(node, 5, &splits, &n);
  for (int i = 0; i < n; i++)
    w->features[w->n++] =
        (td_example_feature){.key = td_example_key_at(k, i),
                             .form = TD_EXAMPLE_RAGGED,
                             .dtype = node->out[values + i].dtype,
                             .values = values + i,
                             .splits = splits + i};
}

td_status *td_example_begin(td_example_wanted *w, td_kernel_ctx *c) {
  *w = (td_example_wanted){.ctx = c};
  w->features = td_calloc((size_t)c->n_out + 1, sizeof *w->features);
  return w->features ? NULL : td_oom();
}

td_status *td_example_finish(td_example_wanted *w, td_status *s,
                             const td_tensor *names) {
  if (td_ok(s)) s = td_example_parse(w->ctx, names, w->features, w->n);
  td_free(w->features);
  return s;
}
