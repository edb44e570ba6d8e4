/* session_devices.h - the devices of a session, which come and go.
 *
 * A device has its index in the session for good. Those that joined the runtime
 * are appended before the next plan; one that left it leaves a NULL behind. One
 * of another process that was lost keeps its index until it is back. All is the
 * session's plan lock's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SESSION_DEVICES_H
#define TD_SESSION_DEVICES_H

#include "engine/run/device_list.h"
#include "engine/run/session.h"

/* Its index, -1: none. */
int32_t td_session_devices_find(const td_session *s, const td_device *d);
/* Appends what has joined the runtime and has the placer know what was lost;
 * appends one device, which is retained; closes an index; closes those of
 * devices that are gone. */
td_status *td_session_devices_refresh(td_session *s) TD_MUST_USE;
td_status *td_session_devices_append(td_session *s, td_device *d) TD_MUST_USE;
void td_session_devices_close(td_session *s, int32_t i, bool drop);
void td_session_devices_sweep(td_session *s);

#endif
