/* device_test.c - TEST:k: a CPU that behaves like an accelerator.
 *
 * It proves on a CPU what CUDA needs of the engine. Its memory is host memory
 * whose pointers carry a bit no address has: code that follows one without
 * being asked to faults at once. Kernels and copies go through one queue to one
 * thread, which waits for a random time before each, so that whoever forgets to
 * wait for a result is caught. The kernels are the CPU's, run with the bit
 * taken off their operands.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/base/philox.h"
#include "engine/base/thread.h"
#include "engine/device/alloc.h"
#include "engine/device/device_impl.h"
#include "engine/device/kernel_start.h"

#define TAG ((uintptr_t)1 << 62)

enum { MAX_DELAY = 200 * 1000 }; /* ns */

/* ---- memory -------------------------------------------------------------- */

/* Before each block. The list is for leak checkers, which do not know a tagged
 * pointer for one. */
typedef struct head {
  struct head *prev, *next;
} head;

enum { HEAD = 64 }; /* keeps the block aligned */

/* Ends with the device and the last of its blocks. */
typedef struct tagged {
  td_allocator base;
  td_allocator *under;
  int64_t holds; /* atomic: blocks, and the device */
  pthread_mutex_t mutex;
  head *blocks; /* under the mutex */
} tagged;

static void *tag(void *p) {
  return (void *)((uintptr_t)p | TAG);
}

static void *untag(void *p) {
  return (void *)((uintptr_t)p & ~TAG);
}

static void drop_tagged(tagged *m) {
  if (__atomic_sub_fetch(&m->holds, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_alloc_release(m->under);
  pthread_mutex_destroy(&m->mutex);
  td_free((void *)m->base.name);
  td_free(m);
}

static void *tagged_alloc(td_allocator *a, size_t bytes) {
  tagged *m = (tagged *)a;
  size_t with_head;
  if (!td_add(bytes, HEAD, &with_head)) return NULL;
  head *h = m->under->alloc(m->under, with_head);
  if (!h) return NULL;
  __atomic_fetch_add(&m->holds, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&m->mutex);
  *h = (head){.next = m->blocks};
  if (h->next) h->next->prev = h;
  m->blocks = h;
  pthread_mutex_unlock(&m->mutex);
  return tag((char *)h + HEAD);
}

static void tagged_free(td_allocator *a, void *p, size_t bytes) {
  tagged *m = (tagged *)a;
  head *h = (head *)((char *)untag(p) - HEAD);
  pthread_mutex_lock(&m->mutex);
  *(h->prev ? &h->prev->next : &m->blocks) = h->next;
  if (h->next) h->next->prev = h->prev;
  pthread_mutex_unlock(&m->mutex);
  m->under->free(m->under, h, bytes + HEAD);
  drop_tagged(m);
}

static td_status *tagged_refusal(td_allocator *a, size_t bytes) {
  td_allocator *under = ((tagged *)a)->under;
  return under->refusal ? under->refusal(under, bytes) : NULL;
}

static td_status *tagged_new(const char *name, td_allocator **out) {
  td_alloc_options options = {.name = name};
  tagged *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->base.name = td_strdup(name);
  td_status *s = m->base.name ? NULL : td_oom();
  if (td_ok(s)) s = td_alloc_new(&options, &m->under);
  if (!td_ok(s)) {
    td_free((void *)m->base.name);
    td_free(m);
    return s;
  }
  pthread_mutex_init(&m->mutex, NULL);
  m->base.alloc = tagged_alloc;
  m->base.free = tagged_free;
  m->base.refusal = tagged_refusal;
  m->holds = 1;
  *out = &m->base;
  return NULL;
}

/* ---- the queue ----------------------------------------------------------- */

typedef struct job {
  struct job *next;
  td_kernel_ctx *ctx; /* a kernel to run, or NULL: a copy */
  const td_tensor *from;
  td_tensor *to;
  td_copied copied;
  void *arg;
} job;

typedef struct test_device {
  td_device base; /* first */
  pthread_t thread;
  bool started; /* there is a thread */
  pthread_mutex_t mutex;
  pthread_cond_t work;
  job *first, *last; /* under the mutex */
  bool quit;         /* under the mutex */
  bool orphan;       /* under the mutex; the thread frees the device */
  td_philox random;  /* the thread's */
} test_device;

static bool submit(td_device *base, const job *what) {
  test_device *d = (test_device *)base;
  job *j = td_malloc(sizeof *j);
  if (!j) return false;
  *j = *what;
  pthread_mutex_lock(&d->mutex);
  *(d->last ? &d->last->next : &d->first) = j;
  d->last = j;
  pthread_cond_signal(&d->work);
  pthread_mutex_unlock(&d->mutex);
  return true;
}

static void launch(td_device *d, td_kernel_ctx *c) {
  if (!submit(d, &(job){.ctx = c})) td_kernel_done(c, td_oom());
}

static void copy(td_device *d, const td_tensor *from, td_tensor *to,
                 td_copied copied, void *arg) {
  job j = {.from = from, .to = to, .copied = copied, .arg = arg};
  if (!submit(d, &j)) copied(arg, td_oom());
}

static void *map(td_device *d, void *p) {
  (void)d;
  return untag(p);
}

/* ---- the thread ---------------------------------------------------------- */

static void change_all(const td_device *d, td_tensor *t, int n,
                       void *(*change)(void *p)) {
  for (int i = 0; i < n; i++)
    if (t[i].buffer && t[i].buffer->allocator == d->memory)
      t[i].data = change(t[i].data);
}

static void run_kernel(td_device *d, td_kernel_ctx *c) {
  change_all(d, c->in, c->n_in, untag);
  td_status *s = td_kernel_run(c);
  change_all(d, c->in, c->n_in, tag);
  change_all(d, c->out, c->n_out, tag);
  td_kernel_done(c, s);
}

static void run_copy(const job *j) {
  size_t bytes = td_tensor_bytes(j->from);
  if (bytes) memcpy(untag(j->to->data), untag(j->from->data), bytes);
  j->copied(j->arg, NULL);
}

static void delay(test_device *d) {
  uint32_t words[4];
  td_philox_next(&d->random, words);
  struct timespec t = {.tv_nsec = words[0] % MAX_DELAY};
  nanosleep(&t, NULL);
}

/* The next job; NULL when it is time to end. */
static job *take(test_device *d) {
  pthread_mutex_lock(&d->mutex);
  while (!d->first && !d->quit) pthread_cond_wait(&d->work, &d->mutex);
  job *j = d->first;
  if (j) d->first = j->next;
  if (!d->first) d->last = NULL;
  pthread_mutex_unlock(&d->mutex);
  return j;
}

static void destroy(test_device *d) {
  pthread_mutex_destroy(&d->mutex);
  pthread_cond_destroy(&d->work);
  if (d->base.memory) drop_tagged((tagged *)d->base.memory);
  if (d->base.host) td_alloc_release(d->base.host);
  td_device_forget(&d->base);
  td_free(d);
}

static void *work(void *arg) {
  test_device *d = arg;
  for (job *j; (j = take(d)); td_free(j)) {
    delay(d);
    if (j->ctx)
      run_kernel(&d->base, j->ctx);
    else
      run_copy(j);
  }
  pthread_mutex_lock(&d->mutex);
  bool orphan = d->orphan;
  pthread_mutex_unlock(&d->mutex);
  if (orphan) destroy(d);
  return NULL;
}

/* ---- life ---------------------------------------------------------------- */

/* The last reference may go on the device's own thread, when a kernel's `done`
 * ends the program: the thread then cleans up behind itself. */
static void test_free(td_device *base) {
  test_device *d = (test_device *)base;
  bool own = d->started && pthread_equal(d->thread, pthread_self());
  pthread_mutex_lock(&d->mutex);
  d->quit = true;
  d->orphan = own;
  pthread_cond_signal(&d->work);
  pthread_mutex_unlock(&d->mutex);
  if (own) {
    pthread_detach(d->thread);
    return;
  }
  if (d->started) pthread_join(d->thread, NULL);
  destroy(d);
}

static td_status *init_memory(test_device *d) {
  td_alloc_options options = {.name = d->base.name};
  TD_TRY(td_alloc_new(&options, &d->base.host));
  return tagged_new(d->base.name, &d->base.memory);
}

td_status *td_device_test_new(const char *place, int index, uint64_t seed,
                              td_device **out) {
  test_device *d = td_calloc(1, sizeof *d);
  if (!d) return td_oom();
  pthread_mutex_init(&d->mutex, NULL);
  pthread_cond_init(&d->work, NULL);
  td_philox_init(&d->random, seed, (uint64_t)index);
  td_status *s = td_device_describe(&d->base, place, "TEST", index);
  d->base.launch = launch;
  d->base.copy = copy;
  d->base.map = map;
  d->base.free = test_free;
  if (td_ok(s)) s = init_memory(d);
  if (td_ok(s)) {
    d->started = td_thread_start(&d->thread, "tide-test", -1, work, d);
    if (!d->started)
      s = td_error(TD_RESOURCE_EXHAUSTED, "no thread for %s", d->base.name);
  }
  if (!td_ok(s)) {
    test_free(&d->base);
    return s;
  }
  *out = &d->base;
  return NULL;
}
