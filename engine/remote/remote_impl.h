/* remote_impl.h - the actor's parts, for each other.
 *
 * Everything here is called inside of the turn and touches what the turn
 * guards, unless it says otherwise. Nothing here waits. What must not run
 * inside is left behind by td_remote_after.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REMOTE_IMPL_H
#define TD_REMOTE_IMPL_H

#include <pthread.h>

#include "engine/base/map.h"
#include "engine/base/pool.h"
#include "engine/base/vec.h"
#include "engine/base/waiter.h"
#include "engine/device/rendezvous.h"
#include "engine/remote/clock_offset.h"
#include "engine/remote/health.h"
#include "engine/remote/remote.h"
#include "engine/remote/wire_impl.h"

typedef struct td_peer td_peer;
typedef struct td_hosted td_hosted; /* worker_impl.h */
typedef struct td_master td_master; /* master_impl.h */
typedef struct td_transfer td_transfer;
typedef struct td_offer td_offer;
typedef struct td_peer_values td_peer_values;
typedef struct td_eager td_eager;
typedef struct td_transfers td_transfers; /* transfer_impl.h */
typedef struct td_probe td_probe;
typedef struct td_far_asked td_far_asked; /* far_session.c */

typedef struct td_session_id {
  uint64_t high, low;
} td_session_id;

enum { TD_BUNDLES = 8 };      /* peers that have one at a time */
enum { TD_DRAIN_MOST = 256 }; /* messages, before others have their turn */

/* What lower files have upper ones do; remote.c's. */
typedef struct td_remote_hooks {
  void (*changed)(td_remote *r, td_peer *p); /* td_remote_peer_changed */
  void (*tick)(td_remote *r, int64_t now);   /* it is time */
  void (*greet)(td_remote *r); /* some peers wait for their HELLO */
  void (*send_off)(td_remote *r); /* td_peers_send_off */
  void (*drop_values)(td_peer_values *v);
  void (*end)(td_remote *r); /* the last share went */
} td_remote_hooks;

/* A session that was closed here, and the view at which it was. */
typedef struct td_closed {
  td_session_id id;
  uint64_t view;
} td_closed;
enum { TD_CLOSED_KEPT = 256 };
enum { TD_ROOM = 1024, TD_ROOM_IDLE = 64 }; /* peers of a key (peer_room.c) */

/* What only metrics.c wants to know: of all peers that there were, and of steps
 * for others. */
enum { TD_METER_BUCKETS = 13 };
extern const double td_meter_edges[TD_METER_BUCKETS]; /* s, of the buckets */
typedef struct td_remote_meter {
  uint64_t bytes_in, bytes_out, messages_in, messages_out;
  uint64_t took[TD_METER_BUCKETS + 1], failed; /* steps */
  double seconds;                              /* of all of them */
} td_remote_meter;

struct td_remote {
  int32_t refs; /* atomic */
  const td_remote_hooks *hooks;
  td_runtime *runtime;
  td_channel *channel;
  char *public_key, *advertise, *advertise_data;
  uint64_t incarnation;
  int protocol; /* TD_WIRE_VERSION; TIDE_TEST_PROTOCOL says another */
  bool serve;
  int cpu_devices, threads;
  pthread_mutex_t turn;
  td_task *after, **after_end; /* what runs after the turn */
  TD_VEC(td_peer *) peers;     /* retained */
  TD_VEC(td_hosted *) hosted;
  td_closed closed_ones[TD_CLOSED_KEPT]; /* the last, a ring */
  unsigned next_closed;
  TD_VEC(td_master *) masters;
  td_transfers *transfers; /* what all values share */
  int room, room_idle; /* peers of one key: TD_ROOM, TD_ROOM_IDLE */
  td_probe *probes;        /* measurements under way: a list */
  uint64_t last_number;    /* of offers, questions, handles */
  int64_t ticked;         /* when, last */
  int64_t patient;        /* nobody is judged before */
  double patience;        /* times of health are so many times as long */
  struct td_piece_cache *pieces; /* of graphs of others */
  uint64_t steps;         /* run for others */
  td_remote_meter meter;
  int greetings;          /* peers that greet */
  struct td_keeper *keeper; /* keeper_impl.h; NULL: nothing was kept yet */
  td_far_asked *asked;    /* list: questions to those who keep sessions */
  td_peer *bundled[TD_BUNDLES]; /* retained: those with a bundle, or had one */
  int n_bundled;          /* atomic, written inside of the turn */
  bool closed;
  td_waiter news; /* of who waits for an answer */
  const char *host;    /* as Hello.boot */
  struct td_kernel_table *kernels; /* of this process */
  uint64_t kernels_hash;
  /* pump.c */
  pthread_mutex_t ear; /* held by who sleeps on the channel */
  pthread_t thread, deputy;
  bool has_thread, has_deputy;
  int64_t away; /* atomic: since when who pumps does something else; 0: it
                   listens */
  int64_t errands; /* atomic: how often the thread did */
  int32_t parked;  /* atomic: the deputy sleeps until it does again */
  td_waiter rest;  /* of the deputy */
  int32_t stop;    /* atomic */
  int32_t callers; /* atomic: threads that pump while they wait */
  int64_t pumped;  /* atomic: when a caller last did */
};

/* ---- the turn (turn.c) ---- */

void td_remote_enter(td_remote *r);
void td_remote_leave(td_remote *r); /* runs what was left for after it */
/* This thread calls td_remote_turn again before anybody sleeps on the channel:
 * turns in between do not drain, and what is said goes with td_remote_send_off,
 * or earlier. NULL: not any more. Returns what was so. */
const td_remote *td_remote_hear(const td_remote *r);
void td_remote_send_off(td_remote *r);
/* Runs `task` when the turn is over, in order, on the same thread. */
void td_remote_after(td_remote *r, td_task *task);
uint64_t td_remote_number(td_remote *r); /* a new one, never 0 */
/* A step of others has ended. */
void td_remote_count_step(td_remote *r, int64_t took, bool failed);
/* A peer's state changed: its sessions, here and there, are told. */
void td_remote_peer_changed(td_remote *r, td_peer *p);

/* ---- peers (peer.c) ---- */

/* Chunks that could not be sent when they were asked for. */
typedef struct td_owed {
  uint64_t offer, offset;
} td_owed;

/* Values between this process and a peer (transfer.c). */
typedef struct td_peer_values {
  td_map offers;    /* number -> td_offer, to it */
  uint64_t offered; /* their bytes */
  td_eager *eager;  /* a share; NULL: nothing rode along yet */
  TD_VEC(td_owed) owed;
  int pulled;       /* offers that it pulls */
  int64_t busy;     /* since when it pulls some */
  uint64_t gone;    /* bytes of those that were pulled since */
  double rate;      /* bytes/s that go to it; 0: not known yet */
  td_map transfers; /* number -> td_transfer, of its offers */
  td_transfer *first, *last; /* those that wait for their turn */
  int pulling;               /* those under way */
  bool starting;             /* the next ones are being started */
} td_peer_values;

enum { TD_AHEAD = 1024 }; /* messages that may overtake one */

/* Since when a message of a lane lacks that was sent; 0: none does. */
typedef struct td_gap {
  int64_t since;
  uint64_t came; /* up to which they had come by then */
  uint64_t ahead[TD_AHEAD / 64]; /* a bit for each that came before the next */
} td_gap;

/* Since when the peer has had no more of a lane, of which more was sent; 0: it
 * has all. */
typedef struct td_stuck {
  int64_t since;
  uint64_t came;
} td_stuck;

struct td_peer {
  td_remote *of;
  int32_t refs; /* turn */
  td_link *link; /* NULL: hung up */
  td_health health;
  uint64_t incarnation; /* 0: not known yet */
  char *task;           /* "/job:worker/replica:0/task:1"; "": not known yet */
  char *control, *data, *key; /* where it was dialled, or says it listens */
  char *proof;          /* the public key that it has; NULL: it came by ipc */
  char *host;           /* as Hello.boot */
  bool welcomed;        /* HELLO and WELCOME are through */
  bool greets;          /* its first HELLO waits for a connection */
  int64_t dialled;      /* or met, when */
  int64_t said;         /* HELLO or PING left last */
  int64_t stale_said;
  uint64_t sent[TD_LANES]; /* messages */
  uint64_t came[TD_LANES]; /* all up to this one have */
  uint64_t told[TD_LANES]; /* how many the peer said it had sent */
  td_gap gap[TD_LANES];
  td_stuck stuck[TD_LANES];
  int64_t broken; /* when a connection was lost of which some may lack; or 0 */
  TD_VEC(struct td_backlog) backlog; /* what waits for a connection */
  size_t backlog_bytes;
  td_raw *bundle; /* room for TD_MESSAGE_FRAMES, or NULL: peer_bundle.c */
  int n_bundle;
  uint64_t bytes_in, bytes_out, steps, memory, pid;
  int64_t round_trip, clock, pinged; /* clock: its beyond ours, ns */
  td_clock_offsets clocks;
  uint64_t ping;
  td_status *error; /* why it is dead, or what the channel last said */
  char *build, *isa;     /* of its HELLO or WELCOME, as it says them */
  uint64_t kernels_hash; /* the same */
  /* From its WELCOME, for who attaches: */
  TD_VEC(td_device *) devices;
  struct td_kernel_table *table;
  td_peer_values values;
};

typedef struct td_backlog {
  td_lane lane;
  td_raw *frames;
  int n;
} td_backlog;

td_peer *td_peer_retain(td_peer *p);
void td_peer_release(td_peer *p);
/* The peer that is reached there, dialled when there is none yet. Caller owns
 * the result (release). */
td_status *td_peer_dial(td_remote *r, const td_dial *to,
                        td_peer **out) TD_MUST_USE;
/* The same for one process that is meant, and no other that may be there by
 * now. */
td_status *td_peer_dial_to(td_remote *r, const td_dial *to, const char *task,
                           uint64_t incarnation, td_peer **out) TD_MUST_USE;
/* Anybody may say any incarnation: it is believed of who has the key. What
 * came by ipc is this user's, who is believed. */
bool td_peer_proves(const td_peer *p, const char *key);
/* One that lives and is that of this key; of two links to it the one that was
 * heard last. Borrowed, or NULL. */
td_peer *td_peer_find(td_remote *r, uint64_t incarnation, const char *key);
/* Has a lane of it, in or out, stood still for two seconds with messages under
 * way? Its connection may be one that comes back late or never: what begins
 * takes a new one. */
bool td_peer_lags(const td_peer *p);
/* Says PING now: who hung up, and was not heard to, answers that. */
void td_peer_poke(td_peer *p);
/* For a link that a peer made. */
td_status *td_peer_met(td_remote *r, td_link *l, uint64_t incarnation,
                       td_peer **out) TD_MUST_USE;
/* The same with the first message, if there is room for one more of its key
 * (peer_room.c): l->owner then. Else it is told why not. */
td_status *td_peer_let_in(td_remote *r, td_link *l,
                          const td_head *hello) TD_MUST_USE;
void td_peer_hello(td_peer *p, const td_head *head, bool welcome);
void td_peer_refused(td_peer *p, const Td__Remote__Refused *m);
void td_peer_ping(td_peer *p); /* at once, beside those of each second */
void td_peer_pinged(td_peer *p, const Td__Remote__Ping *m);
void td_peer_ponged(td_peer *p, const Td__Remote__Ping *m);
void td_peer_trouble(td_peer *p, td_trouble what);
void td_peer_tick(td_peer *p, int64_t now);
void td_peers_greet(td_remote *r);
/* Its end: takes ownership of `why`. */
void td_peer_end(td_peer *p, td_health_event how, td_status *why);
/* UNAVAILABLE evidence about it, with what is known. Caller owns the result. */
td_status *td_peer_lost(const td_peer *p) TD_MUST_USE;

/* Sends: sets version, from, to, count. Takes ownership of the frames. What
 * finds no connection waits in a backlog of at most 64 MiB. An error means that
 * it was not sent and will not be. */
td_status *td_peer_send(td_peer *p, td_lane lane, td_head *head,
                        td_raw *frames, int n) TD_MUST_USE;
/* The same for what is said again on silence, or helps nobody when it fails. */
void td_peer_say(td_peer *p, td_head *head);
void td_head_init(td_head *head, const td_session_id *session);

/* ---- messages that leave together (peer_bundle.c) ---- */

/* Is this message to be kept? Then its head says how many frames are its own,
 * and td_peer_bundle takes ownership of all of them. */
bool td_peer_bundles(td_peer *p, td_lane lane, const td_head *head,
                     const td_raw *frames, int n);
void td_peer_bundle(td_peer *p, const td_raw *frames, int n);
void td_peer_drop_bundle(td_peer *p);
void td_peers_send_off(td_remote *r); /* peer.c */

/* ---- values (transfer.c) ---- */

typedef enum td_transfer_state {
  TD_TRANSFER_ENDED,   /* or not begun; nobody but its owner knows it */
  TD_TRANSFER_OFFERED, /* td_transfer_go was not called */
  TD_TRANSFER_WAITING, /* as many as may be are under way from its peer */
  TD_TRANSFER_PULLED,  /* it has memory, and chunks come */
} td_transfer_state;

/* A value that is on its way in, embedded in its owner. `got` is called once,
 * inside of the turn: takes ownership of *value and `s`. */
struct td_transfer {
  void (*got)(td_transfer *t, td_tensor *value, bool dead, td_status *s);
  bool later; /* the owner's: what is only offered waits for td_transfer_go */
  /* transfer_in.c's: */
  td_transfer_state state;
  bool dead, narrow;
  td_transfer *prev, *next; /* of its peer's that wait */
  td_peer *from;            /* retained; NULL: ended */
  uint64_t offer, bytes;    /* of the wire */
  td_tensor value;          /* has memory when it is pulled */
  uint64_t asked, came;     /* bytes; `came`: before it nothing lacks */
  uint64_t ahead;           /* chunks beyond `came` that came, a bit each */
  char *segment;            /* where it is to be had, too, or NULL */
  uint64_t place;           /* within the segment */
};
/* What a message says of a value: there at once, or pulled. `got` may be called
 * before it returns. True: it waits for td_transfer_go. A `v` that is wrong
 * is an error of `got`; a derived one says that there is no such value any
 * more, or that it comes already: whoever takes it back tells why. */
bool td_transfer_in(td_peer *from, const Td__Remote__Value *v, td_message *m,
                    td_transfer *t);
/* It is wanted now; nothing when it is on its way already. */
void td_transfer_go(td_transfer *t);
/* Pulls no more; `got` is not called. Nothing when it has ended. */
void td_transfer_stop(td_transfer *t);
/* Describes `value` (a host tensor, or NULL: dead) for a message to `to`: its
 * bytes are added to frames[*n], or it is offered until it is pulled,
 * dropped, or `to` is dead. Takes a share. `narrow`: float32 goes in 16
 * bits. */
typedef struct td_sending {
  td_peer *to;
  const td_session_id *session;
  uint64_t step;
  bool narrow;
  uint64_t slow_link; /* bytes/s: to who takes less, float32 beyond what rides
                         along goes in 16 bits, too; 0: to nobody */
  bool full;     /* it has no room: offered, whatever its size */
  size_t *small; /* bytes that the message's head has so far; NULL: none */
} td_sending;
td_status *td_transfer_out(const td_sending *to, const td_tensor *value,
                           td_arena *arena, td_raw *frames, int *n,
                           Td__Remote__Value **out) TD_MUST_USE;
void td_transfer_pulled(td_peer *p, const Td__Remote__Chunk *m);
void td_transfer_chunk(td_peer *p, td_message *m);
void td_transfer_dropped(td_peer *p, const Td__Remote__Handles *m);
void td_transfer_gone(td_peer *p, const Td__Remote__Handles *m);
/* What a step, or a whole session (step 0), offers is taken back. */
void td_transfer_withdraw(td_remote *r, const td_session_id *session,
                          uint64_t step);
void td_transfer_peer_dead(td_peer *p);
void td_transfer_tick(td_remote *r, int64_t now);
td_status *td_transfers_new(td_remote *r, td_transfers **out) TD_MUST_USE;
void td_transfers_free(td_transfers *t);
void td_peer_values_deinit(td_peer_values *v);
/* What HELLO says of where this process runs. Borrowed; valid while `r`
 * lives. */
const char *td_transfers_host(const td_remote *r);

/* ---- sessions of others (worker.c) and of ours (master.c) ---- */

/* Messages of a session. False: there is none of that number here. */
bool td_worker_message(td_peer *p, td_message *m);
bool td_master_message(td_peer *p, td_message *m);
void td_worker_peer_changed(td_remote *r, td_peer *p);
void td_master_peer_changed(td_remote *r, td_peer *p);
void td_worker_tick(td_remote *r, int64_t now, bool stalled);
void td_master_tick(td_remote *r, int64_t now);
void td_worker_close_all(td_remote *r);
void td_master_close_all(td_remote *r);

/* ---- measuring (probe.c) ---- */

enum { TD_PROBE_ROUNDS = 64, TD_PROBE_BYTES = 64 << 20 }; /* of one, at most */

/* How good the way to a peer is: this process measures it, or has another
 * one. */
struct td_probe {
  td_probe *next;
  td_peer *of;      /* a share: to whom, or who is asked */
  td_peer *asker;   /* a share: who is told; NULL: somebody here waits */
  uint64_t id, asked; /* ours; the asker's */
  uint32_t rounds;  /* to be made */
  uint64_t bytes;   /* to be sent */
  bool far;         /* `of` measures, and tells */
  bool begun, loading, over;
  int64_t until;
  td_status *status; /* how it ended */
  td_remote_measured found;
  /* while it goes on: */
  int64_t trip[TD_PROBE_ROUNDS], said, wall_said;
  uint64_t sent, came; /* messages of the load, or bytes of it */
};

/* Somebody here waits: until `over`, which is news; then he drops it. `way`:
 * NULL, or from where `of` is to measure. */
td_status *td_probe_begin(td_remote *r, td_peer *of,
                          const Td__Remote__Task *way,
                          const td_measure_options *o,
                          td_probe **out) TD_MUST_USE;
void td_probe_drop(td_remote *r, td_probe *b);
/* Lets go of a peer that was dialled for this: where it never was there, and
 * nobody else knows it, it is not tried any more. */
void td_probe_let_go(td_peer *p);
void td_probe_asked(td_peer *p, const Td__Remote__Measure *m);
void td_probe_told(td_peer *p, const Td__Remote__Measured *m);
void td_probe_load(td_peer *p, const td_message *m);
void td_probe_loaded(td_peer *p, const Td__Remote__Load *m);
void td_probe_tick(td_remote *r, int64_t now);
void td_probe_close_all(td_remote *r);

/* ---- the pump (pump.c) ---- */

/* Has all who wait look again, who listens as well. */
void td_remote_news(td_remote *r);
void td_remote_news_after(td_remote *r); /* the same, outside of the turn */
td_status *td_pump_start(td_remote *r) TD_MUST_USE;
void td_pump_stop(td_remote *r);
/* Outside of the turn: pumps until ready(arg), `until` or *interrupt. False: it
 * was not ready. `ready` is called outside of the turn. */
bool td_pump_until(td_remote *r, int64_t until, const int *interrupt,
                   bool (*ready)(void *arg), void *arg);

#endif
