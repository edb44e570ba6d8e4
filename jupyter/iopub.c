/* iopub.c - the thread of the IOPub socket.
 *
 * The XPUB tells of each new subscriber, who gets a welcome before anything
 * else; `starting` follows the first. The socket never drops: a peer that does
 * not read blocks it for at most SEND_MS a message, and what waits is bounded.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/iopub.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"

enum {
  MERGE_MS = 80,          /* stream text waits so long for more */
  MOST_QUEUED = 64 << 20, /* bytes; who adds more waits */
  MOST_TEXT = 1 << 20,    /* of one stream message */
  CHUNK = 1 << 16
};

/* A message, or text of a stream, in the queue. */
typedef struct item {
  struct item *next;
  td_request *parent;
  char *type;
  int stream; /* 1, 2, or 0: a message */
  td_str content, metadata;
  td_str *buffers;
  int n_buffers;
  size_t size;
} item;

struct td_iopub {
  const td_wire *wire;
  void *socket; /* the thread's */
  char topic[96];
  pthread_t thread;
  int wake; /* an eventfd: something was queued */
  int pipe[2];
  bool welcomed;        /* the thread's: somebody watches */
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t moved; /* the queue became shorter */
  item *first, **last;
  size_t queued;
  uint64_t added, sent; /* items ever */
  td_request *owner;
  bool closing;
};

static void item_free(item *i) {
  if (!i) return;
  td_request_release(i->parent);
  td_free(i->type);
  td_str_deinit(&i->content);
  td_str_deinit(&i->metadata);
  for (int b = 0; b < i->n_buffers; b++) td_str_deinit(&i->buffers[b]);
  td_free(i->buffers);
  td_free(i);
}

/* ---- adding: any thread ---- */

static void wake(td_iopub *p) {
  uint64_t one = 1;
  ssize_t n = write(p->wake, &one, sizeof one);
  (void)n; /* it can only fail when it is awake */
}

static item *item_new(td_request *parent, const char *type, int stream) {
  item *i = td_alloc_zero(1, sizeof *i);
  if (!i) return NULL;
  i->parent = td_request_retain(parent);
  i->type = td_strdup(type);
  i->stream = stream;
  td_str_init(&i->content);
  td_str_init(&i->metadata);
  return i;
}

static void enqueue(td_iopub *p, item *i) {
  if (!i) return;
  i->size = i->content.len + i->metadata.len + sizeof *i;
  for (int b = 0; b < i->n_buffers; b++) i->size += i->buffers[b].len;
  pthread_mutex_lock(&p->lock);
  while (p->queued > MOST_QUEUED && !p->closing)
    pthread_cond_wait(&p->moved, &p->lock);
  *p->last = i;
  p->last = &i->next;
  p->queued += i->size;
  p->added++;
  pthread_mutex_unlock(&p->lock);
  wake(p);
}

void td_iopub_send(td_iopub *p, td_request *parent, const char *type,
                   td_bytes content, td_bytes metadata, const td_bytes *buffers,
                   int n_buffers) {
  item *i = item_new(parent, type, 0);
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

void td_iopub_status(td_iopub *p, td_request *parent, const char *state) {
  char text[64];
  int n = snprintf(text, sizeof text, "{\"execution_state\": \"%s\"}", state);
  td_iopub_send(p, parent, "status", (td_bytes){text, (size_t)n}, (td_bytes){0},
                NULL, 0);
}

void td_iopub_text(td_iopub *p, td_request *parent, int stream,
                   const char *text, size_t len) {
  pthread_mutex_lock(&p->lock);
  item *tail =
      p->first ? (item *)((char *)p->last - offsetof(item, next)) : NULL;
  bool joins = tail && tail->stream == stream && tail->parent == parent &&
               tail->content.len + len <= MOST_TEXT;
  if (joins) {
    td_str_addn(&tail->content, text, len);
    tail->size += len;
    p->queued += len;
  }
  pthread_mutex_unlock(&p->lock);
  if (joins) return;
  item *i = item_new(parent, "stream", stream);
  if (i) td_str_addn(&i->content, text, len);
  enqueue(p, i);
}

void td_iopub_owner(td_iopub *p, td_request *parent) {
  pthread_mutex_lock(&p->lock);
  td_request *was = p->owner;
  p->owner = td_request_retain(parent);
  pthread_mutex_unlock(&p->lock);
  td_request_release(was);
}

void td_iopub_flush(td_iopub *p) {
  pthread_mutex_lock(&p->lock);
  uint64_t until = p->added;
  while (p->sent < until && !p->closing) pthread_cond_wait(&p->moved, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

/* ---- sending: the thread ---- */

static void transmit(td_iopub *p, const item *i, const char *topic) {
  td_bytes buffers[64];
  td_bytes *list = i->n_buffers <= 64
                       ? buffers
                       : td_alloc((size_t)i->n_buffers * sizeof *list);
  if (!list) return;
  for (int b = 0; b < i->n_buffers; b++)
    list[b] = (td_bytes){td_str_c(&i->buffers[b]), i->buffers[b].len};
  td_reply reply = {.to = i->parent,
                    .topic = topic,
                    .type = i->type,
                    .content = {td_str_c(&i->content), i->content.len},
                    .metadata = {td_str_c(&i->metadata), i->metadata.len},
                    .buffers = list,
                    .n_buffers = i->n_buffers};
  td_wire_send(p->wire, p->socket, &reply, NULL);
  if (list != buffers) td_free(list);
}

static void transmit_stream(td_iopub *p, item *i) {
  td_str text = i->content;
  td_str_init(&i->content);
  td_str_addf(&i->content, "{\"name\": \"%s\", \"text\": ",
              i->stream == 1 ? "stdout" : "stderr");
  td_str_json(&i->content, td_str_c(&text), text.len);
  td_str_addc(&i->content, '}');
  td_str_deinit(&text);
  transmit(p, i, i->stream == 1 ? "stream.stdout" : "stream.stderr");
}

static void deliver(td_iopub *p, item *i) {
  char topic[160];
  snprintf(topic, sizeof topic, "%s.%s", p->topic, i->type);
  if (i->stream)
    transmit_stream(p, i);
  else
    transmit(p, i, topic);
}

/* The first item when it may go now: text waits for what follows it. */
static item *take(td_iopub *p, bool text_too) {
  pthread_mutex_lock(&p->lock);
  item *i = p->first;
  if (i && i->stream && !i->next && !text_too && i->content.len < MOST_TEXT / 2)
    i = NULL;
  if (i) {
    p->first = i->next;
    if (!p->first) p->last = &p->first;
  }
  pthread_mutex_unlock(&p->lock);
  return i;
}

static void gone(td_iopub *p, item *i) {
  pthread_mutex_lock(&p->lock);
  p->queued -= i->size;
  p->sent++;
  pthread_cond_broadcast(&p->moved);
  pthread_mutex_unlock(&p->lock);
  item_free(i);
}

static bool waiting_text(td_iopub *p) {
  pthread_mutex_lock(&p->lock);
  bool is = p->first != NULL;
  pthread_mutex_unlock(&p->lock);
  return is;
}

/* ---- subscribers ---- */

static void welcome(td_iopub *p, const char *topic, size_t len) {
  td_str content;
  td_str_init(&content);
  td_str_add(&content, "{\"subscription\": ");
  td_str_json(&content, topic, len);
  td_str_addc(&content, '}');
  char *text = td_strndup(topic, len);
  td_reply reply = {.topic = text ? text : "",
                    .type = "iopub_welcome",
                    .content = {td_str_c(&content), content.len}};
  if (strlen(reply.topic) == len)
    td_wire_send(p->wire, p->socket, &reply, NULL);
  td_free(text);
  td_str_deinit(&content);
  if (p->welcomed) return;
  p->welcomed = true;
  td_reply starting = {.topic = "status",
                       .type = "status",
                       .content = {"{\"execution_state\": \"starting\"}", 31}};
  td_wire_send(p->wire, p->socket, &starting, NULL);
}

static void read_subscriptions(td_iopub *p) {
  zmq_msg_t f;
  zmq_msg_init(&f);
  while (zmq_msg_recv(&f, p->socket, ZMQ_DONTWAIT) >= 0) {
    const char *bytes = zmq_msg_data(&f);
    size_t n = zmq_msg_size(&f);
    if (n > 0 && bytes[0] == 1) welcome(p, bytes + 1, n - 1);
  }
  zmq_msg_close(&f);
}

/* ---- what the process itself writes ---- */

static void drain_pipe(td_iopub *p, int stream) {
  char bytes[CHUNK];
  for (;;) {
    ssize_t n = p->pipe[stream - 1] < 0
                    ? -1
                    : read(p->pipe[stream - 1], bytes, sizeof bytes);
    if (n <= 0) return;
    pthread_mutex_lock(&p->lock);
    td_request *owner = td_request_retain(p->owner);
    pthread_mutex_unlock(&p->lock);
    item *i = item_new(owner, "stream", stream);
    if (i) {
      td_str_addn(&i->content, bytes, (size_t)n);
      transmit_stream(p, i);
    }
    item_free(i);
    td_request_release(owner);
  }
}

/* ---- the thread ---- */

static void send_ready(td_iopub *p, bool text_too) {
  item *i;
  drain_pipe(p, 1);
  drain_pipe(p, 2);
  while ((i = take(p, text_too))) {
    deliver(p, i);
    gone(p, i);
  }
}

static bool is_closing(td_iopub *p) {
  pthread_mutex_lock(&p->lock);
  bool is = p->closing;
  pthread_mutex_unlock(&p->lock);
  return is;
}

static void sleep_until(td_iopub *p, int64_t text_due) {
  int socket_fd;
  size_t size = sizeof socket_fd;
  zmq_getsockopt(p->socket, ZMQ_FD, &socket_fd, &size);
  struct pollfd fds[] = {{.fd = p->wake, .events = POLLIN},
                         {.fd = socket_fd, .events = POLLIN},
                         {.fd = p->pipe[0], .events = POLLIN},
                         {.fd = p->pipe[1], .events = POLLIN}};
  int ms = -1;
  if (text_due) {
    int64_t left = text_due - td_clock_now();
    ms = left > 0 ? (int)(left / 1000000) + 1 : 0;
  }
  poll(fds, TD_COUNT(fds), ms);
  uint64_t count;
  ssize_t n = read(p->wake, &count, sizeof count);
  (void)n;
}

static void *run(void *arg) {
  td_iopub *p = arg;
  int64_t due = 0; /* when waiting text goes; 0: none waits */
  while (!is_closing(p)) {
    read_subscriptions(p);
    send_ready(p, due && td_clock_now() >= due);
    if (!waiting_text(p))
      due = 0;
    else if (!due)
      due = td_clock_now() + (int64_t)MERGE_MS * 1000000;
    read_subscriptions(p);
    sleep_until(p, due);
  }
  send_ready(p, true);
  zmq_close(p->socket);
  return NULL;
}

void td_iopub_capture(td_iopub *p, int out, int err) {
  p->pipe[0] = out;
  p->pipe[1] = err;
  wake(p);
}

td_status *td_iopub_new(td_iopub **out, const td_wire *wire, void *socket) {
  td_iopub *p = td_alloc_zero(1, sizeof *p);
  if (!p) return td_oom();
  p->wire = wire;
  p->socket = socket;
  p->pipe[0] = p->pipe[1] = -1;
  p->last = &p->first;
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

void td_iopub_free(td_iopub *p) {
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
  td_request_release(p->owner);
  close(p->wake);
  td_free(p);
}
