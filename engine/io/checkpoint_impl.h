/* checkpoint_impl.h - an open checkpoint, for the files that serve it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKPOINT_IMPL_H
#define TD_CHECKPOINT_IMPL_H

#include <pthread.h>

#include "engine/base/file_stream.h"
#include "engine/base/vec.h"
#include "engine/io/checkpoint.h"

/* A mapped data file; tensors that look into it hold it, as does the shard. */
typedef struct td_checkpoint_mapping {
  int32_t refs; /* atomic */
  td_file_mapping file;
} td_checkpoint_mapping;

typedef struct td_checkpoint_record {
  uint32_t key, key_len;     /* in `keys`, with a NUL behind */
  uint32_t value, value_len; /* in the file */
} td_checkpoint_record;

typedef struct td_checkpoint_shard {
  int32_t number;
  td_file *file;
  uint64_t size;
  char *path;
  td_checkpoint_mapping *mapping; /* NULL until it is asked for; under `lock` */
} td_checkpoint_shard;

struct td_checkpoint {
  char *prefix;
  char *index;
  size_t index_len;
  td_str keys;
  TD_VEC(td_checkpoint_record) records; /* by key, ascending */
  size_t first_name; /* of them: those before are keys of slices */
  int n_shards;
  bool has_header;
  TD_VEC(td_checkpoint_shard) shards; /* those that entries need, by number */
  td_checkpoint_go_on go_on;          /* or NULL */
  void *arg;                          /* for it */
  pthread_mutex_t lock;               /* of the shards' mappings */
};

td_checkpoint_shard *td_checkpoint_find_shard(const td_checkpoint *c,
                                              int32_t number);
td_checkpoint_entry td_checkpoint_entry_of(const td_checkpoint *c,
                                           const td_checkpoint_record *r);
/* Where the keys begin that are not below `key`. */
size_t td_checkpoint_lower(const td_checkpoint *c, td_bytes key);
/* Says where an error was found; takes ownership of `s`. */
td_status *td_checkpoint_blame(const td_checkpoint *c, const char *name,
                               td_status *s);
void td_checkpoint_unmap(td_checkpoint_mapping *m); /* NULL is ok */

#endif
