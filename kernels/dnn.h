/* dnn.h - the only door to oneDNN.
 *
 * The library (major version 2) is opened at the first use, not linked. A
 * primitive runs on the calling thread alone, with working memory that the
 * caller gives; it is kept in a bounded cache under the bytes that describe it.
 *
 * A kernel describes a primitive with the library's own functions (td_dnn_api:
 * their names without "dnnl_", ints for enums, void pointers for handles) and
 * leaves the rest to this file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DNN_H
#define TD_DNN_H

#include "engine/base/status.h"

TD_BEGIN

/* dnnl_memory_desc_t, and room for the dnnl_*_desc_t of any but an RNN: seen
 * from outside only by address. */
typedef struct td_dnn_layout {
  int64_t opaque[87];
} td_dnn_layout;
typedef struct td_dnn_desc {
  int64_t opaque[768];
} td_dnn_desc;

/* The library's numbers. */
enum {
  TD_DNN_FLOAT32 = 3,
  TD_DNN_SRC = 1,
  TD_DNN_DST = 17,
  TD_DNN_WEIGHTS = 33,
  TD_DNN_BIAS = 41,
  TD_DNN_SCRATCHPAD = 80,
};

/* All return 0, or a dnnl_status_t. */
typedef struct td_dnn_api {
  int (*memory_desc_init_by_strides)(td_dnn_layout *md, int rank,
                                     const int64_t *dims, int dtype,
                                     const int64_t *strides);
  int (*matmul_desc_init)(td_dnn_desc *desc, const td_dnn_layout *src,
                          const td_dnn_layout *weights,
                          const td_dnn_layout *bias, const td_dnn_layout *dst);
  int (*primitive_desc_create)(void **pd, const td_dnn_desc *desc,
                               const void *attr, void *engine,
                               const void *hint);
} td_dnn_api;

/* May it be called? Opens it. Without it, kernels use code of their own. */
bool td_dnn_ready(void);
/* What was found, or why nothing was, for a person. Opens it. */
const char *td_dnn_about(void);

/* A primitive: read-only once made, run by any number of threads at once. */
typedef struct td_dnn_op td_dnn_op;

/* Fills *pd by what `key` says; `attr` and `engine` are for
 * primitive_desc_create. Returns 0 or what the library said. */
typedef int (*td_dnn_describe)(const td_dnn_api *api, const void *key,
                               const void *attr, void *engine, void **pd);

/* Finds or makes the primitive for `len` bytes at `key` (padding cleared), at
 * most TD_DNN_KEY. UNIMPLEMENTED when the library has none. Caller owns *out.
 */
enum { TD_DNN_KEY = 256 };
td_status *td_dnn_find(td_dnn_describe describe, const void *key, size_t len,
                       td_dnn_op **out) TD_MUST_USE;
void td_dnn_release(td_dnn_op *op);
/* Bytes of working memory that one run needs, 64-byte aligned. */
size_t td_dnn_scratch(const td_dnn_op *op);

/* What a run works on: TD_DNN_SRC, ..., and where it is. */
typedef struct td_dnn_arg {
  int arg;
  const void *data;
} td_dnn_arg;
enum { TD_DNN_ARGS = 7 };
/* Runs it, on at most TD_DNN_ARGS things besides `scratch`. */
td_status *td_dnn_run(td_dnn_op *op, const td_dnn_arg *args, int n,
                      void *scratch) TD_MUST_USE;

/* For tests: primitives in the cache, and how many were ever made. */
typedef struct td_dnn_stats {
  int64_t kept, made;
} td_dnn_stats;
td_dnn_stats td_dnn_read_stats(void);

TD_END
#endif
