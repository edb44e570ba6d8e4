/* interrupt.c - interrupts what runs.
 *
 * An interrupt by message and one by signal take the same road: through the
 * control thread, which follows up. A line that has not seen its interrupt gets
 * the signal again, since a wait in a library may have begun just after the
 * first; after two seconds people are told what holds it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "jupyter/kernel_impl.h"

enum { PATIENCE_NS = 2000000000 };

static bool interrupt(td_jupyter_worker *w, void *arg) {
  td_jupyter_worker_interrupt(w, *(uint64_t *)arg);
  return false;
}

void td_jupyter_interrupt_all(td_jupyter_kernel *k) {
  uint64_t number = td_jupyter_shell_drain(k->shell);
  interrupt(&k->main, &number);
  interrupt(&k->side, &number);
  if (k->debug.started) interrupt(&k->debug, &number);
  td_jupyter_subshell_each(&k->subshells, interrupt, &number);
  k->interrupted_ns = td_clock_now();
  k->told = false;
}

/* What a line that does not stop is at. */
static void tell(td_jupyter_worker *w) {
  td_jupyter_request *r = td_jupyter_worker_served(w);
  const char *text =
      td_line_waiting(w->line)
          ? "[the interrupt is not obeyed yet: a running operation holds on]\n"
          : "[the interrupt is not obeyed yet: a C function called from Lua, "
            "which cannot be stopped, holds on; restart the kernel to end "
            "it]\n";
  if (r) td_jupyter_iopub_text(w->iopub, r, 2, text, strlen(text));
  td_jupyter_request_release(r);
}

/* True while the line has not seen its interrupt. */
static bool follow(td_jupyter_worker *w, bool say) {
  bool pending = td_line_nudge(w->line);
  if (pending && say) tell(w);
  return pending;
}

typedef struct walk {
  bool say, pending;
} walk;

static bool follow_one(td_jupyter_worker *w, void *arg) {
  walk *a = arg;
  if (follow(w, a->say)) a->pending = true;
  return false;
}

bool td_jupyter_interrupt_follow(td_jupyter_kernel *k) {
  if (!k->interrupted_ns) return false;
  walk a = {.say =
                !k->told && td_clock_now() - k->interrupted_ns > PATIENCE_NS};
  follow_one(&k->main, &a);
  follow_one(&k->side, &a);
  td_jupyter_subshell_each(&k->subshells, follow_one, &a);
  if (a.say) k->told = true;
  if (!a.pending) k->interrupted_ns = 0;
  return a.pending;
}
