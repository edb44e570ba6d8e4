/* keeper_loop.c - loops of steps of kept sessions, known by number.
 *
 * The session owns them, as any session does; what is kept here are handles, so
 * that whoever comes back finds the log of one that has ended as well. Of many
 * the oldest that ended goes first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/mem.h"
#include "engine/graphdef/graphdef.h"
#include "engine/remote/keeper_impl.h"

enum { LOG_MOST = 10000 }; /* records of a log: loop.c keeps no more */

/* Under the lock; NULL: there is none. */
static td_kept_loop *find(td_kept_session *k, uint64_t number) {
  for (size_t i = 0; i < k->loops.len; i++)
    if (k->loops.at[i].number == number) return &k->loops.at[i];
  return NULL;
}

/* Under the lock: room for one more. *gone: a handle that left. */
static td_status *make_room(td_kept_session *k, td_loop **gone) {
  *gone = NULL;
  if (k->loops.len < TD_KEPT_LOOPS)
    return td_vec_reserve(&k->loops, 1) ? NULL : td_oom();
  for (size_t i = 0; i < k->loops.len; i++) {
    if (!td_loop_over(k->loops.at[i].loop)) continue;
    *gone = k->loops.at[i].loop;
    memmove(&k->loops.at[i], &k->loops.at[i + 1],
            (--k->loops.len - i) * sizeof k->loops.at[0]);
    return NULL;
  }
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "session \"%s\" has %zu loops that go on, as many as may be",
                  k->name, k->loops.len);
}

static td_status *start(const td_kept_loop_start *o, td_loop **out) {
  td_loop_options how = {.threads = o->threads,
                         .steps = o->steps,
                         .log = o->log,
                         .names = o->names,
                         .n_log = o->n_log,
                         .every = o->every,
                         .more = o->more,
                         .n_more = o->n_more,
                         .at_end = o->at_end,
                         .at_error = o->at_error};
  return td_loop_start(o->step, &how, out);
}

td_status *td_kept_loop_begin(td_kept_session *k, const td_kept_loop_start *o) {
  td_loop *gone = NULL, *loop = NULL;
  pthread_mutex_lock(&k->lock);
  bool there = find(k, o->number) != NULL;
  td_status *s = there ? NULL : make_room(k, &gone);
  if (td_ok(s) && !there) s = start(o, &loop);
  if (loop) k->loops.at[k->loops.len++] = (td_kept_loop){o->number, loop};
  pthread_mutex_unlock(&k->lock);
  td_loop_release(gone);
  return s;
}

void td_kept_loops_drop(td_kept_session *k) {
  while (k->loops.len > 0) td_loop_release(k->loops.at[--k->loops.len].loop);
}

void td_kept_loop_list(td_kept_session *k, td_str *out) {
  pthread_mutex_lock(&k->lock);
  for (size_t i = 0; i < k->loops.len; i++)
    td_bytes_put(out, k->loops.at[i].number, 8);
  pthread_mutex_unlock(&k->lock);
}

/* Caller owns the result. */
static td_status *take(td_kept_session *k, uint64_t number, td_loop **out) {
  pthread_mutex_lock(&k->lock);
  const td_kept_loop *l = find(k, number);
  *out = l ? td_loop_retain(l->loop) : NULL;
  pthread_mutex_unlock(&k->lock);
  if (*out) return NULL;
  return td_error(TD_NOT_FOUND, "session \"%s\" has no such loop any more",
                  k->name);
}

td_status *td_kept_loop_cancel(td_kept_session *k, uint64_t number) {
  td_loop *l;
  TD_TRY(take(k, number, &l));
  td_loop_cancel(l);
  td_loop_release(l);
  return NULL;
}

/* What a text has, counted. */
static void put_text(td_str *out, const char *text) {
  td_bytes_put(out, strlen(text), 4);
  td_str_add(out, text);
}

/* Over, steps, when it failed, then the error that ended it: code, text, op,
 * node. */
td_status *td_kept_loop_state(td_kept_session *k, uint64_t number,
                              td_str *out) {
  td_loop *l;
  TD_TRY(take(k, number, &l));
  bool over = td_loop_over(l);
  td_status *s = over ? td_loop_wait(l, 0, NULL) : NULL;
  td_bytes_put(out, over, 1);
  td_bytes_put(out, (uint64_t)td_loop_steps(l), 8);
  td_bytes_put(out, (uint64_t)td_loop_failed(l), 8);
  td_loop_release(l);
  td_bytes_put(out, (uint64_t)td_status_code(s), 4);
  put_text(out, td_ok(s) ? "" : td_status_message(s));
  put_text(out, td_ok(s) ? "" : td_status_op(s));
  put_text(out, td_ok(s) ? "" : td_status_node(s));
  td_status_release(s);
  return out->failed ? td_oom() : NULL;
}

static td_status *put_value(td_str *out, const td_tensor *t) {
  char *bytes;
  size_t len;
  TD_TRY(td_tensorproto_write(t, &bytes, &len));
  td_bytes_put(out, len, 4);
  td_str_addn(out, bytes, len);
  td_free(bytes);
  return NULL;
}

/* How many names, these; how many steps, these; values by step. */
static td_status *put_log(td_loop *l, int64_t n, int64_t *steps,
                          td_tensor *values, td_str *out) {
  int each = td_loop_logs(l);
  td_status *s = NULL;
  td_bytes_put(out, (uint64_t)each, 4);
  for (int i = 0; i < each; i++) put_text(out, td_loop_log_name(l, i));
  td_bytes_put(out, (uint64_t)n, 4);
  for (int64_t i = 0; i < n; i++) td_bytes_put(out, (uint64_t)steps[i], 8);
  for (int64_t i = 0; i < n * each; i++) {
    if (td_ok(s)) s = put_value(out, &values[i]);
    td_tensor_release(&values[i]);
  }
  return s;
}

td_status *td_kept_loop_log(td_kept_session *k, uint64_t number, td_str *out) {
  td_loop *l;
  TD_TRY(take(k, number, &l));
  int64_t room = td_loop_log(l, NULL, NULL, 0), n = 0;
  if (room > LOG_MOST) room = LOG_MOST;
  size_t cells = (size_t)room * (size_t)td_loop_logs(l);
  int64_t *steps = td_calloc((size_t)room + 1, sizeof *steps);
  td_tensor *values = td_calloc(cells + 1, sizeof *values);
  if (steps && values) n = td_loop_log(l, steps, values, room);
  if (n > room) n = room;
  td_status *s = steps && values ? put_log(l, n, steps, values, out) : td_oom();
  td_loop_release(l);
  td_free(steps);
  td_free(values);
  return td_ok(s) && out->failed ? td_oom() : s;
}
