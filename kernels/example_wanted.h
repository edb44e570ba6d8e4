/* example_wanted.h - what the ops that parse Examples are asked for.
 *
 * Keys, dtypes, shapes and defaults stand at a node in several forms; here they
 * become features (example_parse.h). Of a SequenceExample these are its
 * context's, whose arguments come first; their names begin with `of`, which is
 * "context_", else "".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_EXAMPLE_WANTED_H
#define TD_EXAMPLE_WANTED_H

#include "kernels/example_parse.h"

TD_BEGIN

/* Keys of one form: tensors (a vector, or scalars one after the other) or an
 * attribute. */
typedef struct td_example_keys {
  const td_tensor *tensors;
  bool vector;
  const td_attr *attr;
} td_example_keys;

/* Borrowed; valid while the tensors or the node are. */
td_bytes td_example_key_at(const td_example_keys *k, int i);
/* Is s the shape of n keys? */
td_status *td_example_check_keys(const td_shape *s, const char *what,
                                 int n) TD_MUST_USE;
/* Are the tensors of an argument scalars? */
td_status *td_example_check_scalars(const td_kernel_ctx *c, int arg,
                                    const char *what) TD_MUST_USE;

/* Elements of a dense feature, or of one of its rows. */
td_status *td_example_elements(const td_shape *s, const char *of, int index,
                               int64_t *each) TD_MUST_USE;
/* Is `given` a default of that feature? */
td_status *td_example_check_preset(const td_shape *s, const td_shape *given,
                                   const char *of, int index) TD_MUST_USE;

typedef struct td_example_wanted {
  td_kernel_ctx *ctx;
  td_example_feature *features;
  int n;
} td_example_wanted;

/* On success ended by td_example_finish. */
td_status *td_example_begin(td_example_wanted *w,
                            td_kernel_ctx *c) TD_MUST_USE;
/* Those of the node's outputs 0 to 2, 3, 4 and 5. */
void td_example_want_sparse(td_example_wanted *w, const td_example_keys *k);
td_status *td_example_want_dense(td_example_wanted *w, const td_example_keys *k,
                                 const char *of, int first_default) TD_MUST_USE;
void td_example_want_ragged(td_example_wanted *w, const td_example_keys *k);
/* Parses when s is NULL. Takes ownership of `s`. */
td_status *td_example_finish(td_example_wanted *w, td_status *s,
                             const td_tensor *names) TD_MUST_USE;

TD_END
#endif
