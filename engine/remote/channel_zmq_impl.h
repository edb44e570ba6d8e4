/* channel_zmq_impl.h - what the files of the ZeroMQ channel share.
 *
 * channel_zmq.c is the channel, which calls all others. Each of those has a
 * part below, the lowest first; none calls what stands after it.
 *
 * All is touched inside of the owner's turn only, except for what is said to be
 * atomic: `wait` and `wake` are called outside of it, and ZeroMQ's threads let
 * go of what was sent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHANNEL_ZMQ_IMPL_H
#define TD_CHANNEL_ZMQ_IMPL_H

#include <sys/types.h>
#include <zmq.h>

#include "engine/base/map.h"
#include "engine/base/str.h"
#include "engine/remote/channel.h"

typedef struct td_zmq td_zmq;
typedef struct td_zmq_link td_zmq_link;

enum {
  TD_ZMQ_KEY = 41,         /* of Z85, with the NUL */
  TD_ZMQ_GREETING = 64,    /* bytes of ZMTP's */
  TD_ZMQ_ID = 9,           /* bytes of a routing id: 'T' and 8 drawn ones */
  TD_ZMQ_PEERS_MOST = 4096 /* links that peers made; ids that are refused */
};

/* ---- frames (channel_zmq_frame.c) ---------------------------------------- */

/* What a link has given to ZeroMQ that is not yet with the system. Shared by
 * the link and each such frame; all atomic. */
typedef struct td_zmq_load {
  int32_t refs;
  int64_t bytes[TD_LANES];
} td_zmq_load;

td_zmq_load *td_zmq_load_new(void); /* NULL: no memory */
void td_zmq_load_release(td_zmq_load *l);

/* A message of the bytes of `f`: copied when they are few or nobody is to be
 * told that they were sent. Takes ownership of `f`. False: no memory. */
bool td_zmq_frame_to_message(td_raw *f, td_zmq_load *load, td_lane lane,
                             zmq_msg_t *out) TD_MUST_USE;
/* The other way. Takes ownership of `m`, which is closed then. False: no
 * memory. Caller owns the result (td_raw_release), which any thread may end,
 * also when the channel has gone. */
bool td_zmq_frame_from_message(zmq_msg_t *m, td_raw *out) TD_MUST_USE;

/* ---- sockets (channel_zmq_socket.c) -------------------------------------- */

/* What is looked at first. */
typedef enum td_zmq_rank {
  TD_ZMQ_EVENTS, /* monitors; who may connect */
  TD_ZMQ_CONTROL,
  TD_ZMQ_DATA,
  TD_ZMQ_RANKS
} td_zmq_rank;

typedef struct td_zmq_socket {
  void *zmq; /* NULL: not open */
  int fd;    /* ZMQ_FD */
  td_zmq_rank rank;
  td_lane lane;
  td_zmq_link *link;          /* whose it is; NULL: all peers' */
  bool ready;                 /* in the list of those to be looked at */
  struct td_zmq_socket *next; /* in that list */
} td_zmq_socket;

/* `s->rank`, `lane` and `link` are set. A failure says what `to` is. */
td_status *td_zmq_socket_open(td_zmq *c, td_zmq_socket *s, int type,
                              const char *to) TD_MUST_USE;
/* May be called while it is being read, and twice. */
void td_zmq_socket_close(td_zmq *c, td_zmq_socket *s);
void td_zmq_socket_set(td_zmq_socket *s, int option, int value);
/* Puts it among those to be looked at. */
void td_zmq_socket_ready(td_zmq *c, td_zmq_socket *s);
/* To be called after everything that was done with it but receiving until there
 * was no more: see the head of channel_zmq_socket.c. */
void td_zmq_socket_look(td_zmq *c, td_zmq_socket *s);
/* The same after a send. */
void td_zmq_socket_sent(td_zmq *c, td_zmq_socket *s);
/* Makes ready whatever has a signal. */
void td_zmq_socket_poll(td_zmq *c);
/* The next of those to be looked at, taken out; NULL: none. */
td_zmq_socket *td_zmq_socket_next(td_zmq *c, td_zmq_rank rank);
/* Forgets those that were closed. */
void td_zmq_socket_purge(td_zmq *c);

/* The channel's `wait` and `wake`, outside of the turn. */
void td_zmq_wait(td_zmq *c, int64_t until);
void td_zmq_wake(td_zmq *c);
/* Whether `wait` is to return at once: there is something to be drained. */
void td_zmq_pending(td_zmq *c, bool is);

/* ---- too many connections (channel_zmq_flood.c) -------------------------- */

enum {
  TD_ZMQ_CONNECTIONS = 64, /* of an address, a second */
  TD_ZMQ_PLACES = 64       /* addresses that are known at a time */
};

typedef struct td_zmq_place {
  int family;     /* AF_INET, AF_INET6; 0: free */
  uint32_t at[2]; /* of the address, in the machine's order */
  int64_t due;    /* when all of its connections so far would have come, one
                     after the other, as slowly as they should */
  bool kept_out;
} td_zmq_place;

typedef struct td_zmq_flood {
  int fd[TD_LANES]; /* that listen; -1: none by tcp */
  int64_t cost;     /* ns of a connection */
  td_zmq_place places[TD_ZMQ_PLACES];
  bool came;     /* a connection, since it was looked at */
  bool changed;  /* a place of who is kept out is another's since */
  int64_t until; /* atomic: to be looked at again; INT64_MAX: nobody is out */
} td_zmq_flood;

void td_zmq_flood_init(td_zmq_flood *f, int connections);
/* ZeroMQ has accepted that descriptor, which may be gone again. */
void td_zmq_flood_came(td_zmq *c, int fd);
/* Keeps out who made too many, and lets in who was for long enough. */
void td_zmq_flood_look(td_zmq *c);

/* ---- the channel --------------------------------------------------------- */

/* A lane of a dialled link, or of all that dial us. */
typedef struct td_zmq_lane {
  td_zmq_socket messages, monitor;
  char *address; /* NULL: not known yet */
  /* Of a dialled one: */
  bool connected;   /* the handshake is over */
  bool passed;      /* and a message has gone out since */
  bool dropped;     /* the next retry is not of a failure to connect */
  int refused;      /* handshakes in a row */
  td_zmq_socket probe; /* looks who refused them */
  uint8_t greeting[TD_ZMQ_GREETING];
  int greeted; /* bytes of it that came; -1: no connection yet */
  int64_t retry_at; /* to be connected again then; 0: ZeroMQ does it */
} td_zmq_lane;

struct td_zmq_link {
  td_link base;
  char id[TD_ZMQ_ID];
  char key[TD_ZMQ_KEY];       /* that it proves; "": plain */
  td_zmq_lane lane[TD_LANES]; /* of a dialled link */
  int fd[TD_LANES];           /* of one that a peer made; -1: not known */
  td_zmq_load *load;
  bool known; /* of one that a peer made: whose key its messages show */
  unsigned trouble; /* bits of td_trouble that the owner has not heard */
  bool stopped;     /* the peer broke the rules; nothing more goes or comes */
  bool gone;        /* hung up */
  td_zmq_link *next;
};

struct td_zmq {
  td_channel base;
  pid_t pid; /* of its maker: a forked child must not touch it */
  void *context;
  int poll_fd, wake_fd;
  td_zmq_lane listens[TD_LANES];                   /* open when it listens */
  td_zmq_socket zap;                               /* the same, by tcp */
  char public_key[TD_ZMQ_KEY], secret[TD_ZMQ_KEY]; /* "": none */
  bool (*allow)(void *arg, const char *key);
  void *allow_arg;
  void (*allow_free)(void *arg);
  int handshake_ms;
  td_zmq_flood flood; /* of those who dial us by tcp */

  td_zmq_link *links; /* all, with those that are gone and not yet freed */
  int n_gone;
  td_map peers;   /* id -> link, of those that peers made */
  td_map refused; /* ids of those that broke the rules and were hung up */
  char refused_order[TD_ZMQ_PEERS_MOST][TD_ZMQ_ID]; /* a ring of them */
  unsigned n_refused;                               /* so far */

  td_zmq_socket *first[TD_ZMQ_RANKS], *last[TD_ZMQ_RANKS]; /* ready ones */
  td_zmq_socket *reading; /* messages are taken off it, until it has no more */
  bool troubled;          /* some link has trouble to be told */
  bool draining;          /* callbacks run: links are freed later */
  uint64_t n_monitors;

  int64_t retry_at; /* atomic: the earliest of its lanes'; INT64_MAX: none */
  int32_t pending;  /* atomic: something is ready */
  int32_t waiting;  /* atomic: a thread is in `wait`, or about to be */
  int32_t woken; /* atomic: `wake` was called, and no `wait` has ended since */
};

/* To be told in the next drain. */
static inline void td_zmq_trouble(td_zmq_link *l, td_trouble what) {
  td_zmq *c = (td_zmq *)l->base.of;
  l->trouble |= 1u << what;
  c->troubled = true;
  if (!c->draining) td_zmq_pending(c, true);
}

/* ---- addresses (channel_zmq_address.c) ----------------------------------- */

/* "tcp://HOST:PORT", or "ipc:///PATH" in a folder that is ours alone. */
bool td_zmq_address_is_ipc(const char *address);
td_status *td_zmq_address_check(const char *address, bool listen) TD_MUST_USE;
/* Binds `s`; *out is where it listens. Caller owns the result (td_free). */
td_status *td_zmq_address_listen(td_zmq_socket *s, const char *address,
                                 char **out) TD_MUST_USE;
/* Before `s` is closed: its path goes. NULL is accepted. */
void td_zmq_address_leave(const char *address);
/* Where data is listened for when nobody said it. Caller owns the result. */
char *td_zmq_address_for_data(const char *control);

/* ---- who refuses (channel_zmq_probe.c) ----------------------------------- */

typedef enum td_zmq_met {
  TD_ZMQ_MET_NOBODY, /* who closes, or says nothing, or does not know ZMTP */
  TD_ZMQ_MET_CURVE,  /* it refused our handshake for the key, then */
  TD_ZMQ_MET_OTHER,  /* another mechanism */
} td_zmq_met;

/* Begins to look who is at the lane's address. False: it cannot. */
bool td_zmq_probe_open(td_zmq_link *l, td_lane lane);
void td_zmq_probe_close(td_zmq_link *l, td_lane lane);
void td_zmq_probe_read(td_zmq_link *l, td_lane lane);
/* Whom it has met so far. */
td_zmq_met td_zmq_probe_met(const td_zmq_lane *a);

/* ---- connections (channel_zmq_monitor.c) --------------------------------- */

/* Watches the lane of a link, or of all that dial us (NULL); before its socket
 * is connected or bound. */
td_status *td_zmq_monitor_open(td_zmq *c, td_zmq_link *l, td_lane lane,
                               const char *address) TD_MUST_USE;
void td_zmq_monitor_close(td_zmq *c, td_zmq_link *l, td_lane lane);
/* Hears what became of the lane's connections. */
void td_zmq_monitor_read(td_zmq *c, td_zmq_link *l, td_lane lane);
/* A message came from a peer by that descriptor. */
void td_zmq_monitor_seen(td_zmq_link *l, td_lane lane, int fd);
/* Connects again what was refused, when it is time. */
void td_zmq_monitor_retry(td_zmq *c);

/* ---- who may connect (channel_zmq_zap.c) --------------------------------- */

td_status *td_zmq_zap_open(td_zmq *c) TD_MUST_USE;
void td_zmq_zap_serve(td_zmq *c);

/* ---- links (channel_zmq_link.c) ------------------------------------------ */

td_zmq_link *td_zmq_link_new(td_zmq *c, bool dialled); /* NULL: no memory */
/* The link of the peer with that routing id, made if it is a new one. NULL: it
 * is refused, or there are too many, or no memory. */
td_zmq_link *td_zmq_link_of(td_zmq *c, const void *id, size_t len);
/* Is the message of it, by the key that its connection has proved? */
bool td_zmq_link_proves(td_zmq_link *l, zmq_msg_t *m);
/* Ends all talk with a peer that breaks the rules; the owner still has the
 * link. */
void td_zmq_link_stop(td_zmq_link *l);
void td_zmq_link_hang_up(td_zmq_link *l);
/* Frees those that were hung up; not from within a callback. */
void td_zmq_link_bury(td_zmq *c);
/* Tells the owner of what the links have met with. False: nothing. */
bool td_zmq_link_tell(td_zmq *c);

/* ---- messages (channel_zmq_send.c, channel_zmq_receive.c) ---------------- */

td_status *td_zmq_send(td_zmq_link *l, td_lane lane, td_raw *frames,
                       int n) TD_MUST_USE;
/* Takes a message off the socket and hands it to the owner. False: there was
 * none, and its signal is set again. */
bool td_zmq_receive(td_zmq *c, td_zmq_socket *s);

#endif
