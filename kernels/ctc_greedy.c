/* ctc_greedy.c - the likeliest class at each time, without repeats and blanks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel.h"
#include "kernels/element.h"

typedef struct job {
  const td_tensor *x;
  const int32_t *lengths;
  int64_t times, batch, classes, blank;
  bool merge;
  int64_t *best; /* {batch, times}: of each time, -1 where nothing comes out */
  int64_t *counts; /* of each row */
  td_tensor *score;
} job;

static double at(const job *j, int64_t i) {
  return j->x->dtype == TD_FLOAT64 ? ((const double *)j->x->data)[i]
                                   : (double)((const float *)j->x->data)[i];
}

static void put_score(const job *j, int64_t row, double sum) {
  if (j->x->dtype == TD_FLOAT64)
    ((double *)j->score->data)[row] = sum;
  else
    ((float *)j->score->data)[row] = (float)sum;
}

static void decode(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t row = begin; row < end; row++) {
    int64_t before = -1;
    double sum = 0;
    for (int64_t t = 0; t < j->lengths[row]; t++) {
      int64_t from = (t * j->batch + row) * j->classes, top = 0;
      for (int64_t k = 1; k < j->classes; k++)
        if (at(j, from + k) > at(j, from + top)) top = k;
      sum -= at(j, from + top);
      bool out = top != j->blank && !(j->merge && top == before);
      j->best[row * j->times + t] = out ? top : -1;
      j->counts[row] += out;
      before = top;
    }
    put_score(j, row, sum);
  }
}

/* ---- outputs ------------------------------------------------------------- */

static td_status *write(td_kernel_ctx *c, const job *j) {
  int64_t n = 0, longest = 0;
  for (int64_t row = 0; row < j->batch; row++) {
    n += j->counts[row];
    if (j->counts[row] > longest) longest = j->counts[row];
  }
  td_shape pairs = td_shape_matrix(n, 2), list = td_shape_vector(n);
  td_shape two = td_shape_vector(2);
  td_tensor *indices, *values, *shape;
  TD_TRY(td_out(c, 0, &pairs, &indices));
  TD_TRY(td_out(c, 1, &list, &values));
  TD_TRY(td_out(c, 2, &two, &shape));
  int64_t *to = indices->data, *value = values->data;
  for (int64_t row = 0; row < j->batch; row++)
    for (int64_t t = 0, place = 0; t < j->lengths[row]; t++) {
      int64_t class = j->best[row * j->times + t];
      if (class < 0) continue;
      *to++ = row;
      *to++ = place++;
      *value++ = class;
    }
  ((int64_t *)shape->data)[0] = j->batch;
  ((int64_t *)shape->data)[1] = longest;
  return NULL;
}

static td_status *run_all(td_kernel_ctx *c, job *j) {
  size_t cells = 0;
  bool over =
      __builtin_mul_overflow((size_t)j->batch, (size_t)j->times, &cells);
  j->best = over ? NULL : td_alloc_zero(cells + 1, sizeof *j->best);
  j->counts = td_alloc_zero((size_t)j->batch + 1, sizeof *j->counts);
  td_status *s = j->best && j->counts ? NULL : td_oom();
  if (td_ok(s)) {
    td_for(c, j->batch, 1, decode, j);
    s = write(c, j);
  }
  td_free(j->best);
  td_free(j->counts);
  return s;
}

/* ---- the op -------------------------------------------------------------- */

static td_status *check(const td_shape *x, const td_shape *lengths) {
  td_shape_text text;
  td_shape cube = td_shape_ranked(3);
  td_shape batch = td_shape_vector(x->rank == 3 ? x->dim[1] : -1);
  if (!td_shape_compatible(x, &cube))
    return td_error(TD_INVALID_ARGUMENT,
                    "inputs must be {times, batch, classes}, not %s",
                    td_shape_str(x, &text));
  if (td_shape_compatible(lengths, &batch)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "sequence_length must have an element for each of the batch, "
                  "not be %s",
                  td_shape_str(lengths, &text));
}

static td_status *infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0), *lengths = td_infer_in(c, 1);
  TD_TRY(check(x, lengths));
  int64_t batch = x->rank == 3 ? x->dim[1] : -1, some = -1;
  if (batch < 0 && lengths->rank == 1) batch = lengths->dim[0];
  td_infer_out(c, 0, td_shape_matrix(-1, 2));
  td_infer_out(c, 1, td_shape_of(1, &some));
  td_infer_out(c, 2, td_shape_vector(2));
  td_infer_out(c, 3, td_shape_matrix(batch, 1));
  return NULL;
}

static td_status *check_values(const job *j, int64_t blank) {
  if (j->classes < 1 || blank < -j->classes || blank >= j->classes)
    return td_error(TD_INVALID_ARGUMENT,
                    "blank_index %lld is not one of %lld classes",
                    (long long)blank, (long long)j->classes);
  for (int64_t row = 0; row < j->batch; row++)
    if (j->lengths[row] < 0 || j->lengths[row] > j->times)
      return td_error(TD_INVALID_ARGUMENT,
                      "sequence_length[%lld] is %d, which is not in [0, %lld]",
                      (long long)row, j->lengths[row], (long long)j->times);
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  const td_node *node = td_ctx_node(c);
  const td_shape *x = &td_in(c, 0)->shape;
  int64_t blank = td_node_int(node, "blank_index");
  TD_TRY(check(x, &td_in(c, 1)->shape));
  job j = {.x = td_in(c, 0),
           .lengths = td_in(c, 1)->data,
           .times = x->dim[0],
           .batch = x->dim[1],
           .classes = x->dim[2],
           .merge = td_node_bool(node, "merge_repeated")};
  TD_TRY(check_values(&j, blank));
  j.blank = blank < 0 ? blank + j.classes : blank;
  td_shape column = td_shape_matrix(j.batch, 1);
  TD_TRY(td_out(c, 3, &column, &j.score));
  return run_all(c, &j);
}

static const td_op_def ops[] = {
    {.type = "CTCGreedyDecoder",
     .sig = "inputs: T, sequence_length: int32 -> decoded_indices: int64, "
            "decoded_values: int64, decoded_shape: int64, log_probability: T; "
            "merge_repeated: bool = false; blank_index: int = -1; "
            "T: {float, double} = float",
     .shape = infer,
     .doc = "The likeliest class at each time as a sparse tensor, without "
            "blanks; and minus the sum of their logits.",
     .lua = "ctc_greedy_decoder",
     .flags = TD_NO_GRADIENT,
     .example = "select(2, td.ctc_greedy_decoder({{{1.0, 5.0, 2.0}}}, {1}))  "
                "--> 1",
     .section = "Candidate sampling, embeddings, CTC"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "CTCGreedyDecoder",
     .device = "CPU",
     .types = TYPES_LONG_FLOATS,
     .run = run},
    {0},
};

TD_MODULE(ctc_greedy, ops, kernels)
