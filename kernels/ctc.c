/* ctc.c - operands and results of the CTC ops; see ctc.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ctc.h"

/* ---- operands ------------------------------------------------------------ */

td_status *td_ctc_check(const td_shape *inputs, const td_shape *lengths) {
  td_shape_text text;
  td_shape cube = td_shape_ranked(3);
  td_shape batch = td_shape_vector(inputs->rank == 3 ? inputs->dim[1] : -1);
  if (!td_shape_compatible(inputs, &cube))
    return td_error(TD_INVALID_ARGUMENT,
                    "inputs must be {times, batch, classes}, not %s",
                    td_shape_str(inputs, &text));
  if (td_shape_compatible(lengths, &batch)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "sequence_length must have an element for each of the batch, "
                  "not be %s",
                  td_shape_str(lengths, &text));
}

int64_t td_ctc_batch(const td_shape *inputs, const td_shape *lengths) {
  int64_t batch = inputs->rank == 3 ? inputs->dim[1] : -1;
  return batch < 0 && lengths->rank == 1 ? lengths->dim[0] : batch;
}

td_ctc td_ctc_of(const td_tensor *inputs, const td_tensor *lengths) {
  const int64_t *dim = inputs->shape.dim;
  return (td_ctc){.inputs = inputs,
                  .lengths = lengths->data,
                  .times = dim[0],
                  .batch = dim[1],
                  .classes = dim[2]};
}

td_status *td_ctc_check_lengths(const td_ctc *x) {
  for (int64_t row = 0; row < x->batch; row++)
    if (x->lengths[row] < 0 || x->lengths[row] > x->times)
      return td_error(TD_INVALID_ARGUMENT,
                      "sequence_length[%lld] is %d, which is not in [0, %lld]",
                      (long long)row, x->lengths[row], (long long)x->times);
  return NULL;
}

void td_ctc_log_softmax(const td_ctc *x, int64_t t, int64_t row, double *y) {
  double max = -INFINITY, sum = 0;
  for (int64_t k = 0; k < x->classes; k++) {
    y[k] = td_ctc_input(x, t, row, k);
    if (y[k] > max) max = y[k];
  }
  for (int64_t k = 0; k < x->classes; k++) sum += exp(y[k] - max);
  for (int64_t k = 0; k < x->classes; k++) y[k] -= max + log(sum);
}

td_status *td_ctc_read_decoder(const td_kernel_ctx *c, td_ctc *x) {
  const td_shape *inputs = &td_in(c, 0)->shape, *lengths = &td_in(c, 1)->shape;
  td_shape_text text;
  if (inputs->rank != 3 || lengths->rank != 1)
    TD_TRY(td_ctc_check(inputs, lengths));
  if (td_shape_count(inputs) == 0)
    return td_error(TD_INVALID_ARGUMENT, "inputs must not be empty, but are %s",
                    td_shape_str(inputs, &text));
  if (lengths->dim[0] != inputs->dim[1])
    return td_error(TD_FAILED_PRECONDITION,
                    "sequence_length must have an element for each of the "
                    "batch, %lld, not %lld",
                    (long long)inputs->dim[1], (long long)lengths->dim[0]);
  *x = td_ctc_of(td_in(c, 0), td_in(c, 1));
  for (int64_t row = 0; row < x->batch; row++)
    if (x->lengths[row] > x->times)
      return td_error(TD_FAILED_PRECONDITION,
                      "sequence_length[%lld] is %d, which is above %lld",
                      (long long)row, x->lengths[row], (long long)x->times);
  return NULL;
}

/* ---- results ------------------------------------------------------------- */

void td_ctc_put(td_tensor *t, int64_t i, double value) {
  if (t->dtype == TD_FLOAT64)
    ((double *)t->data)[i] = value;
  else
    ((float *)t->data)[i] = (float)value;
}

td_status *td_ctc_first_error(td_status **errors, int64_t n) {
  td_status *first = NULL;
  for (int64_t i = 0; i < n; i++)
    if (td_ok(first))
      first = errors[i];
    else
      td_status_release(errors[i]);
  return first;
}

td_status *td_ctc_write(td_kernel_ctx *c, int i, int each, int64_t batch,
                        const td_ctc_sequence *rows) {
  int64_t n = 0, longest = 0;
  for (int64_t row = 0; row < batch; row++) {
    n += rows[row].n;
    if (rows[row].n > longest) longest = rows[row].n;
  }
  td_shape pairs = td_shape_matrix(n, 2), list = td_shape_vector(n);
  td_shape two = td_shape_vector(2);
  td_tensor *indices, *values, *shape;
  TD_TRY(td_out(c, i, &pairs, &indices));
  TD_TRY(td_out(c, i + each, &list, &values));
  TD_TRY(td_out(c, i + 2 * each, &two, &shape));
  int64_t *to = indices->data, *value = values->data;
  for (int64_t row = 0; row < batch; row++)
    for (int64_t k = 0; k < rows[row].n; k++) {
      *to++ = row;
      *to++ = k;
      *value++ = rows[row].classes[k];
    }
  ((int64_t *)shape->data)[0] = batch;
  ((int64_t *)shape->data)[1] = longest;
  return NULL;
}
