/* session_why.c - what a step waits for, here and elsewhere.
 *
 * Participants of other processes are asked, all at once, and given a while to
 * answer; no lock is held. Their answers follow each other, and before them
 * stands who waits for whom (why_chain.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/run/session_impl.h"
#include "engine/run/why_chain.h"

static bool is_elsewhere(const td_session_step *step) {
  for (int i = 0; i < step->n_portions; i++)
    if (step->portions[i].portion->of->ops->inquire) return true;
  return false;
}

void td_session_step_inquire(td_session_step *step, int64_t patience) {
  int64_t until = td_clock_now() + patience;
  for (int again = 0; again < 1 + (patience > 0); again++)
    for (int i = 0; i < step->n_portions; i++) {
      td_portion *n = step->portions[i].portion;
      if (n->of->ops->inquire) n->of->ops->inquire(n, again ? until : 0);
    }
}

/* Those of this process first: their lines are below no name. */
static void each(td_session_step *step, bool elsewhere, td_str *out) {
  for (int i = 0; i < step->n_portions; i++) {
    td_portion *n = step->portions[i].portion;
    if ((n->of->ops->inquire != NULL) == elsewhere) n->of->ops->why(n, out);
  }
}

void td_session_step_why(td_session_step *step, td_str *out) {
  td_str text = {0};
  each(step, false, &text);
  each(step, true, &text);
  if (is_elsewhere(step))
    td_why_chain(td_str_c(&text), td_runtime_place(step->session->runtime),
                 out);
  td_str_addn(out, td_str_c(&text), text.len);
  td_str_deinit(&text);
}
