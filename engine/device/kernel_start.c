/* kernel_start.c - a kernel's way: locks, device, done.
 *
 * Locks are taken in order of address, so that no two kernels wait for each
 * other. The usual case, all free and the kernel run here, needs no memory.
 * Otherwise a `wait` stands in for the executor's `done` until the locks are
 * let go again; where one is held elsewhere it is queued and the pool takes the
 * kernel up later.
 *
 * A cancel may come at any time from any thread. What it needs to know, the
 * `wait` and whether `start` was entered, is one word of the context, c->wait:
 * a pointer with three flags in its low bits, one of them a spin lock. It is
 * held for a few instructions, and over queueing in a lock, so that a cancel
 * sees a waiter either not yet or queued.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>

#include "engine/base/cpu.h"
#include "engine/base/mem.h"
#include "engine/device/kernel_start.h"
#include "engine/device/resource.h"

enum { MAX_LOCKS = TD_COUNT(((td_kernel *)0)->lock_in) };
enum { GUARD = 1, CANCELLED = 2, STARTED = TD_KERNEL_STARTED, FLAGS = 7 };

/* Distinct resources by address. */
typedef struct locks {
  td_resource *at[MAX_LOCKS]; /* borrowed: the inputs hold them */
  bool exclusive[MAX_LOCKS];
  int n;
} locks;

typedef struct td_kernel_wait {
  td_lock_waiter waiter; /* first: the pool hands its task back */
  td_kernel_ctx *ctx;
  void (*done)(td_kernel_ctx *c, td_status *s); /* the executor's */
  locks locks;
  int held;        /* so many of them, from the first on */
  bool queued;     /* in locks.at[held]; under the guard */
  bool left;       /* the pool's task is still to come and uses it, too */
  int32_t claimed; /* atomic: somebody goes on, or ends, with the lock that was
                      waited for: the pool's task or a cancel */
  int32_t dropped; /* atomic: of a `left` one, by the first of both users */
} td_kernel_wait;

/* ---- the word ------------------------------------------------------------ */

static td_kernel_wait *with_flags(td_kernel_wait *w, uintptr_t flags) {
  return (td_kernel_wait *)((uintptr_t)w | flags);
}

static td_kernel_wait *without_flags(td_kernel_wait *w, uintptr_t flags) {
  return (td_kernel_wait *)((uintptr_t)w & ~flags);
}

static bool has_flag(td_kernel_wait *w, uintptr_t flag) {
  return (uintptr_t)w & flag;
}

/* Returns the word without the guard. */
static td_kernel_wait *enter(td_kernel_ctx *c) {
  td_kernel_wait *w = __atomic_load_n(&c->wait, __ATOMIC_RELAXED);
  for (unsigned spins = 1;; spins++) {
    w = without_flags(w, GUARD);
    if (__atomic_compare_exchange_n(&c->wait, &w, with_flags(w, GUARD), true,
                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return w;
    if (spins % 64)
      __builtin_ia32_pause();
    else
      sched_yield(); /* its holder may have lost the processor */
  }
}

static void leave(td_kernel_ctx *c, td_kernel_wait *w) {
  __atomic_store_n(&c->wait, w, __ATOMIC_RELEASE);
}

static td_status *cancelled(void) {
  return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
}

/* ---- running ------------------------------------------------------------- */

td_status *td_kernel_run(td_kernel_ctx *c) {
  unsigned was = td_cpu_flush_on();
  td_status *s = c->kernel->def->run(c);
  td_cpu_flush_restore(was);
  return s;
}

static void start_async(td_kernel_ctx *c) {
  td_kernel_wait *w = enter(c);
  bool stop = has_flag(w, CANCELLED);
  leave(c, stop ? w : with_flags(w, STARTED));
  if (stop)
    td_kernel_done(c, cancelled());
  else
    c->kernel->def->start(c);
}

/* All locks are held; ends in c->done. */
static void go(td_kernel_ctx *c) {
  const td_kernel *k = c->kernel;
  if (k->starts)
    start_async(c);
  else if (k->launched)
    k->device->launch(k->device, c);
  else
    td_kernel_done(c, td_kernel_run(c));
}

/* ---- locks --------------------------------------------------------------- */

static td_status *no_handle(const td_kernel_ctx *c, int input) {
  const td_tensor *t = td_in(c, input);
  const td_arg *arg = td_node_in_arg(c->kernel->node, input);
  td_object *o = t->dtype == TD_RESOURCE ? td_tensor_get_object(t) : NULL;
  td_shape_text shape;
  if (o)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be the handle of a variable or the like, not of a "
                    "%s",
                    arg ? arg->name : "an input", o->type);
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be the handle of a resource, not %s %s",
                  arg ? arg->name : "an input", td_dtype_name(t->dtype),
                  td_tensor_valid(t) ? td_shape_str(&t->shape, &shape) : "");
}

static void insert(locks *l, td_resource *r, bool exclusive) {
  int i = l->n;
  while (i > 0 && l->at[i - 1] > r) i--;
  if (i < l->n && l->at[i] == r) {
    l->exclusive[i] |= exclusive;
    return;
  }
  if (i > 0 && l->at[i - 1] == r) {
    l->exclusive[i - 1] |= exclusive;
    return;
  }
  for (int k = l->n++; k > i; k--) {
    l->at[k] = l->at[k - 1];
    l->exclusive[k] = l->exclusive[k - 1];
  }
  l->at[i] = r;
  l->exclusive[i] = exclusive;
}

static td_status *collect(const td_kernel_ctx *c, locks *l) {
  const td_kernel *k = c->kernel;
  l->n = 0;
  for (int i = 0; i < k->n_locks; i++) {
    const td_tensor *t = td_in(c, k->lock_in[i]);
    td_object *o = t->dtype == TD_RESOURCE ? td_tensor_get_object(t) : NULL;
    if (!o || !o->named) return no_handle(c, k->lock_in[i]);
    insert(l, (td_resource *)o, k->lock_exclusive >> i & 1);
  }
  return NULL;
}

/* How many could be had at once, from the first on. */
static int try_all(const locks *l) {
  int i = 0;
  while (i < l->n && td_lock_try(&l->at[i]->lock, l->exclusive[i])) i++;
  return i;
}

static void release(const locks *l, int held) {
  while (held-- > 0) td_lock_release(&l->at[held]->lock, l->exclusive[held]);
}

/* ---- waiting ------------------------------------------------------------- */

/* Of two that use a wait which was left, the last frees it. */
static void drop(td_kernel_wait *wait) {
  if (__atomic_exchange_n(&wait->dropped, 1, __ATOMIC_ACQ_REL)) td_free(wait);
}

/* Stands for the executor's done. The locks go first: whoever waits for them
 * need not wait for what follows this kernel. */
static void done_with_locks(td_kernel_ctx *c, td_status *s) {
  td_kernel_wait *w = enter(c), *wait = without_flags(w, FLAGS);
  leave(c, (td_kernel_wait *)((uintptr_t)w & FLAGS));
  release(&wait->locks, wait->held);
  c->done = wait->done;
  if (wait->left)
    drop(wait);
  else
    td_free(wait);
  c->done(c, s);
}

/* True when lock `held` is held now; false when queued or cancelled. */
static bool take_next(td_kernel_wait *wait, bool *stop) {
  td_kernel_ctx *c = wait->ctx;
  td_kernel_wait *w = enter(c);
  int i = wait->held;
  bool got = false;
  *stop = has_flag(w, CANCELLED);
  if (!*stop) {
    wait->claimed = 0;
    wait->queued = true; /* before others can see it queued */
    got = td_lock_acquire(&wait->locks.at[i]->lock, wait->locks.exclusive[i],
                          &wait->waiter);
    if (got) {
      wait->queued = false;
      wait->held++;
    }
  }
  leave(c, w); /* from here on a queued `wait` may be gone */
  return got;
}

static void take_rest(td_kernel_wait *wait) {
  td_kernel_ctx *c = wait->ctx;
  bool stop = false;
  while (wait->held < wait->locks.n)
    if (!take_next(wait, &stop)) {
      if (stop) td_kernel_done(c, cancelled());
      return;
    }
  if (td_stopped(c)) /* an update that has not begun */
    td_kernel_done(c, cancelled());
  else
    go(c);
}

static bool claim(td_kernel_wait *wait) {
  return !__atomic_exchange_n(&wait->claimed, 1, __ATOMIC_ACQ_REL);
}

/* On a thread of the pool: the lock waited for is held. */
static void resume(td_task *task) {
  td_kernel_wait *wait = (td_kernel_wait *)task;
  if (!claim(wait)) { /* a cancel was quicker: the kernel may be gone */
    drop(wait);
    return;
  }
  td_kernel_wait *w = enter(wait->ctx);
  wait->queued = false;
  wait->held++;
  leave(wait->ctx, w);
  take_rest(wait);
}

/* NULL when there is no memory. */
static td_kernel_wait *wait_new(td_kernel_ctx *c, const locks *l, int held) {
  td_kernel_wait *wait = td_malloc(sizeof *wait);
  if (!wait) return NULL;
  *wait = (td_kernel_wait){.waiter.task.run = resume,
                           .ctx = c,
                           .done = c->done,
                           .locks = *l,
                           .held = held};
  c->done = done_with_locks;
  td_kernel_wait *w = enter(c);
  leave(c, with_flags(wait, (uintptr_t)w & FLAGS));
  return wait;
}

static void start_locked(td_kernel_ctx *c) {
  locks l;
  td_status *s = collect(c, &l);
  if (TD_UNLIKELY(!td_ok(s))) {
    td_kernel_done(c, s);
    return;
  }
  int held = try_all(&l);
  bool here = !c->kernel->starts && !c->kernel->launched;
  if (TD_LIKELY(held == l.n && here)) {
    s = td_stopped(c) ? cancelled() : td_kernel_run(c);
    release(&l, held);
    td_kernel_done(c, s);
    return;
  }
  td_kernel_wait *wait = wait_new(c, &l, held);
  if (wait) {
    take_rest(wait);
  } else {
    release(&l, held);
    td_kernel_done(c, td_oom());
  }
}

/* ---- the interface ------------------------------------------------------- */

void td_kernel_start(td_kernel_ctx *c) {
  if (c->kernel->n_locks > 0)
    start_locked(c);
  else
    go(c);
}

/* Takes a queued kernel out of its wait. Where the lock has just become its own
 * the pool's task is on its way, and may be for long: it is left behind. */
static bool take_out(td_kernel_wait *wait) {
  bool out = td_lock_forget(&wait->locks.at[wait->held]->lock, &wait->waiter);
  if (!out && claim(wait)) {
    wait->held++;
    out = wait->left = true;
  }
  if (out) wait->queued = false;
  return out;
}

void td_kernel_cancel(td_kernel_ctx *c) {
  td_kernel_wait *w = enter(c), *wait = without_flags(w, FLAGS);
  bool again = has_flag(w, CANCELLED);
  bool ends = !again && wait && wait->queued && take_out(wait);
  leave(c, with_flags(w, CANCELLED));
  if (ends)
    td_kernel_done(c, cancelled());
  else if (!again && has_flag(w, STARTED))
    c->kernel->def->cancel(c);
}

/* The inputs hold the resource as long as the kernel is not done; its name
 * never changes. */
void td_kernel_why(td_kernel_ctx *c, td_str *out) {
  const td_kernel *k = c->kernel;
  td_kernel_wait *w = enter(c), *wait = without_flags(w, FLAGS);
  const td_resource *r =
      wait && wait->queued ? wait->locks.at[wait->held] : NULL;
  bool parked = wait && wait->held < wait->locks.n;
  leave(c, w);
  if (r)
    td_str_addf(out, "the lock of %s \"%s\"", r->object.type,
                r->name ? r->name : "");
  else if (parked)
    return; /* it goes on at this moment */
  else if (k->launched)
    td_str_addf(out, "%s to run it", k->device->name);
  else if (k->def->why && has_flag(w, STARTED))
    k->def->why(c, out);
}
