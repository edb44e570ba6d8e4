/* dnn.c - oneDNN, opened at run time, its primitives cached.
 *
 * The library runs its loops with OpenMP, which would bring a pool of its own:
 * around each call the calling thread is told to use one thread, which is a
 * setting of that thread. Primitives are made for one shape each and cost up to
 * milliseconds, so the last few hundred are kept; an evicted one lives until
 * its last user lets go. Memory objects cannot be shared between threads: each
 * run takes a set of them from its primitive, or makes one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/blas/dnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/pool.h"

enum { MAX_KEPT = 256 };
/* dnnl_types.h */
enum {
  CPU_ENGINE = 1,
  IN_ORDER = 1,
  USER_SCRATCHPAD = 1,
  QUERY_SCRATCHPAD = 136,
  OUT_OF_MEMORY = 1,
  UNIMPLEMENTED = 3,
  ISA_SSE41 = 0x1,
  ISA_AVX2 = 0x7,
};

typedef struct version {
  int major, minor, patch;
  const char *hash;
  unsigned cpu_runtime, gpu_runtime;
} version;

typedef struct exec_arg {
  int arg;
  void *memory;
} exec_arg;

/* clang-format off */
#define FUNCTIONS(F)                                                           \
  F(const version *, version, (void))                                          \
  F(int, set_max_cpu_isa, (int isa))                                           \
  F(int, engine_create, (void **engine, int kind, size_t index))               \
  F(int, stream_create, (void **stream, void *engine, unsigned flags))         \
  F(int, stream_destroy, (void *stream))                                       \
  F(int, primitive_attr_create, (void **attr))                                 \
  F(int, primitive_attr_set_scratchpad_mode, (void *attr, int mode))           \
  F(size_t, memory_desc_get_size, (const td_dnn_layout *md))                   \
  F(int, primitive_create, (void **primitive, const void *pd))                 \
  F(int, primitive_destroy, (void *primitive))                                 \
  F(int, primitive_execute, (const void *primitive, void *stream, int n,       \
                             const exec_arg *args))                            \
  F(int, memory_create, (void **memory, const td_dnn_layout *md, void *engine, \
                         void *data))                                          \
  F(int, memory_set_data_handle, (void *memory, void *data))                   \
  F(int, memory_destroy, (void *memory))
/* clang-format on */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
  void *library; /* NULL: not found, or not fit */
#define DECLARE(result, name, args) result(*name) args;
  FUNCTIONS(DECLARE)
#undef DECLARE
  int (*omp_get_max_threads)(void);
  void (*omp_set_num_threads)(int n);
  td_dnn_api api;
  void *engine, *attr;
  char about[256];
} dnn; /* set once */

/* ---- opening ------------------------------------------------------------- */

/* Where the functions of td_dnn_api are put, in its order. */
static const char *const api_names[] = {
    "dnnl_memory_desc_init_by_strides",
    "dnnl_memory_desc_init_by_tag",
    "dnnl_matmul_desc_init",
    "dnnl_dilated_convolution_forward_desc_init",
    "dnnl_dilated_convolution_backward_data_desc_init",
    "dnnl_dilated_convolution_backward_weights_desc_init",
    "dnnl_primitive_desc_create",
    "dnnl_reorder_primitive_desc_create",
    "dnnl_primitive_desc_destroy",
    "dnnl_primitive_desc_query_md",
    "dnnl_memory_desc_equal",
};
_Static_assert(sizeof(td_dnn_api) == TD_COUNT(api_names) * sizeof(void *),
               "a name for each function");

static bool load(void *library) {
  bool all = true;
#define LOAD(result, name, args)                                               \
  dnn.name = (result(*) args)dlsym(library, "dnnl_" #name);                    \
  all = all && dnn.name;
  FUNCTIONS(LOAD)
#undef LOAD
  for (size_t i = 0; i < TD_COUNT(api_names); i++) {
    void *function = dlsym(library, api_names[i]);
    memcpy((char *)&dnn.api + i * sizeof function, &function, sizeof function);
    all = all && function;
  }
  return all;
}

/* A library built without OpenMP has none of these, and needs none. */
static void load_openmp(void *library) {
  dnn.omp_get_max_threads =
      (int (*)(void))dlsym(library, "omp_get_max_threads");
  dnn.omp_set_num_threads =
      (void (*)(int))dlsym(library, "omp_set_num_threads");
}

/* NULL, or why it cannot be used. */
static const char *take(void *library) {
  enum { OPENMP = 2, SEQUENTIAL = 1 };
  if (!load(library)) return "it lacks functions of version 2";
  load_openmp(library);
  const version *v = dnn.version();
  if (v->major != 2) return "it is not of version 2";
  if (v->cpu_runtime != SEQUENTIAL &&
      (v->cpu_runtime != OPENMP || !dnn.omp_set_num_threads))
    return "it is built with threads that cannot be turned off";
  if (td_cpu_isa() < td_cpu_best()) /* TIDE_ISA: not all of the processor */
    dnn.set_max_cpu_isa(td_cpu_isa() == TD_AVX2 ? ISA_AVX2 : ISA_SSE41);
  if (dnn.engine_create(&dnn.engine, CPU_ENGINE, 0) ||
      dnn.primitive_attr_create(&dnn.attr) ||
      dnn.primitive_attr_set_scratchpad_mode(dnn.attr, USER_SCRATCHPAD))
    return "it did not start";
  snprintf(dnn.about, sizeof dnn.about, "oneDNN %d.%d.%d", v->major, v->minor,
           v->patch);
  return NULL;
}

static void start(void) {
  void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const char *why = library ? take(library) : "it was not found";
  if (why)
    snprintf(dnn.about, sizeof dnn.about, "oneDNN is not used: %s", why);
  else
    dnn.library = library;
}

bool td_dnn_ready(void) {
  pthread_once(&once, start);
  return dnn.library != NULL;
}

const char *td_dnn_about(void) {
  pthread_once(&once, start);
  return dnn.about;
}

/* ---- one thread ---------------------------------------------------------- */

/* Returns what to give back to multi_thread. */
static int single_thread(void) {
  int was = dnn.omp_get_max_threads ? dnn.omp_get_max_threads() : 1;
  if (was != 1) dnn.omp_set_num_threads(1);
  return was;
}

static void multi_thread(int was) {
  if (was != 1) dnn.omp_set_num_threads(was);
}

/* ---- primitives ---------------------------------------------------------- */

/* What one run needs and no two may share. */
typedef struct run_set {
  struct run_set *next; /* of the idle ones */
  void *stream;
  exec_arg args[TD_DNN_ARGS + 1]; /* the last one in use is the scratchpad */
  int n;
} run_set;

struct td_dnn_op {
  int32_t refs;         /* atomic */
  void *pd, *primitive; /* NULL: the library has none of this kind */
  size_t scratch;
  uint64_t used; /* under the cache's mutex: when, by its clock */
  pthread_mutex_t mutex;
  run_set *idle; /* under the mutex */
};

static void free_set(run_set *s) {
  for (int i = 0; i < s->n; i++)
    if (s->args[i].memory) dnn.memory_destroy(s->args[i].memory);
  if (s->stream) dnn.stream_destroy(s->stream);
  td_free(s);
}

void td_dnn_release(td_dnn_op *op) {
  if (!op || __atomic_fetch_sub(&op->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (run_set *s = op->idle, *next; s; s = next) {
    next = s->next;
    free_set(s);
  }
  if (op->primitive) dnn.primitive_destroy(op->primitive);
  if (op->pd) dnn.api.primitive_desc_destroy(op->pd);
  pthread_mutex_destroy(&op->mutex);
  td_free(op);
}

/* A kind that the library does not have is remembered as well. */
static td_status *make_op(td_dnn_describe describe, const void *key,
                          td_dnn_op **out) {
  td_dnn_op *op = td_calloc(1, sizeof *op);
  if (!op) return td_oom();
  op->refs = 1;
  pthread_mutex_init(&op->mutex, NULL);
  int was = single_thread();
  int failed = describe(&dnn.api, key, dnn.attr, dnn.engine, &op->pd);
  if (!failed) failed = dnn.primitive_create(&op->primitive, op->pd);
  multi_thread(was);
  if (failed == OUT_OF_MEMORY) {
    td_dnn_release(op);
    return td_oom();
  }
  if (!failed)
    op->scratch = dnn.memory_desc_get_size(
        dnn.api.primitive_desc_query_md(op->pd, QUERY_SCRATCHPAD, 0));
  *out = op;
  return NULL;
}

size_t td_dnn_scratch(const td_dnn_op *op) {
  return op->scratch;
}

static const td_dnn_layout *layout_of(const td_dnn_op *op, int arg) {
  return dnn.api.primitive_desc_query_md(op->pd, TD_DNN_EXEC_ARG, arg);
}

size_t td_dnn_bytes(const td_dnn_op *op, int arg) {
  return dnn.memory_desc_get_size(layout_of(op, arg));
}

bool td_dnn_alike(const td_dnn_op *a, const td_dnn_op *b, int arg) {
  return dnn.api.memory_desc_equal(layout_of(a, arg), layout_of(b, arg));
}

/* ---- the cache ----------------------------------------------------------- */

static struct {
  pthread_mutex_t mutex;
  td_map ops;     /* under the mutex; describe and key -> td_dnn_op, retained */
  uint64_t clock; /* under the mutex: counts look-ups */
  int64_t made;   /* under the mutex */
} cache = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Retained, or NULL. Under the mutex. */
static td_dnn_op *look_up(const void *key, size_t len) {
  td_dnn_op *op = td_map_getn(&cache.ops, key, len);
  if (!op) return NULL;
  op->used = ++cache.clock;
  __atomic_fetch_add(&op->refs, 1, __ATOMIC_RELAXED);
  return op;
}

/* The one not used for longest, taken out. Under the mutex. */
static td_dnn_op *evict(void) {
  const td_map_entry *e, *oldest = NULL;
  for (size_t i = 0; td_map_next(&cache.ops, &i, &e);)
    if (!oldest ||
        ((td_dnn_op *)e->value)->used < ((td_dnn_op *)oldest->value)->used)
      oldest = e;
  return td_map_removen(&cache.ops, oldest->key, oldest->len);
}

/* Of two made at once the first stays. Takes ownership of `op`; returns the one
 * that counts, retained. */
static td_dnn_op *keep(const void *key, size_t len, td_dnn_op *op) {
  td_dnn_op *extra = NULL;
  pthread_mutex_lock(&cache.mutex);
  cache.made++;
  td_dnn_op *first = look_up(key, len);
  if (first) {
    extra = op;
    op = first;
  } else {
    if (cache.ops.count >= MAX_KEPT) extra = evict();
    op->used = ++cache.clock;
    if (td_map_putn(&cache.ops, key, len, op)) op->refs++; /* nobody else's */
  }
  pthread_mutex_unlock(&cache.mutex);
  td_dnn_release(extra);
  return op;
}

td_status *td_dnn_find(td_dnn_describe describe, const void *key, size_t len,
                       td_dnn_op **out) {
  char whole[sizeof describe + TD_DNN_KEY];
  if (!td_dnn_ready() || len > TD_DNN_KEY)
    return td_error(TD_UNIMPLEMENTED, "%s", td_dnn_about());
  memcpy(whole, &describe, sizeof describe);
  memcpy(whole + sizeof describe, key, len);
  pthread_mutex_lock(&cache.mutex);
  td_dnn_op *op = look_up(whole, sizeof describe + len);
  pthread_mutex_unlock(&cache.mutex);
  if (!op) {
    TD_TRY(make_op(describe, key, &op));
    op = keep(whole, sizeof describe + len, op);
  }
  if (op->primitive) {
    *out = op;
    return NULL;
  }
  td_dnn_release(op);
  return td_error(TD_UNIMPLEMENTED, "oneDNN has no such primitive");
}

td_dnn_stats td_dnn_read_stats(void) {
  pthread_mutex_lock(&cache.mutex);
  td_dnn_stats s = {.kept = (int64_t)cache.ops.count, .made = cache.made};
  pthread_mutex_unlock(&cache.mutex);
  return s;
}

/* ---- running ------------------------------------------------------------- */

static bool add_memory(const td_dnn_op *op, run_set *s, int arg, int what,
                       int index) {
  s->args[s->n].arg = arg;
  const td_dnn_layout *md =
      dnn.api.primitive_desc_query_md(op->pd, what, index);
  return md &&
         !dnn.memory_create(&s->args[s->n++].memory, md, dnn.engine, NULL);
}

static run_set *make_set(const td_dnn_op *op, const td_dnn_arg *args, int n) {
  run_set *s = td_calloc(1, sizeof *s);
  if (!s) return NULL;
  bool ok = !dnn.stream_create(&s->stream, dnn.engine, IN_ORDER);
  for (int i = 0; ok && i < n; i++)
    ok = add_memory(op, s, args[i].arg, TD_DNN_EXEC_ARG, args[i].arg);
  if (ok) ok = add_memory(op, s, TD_DNN_SCRATCHPAD, QUERY_SCRATCHPAD, 0);
  if (ok) return s;
  free_set(s);
  return NULL;
}

static run_set *take_set(td_dnn_op *op) {
  pthread_mutex_lock(&op->mutex);
  run_set *s = op->idle;
  if (s) op->idle = s->next;
  pthread_mutex_unlock(&op->mutex);
  return s;
}

static void give_set(td_dnn_op *op, run_set *s) {
  pthread_mutex_lock(&op->mutex);
  s->next = op->idle;
  op->idle = s;
  pthread_mutex_unlock(&op->mutex);
}

/* The library's generated code keeps data where the stack pointer points: a
 * signal handled on such a stack overwrites it (seen: a corrupted heap).
 * Threads of the pool block signals anyway. */
static bool block_signals(sigset_t *was) {
  sigset_t all;
  if (td_pool_inside()) return false;
  sigfillset(&all);
  return pthread_sigmask(SIG_BLOCK, &all, was) == 0;
}

td_status *td_dnn_run(td_dnn_op *op, const td_dnn_arg *args, int n,
                      void *scratch) {
  run_set *s = take_set(op);
  if (!s) s = make_set(op, args, n);
  if (!s) return td_oom();
  int failed = 0;
  for (int i = 0; i < n && !failed; i++)
    failed = dnn.memory_set_data_handle(s->args[i].memory,
                                        (void *)(uintptr_t)args[i].data);
  if (!failed) failed = dnn.memory_set_data_handle(s->args[n].memory, scratch);
  sigset_t signals;
  bool blocked = block_signals(&signals);
  int was = single_thread();
  if (!failed)
    failed = dnn.primitive_execute(op->primitive, s->stream, s->n, s->args);
  multi_thread(was);
  if (blocked) pthread_sigmask(SIG_SETMASK, &signals, NULL);
  give_set(op, s);
  if (!failed) return NULL;
  return td_error(TD_INTERNAL, "oneDNN failed with status %d", failed);
}
