/* channel_zmq_frame.c - frames as ZeroMQ's messages, and the other way.
 *
 * Out: bytes go to the system from where they are, and are let go of by one of
 * ZeroMQ's threads. Few of them are copied, since that costs less than to tell
 * somebody; up to SHORTEST they fit into the message itself.
 *
 * In: ZeroMQ reads small messages in batches of 8 KiB and hands out pieces of
 * the batch, so that a kept piece keeps all: what is not much smaller than that
 * is copied out, and a frame costs at most about four times its length.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/remote/channel_zmq_impl.h"

enum { SHORTEST = 33, COPY_OUT = 512, COPY_IN = 2048 };

/* ---- what is under way -----------------------------------------------------
 */

td_zmq_load *td_zmq_load_new(void) {
  td_zmq_load *l = td_calloc(1, sizeof *l);
  if (l) l->refs = 1;
  return l;
}

void td_zmq_load_release(td_zmq_load *l) {
  if (l && __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) == 0) td_free(l);
}

/* ---- out -------------------------------------------------------------------
 */

typedef struct sent {
  td_raw frame; /* the caller's; nothing to release when it was copied */
  td_zmq_load *load;
  td_lane lane;
  char copy[];
} sent;

/* ZeroMQ's, on any thread. */
static void let_go(void *data, void *arg) {
  sent *s = arg;
  (void)data;
  __atomic_sub_fetch(&s->load->bytes[s->lane], (int64_t)s->frame.len,
                     __ATOMIC_ACQ_REL);
  td_zmq_load_release(s->load);
  td_raw_release(&s->frame);
  td_free(s);
}

static bool put_short(td_raw *f, zmq_msg_t *out) {
  zmq_msg_init_size(out, f->len);
  if (f->len) memcpy(zmq_msg_data(out), f->at, f->len);
  td_raw_release(f);
  return true;
}

bool td_zmq_frame_to_message(td_raw *f, td_zmq_load *load, td_lane lane,
                             zmq_msg_t *out) {
  if (f->len <= SHORTEST) return put_short(f, out);
  bool copy = f->len < COPY_OUT || !f->release;
  sent *s = td_malloc(sizeof *s + (copy ? f->len : 0));
  if (!s) {
    td_raw_release(f);
    return false;
  }
  *s = (sent){*f, load, lane};
  *f = (td_raw){0};
  if (copy) {
    memcpy(s->copy, s->frame.at, s->frame.len);
    if (s->frame.release) s->frame.release(s->frame.arg);
    s->frame = (td_raw){s->copy, s->frame.len, NULL, NULL};
  }
  __atomic_add_fetch(&load->refs, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&load->bytes[lane], (int64_t)s->frame.len,
                     __ATOMIC_RELAXED);
  if (zmq_msg_init_data(out, (void *)(uintptr_t)s->frame.at, s->frame.len,
                        let_go, s) == 0)
    return true;
  let_go(NULL, s);
  return false;
}

/* ---- in --------------------------------------------------------------------
 */

static void close_message(void *arg) {
  zmq_msg_close(arg);
  td_free(arg);
}

static bool copy_in(zmq_msg_t *m, size_t len, td_raw *out) {
  char *at = td_malloc(len);
  if (!at) return false;
  memcpy(at, zmq_msg_data(m), len);
  *out = (td_raw){at, len, td_free, at};
  return true;
}

static bool keep(zmq_msg_t *m, size_t len, td_raw *out) {
  zmq_msg_t *own = td_malloc(sizeof *own);
  if (!own) return false;
  zmq_msg_init(own);
  zmq_msg_move(own, m);
  *out = (td_raw){zmq_msg_data(own), len, close_message, own};
  return true;
}

bool td_zmq_frame_from_message(zmq_msg_t *m, td_raw *out) {
  size_t len = zmq_msg_size(m);
  bool ok = len < COPY_IN ? copy_in(m, len, out) : keep(m, len, out);
  zmq_msg_close(m);
  return ok;
}
