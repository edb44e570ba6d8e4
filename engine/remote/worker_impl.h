/* worker_impl.h - a session of another process, as far as it is run here.
 *
 *   worker_roll.c   parts: asked for, put together, compiled   td_hosted_roll
 *   worker_value.c  values that its steps send and receive         td_arrival
 *   worker_step.c   steps: RUN, feeds, what stops them, DONE   td_hosted_step
 *   worker_look.c   what is seen of them: prints, traces, what they wait for
 *   worker.c        the session: who takes part, its end           td_hosted
 *
 * All fields are the turn's, unless their comment says otherwise. Counts of
 * shares too: what is used outside of the turn is held by one that was taken
 * inside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WORKER_IMPL_H
#define TD_WORKER_IMPL_H

#include "engine/remote/piece_cache.h"
#include "engine/remote/remote_impl.h"
#include "engine/run/participant.h"

typedef enum td_hosted_state {
  TD_HOSTED_OPEN,
  TD_HOSTED_CLOSING,
  TD_HOSTED_GONE, /* no struct is left of it */
} td_hosted_state;

/* The rows of README.md's table. */
typedef enum td_hosted_event {
  TD_RUN_NEW,
  TD_RUN_OLD,
  TD_VALUE_EARLY, /* of a step that was not run yet */
  TD_VALUE_OLD,   /* of one that has ended */
  TD_CANCEL_EARLY,
  TD_MASTER_GONE, /* silent for its lease, CLOSE, BYE, dead */
  TD_OTHER_FENCED,
} td_hosted_event;

typedef struct td_hosted_roll td_hosted_roll;
typedef struct td_hosted_step td_hosted_step;

typedef struct td_view_task {
  char *task, *control, *data, *key;
  uint64_t incarnation;
  td_peer *peer; /* retained; NULL until it is needed */
  bool fenced;   /* the master says that it is dead */
  bool full;     /* it has no room: nothing rides along to it */
} td_view_task;

/* Who has the other end of an edge. */
typedef struct td_far_edge {
  int32_t task; /* in the view; -1: the edge does not leave */
  bool out, narrow;
} td_far_edge;

/* A value for a step, from its message until it is delivered. */
typedef struct td_arrival td_arrival;

/* A cancel that came before its step. */
typedef struct td_tombstone {
  uint64_t step;
  td_status *cause;
} td_tombstone;

enum { TD_STEP_WINDOW = 1024, TD_TOMBSTONES = 64 };
/* What one session may have here. Ends are feeds, fetches and edges. */
enum {
  TD_STEPS_MOST = 4096,       /* under way */
  TD_STEP_ENDS_MOST = 1 << 24, /* of all steps under way */
  TD_ROLLS_MOST = 65536,      /* registrations */
  TD_ROLL_ENDS_MOST = 1 << 24, /* of all registrations */
  TD_ROLL_NODES_MOST = 1 << 26, /* the same */
};

/* What lower files have upper ones do; worker.c's. */
typedef struct td_hosted_hooks {
  void (*rest)(td_hosted *h); /* a step or a registration ended: a closing
                                 session may be gone */
  void (*stop)(td_hosted_step *step, td_status *why); /* td_hosted_step_stop */
  void (*unuse)(td_hosted_step *step);                /* td_hosted_step_unuse */
} td_hosted_hooks;

struct td_hosted {
  td_remote *of;
  int32_t refs;
  const td_hosted_hooks *hooks;
  td_session_id id;
  td_hosted_state state;
  td_peer *master; /* retained */
  int64_t lease;
  uint64_t place; /* what the master calls it */
  td_participant *local;
  uint64_t view;
  uint64_t slow_link; /* td_sending's, of its edges */
  TD_VEC(td_view_task) tasks;
  TD_VEC(td_hosted_roll *) rolls;
  size_t ends, nodes; /* of all of them */
  td_hosted_step *steps; /* under way */
  int n_steps;
  size_t step_ends; /* of all of them */
  uint64_t highest;      /* step seen */
  uint64_t seen[TD_STEP_WINDOW / 64]; /* of the last TD_STEP_WINDOW: bits */
  td_arrival *early; /* of steps that have not begun */
  size_t early_bytes, early_most; /* those, and what steps do not want yet */
  bool full;                      /* others were told that there is no room */
  td_tombstone tombs[TD_TOMBSTONES];
  unsigned next_tomb;
  td_task end; /* on the pool: lets go of its state */
};

struct td_hosted_roll {
  td_hosted *of; /* a share */
  int32_t refs;
  uint64_t handle;
  /* until it is compiled: */
  TD_VEC(td_piece_hash) pieces;
  TD_VEC(struct td_hosted_part) parts;
  size_t here;  /* leading pieces that have come */
  td_task task; /* compiles, on the pool */
  bool pinned, compiling, gone;
  /* then: */
  td_enrollment *enrollment;
  td_far_edge *far; /* by edge */
  int32_t n_edges;
  int n_args, n_rets;
  size_t ends, nodes;
  TD_VEC(td_portion *) idle; /* were run, and may be again */
  struct td_leftovers *leftovers; /* what ends all that */
};

typedef struct td_hosted_part {
  char *device;
  uint64_t incarnation;
  size_t first, n_pieces; /* of the roll's */
  uint64_t *serials;
  int32_t n_nodes;
} td_hosted_part;

/* One feed on its way in. */
typedef struct td_arg_pull {
  td_transfer base; /* first */
  td_hosted_step *step;
  int index;
} td_arg_pull;

struct td_hosted_step {
  td_hosted *of; /* a share */
  int32_t refs;
  td_hosted_step *prev, *next; /* the session's */
  uint64_t number;
  td_hosted_roll *roll; /* a share */
  td_portion *portion;
  td_portion_start start;
  td_tensor *args, *rets;
  bool *rets_dead;
  td_arg_pull *pulls;
  int pulling; /* feeds that have not come */
  bool begun;   /* it is the portion's: there is an `over` to come */
  bool started; /* the portion takes values */
  bool over, cancelled;
  int users;          /* with its portion, outside of the turn */
  td_status *cause;   /* why it must not begin, or was cancelled */
  td_status *stopped; /* what the portion is cancelled with */
  td_status *ended;   /* how it ended, when it is over */
  uint64_t tensors; /* sent to the master */
  int64_t began_ns;
  td_trace *trace;  /* a share; NULL: it is not traced */
  td_tensor traced; /* its bytes, when it is over */
  td_task task, cancel_task;
  td_str printed; /* lock: lock. What Print wrote, not yet sent */
  uint64_t unprinted;   /* lock: lock. Lines beyond */
  td_arrival *arrivals; /* offered, being pulled, or here and not wanted */
  td_map offered; /* key -> td_arrival that nobody waits for; written inside of
                     the turn and under lock, read in either */
  bool want_all;  /* lock: lock. What is offered is pulled at once */
  bool *wanted;   /* lock: lock. By edge: its receiver in the root waits */
  td_map wants;   /* lock: lock. Keys of those in loops */
  pthread_mutex_t lock;
};

/* ---- worker_session.c ---- */

td_hosted *td_hosted_find(td_remote *r, const td_session_id *id); /* borrowed */
void td_hosted_release(td_hosted *h);
/* The tasks of an OPEN, when its view is newer. */
td_status *td_hosted_look(td_hosted *h, const Td__Remote__Open *m) TD_MUST_USE;
/* The peer of a task in the view, dialled when it is not known. Borrowed. */
td_status *td_hosted_peer(td_hosted *h, int32_t task,
                          td_peer **out) TD_MUST_USE;
/* Where a task is in the view; -1: nowhere. */
int32_t td_hosted_task(const td_hosted *h, uint64_t incarnation);
/* The same for who has proved to be it. */
int32_t td_hosted_task_of(const td_hosted *h, const td_peer *p);
/* That process, when a link to it lives. Borrowed, or NULL. */
td_peer *td_hosted_known(const td_hosted *h, int32_t task);
void td_hosted_answer(td_hosted *h, int body_case, uint64_t id,
                      const td_status *s, td_bytes text);
/* A step under way here, or NULL. Borrowed. */
td_hosted_step *td_hosted_step_find(const td_hosted *h, uint64_t number);
/* Did its RUN come? Notes that it did. */
bool td_hosted_step_seen(const td_hosted *h, uint64_t number);
void td_hosted_step_note(td_hosted *h, uint64_t number);
/* Whoever is with its portion, outside of the turn, holds its end up: from
 * inside of the turn, and until `unuse` outside of it. */
void td_hosted_step_use(td_hosted_step *step);

/* ---- worker_roll.c ---- */

void td_hosted_register(td_hosted *h, const Td__Remote__Register *m);
void td_hosted_blob(td_hosted *h, td_message *m);
void td_hosted_unregister(td_hosted *h, const Td__Remote__Handles *m);
td_hosted_roll *td_hosted_roll_find(td_hosted *h, uint64_t handle);
void td_hosted_roll_release(td_hosted_roll *roll);
void td_hosted_rolls_drop(td_hosted *h);

/* ---- worker_value.c ---- */

/* `m` is a TENSOR from `p`. */
void td_hosted_tensor(td_hosted *h, td_peer *p, td_message *m);
/* `p` has room for values of the session, or none. */
void td_hosted_room(td_hosted *h, const td_peer *p, const Td__Remote__Room *m);
/* A kernel sends; any thread, outside of the turn. */
td_status *td_hosted_send(void *arg, td_key key, td_tensor *value,
                          bool dead) TD_MUST_USE;
/* A receiver begins to wait; any thread, outside of the turn. */
void td_hosted_wanted(void *arg, td_key key);
td_status *td_hosted_values_init(td_hosted_step *step) TD_MUST_USE;
void td_hosted_values_deinit(td_hosted_step *step);
/* The step has begun: what came early is its own now. */
void td_hosted_values_begin(td_hosted_step *step);
/* It is over: nothing more is wanted. */
void td_hosted_values_end(td_hosted_step *step);
/* Drops what waited too long for its step; INT64_MAX: all. */
void td_hosted_unpark(td_hosted *h, int64_t now);

/* ---- worker_step.c ---- */

void td_hosted_run(td_hosted *h, td_message *m);
void td_hosted_cancel(td_hosted *h, const Td__Remote__Stop *m);
void td_hosted_step_unuse(td_hosted_step *step);
/* Takes ownership of `why`. */
void td_hosted_step_stop(td_hosted_step *step, td_status *why);
/* Stops every step (of `task` < 0), or those that share an edge with the task;
 * takes ownership of `why`. */
void td_hosted_stop(td_hosted *h, int32_t task, td_status *why);

/* ---- worker_look.c ---- */

/* A kernel prints; any thread, outside of the turn. */
void td_hosted_printed(void *step, const char *text, size_t len);
/* What it printed so far is sent; of each step, at a tick. */
void td_hosted_say_printed(td_hosted_step *step);
void td_hosted_steps_tick(td_hosted *h);
/* It is to be traced; it was, and is over: outside of the turn, it may be
 * long. */
void td_hosted_start_trace(td_hosted_step *step);
void td_hosted_pack_trace(td_hosted_step *step);
void td_hosted_why(td_hosted *h, uint64_t step, td_str *out);

#endif
