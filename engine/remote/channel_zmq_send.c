/* channel_zmq_send.c - messages out.
 *
 * Nothing waits. What ZeroMQ would have to keep beyond a fuse is an error:
 * bytes are counted here (td_zmq_load), messages, which may be empty, by
 * ZeroMQ.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/remote/channel_zmq_impl.h"

/* Of a lane of a link: bytes that are with ZeroMQ. */
static const int64_t load_most[TD_LANES] = {4 << 20, 16 << 20};
static const char *const lane_name[TD_LANES] = {"control", "data"};

static td_status *check(const td_raw *frames, int n, size_t *bytes) {
  *bytes = 0;
  if (n < 1 || n > TD_MESSAGE_FRAMES)
    return td_error(TD_INVALID_ARGUMENT,
                    "a message of %d frames; there may be 1 to %d", n,
                    (int)TD_MESSAGE_FRAMES);
  for (int i = 0; i < n; i++) {
    if (frames[i].len > TD_FRAME_MOST)
      return td_error(TD_INVALID_ARGUMENT,
                      "a frame of %zu bytes; there may be %d", frames[i].len,
                      (int)TD_FRAME_MOST);
    *bytes += frames[i].len;
  }
  if (*bytes <= TD_MESSAGE_MOST) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a message of %zu bytes; there may be %d", *bytes,
                  (int)TD_MESSAGE_MOST);
}

static td_status *no_connection(td_lane lane) {
  return td_error(TD_UNAVAILABLE, "no connection for %s just now",
                  lane_name[lane]);
}

static td_status *takes_nothing(const td_zmq_link *l, td_lane lane) {
  return td_error(
      TD_RESOURCE_EXHAUSTED, "the peer takes no %s: %lld bytes wait for it",
      lane_name[lane],
      (long long)__atomic_load_n(&l->load->bytes[lane], __ATOMIC_RELAXED));
}

/* A message without bytes is taken however many wait. */
static td_status *check_load(const td_zmq_link *l, td_lane lane, size_t bytes) {
  int64_t now = __atomic_load_n(&l->load->bytes[lane], __ATOMIC_RELAXED);
  if (now == 0 || now + (int64_t)bytes <= load_most[lane]) return NULL;
  return takes_nothing(l, lane);
}

/* Where it goes out; NULL: nowhere. */
static td_zmq_socket *way_out(td_zmq_link *l, td_lane lane) {
  td_zmq *c = (td_zmq *)l->base.of;
  td_zmq_socket *s =
      l->base.dialled ? &l->lane[lane].messages : &c->listens[lane].messages;
  return l->stopped || l->gone || !s->zmq ? NULL : s;
}

static int flags_of(bool more) {
  return ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
}

/* The peer's connection is not there, or is full. */
static td_status *refused(td_zmq_link *l, td_lane lane, int err) {
  if (!l->base.dialled)
    return err == EAGAIN ? takes_nothing(l, lane) : no_connection(lane);
  td_zmq_monitor_read((td_zmq *)l->base.of, l, lane);
  /* A new connection is heard of before it takes anything, and the end of one
   * before it takes nothing any more. */
  const td_zmq_lane *a = &l->lane[lane];
  bool full = err == EAGAIN && a->connected && a->passed;
  return full ? takes_nothing(l, lane) : no_connection(lane);
}

/* Once a message has begun its rest goes the same way, be it into nothing: a
 * socket whose message has no end would take the next one for it. It is lost
 * then, as others that were under way. */
static td_status *put(td_zmq_link *l, td_zmq_socket *s, td_lane lane,
                      zmq_msg_t *parts, int n) {
  bool begun = false;
  if (!l->base.dialled) {
    if (zmq_send(s->zmq, l->id, TD_ZMQ_ID, flags_of(true)) < 0)
      return refused(l, lane, zmq_errno());
    begun = true;
  }
  for (int i = 0; i < n; i++) {
    if (zmq_msg_send(&parts[i], s->zmq, flags_of(i + 1 < n)) >= 0)
      begun = true;
    else if (!begun)
      return refused(l, lane, zmq_errno());
  }
  l->lane[lane].passed = true;
  return NULL;
}

/* A copy, which does not count as being with ZeroMQ. */
static bool take_back(zmq_msg_t *m, td_raw *out) {
  size_t len = zmq_msg_size(m);
  char *at = td_malloc(len + 1);
  if (at) {
    memcpy(at, zmq_msg_data(m), len);
    *out = (td_raw){at, len, td_free, at};
  }
  zmq_msg_close(m);
  return at != NULL;
}

/* What found no connection is the caller's again. */
static td_status *give_back(zmq_msg_t *parts, td_raw *frames, int n,
                            td_status *why) {
  for (int i = 0; i < n; i++) {
    if (take_back(&parts[i], &frames[i])) continue;
    for (int k = 0; k < n; k++)
      if (k < i)
        td_raw_release(&frames[k]);
      else if (k > i)
        zmq_msg_close(&parts[k]);
    td_status_release(why);
    return td_oom();
  }
  return why;
}

static td_status *send_all(td_zmq_link *l, td_lane lane, td_raw *frames, int n,
                           int *taken) {
  size_t bytes;
  zmq_msg_t parts[TD_MESSAGE_FRAMES];
  td_zmq_socket *s = way_out(l, lane);
  TD_TRY(check(frames, n, &bytes));
  if (!s) return no_connection(lane);
  TD_TRY(check_load(l, lane, bytes));
  td_status *status = NULL;
  int made = 0;
  for (; made < n; made++) {
    *taken = made + 1;
    if (!td_zmq_frame_to_message(&frames[made], l->load, lane, &parts[made])) {
      status = td_oom();
      break;
    }
  }
  if (td_ok(status)) {
    status = put(l, s, lane, parts, n);
    td_zmq_socket_sent((td_zmq *)l->base.of, s);
    if (td_status_code(status) == TD_UNAVAILABLE)
      return give_back(parts, frames, n, status);
  }
  for (int i = 0; i < made; i++) zmq_msg_close(&parts[i]);
  return status;
}

td_status *td_zmq_send(td_zmq_link *l, td_lane lane, td_raw *frames, int n) {
  int taken = 0;
  td_status *s = send_all(l, lane, frames, n, &taken);
  if (td_status_code(s) == TD_UNAVAILABLE) return s;
  for (int i = taken; i < n; i++) td_raw_release(&frames[i]);
  return s;
}
