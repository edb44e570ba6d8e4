/* health.h - is a peer alive? One side's view of one incarnation.
 *
 * Of what a peer says, its silence and the channel's troubles come four states.
 * A peer that is DEAD stays so: its process may be there again, but then it is
 * another incarnation.
 *
 *   JOINING --heard--> UP --2 s silent, or connection lost--> SUSPECT
 *                      ^------------heard------------------------'  |
 *                                                          5 s silent --> DEAD
 *
 * Silence counts only while we listened: when our own loop did not run for more
 * than a second, whatever waits is heard first and nobody judged for two; and
 * what it stood still beyond two ticks is no silence at all, so that processes
 * of a machine that has too much to do are as patient as they are slow. Who is
 * slow alone is taken for dead all the same: `scale` makes the times longer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_HEALTH_H
#define TD_HEALTH_H

#include "engine/base/status.h"

TD_BEGIN

/* ns */
#define TD_HEALTH_TICK INT64_C(250000000)
#define TD_HEALTH_BEAT INT64_C(1000000000)
#define TD_HEALTH_SUSPECT INT64_C(2000000000)
#define TD_HEALTH_DEAD INT64_C(5000000000)
#define TD_HEALTH_STALL INT64_C(1000000000)
#define TD_HEALTH_PATIENCE INT64_C(2000000000)

typedef enum td_health_state {
  TD_JOINING,
  TD_UP,
  TD_SUSPECT,
  TD_DEAD
} td_health_state;

typedef enum td_health_event {
  TD_HEARD,      /* a message, or the answer to a HELLO */
  TD_SILENT,     /* for TD_HEALTH_SUSPECT */
  TD_VERY_SILENT, /* for TD_HEALTH_DEAD */
  TD_BROKEN,        /* the connection was lost */
  TD_RESTARTED,  /* another incarnation is at its address */
  TD_REFUSED,    /* the handshake failed, or it sent REFUSED */
  TD_STALLED,    /* our own loop did not run for TD_HEALTH_STALL */
  TD_ENDED,      /* it took leave, or sent what is no message */
} td_health_event;
enum { TD_HEALTH_STATES = 4, TD_HEALTH_EVENTS = 8 };

typedef struct td_health {
  td_health_state state;
  int64_t heard;  /* when it was, last; before that when it was dialled */
  int64_t since;  /* when it came into this state */
  int64_t suspected; /* how often */
  int64_t excused; /* ns since it was heard that do not count */
} td_health;

void td_health_init(td_health *h, int64_t now);
/* True when the state changed. */
bool td_health_on(td_health *h, td_health_event e, int64_t now);
/* Our own loop stood still for `ns` until now: that is no silence. */
void td_health_excuse(td_health *h, int64_t now, int64_t ns);
/* What silence there is, by the clock; `patient` until then nobody is
 * judged. Times are `scale` times as long. */
bool td_health_tick(td_health *h, int64_t now, int64_t patient, double scale);
const char *td_health_name(td_health_state s); /* "up" */

TD_END
#endif
