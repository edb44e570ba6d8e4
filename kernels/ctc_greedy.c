/* ctc_greedy.c - the likeliest class at each time, without repeats and blanks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/ctc.h"
#include "kernels/element.h"

typedef struct job {
  td_ctc x;
  int64_t blank;
  bool merge;
  td_ctc_sequence *rows; /* {batch} */
  td_tensor *score;
} job;

static void decode(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t row = begin; row < end; row++) {
    td_ctc_sequence *to = &j->rows[row];
    int64_t before = -1;
    double sum = 0;
    for (int64_t t = 0; t < j->x.lengths[row]; t++) {
      int64_t top = 0;
      for (int64_t k = 1; k < j->x.classes; k++)
        if (td_ctc_input(&j->x, t, row, k) > td_ctc_input(&j->x, t, row, top))
          top = k;
      sum -= td_ctc_input(&j->x, t, row, top);
      if (top != j->blank && !(j->merge && top == before))
        to->classes[to->n++] = top;
      before = top;
    }
    td_ctc_put(j->score, row, sum);
  }
}

static td_status *run_all(td_kernel_ctx *c, job *j) {
  int64_t batch = j->x.batch, times = j->x.times;
  size_t cells = 0;
  bool over = __builtin_mul_overflow((size_t)batch, (size_t)times, &cells);
  int64_t *classes = over ? NULL : td_calloc(cells + 1, sizeof *classes);
  j->rows = td_calloc((size_t)batch + 1, sizeof *j->rows);
  td_status *s = classes && j->rows ? NULL : td_oom();
  if (td_ok(s)) {
    for (int64_t row = 0; row < batch; row++)
      j->rows[row].classes = classes + row * times;
    td_for(c, batch, 1, decode, j);
    s = td_ctc_write(c, 0, 1, batch, j->rows);
  }
  td_free(classes);
  td_free(j->rows);
  return s;
}

/* ---- the op -------------------------------------------------------------- */

static td_status *infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0), *lengths = td_infer_in(c, 1);
  TD_TRY(td_ctc_check(x, lengths));
  td_infer_out(c, 0, td_shape_matrix(-1, 2));
  td_infer_out(c, 1, td_shape_ranked(1));
  td_infer_out(c, 2, td_shape_vector(2));
  td_infer_out(c, 3, td_shape_matrix(td_ctc_batch(x, lengths), 1));
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  const td_node *node = td_ctx_node(c);
  int64_t blank = td_node_int(node, "blank_index");
  job j = {.merge = td_node_bool(node, "merge_repeated")};
  TD_TRY(td_ctc_read_decoder(c, &j.x));
  int64_t classes = j.x.classes;
  if (blank < -classes || blank >= classes)
    return td_error(TD_INVALID_ARGUMENT,
                    "blank_index %lld is not one of %lld classes",
                    (long long)blank, (long long)classes);
  j.blank = blank < 0 ? blank + classes : blank;
  td_shape column = td_shape_matrix(j.x.batch, 1);
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
     .cost = td_cost_reduce,
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
