/* device_test_stream.c - streams of the test device: a thread and a queue each.
 *
 * A stream runs its work in order, now and then after a random delay, and after
 * the work of other streams that it waits for. All that is enqueued is so under
 * one mutex, and work waits only for what was enqueued before it: there are no
 * circles. A thread of a stream may wait as long as it takes; those of the
 * engine's pool never do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/device/device_test_impl.h"

enum { DELAY = 100 * 1000, MOST_LOOKED_AT = 256 };

/* ---- queues; under the mutex --------------------------------------------- */

static void append(td_test_stream *s, td_test_job *j) {
  j->prev = s->last;
  j->next = NULL;
  *(s->last ? &s->last->next : &s->first) = j;
  s->last = j;
  pthread_cond_broadcast(&s->all->changed);
}

static void unlink_job(td_test_stream *s, td_test_job *j) {
  *(j->prev ? &j->prev->next : &s->first) = j->next;
  *(j->next ? &j->next->prev : &s->last) = j->prev;
}

uint64_t td_test_push(td_test_streams *all, int stream, td_test_job *j) {
  td_test_stream *s = &all->stream[stream];
  j->number = ++s->enqueued;
  append(s, j);
  return j->number;
}

bool td_test_push_behind(td_test_streams *all, int stream, td_test_job *j) {
  td_test_stream *s = &all->stream[stream];
  if (s->over || s->complete == s->enqueued) return false;
  j->number = 0;
  append(s, j);
  return true;
}

td_test_job *td_test_take_block(td_test_streams *all, int stream,
                                size_t bytes) {
  td_test_stream *s = &all->stream[stream];
  td_test_job *j = s->last;
  for (int i = 0; j && i < MOST_LOOKED_AT; i++, j = j->prev)
    if (j->block == bytes) {
      unlink_job(s, j);
      return j;
    }
  return NULL;
}

static bool reached(const td_test_streams *all, const uint64_t *number) {
  for (int i = 0; i < TD_TEST_STREAMS; i++)
    if (all->stream[i].complete < number[i]) return false;
  return true;
}

static td_test_job *take_complete(td_test_stream *s, td_test_job *list) {
  for (td_test_job *j = s->first, *next; j; j = next) {
    next = j->next;
    if (!j->block || !reached(s->all, j->after.number)) continue;
    unlink_job(s, j);
    j->next = list;
    list = j;
  }
  return list;
}

td_test_job *td_test_take_complete(td_test_streams *all) {
  td_test_job *list = NULL;
  for (int i = 0; i < TD_TEST_STREAMS; i++)
    list = take_complete(&all->stream[i], list);
  return list;
}

td_test_after td_test_everything(const td_test_streams *all) {
  td_test_after after;
  for (int i = 0; i < TD_TEST_STREAMS; i++)
    after.number[i] = all->stream[i].enqueued;
  return after;
}

/* ---- settling ------------------------------------------------------------ */

bool td_test_settle(td_test_streams *all, td_settling *w) {
  pthread_mutex_lock(&all->mutex);
  td_test_after after = td_test_everything(all);
  bool settled = reached(all, after.number);
  for (int i = 0; i < TD_TEST_STREAMS; i++) w->mark[i] = after.number[i];
  if (!settled) {
    w->next = all->settling;
    all->settling = w;
  }
  pthread_mutex_unlock(&all->mutex);
  return settled;
}

/* Those whose wait is over, unlinked. Under the mutex. */
static td_settling *take_settled(td_test_streams *all) {
  td_settling *list = NULL;
  for (td_settling **at = &all->settling; *at;) {
    td_settling *w = *at;
    if (!reached(all, w->mark)) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    w->next = list;
    list = w;
  }
  return list;
}

/* ---- a stream's thread --------------------------------------------------- */

static void wait_for(td_test_streams *all, const td_test_after *after) {
  if (reached(all, after->number)) return;
  td_test_count(&all->counts.waits);
  while (!reached(all, after->number))
    pthread_cond_wait(&all->changed, &all->mutex);
}

static void wait_for_peer(td_test_streams *peer, const td_test_after *after) {
  pthread_mutex_lock(&peer->mutex);
  wait_for(peer, after);
  pthread_mutex_unlock(&peer->mutex);
}

/* Before one piece of four: the others come in a row, and a test suite through
 * this device is three times as quick. */
static void delay(td_test_stream *s) {
  int64_t most = __atomic_load_n(&s->all->delay, __ATOMIC_RELAXED);
  uint32_t words[4];
  if (most <= 0) return;
  td_philox_next(&s->random, words);
  if (words[1] % 4 != 0) return;
  struct timespec t = {.tv_nsec = words[0] % most};
  nanosleep(&t, NULL);
}

/* The next job; NULL when it is time to end. */
static td_test_job *take(td_test_stream *s) {
  td_test_streams *all = s->all;
  pthread_mutex_lock(&all->mutex);
  while (!s->first && !all->quit) pthread_cond_wait(&all->changed, &all->mutex);
  td_test_job *j = s->first;
  if (j) {
    unlink_job(s, j);
    wait_for(all, &j->after);
  }
  s->over = !j;
  pthread_mutex_unlock(&all->mutex);
  return j;
}

static void note_complete(td_test_stream *s, uint64_t number) {
  td_test_streams *all = s->all;
  pthread_mutex_lock(&all->mutex);
  s->complete = number;
  td_settling *w = all->settling ? take_settled(all) : NULL;
  pthread_cond_broadcast(&all->changed);
  pthread_mutex_unlock(&all->mutex);
  for (td_settling *next; w; w = next) {
    next = w->next;
    w->over(w);
  }
}

static void *work(void *arg) {
  td_test_stream *s = arg;
  td_test_streams *all = s->all;
  prctl(PR_SET_TIMERSLACK, 1UL); /* short delays are to be short */
  for (td_test_job *j; (j = take(s));) {
    uint64_t number = j->number;
    if (j->peer) wait_for_peer(j->peer, &j->peer_after);
    if (number) delay(s);
    j->run(j);
    if (number) note_complete(s, number);
  }
  pthread_mutex_lock(&all->mutex);
  void (*orphaned)(void *) = --all->running == 0 ? all->orphaned : NULL;
  void *orphan = all->orphan;
  pthread_mutex_unlock(&all->mutex);
  if (orphaned) orphaned(orphan);
  return NULL;
}

/* ---- life ---------------------------------------------------------------- */

static int64_t default_delay(void) {
  const char *env = getenv("TIDE_TEST_DELAY");
  int64_t us = env ? strtol(env, NULL, 10) : -1;
  return us < 0 || us > 1000000 ? DELAY : us * 1000;
}

td_status *td_test_streams_new(uint64_t seed, int index,
                               td_test_streams **out) {
  td_test_streams *all = td_calloc(1, sizeof *all);
  if (!all) return td_oom();
  pthread_mutex_init(&all->mutex, NULL);
  pthread_cond_init(&all->changed, NULL);
  all->delay = default_delay();
  for (int i = 0; i < TD_TEST_STREAMS; i++) {
    all->stream[i].all = all;
    td_philox_init(&all->stream[i].random, seed,
                   (uint64_t)index * TD_TEST_STREAMS + (uint64_t)i);
  }
  *out = all;
  return NULL;
}

td_status *td_test_streams_start(td_test_streams *all) {
  static const char *const names[] = {"tide-test-0", "tide-test-1",
                                      "tide-test-copy"};
  for (int i = 0; i < TD_TEST_STREAMS; i++) {
    td_test_stream *s = &all->stream[i];
    pthread_mutex_lock(&all->mutex);
    s->started = td_thread_start(&s->thread, names[i], -1, work, s);
    all->running += s->started;
    pthread_mutex_unlock(&all->mutex);
    if (!s->started)
      return td_error(TD_RESOURCE_EXHAUSTED, "no thread for a test device");
  }
  return NULL;
}

static bool is_own(const td_test_stream *s) {
  return s->started && pthread_equal(s->thread, pthread_self());
}

bool td_test_streams_end(td_test_streams *all, void (*orphaned)(void *arg),
                         void *arg) {
  bool own = false;
  for (int i = 0; i < TD_TEST_STREAMS; i++) own |= is_own(&all->stream[i]);
  for (int i = 0; own && i < TD_TEST_STREAMS; i++)
    pthread_detach(all->stream[i].thread);
  pthread_mutex_lock(&all->mutex);
  all->quit = true;
  if (own) {
    all->orphaned = orphaned;
    all->orphan = arg;
  }
  pthread_cond_broadcast(&all->changed);
  pthread_mutex_unlock(&all->mutex);
  for (int i = 0; !own && i < TD_TEST_STREAMS; i++)
    if (all->stream[i].started) pthread_join(all->stream[i].thread, NULL);
  return !own;
}

void td_test_streams_free(td_test_streams *all) {
  if (!all) return;
  pthread_mutex_destroy(&all->mutex);
  pthread_cond_destroy(&all->changed);
  td_free(all);
}
