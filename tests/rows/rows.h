/* rows.h - what is demanded of every op, and what the checks share.
 *
 * An op's row is its golden file (tests/golden): cases with TensorFlow's
 * answers, how near results must be, what is left out and why. The few ops
 * without one are listed in rows.c with the reason.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_ROWS_H
#define TD_TESTS_ROWS_H

#include "tests/check.h"

#include "engine/device/kernel.h"
#include "tests/golden/golden.pb-c.h"

/* ---- golden files -------------------------------------------------------- */

/* An op under test; `say` is its GoldenRow. */
typedef struct row {
  const char *op;
  const Td__GoldenRow *say;
} row;

enum { MAX_IN = 20, MAX_OUT = 16 };

typedef struct golden_case {
  const Td__GoldenCase *from;
  int index; /* in the file, for messages */
  int n_in, n_out, n_var, n_grad;
  td_tensor in[MAX_IN];     /* TD_INVALID: a variable's handle */
  td_tensor out[MAX_OUT];   /* TD_INVALID: dead */
  td_tensor again[MAX_OUT]; /* of a second run; TD_INVALID: not known */
  int var_in[MAX_IN];       /* inputs that are variables */
  td_dtype var_dtype[MAX_IN];
  td_tensor before[MAX_IN], after[MAX_IN]; /* TD_INVALID: no value */
} golden_case;

/* NULL when there is no such file; a bad one fails the test. */
Td__Golden *golden_load(const char *folder, const char *op);
void golden_free(Td__Golden *g);
void golden_open(const Td__Golden *g, int index, golden_case *out);
void golden_close(golden_case *c);

/* ---- running ------------------------------------------------------------- */

/* What is known of the inputs when the node is built. */
typedef enum knowledge { VALUES, SHAPES, RANKS, NOTHING } knowledge;

typedef struct built {
  td_graph *graph;
  td_node *node;
} built;

/* Builds the node of a case over inputs `in` (c->in, or others of its dtypes).
 * On success ended by built_drop. */
td_status *build_node(const golden_case *c, const td_tensor *in, knowledge k,
                      built *out);
/* The same with one attribute changed; NULL: none. */
td_status *build_changed(const golden_case *c, const td_tensor *in, knowledge k,
                         const td_note *change, built *out);
void built_drop(built *b);

typedef struct result {
  int n_out;
  td_tensor out[MAX_OUT];
  td_tensor again[MAX_OUT]; /* of a second run, where c->again has one */
  td_tensor after[MAX_IN];  /* of c->var_in */
} result;

/* Runs it on a device whose fresh memory is filled with `poison`. `alone`: the
 * kernel is given its own copies of the inputs and may write into them. On
 * success ended by result_drop. */
td_status *run_node(const built *b, const golden_case *c, const td_tensor *in,
                    uint8_t poison, bool alone, int threads, result *out);
/* Of the kernel's run in the last of these: its allocations. One of the next
 * will be refused, the n-th; 0: none. */
extern int64_t run_allocations, run_refuse;
void result_drop(result *r);
/* Same shapes and bits. */
bool result_same(const result *a, const result *b, int n_var);

/* ---- comparing ----------------------------------------------------------- */

/* Fails the test when `got` is not `want` within the row's tolerance. */
void compare_tensors(const row *r, const char *what, const td_tensor *got,
                     const td_tensor *want);

/* ---- on a device (device.c) ----------------------------------------------- */

/* The type of device that TIDE_DEVICE names, or a worker's (TIDE_FLEET); NULL:
 * neither. */
const char *device_wanted(void);
/* The case as steps of a session there. */
void check_on_device(const row *r, const golden_case *c);
/* After the last of them. */
void devices_end(void);
/* Cases whose node was there so far, and was not. */
extern int steps_there, steps_elsewhere;

/* ---- what nobody asked for ----------------------------------------------- */

/* Builds and runs the op of a case with other inputs or another attribute, and
 * twice if it is accepted. Whatever happens must be an error with a message or
 * an answer that is whole. */
void try_changed(const row *r, const golden_case *c, const td_tensor *in,
                 knowledge k, const td_note *change);
/* Calls of try_changed so far. */
extern int changed_accepted, changed_refused;

/* Inputs without elements, of other ranks, out of range ... (mutate.c) */
void mutate_inputs(const row *r, const golden_case *c);
/* Variables of other shapes and dtypes (mutate_attr.c). */
void mutate_variables(const row *r, const golden_case *c);
/* Other attributes (mutate_attr.c). */
void mutate_attrs(const row *r, const golden_case *c);
/* Elements of `from`, again and again, in another shape. The caller's. */
td_tensor refill(const td_tensor *from, td_shape shape);

/* ---- without memory (memory.c) -------------------------------------------- */

/* An answer that holds, with each allocation refused. */
void check_without_memory(const row *r, const golden_case *c);
/* Runs that ended with such an error so far. */
extern int runs_without_memory;

/* ---- extremes (extremes.c) ------------------------------------------------- */

/* Operands that are empty, of size 1 or of another rank, against TensorFlow's
 * answers (extremes.c). */
void check_extremes(const row *r, const Td__Golden *g);

/* ---- refusing (refuse.c) ------------------------------------------------- */

/* The status must be an error that says something; ends it. */
void check_refusal(const row *r, const golden_case *c, td_status *s);
/* A case that TensorFlow refuses: so must the shape function or, knowing
 * nothing of the inputs, the kernel, in the words that the case demands. */
void check_refused(const row *r, const golden_case *c);
/* An input too few, and each of a dtype that is not its own. */
void check_wrong_inputs(const row *r, const golden_case *c);

#endif
