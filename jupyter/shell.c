/* shell.c - the thread that owns the shell and stdin sockets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/shell.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/base/waiter.h"
#include "jupyter/event.h"
#include "jupyter/outbox.h"

enum {
  ASK_AGAIN = 50000000, /* ns: when a client that is not there is asked again */
  MOST_ASKED = 40       /* times */
};

/* Input that is asked for; on the stack of who waits for it. */
typedef struct question {
  struct question *next;
  td_jupyter_shell *shell;
  td_line *line;               /* whose interrupt ends the wait */
  td_jupyter_request *request; /* whose client is asked */
  td_str content;              /* of the input_request */
  char id[37];                 /* of the same, once it was sent */
  bool sent, refused;          /* refused: the client is not connected */
  bool answered, unreadable;
  td_str text; /* the answer, or why it is unreadable */
} question;

struct td_jupyter_shell {
  const td_jupyter_wire *wire;
  td_jupyter_iopub *iopub;
  void *shell, *input; /* the thread's */
  td_jupyter_shell_handler *handle;
  void *arg;
  uint64_t number; /* the thread's: of the next request */
  pthread_t thread;
  bool started;
  td_jupyter_queue outbox; /* its event wakes the thread */
  pthread_mutex_t lock;    /* of what follows, and of all questions */
  question *questions;
  uint64_t drains, drained; /* asked for, done */
  uint64_t drained_at;      /* `number` at the last one */
  bool closing;
  td_waiter changed; /* of who waits for any of that */
};

static void wake(td_jupyter_shell *s) {
  td_jupyter_event_set(s->outbox.event);
}

/* The signal of an interrupt has who waits look again: nobody polls. */
static void wait_for(td_jupyter_shell *s, int64_t until, bool (*ready)(void *),
                     void *arg) {
  td_waited why = td_waiter_wait(&s->changed, until, NULL, ready, arg);
  assert(why != TD_WAITED_INTERRUPT);
}

/* ---- from other threads ---- */

td_jupyter_queue *td_jupyter_shell_outbox(td_jupyter_shell *s) {
  return &s->outbox;
}

typedef struct drain {
  td_jupyter_shell *s;
  uint64_t mine;
} drain;

static bool is_drained(void *arg) {
  drain *d = arg;
  pthread_mutex_lock(&d->s->lock);
  bool done = d->s->drained >= d->mine || d->s->closing;
  pthread_mutex_unlock(&d->s->lock);
  return done;
}

uint64_t td_jupyter_shell_drain(td_jupyter_shell *s) {
  pthread_mutex_lock(&s->lock);
  drain d = {s, ++s->drains};
  pthread_mutex_unlock(&s->lock);
  wake(s);
  wait_for(s, INT64_MAX, is_drained, &d);
  pthread_mutex_lock(&s->lock);
  uint64_t number = s->drained_at;
  pthread_mutex_unlock(&s->lock);
  return number;
}

/* The answer is there, an interrupt or the end. */
static bool is_settled(void *arg) {
  const question *q = arg;
  pthread_mutex_lock(&q->shell->lock);
  bool settled = q->answered || q->refused || q->shell->closing;
  pthread_mutex_unlock(&q->shell->lock);
  return settled || td_line_interrupted(q->line);
}

static bool is_interrupted(void *arg) {
  return td_line_interrupted(arg);
}

/* The lock is held. */
static void remove_question(td_jupyter_shell *s, const question *q) {
  question **p = &s->questions;
  while (*p && *p != q) p = &(*p)->next;
  if (*p) *p = q->next;
}

/* Has the thread ask once; false when the client's stdin is not connected
 * (yet). */
static bool ask_once(td_jupyter_shell *s, question *q) {
  pthread_mutex_lock(&s->lock);
  q->sent = q->refused = false;
  q->next = s->questions;
  s->questions = q;
  pthread_mutex_unlock(&s->lock);
  wake(s);
  wait_for(s, INT64_MAX, is_settled, q);
  pthread_mutex_lock(&s->lock);
  remove_question(s, q);
  bool refused = q->refused;
  pthread_mutex_unlock(&s->lock);
  return !refused;
}

static void ask(td_jupyter_shell *s, question *q) {
  for (int i = 0; i < MOST_ASKED; i++) {
    if (ask_once(s, q)) return;
    wait_for(s, td_clock_now() + ASK_AGAIN, is_interrupted, q->line);
    if (td_line_interrupted(q->line)) return;
  }
}

static void write_question(td_str *content, const char *prompt, bool password) {
  td_str_add(content, "{\"prompt\": ");
  td_str_json(content, prompt, strlen(prompt));
  td_str_addf(content, ", \"password\": %s}", password ? "true" : "false");
}

td_host_outcome td_jupyter_shell_input(td_jupyter_shell *s,
                                       td_jupyter_request *r, td_line *line,
                                       const char *prompt, bool password,
                                       td_str *out) {
  if (!r || !td_jupyter_request_flag(r, "allow_stdin", false)) {
    td_str_add(out, "this client takes no input");
    return TD_HOST_ERROR;
  }
  question q = {.shell = s, .line = line, .request = r};
  td_str_init(&q.content);
  td_str_init(&q.text);
  write_question(&q.content, prompt, password);
  fflush(stdout);
  td_jupyter_iopub_flush(s->iopub);
  ask(s, &q);
  bool ended = q.answered && q.text.len == 1 && q.text.at[0] == '\4';
  bool ok = q.answered && !ended && !q.unreadable;
  if (ok)
    td_str_addn(out, td_str_c(&q.text), q.text.len);
  else
    td_str_add(out, q.unreadable ? td_str_c(&q.text)
                    : ended      ? "the input has ended"
                    : q.refused  ? "the client's stdin is not connected"
                                 : "no input came");
  td_str_deinit(&q.text);
  td_str_deinit(&q.content);
  return ok ? TD_HOST_OK : TD_HOST_ERROR;
}

/* ---- the thread: questions ---- */

/* Does it answer the question? Some clients do not say which one they mean. */
static bool means(const td_jupyter_request *r, const question *q) {
  const char *id = td_jupyter_request_parent_id(r);
  return q->sent && !q->answered && (!*id || !strcmp(id, q->id));
}

/* The lock may be held while they are sent: a ROUTER never waits. */
static void send_questions(td_jupyter_shell *s) {
  pthread_mutex_lock(&s->lock);
  for (question *q = s->questions; q; q = q->next) {
    if (q->sent) continue;
    td_jupyter_reply reply = {
        .to = q->request,
        .type = "input_request",
        .content = {td_str_c(&q->content), q->content.len}};
    q->refused = !td_jupyter_wire_send(s->wire, s->input, &reply, q->id);
    q->sent = true;
    if (q->refused) td_waiter_wake(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
}

static void take_answer(td_jupyter_shell *s, const td_jupyter_request *r) {
  const char *problem = td_jupyter_request_problem(r);
  td_bytes value = td_jupyter_request_text(r, "value");
  if (problem) value = (td_bytes){problem, strlen(problem)};
  pthread_mutex_lock(&s->lock);
  question *q = s->questions;
  while (q && !means(r, q)) q = q->next;
  if (q) {
    td_str_addn(&q->text, value.at, value.len);
    q->answered = true;
    q->unreadable = problem;
  }
  td_waiter_wake(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

/* ---- the thread: receiving ---- */

/* False when none was waiting; *r is NULL for one that was dropped. */
static bool receive(td_jupyter_shell *s, void *socket, td_jupyter_request **r) {
  td_status *e = td_jupyter_wire_receive(s->wire, socket, r);
  if (td_ok(e)) return true;
  bool none = td_status_code(e) == TD_UNAVAILABLE;
  if (none)
    td_status_release(e);
  else
    td_jupyter_iopub_dropped(s->iopub, e);
  return !none;
}

static void receive_requests(td_jupyter_shell *s) {
  td_jupyter_request *r;
  while (receive(s, s->shell, &r))
    if (r) s->handle(s->arg, r, s->number++);
}

static void receive_input(td_jupyter_shell *s) {
  td_jupyter_request *r;
  while (receive(s, s->input, &r)) {
    if (r && td_jupyter_request_is(r, "input_reply")) take_answer(s, r);
    td_jupyter_request_release(r);
  }
}

/* Tells those who wait for a drain, when they had asked before the sockets
 * were read; false when it is time to end. */
static bool look_around(td_jupyter_shell *s, uint64_t asked_before) {
  pthread_mutex_lock(&s->lock);
  bool closing = s->closing;
  if (s->drained < asked_before) {
    s->drained = asked_before;
    s->drained_at = s->number;
    td_waiter_wake(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  return !closing;
}

static uint64_t drains_asked(td_jupyter_shell *s) {
  pthread_mutex_lock(&s->lock);
  uint64_t n = s->drains;
  pthread_mutex_unlock(&s->lock);
  return n;
}

static void *run(void *arg) {
  td_jupyter_shell *s = arg;
  uint64_t asked_before;
  do {
    zmq_pollitem_t items[] = {{.socket = s->shell, .events = ZMQ_POLLIN},
                              {.socket = s->input, .events = ZMQ_POLLIN},
                              {.fd = s->outbox.event, .events = ZMQ_POLLIN}};
    zmq_poll(items, 3, -1);
    td_jupyter_event_clear(s->outbox.event);
    asked_before = drains_asked(s);
    td_jupyter_outbox_send(&s->outbox, s->wire, s->shell);
    send_questions(s);
    receive_requests(s);
    receive_input(s);
  } while (look_around(s, asked_before));
  td_jupyter_outbox_send(&s->outbox, s->wire, s->shell);
  zmq_close(s->shell);
  zmq_close(s->input);
  return NULL;
}

/* ---- life ---- */

td_status *td_jupyter_shell_new(td_jupyter_shell **out,
                                const td_jupyter_wire *wire,
                                td_jupyter_iopub *iopub, void *shell,
                                void *input) {
  td_jupyter_shell *s = td_calloc(1, sizeof *s);
  if (!s) return td_oom();
  s->wire = wire;
  s->iopub = iopub;
  s->shell = shell;
  s->input = input;
  pthread_mutex_init(&s->lock, NULL);
  td_status *e = td_jupyter_queue_init(&s->outbox, true);
  *out = td_ok(e) ? s : NULL;
  if (!td_ok(e)) td_free(s);
  return e;
}

td_status *td_jupyter_shell_start(td_jupyter_shell *s,
                                  td_jupyter_shell_handler *handle, void *arg) {
  s->handle = handle;
  s->arg = arg;
  s->started = td_thread_start(&s->thread, "shell", -1, run, s);
  return s->started
             ? NULL
             : td_error(TD_RESOURCE_EXHAUSTED, "no thread for the shell");
}

void td_jupyter_shell_free(td_jupyter_shell *s) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  s->closing = true;
  td_waiter_wake(&s->changed);
  pthread_mutex_unlock(&s->lock);
  wake(s);
  if (s->started) pthread_join(s->thread, NULL);
  td_jupyter_queue_deinit(&s->outbox);
  td_free(s);
}
