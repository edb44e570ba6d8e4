/* master_ask.c - questions to a member beside its steps, and their answers.
 *
 * Who asks waits, for ten seconds at most.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/remote/master_impl.h"

#define PATIENCE INT64_C(10000000000) /* ns */

/* On the stack of who asks; in the member's list until it is answered. */
struct td_question {
  td_question *prev, *next;
  uint64_t id;
  bool done; /* atomic */
  td_status *status;
  td_str text;
};

typedef struct asked {
  Td__Remote__Ask__What what;
  const char *name, *to;
  td_bytes state;
  uint64_t step;
} asked;

static void list(td_member *m, td_question *q) {
  q->next = m->questions;
  if (q->next) q->next->prev = q;
  m->questions = q;
}

static void unlist(td_member *m, td_question *q) {
  if (q->prev)
    q->prev->next = q->next;
  else
    m->questions = q->next;
  if (q->next) q->next->prev = q->prev;
}

static void settle(td_question *q, td_status *s) {
  q->status = s;
  __atomic_store_n(&q->done, true, __ATOMIC_RELEASE);
}

void td_member_answered(td_member *m, const Td__Remote__Answer *a) {
  td_question *q = m->questions;
  while (q && q->id != a->id) q = q->next;
  if (!q || q->done) return;
  td_str_addn(&q->text, (const char *)a->text.data, a->text.len);
  settle(q, td_wire_status_in(a->status, m->task));
  td_remote_news(td_member_remote(m));
}

void td_questions_fail(td_member *m) {
  for (td_question *q = m->questions; q; q = q->next)
    if (!q->done) settle(q, td_status_retain(m->error));
  td_remote_news(td_member_remote(m));
}

static td_status *say(td_member *m, const asked *a, uint64_t id) {
  td_head head;
  Td__Remote__Ask body = TD__REMOTE__ASK__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_ASK;
  head.ask = &body;
  body.id = id;
  body.what = a->what;
  body.name = (char *)(a->name ? a->name : "");
  body.to = (char *)(a->to ? a->to : "");
  body.state.data = (uint8_t *)a->state.at;
  body.state.len = a->state.len;
  body.step = a->step;
  return td_member_send(m, TD_LANE_CONTROL, &head, NULL, 0);
}

static bool is_done(void *arg) {
  return __atomic_load_n(&((td_question *)arg)->done, __ATOMIC_ACQUIRE);
}

/* Appends the answer to `out` (NULL: there is none). */
static td_status *ask(td_participant *p, const asked *a, td_str *out) {
  td_member *m = (td_member *)p;
  td_remote *r = td_member_remote(m);
  td_question q = {0};
  td_remote_enter(r);
  q.id = td_remote_number(r);
  td_status *s = m->state == TD_MEMBER_OPEN ? say(m, a, q.id)
                 : m->error                 ? td_status_retain(m->error)
                                            : td_error(TD_UNAVAILABLE,
                                                       "%s takes no part any more", m->task);
  if (td_ok(s)) list(m, &q);
  td_remote_leave(r);
  TD_TRY(s);
  bool done = td_pump_until(r, td_clock_now() + PATIENCE, NULL, is_done, &q);
  td_remote_enter(r);
  unlist(m, &q);
  td_remote_leave(r);
  s = done ? q.status
           : td_error(TD_DEADLINE_EXCEEDED, "%s did not answer within %.0f s",
                      m->task, (double)PATIENCE * 1e-9);
  if (td_ok(s) && out) td_str_addn(out, td_str_c(&q.text), q.text.len);
  td_str_deinit(&q.text);
  return s;
}

td_status *td_member_rename(td_participant *p, const char *name,
                            const char *to) {
  asked a = {TD__REMOTE__ASK__WHAT__RENAME, name, to, {"", 0}, 0};
  return ask(p, &a, NULL);
}

/* Nothing lives in a process that does not answer, as far as anybody knows. */
void td_member_lives(td_participant *p, const td_device *d, td_str *names) {
  asked a = {TD__REMOTE__ASK__WHAT__LIVES_ON, d->name, "", {"", 0}, 0};
  td_status_release(ask(p, &a, names));
}

void td_member_drop(td_participant *p, const td_device *d) {
  asked a = {TD__REMOTE__ASK__WHAT__DROP_ON, d->name, "", {"", 0}, 0};
  td_status_release(ask(p, &a, NULL));
}

td_status *td_member_stats(td_participant *p, td_str *out) {
  asked a = {TD__REMOTE__ASK__WHAT__STATS, "", "", {"", 0}, 0};
  return ask(p, &a, out);
}

td_status *td_member_save(td_participant *p, td_str *out) {
  asked a = {TD__REMOTE__ASK__WHAT__SAVE, "", "", {"", 0}, 0};
  return ask(p, &a, out);
}

td_status *td_member_load(td_participant *p, td_bytes from, td_str *waiting) {
  asked a = {TD__REMOTE__ASK__WHAT__LOAD, "", "", from, 0};
  return ask(p, &a, waiting);
}

void td_member_clear(td_participant *p) {
  asked a = {TD__REMOTE__ASK__WHAT__CLEAR, "", "", {"", 0}, 0};
  td_status_release(ask(p, &a, NULL));
}

td_status *td_member_reset_container(td_participant *p, const char *container) {
  asked a = {TD__REMOTE__ASK__WHAT__RESET, container, "", {"", 0}, 0};
  return ask(p, &a, NULL);
}

/* Serials as ranges, first and last: most nodes stand in a row. */
static void put_ranges(const td_makers *alive, td_str *out) {
  for (size_t i = 0, end; i < alive->n; i = end) {
    for (end = i + 1; end < alive->n; end++)
      if (alive->serials[end] != alive->serials[end - 1] + 1) break;
    td_bytes_put(out, alive->serials[i], 8);
    td_bytes_put(out, alive->serials[end - 1], 8);
  }
}

/* Nobody waits for it: what is not heard is swept the next time. */
void td_member_sweep(td_participant *p, const td_makers *alive) {
  td_member *m = (td_member *)p;
  td_remote *r = td_member_remote(m);
  td_str ranges = {0};
  put_ranges(alive, &ranges);
  asked a = {TD__REMOTE__ASK__WHAT__SWEEP,
             "",
             "",
             {td_str_c(&ranges), ranges.len},
             alive->last};
  td_remote_enter(r);
  if (m->state == TD_MEMBER_OPEN && !ranges.failed)
    td_status_release(say(m, &a, td_remote_number(r)));
  td_remote_leave(r);
  td_str_deinit(&ranges);
}
