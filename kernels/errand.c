/* errand.c - work on an I/O thread that its kernel may let go of; see errand.h.
 *
 * Who is first, the thread that comes back or the cancel, ends the kernel. One
 * lock for all errands decides that; while a kernel has an errand, the errand
 * is there to be told to stop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/errand.h"

#include <pthread.h>

#include "engine/base/io_threads.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The kernel, if it is still there: nobody finds the errand from it then. */
static td_kernel_ctx *part(td_errand *e) {
  pthread_mutex_lock(&lock);
  td_kernel_ctx *c = e->ctx;
  if (c) c->work = NULL;
  e->ctx = NULL;
  pthread_mutex_unlock(&lock);
  return c;
}

static void run(td_task *task) {
  td_errand *e = (td_errand *)((char *)task - offsetof(td_errand, task));
  td_file_stop *outer = td_file_stop_enter(&e->stop);
  td_status *s = e->kind->run(e);
  td_file_stop_leave(outer);
  td_kernel_ctx *c = part(e);
  td_file_stop_deinit(&e->stop);
  if (c && td_ok(s) && e->kind->finish) s = e->kind->finish(e, c);
  e->kind->drop(e);
  if (c)
    td_kernel_done(c, s);
  else
    td_status_release(s);
}

static td_status *cancelled(void) {
  return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
}

void td_errand_start(td_errand *e, td_kernel_ctx *c) {
  pthread_mutex_lock(&lock);
  bool stopped = td_stopped(c);
  e->ctx = c;
  e->task.run = run;
  if (!stopped) c->work = e; /* a cancel that comes from here on finds it */
  pthread_mutex_unlock(&lock);
  if (!stopped && td_io_submit(&e->task)) return;
  td_kernel_ctx *mine = part(e);
  e->kind->drop(e);
  if (mine)
    td_kernel_done(mine, stopped ? cancelled()
                                 : td_error(TD_RESOURCE_EXHAUSTED,
                                            "too much is read and written at "
                                            "once: %d calls wait",
                                            TD_IO_QUEUED));
}

void td_errand_cancel(td_kernel_ctx *c) {
  pthread_mutex_lock(&lock);
  td_errand *e = c->work;
  if (e && e->held) e = NULL;
  if (e) {
    e->ctx = NULL;
    c->work = NULL;
    td_file_stop_fire(&e->stop);
  }
  pthread_mutex_unlock(&lock);
  if (e) td_kernel_done(c, cancelled());
}

bool td_errand_wanted(td_errand *e) {
  pthread_mutex_lock(&lock);
  bool wanted = e->ctx != NULL;
  pthread_mutex_unlock(&lock);
  return wanted;
}

bool td_errand_hold(td_errand *e) {
  pthread_mutex_lock(&lock);
  e->held = e->ctx != NULL;
  pthread_mutex_unlock(&lock);
  return e->held;
}

void td_errand_why(const td_kernel_ctx *c, td_str *out) {
  pthread_mutex_lock(&lock);
  const td_errand *e = c->work;
  if (e) td_str_addf(out, "a thread that %s '%s'", e->kind->doing, e->what);
  pthread_mutex_unlock(&lock);
}
