/* replay.h - signatures that were seen.
 *
 * Who records a signed message could send it once more. Every message has an id
 * of its own, hence its own signature, so the second is dropped. The last
 * 32,768 at least are remembered.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_REPLAY_H
#define TD_JUPYTER_REPLAY_H

#include "engine/base/str.h"

typedef struct td_jupyter_replay td_jupyter_replay;

td_jupyter_replay *td_jupyter_replay_new(void); /* NULL: no memory */
void td_jupyter_replay_free(td_jupyter_replay *r);
/* Was the signature (hex, that holds) here before? It is now. Any thread. */
bool td_jupyter_replay_seen(td_jupyter_replay *r, td_bytes signature);

#endif
