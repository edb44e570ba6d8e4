/* ctc_loss.c - connectionist temporal classification: how likely a sequence of
 * labels is, whatever its alignment, and the gradient for the logits.
 *
 * Graves et al. (2006). Labels are laid out with a blank, the last class,
 * before and after each; a path goes on by staying, by a step, or by two over a
 * blank between different labels. backward[t][u] is the logarithm of the
 * probability of all that follows place u at time t. The forward variables are
 * needed for one time only, when its gradient is written. All is computed in
 * double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/ctc.h"
#include "kernels/element.h"

typedef struct job {
  td_kernel_ctx *ctx;
  td_ctc x;
  td_tensor *loss, *gradient;
  const int64_t *indices;
  const int32_t *values;
  int64_t n; /* labels */
  bool collapse, merge, ignore;
  int64_t *first;     /* label of each row of the batch; batch + 1 of them */
  td_status **errors; /* of each row */
} job;

/* One row of the batch. */
typedef struct path {
  const job *j;
  int64_t row, times, labels, places; /* places: 2 labels + 1 */
  int32_t *at;                        /* class of each place */
  double *log_y;                      /* {times, classes} */
  double *backward;                   /* {times, places} */
  double *forward[2];                 /* {places}, of now and before */
  double *sum;                        /* {classes} */
  double total;                       /* log p(labels | inputs) */
  td_tensor memory[4];                /* of the four above */
  int n_memory;
} path;

/* ---- operands ------------------------------------------------------------ */

static td_status *check_labels(job *j) {
  for (int64_t i = 0; i < j->n; i++) {
    int64_t row = j->indices[2 * i], at = j->indices[2 * i + 1];
    if (row < 0 || row >= j->x.batch || at < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "labels_indices[%lld] is {%lld, %lld}, outside a batch "
                      "of %lld",
                      (long long)i, (long long)row, (long long)at,
                      (long long)j->x.batch);
    const int64_t *before = j->indices + 2 * i - 2;
    if (i > 0 && (row < before[0] || (row == before[0] && at <= before[1])))
      return td_error(TD_INVALID_ARGUMENT,
                      "labels_indices[%lld], {%lld, %lld}, is out of order",
                      (long long)i, (long long)row, (long long)at);
    j->first[row + 1] = i + 1;
  }
  for (int64_t row = 0; row < j->x.batch; row++)
    if (j->first[row + 1] < j->first[row]) j->first[row + 1] = j->first[row];
  return td_ctc_check_lengths(&j->x);
}

/* The labels of a row into every second place. */
static td_status *read_labels(path *p) {
  const job *j = p->j;
  int32_t blank = (int32_t)(j->x.classes - 1);
  bool over = false;
  for (int64_t i = j->first[p->row]; i < j->first[p->row + 1]; i++) {
    int32_t v = j->values[i];
    if (v < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "labels must not be negative, batch %lld has %d",
                      (long long)p->row, v);
    if (j->collapse && i > j->first[p->row] && v == j->values[i - 1]) continue;
    if (over && v < blank)
      return td_error(TD_INVALID_ARGUMENT,
                      "batch %lld has label %d after a blank (%d or more)",
                      (long long)p->row, v, blank);
    over = v >= blank;
    if (!over) p->at[2 * p->labels++ + 1] = v;
  }
  p->places = 2 * p->labels + 1;
  for (int64_t u = 0; u < p->places; u += 2) p->at[u] = blank;
  if (p->labels > 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "batch %lld has no labels",
                  (long long)p->row);
}

/* ---- forward and backward ------------------------------------------------ */

static bool stays(const path *p, int64_t u) {
  return p->j->merge || p->at[u] == p->at[0];
}

/* From place u to u + 2, over a blank. */
static bool skips(const path *p, int64_t u) {
  bool same = p->j->merge && p->at[u] == p->at[u + 2];
  return p->at[u] != p->at[0] && !same;
}

static void go_backward(path *p) {
  int64_t n = p->places, classes = p->j->x.classes;
  for (int64_t t = p->times - 1; t >= 0; t--) {
    double *b = p->backward + t * n, *after = b + n;
    const double *y = p->log_y + (t + 1) * classes;
    for (int64_t u = 0; u < n; u++) {
      b[u] = t == p->times - 1 && u >= n - 2 ? 0 : -INFINITY;
      if (t == p->times - 1) continue;
      if (stays(p, u)) b[u] = after[u] + y[p->at[u]];
      if (u + 1 < n)
        b[u] = td_ctc_log_add(b[u], after[u + 1] + y[p->at[u + 1]]);
      if (u + 2 < n && skips(p, u))
        b[u] = td_ctc_log_add(b[u], after[u + 2] + y[p->at[u + 2]]);
    }
  }
}

static void step_forward(path *p, int64_t t, const double *before,
                         double *now) {
  const double *y = p->log_y + t * p->j->x.classes;
  for (int64_t u = 0; u < p->places; u++) {
    double sum = t == 0 && u < 2 ? 0 : -INFINITY;
    if (t > 0) {
      if (stays(p, u)) sum = before[u];
      if (u > 0) sum = td_ctc_log_add(sum, before[u - 1]);
      if (u > 1 && skips(p, u - 2)) sum = td_ctc_log_add(sum, before[u - 2]);
    }
    now[u] = sum + y[p->at[u]];
  }
}

/* y - p(class at t | labels, inputs); y alone where there is no path. */
static void write_gradient(path *p, int64_t t, const double *forward) {
  const job *j = p->j;
  const double *y = p->log_y + t * j->x.classes;
  const double *b = p->backward + t * p->places;
  for (int64_t k = 0; k < j->x.classes; k++) p->sum[k] = -INFINITY;
  for (int64_t u = 0; u < p->places; u++)
    p->sum[p->at[u]] = td_ctc_log_add(p->sum[p->at[u]], forward[u] + b[u]);
  for (int64_t k = 0; k < j->x.classes; k++) {
    double share = p->total == -INFINITY ? 0 : exp(p->sum[k] - p->total);
    td_ctc_put(j->gradient, (t * j->x.batch + p->row) * j->x.classes + k,
               exp(y[k]) - share);
  }
}

static void solve(path *p) {
  for (int64_t t = 0; t < p->times; t++)
    td_ctc_log_softmax(&p->j->x, t, p->row, p->log_y + t * p->j->x.classes);
  go_backward(p);
  p->total = -INFINITY;
  for (int64_t t = 0; t < p->times; t++) {
    double *now = p->forward[t & 1];
    step_forward(p, t, p->forward[~t & 1], now);
    for (int64_t u = 0; t == 0 && u < p->places; u++)
      p->total = td_ctc_log_add(p->total, now[u] + p->backward[u]);
    write_gradient(p, t, now);
  }
  td_ctc_put(p->j->loss, p->row, -p->total);
}

/* ---- rows of the batch --------------------------------------------------- */

static td_status *too_long(const path *p) {
  return td_error(TD_INVALID_ARGUMENT,
                  "batch %lld has %lld labels and only %lld times; with "
                  "ignore_longer_outputs_than_inputs its loss is 0",
                  (long long)p->row, (long long)p->labels, (long long)p->times);
}

/* Room for {n, each} numbers, taken as a tensor is: many labels over much time
 * need far more than the operands. */
static td_status *take(path *p, int64_t n, int64_t each, double **out) {
  td_shape shape = td_shape_matrix(n, each);
  td_tensor *t = &p->memory[p->n_memory];
  TD_TRY(td_temp(p->j->ctx, TD_FLOAT64, &shape, t));
  p->n_memory++;
  *out = t->data;
  return NULL;
}

static td_status *run_path(path *p) {
  if (p->labels > p->times) return p->j->ignore ? NULL : too_long(p);
  TD_TRY(take(p, p->times, p->j->x.classes, &p->log_y));
  TD_TRY(take(p, p->times, p->places, &p->backward));
  TD_TRY(take(p, 2, p->places, &p->forward[0]));
  TD_TRY(take(p, 1, p->j->x.classes, &p->sum));
  p->forward[1] = p->forward[0] + p->places;
  solve(p);
  return NULL;
}

static td_status *run_row(const job *j, int64_t row) {
  path p = {.j = j, .row = row, .times = j->x.lengths[row]};
  size_t most = (size_t)(j->first[row + 1] - j->first[row]);
  p.at = td_calloc(2 * most + 1, sizeof *p.at);
  td_status *s = p.at ? read_labels(&p) : td_oom();
  if (td_ok(s)) s = run_path(&p);
  td_free(p.at);
  for (int i = 0; i < p.n_memory; i++) td_tensor_release(&p.memory[i]);
  return s;
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  for (int64_t row = begin; row < end; row++) j->errors[row] = run_row(j, row);
}

static td_status *run_all(td_kernel_ctx *c, job *j) {
  size_t batch = (size_t)j->x.batch;
  memset(j->gradient->data, 0, td_tensor_bytes(j->gradient));
  memset(j->loss->data, 0, td_tensor_bytes(j->loss));
  j->first = td_calloc(batch + 1, sizeof *j->first);
  j->errors = td_calloc(batch + 1, sizeof(td_status *));
  td_status *s = j->first && j->errors ? check_labels(j) : td_oom();
  if (td_ok(s)) {
    td_for(c, j->x.batch, 1, run_rows, j);
    s = td_ctc_first_error(j->errors, j->x.batch);
  }
  td_free(j->first);
  td_free(j->errors);
  return s;
}

/* ---- the op -------------------------------------------------------------- */

static td_status *check(const td_shape *x, const td_shape *indices,
                        const td_shape *values, const td_shape *lengths) {
  td_shape_text text;
  td_shape two = td_shape_matrix(values->rank == 1 ? values->dim[0] : -1, 2);
  td_shape vector = td_shape_vector(-1);
  TD_TRY(td_ctc_check(x, lengths));
  if (!td_shape_compatible(values, &vector))
    return td_error(TD_INVALID_ARGUMENT,
                    "labels_values must be a vector, not "
                    "%s",
                    td_shape_str(values, &text));
  if (!td_shape_compatible(indices, &two))
    return td_error(TD_INVALID_ARGUMENT,
                    "labels_indices must have a row {batch, place} for each "
                    "label, not be %s",
                    td_shape_str(indices, &text));
  return NULL;
}

static td_status *infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  TD_TRY(check(x, td_infer_in(c, 1), td_infer_in(c, 2), td_infer_in(c, 3)));
  int64_t batch = td_ctc_batch(x, td_infer_in(c, 3));
  td_infer_out(c, 0, td_shape_of(1, &batch));
  td_infer_out(c, 1, x->rank == 3 ? *x : td_shape_ranked(3));
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  const td_node *node = td_ctx_node(c);
  const td_shape *x = &td_in(c, 0)->shape;
  job j = {.ctx = c,
           .indices = td_in(c, 1)->data,
           .values = td_in(c, 2)->data,
           .n = td_tensor_count(td_in(c, 2)),
           .collapse = td_node_bool(node, "preprocess_collapse_repeated"),
           .merge = td_node_bool(node, "ctc_merge_repeated"),
           .ignore = td_node_bool(node, "ignore_longer_outputs_than_inputs")};
  TD_TRY(
      check(x, &td_in(c, 1)->shape, &td_in(c, 2)->shape, &td_in(c, 3)->shape));
  j.x = td_ctc_of(td_in(c, 0), td_in(c, 3));
  if (j.x.batch == 0 || j.x.times == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "inputs must have a time and a row at least, not %lld "
                    "times of %lld rows",
                    (long long)j.x.times, (long long)j.x.batch);
  if (j.x.classes < 1 || j.x.classes > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "inputs must have from 1 to 2^31 - 1 classes, not %lld",
                    (long long)j.x.classes);
  td_shape batch = td_shape_vector(j.x.batch);
  TD_TRY(td_out(c, 0, &batch, &j.loss));
  TD_TRY(td_out(c, 1, x, &j.gradient));
  return run_all(c, &j);
}

/* Softmax, both ways through the labels, the gradient. */
TD_COST_INPUT(loss_cost, 9, 0)

static const td_op_def ops[] = {
    {.type = "CTCLoss",
     .sig = "inputs: T, labels_indices: int64, labels_values: int32, "
            "sequence_length: int32 -> loss: T, gradient: T; "
            "preprocess_collapse_repeated: bool = false; "
            "ctc_merge_repeated: bool = true; "
            "ignore_longer_outputs_than_inputs: bool = false; "
            "T: {float, double} = float",
     .shape = infer,
     .cost = loss_cost,
     .doc = "-log p(labels | inputs) over all alignments, and its gradient for "
            "inputs, logits of {times, batch, classes}; the last is the blank.",
     .lua = "ctc_loss",
     .example = "td.ctc_loss(td.tensor{{{0.0, 0.0}}}, {{0, 0}}, {0}, {1})  --> "
                "0.6931472",
     .section = "Candidate sampling, embeddings, CTC"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "CTCLoss", .device = "CPU", .types = TYPES_LONG_FLOATS, .run = run},
    {0},
};

TD_MODULE(ctc_loss, ops, kernels)
