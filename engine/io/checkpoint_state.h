/* checkpoint_state.h - which checkpoints a folder has, and removing one.
 *
 * TensorFlow's savers leave a file `checkpoint` in their folder, a message
 * CheckpointState as text:
 *
 *   model_checkpoint_path: "model-300"            the newest
 *   all_model_checkpoint_paths: "model-200"       all of them, the oldest first
 *   all_model_checkpoint_paths: "model-300"
 *   all_model_checkpoint_timestamps: 1.7e9        when each was made, in seconds
 *   all_model_checkpoint_timestamps: 1.7000006e9
 *   last_preserved_timestamp: 1.6999e9            of the last kept for good
 *
 * Paths that do not begin at the root are looked for in the folder of the file;
 * here they stand as they are written. The file is a hint: a checkpoint is there
 * when its index is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_STATE_H
#define TD_CHECKPOINT_STATE_H

#include "engine/base/status.h"
#include "engine/base/str.h"
#include "engine/base/vec.h"

TD_BEGIN

enum {
  TD_CHECKPOINT_STATE_MOST = 1 << 24, /* bytes of such a file */
  TD_CHECKPOINT_PATH_MOST = 4096      /* bytes of a path in it */
};

typedef struct td_checkpoint_state {
  char *newest;         /* NULL: none is told */
  TD_VEC(char *) paths; /* the oldest first */
  TD_VEC(double) times; /* of the paths, or shorter */
  double preserved;     /* 0: none was */
} td_checkpoint_state;

/* Reads such a text; fields that are not known are passed over. DATA_LOSS, with
 * the line, for what is none. Caller owns *out, until deinit. */
td_status *td_checkpoint_state_parse(td_bytes text,
                                     td_checkpoint_state *out) TD_MUST_USE;
/* Appends the text of `s`, as TensorFlow writes it. */
void td_checkpoint_state_print(const td_checkpoint_state *s, td_str *out);
void td_checkpoint_state_deinit(td_checkpoint_state *s);

/* Removes the files of a checkpoint: its index first, and only when that is
 * gone for good what it named, so that what is left by a crash is whole or no
 * checkpoint. Shards that no index names go, too. OK when there is nothing;
 * UNAVAILABLE while another writes there. */
td_status *td_checkpoint_remove(const char *prefix) TD_MUST_USE;

TD_END
#endif
