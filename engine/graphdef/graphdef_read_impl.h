/* graphdef_read_impl.h - one GraphDef on its way into a graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPHDEF_READ_IMPL_H
#define TD_GRAPHDEF_READ_IMPL_H

#include "engine/graph/graph_impl.h"
#include "engine/graphdef/graphdef_impl.h"

/* Where an input comes from. */
typedef struct td_source {
  int32_t item;  /* a node of the file, or -1: a replaced input */
  int32_t stand; /* then the stand-in's number */
  int32_t port;
} td_source;

/* One node of the file. */
typedef struct td_item {
  const Td__NodeDef *def;
  const char *name; /* with the prefix */
  const td_op *op;
  td_op *foreign; /* `op` where it was made for this node, else NULL */
  td_source *in, *control;
  int32_t n_in, n_control;
  uint8_t state; /* while ordering: 0 new, 1 open, 2 built */
  bool loop;     /* a Merge with a back edge */
  bool turned;   /* one that a Switch splits by a LoopCond */
  td_node *node; /* once built */
} td_item;

typedef struct td_import {
  td_graph *to;                 /* not touched before all is built */
  td_graph *g;                  /* where it is built: stand-ins first */
  const td_graphdef_options *o; /* never NULL */
  const Td__GraphDef *def;
  const td_graph *functions; /* has those that nodes call by name */
  int32_t producer;
  td_arena arena;  /* the message, and what is made of it */
  td_names names;  /* of the file's nodes, in their order */
  td_names mapped; /* of replaced inputs, in the order of options */
  td_item *item;   /* n_item of them, as in the file */
  int32_t n_item;
  bool *used;  /* by replaced input: the file has it */
  bool is_body; /* of a function */
  bool loops;  /* there are back edges */
  size_t fill; /* bytes that it may still grow to (TD_GRAPHDEF_FILL) */
} td_import;

/* Builds all nodes, inputs first, then closes the loops (graphdef_build.c). */
td_status *td_import_build(td_import *m) TD_MUST_USE;

/* Checks the name of an item, the next of the file, and notes it
 * (graphdef_name.c). */
td_status *td_import_name(td_import *m, td_item *n) TD_MUST_USE;
/* Adds the LoopConds that loops lack (graphdef_cond.c). */
td_status *td_import_conds(td_import *m) TD_MUST_USE;
/* Makes ops for items that have none (graphdef_foreign.c). */
td_status *td_import_foreign(td_import *m) TD_MUST_USE;
/* Such an item is about to be built with these inputs. */
void td_import_foreign_inputs(const td_item *n, const td_edge *in);

/* Adds op and name of an item to an error. */
static inline td_status *td_import_blame(td_status *s, const td_item *n) {
  return s ? td_status_at(s, n->def->op, n->name, NULL, NULL) : NULL;
}

#endif
