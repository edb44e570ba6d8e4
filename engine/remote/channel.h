/* channel.h - messages to other processes, and theirs to this one.
 *
 * A *channel* is this process's end of all its talk: what it listens on, and a
 * *link* for each peer. A link has two lanes that do not wait for one another:
 * control, for what is small and prompt, and data. A message is a list of
 * frames; on a lane messages come in the order in which they were sent, each at
 * most once. What a connection had under way is lost with it, and nobody says
 * so: who must know counts messages (peer.c).
 *
 * A channel has one owner (remote.h), which calls it only inside of its turn,
 * one thread at a time, and is called back from `drain`, inside of the same
 * turn. Two calls are for outside of it: `wait`, one thread at a time, and
 * `wake`.
 *
 * There are two: ZeroMQ's (channel_zmq.c), and one in the process, on the
 * simulator's clock (tests/sim/network.c). One over RDMA would be a third.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHANNEL_H
#define TD_CHANNEL_H

#include "engine/base/status.h"

TD_BEGIN

typedef struct td_channel td_channel;
typedef struct td_link td_link;

typedef enum td_lane { TD_LANE_CONTROL, TD_LANE_DATA } td_lane;
enum { TD_LANES = 2 };

enum {
  TD_MESSAGE_FRAMES = 80,       /* of one message */
  TD_FRAME_MOST = 1 << 20,   /* bytes of one frame */
  TD_MESSAGE_MOST = 16 << 20, /* bytes of one message */
  TD_CHUNK = 256 << 10,      /* bytes of a tensor in one message */
};

/* Bytes and who has them: `release` (NULL: nothing to do) is called once, by
 * any thread. */
typedef struct td_raw {
  const void *at;
  size_t len;
  void (*release)(void *arg);
  void *arg;
} td_raw;

static inline void td_raw_release(td_raw *f) {
  if (f->release) f->release(f->arg);
  f->at = NULL, f->len = 0;
  f->release = NULL, f->arg = NULL;
}

/* What a channel learns of a link beside its messages. */
typedef enum td_trouble {
  TD_TROUBLE_LOST,      /* a connection is gone; who dialled it makes it again by
                           itself, and the link stays the same on both sides */
  TD_TROUBLE_UNREACHED, /* nobody answers there; it is tried again */
  TD_TROUBLE_KEY,       /* the peer has not this process's key on its list */
  TD_TROUBLE_MECHANISM, /* one side speaks CURVE, the other does not */
  TD_TROUBLE_HANDSHAKE, /* refused without a reason, three times, by who speaks
                             CURVE: it has another key than the one given */
  TD_TROUBLE_CLOSED,    /* connections are taken and closed before a word: a
                           forwarder whose far end is not there; tried again */
} td_trouble;

/* The owner's; all are called inside of its turn. */
typedef struct td_channel_events {
  /* A message; takes ownership of the frames, not of the array. `l` may be one
   * that a peer made: nobody dialled it, `l->owner` is NULL then. */
  void (*message)(void *arg, td_link *l, td_lane lane, td_raw *frames, int n);
  void (*trouble)(void *arg, td_link *l, td_trouble what);
  void *arg;
} td_channel_events;

/* Where a peer is reached. */
typedef struct td_dial {
  const char *control; /* "tcp://host:port", "ipc:///path" */
  const char *data;    /* NULL: told later (dial_data) */
  const char *key;     /* its public key, Z85; NULL: plain, over ipc only */
} td_dial;

typedef struct td_channel_ops {
  /* A new way to a peer; never waits. Caller owns the result (hang_up). */
  td_status *(*dial)(td_channel *c, const td_dial *to, td_link **out);
  td_status *(*dial_data)(td_link *l, const char *address);
  /* Takes ownership of the frames, unless it is UNAVAILABLE: there is no
   * connection just now, they stay the caller's and may be sent later. Never
   * waits. RESOURCE_EXHAUSTED when the peer takes nothing and what waits for
   * it is at the limit. Success says nothing. */
  td_status *(*send)(td_link *l, td_lane lane, td_raw *frames, int n);
  /* Ends a link, also one that a peer made; nothing more comes from it, and
   * what was sent just before may not arrive. What who dialled sends all the
   * same comes by another link, that has no owner. In a callback too. */
  void (*hang_up)(td_link *l);
  /* Where the lane listens, as a peer on this machine would dial it; NULL: it
   * does not listen. Borrowed; valid while `c` lives. */
  const char *(*address)(const td_channel *c, td_lane lane);
  /* Hands what has come to the owner, at most `most` messages. False: nothing
   * was there. Once after each `wait` is enough: with more to come that returns
   * at once. */
  bool (*drain)(td_channel *c, int most);
  /* Outside of the turn: sleeps until something comes, `wake` is called, or
   * td_clock_now() passes `until`; may return early. */
  void (*wait)(td_channel *c, int64_t until);
  void (*wake)(td_channel *c);
  void (*free)(td_channel *c); /* hangs up all that is left */
} td_channel_ops;

/* Their maker's structs begin with these. */
struct td_channel {
  const td_channel_ops *ops;
  td_channel_events events; /* set by the owner before anything is called */
  bool soon; /* the owner's: who has the turn drains again before it sleeps, so
                that a send need not look for what came meanwhile */
};
struct td_link {
  td_channel *of;
  void *owner; /* the owner's, NULL at first */
  bool dialled; /* by this side */
  const char *key; /* the public key (Z85) that the other side has proved to have;
                      NULL: none, by ipc, where the folder lets nobody else in.
                      Borrowed; set before its first message */
};

/* ---- ZeroMQ -------------------------------------------------------------- */

typedef struct td_channel_zmq_options {
  const char *listen;      /* NULL: it dials only. "tcp://host:port" (port 0:
                              any), "ipc:///path" in a folder of mode 0700 */
  const char *listen_data; /* NULL: any port of the host, or path + "-data" */
  const char *secret, *public_key; /* Z85, for tcp: CURVE. NULL: ipc only */
  /* May who shows this public key (Z85) connect? NULL: whoever knows ours.
   * Called inside of the turn. */
  bool (*allow)(void *arg, const char *key);
  void *allow_arg;
  void (*allow_free)(void *arg); /* (optional) of allow_arg: once nobody asks any
                                    more, also when no channel was made */
  int handshake_ms; /* 0: 5000 */
  int connections;  /* by tcp, of an address, a second, and eight times as many
                       at once; more wait. 0: 64 */
} td_channel_zmq_options;

/* ADDRESS in use, a folder that others can open, a missing key: errors that say
 * so. Copies what it needs. Caller owns the result (ops->free). */
td_status *td_channel_zmq_new(const td_channel_zmq_options *o,
                              td_channel **out) TD_MUST_USE;

TD_END
#endif
