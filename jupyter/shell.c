/* shell.c - the thread of the shell and stdin sockets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "jupyter/kernel_impl.h"

enum {
  LOOK_MS = 50,   /* how often who waits for input looks around */
  MOST_ASKED = 40 /* times, of a client that is not there yet */
};

/* A reply, or a request for input, on its way out. */
typedef struct letter {
  struct letter *next;
  td_jupyter_request *to;
  char *type;
  td_str content, metadata;
  bool input; /* leaves by the stdin socket */
} letter;

/* Input that was asked for; on the stack of who waits. */
typedef struct question {
  struct question *next;
  char id[37]; /* of the input_request; "" until it was sent */
  bool sent, answered, refused;
  td_str text;
} question;

struct td_jupyter_shell {
  td_jupyter_kernel *kernel;
  void *shell, *input; /* the thread's */
  pthread_t thread;
  int wake;
  uint64_t number;      /* the thread's: of the next request */
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed;
  letter *first, **last;
  question *questions;
  uint64_t drains, drained; /* asked for, done */
  uint64_t drained_at;      /* `number` at the last one */
  bool closing;
};

static void wake(td_jupyter_shell *s) {
  uint64_t one = 1;
  ssize_t n = write(s->wake, &one, sizeof one);
  (void)n;
}

/* ---- from other threads ---- */

static void post(td_jupyter_shell *s, td_jupyter_request *to, const char *type,
                 const char *content, size_t len, const char *metadata,
                 bool input) {
  letter *l = td_alloc_zero(1, sizeof *l);
  if (!l) return;
  l->to = td_jupyter_request_retain(to);
  l->type = td_strdup(type);
  l->input = input;
  td_str_init(&l->content);
  td_str_init(&l->metadata);
  td_str_addn(&l->content, content, len);
  td_str_add(&l->metadata, metadata ? metadata : "{}");
  pthread_mutex_lock(&s->lock);
  *s->last = l;
  s->last = &l->next;
  pthread_mutex_unlock(&s->lock);
  wake(s);
}

void td_jupyter_shell_reply(td_jupyter_shell *s, td_jupyter_request *to,
                            const char *type, const char *content, size_t len,
                            const char *metadata) {
  post(s, to, type, content, len, metadata, false);
}

uint64_t td_jupyter_shell_drain(td_jupyter_shell *s) {
  pthread_mutex_lock(&s->lock);
  uint64_t mine = ++s->drains;
  wake(s);
  while (s->drained < mine && !s->closing)
    pthread_cond_wait(&s->changed, &s->lock);
  uint64_t number = s->drained_at;
  pthread_mutex_unlock(&s->lock);
  return number;
}

static void ask(td_jupyter_shell *s, td_jupyter_request *r, const char *prompt,
                bool password) {
  td_str content;
  td_str_init(&content);
  td_str_add(&content, "{\"prompt\": ");
  td_str_json(&content, prompt, strlen(prompt));
  td_str_addf(&content, ", \"password\": %s}", password ? "true" : "false");
  post(s, r, "input_request", td_str_c(&content), content.len, NULL, true);
  td_str_deinit(&content);
}

/* Until the answer is there, an interrupt or the end; the lock is held. */
static void await(td_jupyter_shell *s, question *q, td_line *line) {
  while (!q->answered && !q->refused && !s->closing &&
         !td_line_interrupted(line)) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)LOOK_MS * 1000000;
    if (until.tv_nsec >= 1000000000) {
      until.tv_nsec -= 1000000000;
      until.tv_sec++;
    }
    pthread_cond_timedwait(&s->changed, &s->lock, &until);
  }
}

static void add_question(td_jupyter_shell *s, question *q) {
  pthread_mutex_lock(&s->lock);
  q->next = s->questions;
  s->questions = q;
  pthread_mutex_unlock(&s->lock);
}

/* The lock is held. */
static void remove_question(td_jupyter_shell *s, const question *q) {
  question **p = &s->questions;
  while (*p && *p != q) p = &(*p)->next;
  if (*p) *p = q->next;
}

/* Asks once; false when the client's stdin is not connected (yet). */
static bool ask_once(td_jupyter_shell *s, question *q, td_line *line,
                     const char *prompt, bool password) {
  add_question(s, q);
  ask(s, td_jupyter_worker_request(), prompt, password);
  pthread_mutex_lock(&s->lock);
  await(s, q, line);
  remove_question(s, q);
  bool refused = q->refused;
  pthread_mutex_unlock(&s->lock);
  return !refused;
}

td_host_outcome td_jupyter_shell_input(td_jupyter_shell *s, td_line *line,
                                       const char *prompt, bool password,
                                       td_str *out) {
  td_jupyter_request *r = td_jupyter_worker_request();
  question q = {0};
  if (!r || !td_jupyter_request_flag(r, "allow_stdin", false)) {
    td_str_add(out, "this client takes no input");
    return TD_HOST_ERROR;
  }
  td_str_init(&q.text);
  fflush(stdout);
  td_jupyter_iopub_flush(s->kernel->iopub);
  for (int i = 0; i < MOST_ASKED; i++) {
    struct timespec t = {.tv_nsec = LOOK_MS * 1000000};
    q.sent = q.refused = false;
    if (ask_once(s, &q, line, prompt, password)) break;
    nanosleep(&t, NULL);
    if (td_line_interrupted(line)) break;
  }
  bool ended = q.answered && q.text.len == 1 && q.text.at[0] == '\4';
  bool ok = q.answered && !ended;
  if (ok)
    td_str_addn(out, td_str_c(&q.text), q.text.len);
  else
    td_str_add(out, ended       ? "the input has ended"
                    : q.refused ? "the client's stdin is not connected"
                                : "no input came");
  td_str_deinit(&q.text);
  return ok ? TD_HOST_OK : TD_HOST_ERROR;
}

/* ---- the thread: sending ---- */

static letter *take(td_jupyter_shell *s) {
  pthread_mutex_lock(&s->lock);
  letter *l = s->first;
  if (l) {
    s->first = l->next;
    if (!s->first) s->last = &s->first;
  }
  pthread_mutex_unlock(&s->lock);
  return l;
}

/* The newest question has been asked, or cannot be. */
static void asked(td_jupyter_shell *s, const char *id, bool ok) {
  pthread_mutex_lock(&s->lock);
  for (question *q = s->questions; q; q = q->next) {
    if (q->sent) continue;
    memcpy(q->id, id, sizeof q->id);
    q->sent = true;
    q->refused = !ok;
    break;
  }
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static void send_letters(td_jupyter_shell *s) {
  letter *l;
  while ((l = take(s))) {
    char id[37];
    td_jupyter_reply reply = {
        .to = l->to,
        .type = l->type,
        .content = {td_str_c(&l->content), l->content.len},
        .metadata = {td_str_c(&l->metadata), l->metadata.len}};
    bool ok = td_jupyter_wire_send(&s->kernel->wire,
                                   l->input ? s->input : s->shell, &reply, id);
    if (l->input) asked(s, id, ok);
    td_jupyter_request_release(l->to);
    td_str_deinit(&l->content);
    td_str_deinit(&l->metadata);
    td_free(l->type);
    td_free(l);
  }
}

/* ---- the thread: receiving ---- */

/* False when none was waiting. */
static bool receive(td_jupyter_shell *s, void *socket, td_jupyter_request **r) {
  td_status *e = td_jupyter_wire_receive(&s->kernel->wire, socket, r);
  if (td_ok(e)) return true;
  bool none = td_status_code(e) == TD_UNAVAILABLE;
  if (none)
    td_status_release(e);
  else
    td_jupyter_kernel_dropped(e);
  return !none;
}

static void receive_requests(td_jupyter_shell *s) {
  td_jupyter_request *r;
  while (receive(s, s->shell, &r))
    if (r) td_jupyter_kernel_dispatch(s->kernel, r, s->number++);
}

/* Does it answer the question? Some clients do not say which one they mean. */
static bool means(const td_jupyter_request *r, const question *q) {
  const char *id = td_jupyter_request_parent_id(r);
  return q->sent && !q->answered && (!*id || !strcmp(id, q->id));
}

static void take_answer(td_jupyter_shell *s, const td_jupyter_request *r) {
  td_bytes value = td_jupyter_request_text(r, "value");
  pthread_mutex_lock(&s->lock);
  question *q = s->questions;
  while (q && !means(r, q)) q = q->next;
  if (q) {
    td_str_addn(&q->text, value.at, value.len);
    q->answered = true;
  }
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static void receive_input(td_jupyter_shell *s) {
  td_jupyter_request *r;
  while (receive(s, s->input, &r)) {
    if (r && td_jupyter_request_is(r, "input_reply")) take_answer(s, r);
    td_jupyter_request_release(r);
  }
}

static bool look_around(td_jupyter_shell *s, uint64_t asked_before) {
  pthread_mutex_lock(&s->lock);
  bool closing = s->closing;
  if (s->drained < asked_before) {
    s->drained = asked_before;
    s->drained_at = s->number;
    pthread_cond_broadcast(&s->changed);
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
  uint64_t count, asked_before;
  do {
    zmq_pollitem_t items[] = {{.socket = s->shell, .events = ZMQ_POLLIN},
                              {.socket = s->input, .events = ZMQ_POLLIN},
                              {.fd = s->wake, .events = ZMQ_POLLIN}};
    zmq_poll(items, 3, -1);
    ssize_t n = read(s->wake, &count, sizeof count);
    (void)n;
    asked_before = drains_asked(s);
    send_letters(s);
    receive_requests(s);
    receive_input(s);
  } while (look_around(s, asked_before));
  send_letters(s);
  zmq_close(s->shell);
  zmq_close(s->input);
  return NULL;
}

/* ---- life ---- */

td_status *td_jupyter_shell_new(td_jupyter_shell **out, td_jupyter_kernel *k,
                                void *shell, void *input) {
  td_jupyter_shell *s = td_alloc_zero(1, sizeof *s);
  if (!s) return td_oom();
  s->kernel = k;
  s->shell = shell;
  s->input = input;
  s->last = &s->first;
  s->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  *out = s; /* before the thread, which dispatches, may look */
  if (s->wake >= 0 && td_thread_start(&s->thread, "shell", -1, run, s))
    return NULL;
  *out = NULL;
  if (s->wake >= 0) close(s->wake);
  td_free(s);
  return td_error(TD_RESOURCE_EXHAUSTED, "no thread for the shell");
}

void td_jupyter_shell_free(td_jupyter_shell *s) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  s->closing = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  wake(s);
  pthread_join(s->thread, NULL);
  close(s->wake);
  td_free(s);
}
