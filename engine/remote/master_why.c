/* master_why.c - what a member's part of a step waits for.
 *
 * The member is asked, and its answer kept with the portion: `why` itself never
 * waits. Who wants to know asks all portions first and then waits for them
 * together (td_participant_ops.inquire). Of one that does not answer it is told
 * for how long nothing was heard.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/master_impl.h"

enum { ANSWER_MOST = 64 << 10 /* bytes of it that are kept */ };

/* ---- asking -------------------------------------------------------------- */

static bool can_tell(const td_far_portion *n) {
  return (n->state == TD_PORTION_RUNNING || n->state == TD_PORTION_FAILING) &&
         !n->done && n->of->of->state == TD_MEMBER_OPEN;
}

static void say_ask(td_far_portion *n) {
  td_member *m = n->of->of;
  td_head head;
  Td__Remote__Ask body = TD__REMOTE__ASK__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_ASK;
  head.ask = &body;
  body.id = n->why.question = td_remote_number(td_member_remote(m));
  body.what = TD__REMOTE__ASK__WHAT__WHY;
  body.name = body.to = td_wire_text(NULL);
  body.step = n->start.step;
  n->why.asked = td_clock_now();
  __atomic_store_n(&n->why.open, 1, __ATOMIC_RELEASE);
  td_status_release(td_member_send(m, TD_LANE_CONTROL, &head, NULL, 0));
}

/* Somebody who asked a moment ago waits for the same answer. */
static void ask(td_far_portion *n) {
  td_remote *r = td_member_remote(n->of->of);
  td_remote_enter(r);
  if (!can_tell(n))
    __atomic_store_n(&n->why.open, 0, __ATOMIC_RELEASE);
  else if (!__atomic_load_n(&n->why.open, __ATOMIC_ACQUIRE))
    say_ask(n);
  td_remote_leave(r);
}

static bool is_answered(void *arg) {
  const td_far_portion *n = arg;
  return !__atomic_load_n(&n->why.open, __ATOMIC_ACQUIRE) ||
         !__atomic_load_n(&n->out, __ATOMIC_ACQUIRE);
}

void td_member_inquire(td_portion *p, int64_t until) {
  td_far_portion *n = (td_far_portion *)p;
  td_remote *r = td_remote_retain(td_member_remote(n->of->of));
  if (until)
    (void)td_pump_until(r, until, NULL, is_answered, n);
  else
    ask(n);
  td_remote_release(r);
}

/* ---- the answer ---------------------------------------------------------- */

/* What another process says is text, whatever it holds: lines, moved in. */
static void add_lines(td_str *out, td_bytes text) {
  size_t len = text.len < ANSWER_MOST ? text.len : ANSWER_MOST;
  bool begins = true;
  for (size_t i = 0; i < len; i++) {
    char c = ((const char *)text.at)[i];
    if (c != '\n' && begins) td_str_add(out, "  ");
    td_str_addc(out, c == '\n' || (unsigned char)c >= ' ' ? c : '?');
    begins = c == '\n';
  }
  if (!begins) td_str_addc(out, '\n');
}

bool td_portion_explained(td_member *m, const Td__Remote__Answer *a) {
  td_far_portion *n = m->running;
  while (n && n->why.question != a->id) n = n->next;
  if (!n || a->id == 0) return false;
  td_str_clear(&n->why.text);
  add_lines(&n->why.text, (td_bytes){(const char *)a->text.data, a->text.len});
  n->why.question = 0;
  __atomic_store_n(&n->why.open, 0, __ATOMIC_RELEASE);
  td_remote_news(td_member_remote(m));
  return true;
}

/* ---- telling ------------------------------------------------------------- */

void td_member_why(td_portion *p, td_str *out) {
  td_far_portion *n = (td_far_portion *)p;
  td_member *m = n->of->of;
  td_remote *r = td_member_remote(m);
  td_remote_enter(r);
  int64_t now = td_clock_now(), heard = m->peer->health.heard;
  if (n->state != TD_PORTION_ENDED) {
    td_str_addf(
        out, "%s (%s, heard %.1f s ago) has %s for %.1f s", m->task,
        td_health_name(m->peer->health.state), (double)(now - heard) * 1e-9,
        n->state == TD_PORTION_HELD ? "not yet registered this step, begun"
                                    : "been running its part of the step",
        (double)(now - n->began) * 1e-9);
    if (n->why.open)
      td_str_addf(out, "; asked what it waits for %.1f s ago, it is silent",
                  (double)(now - n->why.asked) * 1e-9);
    td_str_addc(out, '\n');
    td_str_addn(out, td_str_c(&n->why.text), n->why.text.len);
  }
  td_remote_leave(r);
}
