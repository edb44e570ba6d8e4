/* remote.h - this process among others.
 *
 * A td_remote is what a runtime has of the world outside: a channel, the peers
 * at its other ends, the sessions that it runs parts for, as a *worker*, and
 * those whose parts it has others run, as their *master*. All of it is one
 * actor: messages, the clock and the ends of steps come to it one at a time, in
 * its *turn*, and what it does then is state, sends and timers. Nothing is
 * waited for in a turn and nobody's function called: what must be (a portion to
 * be started, an `over`) is left for after it.
 *
 * The turn is a lock, not a thread: whoever has something for the actor takes
 * it. A thread of its own pumps the channel, and so does whoever waits for a
 * step, since a hand-over between threads takes as long as a message does; who
 * comes second sleeps meanwhile (pump.c). In the simulator one thread is all.
 *
 *   channel.h   how messages travel           health.h   is a peer alive?
 *   wire_impl.h what they are                 peer.c     one peer; its counts
 *   transfer.c  values, as bytes or offers    worker.c   sessions of others
 *   master.c    workers of a session of ours  remote.c   who gets what comes
 *   probe.c     how good the way to a peer is
 *
 * README.md tells what is promised and what every state does at every event.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REMOTE_H
#define TD_REMOTE_H

#include "engine/remote/channel.h"
#include "engine/run/runtime.h"
#include "engine/run/session.h"

TD_BEGIN

typedef struct td_remote td_remote;
typedef struct td_member td_member;

enum { TD_PATIENCE_MOST = 1000 };

typedef struct td_remote_options {
  td_runtime *runtime; /* retained */
  td_channel *channel; /* taken, also when it fails */
  const char *public_key;               /* ours, Z85, or NULL */
  const char *advertise, *advertise_data; /* where others dial; NULL: the
                                             channel's own addresses */
  bool serve;      /* runs parts for the sessions of others */
  int cpu_devices; /* that others see; 0: 1 */
  int threads;     /* of a step of others; 0: all of the pool */
  bool thread;     /* a thread of its own pumps */
  double patience; /* how many times as long silence may be until a peer counts
                      as dead, 1 to 1000; 0: TIDE_PATIENCE, else 1 */
} td_remote_options;

/* Caller owns the result. */
td_status *td_remote_new(const td_remote_options *o,
                         td_remote **out) TD_MUST_USE;
/* Takes leave of all peers and ends what they have here; ends the thread. Its
 * owner does so before it lets go of it. */
void td_remote_close(td_remote *r);
td_remote *td_remote_retain(td_remote *r);
void td_remote_release(td_remote *r);

uint64_t td_remote_incarnation(const td_remote *r);
/* Where others dial it; NULL: it does not listen. Borrowed. */
const char *td_remote_address(const td_remote *r);
/* Handles what has come and what is due: for who has no thread for it. */
void td_remote_turn(td_remote *r);

/* ---- workers of a session ---- */

typedef struct td_attach_options {
  td_dial to;
  int64_t timeout;      /* ns, 0: 10 s */
  const int *interrupt; /* (optional) */
  double patience; /* (optional) of this process, from now on, if it is more
                      than it has (td_remote_options) */
  struct td_keep *keep; /* far_session.c's; NULL: it runs parts */
} td_attach_options;

/* Has the process at the address run parts for `s`: its devices are the
 * session's from now on. UNAVAILABLE when nobody answers in time, with what was
 * seen; PERMISSION_DENIED, FAILED_PRECONDITION when it refused; ALREADY_EXISTS
 * when there is a task of its name. The session keeps the member; *out is
 * borrowed, valid until it is detached or the session closed. Waits. */
td_status *td_remote_attach(td_remote *r, td_session *s,
                            const td_attach_options *o,
                            td_member **out) TD_MUST_USE;
/* The opposite. FAILED_PRECONDITION while variables live there, which it names,
 * unless `drop`. Waits. */
td_status *td_remote_detach(td_remote *r, td_session *s, const char *task,
                            bool drop) TD_MUST_USE;

/* What is known of a worker, each with the name that users see: a TEXT of its
 * own, a WORD of a few, SECONDS as they are, a COUNT, a SPAN in ns. What copies,
 * sends or shows rows is made of this list. */
#define TD_REMOTE_ROW(TEXT, WORD, SECONDS, COUNT, SPAN)                        \
  TEXT(task, "task")                                                           \
  TEXT(address, "address")                                                     \
  TEXT(error, "error")                                                         \
  TEXT(last, "last_error") /* how a step failed there last */                  \
  WORD(state, "state")     /* joining, up, suspect, dead */                    \
  SECONDS(heard, "heartbeat") /* since */                                      \
  COUNT(steps, "steps")                                                        \
  COUNT(memory, "memory")                                                      \
  COUNT(bytes_in, "bytes_in")                                                  \
  COUNT(bytes_out, "bytes_out")                                                \
  SPAN(round_trip, "round_trip")                                               \
  SPAN(clock, "clock") /* of its clock beyond ours */                          \
  COUNT(incarnation, "incarnation")                                            \
  COUNT(pid, "pid")

/* As it is now. Strings are copies: td_remote_row_deinit. */
typedef struct td_remote_row {
#define TEXT(field, name) char *field;
#define WORD(field, name) const char *field;
#define SECONDS(field, name) double field;
#define COUNT(field, name) uint64_t field;
#define SPAN(field, name) int64_t field;
  TD_REMOTE_ROW(TEXT, WORD, SECONDS, COUNT, SPAN)
#undef TEXT
#undef WORD
#undef SECONDS
#undef COUNT
#undef SPAN
} td_remote_row;
void td_remote_row_deinit(td_remote_row *row);
/* Calls each(arg, row) for all workers of `s` (NULL: all peers). */
void td_remote_rows(td_remote *r, td_session *s,
                    void (*each)(void *arg, const td_remote_row *row),
                    void *arg);

/* Appends the numbers of a worker of `s`, as metrics.h has them. NOT_FOUND when
 * that task takes no part; UNAVAILABLE, DEADLINE_EXCEEDED without an answer.
 * Waits. */
td_status *td_remote_stats(td_remote *r, td_session *s, const char *task,
                           td_str *out) TD_MUST_USE;

/* ---- how good a way is (measure.c) ---- */

/* Who is at an address. Strings are copies: td_remote_known_deinit. */
typedef struct td_remote_known {
  char *task, *build, *isa, *data; /* `data`: its second address */
  uint64_t incarnation, pid, memory;
  int devices;
  bool same_ops;  /* as this process has */
  bool same_host; /* and shared memory goes between the two */
} td_remote_known;
void td_remote_known_deinit(td_remote_known *k);

/* Looks who is there, and stays in touch. Errors as of td_remote_attach.
 * Waits. */
td_status *td_remote_reach(td_remote *r, const td_attach_options *o,
                           td_remote_known *out) TD_MUST_USE;

typedef struct td_measure_options {
  uint64_t from, to; /* incarnations of whom td_remote_reach found; 0: this
                        process */
  uint32_t rounds;   /* 1 to 64 */
  uint64_t bytes;    /* up to 64 MiB; 0: no load */
  int64_t timeout;   /* ns, at most 60 s; 0: 10 s */
  const int *interrupt; /* (optional) */
} td_measure_options;

/* Times in ns; clocks: of `to` beyond `from`, give or take half of `least`. */
typedef struct td_remote_measured {
  int64_t least, median; /* round trip */
  int64_t clock, wall;
  uint64_t bytes;        /* that were taken ... */
  int64_t took;          /* ... in this time */
} td_remote_measured;

/* Measures the way between two processes, which go on with what they do. Steps
 * that use the way are slowed down meanwhile. Waits. */
td_status *td_remote_measure(td_remote *r, const td_measure_options *o,
                             td_remote_measured *out) TD_MUST_USE;

/* ---- counts ---- */

/* Values that came and went, so far. */
typedef struct td_remote_traffic {
  uint64_t eager;    /* rode along */
  uint64_t offered;  /* did not */
  uint64_t narrowed; /* of both, in 16 bits */
  uint64_t slowed;   /* of these, since the link is slow */
  uint64_t pulled;   /* came in chunks */
  uint64_t shared;   /* came through shared memory */
  uint64_t unshared; /* could have, but that failed, and came in chunks */
  uint64_t dropped;  /* were offered and not wanted, or taken back */
  uint64_t strays;   /* chunks and requests that nobody waits for */
  uint64_t copied;   /* bytes, once each, into the memory of what came */
} td_remote_traffic;
void td_remote_read_traffic(td_remote *r, td_remote_traffic *out);

TD_END
#endif
