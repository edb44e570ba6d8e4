/* infer.h - what a shape function sees and says.
 *
 * Runs when a node is built and again wherever a graph is rewritten. Shapes may
 * be unknown in part; a function must never read a value it was not given. An
 * error it returns names the shapes; the caller adds op, node and line.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_INFER_H
#define TD_INFER_H

#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_infer td_infer;
typedef td_status *(*td_shape_fn)(td_infer *c);

/* A small int32/int64 scalar or vector, known in part: sizes, axes, bounds. */
enum { TD_SMALL_MAX = 32 };
typedef struct td_small {
  int32_t rank;  /* 0 or 1 */
  int32_t count; /* 1 for a scalar */
  int64_t at[TD_SMALL_MAX];
  bool known[TD_SMALL_MAX];
} td_small;

/* Computes output `out` as a td_small where it can; false where not. Rows of
 * Shape, Pack, ConcatV2, StridedSlice, Range, Add, Mul, ... give one, so that
 * shapes built from shapes are known before running. */
typedef bool (*td_value_fn)(td_infer *c, int out, td_small *v);

/* What one run of an op is estimated to take. NaN: not known. */
typedef struct td_cost {
  double flops; /* operations on floating-point numbers */
  double bytes; /* read and written in the memory of its device */
} td_cost;

/* Comes with the usual answer (td_infer_cost) in *cost and mends it. It sees
 * what a shape function sees, and the outputs' shapes; counts that are not
 * known are NaN, and so is what is computed from them. */
typedef void (*td_cost_fn)(td_infer *c, td_cost *cost);

int td_infer_inputs(const td_infer *c); /* tensors, lists flattened */
int td_infer_outputs(const td_infer *c);
td_dtype td_infer_in_type(const td_infer *c, int i);
td_dtype td_infer_out_type(const td_infer *c, int i);
/* NULL (and TD_INVALID above) for the back edge that a Merge still lacks. */
const td_shape *td_infer_in(const td_infer *c, int i);
void td_infer_out(td_infer *c, int i, td_shape shape);

/* What the node that made the resource of input i says it holds (its attributes
 * dtype and shape); false when there is no saying. */
bool td_infer_handle(const td_infer *c, int i, td_dtype *dtype,
                     td_shape *shape);
/* The type of the op that made the resource of input i, and its attributes;
 * NULL when there is no saying. */
const char *td_infer_maker(const td_infer *c, int i);
const struct td_attr *td_infer_maker_attr(const td_infer *c, int i,
                                          const char *name);
/* The op, for rules that many share. Never NULL. */
const struct td_op *td_infer_op(const td_infer *c);

/* The whole value of input i when it is a constant; NULL when not known.
 * Borrowed; valid during the call. */
const td_tensor *td_infer_const(td_infer *c, int i);
/* Input i as a small vector, in part: its length may be all that is known.
 * False when nothing is known or the input is no int32/int64 scalar or vector
 * of <= TD_SMALL_MAX. */
bool td_infer_small(td_infer *c, int i, td_small *v);
/* The same of any edge, where no node is being inferred. */
struct td_edge;
bool td_infer_edge_small(const struct td_edge *e, td_small *v);
/* What a node gives when its inputs are `in` (n_in of them): out[i].shape, known
 * in part where it depends on more than shapes and what may be touched. */
struct td_node;
struct td_result;
td_status *td_infer_shapes(const struct td_node *n, const td_tensor *in,
                           struct td_result *out) TD_MUST_USE;
/* Input i, a vector of sizes, as a shape: -1 where a size is not known, unknown
 * rank where not even the length is. Error on a negative size other than -1 or
 * rank over TD_MAX_RANK. */
td_status *td_infer_shape_from(td_infer *c, int i, td_shape *out) TD_MUST_USE;

/* Attributes; checked against the signature before, so they cannot fail. An
 * absent one gives 0, false, "", TD_INVALID, NULL. Annotations ("_x") too. */
const struct td_attr *td_infer_attr(const td_infer *c, const char *name);
int64_t td_infer_int(const td_infer *c, const char *name);
bool td_infer_bool(const td_infer *c, const char *name);
float td_infer_float(const td_infer *c, const char *name);
const char *td_infer_string(const td_infer *c, const char *name);
td_dtype td_infer_type(const td_infer *c, const char *name);
const td_shape *td_infer_attr_shape(const td_infer *c, const char *name);

/* What a run of `n` takes, on shapes of its inputs and outputs that are given
 * (NULL: those that are inferred). Without a row's own answer: a flop for each
 * element of the first output, if these are floats, and the bytes of all inputs
 * and outputs; nothing for what the engine itself hands on. */
struct td_node;
void td_infer_cost(const struct td_node *n, const td_shape *in,
                   const td_shape *out, td_cost *cost);
/* For cost functions. NaN where a size is not known; an axis from the end is
 * negative; strings count as the bytes of their offsets, handles as none. */
const td_shape *td_infer_out_shape(const td_infer *c, int i);
double td_infer_in_count(const td_infer *c, int i);
double td_infer_out_count(const td_infer *c, int i);
double td_infer_in_bytes(const td_infer *c, int i);
double td_infer_out_bytes(const td_infer *c, int i);
double td_infer_size(const td_shape *s, int axis);

/* Requires rank: INVALID_ARGUMENT "logits must be of rank 2, not {3}"; *out
 * (may be NULL) is the shape merged with that rank. `what` names the input. */
td_status *td_infer_rank(td_infer *c, int i, int rank, const char *what,
                         td_shape *out) TD_MUST_USE;
td_status *td_infer_rank_at_least(td_infer *c, int i, int rank,
                                  const char *what) TD_MUST_USE;
/* axis in [-rank, rank) to [0, rank). */
td_status *td_infer_axis(int64_t axis, int rank, const char *what, int *out)
    TD_MUST_USE;

/* Shared shape functions. */
td_status *td_infer_none(td_infer *c);      /* no outputs */
td_status *td_infer_same(td_infer *c);      /* every output as input 0 */
td_status *td_infer_same_all(td_infer *c);  /* all inputs merge; outputs so */
td_status *td_infer_broadcasting(td_infer *c); /* inputs 0 and 1 broadcast */
td_status *td_infer_any(td_infer *c);       /* outputs of unknown rank */
td_status *td_infer_scalars(td_infer *c);   /* every output a scalar */

TD_END
#endif
