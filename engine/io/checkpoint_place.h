/* checkpoint_place.h - a prefix that one writes to, alone.
 *
 * New data take shard numbers that the index which is there does not use: 0 of
 * 1, or, while that one is live, 1 of 2. So an index never names a file that
 * something else is put in place of, and the checkpoint is whole at any moment:
 * the old one until the new index takes its name, then the new one. What no
 * index names is left behind by who died, and is removed by the next one who
 * has the prefix.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_PLACE_H
#define TD_CHECKPOINT_PLACE_H

#include "engine/base/file_claim.h"
#include "engine/base/str.h"

TD_BEGIN

typedef struct td_checkpoint_place {
  char *prefix, *folder; /* "a/b" and "a" */
  td_file_claim *claim;
  int live; /* shards of the index that is there; 0: none; -1: it is damaged */
} td_checkpoint_place;

/* Makes the folders; errors as td_checkpoint_writer_open. On error there is
 * nothing to leave. */
td_status *td_checkpoint_place_take(const char *prefix,
                                    td_checkpoint_place *out) TD_MUST_USE;
void td_checkpoint_place_leave(td_checkpoint_place *p);

/* Numbers for n >= 1 new shards: first to first + n - 1 of *shards, *shards
 * being first + n. */
td_status *td_checkpoint_place_choose(const td_checkpoint_place *p, int n,
                                      int *first, int *shards) TD_MUST_USE;
/* Puts the path of a shard in place of what `out` holds. */
void td_checkpoint_place_shard(const td_checkpoint_place *p, int shard,
                               int shards, td_str *out);
/* Writes the index of `shards` shards, whose data are synced and have their
 * names: when it returns NULL the new checkpoint is there and the old one's data
 * are gone. After an error with *begun set either index may be what a crash
 * leaves: data of both stay. */
td_status *td_checkpoint_place_commit(td_checkpoint_place *p,
                                      const td_str *index, int shards,
                                      bool *begun) TD_MUST_USE;

TD_END
#endif
