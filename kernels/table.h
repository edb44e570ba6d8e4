/* table.h - lookup tables: resources that map keys to values.
 *
 * A table that is initialized once (HashTableV2) gets all its keys at the
 * same time, from tensors or a file, and never changes after; a mutable one is
 * inserted into and removed from; a dense one (MutableDenseHashTableV2) has
 * two keys, its marks, which nobody may use, and its keys may be vectors. What
 * makes them is in table_make.c, what is done with them in table_ops.c and
 * table_file.c. Kernels name the table in `shared` or `exclusive` of their
 * rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TABLE_H
#define TD_TABLE_H

#include <pthread.h>

#include "kernels/handle.h"
#include "kernels/table_map.h"

TD_BEGIN

typedef struct td_table_class {
  const char *name; /* "hash table" */
  bool once;        /* initialized, then read only */
  bool marked;      /* has marks */
} td_table_class;

typedef struct td_table {
  td_resource base; /* first; its lock protects `map` and `ready` */
  const td_table_class *of;
  td_shape key_shape, value_shape; /* of one; the first is set with the marks */
  td_table_map map;
  bool ready;              /* of one that is initialized: it was */
  pthread_mutex_t mutex;   /* protects the marks until they are set */
  td_tensor marks[2];      /* the empty key and the deleted one */
  td_table_key mark[2];    /* the same, as keys; borrow from marks */
} td_table;

extern const char td_table_type[]; /* object.type of all tables */

/* For `make` and `check` of the td_handle_kind of an op whose attributes are
 * key_dtype, value_dtype and perhaps value_shape. */
td_status *td_table_new(const td_kernel *k, const td_table_class *of,
                        td_resource **out) TD_MUST_USE;
td_status *td_table_check(const td_node *n, const td_resource *r,
                          const td_table_class *of) TD_MUST_USE;
/* Sets the marks of a new table; one that has them must have the same. */
td_status *td_table_set_marks(td_table *t, const td_tensor *empty,
                              const td_tensor *deleted) TD_MUST_USE;

const char *td_table_name(const td_table *t);
/* The table whose handle is input 0. Borrowed; valid while the input is. */
td_status *td_table_in(const td_kernel_ctx *c, td_table **out) TD_MUST_USE;
/* Is it one to be initialized? */
td_status *td_table_initializable(const td_table *t) TD_MUST_USE;

/* Keys of the table: *rows is their shape without that of one key. */
td_status *td_table_check_keys(const td_table *t, const td_tensor *keys,
                               td_shape *rows) TD_MUST_USE;
td_status *td_table_check_dtypes(const td_table *t, td_dtype key,
                                 td_dtype value) TD_MUST_USE;
/* The shape of the values of `rows` keys. */
td_status *td_table_value_shape(const td_table *t, const td_shape *rows,
                                td_shape *out) TD_MUST_USE;
/* n <= TD_TABLE_BATCH keys from `first` on; false when one is a mark. */
bool td_table_keys(const td_table *t, const td_tensor *keys, int64_t first,
                   int n, td_table_key *key);
td_status *td_table_mark_used(const td_table *t) TD_MUST_USE;

/* An empty map like the table's. Caller owns *out (td_table_map_deinit). */
td_status *td_table_fresh(const td_table *t, td_table_map *out) TD_MUST_USE;
/* Adds a key to the content of a table to be initialized: FAILED_PRECONDITION
 * when it is there with another value. */
td_status *td_table_add_once(td_table_map *m, const td_table_key *key,
                             const void *value) TD_MUST_USE;
/* The table is initialized with `m`, which it takes over; when it was before,
 * FAILED_PRECONDITION unless that is the same. Under the lock. */
td_status *td_table_adopt(td_table *t, td_table_map *m) TD_MUST_USE;

TD_END
#endif
