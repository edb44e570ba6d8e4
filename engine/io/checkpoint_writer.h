/* checkpoint_writer.h - writing a checkpoint that is whole or not there.
 *
 *   td_checkpoint_writer_open(prefix, &w)   alone with the prefix from now on
 *   td_checkpoint_writer_add(w, name, &t)   as often as there are tensors
 *   td_checkpoint_writer_commit(w)          now it is there, and outlives a crash
 *   td_checkpoint_writer_close(w)           without commit nothing has happened
 *
 * The data go to a file of another name, are synced, take a shard's name that
 * the index which is there does not use, and their folder is synced; then the
 * index does the same. Until that last rename the checkpoint of before is
 * whole, from then on the new one. Only then are the old data removed. What a
 * process left behind that died is removed by the next one.
 *
 * Tensors are written as they lie, without a copy; strings take a buffer of
 * fixed size.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_WRITER_H
#define TD_CHECKPOINT_WRITER_H

#include "engine/io/checkpoint.h"

TD_BEGIN

typedef struct td_checkpoint_writer td_checkpoint_writer;

/* Makes the prefix's folders. UNAVAILABLE, with who it is, while another writes
 * there; FAILED_PRECONDITION where the file system cannot put a file in the
 * place of another. Caller owns the result. */
td_status *td_checkpoint_writer_open(const char *prefix,
                                     td_checkpoint_writer **out) TD_MUST_USE;
/* From now on writing ends with CANCELLED when `go_on` says no. It is asked for
 * the last time when the data are on the disk and nothing has its name yet. */
void td_checkpoint_writer_ask(td_checkpoint_writer *w,
                              td_checkpoint_go_on go_on, void *arg);
/* Appends a host tensor. ALREADY_EXISTS for a name that came before; after an
 * error of a file it takes no more. */
td_status *td_checkpoint_writer_add(td_checkpoint_writer *w, const char *name,
                                    const td_tensor *t) TD_MUST_USE;
/* Appends a slice of a tensor of shape `whole`; `t` has the slice's shape. All
 * slices of a name have one dtype and shape, and none overlaps another. */
td_status *td_checkpoint_writer_add_slice(td_checkpoint_writer *w,
                                          const char *name,
                                          const td_shape *whole,
                                          const td_slice *slice,
                                          const td_tensor *t) TD_MUST_USE;
td_status *td_checkpoint_writer_commit(td_checkpoint_writer *w) TD_MUST_USE;
/* Frees; removes what was written if it was not committed. NULL is ok. */
void td_checkpoint_writer_close(td_checkpoint_writer *w);

/* Makes one checkpoint of several, whose data files become its shards, and whose
 * own folders are removed if `remove_folders` and they are empty. All slices of
 * a tensor agree in dtype and shape, over all parts; ALREADY_EXISTS for a name in
 * two of them. The parts are gone after. Of a merge that failed or was killed
 * they may be gone, too, but never what the prefix held before: save again. */
td_status *td_checkpoint_merge(const char *const *parts, size_t n,
                               const char *prefix,
                               bool remove_folders) TD_MUST_USE;

TD_END
#endif
