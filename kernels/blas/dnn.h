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
  TD_DNN_ANY = 1, /* a layout that the library chooses */
  TD_DNN_SRC = 1,
  TD_DNN_DST = 17,
  TD_DNN_WEIGHTS = 33,
  TD_DNN_BIAS = 41,
  TD_DNN_SCRATCHPAD = 80,
  TD_DNN_DIFF_SRC = 129,
  TD_DNN_DIFF_DST = 145,
  TD_DNN_DIFF_WEIGHTS = 161,
  TD_DNN_EXEC_ARG = 255, /* a query: the layout of such an argument */
  TD_DNN_FORWARD = 64,
  TD_DNN_DIRECT = 1,
  TD_DNN_WINOGRAD = 2,
};

/* All return 0, or a dnnl_status_t, but where said. */
typedef struct td_dnn_api {
  int (*memory_desc_init_by_strides)(td_dnn_layout *md, int rank,
                                     const int64_t *dims, int dtype,
                                     const int64_t *strides);
  int (*memory_desc_init_by_tag)(td_dnn_layout *md, int rank,
                                 const int64_t *dims, int dtype, int tag);
  int (*matmul_desc_init)(td_dnn_desc *desc, const td_dnn_layout *src,
                          const td_dnn_layout *weights,
                          const td_dnn_layout *bias, const td_dnn_layout *dst);
  int (*dilated_convolution_forward_desc_init)(
      td_dnn_desc *desc, int prop, int algorithm, const td_dnn_layout *src,
      const td_dnn_layout *weights, const td_dnn_layout *bias,
      const td_dnn_layout *dst, const int64_t *strides, const int64_t *dilates,
      const int64_t *before, const int64_t *after);
  int (*dilated_convolution_backward_data_desc_init)(
      td_dnn_desc *desc, int algorithm, const td_dnn_layout *diff_src,
      const td_dnn_layout *weights, const td_dnn_layout *diff_dst,
      const int64_t *strides, const int64_t *dilates, const int64_t *before,
      const int64_t *after);
  int (*dilated_convolution_backward_weights_desc_init)(
      td_dnn_desc *desc, int algorithm, const td_dnn_layout *src,
      const td_dnn_layout *diff_weights, const td_dnn_layout *diff_bias,
      const td_dnn_layout *diff_dst, const int64_t *strides,
      const int64_t *dilates, const int64_t *before, const int64_t *after);
  int (*primitive_desc_create)(void **pd, const td_dnn_desc *desc,
                               const void *attr, void *engine,
                               const void *hint);
  int (*reorder_primitive_desc_create)(void **pd, const td_dnn_layout *from,
                                       void *from_engine,
                                       const td_dnn_layout *to, void *to_engine,
                                       const void *attr);
  int (*primitive_desc_destroy)(void *pd);
  /* NULL, or what borrows from `pd`. */
  const td_dnn_layout *(*primitive_desc_query_md)(const void *pd, int what,
                                                  int index);
  int (*memory_desc_equal)(const td_dnn_layout *a, const td_dnn_layout *b);
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
/* Bytes of one of its arguments; do two primitives lay it out alike? */
size_t td_dnn_bytes(const td_dnn_op *op, int arg);
bool td_dnn_alike(const td_dnn_op *a, const td_dnn_op *b, int arg);

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
