/* numerics.c - looks for NaN and infinities in what a node gives.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/numerics.h"

#include <math.h>

/* What a tensor holds. A complex number counts as two. */
typedef struct digest {
  int64_t count, nans, infs;
  double least, most, sum; /* of the finite ones */
} digest;

static void add(digest *d, double v) {
  d->count++;
  if (isnan(v)) {
    d->nans++;
  } else if (isinf(v)) {
    d->infs++;
  } else {
    bool first = d->count == d->nans + d->infs + 1;
    d->least = first || v < d->least ? v : d->least;
    d->most = first || v > d->most ? v : d->most;
    d->sum += v;
  }
}

static bool is_number(const td_tensor *t) {
  return td_tensor_valid(t) && td_tensor_on_host(t) && t->dtype != TD_STRING &&
         t->dtype != TD_RESOURCE && t->dtype != TD_VARIANT;
}

static bool may_be_bad(const td_tensor *t) {
  return is_number(t) &&
         (td_dtype_is_float(t->dtype) || td_dtype_is_complex(t->dtype));
}

static digest digest_of(const td_tensor *t) {
  digest d = {0};
  int64_t n = td_tensor_count(t);
  switch (t->dtype) {
  case TD_FLOAT32:
    for (int64_t i = 0; i < n; i++) add(&d, ((const float *)t->data)[i]);
    break;
  case TD_COMPLEX64:
    for (int64_t i = 0; i < 2 * n; i++) add(&d, ((const float *)t->data)[i]);
    break;
  case TD_FLOAT64:
    for (int64_t i = 0; i < n; i++) add(&d, ((const double *)t->data)[i]);
    break;
  case TD_COMPLEX128:
    for (int64_t i = 0; i < 2 * n; i++) add(&d, ((const double *)t->data)[i]);
    break;
  default:
    for (int64_t i = 0; i < n; i++) add(&d, td_tensor_get_f(t, i));
  }
  return d;
}

static void print(td_str *m, const td_tensor *t) {
  td_shape_text text;
  td_str_addf(m, "%s %s", td_dtype_name(t->dtype),
              td_shape_str(&t->shape, &text));
  if (!is_number(t)) return;
  digest d = digest_of(t);
  int64_t finite = d.count - d.nans - d.infs;
  if (finite == 1)
    td_str_addf(m, ", %g", d.least);
  else if (finite > 1)
    td_str_addf(m, ", %g to %g, mean %g", d.least, d.most,
                d.sum / (double)finite);
  if (d.nans) td_str_addf(m, ", %lld NaN", (long long)d.nans);
  if (d.infs) td_str_addf(m, ", %lld infinite", (long long)d.infs);
}

static td_status *bad(const td_numerics *c, int i, const digest *d) {
  td_str m = {0};
  td_str_addf(&m, "output %d holds", i);
  if (d->nans) td_str_addf(&m, " %lld NaN", (long long)d->nans);
  if (d->nans && d->infs) td_str_add(&m, " and");
  if (d->infs) td_str_addf(&m, " %lld infinite", (long long)d->infs);
  td_str_addf(&m, " of %lld numbers", (long long)d->count);
  if (c->iteration >= 0)
    td_str_addf(&m, ", in iteration %lld of its loop", (long long)c->iteration);
  for (int k = 0; k < c->n_in; k++) {
    if (c->in[k].dtype == TD_INVALID) continue;
    td_str_addf(&m, "; input %d is ", k);
    print(&m, &c->in[k]);
  }
  td_status *s =
      m.failed ? td_oom() : td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&m));
  td_str_deinit(&m);
  return s;
}

td_status *td_numerics_check(const td_numerics *c) {
  for (int i = 0; i < c->n_out; i++) {
    if (!may_be_bad(&c->out[i])) continue;
    digest d = digest_of(&c->out[i]);
    if (d.nans || d.infs) return bad(c, i, &d);
  }
  return NULL;
}
