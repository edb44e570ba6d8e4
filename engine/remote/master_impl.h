/* master_impl.h - a session of ours, as far as others run it.
 *
 *   master_ask.c    what is asked beside steps, and waited for
 *   master_step.c   portions of steps: RUN, values, DONE      td_far_portion
 *   master_value.c  values of theirs for this process           td_far_value
 *   master_trace.c  what a member ran of a traced step             td_traced
 *   master_print.c  what it printed                               td_printed
 *   master_why.c    what it waits for
 *   master_roll.c   parts sent and kept there                 td_far_roll
 *   master_member.c the objects
 *   master.c        who takes part; joining, ending       td_master, td_member
 *
 * A member is a participant (engine/run/participant.h) whose process is a peer.
 * Fields are the turn's unless their comment says otherwise.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MASTER_IMPL_H
#define TD_MASTER_IMPL_H

#include "engine/plan/part.h"
#include "engine/remote/pieces.h"
#include "engine/remote/remote_impl.h"
#include "engine/run/participant.h"
#include "engine/run/session_members.h"

typedef struct td_far_portion td_far_portion;
typedef struct td_question td_question;

typedef enum td_member_state {
  TD_MEMBER_JOINING, /* the peer is not there yet */
  TD_MEMBER_OPENING, /* OPEN was said */
  TD_MEMBER_OPEN,
  TD_MEMBER_CLOSING, /* CLOSE was said */
  TD_MEMBER_ENDED,   /* closed, or the peer is dead */
} td_member_state;

struct td_master {
  td_remote *of; /* a share */
  int32_t refs;
  td_session_id id;
  td_session *session; /* borrowed: open as long as a member is its own */
  TD_VEC(td_member *) members; /* shares; by place in the view - 1 */
  TD_VEC(td_member *) coming;  /* shares; without a place yet */
  uint64_t view;
  uint64_t slow_link; /* the session's option */
  size_t early_bytes, early_most; /* of values that steps here do not want yet */
  bool full; /* others were told that there is no room for more */
};

struct td_member {
  td_participant base; /* first; its shares are atomic */
  td_master *master;   /* a share */
  td_peer *peer;       /* a share */
  char *task;          /* base.task */
  int32_t place;       /* in the view: 0 is this process */
  TD_VEC(td_device *) devices; /* the session's, of the peer's */
  td_member_state state;
  uint64_t since;  /* the first view that it is in */
  uint64_t before[TD_LANES]; /* messages that its peer was sent before that */
  uint64_t opened; /* the view that it knows */
  int64_t said;    /* OPEN or CLOSE left last */
  td_status *error;
  char *last;        /* how a step of it failed last; NULL: none has */
  bool full;         /* it has no room: nothing rides along to it */
  bool joined;       /* the session has it */
  bool told;         /* the session knows that it was lost */
  bool closed;       /* the session has let go of it, or never had it */
  td_member *was;    /* a share: whose place in the session it takes */
  td_member *again;  /* borrowed: that one's next, on its way */
  int64_t retry;     /* when it is dialled again */
  struct td_keep *keep; /* a share: it keeps the session; NULL: it runs parts */
  td_task task_after; /* after the turn, or on the pool: one at a time */
  struct td_far_roll *rolls; /* list */
  td_far_portion *running;     /* list: out */
  td_question *questions;      /* list */
};

typedef enum td_roll_state {
  TD_ROLL_SENT, /* until REGISTERED */
  TD_ROLL_READY,
  TD_ROLL_FAILED
} td_roll_state;

/* What REGISTER says of a part; kept until REGISTERED. */
typedef struct td_sent_part {
  td_sealed_part sealed;
  td_pieces pieces;
  char *device;
} td_sent_part;

/* Is a td_enrollment for its session. */
typedef struct td_far_roll {
  td_member *of; /* a share */
  struct td_far_roll *prev, *next;
  uint64_t handle, signature;
  td_roll_state state;
  bool spoilt;      /* atomic: it has failed */
  bool group_ready; /* so are those of the other members */
  td_status *error;
  td_sent_part *parts;
  int n_parts;
  const td_piece *stopped; /* of theirs, the one that is under way; or NULL */
  size_t stopped_at;       /* how far it is */
  Td__Remote__Edge *far;
  size_t n_far;
  bool updates; /* td_session_updates */
  bool *narrow; /* by edge: what goes there goes in 16 bits; NULL: none */
  int32_t n_edges;
  int n_args, n_rets;
  int *args; /* those that its parts take */
  int n_own_args;
  int64_t said;
  int64_t took; /* ns of a step there, a decaying average */
} td_far_roll;

/* A value on its way to a portion that was not sent yet. */
typedef struct td_held {
  td_key key;
  td_tensor value;
  bool dead;
} td_held;

typedef enum td_portion_state {
  TD_PORTION_READY,   /* not out yet; values for it may come */
  TD_PORTION_HELD,    /* a registration is under way */
  TD_PORTION_RUNNING, /* RUN was sent */
  TD_PORTION_FAILING, /* CANCEL was sent */
  TD_PORTION_ENDED,   /* not out any more */
} td_portion_state;

/* The table's third column; the others are running and failing. */
enum { TD_STEP_ENDED = 2 };
/* The rows of README.md's table. */
typedef enum td_portion_event {
  TD_DONE_OK,
  TD_DONE_CAUSE,
  TD_DONE_EVIDENCE,
  TD_TASK_DEAD,
  TD_STEP_CANCELLED,
} td_portion_event;

typedef struct td_ret_pull {
  td_transfer base; /* first */
  td_far_portion *portion;
  int index;
} td_ret_pull;

/* Of a step that is traced. */
typedef struct td_traced {
  td_transfer base; /* first */
  td_far_portion *portion;
  td_trace *into;  /* a share; NULL: it is not traced */
  td_tensor bytes; /* as they came */
  int64_t sent, came; /* RUN and DONE, by our clock */
  td_clock_offset clock;
  bool timed;         /* `clock` is known */
  bool coming;        /* it is being pulled */
  td_status *trouble; /* why there are no bytes */
} td_traced;

/* Lines on their way to who asked for them. */
typedef struct td_printed {
  td_str text;
  uint64_t dropped; /* lines, since the last that was told */
  bool going;       /* somebody is with it, after the turn */
  td_task task;
} td_printed;

/* What it said it waits for. */
typedef struct td_explained {
  td_str text;       /* the last answer */
  uint64_t question; /* its number; 0: none is out */
  int64_t asked;     /* when */
  int32_t open;      /* atomic: it was asked and has not answered */
} td_explained;

/* What a lower file has an upper one do; master_step.c's. */
typedef struct td_portion_hooks {
  void (*fail)(td_far_portion *n, td_status *s); /* takes ownership of `s` */
  void (*rest)(td_far_portion *n); /* a value is through: it may be over */
} td_portion_hooks;

struct td_far_portion {
  td_portion base; /* first */
  const td_portion_hooks *hooks;
  td_far_roll *of;
  td_far_portion *prev, *next; /* the member's */
  td_portion_state state;
  int32_t out; /* atomic: started and not over */
  td_portion_start start;
  TD_VEC(td_held) held;
  td_ret_pull *pulls;
  int n_pulls, pulling;
  struct td_far_value *values; /* for this process: offered, being pulled, or
                                  here and not wanted yet */
  int32_t n_values; /* atomic: how many */
  int32_t deaf;     /* atomic: nobody here wants any more */
  bool *wanted;     /* lock: lock. By edge: its receiver in the root waits */
  td_map wants;     /* lock: lock. Keys of those in loops */
  bool want_all;    /* lock: lock. What is offered is pulled at once */
  td_map offered;   /* key -> td_far_value that nobody waits for; written inside
                       of the turn and under lock, read in either */
  pthread_mutex_t lock;
  bool done, cancelled, failed;
  uint64_t due, came; /* values for this process */
  int users;          /* with the step, outside of the turn */
  td_status *status;
  int64_t until; /* evidence waits so long for its cause; 0: it does not */
  int64_t began;
  td_task task;
  td_traced traced;
  td_printed printed;
  td_explained why;
};

/* ---- master_member.c ---- */

/* Borrowed, or NULL. */
td_master *td_master_of(td_remote *r, const td_session *s);
td_master *td_master_find(td_remote *r, uint64_t high, uint64_t low);
td_status *td_master_new(td_remote *r, td_session *s,
                         td_master **out) TD_MUST_USE;
void td_master_release(td_master *m);
td_member *td_member_of_peer(td_master *m, const td_peer *p); /* borrowed */
void td_member_retain(td_member *m);  /* any thread */
void td_member_release(td_member *m); /* inside of the turn only */
void td_member_free(td_participant *p); /* the participant's, any thread */
/* Which task of the view has the device: 0 is this process. */
int32_t td_master_task_of(const td_master *m, const td_device *d);
static inline td_remote *td_member_remote(const td_member *m) {
  return m->master->of;
}
td_status *td_member_send(td_member *m, td_lane lane, td_head *head,
                          td_raw *frames, int n) TD_MUST_USE;

/* ---- master_roll.c ---- */

td_status *td_member_enroll(td_participant *p, const td_roll *roll,
                            td_enrollment **out) TD_MUST_USE;
void td_member_forget(td_enrollment *e);
int64_t td_member_cost(const td_enrollment *e);
void td_member_costs(const td_enrollment *e, td_each_cost each, void *arg);
/* Is it, with those of the other members, registered? */
bool td_roll_is_ready(td_far_roll *e);
void td_roll_registered(td_member *m, const Td__Remote__Answer *a);
void td_roll_needed(td_member *m, const Td__Remote__Need *n);
void td_rolls_tick(td_member *m, int64_t now);
void td_rolls_fail(td_member *m, td_status *why); /* takes ownership */

/* ---- master_step.c ---- */

td_status *td_member_begin(td_enrollment *e, int threads,
                           td_portion **out) TD_MUST_USE;
void td_member_start(td_portion *n, const td_portion_start *o);
void td_member_cancel(td_portion *n, td_status *cause);
td_status *td_member_deliver(td_portion *n, td_key key, td_tensor *value,
                             bool dead) TD_MUST_USE;
bool td_member_reset(td_portion *n);
void td_member_end(td_portion *n);
void td_member_pump(td_portion *n, int64_t until, const int *interrupt,
                    bool (*ready)(void *arg), void *arg);
void td_member_nudge(td_portion *n);
void td_member_attend(td_portion *n, bool begins);
void td_portion_done(td_member *m, td_message *msg);
void td_portion_aborted(td_member *m, const Td__Remote__Stop *s);
/* Whoever is with it after the turn holds its end up (n->users), until this. */
void td_portion_unuse(td_far_portion *n);
/* Registrations have ended: those that were held go, or fail. */
void td_portions_go_on(td_master *m);
void td_portions_dead(td_member *m, td_status *why); /* takes ownership */
void td_portions_tick(td_member *m, int64_t now);

/* ---- master_value.c ---- */

enum { TD_MASTER_EARLY = 64 << 20 }; /* td_master.early_most */

/* Borrowed; NULL: no such step is out. */
td_far_portion *td_portion_find(td_member *m, uint64_t step);
void td_portion_value(td_member *m, td_message *msg);
/* The participant's: any thread. */
void td_member_wanted(td_portion *n, td_key key);
void td_member_unwanted(td_portion *n);
td_status *td_portion_values_init(td_far_portion *n) TD_MUST_USE;
void td_portion_values_deinit(td_far_portion *n);
/* For another start. Outside of the turn. */
void td_portion_values_reset(td_far_portion *n);
/* Takes no more of them: those that came are dropped. */
void td_portion_values_stop(td_far_portion *n);

/* ---- master_trace.c ---- */

/* The portion starts; its RUN is about to be sent; its DONE came: true when d->trace is to
 * be taken; why it could not be (takes ownership of `s`). */
void td_traced_begin(td_far_portion *n);
void td_traced_send(td_far_portion *n);
bool td_traced_done(td_far_portion *n, const Td__Remote__Done *d);
void td_traced_trouble(td_far_portion *n, td_status *s);
/* After the turn: joins it to the caller's. */
void td_traced_over(td_far_portion *n);

/* ---- master_print.c ---- */

void td_portion_printed(td_member *m, const Td__Remote__Text *t);

/* ---- master_why.c ---- */

void td_member_why(td_portion *n, td_str *out);
void td_member_inquire(td_portion *n, int64_t until);
/* False: it is no answer to one of its questions. */
bool td_portion_explained(td_member *m, const Td__Remote__Answer *a);

/* ---- master_ask.c ---- */

td_status *td_member_rename(td_participant *p, const char *name,
                            const char *to) TD_MUST_USE;
void td_member_lives(td_participant *p, const td_device *d, td_str *names);
void td_member_drop(td_participant *p, const td_device *d);
void td_member_sweep(td_participant *p, const td_makers *alive);
/* Appends its numbers (metrics.h). */
td_status *td_member_stats(td_participant *p, td_str *out) TD_MUST_USE;
td_status *td_member_save(td_participant *p, td_str *out) TD_MUST_USE;
td_status *td_member_load(td_participant *p, td_bytes from,
                          td_str *waiting) TD_MUST_USE;
void td_member_clear(td_participant *p);
td_status *td_member_reset_container(td_participant *p,
                                     const char *container) TD_MUST_USE;
void td_member_answered(td_member *m, const Td__Remote__Answer *a);
void td_questions_fail(td_member *m);

#endif
