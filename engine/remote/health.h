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
 * than a second, whatever waits is heard first and nobody judged for two.
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
} td_health;

void td_health_init(td_health *h, int64_t now);
/* True when the state changed. */
bool td_health_on(td_health *h, td_health_event e, int64_t now);
/* What silence there is, by the clock; `patient` until then nobody is
 * judged. */
bool td_health_tick(td_health *h, int64_t now, int64_t patient);
const char *td_health_name(td_health_state s); /* "up" */

TD_END
#endif
