/* mutex.c - MutexV2, MutexLock and ConsumeMutexLock: steps that exclude one
 * another.
 *
 * A lock is an object in a variant. It ends when it is consumed, or when nobody
 * holds it any more: a step that fails lets go of its tensors, and so of its
 * locks. Those who wait get it in the order in which they came.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/attempts.h"
#include "kernels/cost.h"
#include "kernels/handle.h"

enum { LOCK }; /* the line */

static const char type[] = "mutex";
static const char lock_type[] = "mutex lock";

typedef struct mutex {
  td_resource base;     /* first */
  td_attempts attempts; /* its mutex protects what follows */
  bool held;
  char holder[80]; /* the node that locked it; cut short */
} mutex;

static const char *name_of(const mutex *m) {
  return m->base.name ? m->base.name : "";
}

/* ---- life ---------------------------------------------------------------- */

static void mutex_free(td_object *o) {
  mutex *m = (mutex *)o;
  td_attempts_deinit(&m->attempts);
  td_resource_deinit(&m->base);
  td_free(m);
}

static td_status *was_reset(const mutex *m) {
  return td_error(TD_CANCELLED, "the container of mutex %s was reset",
                  name_of(m));
}

static void mutex_removed(td_resource *r) {
  mutex *m = (mutex *)r;
  td_status *s = was_reset(m);
  td_attempts_enter(&m->attempts);
  td_attempts_fail(&m->attempts, LOCK, s);
  td_attempts_leave(&m->attempts);
  td_status_release(s);
}

static td_status *mutex_make(const td_kernel *k, td_resource **out) {
  (void)k;
  mutex *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->base.object =
      (td_object){.refs = 1, .type = type, .free = mutex_free, .named = true};
  m->base.removed = mutex_removed;
  td_attempts_init(&m->attempts);
  *out = &m->base;
  return NULL;
}

static td_status *mutex_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {type, mutex_make, NULL};
  return td_handle_run(c, &kind);
}

static td_status *find(const td_kernel_ctx *c, mutex **out) {
  return td_handle_in(c, 0, type, "a mutex", (td_resource **)out);
}

/* ---- locks --------------------------------------------------------------- */

typedef struct lock {
  td_object object; /* first */
  mutex *of;        /* counted */
  int32_t ended;    /* atomic: it holds the mutex no more */
} lock;

/* False when it had ended before. */
static bool end_lock(lock *l) {
  if (__atomic_exchange_n(&l->ended, 1, __ATOMIC_ACQ_REL)) return false;
  td_attempts_enter(&l->of->attempts);
  l->of->held = false;
  td_attempts_leave(&l->of->attempts);
  return true;
}

static void lock_free(td_object *o) {
  lock *l = (lock *)o;
  end_lock(l);
  td_object_release(&l->of->base.object);
  td_free(l);
}

/* Of a mutex that it does not hold yet. */
static lock *lock_new(mutex *m) {
  lock *l = td_calloc(1, sizeof *l);
  if (!l) return NULL;
  td_object_retain(&m->base.object);
  l->object = (td_object){.refs = 1, .type = lock_type, .free = lock_free};
  l->of = m;
  l->ended = 1;
  return l;
}

/* ---- locking ------------------------------------------------------------- */

typedef struct locking {
  td_attempt base; /* first */
  mutex *m;        /* held by the handle */
  td_tensor lock;  /* to be handed out */
  bool waited;
} locking;

/* Whoever let go of the lock may be anywhere: the next one goes on on the
 * pool. */
static bool lock_go(td_attempt *a) {
  locking *l = (locking *)a;
  mutex *m = l->m;
  bool waited = l->waited;
  l->waited = true;
  if (__atomic_load_n(&m->base.gone, __ATOMIC_ACQUIRE)) {
    a->status = was_reset(m); /* before it could wait */
    a->over = true;
    return false;
  }
  if (m->held) return false;
  m->held = true;
  snprintf(m->holder, sizeof m->holder, "%s", td_ctx_node(a->ctx)->name);
  lock *mine = (lock *)td_tensor_get_object(&l->lock);
  __atomic_store_n(&mine->ended, 0, __ATOMIC_RELEASE);
  a->over = true;
  a->heavy = waited;
  return true;
}

static td_status *lock_finish(td_attempt *a, td_status *s) {
  locking *l = (locking *)a;
  if (td_ok(s))
    a->ctx->out[0] = l->lock;
  else
    td_tensor_release(&l->lock);
  return s;
}

static const td_attempt_kind lock_kind = {.go = lock_go, .finish = lock_finish};

static td_status *make_locking(mutex *m, locking **out) {
  locking *l = td_calloc(1, sizeof *l);
  lock *mine = l ? lock_new(m) : NULL;
  td_status *s =
      mine ? td_tensor_object(TD_VARIANT, &mine->object, &l->lock) : td_oom();
  if (!td_ok(s)) {
    td_free(l);
    return s;
  }
  l->base.kind = &lock_kind;
  l->m = m;
  *out = l;
  return NULL;
}

static void lock_start(td_kernel_ctx *c) {
  mutex *m = NULL;
  locking *l = NULL;
  td_status *s = find(c, &m);
  if (td_ok(s)) s = make_locking(m, &l);
  if (td_ok(s))
    td_attempts_start(&m->attempts, &l->base, c, LOCK);
  else
    td_kernel_done(c, s);
}

static void lock_cancel(td_kernel_ctx *c) {
  mutex *m = NULL;
  td_status *s = find(c, &m);
  if (td_ok(s)) td_attempts_cancel(&m->attempts, c);
  td_status_release(s);
}

static void lock_why(const td_kernel_ctx *c, td_str *out) {
  mutex *m = NULL;
  td_status *s = find(c, &m);
  td_status_release(s);
  if (!m) return;
  pthread_mutex_lock(&m->attempts.mutex);
  td_str_addf(out, "mutex %s", name_of(m));
  if (m->held) td_str_addf(out, ": %s holds it", m->holder);
  td_str_addf(out, ", %d wait", m->attempts.waiting[LOCK]);
  pthread_mutex_unlock(&m->attempts.mutex);
}

static td_status *consume_run(td_kernel_ctx *c) {
  td_object *o = td_tensor_get_object(td_in(c, 0));
  if (!o || o->type != lock_type)
    return td_error(TD_INVALID_ARGUMENT,
                    "mutex_lock must be what MutexLock gives%s%s",
                    o ? ", not a " : "", o ? o->type : "");
  if (end_lock((lock *)o)) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "the lock of mutex %s was consumed before",
                  name_of(((lock *)o)->of));
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .cost = td_cost_none, .shape = td_infer_scalars, .lua = "", .host = "*",     \
  .section = "Data flow: queues, stacks, arrays, accumulators",                \
  .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP

static const td_op_def ops[] = {
    {.type = "MutexV2",
     .sig = "-> resource: resource; container: string = \"\"; shared_name: "
            "string = \"\"",
     .doc = "A mutex, which one step at a time can lock.",
     SECTION},
    {.type = "MutexLock",
     .sig = "mutex: resource -> mutex_lock: variant",
     .doc = "Waits for a mutex and locks it, until the lock is consumed or "
            "dropped.",
     SECTION},
    {.type = "ConsumeMutexLock",
     .sig = "mutex_lock: variant ->",
     .doc = "Ends a lock.",
     SECTION},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE

static const td_kernel_def kernels[] = {
    {.op = "MutexV2", .run = mutex_run, CPU, TD_HANDLE_STATE},
    {.op = "MutexLock",
     .device = "CPU",
     .start = lock_start,
     .cancel = lock_cancel,
     .why = lock_why},
    {.op = "ConsumeMutexLock", .run = consume_run, CPU},
    {0},
};

TD_MODULE(mutex, ops, kernels)
