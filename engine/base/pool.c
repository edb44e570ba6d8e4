/* pool.c - worker threads, a queue of tasks, and loops that they help with.
 *
 * One lock covers the queue, the list of open loops and who is idle; it is held
 * for a few instructions and never across a callback. An idle worker first
 * *searches* (spins on `hint` without the lock) for at most 100 us, then
 * sleeps. Whoever brings work wakes a sleeper only when there is more of it
 * than searchers; a worker leaves off searching under the lock and looks once
 * more, so no work is missed.
 *
 * A loop lives on its caller's stack. Helpers join under the lock while the
 * loop is listed, claim pieces by an atomic counter, and touch it for the last
 * time when they count themselves out; the caller unlists it and waits for
 * that count. Nothing here allocates, and no loop ever waits for a free worker:
 * the caller alone gets it done. So a helper leaves a loop, which is open again
 * for others, when it has helped for a while and tasks wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/pool.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "engine/base/cpu.h"
#include "engine/base/thread.h"

enum {
  SPIN_MAX = 100 * 1000, /* ns */
  SPIN_MIN = 12 * 1000,
  SLICE = 1000 * 1000,        /* ns a helper stays while tasks wait */
  RETRY = 1000 * 1000 * 1000, /* ns until threads refused are asked for again */
  WAITING = 1 << 30,          /* in loop.helpers: the caller sleeps */
};

typedef struct worker {
  pthread_cond_t wake;
  struct worker *next; /* in pool.asleep */
  bool parked;         /* until a waker clears it */
  bool task_first;     /* take turns, so that loops do not starve tasks */
  int64_t spin;        /* ns it may search next time */
  uint64_t each;       /* the last td_pool_each it has served */
  uint64_t generation; /* of the pool that started it */
} worker;

typedef struct loop {
  struct loop *prev, *next; /* in pool.loops */
  bool listed;
  int room; /* helpers that may still join */
  int64_t n, grain, pieces;
  void (*fn)(void *arg, int64_t begin, int64_t end);
  void *arg;
  const int *stop;
  unsigned mode;                /* the caller's flush-to-zero */
  _Alignas(64) int64_t claimed; /* atomic: pieces given out */
  int32_t helpers;              /* atomic: helpers inside, and WAITING */
} loop;

static pthread_mutex_t lock;
static pthread_cond_t done; /* a loop's last helper, a round of `each` */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static worker workers[TD_CPU_MAX];
static _Thread_local worker *self; /* on a thread of the pool */

static struct {
  td_task *head, *tail; /* the queue */
  int queued;
  loop *loops;    /* that have room, newest first */
  int room;       /* of all of them together */
  worker *asleep; /* last in, first out: the warmest cache */
  int started, sleeping, searching;
  int64_t retry_at;
  uint64_t generation;
  uint64_t each; /* rounds of td_pool_each */
  int each_left; /* workers that have yet to serve the newest */
  void (*each_fn)(void *arg);
  void *each_arg;
  td_pool_stats stats;
} pool; /* under lock */

static int hint;   /* atomic: tasks, loops and calls of each that wait */
static int wanted; /* atomic, written under lock: those that are no loops */

static void add_hint(int n) {
  __atomic_fetch_add(&hint, n, __ATOMIC_RELAXED);
}

static void add_wanted(int n) {
  __atomic_store_n(&wanted, wanted + n, __ATOMIC_RELAXED);
  add_hint(n);
}

/* Not td_clock_now: a test's clock must not decide how long we spin. */
static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_cpu(void) {
  __builtin_ia32_pause();
}

/* ---- waking -------------------------------------------------------------- */

/* The sleeper to be signalled next. */
static worker *rouse(void) {
  worker *w = pool.asleep;
  pool.asleep = w->next;
  w->parked = false;
  pool.sleeping--;
  pool.searching++;
  pool.stats.wakeups++;
  return w;
}

/* Sleepers to wake once the lock is free. Two, who wake others in turn: a
 * signal costs its sender microseconds. */
typedef struct wakeups {
  worker *at[2];
} wakeups;

/* Helpers that open loops can use: a thread more than processors would take one
 * from a thread that works, and the loop gets done without it. */
static int helpers_wanted(void) {
  int busy = pool.started - pool.searching - pool.sleeping + (self ? 0 : 1);
  int spare = td_pool_size() - busy;
  return pool.room < spare ? pool.room : spare > 0 ? spare : 0;
}

/* Takes up to two sleepers while there is more work than searchers, and counts
 * them as searching from now on. */
static wakeups call_up(void) {
  wakeups w = {{NULL, NULL}};
  for (int i = 0; i < 2 && pool.asleep; i++) {
    if (pool.searching >= pool.queued + helpers_wanted()) break;
    w.at[i] = rouse();
  }
  return w;
}

static void unlock_and_wake(wakeups w) {
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < 2 && w.at[i]; i++) pthread_cond_signal(&w.at[i]->wake);
}

/* ---- loops --------------------------------------------------------------- */

static void list_loop(loop *l) {
  l->listed = true;
  l->next = pool.loops;
  if (pool.loops) pool.loops->prev = l;
  pool.loops = l;
  pool.room += l->room;
  add_hint(1);
}

static void unlist_loop(loop *l) {
  if (!l->listed) return;
  l->listed = false;
  if (l->next) l->next->prev = l->prev;
  *(l->prev ? &l->prev->next : &pool.loops) = l->next;
  pool.room -= l->room;
  add_hint(-1);
}

static bool is_stopped(const int *stop) {
  return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

/* Time to leave? It begins, in *until, when a task waits. */
static bool must_leave(int64_t *until) {
  if (!td_pool_wanted()) return false;
  int64_t now = now_ns();
  if (*until == 0) *until = now + SLICE;
  return now > *until;
}

static void run_pieces(loop *l, bool helper) {
  int64_t until = 0;
  while (!is_stopped(l->stop) && !(helper && must_leave(&until))) {
    int64_t i = __atomic_fetch_add(&l->claimed, 1, __ATOMIC_RELAXED);
    if (i >= l->pieces) return;
    int64_t begin = i * l->grain;
    int64_t end = i + 1 == l->pieces ? l->n : begin + l->grain;
    l->fn(l->arg, begin, end);
  }
}

static bool has_pieces(const loop *l) {
  return __atomic_load_n(&l->claimed, __ATOMIC_RELAXED) < l->pieces &&
         !is_stopped(l->stop);
}

/* A loop to help with, joined; NULL when there is none. Under lock. */
static loop *join_loop(void) {
  for (loop *l; (l = pool.loops);) {
    if (!has_pieces(l)) {
      unlist_loop(l);
      continue;
    }
    __atomic_fetch_add(&l->helpers, 1, __ATOMIC_RELAXED);
    pool.room--;
    if (--l->room == 0) unlist_loop(l);
    return l;
  }
  return NULL;
}

/* A helper left before the end: another may join, this one too. */
static void open_again(loop *l) {
  pthread_mutex_lock(&lock);
  if (has_pieces(l)) { /* so its caller is still at it */
    l->room++;
    if (l->listed)
      pool.room++;
    else
      list_loop(l);
  }
  pthread_mutex_unlock(&lock);
}

/* The count goes down as the last thing: from then on `l` may be gone. */
static void help(loop *l) {
  unsigned was = td_cpu_flush_get();
  td_cpu_flush_restore(l->mode);
  run_pieces(l, true);
  td_cpu_flush_restore(was);
  if (has_pieces(l)) open_again(l);
  if (__atomic_fetch_sub(&l->helpers, 1, __ATOMIC_ACQ_REL) != (WAITING | 1))
    return;
  pthread_mutex_lock(&lock);
  pthread_cond_broadcast(&done);
  pthread_mutex_unlock(&lock);
}

static void wait_for_helpers(loop *l) {
  int64_t until = 0;
  for (unsigned i = 1; __atomic_load_n(&l->helpers, __ATOMIC_ACQUIRE); i++) {
    pause_cpu();
    if (i % 32) continue;
    int64_t now = now_ns();
    if (!until) until = now + SPIN_MAX / 2;
    if (now > until) break;
  }
  if (!__atomic_load_n(&l->helpers, __ATOMIC_ACQUIRE)) return;
  pthread_mutex_lock(&lock);
  __atomic_fetch_or(&l->helpers, WAITING, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&l->helpers, __ATOMIC_ACQUIRE) != WAITING)
    pthread_cond_wait(&done, &lock);
  pthread_mutex_unlock(&lock);
}

/* ---- workers ------------------------------------------------------------- */

/* Everything below runs under the lock, which each `do_` lets go and takes. */

static bool has_work(const worker *me) {
  return pool.head || pool.loops || me->each != pool.each;
}

static bool do_each(worker *me) {
  if (me->each == pool.each) return false;
  void (*fn)(void *) = pool.each_fn;
  void *arg = pool.each_arg;
  me->each = pool.each;
  add_wanted(-1);
  pthread_mutex_unlock(&lock);
  fn(arg);
  pthread_mutex_lock(&lock);
  if (--pool.each_left == 0) pthread_cond_broadcast(&done);
  return true;
}

static bool do_task(worker *me) {
  td_task *t = pool.head;
  if (!t) return false;
  pool.head = t->next;
  pool.queued--;
  add_wanted(-1);
  me->task_first = false;
  unlock_and_wake(call_up());
  t->run(t);
  pthread_mutex_lock(&lock);
  return true;
}

static bool do_loop(worker *me) {
  loop *l = join_loop();
  if (!l) return false;
  me->task_first = true;
  unlock_and_wake(call_up());
  help(l);
  pthread_mutex_lock(&lock);
  return true;
}

static bool do_work(worker *me) {
  if (do_each(me)) return true;
  if (me->task_first) return do_task(me) || do_loop(me);
  return do_loop(me) || do_task(me);
}

/* Another spinning thread must not take a processor from one that works: the
 * caller of a step keeps one, busy workers theirs. */
static bool may_search(void) {
  int size = td_pool_size(),
      busy = pool.started - 1 - pool.searching - pool.sleeping;
  return pool.searching < size - 1 && busy + pool.searching < size;
}

/* Spins until the hint or the end of its time, which grows when that paid. */
static void search(worker *me) {
  if (me->spin == 0 || !may_search()) return;
  int64_t until = now_ns() + me->spin;
  bool late = false;
  pool.searching++;
  while (!has_work(me) && !late) {
    pthread_mutex_unlock(&lock);
    for (unsigned i = 1; !late; i++) {
      if (__atomic_load_n(&hint, __ATOMIC_RELAXED) > 0) break;
      pause_cpu();
      if (i % 16 == 0) late = now_ns() > until;
    }
    late = late || now_ns() > until;
    pthread_mutex_lock(&lock);
  }
  pool.searching--;
  if (has_work(me))
    me->spin = SPIN_MAX;
  else if (me->spin > SPIN_MIN)
    me->spin /= 2;
}

static void sleep_until_called(worker *me) {
  int64_t since = now_ns();
  me->parked = true;
  me->next = pool.asleep;
  pool.asleep = me;
  pool.sleeping++;
  while (me->parked) pthread_cond_wait(&me->wake, &lock);
  pool.searching--; /* the waker counted us */
  if (now_ns() - since < SPIN_MAX)
    me->spin = SPIN_MAX; /* searching longer would have met the work */
  else if (me->spin < SPIN_MIN)
    me->spin = SPIN_MIN;
}

static void *work(void *arg) {
  worker *me = self = arg;
  pthread_mutex_lock(&lock);
  uint64_t born = me->generation;
  while (born == pool.generation) { /* else a fork left us behind */
    if (do_work(me)) continue;
    search(me);
    if (!has_work(me)) sleep_until_called(me);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* ---- starting, and fork -------------------------------------------------- */

static void before_fork(void) {
  pthread_mutex_lock(&lock);
}
static void in_parent(void) {
  pthread_mutex_unlock(&lock);
}

/* The child has none of the threads: an empty pool that starts when used. */
static void in_child(void) {
  uint64_t generation = pool.generation + 1;
  memset(&pool, 0, sizeof pool);
  pool.generation = generation;
  self = NULL;
  __atomic_store_n(&hint, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&wanted, 0, __ATOMIC_RELAXED);
  pthread_cond_init(&done, NULL);
  pthread_mutex_unlock(&lock);
}

static void init(void) {
  pthread_mutexattr_t adaptive; /* spins a little before it sleeps */
  pthread_mutexattr_init(&adaptive);
  pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
  pthread_mutex_init(&lock, &adaptive);
  pthread_mutexattr_destroy(&adaptive);
  pthread_cond_init(&done, NULL);
  pthread_atfork(before_fork, in_parent, in_child);
}

static void start_workers(void) {
  int64_t now = now_ns();
  if (now < pool.retry_at) return;
  while (pool.started < td_pool_size()) {
    worker *w = &workers[pool.started];
    *w = (worker){.generation = pool.generation, .each = pool.each};
    pthread_cond_init(&w->wake, NULL);
    if (!td_thread_start(NULL, "tide-pool", pool.started, work, w)) {
      pool.retry_at = now + RETRY;
      return;
    }
    pool.started++;
  }
}

/* Takes the lock, with the workers started. */
static void enter(void) {
  pthread_once(&once, init);
  pthread_mutex_lock(&lock);
  if (TD_UNLIKELY(pool.started < td_pool_size())) start_workers();
}

/* ---- the interface ------------------------------------------------------- */

int td_pool_size(void) {
  return td_cpu_count();
}

bool td_pool_inside(void) {
  return self != NULL;
}

bool td_pool_wanted(void) {
  return __atomic_load_n(&wanted, __ATOMIC_RELAXED) > 0;
}

/* There is no worker. Tasks that `t` submits wait until it returns, so that a
 * chain of them does not eat the stack. */
static void run_here(td_task *t) {
  static _Thread_local struct {
    td_task *head, *tail;
    bool active;
  } mine;
  *(mine.head ? &mine.tail->next : &mine.head) = t;
  mine.tail = t;
  if (mine.active) return;
  mine.active = true;
  while ((t = mine.head)) {
    mine.head = t->next;
    t->run(t);
  }
  mine.active = false;
}

void td_pool_submit(td_task *task) {
  task->next = NULL;
  enter();
  pool.stats.tasks++;
  if (TD_UNLIKELY(pool.started == 0)) {
    pthread_mutex_unlock(&lock);
    run_here(task);
    return;
  }
  *(pool.head ? &pool.tail->next : &pool.head) = task;
  pool.tail = task;
  pool.queued++;
  add_wanted(1);
  unlock_and_wake(call_up());
}

static void run_alone(loop *l) {
  for (; l->claimed < l->pieces && !is_stopped(l->stop); l->claimed++) {
    int64_t begin = l->claimed * l->grain;
    bool last = l->claimed + 1 == l->pieces;
    l->fn(l->arg, begin, last ? l->n : begin + l->grain);
  }
}

void td_parallel_for(int threads, int64_t n, int64_t grain,
                     void (*fn)(void *arg, int64_t begin, int64_t end),
                     void *arg, const int *stop) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (n <= grain) { /* most loops of small graphs: one piece */
    if (!is_stopped(stop)) fn(arg, 0, n);
    return;
  }
  loop l = {.n = n, .grain = grain, .fn = fn, .arg = arg, .stop = stop};
  l.pieces = n / grain + (n % grain != 0);
  if (threads <= 1) {
    run_alone(&l);
    return;
  }
  l.mode = td_cpu_flush_get();
  enter();
  l.room = threads - 1 < pool.started ? threads - 1 : pool.started;
  if (l.pieces - 1 < l.room) l.room = (int)(l.pieces - 1);
  if (l.room > 0) list_loop(&l);
  unlock_and_wake(call_up());
  run_pieces(&l, false);
  pthread_mutex_lock(&lock);
  unlist_loop(&l);
  pthread_mutex_unlock(&lock);
  wait_for_helpers(&l);
}

/* Waits for the round of each that is on. A thread of the pool serves its own
 * part meanwhile: nobody else can. Under lock. */
static void wait_for_each(void) {
  while (pool.each_left > 0)
    if (!self || !do_each(self)) pthread_cond_wait(&done, &lock);
}

void td_pool_each(void (*fn)(void *arg), void *arg) {
  enter();
  wait_for_each();
  pool.each++;
  pool.each_fn = fn;
  pool.each_arg = arg;
  pool.each_left = pool.started;
  add_wanted(pool.started);
  for (worker *w; pool.asleep;) {
    w = rouse();
    pthread_cond_signal(&w->wake);
  }
  wait_for_each();
  pthread_mutex_unlock(&lock);
}

td_pool_stats td_pool_read_stats(void) {
  pthread_once(&once, init);
  pthread_mutex_lock(&lock);
  td_pool_stats s = pool.stats;
  pthread_mutex_unlock(&lock);
  return s;
}
