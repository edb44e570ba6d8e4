/* pipeline.h - elements read, changed, mixed and batched ahead of use.
 *
 * A pipeline is a source and a chain of stages behind it. An element is a tuple
 * of host tensors, the same dtypes in all. Stages work ahead as far as their
 * room goes, on the pool and on I/O threads, never in Lua, and hold no thread
 * while they wait; the order of elements is a function of seeds alone, never of
 * threads. An *epoch* is one pass over the source: stages that mix or batch end
 * it cleanly, what is random is drawn anew for each.
 *
 *   td_pipeline_files(&o, &p);
 *   td_pipeline_map(p, f, ..);  td_pipeline_shuffle(p, 1000, 7);
 *   td_pipeline_batch(p, 32, ..);
 *   while (td_pipeline_take(p, NULL, tensors, &end), !end) ...
 *
 * Stages are added before the first element is asked for. What a pipeline has
 * given so far can be saved as a few bytes, and another of the same stages goes
 * on from there: positions and seeds are kept, what waited in stages is read
 * again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PIPELINE_H
#define TD_PIPELINE_H

#include "engine/device/elements.h"
#include "engine/io/source.h"
#include "engine/run/callable.h"

TD_BEGIN

typedef struct td_pipeline td_pipeline;

/* dtype and what is known of the shape, of one tensor of an element. */
typedef td_result td_column;

/* ---- sources ---- */

/* The rows of tensors in host memory, which have as many each. Shares of them
 * are kept. With `shuffle` in an order drawn for each epoch. */
typedef struct td_pipeline_rows {
  const td_tensor *columns;
  int n_columns;
  int64_t first, step; /* of rows: a shard; 0 and 1 for all */
  bool shuffle;
  uint64_t seed;
} td_pipeline_rows;
td_status *td_pipeline_from_rows(const td_pipeline_rows *o,
                                 td_pipeline **out) TD_MUST_USE;

/* The records of files: elements of two strings, the record and its key. Paths
 * are copied, and read in the order given or, with `shuffle`, one drawn for each
 * epoch. An error is given in its place, and what is behind it in that file is
 * left out: options.skip_errors goes on. Of a shard `first` of `step` these are
 * the files `first`, first + step, ... of that order when there are `step` or
 * more, else the records of all. */
typedef struct td_pipeline_files {
  const char *const *paths;
  int64_t n_paths;
  td_source_options options;
  int64_t first, step; /* 0 and 1 for all */
  bool shuffle;
  uint64_t seed;
} td_pipeline_files;
td_status *td_pipeline_from_files(const td_pipeline_files *o,
                                  td_pipeline **out) TD_MUST_USE;

void td_pipeline_release(td_pipeline *p); /* what is under way ends by itself */

/* ---- stages ----
 *
 * After an error of one of these the pipeline is to be released. */

/* `f`, a callable on the columns (those numbered feed[0..n_feeds), in order of
 * its feeds), gives the new ones; at most `parallel` elements at once. Random
 * ops in it draw by epoch and number of the element. */
typedef struct td_pipeline_call {
  td_callable *f;
  const int *feed;
  int n_feeds;
  int parallel; /* >= 1 */
} td_pipeline_call;
td_status *td_pipeline_map(td_pipeline *p, const td_pipeline_call *call,
                           const td_column *columns,
                           int n_columns) TD_MUST_USE;
/* Leaves out elements for which `f` gives false (a bool scalar). */
td_status *td_pipeline_filter(td_pipeline *p,
                              const td_pipeline_call *call) TD_MUST_USE;
/* Each time one of `n` elements at hand, chosen by the seed. */
td_status *td_pipeline_shuffle(td_pipeline *p, int64_t n,
                               uint64_t seed) TD_MUST_USE;
/* n elements side by side; with `room` padded to these shapes (td_tensor_stack)
 * by the scalars `pad` (either NULL: none). The last of an epoch is shorter,
 * unless `whole`. Numbers lie in memory that counts against the process's limit:
 * without room for one RESOURCE_EXHAUSTED comes in its place. */
typedef struct td_pipeline_batching {
  int64_t n;
  bool whole;
  const td_shape *room;
  const td_tensor *pad; /* of each column; TD_INVALID: zeros */
} td_pipeline_batching;
td_status *td_pipeline_batch(td_pipeline *p,
                             const td_pipeline_batching *o) TD_MUST_USE;
/* Padded batches of elements whose column `length`, an integer scalar, is alike:
 * below bounds[0], below bounds[1], ..., the rest. */
td_status *td_pipeline_bucket(td_pipeline *p, int length, const int64_t *bounds,
                              int n_bounds,
                              const td_pipeline_batching *o) TD_MUST_USE;
/* `epochs` of them as one (< 0: for ever); the first n of each epoch; all but
 * these. */
td_status *td_pipeline_repeat(td_pipeline *p, int64_t epochs) TD_MUST_USE;
td_status *td_pipeline_first(td_pipeline *p, int64_t n) TD_MUST_USE;
td_status *td_pipeline_skip(td_pipeline *p, int64_t n) TD_MUST_USE;
/* The first epoch passes and is kept, the others are given from that, and the
 * stages before are not asked again: in memory or, with a path (may be NULL), in
 * a file. A file that is there already is used at once; one is there only when
 * its epoch was whole. An epoch whose rest nobody wants, or that has errors, is
 * not kept: the next begins anew. */
td_status *td_pipeline_cache(td_pipeline *p, const char *path) TD_MUST_USE;
/* So many are kept ready, fewer where that is too many bytes. */
td_status *td_pipeline_prefetch(td_pipeline *p, int64_t n) TD_MUST_USE;

/* A stage that has so many bytes ready makes no more; it has one element,
 * however large. */
enum { TD_PIPELINE_BYTES = 256 << 20 };

int td_pipeline_columns(const td_pipeline *p);
const td_column *td_pipeline_column(const td_pipeline *p, int i);

/* ---- use ---- */

/* The next element: a tensor for each column, the caller's; *end instead after
 * the last one, and ever after. An error is that of one element: the next call
 * goes on behind it. *interrupt (may be NULL) non-zero ends the wait with
 * CANCELLED, and the reading of a pipe: the next call goes on with that. */
td_status *td_pipeline_take(td_pipeline *p, const int *interrupt,
                            td_tensor *out, bool *end) TD_MUST_USE;
/* After the end: the next epoch's elements follow. */
void td_pipeline_again(td_pipeline *p);
/* The same as kernels see it. Borrowed; valid while `p` lives. */
td_elements *td_pipeline_elements(td_pipeline *p);
/* Nothing more is given: what waits is CANCELLED, what runs is stopped. */
void td_pipeline_close(td_pipeline *p);
/* Where it stands, appended; what was asked for and not yet given does not
 * count. */
td_status *td_pipeline_save(td_pipeline *p, td_str *out) TD_MUST_USE;
/* Goes on from there; of one of the same stages, which has given nothing yet.
 * DATA_LOSS, INVALID_ARGUMENT. */
td_status *td_pipeline_load(td_pipeline *p, td_bytes from) TD_MUST_USE;
/* What it waits for: a line for each stage that does. Appends. */
void td_pipeline_why(td_pipeline *p, td_str *out);

TD_END
#endif
