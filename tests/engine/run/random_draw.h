/* random_draw.h - a whole random graph: what is drawn, and what is fetched.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RANDOM_DRAW_H
#define TEST_RANDOM_DRAW_H

#include <math.h>

#include "tests/engine/run/random_call.h"

enum { MOST_FETCHES = 8 };

static inline int choose_fetches(drawn *d, const context *root,
                                 td_edge *fetch) {
  int n = 0;
  for (int i = 0; i < MOST_FETCHES && root->n; i++) {
    int k = draw(d, root->n);
    td_edge e = root->value[root->n - 1 - k];
    fetch[n++] = e;
    for (k = 0; k < n - 1; k++)
      if (fetch[k].node == e.node && fetch[k].port == e.port) {
        n--;
        break;
      }
  }
  return n;
}

/* The graph of a seed; how many fetches were chosen. */
static inline int draw_graph(drawn *d, td_graph *g, unsigned seed,
                             td_edge *fetch) {
  *d = (drawn){.graph = g, .seed = seed * 2654435761u + 1};
  context *root = context_new(NULL, 'r');
  for (int i = 0; i < 3; i++) fresh_value(d, root, TD_INVALID);
  make_variables(d, root);
  int ops = 10 + draw(d, 16);
  draw_ops(d, root, root, ops, 0);
  int n = choose_fetches(d, root, fetch);
  free(root);
  return n;
}

/* The last state op of each variable that has one: a step's targets. */
static inline int state_ops(const drawn *d, td_node **over) {
  int n = 0;
  for (int i = 0; i < d->variables; i++)
    if (d->last[i]) over[n++] = d->last[i];
  return n;
}

/* Bits, except that any NaN equals any NaN. */
static inline bool same_value(const td_tensor *a, const td_tensor *b) {
  if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape))
    return false;
  if (a->dtype != TD_FLOAT32) return td_tensor_same(a, b);
  for (int64_t i = 0; i < td_tensor_count(a); i++) {
    const float *x = a->data, *y = b->data;
    if (memcmp(&x[i], &y[i], sizeof *x) && !(isnan(x[i]) && isnan(y[i])))
      return false;
  }
  return true;
}

#endif
