/* iopub.c - the thread of the IOPub socket.
 *
 * Text of a thread that serves a request belongs to that request; text without
 * one, of child processes and of other threads, belongs to the *owner*, the
 * cell that began last.
 *
 * The XPUB tells of each new subscriber, who gets a welcome before anything
 * else; `starting` follows the first. A peer that does not read holds up the
 * socket. If that lasts, it alone misses messages for a while, and everybody is
 * told.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/iopub.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "jupyter/event.h"
#include "jupyter/iopub_queue.h"
#include "jupyter/log.h"
#include "jupyter/output.h"
#include "jupyter/updates.h"

enum {
  MERGE_MS = 80,  /* stream text waits so long for more */
  PATIENCE_S = 60 /* how long a peer that does not read is left out */
};

typedef td_jupyter_iopub_item item;

struct td_jupyter_iopub {
  td_jupyter_iopub_queue queue;
  const td_jupyter_wire *wire;
  pthread_t thread;
  char topic[96];
  /* the thread's: */
  void *socket;
  bool welcomed; /* somebody watches */
  td_jupyter_output outputs;
  td_jupyter_updates updates;
  td_jupyter_request *owner;
  int64_t lenient_until; /* a peer that does not read may miss messages; 0 */
};

/* ---- adding: any thread ---- */

void td_jupyter_iopub_send(td_jupyter_iopub *p, td_jupyter_request *parent,
                           const char *type, td_bytes content,
                           td_bytes metadata, const td_bytes *buffers,
                           int n_buffers) {
  td_jupyter_iopub_queue_message(&p->queue, parent, type, content, metadata,
                                 buffers, n_buffers);
}

void td_jupyter_iopub_status(td_jupyter_iopub *p, td_jupyter_request *parent,
                             const char *state) {
  char text[64];
  int n = snprintf(text, sizeof text, "{\"execution_state\": \"%s\"}", state);
  if (!strcmp(state, "idle"))
    td_jupyter_iopub_queue_mark(&p->queue, TD_JUPYTER_IOPUB_END, parent);
  td_jupyter_iopub_send(p, parent, "status", (td_bytes){text, (size_t)n},
                        (td_bytes){0}, NULL, 0);
}

void td_jupyter_iopub_text(td_jupyter_iopub *p, td_jupyter_request *parent,
                           int stream, const char *text, size_t len) {
  td_jupyter_iopub_queue_text(&p->queue, parent, stream, text, len);
}

void td_jupyter_iopub_dropped(td_jupyter_iopub *p, td_status *why) {
  if (td_status_code(why) == TD_DATA_LOSS) {
    td_str text;
    td_str_init(&text);
    td_str_addf(&text, "[%s]\n", td_status_message(why));
    td_jupyter_iopub_text(p, NULL, 2, td_str_c(&text), text.len);
    td_str_deinit(&text);
  }
  td_jupyter_log_dropped(why);
}

void td_jupyter_iopub_owner(td_jupyter_iopub *p, td_jupyter_request *parent) {
  td_jupyter_iopub_queue_mark(&p->queue, TD_JUPYTER_IOPUB_OWNER, parent);
}

void td_jupyter_iopub_capture(td_jupyter_iopub *p, int out, int err) {
  td_jupyter_iopub_queue_capture(&p->queue, out, err);
}

void td_jupyter_iopub_flush(td_jupyter_iopub *p) {
  td_jupyter_iopub_queue_flush(&p->queue);
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
                       : td_malloc((size_t)i->n_buffers * sizeof *list);
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
  td_jupyter_iopub_queue_release(message);
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
  td_jupyter_iopub_queue_release(instead);
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
  case TD_JUPYTER_IOPUB_TEXT:
    td_jupyter_output_text(&p->outputs, i->parent ? i->parent : p->owner,
                           i->stream, td_str_c(&i->content), i->content.len);
    break;
  case TD_JUPYTER_IOPUB_MESSAGE:
    if (is_put_off(p, i)) return;
    transmit(p, i);
    break;
  case TD_JUPYTER_IOPUB_OWNER:
    end_cell(p, p->owner);
    td_jupyter_request_release(p->owner);
    p->owner = td_jupyter_request_retain(i->parent);
    break;
  case TD_JUPYTER_IOPUB_END:
    end_cell(p, i->parent);
    break;
  }
  td_jupyter_iopub_queue_release(i);
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
  td_jupyter_iopub_queue_refill(&p->queue, ripe);
  while ((i = td_jupyter_iopub_queue_take(&p->queue))) {
    size_t size = i->size;
    uint64_t n = i->stands_for;
    deliver(p, i);
    td_jupyter_iopub_queue_sent(&p->queue, size, n);
  }
  return td_jupyter_updates_send(&p->updates, td_clock_now(), false,
                                 transmit_update, p);
}

static void sleep_for(td_jupyter_iopub *p, int64_t ns) {
  int socket_fd;
  size_t size = sizeof socket_fd;
  zmq_getsockopt(p->socket, ZMQ_FD, &socket_fd, &size);
  td_jupyter_queue *q = &p->queue.queue;
  pthread_mutex_lock(&q->lock);
  struct pollfd fds[] = {{.fd = q->event, .events = POLLIN},
                         {.fd = socket_fd, .events = POLLIN},
                         {.fd = p->queue.pipe[0], .events = POLLIN},
                         {.fd = p->queue.pipe[1], .events = POLLIN}};
  pthread_mutex_unlock(&q->lock);
  poll(fds, TD_COUNT(fds), ns < 0 ? -1 : (int)(ns / 1000000) + 1);
  td_jupyter_event_clear(q->event);
}

static int64_t sooner(int64_t a, int64_t b) {
  return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void *run(void *arg) {
  td_jupyter_iopub *p = arg;
  int64_t due = 0; /* when waiting text goes; 0: none waits */
  while (!td_jupyter_iopub_queue_closing(&p->queue)) {
    read_subscriptions(p);
    bool ripe = due && td_clock_now() >= due;
    int64_t wait = send_ready(p, ripe), now = td_clock_now();
    if (!td_jupyter_iopub_queue_waits(&p->queue))
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

td_status *td_jupyter_iopub_new(td_jupyter_iopub **out,
                                const td_jupyter_wire *wire, void *socket,
                                size_t limit) {
  td_jupyter_iopub *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->wire = wire;
  p->socket = socket;
  td_jupyter_output_init(&p->outputs, limit, transmit_text, p);
  snprintf(p->topic, sizeof p->topic, "kernel.%s", wire->session);
  td_status *s = td_jupyter_iopub_queue_init(&p->queue);
  if (td_ok(s) && !td_thread_start(&p->thread, "iopub", -1, run, p))
    s = td_error(TD_RESOURCE_EXHAUSTED, "no thread for the output");
  if (td_ok(s)) {
    *out = p;
  } else {
    td_jupyter_iopub_queue_deinit(&p->queue);
    td_free(p);
  }
  return s;
}

void td_jupyter_iopub_free(td_jupyter_iopub *p) {
  if (!p) return;
  td_jupyter_iopub_queue_close(&p->queue);
  pthread_join(p->thread, NULL);
  td_jupyter_iopub_queue_deinit(&p->queue);
  td_jupyter_request_release(p->owner);
  td_free(p);
}
