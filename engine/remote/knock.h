/* knock.h - what is at an address, before anybody speaks with it: is its host
 * known, does the port answer, and is it ZeroMQ with keys that does?
 *
 * A worker that cannot be attached to is told from a wrong port, a firewall and
 * another program so; what is exchanged is the greeting that every ZeroMQ socket
 * sends first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KNOCK_H
#define TD_KNOCK_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef enum td_knock_found {
  TD_KNOCK_UNKNOWN,     /* the host's name has no address */
  TD_KNOCK_REFUSED,     /* nothing listens there */
  TD_KNOCK_UNREACHABLE, /* there is no way to the host */
  TD_KNOCK_TIMED_OUT,   /* no answer at all */
  TD_KNOCK_SILENT,      /* a connection, and then nothing */
  TD_KNOCK_STRANGER,    /* it does not speak ZeroMQ */
  TD_KNOCK_PLAIN,       /* ZeroMQ without keys */
  TD_KNOCK_KEYS,        /* ZeroMQ with CURVE */
} td_knock_found;

/* Waits until td_clock_now() passes `until`, or *interrupt (may be NULL), at
 * most; a name may take the resolver longer. `what` gets what the system says:
 * the numeric address, or why there is none. INVALID_ARGUMENT for what is no
 * address. */
td_status *td_knock(const char *address, int64_t until, const int *interrupt,
                    td_knock_found *out, td_str *what) TD_MUST_USE;
const char *td_knock_name(td_knock_found found); /* "timed out" */

TD_END
#endif
