/* checkpoint_v1.h - checkpoints as TensorFlow wrote them before 2017.
 *
 * One file, or several of one checkpoint (PATH-SSSSS-of-NNNNN), each a sorted
 * table: under the key "" what tensors and slices it has, under the keys of
 * slices, of which a whole tensor is one, their values as messages. All of a file
 * is in memory while it is read or written, so this is for old files and for
 * old programs; all else is in checkpoint.h.
 *
 * Nothing of a file is trusted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_V1_H
#define TD_CHECKPOINT_V1_H

#include "engine/io/checkpoint.h"

TD_BEGIN

typedef struct td_checkpoint_v1 td_checkpoint_v1;

/* Opens the file of that path, else those that it is a pattern of, else the
 * shards PATH-SSSSS-of-NNNNN. NOT_FOUND when there is none, DATA_LOSS when one is
 * broken. Caller owns the result; any threads may read from it at once. */
td_status *td_checkpoint_v1_open(const char *path,
                                 td_checkpoint_v1 **out) TD_MUST_USE;
void td_checkpoint_v1_close(td_checkpoint_v1 *c); /* NULL is ok */

/* Names, ascending; one comes again for each file that has slices of it.
 * Borrowed; valid while `c` is open. */
size_t td_checkpoint_v1_count(const td_checkpoint_v1 *c);
const char *td_checkpoint_v1_name(const td_checkpoint_v1 *c, size_t i);
/* false when there is none of the name; fills name, dtype and shape. */
bool td_checkpoint_v1_find(const td_checkpoint_v1 *c, const char *name,
                           td_checkpoint_entry *out);
/* The tensor, or the part that `part` says (NULL: the whole), put together from
 * its slices. Caller owns the result, in host memory. */
td_status *td_checkpoint_v1_read(const td_checkpoint_v1 *c,
                                 const td_checkpoint_entry *e,
                                 const td_slice *part,
                                 td_tensor *out) TD_MUST_USE;

typedef struct td_checkpoint_v1_item {
  const char *name;
  const td_shape *whole; /* the tensor's, of which this is a slice; or NULL */
  const td_slice *slice;
  const td_tensor *tensor;
} td_checkpoint_v1_item;

/* Writes a file of n tensors and slices, by name ascending, in one act: another
 * file that is there is whole until then. ALREADY_EXISTS for a slice that came
 * before, UNIMPLEMENTED for dtypes that this format cannot hold. `go_on` may be
 * NULL, and is asked for the last time before the file is touched. */
td_status *td_checkpoint_v1_write(const char *path,
                                  const td_checkpoint_v1_item *items, size_t n,
                                  td_checkpoint_go_on go_on,
                                  void *arg) TD_MUST_USE;

TD_END
#endif
