/* row_plans.h - which row of its input each row of a result is: what the ops
 * that copy rows by number read from their operands.
 *
 * Each is read and checked once, here; rows are then found one by one, on the
 * host as a list (row_gather.h), on other devices by each thread for itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ROW_PLANS_H
#define TD_ROW_PLANS_H

#include "engine/device/kernel.h"

TD_BEGIN

/* Gather, GatherV2: params is {batch, outer, along, inner}, indices {batch,
 * each}, the result {batch, outer, each, inner}. */
typedef struct td_gather_plan {
  int64_t outer, along, inner, each;
  td_shape out;
} td_gather_plan;
td_status *td_gather_read(td_kernel_ctx *c, td_gather_plan *p) TD_MUST_USE;

/* GatherNd. */
td_status *td_gather_nd_read(td_kernel_ctx *c, bool *ignore,
                             td_shape *out) TD_MUST_USE;

/* ScatterNd and, `onto` a copy of a tensor, TensorScatterUpdate and kin: n
 * index vectors of k name rows of `each` elements in `shape`. */
typedef struct td_scatter_plan {
  td_shape shape;
  int k;
  int64_t n, each;
  bool ignore;
} td_scatter_plan;
td_status *td_scatter_nd_read(td_kernel_ctx *c, bool onto,
                              td_scatter_plan *p) TD_MUST_USE;

/* UnsortedSegmentSum and kin: `n` rows of `each` elements. */
typedef struct td_segments_plan {
  int64_t segments, n, each;
  td_shape out;
} td_segments_plan;
td_status *td_unsorted_read(td_kernel_ctx *c, td_segments_plan *p) TD_MUST_USE;
/* The shapes of SegmentSum and kin; p->segments and out.dim[0] are not set. */
td_status *td_search_sorted_read(td_kernel_ctx *c, td_segments_plan *p) TD_MUST_USE;

/* SparseSegmentSum and kin, and their gradients: n items; p->segments is -1
 * where the last id tells it. */
td_status *td_sparse_segment_read(td_kernel_ctx *c,
                                  td_segments_plan *p) TD_MUST_USE;

/* InplaceUpdate and kin. */
td_status *td_inplace_check(const td_kernel_ctx *c) TD_MUST_USE;

/* SparseToDense: n values, or one for all, at rows of so many indices. */
td_status *td_to_dense_read(td_kernel_ctx *c, td_shape *shape,
                            int64_t *n) TD_MUST_USE;
/* SparseTensorDenseMatMul, but for whether its indices are in range. */
typedef struct td_sparse_product {
  int64_t n, rows, inner, cols; /* elements; the product's sizes */
  bool turn_a, turn_b;          /* adjoint */
} td_sparse_product;
td_status *td_sparse_product_read(td_kernel_ctx *c,
                                  td_sparse_product *p) TD_MUST_USE;
/* SparseReorder: the dense shape. */
td_status *td_sparse_reorder_read(td_kernel_ctx *c,
                                  td_shape *shape) TD_MUST_USE;

/* Where takes no scalars. */
td_status *td_where_check(const td_shape *s) TD_MUST_USE;
/* DynamicPartition: of a part, but for its first dimension, which is 0. */
td_status *td_dynamic_partition_shape(td_kernel_ctx *c, td_shape *out) TD_MUST_USE;

/* TopK, TopKV2 and, with k = 1, NthElement: of rows of n elements the first k,
 * from place `first` of the order on; the outputs are made. */
typedef struct td_top_plan {
  int64_t n, k, first;
  bool smallest; /* the smallest come first, of equal ones the last */
  td_tensor *values, *indices; /* NULL: there are no indices */
} td_top_plan;
td_status *td_top_read(td_kernel_ctx *c, td_top_plan *p) TD_MUST_USE;
td_status *td_nth_read(td_kernel_ctx *c, td_top_plan *p) TD_MUST_USE;

/* InTopK: the output is made. */
typedef struct td_in_top_plan {
  int64_t rows, classes, k;
  td_tensor *y;
} td_in_top_plan;
td_status *td_in_top_read(td_kernel_ctx *c, td_in_top_plan *p) TD_MUST_USE;

/* ReverseSequence: its axes and lengths are checked. */
td_status *td_reverse_sequence_read(td_kernel_ctx *c, int *seq,
                                    int *batch) TD_MUST_USE;
/* DynamicStitch: of the result; its indices are checked. */
td_status *td_stitch_shape(td_kernel_ctx *c, td_shape *out) TD_MUST_USE;

/* ExtractImagePatches, along height and width; out: of the result. */
typedef struct td_patches_plan {
  int64_t in[2], out[2], window[2], stride[2], rate[2], before[2];
  int64_t channels;
  td_shape shape;
} td_patches_plan;
td_status *td_patches_read(td_kernel_ctx *c, td_patches_plan *p) TD_MUST_USE;

/* LowerBound, UpperBound. */
td_status *td_bound_check(const td_kernel_ctx *c) TD_MUST_USE;
/* Bucketize: its boundaries. */
td_status *td_bucketize_read(const td_kernel_ctx *c, const float **boundaries,
                             int *n) TD_MUST_USE;

/* Roll: the first `axes` axes, each moved by `by`, in [0, size). */
typedef struct td_roll_plan {
  int axes;
  int64_t by[TD_MAX_RANK];
} td_roll_plan;
td_status *td_rolling_read(td_kernel_ctx *c, td_roll_plan *p) TD_MUST_USE;

/* MirrorPad and, `back`, its gradient. */
typedef struct td_mirror_plan {
  td_shape in, out; /* without and with borders; `back`: the other way round */
  int64_t before[TD_MAX_RANK];
  int64_t edge; /* 1: the mirror stands behind the outermost element */
} td_mirror_plan;
td_status *td_mirror_read(td_kernel_ctx *c, bool back,
                          td_mirror_plan *p) TD_MUST_USE;

/* SpaceToBatch, BatchToSpace (`back`) and their ND forms. */
typedef struct td_space_batch_plan {
  int axes;                    /* of space: 1 .. axes of the tensors */
  int64_t block[TD_MAX_RANK];  /* along each */
  int64_t before[TD_MAX_RANK]; /* padding, or what is cut off */
  int64_t blocks;              /* their product */
  td_shape space, batch;       /* the tensors, by where the places are */
} td_space_batch_plan;
td_status *td_space_batch_read(td_kernel_ctx *c, bool back,
                               td_space_batch_plan *p) TD_MUST_USE;

/* MatrixBandPart: -1 keeps all below, or above. */
typedef struct td_band_plan {
  int64_t rows, cols, below, above;
} td_band_plan;
td_status *td_band_read(td_kernel_ctx *c, td_band_plan *p) TD_MUST_USE;

TD_END
#endif
