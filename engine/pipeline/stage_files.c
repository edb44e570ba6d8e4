/* stage_files.c - a source: the records of files.
 *
 * Reading blocks, so it sits on an I/O thread: a batch of records at a time, and
 * the next while that one is used. The order of files is drawn for each epoch.
 * Of a shard {i, n} these are files i, i + n, ... when there are n files or
 * more, else records i, i + n, ... of all.
 *
 * at[0]: the file, in the order of the epoch; at[1]: records taken there. A
 * record's position in its file is kept with it, so that a state can be had for
 * each without asking the file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "engine/pipeline/stage.h"

enum { READ_RECORDS = 256, READ_BYTES = 1 << 20 };

/* Where reading stands. */
typedef struct place {
  int64_t epoch;
  int64_t file;   /* in the order of the epoch */
  int64_t record; /* of all files of the epoch, this shard's and others' */
  td_source_position at;
} place;

/* A record, an error, or the end of an epoch. */
typedef struct item {
  td_element e;
  place after;
} item;

typedef struct kept {
  int64_t out;
  place at;
} kept;

typedef struct files {
  td_stage base; /* first */
  char **path;
  int64_t n_paths;
  td_source_options options;
  char *compression;
  int64_t first, step;
  bool shuffle;
  uint64_t seed;
  td_task task;
  bool reading; /* a task is under way: what follows is its own */
  int32_t cut;  /* atomic: the epoch that is to end + 1, as 32 bits */
  place at;     /* of the next record to be read */
  td_source *source;  /* of the file there; NULL: not open */
  TD_VEC(item) items; /* read, from items_at on not yet put */
  size_t items_at;
  int64_t *order;
  int64_t order_of;
  TD_VEC(kept) places; /* of outputs, the oldest first */
} files;
