/* graph_impl.h - what a td_graph is.
 *
 * For engine/graph, and for engine/graphdef above it, whose reader allocates
 * nodes in a graph of its own (td_node_alloc, td_graph_reserve, td_graph_adopt)
 * and hands them over with the memory they lie in, and whose functions are kept
 * in `functions`. Nobody else includes this.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPH_IMPL_H
#define TD_GRAPH_IMPL_H

#include <pthread.h>

#include "engine/base/vec.h"
#include "engine/graph/function_library.h"
#include "engine/graph/graph.h"
#include "engine/graph/graph_name.h"
#include "engine/graph/region.h"

/* Nodes with memory of their own; under the graph's mutex but for `refs`. */
struct td_region {
  int32_t refs;    /* atomic; of them the graph's: one each for nodes, names and
                      functions */
  td_graph *graph; /* borrowed */
  td_arena arena;  /* its nodes and all they point to */
  int32_t nodes;   /* in the graph */
  int32_t names;   /* reserved */
  int32_t functions;
  bool retired;
  char by[64];                 /* who retired it, for messages */
  const char *device, *origin; /* the last ones kept: often wanted again */
};

struct td_graph {
  int32_t refs;          /* atomic */
  pthread_mutex_t mutex; /* protects all below but `version`, `removals` */
  uint64_t version;      /* atomic; written under the mutex */
  uint64_t removals;     /* the same */
  uint64_t serials;      /* the last one given */
  bool scratch;          /* none are given */
  bool finalized;
  bool has_seed;
  int64_t seed;
  td_region root; /* of nodes that go with the graph */
  TD_VEC(td_node *) nodes;
  TD_VEC(td_flow *) flows; /* [0] is the root */
  td_function_library functions;
  td_names names;
  td_str trial; /* for names being tried */
};

/* How many of each a new node has; the name's bytes follow. */
typedef struct td_node_size {
  int32_t in, control, out, attr, note;
  size_t name; /* its length */
} td_node_size;

/* Where this thread's next node of `g` goes. */
td_region *td_region_of(td_graph *g);
/* One more, or one fewer, of what the graph has of `r`: `count` is that of its
 * nodes, names or functions. */
void td_region_add(td_region *r, int32_t *count);
void td_region_drop(td_region *r, int32_t *count);
/* A cleared node with its arrays in one piece of that region's arena; not yet
 * in the graph. NULL when there is no memory. */
td_node *td_node_alloc(td_graph *g, const td_node_size *size, const char *name);
/* Room for so many nodes: td_graph_adopt then cannot fail. */
td_status *td_graph_reserve(td_graph *g, size_t more) TD_MUST_USE;
/* Gives a node its id and makes its name known; `name` is its entry when it
 * was reserved, else NULL. */
void td_graph_adopt(td_graph *g, td_node *n, td_name *name);
/* A string of the region's arena; *last is tried first. NULL when there is no
 * memory. */
const char *td_region_keep(td_region *r, const char **last, const char *s);
/* Copies attributes and notes of `from`; on error none is held. */
td_status *td_node_copy_attrs(const td_node *from, td_node *to) TD_MUST_USE;
void td_node_drop_attrs(td_node *n); /* lets go of tensors */
/* Calls f(arg, n, func) for every function that an attribute of `n` names, also
 * in attributes of functions, until it says false: then the result is false. */
bool td_node_visit_funcs(const td_node *n,
                         bool (*f)(void *arg, const td_node *n,
                                   td_func_attr *func),
                         void *arg);
void td_graph_touch(td_graph *g);    /* one more change */

#endif
