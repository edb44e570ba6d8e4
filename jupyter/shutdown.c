/* shutdown.c - ends what runs: politely, by an interrupt, or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <time.h>
#include <unistd.h>

#include "jupyter/kernel_impl.h"
#include "jupyter/log.h"

enum {
  STRAGGLER_MS = 20, /* for requests on their way */
  GRACE_MS = 250,    /* then, for what is nearly done */
  PATIENCE_MS = 1500 /* then, after an interrupt */
};

static void rest(long ms) {
  struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

static bool is_busy(td_jupyter_worker *w, void *arg) {
  (void)arg;
  return td_jupyter_worker_busy(w);
}

static bool stop_worker(td_jupyter_worker *w, void *arg) {
  (void)arg;
  td_jupyter_worker_stop(w);
  return false;
}

static bool any_busy(td_jupyter_kernel *k) {
  return td_jupyter_worker_busy(&k->main) || td_jupyter_worker_busy(&k->side) ||
         td_jupyter_subshell_each(&k->subshells, is_busy, NULL);
}

static bool wait_idle(td_jupyter_kernel *k, int ms) {
  for (int i = 0; i < ms && any_busy(k); i++) rest(1);
  return !any_busy(k);
}

static void stop_all(td_jupyter_kernel *k) {
  td_jupyter_worker_stop(&k->main);
  td_jupyter_worker_stop(&k->side);
  td_jupyter_subshell_each(&k->subshells, stop_worker, NULL);
}

/* What was sent before the shutdown may come by another socket after it. What
 * waits runs while the grace lasts; then what runs is stopped. */
void td_jupyter_shutdown(td_jupyter_kernel *k) {
  uint64_t before, number = td_jupyter_shell_drain(k->shell);
  do {
    before = number;
    rest(STRAGGLER_MS);
    number = td_jupyter_shell_drain(k->shell);
  } while (number != before);
  __atomic_store_n(&k->stopping, 1, __ATOMIC_RELEASE);
  bool idle = wait_idle(k, GRACE_MS);
  stop_all(k);
  if (idle) return;
  td_jupyter_interrupt_all(k);
  for (int i = 0; i < PATIENCE_MS / 50 && any_busy(k); i++) {
    td_jupyter_interrupt_follow(k);
    wait_idle(k, 50);
  }
}

void td_jupyter_shutdown_abandon(td_jupyter_kernel *k) {
  td_jupyter_log("a cell does not stop; it is left as it is");
  td_jupyter_iopub_flush(k->iopub);
  rest(STRAGGLER_MS); /* for what is in the sockets */
  _exit(0);
}
