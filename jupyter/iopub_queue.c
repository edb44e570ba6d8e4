/* iopub_queue.c - what is to be shown, until iopub's thread sends it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/iopub_queue.h"

#include <stddef.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "jupyter/event.h"

enum {
  MOST_QUEUED = 64 << 20, /* bytes; who adds more waits */
  MOST_TEXT = 1 << 20,    /* of one stream message */
  MOST_TURNS = 64,        /* of stdout and stderr; then each goes as one */
  SOON_NS = 200000,       /* no child process prints so soon */
  CHUNK = 1 << 16
};

typedef td_jupyter_iopub_item item;

void td_jupyter_iopub_queue_release(td_jupyter_iopub_item *i) {
  if (!i) return;
  td_jupyter_request_release(i->parent);
  td_free(i->type);
  td_str_deinit(&i->content);
  td_str_deinit(&i->metadata);
  for (int b = 0; b < i->n_buffers; b++) td_str_deinit(&i->buffers[b]);
  td_free(i->buffers);
  td_free(i);
}

static item *item_new(td_jupyter_iopub_kind kind, td_jupyter_request *parent) {
  item *i = td_calloc(1, sizeof *i);
  if (!i) return NULL;
  i->kind = kind;
  i->stands_for = 1;
  i->parent = td_jupyter_request_retain(parent);
  td_str_init(&i->content);
  td_str_init(&i->metadata);
  return i;
}

static item *first_of(const td_jupyter_iopub_queue *q) {
  return (item *)q->queue.first;
}

static item *last_of(const td_jupyter_iopub_queue *q) {
  if (!q->queue.first) return NULL;
  return (item *)((char *)q->queue.last - offsetof(td_jupyter_entry, next));
}

static item *next_of(const item *i) {
  return (item *)i->entry.next;
}

/* ---- adding: any thread ---- */

static void wake(td_jupyter_iopub_queue *q) {
  td_jupyter_event_set(q->queue.event);
}

/* The lock is held. */
static void append(td_jupyter_iopub_queue *q, item *i) {
  i->size = i->content.len + i->metadata.len + sizeof *i;
  for (int b = 0; b < i->n_buffers; b++) i->size += i->buffers[b].len;
  td_jupyter_queue_append(&q->queue, &i->entry);
  q->bytes += i->size;
  q->others += i->kind != TD_JUPYTER_IOPUB_TEXT;
  q->added++;
}

/* What is there goes as it is. The lock is held. */
static void hurry(td_jupyter_iopub_queue *q) {
  q->hurry = q->added;
}

/* True when it was joined with what waits. The lock is held. */
static bool append_text(td_jupyter_iopub_queue *q, td_jupyter_request *parent,
                        int stream, const char *text, size_t len) {
  item *i = last_of(q);
  if (i && i->kind == TD_JUPYTER_IOPUB_TEXT && i->stream == stream &&
      i->parent == parent && i->content.len + len <= MOST_TEXT) {
    td_str_addn(&i->content, text, len);
    i->size += len;
    q->bytes += len;
    return true;
  }
  i = item_new(TD_JUPYTER_IOPUB_TEXT, parent);
  if (!i) return false;
  i->stream = stream;
  td_str_addn(&i->content, text, len);
  append(q, i);
  return false;
}

/* What the process itself wrote, past our streams, comes before what is added
 * now. A full queue leaves it in the pipe. The lock is held. */
static void drain_pipes(td_jupyter_iopub_queue *q) {
  char bytes[CHUNK];
  for (int stream = 1; stream <= 2; stream++) {
    ssize_t n = 1;
    while (q->pipe[stream - 1] >= 0 && n > 0 && q->bytes < MOST_QUEUED) {
      n = read(q->pipe[stream - 1], bytes, sizeof bytes);
      if (n > 0) append_text(q, NULL, stream, bytes, (size_t)n);
    }
  }
}

/* Until there is room for more; the lock is held. */
static void await_room(td_jupyter_iopub_queue *q) {
  while (q->bytes > MOST_QUEUED && !q->closing)
    pthread_cond_wait(&q->queue.changed, &q->queue.lock);
}

static void put(td_jupyter_iopub_queue *q, item *i) {
  pthread_mutex_lock(&q->queue.lock);
  await_room(q);
  drain_pipes(q);
  append(q, i);
  pthread_mutex_unlock(&q->queue.lock);
  wake(q);
}

void td_jupyter_iopub_queue_message(td_jupyter_iopub_queue *q,
                                    td_jupyter_request *parent,
                                    const char *type, td_bytes content,
                                    td_bytes metadata, const td_bytes *buffers,
                                    int n_buffers) {
  item *i = item_new(TD_JUPYTER_IOPUB_MESSAGE, parent);
  if (!i) return;
  i->type = td_strdup(type);
  td_str_addn(&i->content, content.at, content.len);
  td_str_addn(&i->metadata, metadata.at, metadata.len);
  if (n_buffers) i->buffers = td_calloc((size_t)n_buffers, sizeof(td_str));
  for (int b = 0; i->buffers && b < n_buffers; b++) {
    td_str_init(&i->buffers[b]);
    td_str_addn(&i->buffers[b], buffers[b].at, buffers[b].len);
    i->n_buffers++;
  }
  put(q, i);
}

void td_jupyter_iopub_queue_mark(td_jupyter_iopub_queue *q,
                                 td_jupyter_iopub_kind kind,
                                 td_jupyter_request *parent) {
  item *i = item_new(kind, parent);
  if (i) put(q, i);
}

/* A child process takes longer than SOON_NS to print: within that there is no
 * need to look. */
void td_jupyter_iopub_queue_text(td_jupyter_iopub_queue *q,
                                 td_jupyter_request *parent, int stream,
                                 const char *text, size_t len) {
  int64_t now = td_clock_now();
  pthread_mutex_lock(&q->queue.lock);
  await_room(q);
  if (now - q->printed > SOON_NS) drain_pipes(q);
  q->printed = now;
  bool joined = append_text(q, parent, stream, text, len);
  pthread_mutex_unlock(&q->queue.lock);
  if (!joined) wake(q);
}

void td_jupyter_iopub_queue_capture(td_jupyter_iopub_queue *q, int out,
                                    int err) {
  pthread_mutex_lock(&q->queue.lock);
  q->pipe[0] = out;
  q->pipe[1] = err;
  pthread_mutex_unlock(&q->queue.lock);
  wake(q);
}

void td_jupyter_iopub_queue_flush(td_jupyter_iopub_queue *q) {
  pthread_mutex_lock(&q->queue.lock);
  uint64_t until = q->added;
  hurry(q);
  wake(q);
  while (q->sent < until && !q->closing)
    pthread_cond_wait(&q->queue.changed, &q->queue.lock);
  pthread_mutex_unlock(&q->queue.lock);
}

void td_jupyter_iopub_queue_close(td_jupyter_iopub_queue *q) {
  pthread_mutex_lock(&q->queue.lock);
  q->closing = true;
  pthread_cond_broadcast(&q->queue.changed);
  pthread_mutex_unlock(&q->queue.lock);
  wake(q);
}

/* ---- taking: iopub's thread ---- */

void td_jupyter_iopub_queue_refill(td_jupyter_iopub_queue *q, bool ripe) {
  pthread_mutex_lock(&q->queue.lock);
  drain_pipes(q);
  if (ripe) hurry(q);
  pthread_mutex_unlock(&q->queue.lock);
}

/* Is it one more of the texts behind `first`, and can it be joined with it? */
static bool joins(const item *first, const item *i) {
  return i->stream == first->stream && i->parent == first->parent &&
         first->content.len + i->content.len <= MOST_TEXT;
}

/* Text of stdout and stderr in turns would be a message each: beyond a few, all
 * of the first one's goes first. The lock is held. */
static void join_turns(td_jupyter_iopub_queue *q, item *first) {
  int turns = 0;
  item *i = next_of(first);
  for (; i && i->kind == TD_JUPYTER_IOPUB_TEXT && turns < MOST_TURNS;
       i = next_of(i))
    turns++;
  if (turns < MOST_TURNS) return;
  td_jupyter_entry **at = &first->entry.next;
  while ((i = (item *)*at) && i->kind == TD_JUPYTER_IOPUB_TEXT) {
    if (!joins(first, i)) {
      at = &i->entry.next;
      continue;
    }
    td_str_addn(&first->content, td_str_c(&i->content), i->content.len);
    first->size += i->size;
    first->stands_for += i->stands_for;
    *at = i->entry.next;
    if (!*at) q->queue.last = at;
    td_jupyter_iopub_queue_release(i);
  }
}

td_jupyter_iopub_item *td_jupyter_iopub_queue_take(td_jupyter_iopub_queue *q) {
  pthread_mutex_lock(&q->queue.lock);
  item *i = first_of(q);
  bool text = i && i->kind == TD_JUPYTER_IOPUB_TEXT;
  if (text && q->others == 0 && q->hurry <= q->sent && q->bytes < MOST_TEXT / 2)
    i = NULL;
  if (i) {
    if (text) join_turns(q, i);
    q->others -= !text;
    td_jupyter_queue_pop(&q->queue);
  }
  pthread_mutex_unlock(&q->queue.lock);
  return i;
}

void td_jupyter_iopub_queue_sent(td_jupyter_iopub_queue *q, size_t size,
                                 uint64_t stands_for) {
  pthread_mutex_lock(&q->queue.lock);
  q->bytes -= size;
  q->sent += stands_for;
  pthread_cond_broadcast(&q->queue.changed);
  pthread_mutex_unlock(&q->queue.lock);
}

bool td_jupyter_iopub_queue_waits(td_jupyter_iopub_queue *q) {
  pthread_mutex_lock(&q->queue.lock);
  bool is = q->queue.first != NULL;
  pthread_mutex_unlock(&q->queue.lock);
  return is;
}

bool td_jupyter_iopub_queue_closing(td_jupyter_iopub_queue *q) {
  pthread_mutex_lock(&q->queue.lock);
  bool is = q->closing;
  pthread_mutex_unlock(&q->queue.lock);
  return is;
}

/* ---- life ---- */

td_status *td_jupyter_iopub_queue_init(td_jupyter_iopub_queue *q) {
  *q = (td_jupyter_iopub_queue){.pipe = {-1, -1}};
  return td_jupyter_queue_init(&q->queue, true);
}

void td_jupyter_iopub_queue_deinit(td_jupyter_iopub_queue *q) {
  item *i;
  while ((i = td_jupyter_queue_take(&q->queue)))
    td_jupyter_iopub_queue_release(i);
  td_jupyter_queue_deinit(&q->queue);
}
