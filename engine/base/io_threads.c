/* io_threads.c - a bounded queue, and threads that come and go with it.
 *
 * One lock covers queue and counts. A thread is started when more tasks wait
 * than threads are idle; an idle one waits for IDLE_NS and then ends, after a
 * last look under the lock, so that no task is left behind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/io_threads.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/base/waiter.h"

enum { IDLE_NS = 1000000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct {
  td_task *head, *tail;
  int queued, threads, idle, aside;
  td_waiter work; /* for the idle; its fields are atomic, the rest under lock */
} io;

static TD_THREAD_LOCAL bool mine; /* is this thread one of them? */

/* ---- the threads --------------------------------------------------------- */

/* The first task; NULL when there is none. Lock held. */
static td_task *take(void) {
  td_task *t = io.head;
  if (!t) return NULL;
  io.head = t->next;
  io.queued--;
  return t;
}

static bool has_work(void *arg) {
  (void)arg;
  pthread_mutex_lock(&lock);
  bool some = io.queued > 0;
  pthread_mutex_unlock(&lock);
  return some;
}

/* Lock held before and after. False when nothing came for long. */
static bool wait_for_work(void) {
  io.idle++;
  pthread_mutex_unlock(&lock);
  td_waited why =
      td_waiter_wait(&io.work, td_clock_now() + IDLE_NS, NULL, has_work, NULL);
  pthread_mutex_lock(&lock);
  io.idle--;
  return why == TD_WAITED_READY || io.queued > 0;
}

static void *serve(void *arg) {
  (void)arg;
  mine = true;
  pthread_mutex_lock(&lock);
  do {
    for (td_task *t; (t = take());) {
      pthread_mutex_unlock(&lock);
      t->run(t);
      pthread_mutex_lock(&lock);
    }
  } while (wait_for_work());
  io.threads--;
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* ---- fork: the child has none of the threads, and none of the tasks ------ */

static void before_fork(void) {
  pthread_mutex_lock(&lock);
}
static void in_parent(void) {
  pthread_mutex_unlock(&lock);
}
static void in_child(void) {
  memset(&io, 0, sizeof io);
  pthread_mutex_unlock(&lock);
}
static void init(void) {
  pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- the interface ------------------------------------------------------- */

/* Lock held. False when the queue has nobody to serve it. */
static bool have_thread(void) {
  if (io.queued < io.idle || io.threads - io.aside >= TD_IO_THREADS)
    return true;
  bool started = td_thread_start(NULL, "tide-io", -1, serve, NULL);
  io.threads += started;
  return io.threads > 0;
}

bool td_io_submit(td_task *task) {
  pthread_once(&once, init);
  pthread_mutex_lock(&lock);
  bool ok = io.queued < TD_IO_QUEUED && have_thread();
  if (ok) {
    task->next = NULL;
    *(io.head ? &io.tail->next : &io.head) = task;
    io.tail = task;
    io.queued++;
  }
  pthread_mutex_unlock(&lock);
  if (ok) td_waiter_wake(&io.work);
  return ok;
}

void td_io_step_aside(void) {
  if (!mine) return;
  pthread_mutex_lock(&lock);
  io.aside++;
  /* What waits for one of as many threads as may be is this one's to give. */
  if (io.queued > io.idle) (void)have_thread();
  pthread_mutex_unlock(&lock);
}

void td_io_step_back(void) {
  if (!mine) return;
  pthread_mutex_lock(&lock);
  io.aside--;
  pthread_mutex_unlock(&lock);
}

int td_io_threads(void) {
  pthread_mutex_lock(&lock);
  int n = io.threads;
  pthread_mutex_unlock(&lock);
  return n;
}
