/* op.h - the registry of ops: one row each, read from its signature.
 *
 * A row is written beside the kernel (kernels/softmax.c ends with its tables).
 * Make lists the modules; the first look-up parses every signature once. The
 * parsed td_op feeds argument checks, defaults, the Lua function, completion,
 * help and GraphDef: nobody writes any of these by hand.
 *
 * Signature:  inputs -> outputs; attributes
 *   "values: N*T, axis: Tidx -> output: T;
 *    N: int >= 2; T: type; Tidx: {int32, int64} = int32"
 * An argument's type is a dtype, a type attribute, N*type, or a list(type)
 * attribute (a list of mixed dtypes). An attribute is
 *   name: kind [>= minimum] [= default]
 * (a minimum of an int, or of a list's length)
 * with kind int, float, bool, string, type, shape, tensor, func, list(kind), a
 * set of dtypes {float, double} or of strings {"SAME", "VALID"}. Names of
 * dtypes as in GraphDef (half, float, double). A shape is {2, -1} or ? (unknown
 * rank), a list {1, 2}, a tensor uint8{255, 0}; lists of a set are list({..}).
 * Ops whose name begins with "_" are the engine's own. Arguments of dtype
 * string, resource and variant are in host memory without being named there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_OP_H
#define TD_OP_H

#include "engine/graph/attr.h"
#include "engine/graph/infer.h"

TD_BEGIN

/* What the engine itself must know of a node; everything else is PLAIN. */
typedef enum td_op_kind {
  TD_OP_PLAIN = 0,
  TD_OP_CONST,
  TD_OP_PLACEHOLDER,
  TD_OP_SWITCH,
  TD_OP_MERGE,
  TD_OP_ENTER,
  TD_OP_EXIT,
  TD_OP_NEXT,    /* NextIteration */
  TD_OP_COND,    /* LoopCond */
  TD_OP_TRIGGER, /* ControlTrigger */
  TD_OP_SEND,
  TD_OP_RECV,
  TD_OP_ARG,
  TD_OP_RETVAL,
  TD_OP_NOOP,
  TD_OP_IDENTITY, /* passes its inputs on unchanged */
  TD_OP_CALL,     /* stands for a function's body until it is planned */
  TD_OP_IF,       /* If, Case, While: for branches or a loop whose bodies are
                     functions */
  TD_OP_CASE,
  TD_OP_WHILE,
  TD_OP_FOREIGN,  /* of a file, and not known here: kept, but not run */
} td_op_kind;

/* Does the planner put functions in its place? */
static inline bool td_op_is_call(td_op_kind kind) {
  return kind >= TD_OP_CALL && kind <= TD_OP_WHILE;
}

/* An end of a part: only the planner makes _Send, _Recv, _Arg and _Retval. */
static inline bool td_op_is_end(td_op_kind kind) {
  return kind >= TD_OP_SEND && kind <= TD_OP_RETVAL;
}

enum {
  TD_STATEFUL = 1 << 0,    /* never folded, merged or moved */
  TD_COMMUTATIVE = 1 << 1, /* two operands may change places */
  TD_AGGREGATE = 1 << 2,   /* associative too */
  TD_NO_GRADIENT = 1 << 3, /* the gradient is none, on purpose */
  TD_UPDATES = 1 << 4,     /* writes the resource it takes */
  TD_READS = 1 << 5,       /* reads the resource it takes */
  TD_SPARSE = 1 << 6,      /* touches rows of the resource it takes */
  TD_NO_FOLD = 1 << 7,     /* pure, but not computed ahead */
  TD_CHEAP = 1 << 8,       /* takes well under a microsecond */
  TD_IN_PLACE = 1 << 9,    /* writes over an input that ends in it; told for
                              estimates, kernels decide */
  TD_FED = 1 << 10,        /* what it gives comes from this process: elsewhere
                              it is fed */
  TD_HERE = 1 << 11,       /* runs in the process that made its node */
};

typedef struct td_op_def {
  const char *type; /* TensorFlow's name */
  const char *sig;
  td_shape_fn shape;
  const char *doc;     /* one line */
  const char *lua;     /* optional: name in Lua, else snake case of type
                          without its version; "" for none */
  unsigned flags;
  td_op_kind kind;
  const char *host;    /* optional: operands and results that live in host
                          memory on every device: "shape, perm"; "*" all */
  const char *example; /* optional: Lua, run by the tests */
  const char *section; /* optional: heading in help */
  td_value_fn value;   /* optional: sizes known before running (infer.h) */
  td_cost_fn cost;     /* optional: what a run takes (infer.h), else that of an
                          element-wise op */
  const char *old;     /* optional: an older type of the same arguments and
                          attributes, which graphs may call it by */
} td_op_def;

struct td_kernel_def; /* device/kernel.h */

typedef struct td_module {
  const char *name;
  const td_op_def *ops;                 /* ends with {0} */
  const struct td_kernel_def *kernels;  /* ends with {0} */
} td_module;

/* The last line of a kernel file. Must stand at the start of a line, name
 * first: make finds it by that. */
#define TD_MODULE(stem, op_table, kernel_table)                                \
  extern const td_module td_module_##stem;                                     \
  const td_module td_module_##stem = {#stem, op_table, kernel_table};

extern const td_module *const td_modules[]; /* build/registry.c */

/* ---- the parsed form ---- */

typedef struct td_arg {
  const char *name;
  td_dtype type;   /* fixed dtype, or TD_INVALID */
  int type_attr;   /* index of the type (or list(type)) attribute, or -1 */
  int number_attr; /* index of N, or -1 */
  bool type_list;  /* type_attr is a list(type): mixed dtypes */
  bool host;       /* in host memory on every device */
} td_arg;

typedef struct td_attr_def {
  const char *name;
  td_attr_kind kind;
  bool is_list;
  bool has_default;
  bool has_minimum; /* of an int, or of a list's length */
  int64_t minimum;
  td_attr value;        /* the default */
  uint32_t types;       /* allowed dtypes as bits, 0: all */
  const char **strings; /* allowed strings, NULL-terminated, or NULL */
  bool deduced;         /* follows from the inputs: types and numbers */
} td_attr_def;

typedef struct td_op {
  const td_op_def *def;
  const char *type;
  const char *lua; /* "" when it has no function of its own */
  const char *library; /* the module of a library that brought it; NULL: none */
  td_op_kind kind;
  unsigned flags;
  td_arg *in, *out;
  int n_in, n_out; /* arguments, not tensors: N*T is one */
  td_attr_def *attr;
  int n_attr;
} td_op;

/* Borrowed for ever; NULL when there is none. Thread-safe. Older types find the
 * op that took their place: its type is another. */
const td_op *td_op_find(const char *type);
const td_op *td_op_find_lua(const char *name);
int td_op_count(void);
const td_op *td_op_at(int i); /* sorted by type */
/* The registered type nearest to a misspelt one, or NULL. */
const char *td_op_nearest(const char *type);
/* NOT_FOUND: `who` needs ops of these types, which there are not, each named
 * once, with the nearest that there is. Sorts types[]. */
td_status *td_op_unknown(const char *who, const char **types,
                         size_t n) TD_MUST_USE;
/* NULL, or why the registry could not be read (bad signature, two rows). Bad
 * rows are left out of it. */
td_status *td_op_check(void) TD_MUST_USE;
/* Adds a library's module (td_library_load); checks names and signatures. */
td_status *td_op_register(const td_module *m) TD_MUST_USE;

/* Index of an attribute in op->attr, or -1. */
int td_op_attr(const td_op *op, const char *name);
/* "Softmax(logits: T) -> (softmax: T), T in {...}": for messages and help. */
void td_op_print(const td_op *op, td_str *out);

TD_END
#endif
