/* sequence_parse.h - the lists of a batch of SequenceExamples as tensors.
 *
 * Each wanted list has any number of steps, and a step has values: as many as
 * the shape says in a dense list, else any number. What lacks a list has one of
 * no steps, but a dense one must be there unless it `may_lack`. Contexts are
 * td_example_parse's: they are the features of an Example.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SEQUENCE_PARSE_H
#define TD_SEQUENCE_PARSE_H

#include "kernels/example_parse.h"

TD_BEGIN

typedef struct td_sequence_feature {
  td_bytes key;
  td_dtype dtype; /* float32, int64, string */
  td_example_form form;
  int values;          /* the output */
  int indices, shapes; /* the outputs, of sparse ones */
  int outer, inner;    /* the outputs, of ragged ones: steps of each
                          SequenceExample, values of each step */
  /* Of dense ones, which are filled up with zeros or "" to the most steps. */
  int lengths;    /* the output: steps; -1: there is none */
  td_shape shape; /* of a step */
  int64_t each;   /* elements of it */
  bool may_lack;
  /* What the batch has: td_sequence_parse's own. */
  int64_t steps, most_steps; /* together, and of one list */
  int64_t total, most;       /* values, and in one step */
  size_t text;               /* bytes of all strings */
} td_sequence_feature;

/* As td_example_parse. */
td_status *td_sequence_parse(td_kernel_ctx *c, const td_tensor *names,
                             td_sequence_feature *features,
                             int n) TD_MUST_USE;

TD_END
#endif
