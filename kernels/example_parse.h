/* example_parse.h - a batch of serialized Examples as tensors.
 *
 * Who calls says which features are wanted, in what form and for which outputs;
 * the ops do (parse_example.c). A feature that an Example lacks, or has without
 * a list, is a sparse or ragged one of no values, a dense one's default.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_EXAMPLE_PARSE_H
#define TD_EXAMPLE_PARSE_H

#include "engine/device/kernel.h"

TD_BEGIN

/* A sparse feature has outputs for indices, values and shape, a ragged one for
 * values and row splits, a dense one of its own shape. */
typedef enum td_example_form {
  TD_EXAMPLE_SPARSE,
  TD_EXAMPLE_DENSE,
  TD_EXAMPLE_RAGGED,
} td_example_form;

typedef struct td_example_feature {
  td_bytes key;
  td_dtype dtype; /* float32, int64, string */
  td_example_form form;
  int values;          /* the output */
  int indices, shapes; /* the outputs, of sparse ones */
  int splits;          /* the output, of ragged ones: int32 or int64 */
  /* Of dense ones. */
  td_shape shape;         /* of an Example; -1 first: any number of rows */
  bool rows;              /* is it so? */
  int64_t each;           /* elements of it, or of one of its rows */
  const td_tensor *preset; /* of `each`, or none: the feature must be there; of
                              rows a scalar, which fills short ones up */
  /* What the batch has: td_example_parse's own. */
  int64_t total, most; /* values, and in one Example at most */
  size_t text;         /* bytes of all strings */
} td_example_feature;

/* Input 0 is a vector of Examples or, alone, a scalar; `names` (of as many, of
 * none, or NULL) are told in errors. No two features have one key. */
td_status *td_example_parse(td_kernel_ctx *c, const td_tensor *names,
                            td_example_feature *features,
                            int n) TD_MUST_USE;

/* Are these Examples and their names? */
td_status *td_example_check_batch(const td_tensor *in,
                                  const td_tensor *names) TD_MUST_USE;

TD_END
#endif
