/* channel_zmq_receive.c - messages in.
 *
 * ZeroMQ hands out a message when all of it is there. What is in it was made
 * elsewhere: a peer whose message has more frames or bytes than there may be is
 * cut off. Memory for a frame that is not to be had costs the message, as a
 * connection that breaks does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "engine/remote/channel_zmq_impl.h"

typedef struct incoming {
  td_zmq_link *link; /* NULL: nobody's, to be dropped */
  td_raw frames[TD_MESSAGE_FRAMES];
  int n;
  size_t bytes;
  bool dropped; /* no memory */
  bool beyond;  /* what a message may be */
} incoming;

static bool receive_part(td_zmq_socket *s, zmq_msg_t *m) {
  int n;
  zmq_msg_init(m);
  do n = zmq_msg_recv(m, s->zmq, ZMQ_DONTWAIT);
  while (n < 0 && zmq_errno() == EINTR);
  if (n < 0) zmq_msg_close(m);
  return n >= 0;
}

/* Takes ownership of `m`. */
static void add(incoming *in, zmq_msg_t *m) {
  in->bytes += zmq_msg_size(m);
  in->beyond |= in->n == TD_MESSAGE_FRAMES || in->bytes > TD_MESSAGE_MOST;
  if (!in->link || in->beyond || in->dropped) {
    zmq_msg_close(m);
    return;
  }
  if (td_zmq_frame_from_message(m, &in->frames[in->n]))
    in->n++;
  else
    in->dropped = true;
}

static void release(incoming *in) {
  for (int i = 0; i < in->n; i++) td_raw_release(&in->frames[i]);
}

static void hand_over(td_zmq *c, td_zmq_socket *s, incoming *in) {
  if (in->link && in->beyond) td_zmq_link_stop(in->link);
  if (!in->link || in->beyond || in->dropped || in->n == 0) {
    release(in);
    return;
  }
  c->base.events.message(c->base.events.arg, &in->link->base, s->lane,
                         in->frames, in->n);
}

bool td_zmq_receive(td_zmq *c, td_zmq_socket *s) {
  zmq_msg_t m;
  incoming in;
  in.link = s->link;
  in.n = 0, in.bytes = 0;
  in.dropped = in.beyond = false;
  if (!s->zmq || !receive_part(s, &m)) return false;
  bool more = zmq_msg_more(&m);
  if (s->link) {
    add(&in, &m);
  } else {
    in.link = td_zmq_link_of(c, zmq_msg_data(&m), zmq_msg_size(&m));
    zmq_msg_close(&m);
  }
  while (more && receive_part(s, &m)) {
    if (in.link && in.n == 0 && !s->link) {
      if (td_zmq_link_proves(in.link, &m))
        td_zmq_monitor_seen(in.link, s->lane, zmq_msg_get(&m, ZMQ_SRCFD));
      else
        in.link = NULL;
    }
    more = zmq_msg_more(&m);
    add(&in, &m);
  }
  hand_over(c, s, &in);
  return true;
}
