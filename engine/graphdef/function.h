/* function.h - the library of functions that a graph carries.
 *
 * A function is called by a PartitionedCall or StatefulPartitionedCall node that
 * names it in an attribute of kind func, or is a branch or body of an If or
 * While. No such node ever runs: the planner
 * puts the nodes of the body in its place. Definitions arrive with a GraphDef
 * and leave with it, or are made from the nodes of another graph, as td.func
 * does with what it traced. The graph keeps them as FunctionDef bytes
 * (graph/function_library.h). A body must be whole (every result given, every
 * input there), and no function may call itself, through whatever others.
 *
 * A function belongs to a region, as a node does. When the cell that made "f"
 * runs again and makes another "f", the old one becomes "f.old" wherever it is
 * called, and goes when nobody calls it any more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FUNCTION_H
#define TD_FUNCTION_H

#include "engine/graph/region.h"

TD_BEGIN

/* Copies `def` (FunctionDef bytes). ALREADY_EXISTS when another definition has
 * that name; the same bytes again are no error. */
td_status *td_function_add(td_graph *g, const char *name, const void *def,
                           size_t len) TD_MUST_USE;
/* All functions of `from` into `to`, a graph that has none. */
td_status *td_function_copy(const td_graph *from, td_graph *to) TD_MUST_USE;
/* Only those that nodes of `to` name, and what these call. */
td_status *td_function_copy_used(const td_graph *from,
                                 td_graph *to) TD_MUST_USE;
/* Borrowed until the next function is added; NULL when absent. */
const td_bytes *td_function_find(const td_graph *g, const char *name);
int td_function_count(const td_graph *g);
/* In the order of names. Borrowed; valid while `g` lives. */
const char *td_function_name(const td_graph *g, int i);
/* What a function is known by however its name changes; 0 when absent. */
uint64_t td_function_serial(const td_graph *g, const char *name);
/* The name that the function with that serial has now; NULL when it is gone.
 * Borrowed until the next change. */
const char *td_function_of_serial(const td_graph *g, uint64_t serial);
/* Is that the name of a function which a new definition would not rename (one
 * of a region that is not retired)? */
bool td_function_name_taken(const td_graph *g, const char *name);
/* Calls it `to` wherever it is named. NOT_FOUND, ALREADY_EXISTS. */
td_status *td_function_rename(td_graph *g, const char *name,
                              const char *to) TD_MUST_USE;

/* ---- made from nodes (function_make.c) ---- */

typedef struct td_function_spec {
  const char *name;
  const td_edge *args; /* where the body begins: what makes them is left out */
  const char *const *arg_names; /* n_args of them, unlike any node's */
  int n_args;
  const td_edge *results;
  int n_results;
  td_node *const *controls; /* nodes that run with every call */
  int n_controls;
  td_region *region; /* whose it is, when of the graph that gets it; NULL: of
                        where this thread builds */
} td_function_spec;

/* Adds the function whose body are the nodes of `body` that results and
 * controls need, and the functions these call. The caller holds the lock of
 * `body`, another graph than `g`. */
td_status *td_function_make(const td_graph *body, const td_function_spec *spec,
                            td_graph *g) TD_MUST_USE;

/* ---- put in place of a call (function_body.c) ---- */

typedef struct td_function_body {
  td_edge *results; /* by output of the call */
  int n_results;
  td_node **controls; /* nodes that end before the call does, beside results */
  int n_controls;
  int32_t begin; /* the body is the nodes of `g` from here on */
} td_function_body;

/* What constants of bodies may grow to by repeated values, in bytes: a file of
 * a few may call a function very often. */
enum { TD_FUNCTION_FILL = 1 << 30 };

/* Adds the body that `call`, a node of `g`, stands for, named under it, with
 * `args` for its inputs. Calls inside stay calls. `fill` (from TD_FUNCTION_FILL
 * on) is lessened by what repeated values took. Caller ends *out. */
td_status *td_function_expand(td_graph *g, const td_node *call,
                              const td_edge *args, size_t *fill,
                              td_function_body *out) TD_MUST_USE;
void td_function_body_deinit(td_function_body *b);
/* Narrows the shapes that `call` gives to those its body does. */
td_status *td_function_infer(td_node *call) TD_MUST_USE;

/* ---- known without expanding (function_passes.c) ---- */

/* same[i]: does function `name`, of n arguments and results, give argument i as
 * result i? */
td_status *td_function_passes(const td_graph *g, const char *name, int n,
                              bool *same) TD_MUST_USE;
/* The dtype of the one tensor that `f` gives. */
td_status *td_function_result_type(const td_graph *g, const td_func_attr *f,
                                   td_dtype *out) TD_MUST_USE;

TD_END
#endif
