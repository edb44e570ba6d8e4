/* worker_look.c - what others may see of a step that runs here: what it prints,
 * what it ran when it is traced, what it waits for.
 *
 * What is printed goes to the master at each tick and before DONE, 64 KiB at a
 * time; of what is beyond, the lines are counted. Of a trace the first
 * TD_TRACE_MOST events go, with DONE.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/remote/worker_impl.h"
#include "engine/run/trace_pack.h"

/* ---- what it prints ------------------------------------------------------ */

/* Lines, the last of which may lack its end. */
static uint64_t count_lines(const char *text, size_t len) {
  uint64_t n = len > 0 && text[len - 1] != '\n';
  for (size_t i = 0; i < len; i++) n += text[i] == '\n';
  return n;
}

void td_hosted_printed(void *arg, const char *text, size_t len) {
  td_hosted_step *step = arg;
  pthread_mutex_lock(&step->lock);
  if (step->printed.len + len <= TD_WIRE_EAGER)
    td_str_addn(&step->printed, text, len);
  else
    step->unprinted += count_lines(text, len);
  pthread_mutex_unlock(&step->lock);
}

void td_hosted_say_printed(td_hosted_step *step) {
  td_hosted *h = step->of;
  td_head head;
  Td__Remote__Text body = TD__REMOTE__TEXT__INIT;
  pthread_mutex_lock(&step->lock);
  td_str text = step->printed;
  body.dropped = step->unprinted;
  step->printed = (td_str){0};
  step->unprinted = 0;
  pthread_mutex_unlock(&step->lock);
  if ((text.len || body.dropped) && h->master->health.state != TD_DEAD) {
    td_head_init(&head, &h->id);
    head.body_case = TD__REMOTE__MESSAGE__BODY_LOG;
    head.log = &body;
    body.step = step->number;
    body.text = (char *)td_str_c(&text);
    td_status_release(td_peer_send(h->master, TD_LANE_CONTROL, &head, NULL, 0));
  }
  td_str_deinit(&text);
}

void td_hosted_steps_tick(td_hosted *h) {
  for (td_hosted_step *next, *step = h->steps; step; step = next) {
    next = step->next;
    td_hosted_say_printed(step);
  }
}

/* ---- its trace ----------------------------------------------------------- */

/* Without memory the step goes on without it. */
void td_hosted_start_trace(td_hosted_step *step) {
  td_status_release(td_trace_new(&step->trace));
  if (step->trace) td_trace_limit(step->trace, TD_TRACE_MOST);
  step->start.trace = step->trace;
}

void td_hosted_pack_trace(td_hosted_step *step) {
  if (step->trace) td_status_release(td_trace_pack(step->trace, &step->traced));
}

/* ---- what it waits for --------------------------------------------------- */

void td_hosted_why(td_hosted *h, uint64_t number, td_str *out) {
  td_hosted_step *step = td_hosted_step_find(h, number);
  if (!step || step->over) return;
  if (step->begun)
    h->local->ops->why(step->portion, out);
  else
    td_str_addf(out, "%s waits for %d feeds\n",
                td_runtime_place(h->of->runtime), step->pulling);
}
