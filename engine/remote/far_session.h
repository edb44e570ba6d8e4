/* far_session.h - a session whose master is another process.
 *
 * Planning, placement, variables, loops and workers are of a session that a
 * server keeps (keeper_impl.h) under a name; a td_session of this process
 * stands for it, with a graph here, so that whatever runs steps of a session
 * runs those. A step is one message there and one back. What has no counterpart
 * among the functions of a td_session is asked for by td_far_ask.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FAR_SESSION_H
#define TD_FAR_SESSION_H

#include "engine/base/str.h"
#include "engine/remote/remote.h"
#include "engine/run/callable.h"
#include "engine/run/loop.h"

TD_BEGIN

typedef struct td_far_session td_far_session;

typedef struct td_far_options {
  td_attach_options at;
  const char *name; /* of the session there */
  bool join;        /* one that is there already */
  bool outlive;     /* it goes on when this process is gone */
  int threads, cpu_devices; /* as td_session_options, there */
} td_far_options;

/* Makes `s`, which has run nothing yet, stand for a session of the server at
 * o->at, which has the other options of `s`, or joins one: then the graph of
 * `s`, which is empty, becomes a copy of that session's. NOT_FOUND lists the
 * names there are, ALREADY_EXISTS says that it is to be joined; else as
 * td_remote_attach. Waits. */
td_status *td_far_open(td_remote *r, td_session *s, td_graph *g,
                       const td_far_options *o) TD_MUST_USE;
/* NULL: its master is here. Borrowed; valid while `s` lives. */
td_far_session *td_far_session_of(const td_session *s);
const char *td_far_name(const td_far_session *f); /* borrowed likewise */
const char *td_far_task(const td_far_session *f); /* the server's; likewise */

td_session *td_far_home(const td_far_session *f); /* that of this process */

/* What is asked, in the order of KeepAsk.What in remote.proto; keeper_ask.c
 * says what each takes and gives. */
typedef enum td_far_what {
  TD_FAR_LIST,
  TD_FAR_END,
  TD_FAR_GRAPH,
  TD_FAR_ADOPT,
  TD_FAR_WHY,
  TD_FAR_EXPLAIN,
  TD_FAR_DEVICES,
  TD_FAR_WORKERS,
  TD_FAR_ATTACH,
  TD_FAR_DETACH,
  TD_FAR_RESET,
  TD_FAR_LOOP,
  TD_FAR_LOOPS,
  TD_FAR_LOOP_STATE,
  TD_FAR_LOOP_CANCEL,
  TD_FAR_LOOP_LOG,
} td_far_what;

typedef struct td_far_question {
  td_far_what what;
  const char *text, *key; /* or NULL */
  int64_t time;           /* ns that the answer may take beyond 10 s */
  uint64_t *numbers;
  size_t n_numbers;
  char **names;
  size_t n_names;
  bool flag;
  const int *interrupt; /* (optional) */
} td_far_question;
/* Appends the answer to `out`. Waits. */
td_status *td_far_ask(td_far_session *f, const td_far_question *q,
                      td_str *out) TD_MUST_USE;
/* TD_FAR_LIST of the server there. Waits. */
td_status *td_far_list(td_remote *r, const td_attach_options *at,
                       td_str *out) TD_MUST_USE;

/* Waits until `c` is registered there; its error, if that failed. NULL at once
 * where the master is here. */
td_status *td_far_ready(td_callable *c, const int *interrupt) TD_MUST_USE;

/* ---- loops of steps there (far_loop.c) ---- */

typedef struct td_far_loop td_far_loop;

/* As td_loop_start; o->names are copied. */
td_status *td_far_loop_start(td_far_session *f, td_callable *c,
                             const td_loop_options *o, const int *interrupt,
                             td_far_loop **out) TD_MUST_USE;
/* That of a number. Retains the session. */
td_status *td_far_loop_new(td_far_session *f, uint64_t number,
                           td_far_loop **out) TD_MUST_USE;
void td_far_loop_release(td_far_loop *l); /* what runs goes on */
/* Of now. *error: what ended it, the caller's; NULL while it goes on. */
typedef struct td_far_loop_now {
  bool over;
  int64_t steps, failed;
  td_status *error;
} td_far_loop_now;
td_status *td_far_loop_look(td_far_loop *l, const int *interrupt,
                            td_far_loop_now *out) TD_MUST_USE;
/* As td_loop_wait. */
td_status *td_far_loop_wait(td_far_loop *l, int64_t timeout,
                            const int *interrupt) TD_MUST_USE;
td_status *td_far_loop_cancel(td_far_loop *l) TD_MUST_USE;
/* What was kept. Caller ends it. */
typedef struct td_far_loop_kept {
  char **names;
  int each;        /* values of a step */
  int64_t n;       /* steps */
  int64_t *steps;
  td_tensor *values; /* n times `each` */
} td_far_loop_kept;
td_status *td_far_loop_log(td_far_loop *l, const int *interrupt,
                           td_far_loop_kept *out) TD_MUST_USE;
void td_far_loop_kept_deinit(td_far_loop_kept *k);

TD_END
#endif
