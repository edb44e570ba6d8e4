/* device_test.c - TEST:k: a CPU that behaves like an accelerator.
 *
 * It proves on a CPU what CUDA needs of the engine: memory that host code must
 * not touch, two streams for kernels and one for copies, each a thread that
 * comes late by a random time, and failures when a test asks for one.
 *
 * The kernels are the CPU's. One whose outputs can be told from its inputs'
 * shapes, and that neither keeps nor shares anything, is *promised*: its
 * outputs are made when it is enqueued, `done` is called, and the stream fills
 * them later. Any other runs when all that was enqueued before it is complete,
 * and is `done` when it is complete itself. So is every kernel while a stream
 * has much to do: whoever enqueues without end is slowed down, without a thread
 * that waits. And so is one for whose outputs there is no memory: when all else
 * is complete there may be.
 *
 * Promised work does not hold the blocks of its own stream: these cannot be
 * given to anyone before it has run. So it must not count on their buffers, and
 * sees stand-ins that are read-only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/alloc.h"
#include "engine/device/device_test_impl.h"
#include "engine/device/kernel_start.h"

enum { BACKLOG = 256 /* work on a stream */, MOST_TRIES = 100 };

typedef struct test_device {
  td_device base; /* first */
  td_test_streams *streams;
  uint64_t seed;
  td_device_test_faults faults;
} test_device;

/* A kernel in a queue. Promised: `ctx` is its own, and its tensors lie behind,
 * with a buffer each: in, out, promised. */
typedef struct queued_kernel {
  td_test_job base; /* first */
  test_device *device;
  td_kernel_ctx *late; /* the executor's, whose `done` is still to come */
  int tries;           /* of a late one that found no memory */
  td_kernel_ctx ctx;
  td_buffer *stand_in; /* n_in, then n_out of them */
  td_tensor *promised;
} queued_kernel;

typedef struct queued_copy {
  td_test_job base; /* first */
  test_device *device;
  td_tensor from, to; /* held */
  td_copied copied;
  void *arg;
} queued_copy;

static td_status *asked_for(const test_device *d, const char *what) {
  return td_error(TD_UNAVAILABLE, "%s failed on %s, as a test asked for", what,
                  d->base.name);
}

static bool is_here(const test_device *d, const td_tensor *t) {
  return t->buffer && t->buffer->allocator == d->base.memory;
}

static void change_all(const test_device *d, td_tensor *t, int n,
                       void *(*change)(void *p)) {
  for (int i = 0; i < n; i++)
    if (is_here(d, &t[i])) t[i].data = change(t[i].data);
}

/* Some stream, the same for a node each time. */
static int stream_of(const test_device *d, const td_node *n) {
  uint64_t h = ((uint64_t)n->id + d->seed) * 0x9e3779b97f4a7c15u;
  return (int)(h >> 40) % TD_TEST_COMPUTE;
}

/* ---- kernels that are done when they are complete ------------------------ */

static void run_late(td_test_job *j);

static void enqueue_late(queued_kernel *k) {
  test_device *d = k->device;
  td_kernel_ctx *c = k->late;
  k->base = (td_test_job){.run = run_late};
  pthread_mutex_lock(&d->streams->mutex);
  for (int i = 0; i < c->n_in; i++)
    if (is_here(d, &c->in[i])) td_test_memory_keep(c->in[i].buffer->data);
  k->base.after = td_test_everything(d->streams);
  td_test_push(d->streams, stream_of(d, c->kernel->node), &k->base);
  pthread_mutex_unlock(&d->streams->mutex);
}

/* As if it had not run: it neither keeps anything nor has used up an input. */
static bool is_untouched(const td_kernel_ctx *c) {
  const td_kernel *k = c->kernel;
  if (k->n_locks > 0 || k->def->make || k->node->op->flags & TD_STATEFUL)
    return false;
  for (int i = 0; i < c->n_in; i++)
    if (!c->in[i].buffer) return false;
  for (int i = 0; i < c->n_out; i++)
    if (td_tensor_valid(&c->out[i])) return false;
  return true;
}

/* Does work beside this piece go on, which may give memory back? */
static bool others_work(const test_device *d) {
  uint64_t n = 0;
  pthread_mutex_lock(&d->streams->mutex);
  for (int i = 0; i < TD_TEST_STREAMS; i++)
    n += d->streams->stream[i].enqueued - d->streams->stream[i].complete;
  pthread_mutex_unlock(&d->streams->mutex);
  return n > 1;
}

/* What found no memory is tried again behind what was enqueued meanwhile, such
 * as the copies of tensors that are swapped out. */
static bool try_again(queued_kernel *k, td_status *s) {
  if (td_ok(s) || td_status_code(s) != TD_RESOURCE_EXHAUSTED ||
      k->tries == MOST_TRIES || !is_untouched(k->late) ||
      !others_work(k->device))
    return false;
  td_status_release(s);
  k->tries++;
  enqueue_late(k);
  return true;
}

static void run_late(td_test_job *j) {
  queued_kernel *k = (queued_kernel *)j;
  test_device *d = k->device;
  td_kernel_ctx *c = k->late;
  td_status *s = NULL;
  change_all(d, c->in, c->n_in, td_test_untag);
  if (td_stopped(c))
    s = td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
  if (td_ok(s)) s = td_kernel_run(c);
  if (td_ok(s) && !td_fault_try(&d->faults.complete))
    s = asked_for(d, "a kernel");
  change_all(d, c->in, c->n_in, td_test_tag);
  change_all(d, c->out, c->n_out, td_test_tag);
  if (try_again(k, s)) return;
  td_free(k);
  td_kernel_done(c, s);
}

static void launch_late(test_device *d, td_kernel_ctx *c) {
  queued_kernel *k = td_calloc(1, sizeof *k);
  if (!k) {
    td_kernel_done(c, td_oom());
    return;
  }
  k->device = d;
  k->late = c;
  td_test_count(&d->streams->counts.whole);
  enqueue_late(k);
}

/* ---- promised kernels ---------------------------------------------------- */

/* Whatever waits, keeps something or has results for the host is done only when
 * it is complete. */
static bool may_promise(const td_kernel_ctx *c) {
  const td_kernel *k = c->kernel;
  if (k->n_locks > 0 || k->def->make || c->n_out == 0 || c->dead ||
      k->def->flags & TD_KERNEL_DEAD || k->node->op->flags & TD_STATEFUL)
    return false;
  for (int i = 0; i < c->n_in; i++)
    if (!td_dtype_is_plain(c->in[i].dtype)) return false;
  for (int i = 0; i < c->n_out; i++)
    if (k->out_host[i]) return false;
  return true;
}

static bool is_busy(const test_device *d, const td_node *n) {
  const td_test_stream *s = &d->streams->stream[stream_of(d, n)];
  pthread_mutex_lock(&d->streams->mutex);
  bool busy = s->enqueued - s->complete >= BACKLOG;
  pthread_mutex_unlock(&d->streams->mutex);
  return busy;
}

static void free_job(queued_kernel *k) {
  if (k) td_free(k->promised);
  td_free(k);
}

static queued_kernel *new_job(test_device *d, const td_kernel_ctx *c) {
  size_t in = (size_t)c->n_in, out = (size_t)c->n_out, n = in + 2 * out;
  queued_kernel *k = td_calloc(1, sizeof *k);
  char *room =
      td_calloc(1, n * sizeof(td_tensor) + (in + out) * sizeof(td_buffer));
  if (!k || !room) {
    td_free(k);
    td_free(room);
    return NULL;
  }
  k->device = d;
  k->promised = (td_tensor *)room;
  k->stand_in = (td_buffer *)(room + n * sizeof(td_tensor));
  k->ctx = (td_kernel_ctx){.kernel = c->kernel,
                           .step = c->step,
                           .in = k->promised + out + out,
                           .out = k->promised + out,
                           .n_in = c->n_in,
                           .n_out = c->n_out,
                           .frame = c->frame,
                           .iteration = c->iteration,
                           .promised = k->promised};
  return k;
}

/* Nobody can share it, and nobody writes over it. */
static void stand_in(td_tensor *t, td_buffer *b) {
  *b = (td_buffer){.refs = 1,
                   .readonly = true,
                   .size = t->buffer->size,
                   .data = t->buffer->data,
                   .allocator = t->buffer->allocator,
                   .stamp = t->buffer->stamp};
  t->buffer = b;
}

static bool make_outputs(td_kernel_ctx *c, int stream) {
  td_result few[4], *shape = few;
  const td_node *n = c->kernel->node;
  td_allocator *memory = c->kernel->device->memory;
  if (c->n_out > 4) shape = td_malloc((size_t)c->n_out * sizeof *shape);
  if (!shape) return false;
  td_status *s = td_infer_shapes(n, c->in, shape);
  bool ok = td_ok(s);
  td_test_memory_for(memory, stream);
  for (int i = 0; ok && i < c->n_out; i++) {
    ok = td_shape_known(&shape[i].shape) && td_dtype_is_plain(shape[i].dtype);
    if (!ok) break;
    s = td_tensor_new(memory, shape[i].dtype, &shape[i].shape, &c->out[i]);
    ok = td_ok(s);
    if (ok) td_kernel_owns(c->kernel, &c->out[i]);
  }
  td_test_memory_for(memory, TD_TEST_NONE);
  td_status_release(s);
  if (shape != few) td_free(shape);
  for (int i = 0; !ok && i < c->n_out; i++) td_tensor_release(&c->out[i]);
  return ok;
}

/* Blocks that stay are used without a hold. Under the mutex. `number`: what k
 * will be on its stream. */
static void take_inputs(queued_kernel *k, const td_kernel_ctx *c, int stream,
                        uint64_t number) {
  for (int i = 0; i < c->n_in; i++) {
    td_tensor *t = &k->ctx.in[i];
    *t = c->in[i];
    if (!is_here(k->device, t)) {
      td_buffer_retain(t->buffer);
      continue;
    }
    td_test_after_add(&k->base.after, t->buffer->event);
    if (!td_test_memory_stays(t->buffer->data, stream)) {
      td_buffer_retain(t->buffer);
      continue;
    }
    stand_in(t, &k->stand_in[i]);
    td_test_memory_used(t->buffer->data, number);
  }
}

static void promise(queued_kernel *k, const td_kernel_ctx *c) {
  for (int i = 0; i < c->n_out; i++) {
    k->promised[i] = c->out[i];
    stand_in(&k->promised[i], &k->stand_in[c->n_in + i]);
    k->promised[i].data = td_test_untag(k->promised[i].data);
  }
}

static td_status *check_promised(const td_kernel_ctx *c) {
  for (int i = 0; i < c->n_out; i++)
    if (c->out[i].dtype != c->promised[i].dtype ||
        !td_shape_equal(&c->out[i].shape, &c->promised[i].shape))
      return td_error(TD_INTERNAL,
                      "output %d is not as inferred from the inputs", i);
  return NULL;
}

/* The step is not over: its execution settles the device first. */
static void fail(const td_kernel_ctx *c, td_status *s) {
  s = td_node_blame(s, c->kernel->node);
  td_step_fail(c->step,
               td_status_at(s, NULL, NULL, NULL, c->kernel->device->name));
}

static void run_promised(td_test_job *j) {
  queued_kernel *k = (queued_kernel *)j;
  test_device *d = k->device;
  td_kernel_ctx *c = &k->ctx;
  td_status *s = NULL;
  for (int i = 0; i < c->n_out; i++)
    td_test_poison(k->promised[i].data, td_tensor_bytes(&k->promised[i]));
  change_all(d, c->in, c->n_in, td_test_untag);
  if (!td_stopped(c)) {
    s = td_kernel_run(c);
    if (td_ok(s)) s = check_promised(c);
    if (td_ok(s) && !td_fault_try(&d->faults.complete))
      s = asked_for(d, "a kernel");
  }
  if (!td_ok(s)) fail(c, s);
  for (int i = 0; i < c->n_in; i++)
    if (c->in[i].buffer != &k->stand_in[i]) td_buffer_release(c->in[i].buffer);
  free_job(k);
}

/* False when it cannot be promised: nothing has happened then. */
static bool launch_promised(test_device *d, td_kernel_ctx *c) {
  int stream = stream_of(d, c->kernel->node);
  queued_kernel *k = new_job(d, c);
  if (!k) return false;
  if (!make_outputs(c, stream)) {
    free_job(k);
    return false;
  }
  k->base.run = run_promised;
  promise(k, c);
  td_test_count(&d->streams->counts.promised);
  pthread_mutex_lock(&d->streams->mutex);
  uint64_t number = d->streams->stream[stream].enqueued + 1;
  take_inputs(k, c, stream, number);
  td_test_push(d->streams, stream, &k->base);
  for (int i = 0; i < c->n_out; i++) {
    c->out[i].buffer->event = td_test_event(stream, number);
    td_test_memory_used(c->out[i].buffer->data, number);
  }
  pthread_mutex_unlock(&d->streams->mutex);
  td_kernel_done(c, NULL);
  return true;
}

static void launch(td_device *base, td_kernel_ctx *c) {
  test_device *d = (test_device *)base;
  if (!td_fault_try(&d->faults.enqueue))
    td_kernel_done(c, asked_for(d, "enqueueing"));
  else if (!may_promise(c) || is_busy(d, c->kernel->node) ||
           !launch_promised(d, c))
    launch_late(d, c);
}

/* ---- copies -------------------------------------------------------------- */

static td_status *run_copy_now(test_device *d, const td_tensor *from,
                               const td_tensor *to) {
  size_t bytes = td_tensor_bytes(from);
  if (!td_fault_try(&d->faults.copy)) return asked_for(d, "a copy");
  if (bytes) memcpy(td_test_untag(to->data), td_test_untag(from->data), bytes);
  return NULL;
}

static void run_copy(td_test_job *j) {
  queued_copy *k = (queued_copy *)j;
  td_status *s = run_copy_now(k->device, &k->from, &k->to);
  td_copied copied = k->copied;
  void *arg = k->arg;
  td_tensor_release(&k->from);
  td_tensor_release(&k->to);
  td_free(k);
  copied(arg, s);
}

static uint64_t event_of(const td_tensor *t) {
  td_test_streams *of = td_test_memory_streams(t->buffer->allocator);
  pthread_mutex_lock(&of->mutex);
  uint64_t event = t->buffer->event;
  pthread_mutex_unlock(&of->mutex);
  return event;
}

/* `after`: of this device, `peer_after`: of the device that `from` is on. */
static void copy_from(test_device *d, const td_tensor *from, td_tensor *to,
                      td_copied copied, void *arg, bool peer) {
  queued_copy *k = td_calloc(1, sizeof *k);
  if (!k) {
    copied(arg, td_oom());
    return;
  }
  k->base.run = run_copy;
  k->device = d;
  k->copied = copied;
  k->arg = arg;
  td_tensor_retain(from, &k->from);
  td_tensor_retain(to, &k->to);
  if (peer) {
    k->base.peer = td_test_memory_streams(from->buffer->allocator);
    td_test_after_add(&k->base.peer_after, event_of(from));
    td_test_count(&d->streams->counts.peers);
  }
  pthread_mutex_lock(&d->streams->mutex);
  if (is_here(d, from)) td_test_after_add(&k->base.after, from->buffer->event);
  if (is_here(d, to)) td_test_after_add(&k->base.after, to->buffer->event);
  td_test_push(d->streams, TD_TEST_COPY, &k->base);
  pthread_mutex_unlock(&d->streams->mutex);
}

static void copy(td_device *d, const td_tensor *from, td_tensor *to,
                 td_copied copied, void *arg) {
  copy_from((test_device *)d, from, to, copied, arg, false);
}

static void copy_peer(td_device *d, const td_tensor *from, td_tensor *to,
                      td_copied copied, void *arg) {
  copy_from((test_device *)d, from, to, copied, arg, true);
}

static bool is_peer(const td_device *d, const td_allocator *a) {
  return a != d->memory && td_test_is_memory(a);
}

/* On a stream's thread, by the kernel that it runs. */
static td_status *copy_inside(td_device *d, const td_tensor *from,
                              td_tensor *to) {
  return run_copy_now((test_device *)d, from, to);
}

/* ---- life ---------------------------------------------------------------- */

static void *map(td_device *d, void *p) {
  (void)d;
  return td_test_untag(p);
}

static bool settle(td_device *d, td_settling *w) {
  return td_test_settle(((test_device *)d)->streams, w);
}

static void destroy(void *arg) {
  test_device *d = arg;
  if (d->base.memory)
    td_test_memory_release(d->base.memory); /* and the streams */
  else
    td_test_streams_free(d->streams);
  td_alloc_release(d->base.host);
  td_device_forget(&d->base);
  td_free(d);
}

/* The last reference may go on one of the device's own threads, when a kernel's
 * `done` ends the program: the last of them then cleans up behind itself. */
static void test_free(td_device *base) {
  test_device *d = (test_device *)base;
  if (!d->streams || td_test_streams_end(d->streams, destroy, d)) destroy(d);
}

static td_status *init(test_device *d, const char *place, int index,
                       td_alloc_budget *budget) {
  if (!budget) budget = td_alloc_budget_process();
  td_alloc_options options = {.budget = budget};
  TD_TRY(td_device_describe(&d->base, place, "TEST", index));
  options.name = d->base.name;
  TD_TRY(td_alloc_new(&options, &d->base.host));
  TD_TRY(td_test_streams_new(d->seed, index, &d->streams));
  TD_TRY(td_test_memory_new(d->base.name, d->streams, &d->base.memory));
  return td_test_streams_start(d->streams);
}

td_status *td_device_test_new(const char *place, int index, uint64_t seed,
                              td_alloc_budget *budget, td_device **out) {
  test_device *d = td_calloc(1, sizeof *d);
  if (!d) return td_oom();
  d->seed = seed;
  d->base.launch = launch;
  d->base.copy = copy;
  d->base.is_peer = is_peer;
  d->base.copy_peer = copy_peer;
  d->base.copy_inside = copy_inside;
  d->base.settle = settle;
  d->base.map = map;
  d->base.free = test_free;
  td_status *s = init(d, place, index, budget);
  if (!td_ok(s)) {
    test_free(&d->base);
    return s;
  }
  *out = &d->base;
  return NULL;
}

/* ---- what tests ask ------------------------------------------------------ */

td_device_test_faults *td_device_test_doors(td_device *d) {
  return &((test_device *)d)->faults;
}

void td_device_test_delay(td_device *d, int64_t most) {
  __atomic_store_n(&((test_device *)d)->streams->delay, most, __ATOMIC_RELAXED);
}

static int64_t read_count(const int64_t *counter) {
  return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

td_device_test_counts td_device_test_count(td_device *d) {
  const td_device_test_counts *c = &((test_device *)d)->streams->counts;
  return (td_device_test_counts){.promised = read_count(&c->promised),
                                 .whole = read_count(&c->whole),
                                 .waits = read_count(&c->waits),
                                 .reused = read_count(&c->reused),
                                 .peers = read_count(&c->peers)};
}
