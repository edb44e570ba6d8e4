/* iopub.c - the thread of the IOPub socket.
 *
 * The XPUB tells of each new subscriber, who gets a welcome before anything
 * else; `starting` follows the first. Nothing is dropped: who adds more than
 * the queue holds waits, and a peer that does not read holds up the socket. If
 * that lasts, it alone misses messages for a while, and everybody is told.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/iopub.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "jupyter/output.h"
#include "jupyter/updates.h"

enum {
  MERGE_MS = 80,          /* stream text waits so long for more */
  MOST_QUEUED = 64 << 20, /* bytes; who adds more waits */
  MOST_TEXT = 1 << 20,    /* of one stream message */
  MOST_TURNS = 64,        /* of stdout and stderr; then each goes as one */
  PATIENCE_S = 60,        /* how long a peer that does not read is left out */
  SOON_NS = 200000,       /* no child process prints so soon */
  CHUNK = 1 << 16
};

typedef enum item_kind { MESSAGE, TEXT, OWNER, END } item_kind;

/* What is in the queue: a message, text of a stream, or a mark that a cell
 * begins to own what the process prints, or is over. */
typedef struct item {
  struct item *next;
  item_kind kind;
  td_jupyter_request *parent;
  char *type;
  int stream; /* of text: 1 or 2 */
  td_str content, metadata;
  td_str *buffers;
  int n_buffers;
  size_t size;
  uint64_t stands_for; /* items that were joined in it */
} item;

struct td_jupyter_iopub {
  const td_jupyter_wire *wire;
  void *socket; /* the thread's */
  char topic[96];
  pthread_t thread;
  int wake;    /* an eventfd: something was queued */
  int pipe[2]; /* guarded by the lock */
  /* the thread's: */
  bool welcomed; /* somebody watches */
  td_jupyter_output outputs;
  td_jupyter_updates updates;
  td_jupyter_request *owner;
  int64_t lenient_until; /* a peer that does not read may miss messages; 0 */
  pthread_mutex_t lock;  /* of what follows */
  pthread_cond_t moved;  /* the queue became shorter */
  item *first, **last;
  size_t queued;
  size_t others;        /* items in the queue that are no text */
  uint64_t added, sent; /* items ever */
  uint64_t hurry;       /* so many are not to wait for more text */
  int64_t printed;      /* ns: when text last came */
  bool closing;
};

static void item_free(item *i) {
  if (!i) return;
  td_jupyter_request_release(i->parent);
  td_free(i->type);
  td_str_deinit(&i->content);
  td_str_deinit(&i->metadata);
  for (int b = 0; b < i->n_buffers; b++) td_str_deinit(&i->buffers[b]);
  td_free(i->buffers);
  td_free(i);
}

/* ---- adding: any thread ---- */

static void wake(td_jupyter_iopub *p) {
  uint64_t one = 1;
  ssize_t n = write(p->wake, &one, sizeof one);
  (void)n; /* it can only fail when it is awake */
}

static item *item_new(item_kind kind, td_jupyter_request *parent,
                      const char *type) {
  item *i = td_alloc_zero(1, sizeof *i);
  if (!i) return NULL;
  i->kind = kind;
  i->stands_for = 1;
  i->parent = td_jupyter_request_retain(parent);
  i->type = td_strdup(type);
  td_str_init(&i->content);
  td_str_init(&i->metadata);
  return i;
}

/* The lock is held. */
static void append(td_jupyter_iopub *p, item *i) {
  i->size = i->content.len + i->metadata.len + sizeof *i;
  for (int b = 0; b < i->n_buffers; b++) i->size += i->buffers[b].len;
  *p->last = i;
  p->last = &i->next;
  p->queued += i->size;
  p->others += i->kind != TEXT;
  p->added++;
}

/* What is there goes as it is. The lock is held. */
static void hurry(td_jupyter_iopub *p) {
  p->hurry = p->added;
}

/* True when it was joined with what waits. The lock is held. */
static bool append_text(td_jupyter_iopub *p, td_jupyter_request *parent,
                        int stream, const char *text, size_t len) {
  item *i = p->first ? (item *)((char *)p->last - offsetof(item, next)) : NULL;
  if (i && i->kind == TEXT && i->stream == stream && i->parent == parent &&
      i->content.len + len <= MOST_TEXT) {
    td_str_addn(&i->content, text, len);
    i->size += len;
    p->queued += len;
    return true;
  }
  i = item_new(TEXT, parent, "stream");
  if (!i) return false;
  i->stream = stream;
  td_str_addn(&i->content, text, len);
  append(p, i);
  return false;
}

/* What the process itself wrote, past our streams, comes before what is added
 * now. A full queue leaves it in the pipe. The lock is held. */
static void drain_pipes(td_jupyter_iopub *p) {
  char bytes[CHUNK];
  for (int stream = 1; stream <= 2; stream++) {
    ssize_t n = 1;
    while (p->pipe[stream - 1] >= 0 && n > 0 && p->queued < MOST_QUEUED) {
      n = read(p->pipe[stream - 1], bytes, sizeof bytes);
      if (n > 0) append_text(p, NULL, stream, bytes, (size_t)n);
    }
  }
}

static void enqueue(td_jupyter_iopub *p, item *i) {
  if (!i) return;
  pthread_mutex_lock(&p->lock);
  while (p->queued > MOST_QUEUED && !p->closing)
    pthread_cond_wait(&p->moved, &p->lock);
  drain_pipes(p);
  append(p, i);
  pthread_mutex_unlock(&p->lock);
  wake(p);
}

void td_jupyter_iopub_send(td_jupyter_iopub *p, td_jupyter_request *parent,
                           const char *type, td_bytes content,
                           td_bytes metadata, const td_bytes *buffers,
                           int n_buffers) {
  item *i = item_new(MESSAGE, parent, type);
  if (!i) return;
  td_str_addn(&i->content, content.at, content.len);
  td_str_addn(&i->metadata, metadata.at, metadata.len);
  if (n_buffers) i->buffers = td_alloc_zero((size_t)n_buffers, sizeof(td_str));
  for (int b = 0; i->buffers && b < n_buffers; b++) {
    td_str_init(&i->buffers[b]);
    td_str_addn(&i->buffers[b], buffers[b].at, buffers[b].len);
    i->n_buffers++;
  }
  enqueue(p, i);
}

void td_jupyter_iopub_status(td_jupyter_iopub *p, td_jupyter_request *parent,
                             const char *state) {
  char text[64];
  int n = snprintf(text, sizeof text, "{\"execution_state\": \"%s\"}", state);
  if (!strcmp(state, "idle")) enqueue(p, item_new(END, parent, ""));
  td_jupyter_iopub_send(p, parent, "status", (td_bytes){text, (size_t)n},
                        (td_bytes){0}, NULL, 0);
}

/* A child process takes longer than SOON_NS to print: within that there is no
 * need to look. */
void td_jupyter_iopub_text(td_jupyter_iopub *p, td_jupyter_request *parent,
                           int stream, const char *text, size_t len) {
  int64_t now = td_clock_now();
  pthread_mutex_lock(&p->lock);
  while (p->queued > MOST_QUEUED && !p->closing)
    pthread_cond_wait(&p->moved, &p->lock);
  if (now - p->printed > SOON_NS) drain_pipes(p);
  p->printed = now;
  bool joined = append_text(p, parent, stream, text, len);
  pthread_mutex_unlock(&p->lock);
  if (!joined) wake(p);
}

void td_jupyter_iopub_owner(td_jupyter_iopub *p, td_jupyter_request *parent) {
  enqueue(p, item_new(OWNER, parent, ""));
}

void td_jupyter_iopub_flush(td_jupyter_iopub *p) {
  pthread_mutex_lock(&p->lock);
  uint64_t until = p->added;
  hurry(p);
  wake(p);
  while (p->sent < until && !p->closing) pthread_cond_wait(&p->moved, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

/* ---- sending: the thread ---- */

static void set_lossless(td_jupyter_iopub *p, int lossless) {
  zmq_setsockopt(p->socket, ZMQ_XPUB_NODROP, &lossless, sizeof lossless);
}

/* When a peer does not read for long, the others go on without it. */
static void send_reply(td_jupyter_iopub *p, const td_jupyter_reply *reply) {
  if (p->lenient_until && td_clock_now() >= p->lenient_until) {
    p->lenient_until = 0;
    set_lossless(p, 1);
  }
  if (td_jupyter_wire_send(p->wire, p->socket, reply, NULL)) return;
  set_lossless(p, 0);
  p->lenient_until = td_clock_now() + (int64_t)PATIENCE_S * 1000000000;
  td_jupyter_wire_send(p->wire, p->socket, reply, NULL);
  static const char text[] =
      "{\"name\": \"stderr\", \"text\": \"[a client does not read what is "
      "shown: for a minute it may miss messages]\\n\"}";
  td_jupyter_reply told = {.to = reply->to,
                           .topic = "stream.stderr",
                           .type = "stream",
                           .content = {text, sizeof text - 1}};
  td_jupyter_wire_send(p->wire, p->socket, &told, NULL);
}

static void transmit(td_jupyter_iopub *p, const item *i) {
  char topic[160];
  td_bytes buffers[64];
  td_bytes *list = i->n_buffers <= 64
                       ? buffers
                       : td_alloc((size_t)i->n_buffers * sizeof *list);
  if (!list) return;
  for (int b = 0; b < i->n_buffers; b++)
    list[b] = (td_bytes){td_str_c(&i->buffers[b]), i->buffers[b].len};
  snprintf(topic, sizeof topic, "%s.%s", p->topic, i->type);
  td_jupyter_reply reply = {
      .to = i->parent,
      .topic = topic,
      .type = i->type,
      .content = {td_str_c(&i->content), i->content.len},
      .metadata = {td_str_c(&i->metadata), i->metadata.len},
      .buffers = list,
      .n_buffers = i->n_buffers};
  send_reply(p, &reply);
  if (list != buffers) td_free(list);
}

static void transmit_text(void *arg, td_jupyter_request *parent, int stream,
                          const char *text, size_t len) {
  td_jupyter_iopub *p = arg;
  td_str content;
  td_str_init(&content);
  td_str_addf(&content, "{\"name\": \"%s\", \"text\": ",
              stream == 1 ? "stdout" : "stderr");
  td_str_json(&content, text, len);
  td_str_addc(&content, '}');
  td_jupyter_reply reply = {.to = parent,
                            .topic =
                                stream == 1 ? "stream.stdout" : "stream.stderr",
                            .type = "stream",
                            .content = {td_str_c(&content), content.len}};
  send_reply(p, &reply);
  td_str_deinit(&content);
}

static void transmit_update(void *arg, void *message) {
  transmit(arg, message);
  item_free(message);
}

/* True when the message is kept for later. */
static bool is_put_off(td_jupyter_iopub *p, item *i) {
  bool update = !strcmp(i->type, "update_display_data");
  if (!update && strcmp(i->type, "display_data")) return false;
  char *id =
      td_jupyter_updates_id((td_bytes){td_str_c(&i->content), i->content.len});
  void *instead = NULL;
  bool now = !id || td_jupyter_updates_admit(&p->updates, id, update,
                                             td_clock_now(), i, &instead);
  item_free(instead);
  td_free(id);
  return !now;
}

static void end_cell(td_jupyter_iopub *p, td_jupyter_request *parent) {
  td_jupyter_updates_send(&p->updates, td_clock_now(), true, transmit_update,
                          p);
  td_jupyter_output_end(&p->outputs, parent);
}

/* Takes the item over. */
static void deliver(td_jupyter_iopub *p, item *i) {
  switch (i->kind) {
  case TEXT:
    td_jupyter_output_text(&p->outputs, i->parent ? i->parent : p->owner,
                           i->stream, td_str_c(&i->content), i->content.len);
    break;
  case MESSAGE:
    if (is_put_off(p, i)) return;
    transmit(p, i);
    break;
  case OWNER:
    end_cell(p, p->owner);
    td_jupyter_request_release(p->owner);
    p->owner = td_jupyter_request_retain(i->parent);
    break;
  case END:
    end_cell(p, i->parent);
    break;
  }
  item_free(i);
}

/* Text of stdout and stderr in turns would be a message each: beyond a few, all
 * of the first one's goes first. The lock is held. */
static void join_turns(td_jupyter_iopub *p, item *first) {
  int turns = 0;
  item *i;
  for (i = first->next; i && i->kind == TEXT && turns < MOST_TURNS; i = i->next)
    turns++;
  if (turns < MOST_TURNS) return;
  for (item **at = &first->next; (i = *at) && i->kind == TEXT;) {
    bool joins = i->stream == first->stream && i->parent == first->parent &&
                 first->content.len + i->content.len <= MOST_TEXT;
    if (!joins) {
      at = &i->next;
      continue;
    }
    td_str_addn(&first->content, td_str_c(&i->content), i->content.len);
    first->size += i->size;
    first->stands_for += i->stands_for;
    *at = i->next;
    if (!i->next) p->last = at;
    item_free(i);
  }
}

/* The first item when it may go now: text that nothing else follows waits for
 * more. */
static item *take(td_jupyter_iopub *p) {
  pthread_mutex_lock(&p->lock);
  item *i = p->first;
  if (i && i->kind == TEXT && p->others == 0 && p->hurry <= p->sent &&
      p->queued < MOST_TEXT / 2)
    i = NULL;
  if (i) {
    if (i->kind == TEXT) join_turns(p, i);
    p->others -= i->kind != TEXT;
    p->first = i->next;
    if (!p->first) p->last = &p->first;
  }
  pthread_mutex_unlock(&p->lock);
  return i;
}

static void gone(td_jupyter_iopub *p, size_t size, uint64_t n) {
  pthread_mutex_lock(&p->lock);
  p->queued -= size;
  p->sent += n;
  pthread_cond_broadcast(&p->moved);
  pthread_mutex_unlock(&p->lock);
}

static bool waiting_text(td_jupyter_iopub *p) {
  pthread_mutex_lock(&p->lock);
  bool is = p->first != NULL;
  pthread_mutex_unlock(&p->lock);
  return is;
}

/* ---- subscribers ---- */

static void welcome(td_jupyter_iopub *p, const char *topic, size_t len) {
  td_str content;
  td_str_init(&content);
  td_str_add(&content, "{\"subscription\": ");
  td_str_json(&content, topic, len);
  td_str_addc(&content, '}');
  char *text = td_strndup(topic, len);
  td_jupyter_reply reply = {.topic = text ? text : "",
                            .type = "iopub_welcome",
                            .content = {td_str_c(&content), content.len}};
  if (strlen(reply.topic) == len)
    td_jupyter_wire_send(p->wire, p->socket, &reply, NULL);
  td_free(text);
  td_str_deinit(&content);
  if (p->welcomed) return;
  p->welcomed = true;
  td_jupyter_reply starting = {
      .topic = "status",
      .type = "status",
      .content = {"{\"execution_state\": \"starting\"}", 31}};
  td_jupyter_wire_send(p->wire, p->socket, &starting, NULL);
}

/* By hand: a subscription counts from here on, so that nothing comes between it
 * and its welcome. */
static void read_subscriptions(td_jupyter_iopub *p) {
  zmq_msg_t f;
  zmq_msg_init(&f);
  while (zmq_msg_recv(&f, p->socket, ZMQ_DONTWAIT) >= 0) {
    const char *bytes = zmq_msg_data(&f);
    size_t n = zmq_msg_size(&f);
    if (n == 0) continue;
    bool begins = bytes[0] == 1;
    zmq_setsockopt(p->socket, begins ? ZMQ_SUBSCRIBE : ZMQ_UNSUBSCRIBE,
                   bytes + 1, n - 1);
    if (begins) welcome(p, bytes + 1, n - 1);
  }
  zmq_msg_close(&f);
}

/* ---- the thread ---- */

/* `ripe`: text has waited; what is printed meanwhile waits anew. Returns ns
 * until an update that waits is due, or -1. */
static int64_t send_ready(td_jupyter_iopub *p, bool ripe) {
  item *i;
  pthread_mutex_lock(&p->lock);
  drain_pipes(p);
  if (ripe) hurry(p);
  pthread_mutex_unlock(&p->lock);
  while ((i = take(p))) {
    size_t size = i->size;
    uint64_t n = i->stands_for;
    deliver(p, i);
    gone(p, size, n);
  }
  return td_jupyter_updates_send(&p->updates, td_clock_now(), false,
                                 transmit_update, p);
}

static bool is_closing(td_jupyter_iopub *p) {
  pthread_mutex_lock(&p->lock);
  bool is = p->closing;
  pthread_mutex_unlock(&p->lock);
  return is;
}

static void sleep_for(td_jupyter_iopub *p, int64_t ns) {
  int socket_fd;
  size_t size = sizeof socket_fd;
  zmq_getsockopt(p->socket, ZMQ_FD, &socket_fd, &size);
  pthread_mutex_lock(&p->lock);
  struct pollfd fds[] = {{.fd = p->wake, .events = POLLIN},
                         {.fd = socket_fd, .events = POLLIN},
                         {.fd = p->pipe[0], .events = POLLIN},
                         {.fd = p->pipe[1], .events = POLLIN}};
  pthread_mutex_unlock(&p->lock);
  poll(fds, TD_COUNT(fds), ns < 0 ? -1 : (int)(ns / 1000000) + 1);
  uint64_t count;
  ssize_t n = read(p->wake, &count, sizeof count);
  (void)n;
}

static int64_t sooner(int64_t a, int64_t b) {
  return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void *run(void *arg) {
  td_jupyter_iopub *p = arg;
  int64_t due = 0; /* when waiting text goes; 0: none waits */
  while (!is_closing(p)) {
    read_subscriptions(p);
    bool ripe = due && td_clock_now() >= due;
    int64_t wait = send_ready(p, ripe), now = td_clock_now();
    if (!waiting_text(p))
      due = 0;
    else if (ripe || !due)
      due = now + (int64_t)MERGE_MS * 1000000;
    if (due) wait = sooner(wait, due > now ? due - now : 0);
    read_subscriptions(p);
    sleep_for(p, wait);
  }
  send_ready(p, true);
  end_cell(p, p->owner);
  td_jupyter_output_deinit(&p->outputs);
  td_jupyter_updates_deinit(&p->updates);
  zmq_close(p->socket);
  return NULL;
}

void td_jupyter_iopub_capture(td_jupyter_iopub *p, int out, int err) {
  pthread_mutex_lock(&p->lock);
  p->pipe[0] = out;
  p->pipe[1] = err;
  pthread_mutex_unlock(&p->lock);
  wake(p);
}

td_status *td_jupyter_iopub_new(td_jupyter_iopub **out,
                                const td_jupyter_wire *wire, void *socket,
                                size_t limit) {
  td_jupyter_iopub *p = td_alloc_zero(1, sizeof *p);
  if (!p) return td_oom();
  p->wire = wire;
  p->socket = socket;
  p->pipe[0] = p->pipe[1] = -1;
  p->last = &p->first;
  td_jupyter_output_init(&p->outputs, limit, transmit_text, p);
  p->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  snprintf(p->topic, sizeof p->topic, "kernel.%s", wire->session);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->moved, NULL);
  if (p->wake >= 0 && td_thread_start(&p->thread, "iopub", -1, run, p)) {
    *out = p;
    return NULL;
  }
  if (p->wake >= 0) close(p->wake);
  td_free(p);
  return td_error(TD_RESOURCE_EXHAUSTED, "no thread for the output");
}

void td_jupyter_iopub_free(td_jupyter_iopub *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->closing = true;
  pthread_cond_broadcast(&p->moved);
  pthread_mutex_unlock(&p->lock);
  wake(p);
  pthread_join(p->thread, NULL);
  for (item *i = p->first, *next; i; i = next) {
    next = i->next;
    item_free(i);
  }
  td_jupyter_request_release(p->owner);
  close(p->wake);
  td_free(p);
}
