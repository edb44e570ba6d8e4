/* cupti.c - see cupti.h.
 *
 * CUPTI hands out buffers of records on threads of its own: of kernels and
 * copies, each with the number of the call that enqueued it, and which number
 * of ours that call belongs to. A flush joins the two. All is dropped when
 * nobody traces any more.
 *
 * Records have the layout of the version they were compiled for: of another one
 * nothing is taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/cupti.h"

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cuda.h"

enum { BUFFER = 1 << 20, SAME = 100 /* versions that differ below are one */ };

static const CUpti_ActivityKind kinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET};

static struct {
  pthread_once_t once;
  td_status *why; /* NULL: it is open */
  uint32_t version;
  __typeof__(cuptiGetVersion) *get_version;
  __typeof__(cuptiActivityRegisterCallbacks) *callbacks;
  __typeof__(cuptiActivityRegisterTimestampCallback) *clock;
  __typeof__(cuptiActivityEnable) *enable;
  __typeof__(cuptiActivityDisable) *disable;
  __typeof__(cuptiActivityPushExternalCorrelationId) *push;
  __typeof__(cuptiActivityPopExternalCorrelationId) *pop;
  __typeof__(cuptiActivityFlushAll) *flush;
  __typeof__(cuptiActivityGetNextRecord) *next;
} door = {.once = PTHREAD_ONCE_INIT};

static struct {
  pthread_mutex_t turn; /* who enables and disables; before the lock */
  int users;            /* under turn */
  pthread_mutex_t lock; /* of what follows */
  TD_VEC(td_cupti_piece) pieces;
  td_map of; /* number of a call -> ours */
} seen = {PTHREAD_MUTEX_INITIALIZER, 0, PTHREAD_MUTEX_INITIALIZER, {0}, {0}};

/* ---- records ------------------------------------------------------------- */

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most) {
  void *at = NULL;
  if (posix_memalign(&at, 8, BUFFER) != 0) at = NULL;
  *buffer = at;
  *size = at ? BUFFER : 0;
  *most = 0;
}

/* Under the lock. Without memory it is not in the trace. */
static void add_piece(uint32_t call, uint64_t start, uint64_t end,
                      const char *kernel) {
  td_cupti_piece p = {0, (int64_t)start, (int64_t)end, kernel, call};
  if (start && end >= start) (void)!td_vec_push(&seen.pieces, p);
}

static void take_record(const CUpti_Activity *r) {
  if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)r;
    add_piece(k->correlationId, k->start, k->end, k->name ? k->name : "");
  } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const CUpti_ActivityMemcpy6 *m = (const CUpti_ActivityMemcpy6 *)r;
    add_piece(m->correlationId, m->start, m->end, NULL);
  } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
    const CUpti_ActivityMemcpyPtoP4 *m = (const CUpti_ActivityMemcpyPtoP4 *)r;
    add_piece(m->correlationId, m->start, m->end, NULL);
  } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const CUpti_ActivityMemset4 *m = (const CUpti_ActivityMemset4 *)r;
    add_piece(m->correlationId, m->start, m->end, NULL);
  } else if (r->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    const CUpti_ActivityExternalCorrelation *x =
        (const CUpti_ActivityExternalCorrelation *)r;
    (void)!td_map_putn(&seen.of, &x->correlationId, sizeof x->correlationId,
                       (void *)(uintptr_t)x->externalId);
  }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream,
                                 uint8_t *buffer, size_t size, size_t valid) {
  CUpti_Activity *r = NULL;
  (void)context;
  (void)stream;
  (void)size;
  pthread_mutex_lock(&seen.lock);
  while (valid && door.next(buffer, valid, &r) == CUPTI_SUCCESS) take_record(r);
  pthread_mutex_unlock(&seen.lock);
  free(buffer);
}

static uint64_t CUPTIAPI read_clock(void) {
  return (uint64_t)td_clock_now();
}

/* ---- the door ------------------------------------------------------------ */

static td_status *find_all(void *library) {
  const struct {
    void **at;
    const char *name;
  } names[] = {
      {(void **)&door.get_version, "cuptiGetVersion"},
      {(void **)&door.callbacks, "cuptiActivityRegisterCallbacks"},
      {(void **)&door.clock, "cuptiActivityRegisterTimestampCallback"},
      {(void **)&door.enable, "cuptiActivityEnable"},
      {(void **)&door.disable, "cuptiActivityDisable"},
      {(void **)&door.push, "cuptiActivityPushExternalCorrelationId"},
      {(void **)&door.pop, "cuptiActivityPopExternalCorrelationId"},
      {(void **)&door.flush, "cuptiActivityFlushAll"},
      {(void **)&door.next, "cuptiActivityGetNextRecord"},
  };
  for (size_t i = 0; i < TD_COUNT(names); i++)
    if (!(*names[i].at = dlsym(library, names[i].name)))
      return td_error(TD_NOT_FOUND, "libcupti.so.13 has no %s", names[i].name);
  return NULL;
}

static td_status *open_library(void) {
  void *library;
  TD_TRY(td_cuda_library("libcupti.so.13", &library));
  TD_TRY(find_all(library));
  if (door.get_version(&door.version) != CUPTI_SUCCESS ||
      door.version / SAME != CUPTI_API_VERSION / SAME)
    return td_error(TD_FAILED_PRECONDITION,
                    "libcupti.so.13 is version %u, Tide is built with %u",
                    door.version, (unsigned)CUPTI_API_VERSION);
  return NULL;
}

static void open_once(void) {
  door.why = open_library();
}

static bool is_open(void) {
  pthread_once(&door.once, open_once);
  return td_ok(door.why);
}

td_status *td_cuda_door_cupti(td_str *out) {
  if (!is_open()) return td_status_retain(door.why);
  td_str_addf(out, "%u.%u.%u", door.version / 10000, door.version / 100 % 100,
              door.version % 100);
  const char *asked = getenv("TIDE_CUPTI");
  if (!asked || *asked != '1') td_str_add(out, ", used with TIDE_CUPTI=1");
  return NULL;
}

/* ---- tracing ------------------------------------------------------------- */

static bool enable_all(void) {
  bool ok = door.callbacks(give_buffer, take_buffer) == CUPTI_SUCCESS &&
            door.clock(read_clock) == CUPTI_SUCCESS;
  for (size_t i = 0; ok && i < TD_COUNT(kinds); i++)
    ok = door.enable(kinds[i]) == CUPTI_SUCCESS;
  return ok;
}

static void disable_all(void) {
  for (size_t i = 0; i < TD_COUNT(kinds); i++) (void)door.disable(kinds[i]);
}

bool td_cupti_begin(void) {
  const char *asked = getenv("TIDE_CUPTI");
  if (!asked || *asked != '1' || !is_open()) return false;
  pthread_mutex_lock(&seen.turn);
  bool ok = seen.users > 0 || enable_all();
  if (ok) seen.users++;
  if (!ok) disable_all();
  pthread_mutex_unlock(&seen.turn);
  return ok;
}

void td_cupti_end(void) {
  pthread_mutex_lock(&seen.turn);
  if (--seen.users == 0) {
    disable_all();
    pthread_mutex_lock(&seen.lock);
    td_vec_free(&seen.pieces);
    td_map_deinit(&seen.of);
    td_map_init(&seen.of);
    pthread_mutex_unlock(&seen.lock);
  }
  pthread_mutex_unlock(&seen.turn);
}

void td_cupti_enter(uint64_t number) {
  (void)door.push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, number);
}

void td_cupti_leave(void) {
  uint64_t number;
  (void)door.pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &number);
}

static int by_number(const void *a, const void *b) {
  const td_cupti_piece *x = a, *y = b;
  if (x->number != y->number) return x->number < y->number ? -1 : 1;
  return x->start < y->start ? -1 : x->start > y->start;
}

void td_cupti_flush(void) {
  (void)door.flush(0);
  pthread_mutex_lock(&seen.lock);
  for (size_t i = 0; i < seen.pieces.len; i++) {
    td_cupti_piece *p = &seen.pieces.at[i];
    if (!p->number)
      p->number = (uintptr_t)td_map_getn(&seen.of, &p->call, sizeof p->call);
  }
  if (seen.pieces.len)
    qsort(seen.pieces.at, seen.pieces.len, sizeof *seen.pieces.at, by_number);
  pthread_mutex_unlock(&seen.lock);
}

/* Where the number's begin. */
static size_t first_of(uint64_t number) {
  size_t low = 0, high = seen.pieces.len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (seen.pieces.at[middle].number < number)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

size_t td_cupti_take(uint64_t number, td_cupti_piece *out, size_t most) {
  size_t n = 0;
  pthread_mutex_lock(&seen.lock);
  for (size_t i = first_of(number); i < seen.pieces.len && n < most; i++) {
    if (seen.pieces.at[i].number != number) break;
    out[n++] = seen.pieces.at[i];
  }
  pthread_mutex_unlock(&seen.lock);
  return n;
}
