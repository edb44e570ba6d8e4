/* numerics.c - looks for NaN and infinities in what a node gives.
 *
 * What is in a device's memory is copied to the host by the device, inputs too,
 * for the message; no thread waits for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/numerics.h"

#include <math.h>

#include "engine/base/mem.h"

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
  return td_tensor_valid(t) && td_tensor_touchable(t) &&
         t->dtype != TD_STRING && t->dtype != TD_RESOURCE &&
         t->dtype != TD_VARIANT;
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

/* ---- in a device's memory ------------------------------------------------ */

static bool is_away(const td_tensor *t) {
  return td_tensor_valid(t) && td_dtype_is_plain(t->dtype) && t->buffer &&
         !td_tensor_touchable(t);
}

bool td_numerics_is_away(const td_numerics *c) {
  for (int i = 0; i < c->n_out; i++)
    if (is_away(&c->out[i]) && (td_dtype_is_float(c->out[i].dtype) ||
                                td_dtype_is_complex(c->out[i].dtype)))
      return true;
  return false;
}

/* Copies on their way. */
typedef struct fetching {
  td_numerics c; /* of `here` */
  void (*over)(void *arg, td_status *s);
  void *arg;
  int32_t missing;   /* atomic: copies, and who starts them */
  td_status *failed; /* atomic: some copy's error */
  td_tensor here[];  /* inputs, then outputs */
} fetching;

static void arrived(void *arg, td_status *s) {
  fetching *f = arg;
  if (!td_ok(s))
    td_status_release(__atomic_exchange_n(&f->failed, s, __ATOMIC_ACQ_REL));
  if (__atomic_sub_fetch(&f->missing, 1, __ATOMIC_ACQ_REL) > 0) return;
  s = f->failed;
  if (td_ok(s)) s = td_numerics_check(&f->c);
  for (int i = 0; i < f->c.n_in + f->c.n_out; i++)
    td_tensor_release(&f->here[i]);
  void (*over)(void *, td_status *) = f->over;
  arg = f->arg;
  td_free(f);
  over(arg, s);
}

/* Where the host can see it: a copy, or the tensor itself. */
static void fetch(fetching *f, td_device *d, const td_tensor *t,
                  td_tensor *here) {
  if (is_away(t)) {
    __atomic_fetch_add(&f->missing, 1, __ATOMIC_RELAXED);
    td_device_transfer(d, t, d->host, here, arrived, f);
  } else if (t->buffer) {
    td_tensor_retain(t, here);
  }
}

void td_numerics_check_away(const td_numerics *c, td_device *d,
                            void (*over)(void *arg, td_status *s), void *arg) {
  size_t n = (size_t)c->n_in + (size_t)c->n_out;
  fetching *f = td_calloc(1, sizeof *f + n * sizeof f->here[0]);
  if (!f) {
    over(arg, td_oom());
    return;
  }
  f->c = *c;
  f->c.in = f->here;
  f->c.out = f->here + c->n_in;
  f->over = over;
  f->arg = arg;
  f->missing = 1;
  for (int i = 0; i < c->n_in; i++) fetch(f, d, &c->in[i], &f->here[i]);
  for (int i = 0; i < c->n_out; i++)
    fetch(f, d, &c->out[i], &f->here[c->n_in + i]);
  arrived(f, NULL);
}
