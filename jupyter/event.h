/* event.h - what wakes a thread that polls sockets: an eventfd.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_EVENT_H
#define TD_JUPYTER_EVENT_H

#include <stdbool.h>

/* A descriptor to poll for input; -1: none is left. Closed by close(). */
int td_jupyter_event_open(void);
/* Whoever polls it wakes, now or when it polls next. Async-signal-safe. */
void td_jupyter_event_set(int fd);
/* Was it set since the last time? It no longer is. */
bool td_jupyter_event_clear(int fd);

#endif
