/* print.h - a tensor as text, for Print, Assert and StringFormat.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PRINT_H
#define TD_PRINT_H

#include "engine/base/str.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

/* Appends at most `summarize` elements of `t` (all when negative). */
void td_print_tensor(td_str *out, const td_tensor *t, int64_t summarize);
/* The same as TensorFlow's newer ops write it: a row a line, and of each axis
 * the first and the last `summarize`. */
void td_print_array(td_str *out, const td_tensor *t, int64_t summarize);

TD_END
#endif
