/* session_members.h - other processes take part in a session.
 *
 * For who brings them (engine/remote): they come and go while steps run and
 * other threads plan. To join, leave and rejoin waits for a plan that is being
 * made; to lose waits for nothing. All of them call participants (forget,
 * cancel, close) on the thread that they are called on, without a lock.
 *
 * Who names a participant holds a share of it. A device that is handed in is of
 * this session alone: it is marked as gone when it goes (td_device.gone), and
 * not handed in again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SESSION_MEMBERS_H
#define TD_SESSION_MEMBERS_H

#include "engine/run/participant.h"
#include "engine/run/session.h"

TD_BEGIN

/* `p` takes part from now on, with its devices, which are appended to those of
 * the session. ALREADY_EXISTS when its task or one of these is there, if only
 * lost; FAILED_PRECONDITION once the session is closed. Then nothing changes.
 * Retains the devices, takes ownership of `p`, also when it fails; one that the
 * session has had is closed before it is let go, one that it refused is not. */
td_status *td_session_join(td_session *s, td_participant *p,
                           td_device *const *devices, int n) TD_MUST_USE;

/* `p` takes no part any more: its devices go as with td_runtime_remove_device,
 * and it is closed. Where variables live there, FAILED_PRECONDITION names them
 * and nothing changes, unless `drop`. NOT_FOUND when it takes no part, or
 * not any more. */
td_status *td_session_leave(td_session *s, td_participant *p,
                            bool drop) TD_MUST_USE;

/* The process of `p` died or was fenced: its devices cannot be had until it is
 * back. What was placed there stays, what asks for them is placed there; who
 * needs them fails with UNAVAILABLE and the message of `why`, which names the
 * task: "/job:worker/task:1 died: no sign of life for 5 s". Steps that use them
 * are cancelled with that. The first reason counts. Nothing when `p` takes no
 * part, or not yet: who joins looks afterwards whether it lives. Takes
 * ownership of `why`. */
void td_session_lose(td_session *s, td_participant *p, td_status *why);

/* The task of `was` is back as `p`: a new process, with nothing of what the old
 * one kept. Devices of the same names take the places of the old ones and what
 * is bound to these; others are appended; those that did not come back stay
 * lost. `was` is lost first if it is not, and closed. When it fails, as join
 * does, or with NOT_FOUND, `was` stays, lost, and `p` is let go. Retains the
 * devices, takes ownership of `p`. */
td_status *td_session_rejoin(td_session *s, td_participant *was,
                             td_participant *p, td_device *const *devices,
                             int n) TD_MUST_USE;

/* Its option. */
int64_t td_session_slow_link(const td_session *s);

/* ---- a session whose master is elsewhere ---- */

/* Plans in place of this process. Its maker's struct begins with it. */
typedef struct td_session_planner {
  /* A plan whose parts are for devices of members. Any thread. Caller owns the
   * result (td_plan_free). */
  td_status *(*plan)(struct td_session_planner *p, const td_signature *sig,
                     td_plan **out);
  /* Has it turned out that what was enrolled cannot be run? Then it is planned
   * anew when it is asked for again. Any thread; called under a lock. */
  bool (*spoilt)(const td_enrollment *e);
  void (*free)(struct td_session_planner *p); /* with the session */
} td_session_planner;

/* Nothing of `s` is placed or planned here from now on: before its first step.
 * Takes ownership of `p`. */
void td_session_plan_by(td_session *s, td_session_planner *p);
/* Borrowed; NULL: it plans itself. */
td_session_planner *td_session_planner_of(const td_session *s);

TD_END
#endif
