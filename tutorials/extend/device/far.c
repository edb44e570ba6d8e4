/* far.c - a library that brings a device: FAR:0, for want of an accelerator.
 *
 * It has what one has: memory of its own that host code cannot touch (a bit is
 * set in its pointers that no address has, so that who follows one crashes),
 * and a thread that runs kernels and copies in the order in which they were
 * given. Its kernels are the CPU's, run with the bit taken off.
 *
 * In Lua:  td.load_library("./far.so");  td.device("/device:FAR:0", ...)
 *
 * What a real one changes: `memory` allocates on the card; the rows of its own
 * kernels have .device = "FAR", and `kernels` below names them; kernels are
 * enqueued on a stream, and `copied` is called when an event says so. The head
 * of engine/device/device.h is the contract.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/kernel_start.h"
#include "engine/run/library.h"

/* ---- memory -------------------------------------------------------------- */

#define BIT ((uintptr_t)1 << 62)

static void *near(void *p) {
  return (void *)((uintptr_t)p & ~BIT);
}

static void *far(void *p) {
  return (void *)((uintptr_t)p | BIT);
}

/* 64-byte aligned; NULL says that there is none. */
static void *memory_alloc(td_allocator *a, size_t bytes) {
  (void)a;
  if (bytes > SIZE_MAX - 128) return NULL;
  void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
  return p ? far(p) : NULL;
}

/* Buffers may outlive the device: this is called on any thread, at any time. */
static void memory_free(td_allocator *a, void *p, size_t bytes) {
  (void)a;
  (void)bytes;
  free(near(p));
}

/* A device's memory is told by its address, so each device has one. It is never
 * freed. */
enum { MOST = 4 };
#define MEMORY(n)                                                              \
  { .name = "FAR:" #n, .alloc = memory_alloc, .free = memory_free }
static td_allocator memory[MOST] = {MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3)};

/* ---- the queue ----------------------------------------------------------- */

typedef struct job {
  struct job *next;
  td_kernel_ctx *kernel; /* to run, or NULL: a copy */
  const td_tensor *from;
  td_tensor *to;
  td_copied copied;
  void *arg;
} job;

typedef struct far_device {
  td_device base; /* first: a far_device is a td_device */
  pthread_t thread;
  bool started;
  pthread_mutex_t mutex;
  pthread_cond_t work;
  job *first, *last; /* under the mutex */
  bool quit;         /* under the mutex: the thread ends when all is done */
  bool orphan;       /* under the mutex: and frees the device */
} far_device;

static bool submit(td_device *base, job what) {
  far_device *d = (far_device *)base;
  job *j = malloc(sizeof *j);
  if (!j) return false;
  *j = what;
  pthread_mutex_lock(&d->mutex);
  if (d->last)
    d->last->next = j;
  else
    d->first = j;
  d->last = j;
  pthread_cond_signal(&d->work);
  pthread_mutex_unlock(&d->mutex);
  return true;
}

/* The next job, waited for; NULL when the device ends. */
static job *take(far_device *d) {
  pthread_mutex_lock(&d->mutex);
  while (!d->first && !d->quit) pthread_cond_wait(&d->work, &d->mutex);
  job *j = d->first;
  if (j) d->first = j->next;
  if (!d->first) d->last = NULL;
  pthread_mutex_unlock(&d->mutex);
  return j;
}

/* ---- kernels and copies -------------------------------------------------- */

static void launch(td_device *d, td_kernel_ctx *c) {
  if (!submit(d, (job){.kernel = c})) td_kernel_done(c, td_oom());
}

static void copy(td_device *d, const td_tensor *from, td_tensor *to,
                 td_copied copied, void *arg) {
  job j = {.from = from, .to = to, .copied = copied, .arg = arg};
  if (!submit(d, j)) copied(arg, td_oom());
}

/* Operands in the device's memory; others stay as they are. */
static void change(const td_device *d, td_tensor *t, int n,
                   void *(*pointer)(void *p)) {
  for (int i = 0; i < n; i++)
    if (t[i].buffer && t[i].buffer->allocator == d->memory)
      t[i].data = pointer(t[i].data);
}

static void run_kernel(td_device *d, td_kernel_ctx *c) {
  change(d, c->in, c->n_in, near);
  td_status *s = td_kernel_run(c); /* makes its outputs where `map` says */
  change(d, c->in, c->n_in, far);
  change(d, c->out, c->n_out, far);
  td_kernel_done(c, s);
}

static void run_copy(const job *j) {
  size_t bytes = td_tensor_bytes(j->from);
  if (bytes) memcpy(near(j->to->data), near(j->from->data), bytes);
  j->copied(j->arg, NULL);
}

static void *map(td_device *d, void *p) {
  (void)d;
  return near(p);
}

static void destroy(far_device *d) {
  pthread_mutex_destroy(&d->mutex);
  pthread_cond_destroy(&d->work);
  td_device_forget(&d->base);
  free(d);
}

static void *run(void *arg) {
  far_device *d = arg;
  for (job *j; (j = take(d)); free(j)) {
    if (j->kernel)
      run_kernel(&d->base, j->kernel);
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

/* The last share may go on the device's own thread, which a kernel's `done` ran
 * on: then the thread cleans up behind itself. */
static void free_far(td_device *base) {
  far_device *d = (far_device *)base;
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

static td_status *start(far_device *d) {
  d->started = pthread_create(&d->thread, NULL, run, d) == 0;
  if (d->started) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED, "no thread for %s", d->base.name);
}

static td_status *make(int index, const char *place, const td_device_options *o,
                       td_device **out) {
  (void)o;
  far_device *d = calloc(1, sizeof *d);
  if (!d) return td_oom();
  pthread_mutex_init(&d->mutex, NULL);
  pthread_cond_init(&d->work, NULL);
  td_status *s = td_device_describe(&d->base, place, "FAR", index);
  d->base.kernels = "CPU"; /* whose rows: "FAR" if it had kernels of its own */
  d->base.memory = &memory[index];
  d->base.host = td_allocator_host();
  d->base.launch = launch;
  d->base.copy = copy;
  d->base.map = map;
  d->base.free = free_far;
  if (td_ok(s)) s = start(d);
  if (!td_ok(s)) {
    free_far(&d->base);
    return s;
  }
  *out = &d->base;
  return NULL;
}

/* As many as FAR_DEVICES says, one if it says nothing. */
static td_status *count(int *out) {
  const char *text = getenv("FAR_DEVICES");
  int n = text ? atoi(text) : 1;
  *out = n < 0 ? 0 : n > MOST ? MOST : n;
  return NULL;
}

/* ---- the library --------------------------------------------------------- */

static const td_device_factory factory = {
    .type = "FAR", .count = count, .make = make};
static const td_device_factory *const devices[] = {&factory, NULL};

extern const td_library td_library_record __asm__("td_library");
const td_library td_library_record = {
    .abi = TD_ABI,
    .sizes = TD_ABI_SIZES,
    .name = "far",
    .registry = td_modules,
    .devices = devices,
};
