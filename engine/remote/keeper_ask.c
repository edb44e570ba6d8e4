/* keeper_ask.c - what clients ask of kept sessions beside steps.
 *
 * Questions are answered on I/O threads, since some wait (attaching a worker,
 * the end of a session). An answer is a value of bytes, numbers with the lowest
 * byte first and texts with their length before them, which far_session.c
 * reads; a long one is pulled, as any value is. A question is one head: of what
 * may be long its client makes several.
 *
 *   LIST         n, of each: name, steps, ms since it was made, loops, whether
 *                it outlives its maker
 *   END          ends the session, for all who have it
 *   GRAPH        n, serials and names of nodes, the graph: td_kept_write
 *   ADOPT        number: pairs, a node's serial here and at the client:
 *                td_kept_adopt
 *   WHY EXPLAIN  a text
 *   DEVICES      n, names
 *   WORKERS      n, rows as TD_REMOTE_ROW has them
 *   ATTACH       text: address, key, time: ns -> the task
 *   DETACH       text: task, flag: with what it holds
 *   RESET        text: a container of the process
 *   LOOP         number: its own, threads, steps, every, how many names; then
 *                handles of what it runs: step, log, at_end, at_error (0:
 *                none), more; name: those of the log
 *   LOOPS        numbers
 *   LOOP_STATE   LOOP_CANCEL LOOP_LOG   number: its own; keeper_loop.c
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "engine/remote/keeper_impl.h"
#include "engine/remote/worker_impl.h"

#define LONGEST INT64_C(1000000000000000) /* ns that ATTACH may take */
enum { ASKED_MOST = 256, LOOP_HEAD = 5, LOOP_ENDS = 4, LOOP_MORE = 64 };

typedef struct asked_here {
  td_task task;
  td_peer *peer; /* a share */
  td_remote *of; /* a share */
  td_session_id id;
  td_kept_session *kept; /* a share; NULL: it is asked of the keeper */
  uint64_t number;
  int what;
  char *text, *key;
  int64_t time;
  bool flag;
  uint64_t *numbers;
  size_t n_numbers;
  char **names;
  size_t n_names;
  td_callable **callables; /* of LOOP; shares */
  size_t n_callables;
  td_str out;
  td_status *status;
} asked_here;

/* ---- answers ------------------------------------------------------------- */

static void put_text(td_str *out, const char *text) {
  td_bytes_put(out, strlen(text), 4);
  td_str_add(out, text);
}

static void put_double(td_str *out, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  td_bytes_put(out, bits, 8);
}

static uint64_t loops_of(td_kept_session *k) {
  return (uint64_t)td_session_loops(k->session, NULL, 0);
}

/* Shares of all that are kept. Caller owns the list. */
static td_kept_session **copy_list(td_remote *r, size_t *n) {
  *n = 0;
  td_remote_enter(r);
  size_t all = r->keeper ? r->keeper->all.len : 0;
  td_kept_session **list = td_calloc(all + 1, sizeof(td_kept_session *));
  for (; list && *n < all; ++*n)
    list[*n] = td_kept_retain(r->keeper->all.at[*n]);
  td_remote_leave(r);
  return list;
}

static td_status *list_all(asked_here *q) {
  size_t n;
  td_kept_session **list = copy_list(q->of, &n);
  if (!list) return td_oom();
  td_bytes_put(&q->out, n, 4);
  for (size_t i = 0; i < n; i++) {
    td_kept_session *k = list[i];
    put_text(&q->out, k->name);
    td_bytes_put(&q->out, (uint64_t)td_session_read_stats(k->session).steps, 8);
    td_bytes_put(&q->out, (uint64_t)(td_clock_now() - k->made) / 1000000, 8);
    td_bytes_put(&q->out, loops_of(k), 8);
    td_bytes_put(&q->out, k->outlive, 1);
    td_kept_release(k);
  }
  td_free(list);
  return NULL;
}

static td_status *list_devices(asked_here *q) {
  td_device **all;
  int n;
  TD_TRY(td_session_list_devices(q->kept->session, &all, &n));
  td_bytes_put(&q->out, (uint64_t)n, 4);
  for (int i = 0; i < n; i++) put_text(&q->out, all[i]->name);
  td_runtime_drop_devices(all, n);
  return NULL;
}

typedef struct row_list {
  td_str text;
  uint64_t n;
} row_list;

static void put_row(void *arg, const td_remote_row *row) {
  row_list *to = arg;
  to->n++;
#define TEXT(field, name) put_text(&to->text, row->field);
#define SECONDS(field, name) put_double(&to->text, row->field);
#define NUMBER(field, name) td_bytes_put(&to->text, (uint64_t)row->field, 8);
  TD_REMOTE_ROW(TEXT, TEXT, SECONDS, NUMBER, NUMBER)
#undef TEXT
#undef SECONDS
#undef NUMBER
}

static td_status *list_workers(asked_here *q) {
  row_list to = {0};
  td_remote_rows(q->of, q->kept->session, put_row, &to);
  td_bytes_put(&q->out, to.n, 4);
  td_str_addn(&q->out, td_str_c(&to.text), to.text.len);
  td_status *s = to.text.failed ? td_oom() : NULL;
  td_str_deinit(&to.text);
  return s;
}

static td_status *attach(asked_here *q) {
  td_member *m;
  td_attach_options o = {
      .to = {.control = q->text, .key = *q->key ? q->key : NULL},
      .timeout = q->time};
  td_io_step_aside();
  td_status *s = td_remote_attach(q->of, q->kept->session, &o, &m);
  td_io_step_back();
  TD_TRY(s);
  td_str_add(&q->out, ((const td_participant *)m)->task);
  return NULL;
}

static td_status *detach(asked_here *q) {
  td_io_step_aside();
  td_status *s = td_remote_detach(q->of, q->kept->session, q->text, q->flag);
  td_io_step_back();
  return s;
}

static td_status *begin_loop(asked_here *q) {
  td_callable **c = q->callables;
  if (q->n_callables < LOOP_ENDS || !c[0])
    return td_error(TD_INVALID_ARGUMENT, "a loop of nothing");
  if (q->numbers[1] > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT, "a loop of %llu threads",
                    (unsigned long long)q->numbers[1]);
  if (q->n_names > q->numbers[4] || q->numbers[4] > q->n_names)
    return td_error(TD_INVALID_ARGUMENT, "a log of %zu names", q->n_names);
  td_kept_loop_start o = {.number = q->numbers[0],
                          .threads = (int)q->numbers[1],
                          .steps = (int64_t)q->numbers[2],
                          .every = (int64_t)q->numbers[3],
                          .n_log = (int)q->n_names,
                          .names = (const char *const *)q->names,
                          .step = c[0],
                          .log = c[1],
                          .at_end = c[2],
                          .at_error = c[3],
                          .more = c + LOOP_ENDS,
                          .n_more = (int)(q->n_callables - LOOP_ENDS)};
  return td_kept_loop_begin(q->kept, &o);
}

static td_status *answer_loop(asked_here *q) {
  uint64_t number = q->n_numbers ? q->numbers[0] : 0;
  switch (q->what) {
  case TD__REMOTE__KEEP_ASK__WHAT__LOOP:
    return begin_loop(q);
  case TD__REMOTE__KEEP_ASK__WHAT__LOOPS:
    td_kept_loop_list(q->kept, &q->out);
    return NULL;
  case TD__REMOTE__KEEP_ASK__WHAT__LOOP_STATE:
    return td_kept_loop_state(q->kept, number, &q->out);
  case TD__REMOTE__KEEP_ASK__WHAT__LOOP_CANCEL:
    return td_kept_loop_cancel(q->kept, number);
  case TD__REMOTE__KEEP_ASK__WHAT__LOOP_LOG:
    return td_kept_loop_log(q->kept, number, &q->out);
  default:
    return td_error(TD_UNIMPLEMENTED, "no such question: %d", q->what);
  }
}

static td_status *answer(asked_here *q) {
  switch (q->what) {
  case TD__REMOTE__KEEP_ASK__WHAT__LIST:
    return list_all(q);
  case TD__REMOTE__KEEP_ASK__WHAT__END:
    td_kept_end(q->kept);
    return NULL;
  case TD__REMOTE__KEEP_ASK__WHAT__GRAPH:
    return td_kept_write(q->kept, &q->out);
  case TD__REMOTE__KEEP_ASK__WHAT__ADOPT:
    return td_kept_adopt(q->kept, &q->id, q->numbers, q->n_numbers);
  case TD__REMOTE__KEEP_ASK__WHAT__WHY:
    td_session_why(q->kept->session, &q->out);
    return NULL;
  case TD__REMOTE__KEEP_ASK__WHAT__EXPLAIN:
    td_session_explain_placement(q->kept->session, &q->out);
    return NULL;
  case TD__REMOTE__KEEP_ASK__WHAT__DEVICES:
    return list_devices(q);
  case TD__REMOTE__KEEP_ASK__WHAT__WORKERS:
    return list_workers(q);
  case TD__REMOTE__KEEP_ASK__WHAT__ATTACH:
    return attach(q);
  case TD__REMOTE__KEEP_ASK__WHAT__DETACH:
    return detach(q);
  case TD__REMOTE__KEEP_ASK__WHAT__RESET:
    return td_session_reset(q->kept->session, q->text);
  default:
    return answer_loop(q);
  }
}

/* ---- saying -------------------------------------------------------------- */

static td_status *as_bytes(const td_str *from, td_tensor *out) {
  td_shape shape = {.rank = 1, .dim = {(int64_t)from->len}};
  TD_TRY(td_tensor_new(NULL, TD_UINT8, &shape, out));
  if (from->len) memcpy(out->data, td_str_c(from), from->len);
  return NULL;
}

static td_status *put_value(asked_here *q, td_arena *a, td_raw *frames, int *n,
                            Td__Remote__Value **out) {
  td_tensor t;
  td_sending to = {.to = q->peer, .session = &q->id};
  if (q->out.failed) return td_oom();
  TD_TRY(as_bytes(&q->out, &t));
  td_status *s = td_transfer_out(&to, &t, a, frames, n, out);
  td_tensor_release(&t);
  return s;
}

/* Inside of the turn. */
static void say(asked_here *q) {
  td_arena a;
  td_head head;
  td_raw frames[TD_MESSAGE_FRAMES];
  int n = 0;
  Td__Remote__KeepAnswer body = TD__REMOTE__KEEP_ANSWER__INIT;
  if (q->peer->health.state == TD_DEAD) return;
  td_arena_init(&a);
  td_head_init(&head, &q->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_KEEP_ANSWER;
  head.keep_answer = &body;
  body.id = q->number;
  if (td_ok(q->status)) q->status = put_value(q, &a, frames, &n, &body.value);
  if (!td_ok(q->status)) body.value = NULL;
  body.status = td_wire_status_out(&a, q->status);
  td_status_release(td_peer_send(q->peer, TD_LANE_CONTROL, &head, frames, n));
  td_arena_deinit(&a);
}

/* Inside of the turn, but for what it keeps. */
static void free_question(asked_here *q) {
  for (size_t i = 0; q->callables && i < q->n_callables; i++)
    td_callable_release(q->callables[i]);
  for (size_t i = 0; q->names && i < q->n_names; i++) td_free(q->names[i]);
  td_free(q->callables);
  td_free(q->names);
  td_free(q->numbers);
  td_free(q->text);
  td_free(q->key);
  td_str_deinit(&q->out);
  td_status_release(q->status);
  td_kept_release(q->kept);
  td_free(q);
}

/* On an I/O thread. */
static void answer_task(td_task *task) {
  asked_here *q = (asked_here *)task;
  td_remote *r = q->of;
  if (td_ok(q->status)) q->status = answer(q);
  td_remote_enter(r);
  if (r->keeper) r->keeper->asked--;
  say(q);
  td_peer_release(q->peer);
  td_remote_leave(r);
  free_question(q);
  td_remote_release(r);
}

/* After the turn. */
static void submit(td_task *task) {
  asked_here *q = (asked_here *)task;
  q->task.run = answer_task;
  if (td_io_submit(&q->task)) return;
  q->status = td_error(TD_RESOURCE_EXHAUSTED,
                       "too much waits for the I/O threads of this process");
  answer_task(&q->task);
}

/* ---- asked --------------------------------------------------------------- */

static td_status *copy_text(asked_here *q, const Td__Remote__KeepAsk *m) {
  q->text = td_strdup(m->text);
  q->key = td_strdup(m->key);
  q->numbers = td_calloc(m->n_number + 1, sizeof *q->numbers);
  q->names = td_calloc(m->n_name + 1, sizeof *q->names);
  if (!q->text || !q->key || !q->numbers || !q->names) return td_oom();
  q->n_numbers = m->n_number;
  if (m->n_number)
    memcpy(q->numbers, m->number, m->n_number * sizeof *q->numbers);
  for (size_t i = 0; i < m->n_name; i++) {
    q->names[i] = td_strdup(m->name[i]);
    q->n_names = i + 1;
    if (!q->names[i]) return td_oom();
  }
  return NULL;
}

/* What the handles of a LOOP run. */
static td_status *find_callables(asked_here *q, td_hosted *h) {
  if (q->what != TD__REMOTE__KEEP_ASK__WHAT__LOOP) return NULL;
  if (q->n_numbers < LOOP_HEAD + LOOP_ENDS ||
      q->n_numbers > LOOP_HEAD + LOOP_ENDS + LOOP_MORE)
    return td_error(TD_INVALID_ARGUMENT, "a loop of %zu numbers", q->n_numbers);
  size_t n = q->n_numbers - LOOP_HEAD;
  q->callables = td_calloc(n, sizeof(td_callable *));
  if (!q->callables) return td_oom();
  q->n_callables = n;
  for (size_t i = 0; i < n; i++) {
    uint64_t handle = q->numbers[LOOP_HEAD + i];
    if (handle == 0 && i > 0 && i < LOOP_ENDS) continue;
    td_hosted_roll *roll = td_hosted_roll_find(h, handle);
    if (!roll || !roll->enrollment)
      return td_error(TD_NOT_FOUND, "nothing is registered as %llu",
                      (unsigned long long)handle);
    q->callables[i] = td_callable_retain(td_keeper_callable(roll->enrollment));
  }
  return NULL;
}

/* Whom it is asked of. */
static td_status *find_kept(asked_here *q) {
  td_hosted *h = td_hosted_find(q->of, &q->id);
  if (!q->of->serve)
    return td_error(TD_FAILED_PRECONDITION,
                    "%s keeps no sessions for others: it is no worker",
                    td_runtime_place(q->of->runtime));
  if (q->what == TD__REMOTE__KEEP_ASK__WHAT__LIST) return NULL;
  td_keeper_guest *g = h && h->master == q->peer && h->state == TD_HOSTED_OPEN
                           ? td_keeper_guest_of(h->local)
                           : NULL;
  if (!g)
    return td_error(TD_NOT_FOUND, "%s keeps no such session of this process",
                    td_runtime_place(q->of->runtime));
  q->kept = td_kept_retain(g->kept);
  return find_callables(q, h);
}

static td_status *check_room(td_remote *r) {
  if (!r->keeper) r->keeper = td_calloc(1, sizeof *r->keeper);
  if (!r->keeper) return td_oom();
  if (r->keeper->asked < ASKED_MOST) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED, "%d questions wait for answers",
                  r->keeper->asked);
}

void td_keeper_asked(td_peer *p, const td_head *head) {
  const Td__Remote__KeepAsk *m = head->keep_ask;
  td_remote *r = p->of;
  asked_here *q = td_calloc(1, sizeof *q);
  if (!q) return; /* who asked hears nothing, and gives up */
  q->peer = td_peer_retain(p);
  q->of = td_remote_retain(r);
  q->id = (td_session_id){head->session_high, head->session_low};
  q->number = m->id;
  q->what = (int)m->what;
  q->time = m->time < 0 ? 0 : m->time < LONGEST ? m->time : LONGEST;
  q->flag = m->flag;
  q->status = check_room(r);
  if (td_ok(q->status)) q->status = copy_text(q, m);
  if (td_ok(q->status)) q->status = find_kept(q);
  if (r->keeper) r->keeper->asked++;
  q->task.run = submit;
  td_remote_after(r, &q->task);
}
