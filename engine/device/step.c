/* step.c - a step that fails, and the threads that wait for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/step.h"

void td_step_fail(td_step *step, td_status *cause) {
  td_cancel_fire(step->cancel, cause);
  td_status *first = td_cancel_cause(step->cancel);
  td_rendezvous_abort(step->rendezvous, first);
  td_status_release(first);
}

/* Both sides change `gone` or `mail` first and then look at the other: either
 * the one who posts sees that nobody waits, or the task is seen here. */
void td_caller_go(td_caller *c) {
  (void)__atomic_exchange_n(&c->gone, 1, __ATOMIC_ACQ_REL);
  td_waiter_run(c->mail);
}

void td_caller_post(td_caller *c, td_task *task) {
  td_waiter_post(c->mail, task);
  if (td_caller_gone(c))
    td_waiter_run(c->mail);
  else if (c->rouse)
    c->rouse(c);
}
