/* far_loop.c - loops of steps that run where a session is kept.
 *
 * A loop is known by a number, drawn here; it is looked at by asking. Who waits
 * for its end asks now and then, more seldom the longer it takes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/base/entropy.h"
#include "engine/base/mem.h"
#include "engine/base/waiter.h"
#include "engine/graphdef/graphdef.h"
#include "engine/remote/far_session.h"
#include "engine/remote/master_impl.h"
#include "engine/run/callable_impl.h"

#define SOON INT64_C(5000000)     /* ns between two looks, at first ... */
#define SELDOM INT64_C(200000000) /* ... and at last */
enum { HEAD = 5, ENDS = 4 };      /* numbers of a LOOP: keeper_ask.c */
#define VALUE_MOST ((size_t)64 << 20)

struct td_far_loop {
  td_far_session *f;   /* the session's */
  td_session *session; /* a share */
  uint64_t number;
  int64_t steps; /* atomic: when it was looked at last */
};

/* ---- starting ------------------------------------------------------------ */

/* 0 for none. */
static td_status *handle_of(td_callable *c, const int *interrupt,
                            uint64_t *out) {
  td_compiled *now;
  *out = 0;
  if (!c) return NULL;
  TD_TRY(td_far_ready(c, interrupt));
  TD_TRY(td_callable_current(c, &now));
  *out = ((td_far_roll *)now->enrollments[0])->handle;
  return NULL;
}

static td_status *fill(td_callable *c, const td_loop_options *o,
                       const int *interrupt, uint64_t *numbers) {
  numbers[0] = td_entropy();
  numbers[1] = (uint64_t)(o->threads ? o->threads : 1);
  numbers[2] = (uint64_t)o->steps;
  numbers[3] = (uint64_t)o->every;
  numbers[4] = o->log ? (uint64_t)o->n_log : 0;
  uint64_t *handle = numbers + HEAD;
  TD_TRY(handle_of(c, interrupt, &handle[0]));
  TD_TRY(handle_of(o->log, interrupt, &handle[1]));
  TD_TRY(handle_of(o->at_end, interrupt, &handle[2]));
  TD_TRY(handle_of(o->at_error, interrupt, &handle[3]));
  for (int i = 0; i < o->n_more; i++)
    TD_TRY(handle_of(o->more[i], interrupt, &handle[ENDS + i]));
  return NULL;
}

static td_status *say(td_far_session *f, td_callable *c,
                      const td_loop_options *o, const int *interrupt,
                      uint64_t *number) {
  size_t n = HEAD + ENDS + (size_t)o->n_more;
  td_str text = {0};
  td_far_question q = {.what = TD_FAR_LOOP,
                       .numbers = td_calloc(n, sizeof *q.numbers),
                       .n_numbers = n,
                       .names = (char **)o->names,
                       .n_names = o->log ? (size_t)o->n_log : 0,
                       .interrupt = interrupt};
  if (!q.numbers) return td_oom();
  td_status *s = fill(c, o, interrupt, q.numbers);
  if (td_ok(s)) s = td_far_ask(f, &q, &text);
  *number = q.numbers[0];
  td_free(q.numbers);
  td_str_deinit(&text);
  return s;
}

td_status *td_far_loop_new(td_far_session *f, uint64_t number,
                           td_far_loop **out) {
  td_far_loop *l = td_calloc(1, sizeof *l);
  if (!l) return td_oom();
  l->f = f;
  l->session = td_session_retain(td_far_home(f));
  l->number = number;
  *out = l;
  return NULL;
}

td_status *td_far_loop_start(td_far_session *f, td_callable *c,
                             const td_loop_options *o, const int *interrupt,
                             td_far_loop **out) {
  uint64_t number = 0;
  TD_TRY(say(f, c, o, interrupt, &number));
  return td_far_loop_new(f, number, out);
}

void td_far_loop_release(td_far_loop *l) {
  if (!l) return;
  td_session_release(l->session);
  td_free(l);
}

/* ---- looking ------------------------------------------------------------- */

static td_status *ask(td_far_loop *l, td_far_what what, const int *interrupt,
                      td_str *out) {
  td_far_question q = {.what = what,
                       .numbers = &l->number,
                       .n_numbers = 1,
                       .interrupt = interrupt};
  return td_far_ask(l->f, &q, out);
}

static td_status *broken(void) {
  return td_error(TD_DATA_LOSS, "what was said of a loop came broken");
}

/* Caller owns *out. */
static bool take_text(td_bytes *from, char **out) {
  uint64_t len;
  td_bytes text;
  if (!td_bytes_get(from, 4, &len) || !td_bytes_take(from, (size_t)len, &text))
    return false;
  *out = td_strndup(text.at, text.len);
  return *out != NULL;
}

/* The error that ended it, as told. */
static td_status *take_error(td_bytes *from, td_status **error) {
  char *text[3] = {NULL, NULL, NULL};
  uint64_t code;
  *error = NULL;
  bool good = td_bytes_get(from, 4, &code);
  for (int i = 0; good && i < 3; i++) good = take_text(from, &text[i]);
  if (good && code > TD_OK && code <= TD_UNAUTHENTICATED)
    *error = td_status_at(td_error((td_code)code, "%s", text[0]),
                          *text[1] ? text[1] : NULL, *text[2] ? text[2] : NULL,
                          NULL, NULL);
  for (int i = 0; i < 3; i++) td_free(text[i]);
  return good ? NULL : broken();
}

/* Which line made the node, where it is of this graph. */
static td_status *add_origin(const td_far_loop *l, td_status *error) {
  td_graph *g = l->session->graph;
  if (!error || !*td_status_node(error)) return error;
  td_graph_lock(g);
  const td_node *n = td_graph_find(g, td_status_node(error));
  if (n) error = td_status_at(error, NULL, NULL, n->origin, NULL);
  td_graph_unlock(g);
  return error;
}

static td_status *read_state(const td_far_loop *l, td_bytes from,
                             td_far_loop_now *out) {
  uint64_t over, steps, failed;
  if (!td_bytes_get(&from, 1, &over) || !td_bytes_get(&from, 8, &steps) ||
      !td_bytes_get(&from, 8, &failed))
    return broken();
  *out = (td_far_loop_now){
      .over = over != 0, .steps = (int64_t)steps, .failed = (int64_t)failed};
  TD_TRY(take_error(&from, &out->error));
  out->error = add_origin(l, out->error);
  return NULL;
}

static bool is_closed(td_session *s) {
  pthread_mutex_lock(&s->lock);
  bool closed = s->closed;
  pthread_mutex_unlock(&s->lock);
  return closed;
}

/* It went with its session. */
static td_far_loop_now at_close(td_far_loop *l) {
  return (td_far_loop_now){
      .over = true,
      .steps = __atomic_load_n(&l->steps, __ATOMIC_RELAXED),
      .error = td_error(TD_CANCELLED, "the session was closed")};
}

td_status *td_far_loop_look(td_far_loop *l, const int *interrupt,
                            td_far_loop_now *out) {
  td_str text = {0};
  *out = (td_far_loop_now){0};
  if (is_closed(l->session)) {
    *out = at_close(l);
    return NULL;
  }
  td_status *s = ask(l, TD_FAR_LOOP_STATE, interrupt, &text);
  if (td_ok(s)) s = read_state(l, (td_bytes){td_str_c(&text), text.len}, out);
  if (td_ok(s)) __atomic_store_n(&l->steps, out->steps, __ATOMIC_RELAXED);
  td_str_deinit(&text);
  return s;
}

td_status *td_far_loop_cancel(td_far_loop *l) {
  td_str text = {0};
  if (is_closed(l->session)) return NULL;
  td_status *s = ask(l, TD_FAR_LOOP_CANCEL, NULL, &text);
  td_str_deinit(&text);
  return s;
}

/* ---- waiting ------------------------------------------------------------- */

static bool never(void *arg) {
  (void)arg;
  return false;
}

static td_status *rest(int64_t until, const int *interrupt, int64_t *pause) {
  td_waiter w = {0};
  int64_t now = td_clock_now(), wake = now + *pause;
  if (now >= until)
    return td_error(TD_DEADLINE_EXCEEDED, "the loop is still running");
  if (*pause < SELDOM) *pause += *pause / 2;
  if (td_waiter_wait(&w, wake < until ? wake : until, interrupt, never, NULL) ==
      TD_WAITED_INTERRUPT)
    return td_error(TD_CANCELLED, "interrupted");
  return NULL;
}

td_status *td_far_loop_wait(td_far_loop *l, int64_t timeout,
                            const int *interrupt) {
  int64_t until = timeout < 0 ? INT64_MAX : td_clock_now() + timeout;
  for (int64_t pause = SOON;;) {
    td_far_loop_now now;
    TD_TRY(td_far_loop_look(l, interrupt, &now));
    if (now.over) return now.error;
    td_status_release(now.error);
    TD_TRY(rest(until, interrupt, &pause));
  }
}

/* ---- the log ------------------------------------------------------------- */

void td_far_loop_kept_deinit(td_far_loop_kept *k) {
  for (int i = 0; k->names && i < k->each; i++) td_free(k->names[i]);
  for (int64_t i = 0; k->values && i < k->n * k->each; i++)
    td_tensor_release(&k->values[i]);
  td_free(k->names);
  td_free(k->steps);
  td_free(k->values);
  *k = (td_far_loop_kept){0};
}

static td_status *take_value(td_bytes *from, td_tensor *out) {
  uint64_t len;
  td_bytes bytes;
  if (!td_bytes_get(from, 4, &len) || !td_bytes_take(from, (size_t)len, &bytes))
    return broken();
  return td_tensorproto_read(bytes.at, bytes.len, VALUE_MOST, out);
}

/* A number of things of which each takes four bytes at least. */
static bool take_count(td_bytes *from, uint64_t *n) {
  return td_bytes_get(from, 4, n) && *n <= from->len / 4;
}

static td_status *read_names(td_bytes *from, td_far_loop_kept *out) {
  uint64_t n;
  if (!take_count(from, &n)) return broken();
  out->names = td_calloc((size_t)n + 1, sizeof *out->names);
  if (!out->names) return td_oom();
  for (uint64_t i = 0; i < n; i++, out->each++)
    if (!take_text(from, &out->names[i])) return broken();
  return NULL;
}

static td_status *read_log(td_bytes from, td_far_loop_kept *out) {
  uint64_t n, step;
  TD_TRY(read_names(&from, out));
  if (!take_count(&from, &n)) return broken();
  if (out->each && n > from.len / 4 / (size_t)out->each) return broken();
  out->steps = td_calloc((size_t)n + 1, sizeof *out->steps);
  out->values =
      td_calloc((size_t)n * (size_t)out->each + 1, sizeof *out->values);
  if (!out->steps || !out->values) return td_oom();
  for (uint64_t i = 0; i < n; i++, out->n++) {
    if (!td_bytes_get(&from, 8, &step)) return broken();
    out->steps[i] = (int64_t)step;
  }
  for (int64_t i = 0; i < out->n * out->each; i++)
    TD_TRY(take_value(&from, &out->values[i]));
  return NULL;
}

td_status *td_far_loop_log(td_far_loop *l, const int *interrupt,
                           td_far_loop_kept *out) {
  td_str text = {0};
  *out = (td_far_loop_kept){0};
  if (is_closed(l->session)) return td_session_closed_error();
  td_status *s = ask(l, TD_FAR_LOOP_LOG, interrupt, &text);
  if (td_ok(s)) s = read_log((td_bytes){td_str_c(&text), text.len}, out);
  td_str_deinit(&text);
  if (!td_ok(s)) td_far_loop_kept_deinit(out);
  return s;
}
