/* aside.c - tensors that leave a device's memory and come back.
 *
 * One word says where a tensor is: HERE until its copy to the host ends or
 * somebody takes it back, whichever comes first. Who changes the word owns the
 * device's tensor from then on. The memory of what left is free in the order of
 * the device's streams, as the memory of anything else that is let go.
 *
 * A tensor that comes back may find no memory. While the device has work, that
 * work gives some back: the pop then settles the device and tries again. Where
 * the device is nearly full it does so before the first try, too: what is
 * popped ahead of its use takes the room of what is used.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/aside.h"

#include "engine/base/mem.h"

/* From TensorFlow: what is smaller than a page is not worth a copy, and below
 * 70 % of its limit a device has room. Above 85 % a push waits for its copy. */
enum { WORTH_A_COPY = 2048, SWAP_FROM = 70, WAIT_FROM = 85 };

enum { HERE, GONE, TAKEN };

typedef struct td_leaving {
  int32_t refs;        /* atomic */
  int32_t state;       /* atomic: HERE, then GONE or TAKEN */
  td_tensor here;      /* whose: see above */
  td_tensor there;     /* the host's, once GONE */
  td_kernel_ctx *late; /* the push that is done with the copy, or NULL */
} td_leaving;

static void release(td_leaving *l) {
  if (__atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_tensor_release(&l->here);
  td_tensor_release(&l->there);
  td_free(l);
}

static bool becomes(td_leaving *l, int32_t state) {
  int32_t was = HERE;
  return __atomic_compare_exchange_n(&l->state, &was, state, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* ---- putting aside ------------------------------------------------------- */

/* Of a host device nothing is counted. */
static void count(td_device *d, int64_t bytes) {
  if (bytes) __atomic_fetch_add(&d->stacked, bytes, __ATOMIC_RELAXED);
}

static bool is_above(td_device *d, size_t percent) {
  td_allocator_stats s = td_allocator_read_stats(d->memory);
  return s.limit > 0 && s.in_use / percent >= s.limit / 100;
}

static bool is_swappable(const td_device *d, const td_tensor *t) {
  return !td_device_on_host(d) && t->buffer->allocator == d->memory &&
         td_dtype_is_plain(t->dtype) && td_tensor_bytes(t) > WORTH_A_COPY;
}

bool td_aside_due(td_device *d, const td_tensor *t) {
  return is_swappable(d, t) && is_above(d, SWAP_FROM);
}

bool td_aside_same(const td_aside *a, const td_tensor *t) {
  return !a->out && a->here.buffer == t->buffer;
}

td_status *td_aside_put(td_device *d, const td_tensor *t, bool swap, bool may,
                        td_aside *out) {
  *out = (td_aside){0};
  if (!swap) {
    td_tensor_retain(t, &out->here);
    if (!may && is_swappable(d, t)) out->counted = td_tensor_bytes(t);
    count(d, (int64_t)out->counted);
    return NULL;
  }
  td_leaving *l = td_calloc(1, sizeof *l);
  if (!l) return td_oom();
  l->refs = 1;
  td_tensor_retain(t, &l->here);
  out->out = l;
  return NULL;
}

td_leaving *td_aside_share(const td_aside *a) {
  if (a->out) __atomic_fetch_add(&a->out->refs, 1, __ATOMIC_RELAXED);
  return a->out;
}

static void left(void *arg, td_status *s) {
  td_leaving *l = arg;
  if (td_ok(s) && becomes(l, GONE))
    td_tensor_release(&l->here);
  else
    td_tensor_release(&l->there);
  td_status_release(s);
  if (l->late) td_kernel_done(l->late, NULL);
  release(l);
}

void td_aside_leave(td_leaving *l, td_kernel_ctx *c) {
  td_device *d = c->kernel->device;
  td_tensor t;
  bool late = is_above(d, WAIT_FROM);
  if (__atomic_load_n(&l->state, __ATOMIC_ACQUIRE) != HERE) {
    release(l);
    td_kernel_done(c, NULL);
    return;
  }
  td_tensor_retain(&c->out[0], &t);
  l->late = late ? c : NULL;
  td_kernel_transfer(c, &t, d->host, &l->there, left, l);
  td_tensor_release(&t);
  if (!late) td_kernel_done(c, NULL);
}

/* ---- taking back --------------------------------------------------------- */

typedef struct returning {
  td_settling settling; /* first */
  td_kernel_ctx *pop;
  td_tensor there;
} returning;

static void come_back(returning *r);

static void settled(td_settling *w) {
  come_back((returning *)w);
}

/* Is there work of the device, whose end will try again? */
static bool waits_for_room(returning *r) {
  td_device *d = r->pop->kernel->device;
  if (!d->settle || td_stopped(r->pop)) return false;
  r->settling.over = settled;
  return !d->settle(d, &r->settling);
}

static void back(void *arg, td_status *s) {
  returning *r = arg;
  td_kernel_ctx *c = r->pop;
  if (!td_ok(s)) td_tensor_release(&c->out[0]);
  bool full = !td_ok(s) && td_status_code(s) == TD_RESOURCE_EXHAUSTED;
  if (full && waits_for_room(r)) {
    td_status_release(s);
    return;
  }
  td_tensor_release(&r->there);
  td_free(r);
  td_kernel_done(c, s);
}

static void come_back(returning *r) {
  td_device *d = r->pop->kernel->device;
  td_kernel_transfer(r->pop, &r->there, d->memory, &r->pop->out[0], back, r);
}

/* Takes the share of `l`. */
static void take_out(td_leaving *l, td_kernel_ctx *c) {
  if (becomes(l, TAKEN)) {
    c->out[0] = l->here;
    l->here = (td_tensor){0};
    release(l);
    td_kernel_done(c, NULL);
    return;
  }
  returning *r = td_calloc(1, sizeof *r);
  if (r) {
    r->pop = c;
    td_tensor_retain(&l->there, &r->there);
  }
  release(l);
  if (!r)
    td_kernel_done(c, td_oom());
  else if (!is_above(c->kernel->device, WAIT_FROM) || !waits_for_room(r))
    come_back(r);
}

static void forget(td_device *d, td_aside *a) {
  count(d, -(int64_t)a->counted);
  a->counted = 0;
}

void td_aside_take(td_device *d, td_aside *a, td_kernel_ctx *c) {
  forget(d, a);
  if (a->out) {
    take_out(a->out, c);
    return;
  }
  c->out[0] = a->here;
  td_kernel_done(c, NULL);
}

void td_aside_drop(td_device *d, td_aside *a) {
  forget(d, a);
  if (a->out)
    release(a->out);
  else
    td_tensor_release(&a->here);
}
