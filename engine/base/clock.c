/* clock.c - time, and one thread that watches the deadlines.
 *
 * Timers lie in slots; a binary heap of slot numbers orders them by time, then
 * by age. An id is slot and generation, so that cancelling one that has fired
 * touches no other. The thread starts with the first timer and sleeps until the
 * earliest one. No lock is held while a callback runs. It sleeps by a condition
 * and not by a td_waiter: there is nobody to interrupt it, and its heap has a
 * lock in any case.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"

#include <pthread.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/base/vec.h"

static int64_t (*source)(void); /* atomic; NULL: the system's */

static int64_t ns_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t td_clock_now(void) {
  int64_t (*now)(void) = __atomic_load_n(&source, __ATOMIC_ACQUIRE);
  return TD_UNLIKELY(now != NULL) ? now() : ns_of(CLOCK_MONOTONIC);
}

int64_t td_clock_alarm(int64_t at_ns) {
  const int64_t tick = 1000000;
  if (TD_LIKELY(!__atomic_load_n(&source, __ATOMIC_ACQUIRE))) return at_ns;
  return ns_of(CLOCK_MONOTONIC) + tick;
}

int64_t td_clock_wall_us(void) {
  return ns_of(CLOCK_REALTIME) / 1000;
}

/* ---- timers -------------------------------------------------------------- */

typedef struct timer {
  int64_t at_ns;
  uint64_t age; /* of timers at one time the older fires first */
  void (*fire)(void *arg);
  void *arg;
  uint32_t generation;
  uint32_t place; /* in heap + 1; 0: not waiting */
} timer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* an earlier timer, another clock */
static pthread_cond_t fired;   /* a callback has returned */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* All under lock. */
static TD_VEC(timer) slots;
static TD_VEC(uint32_t) heap;  /* room for every slot */
static TD_VEC(uint32_t) spare; /* slots not in use; room for every slot */
static uint64_t next_age;
static uint64_t firing; /* id of the callback running now */
static bool running;    /* the thread */

static uint64_t id_of(uint32_t slot) {
  return (uint64_t)slots.at[slot].generation << 32 | slot;
}

static bool before(uint32_t a, uint32_t b) {
  const timer *x = &slots.at[a], *y = &slots.at[b];
  return x->at_ns != y->at_ns ? x->at_ns < y->at_ns : x->age < y->age;
}

static void put(size_t i, uint32_t slot) {
  heap.at[i] = slot;
  slots.at[slot].place = (uint32_t)i + 1;
}

/* Puts `slot` where it belongs, the hole now being at `i`. */
static void settle(size_t i, uint32_t slot) {
  for (; i > 0 && before(slot, heap.at[(i - 1) / 2]); i = (i - 1) / 2)
    put(i, heap.at[(i - 1) / 2]);
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= heap.len) break;
    if (child + 1 < heap.len && before(heap.at[child + 1], heap.at[child]))
      child++;
    if (!before(heap.at[child], slot)) break;
    put(i, heap.at[child]);
    i = child;
  }
  put(i, slot);
}

/* Takes `slot` out of the heap and makes its id invalid. */
static void take_out(uint32_t slot) {
  timer *t = &slots.at[slot];
  size_t i = t->place - 1;
  uint32_t last = heap.at[--heap.len];
  if (last != slot) settle(i, last);
  t->place = 0;
  if (++t->generation == 0) t->generation = 1;
  spare.at[spare.len++] = slot;
}

static void fire_first(void) {
  uint32_t slot = heap.at[0];
  timer t = slots.at[slot];
  firing = id_of(slot);
  take_out(slot);
  pthread_mutex_unlock(&lock);
  t.fire(t.arg);
  pthread_mutex_lock(&lock);
  firing = 0;
  pthread_cond_broadcast(&fired);
}

/* Sleeps until `at` or a change. */
static void doze(int64_t at) {
  const int64_t second = 1000000000;
  int64_t until = td_clock_alarm(at);
  struct timespec t = {(time_t)(until / second), (long)(until % second)};
  pthread_cond_timedwait(&changed, &lock, &t);
}

static void *watch(void *arg) {
  (void)arg;
  pthread_mutex_lock(&lock);
  for (;;) {
    if (heap.len == 0) {
      pthread_cond_wait(&changed, &lock);
      continue;
    }
    int64_t now = td_clock_now(), at = slots.at[heap.at[0]].at_ns;
    if (at <= now)
      fire_first();
    else
      doze(at);
  }
  return NULL;
}

/* ---- fork: the child has no timer thread and no timers ------------------- */

static void init_conds(void) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &monotonic);
  pthread_cond_init(&fired, NULL);
  pthread_condattr_destroy(&monotonic);
}

static void before_fork(void) {
  pthread_mutex_lock(&lock);
}
static void after_fork(void) {
  pthread_mutex_unlock(&lock);
}

static void in_child(void) {
  while (heap.len > 0) take_out(heap.at[0]);
  firing = 0;
  running = false;
  init_conds();
  pthread_mutex_unlock(&lock);
}

static void init(void) {
  init_conds();
  pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- the interface ------------------------------------------------------- */

static bool start_thread(void) {
  if (!running) running = td_thread_start(NULL, "tide-timer", -1, watch, NULL);
  return running;
}

/* A free slot in spare, and room for it in the heap. */
static bool find_slot(void) {
  if (spare.len > 0) return true;
  size_t n = slots.len + 1;
  if (n > UINT32_MAX || !td_vec_reserve(&slots, 1) ||
      !td_vec_reserve(&heap, n - heap.len) || !td_vec_reserve(&spare, n))
    return false;
  slots.at[slots.len] = (timer){.generation = 1};
  spare.at[spare.len++] = (uint32_t)slots.len++;
  return true;
}

uint64_t td_timer_start(int64_t at_ns, void (*fire)(void *arg), void *arg) {
  pthread_once(&once, init);
  pthread_mutex_lock(&lock);
  uint64_t id = 0;
  if (find_slot() && start_thread()) {
    uint32_t slot = spare.at[--spare.len];
    timer *t = &slots.at[slot];
    t->at_ns = at_ns, t->age = next_age++, t->fire = fire, t->arg = arg;
    settle(heap.len++, slot);
    id = id_of(slot);
    if (heap.at[0] == slot) pthread_cond_signal(&changed);
  }
  pthread_mutex_unlock(&lock);
  return id;
}

void td_timer_cancel(uint64_t id) {
  uint32_t slot = (uint32_t)id;
  pthread_once(&once, init);
  pthread_mutex_lock(&lock);
  if (slot < slots.len && slots.at[slot].place && id_of(slot) == id)
    take_out(slot);
  while (id && firing == id) pthread_cond_wait(&fired, &lock);
  pthread_mutex_unlock(&lock);
}

void td_clock_set(int64_t (*now)(void)) {
  pthread_once(&once, init);
  pthread_mutex_lock(&lock);
  __atomic_store_n(&source, now, __ATOMIC_RELEASE);
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}
