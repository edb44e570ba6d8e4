/* checkpoint_index.h - the index of a checkpoint that is being made.
 *
 * Entries are added in any order and sorted when the file is made. An entry
 * belongs to who added it: shard, place and check are filled in when they are
 * known, before the file is made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_INDEX_H
#define TD_CHECKPOINT_INDEX_H

#include "engine/io/checkpoint.h"

TD_BEGIN

typedef struct td_checkpoint_index td_checkpoint_index;

/* `prefix` is named in errors. Caller owns the result. */
td_status *td_checkpoint_index_new(const char *prefix,
                                   td_checkpoint_index **out) TD_MUST_USE;
void td_checkpoint_index_free(td_checkpoint_index *x); /* NULL is ok */

/* *out is borrowed; valid while `x` lives. ALREADY_EXISTS for a name that came
 * before; an error leaves the index as it was. */
td_status *td_checkpoint_index_add(td_checkpoint_index *x, const char *name,
                                   td_dtype dtype, const td_shape *shape,
                                   td_checkpoint_entry **out) TD_MUST_USE;
/* The same for a slice of a tensor of shape `whole`; INVALID_ARGUMENT where it
 * does not agree with the slices of before in dtype and shape, or overlaps one. */
td_status *td_checkpoint_index_add_slice(td_checkpoint_index *x,
                                         const char *name, td_dtype dtype,
                                         const td_shape *whole,
                                         const td_slice *slice,
                                         td_checkpoint_entry **out) TD_MUST_USE;
/* Appends the file's bytes; entries' shards count from shard `first` of
 * `shards`. */
td_status *td_checkpoint_index_bytes(td_checkpoint_index *x, int first,
                                     int shards, td_str *out) TD_MUST_USE;

TD_END
#endif
