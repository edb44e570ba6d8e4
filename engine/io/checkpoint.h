/* checkpoint.h - reading checkpoints: tensors by name, in TensorFlow's files.
 *
 * A checkpoint is known by its prefix, the path without what follows:
 *
 *   PREFIX.index                  a sorted table of names and where they are
 *   PREFIX.data-SSSSS-of-NNNNN    the bytes of tensors, one behind the other
 *
 * The index is the checkpoint: it is written last, in one act, and names the
 * data by their shards and checks. What TensorFlow has no place for are tensors
 * too, under names that begin with "_tide/".
 *
 * A tensor may be stored in slices, each under a key of its own; its name then
 * has shape and slices, and no bytes.
 *
 * Nothing of a file is trusted: sizes are compared with the files' before memory
 * is taken, every tensor that is read has its check compared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_H
#define TD_CHECKPOINT_H

#include "engine/io/checkpoint_slice.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

/* Names that begin so are not tensors of the user's. */
#define TD_CHECKPOINT_OURS "_tide/"

typedef struct td_checkpoint td_checkpoint;

/* Asked while much is read or written, before each piece of a MiB at the latest:
 * shall it go on? `last`: once more, and never again. */
typedef bool (*td_checkpoint_go_on)(void *arg, bool last);

typedef struct td_checkpoint_entry {
  const char *name; /* borrowed; valid while the checkpoint is open */
  td_dtype dtype;   /* one that has values on the host */
  td_shape shape;   /* the whole tensor's */
  int32_t shard;
  uint64_t offset, size; /* in the shard */
  uint32_t crc;          /* unmasked */
  int n_slices;    /* 0: it is stored whole */
  td_bytes slices; /* as they stand in the file */
} td_checkpoint_entry;

/* Opens `PREFIX.index` and looks at every shard that it needs. NOT_FOUND when
 * there is no such file, DATA_LOSS when one is broken, cut short or missing.
 * Caller owns the result. Any threads may read from it at once. */
td_status *td_checkpoint_open(const char *prefix,
                              td_checkpoint **out) TD_MUST_USE;
void td_checkpoint_close(td_checkpoint *c); /* NULL is ok */

/* From now on reading ends with CANCELLED when `go_on` says no. Before others
 * read. */
void td_checkpoint_ask(td_checkpoint *c, td_checkpoint_go_on go_on, void *arg);

const char *td_checkpoint_prefix(const td_checkpoint *c);
int td_checkpoint_shards(const td_checkpoint *c);
/* Entries by name, ascending; keys of slices are not among them. Borrowed; valid
 * while `c` is open. */
size_t td_checkpoint_count(const td_checkpoint *c);
td_checkpoint_entry td_checkpoint_at(const td_checkpoint *c, size_t i);
/* false when there is none of the name. */
bool td_checkpoint_find(const td_checkpoint *c, const char *name,
                        td_checkpoint_entry *out);
/* for (td_bytes at = e.slices; td_checkpoint_next_slice(&at, &s);) ... */
bool td_checkpoint_next_slice(td_bytes *at, td_slice *out);
/* Where a slice of a tensor in slices is stored; DATA_LOSS when it is not. */
td_status *td_checkpoint_find_slice(const td_checkpoint *c,
                                    const td_checkpoint_entry *e,
                                    const td_slice *s,
                                    td_checkpoint_entry *out) TD_MUST_USE;
/* NOT_FOUND, with the checkpoint and the names that are near. */
td_status *td_checkpoint_missing(const td_checkpoint *c,
                                 const char *name) TD_MUST_USE;

/* The tensor, or the part that `part` says (NULL: the whole), put together from
 * slices where it is stored so. Caller owns the result, in host memory of `a`
 * (NULL: the host's). */
td_status *td_checkpoint_read(const td_checkpoint *c,
                              const td_checkpoint_entry *e,
                              const td_slice *part, td_allocator *a,
                              td_tensor *out) TD_MUST_USE;
/* A whole tensor of a plain dtype as a view of its file, read only and checked
 * once; its bytes take no memory of the process. Where it lies unaligned, or in
 * slices, it is read. */
td_status *td_checkpoint_map(const td_checkpoint *c,
                             const td_checkpoint_entry *e,
                             td_tensor *out) TD_MUST_USE;
/* Reads every byte of the shards that entries tell of: the first that does not
 * fit its check, by name, is the error (DATA_LOSS). */
td_status *td_checkpoint_verify(const td_checkpoint *c) TD_MUST_USE;

TD_END
#endif
