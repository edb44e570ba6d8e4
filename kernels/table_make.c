/* table_make.c - ops that give the handle of a lookup table: HashTableV2,
 * MutableHashTableV2, MutableHashTableOfTensorsV2, MutableDenseHashTableV2; and
 * the same without a name (AnonymousHashTable, ...), new in every run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/table.h"

static const td_table_class hash = {.name = "hash table", .once = true};
static const td_table_class changing = {.name = "mutable hash table"};
static const td_table_class tensors = {.name = "mutable hash table of tensors"};
static const td_table_class dense = {.name = "mutable dense hash table",
                                     .marked = true};

/* ---- making -------------------------------------------------------------- */

static td_status *anonymous(td_kernel_ctx *c, const td_table_class *of) {
  td_resource *r = NULL;
  td_tensor handle;
  TD_TRY(td_table_new(c->kernel, of, &r));
  TD_TRY(td_tensor_object(TD_RESOURCE, &r->object, &handle));
  c->out[0] = handle;
  return NULL;
}

/* Kernels of a class: `name` gives the handle of one with a name, the other a
 * new one. */
#define MAKER(class)                                                           \
  static td_status *class##_make(const td_kernel *k, td_resource **out) {      \
    return td_table_new(k, &class, out);                                       \
  }                                                                            \
  static td_status *class##_check(const td_node *n, const td_resource *r) {    \
    return td_table_check(n, r, &class);                                       \
  }                                                                            \
  static td_status *class##_run(td_kernel_ctx *c) {                            \
    static const td_handle_kind kind = {td_table_type, class##_make,           \
                                        class##_check};                        \
    return td_handle_run(c, &kind);                                            \
  }                                                                            \
  static td_status *class##_new_run(td_kernel_ctx *c) {                        \
    return anonymous(c, &class);                                               \
  }

MAKER(hash)
MAKER(changing)
MAKER(tensors)
MAKER(dense)

/* The handle is output 0: nobody has it before this is over. */
static td_status *set_marks(td_kernel_ctx *c) {
  td_table *t = (td_table *)td_tensor_get_object(&c->out[0]);
  return td_table_set_marks(t, td_in(c, 0), td_in(c, 1));
}

static td_status *dense_marked_run(td_kernel_ctx *c) {
  TD_TRY(dense_run(c));
  return set_marks(c);
}

static td_status *dense_new_marked_run(td_kernel_ctx *c) {
  TD_TRY(dense_new_run(c));
  return set_marks(c);
}

/* Dtypes that a table cannot have are told where it is built. */
static td_status *make_infer(td_infer *c) {
  td_table_map m;
  TD_TRY(td_table_map_init(&m, td_infer_type(c, "key_dtype"), 1,
                           td_infer_type(c, "value_dtype"), 1));
  return td_infer_scalars(c);
}

/* ---- rows ---------------------------------------------------------------- */

#define NAMED                                                                  \
  "container: string = \"\"; shared_name: string = \"\"; "                     \
  "use_node_name_sharing: bool = false; "
#define DTYPES "key_dtype: type; value_dtype: type"
#define SHAPED DTYPES "; value_shape: shape = {}"
#define DENSE                                                                  \
  SHAPED "; initial_num_buckets: int = 131072; max_load_factor: float = 0.8"
#define OUT "-> table_handle: resource; "
#define MARKS "empty_key: key_dtype, deleted_key: key_dtype "

#define MAKES                                                                  \
  .shape = make_infer, .cost = td_cost_none, .lua = "",                        \
  .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP, .host = "*",               \
  .section = "Lookup tables"

static const td_op_def ops[] = {
    {.type = "HashTableV2",
     .old = "HashTable",
     .sig = OUT NAMED DTYPES,
     .doc = "A table from keys to values that is initialized once.",
     MAKES},
    {.type = "MutableHashTableV2",
     .old = "MutableHashTable",
     .sig = OUT NAMED DTYPES,
     .doc = "A table from keys to values, inserted into and removed from.",
     MAKES},
    {.type = "MutableHashTableOfTensorsV2",
     .old = "MutableHashTableOfTensors",
     .sig = OUT NAMED SHAPED,
     .doc = "A table from keys to tensors of one shape, inserted into and "
            "removed from.",
     MAKES},
    {.type = "MutableDenseHashTableV2",
     .old = "MutableDenseHashTable",
     .sig = MARKS OUT NAMED DENSE,
     .doc =
         "A table, inserted into and removed from, two of whose keys are not "
         "used; keys may be vectors.",
     MAKES},
    {.type = "AnonymousHashTable",
     .sig = OUT DTYPES,
     .doc = "A new table that is initialized once, and lasts as long as its "
            "handle.",
     MAKES},
    {.type = "AnonymousMutableHashTable",
     .sig = OUT DTYPES,
     .doc = "A new table to be inserted into, which lasts as long as its "
            "handle.",
     MAKES},
    {.type = "AnonymousMutableHashTableOfTensors",
     .sig = OUT SHAPED,
     .doc = "A new table of tensors, which lasts as long as its handle.",
     MAKES},
    {.type = "AnonymousMutableDenseHashTable",
     .sig = MARKS OUT DENSE,
     .doc =
         "A new table two of whose keys are not used, which lasts as long as "
         "its handle.",
     MAKES},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE
#define KEEPS CPU, TD_HANDLE_STATE

static const td_kernel_def kernels[] = {
    {.op = "HashTableV2", .run = hash_run, KEEPS},
    {.op = "MutableHashTableV2", .run = changing_run, KEEPS},
    {.op = "MutableHashTableOfTensorsV2", .run = tensors_run, KEEPS},
    {.op = "MutableDenseHashTableV2", .run = dense_marked_run, KEEPS},
    {.op = "AnonymousHashTable", .run = hash_new_run, CPU},
    {.op = "AnonymousMutableHashTable", .run = changing_new_run, CPU},
    {.op = "AnonymousMutableHashTableOfTensors", .run = tensors_new_run, CPU},
    {.op = "AnonymousMutableDenseHashTable", .run = dense_new_marked_run, CPU},
    {0},
};

TD_MODULE(table_make, ops, kernels)
