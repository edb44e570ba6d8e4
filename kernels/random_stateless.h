/* random_stateless.h - the stream that a seed of two numbers stands for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RANDOM_STATELESS_H
#define TD_RANDOM_STATELESS_H

#include "kernels/random.h"

TD_BEGIN

/* Input i is a seed, in a shape function. */
td_status *td_random_ask_seed(td_infer *c, int i) TD_MUST_USE;
/* The start of its stream. */
td_status *td_random_seeded(const td_tensor *seed, td_philox *p) TD_MUST_USE;
/* A whole kernel: output 0 has the shape that input 0 says and numbers drawn
 * from `base` on; integers in the range of inputs `range` and range + 1. */
td_status *td_random_from(td_kernel_ctx *c, td_random_kind kind,
                          const td_philox *base, int range,
                          td_random_how how) TD_MUST_USE;
/* Whole kernels of ops that take a seed; and of those that take a key and a
 * counter (random_keyed.c). */
td_status *td_random_stateless_on(td_kernel_ctx *c, td_random_kind kind,
                                  td_random_how how) TD_MUST_USE;
td_status *td_random_keyed_on(td_kernel_ctx *c, td_random_kind kind,
                              td_random_how how) TD_MUST_USE;

TD_END
#endif
