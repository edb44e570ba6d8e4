/* cupti.c - a libcupti.so.13 that sees what the fake runtime runs, for tests.
 *
 * The runtime tells of each piece of work that is enqueued and that has run;
 * what the plugin calls is as in CUPTI: records in buffers that it gives, at a
 * flush, kernels with one name for all. TIDE_FAKE_CUPTI names a function that
 * refuses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cupti.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CALL __attribute__((visibility("default")))

enum { DEPTH = 8 };

/* What the runtime calls. */
CALL uint32_t td_fake_cupti_enqueued(void);
CALL uint64_t td_fake_cupti_now(void);
CALL void td_fake_cupti_ran(uint32_t call, int kernel, uint64_t start,
                            uint64_t end);

typedef union record {
  CUpti_Activity any;
  CUpti_ActivityKernel10 kernel;
  CUpti_ActivityMemcpy6 copy;
  CUpti_ActivityExternalCorrelation outer;
} record;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static record *all; /* under the lock, as what follows */
static size_t n, room;
static uint32_t calls;
static uint64_t enabled; /* by kind */
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_TimestampCallbackFunc now;
static _Thread_local uint64_t outer[DEPTH];
static _Thread_local int depth;

static CUptiResult unless(const char *name) {
  const char *refuses = getenv("TIDE_FAKE_CUPTI");
  return refuses && strcmp(refuses, name) == 0 ? CUPTI_ERROR_UNKNOWN
                                               : CUPTI_SUCCESS;
}

static int wants(CUpti_ActivityKind kind) {
  return (enabled >> kind & 1) != 0;
}

static void add(const record *r) {
  if (n == room) {
    size_t more = room ? 2 * room : 64;
    record *at = realloc(all, more * sizeof *all);
    if (!at) return;
    all = at;
    room = more;
  }
  all[n++] = *r;
}

uint32_t td_fake_cupti_enqueued(void) {
  pthread_mutex_lock(&lock);
  uint32_t call = enabled ? ++calls : 0;
  if (call && depth > 0 && wants(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
    record r = {.outer = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                          .externalId = outer[depth - 1],
                          .correlationId = call}};
    add(&r);
  }
  pthread_mutex_unlock(&lock);
  return call;
}

uint64_t td_fake_cupti_now(void) {
  pthread_mutex_lock(&lock);
  uint64_t at = now ? now() : 0;
  pthread_mutex_unlock(&lock);
  return at;
}

void td_fake_cupti_ran(uint32_t call, int kernel, uint64_t start,
                       uint64_t end) {
  CUpti_ActivityKind kind = kernel ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                                   : CUPTI_ACTIVITY_KIND_MEMCPY;
  record r;
  memset(&r, 0, sizeof r);
  if (kernel)
    r.kernel = (CUpti_ActivityKernel10){.kind = kind,
                                        .start = start,
                                        .end = end,
                                        .correlationId = call,
                                        .name = "_ZN12_GLOBAL__N_14workIfEEvl"};
  else
    r.copy = (CUpti_ActivityMemcpy6){
        .kind = kind, .start = start, .end = end, .correlationId = call};
  pthread_mutex_lock(&lock);
  if (call && wants(kind)) add(&r);
  pthread_mutex_unlock(&lock);
}

/* ---- what the plugin calls ----------------------------------------------- */

CALL CUptiResult cuptiGetVersion(uint32_t *out) {
  *out = unless("cuptiGetVersion") ? 120000 : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CALL CUptiResult
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                               CUpti_BuffersCallbackCompleteFunc take) {
  pthread_mutex_lock(&lock);
  request = give;
  complete = take;
  pthread_mutex_unlock(&lock);
  return unless("cuptiActivityRegisterCallbacks");
}
CALL CUptiResult
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  pthread_mutex_lock(&lock);
  now = clock;
  pthread_mutex_unlock(&lock);
  return CUPTI_SUCCESS;
}
static CUptiResult set(CUpti_ActivityKind kind, int on) {
  pthread_mutex_lock(&lock);
  uint64_t bit = UINT64_C(1) << kind;
  enabled = on ? enabled | bit : enabled & ~bit;
  if (!enabled) n = 0;
  pthread_mutex_unlock(&lock);
  return CUPTI_SUCCESS;
}
CALL CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  CUptiResult e = unless("cuptiActivityEnable");
  return e ? e : set(kind, 1);
}
CALL CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return set(kind, 0);
}
CALL CUptiResult cuptiActivityPushExternalCorrelationId(
    CUpti_ExternalCorrelationKind kind, uint64_t id) {
  (void)kind;
  if (depth == DEPTH) return CUPTI_ERROR_UNKNOWN;
  outer[depth++] = id;
  return CUPTI_SUCCESS;
}
CALL CUptiResult cuptiActivityPopExternalCorrelationId(
    CUpti_ExternalCorrelationKind kind, uint64_t *id) {
  (void)kind;
  if (depth == 0) return CUPTI_ERROR_QUEUE_EMPTY;
  *id = outer[--depth];
  return CUPTI_SUCCESS;
}
/* As many buffers as it takes. */
CALL CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  for (;;) {
    uint8_t *buffer = NULL;
    size_t size = 0, most = 0;
    request(&buffer, &size, &most);
    pthread_mutex_lock(&lock);
    size_t fit = buffer ? size / sizeof *all : 0, take = n < fit ? n : fit;
    if (take) memcpy(buffer, all + n - take, take * sizeof *all);
    n -= take;
    int more = buffer && n > 0;
    pthread_mutex_unlock(&lock);
    if (buffer) complete(NULL, 0, buffer, size, take * sizeof *all);
    if (!more) return unless("cuptiActivityFlushAll");
  }
}
CALL CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                            CUpti_Activity **r) {
  uint8_t *next = *r ? (uint8_t *)*r + sizeof(record) : buffer;
  if (next + sizeof(record) > buffer + valid)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *r = (CUpti_Activity *)(void *)next;
  return CUPTI_SUCCESS;
}
