/* checkpoint_entry.h - what stands in the index of a checkpoint, as bytes.
 *
 * Two small messages: the header, under the key "", and an entry for each
 * tensor and slice. Read by hand: no count of a file makes memory be taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_ENTRY_H
#define TD_CHECKPOINT_ENTRY_H

#include "engine/io/checkpoint.h"

TD_BEGIN

enum { TD_CHECKPOINT_MOST_SHARDS = 99999 }; /* five digits in a file's name */

void td_checkpoint_header_put(int shards, td_str *out);
td_status *td_checkpoint_header_get(td_bytes from, int *shards) TD_MUST_USE;

/* All fields but the slices, which are appended one by one behind. */
void td_checkpoint_entry_put(const td_checkpoint_entry *e, td_str *out);
void td_checkpoint_slice_put(td_str *out, int field, const td_shape *whole,
                             const td_slice *s);
void td_checkpoint_shape_put(td_str *out, int field, const td_shape *shape);
/* Fills everything but the name. DATA_LOSS for what is no entry, has an unknown
 * dtype or shape, or a size that does not fit them. `out->slices` borrows from
 * `from`. */
td_status *td_checkpoint_entry_get(td_bytes from,
                                   td_checkpoint_entry *out) TD_MUST_USE;
/* Such fields' messages, which need not fit each other. `shape` is appended to. */
td_status *td_checkpoint_shape_get(td_bytes from, td_shape *shape) TD_MUST_USE;
td_status *td_checkpoint_slice_get(td_bytes from, td_slice *s) TD_MUST_USE;

/* A string tensor's lengths are checked as numbers of 4 bytes, or 8 where these
 * are too few; the check goes on over its own 4 bytes and the text. */
uint32_t td_checkpoint_length_crc(uint32_t crc, uint64_t length);

TD_END
#endif
