/* record_input.c - RecordInput: batches of TFRecords of many files, shuffled,
 * without end.
 *
 * A buffer is kept full of records, read in turn from a few files at once, and
 * a batch is drawn from it at random. Each epoch has the files in another
 * order, and ends with its last record drawn: none is missed, none comes twice.
 * One seed gives the same batches, if the files are the same. What there is
 * belongs to the node; it is read by errands (errand.h), which outlive a step
 * that was cancelled and may outlive the node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "engine/base/entropy.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/io/matching.h"
#include "engine/io/source.h"
#include "kernels/cost.h"
#include "kernels/errand.h"
#include "kernels/text.h"

enum { MOST_FILES = 256 }; /* open at once */

typedef struct record {
  char *at;
  size_t len;
} record;

typedef TD_VEC(record) records;

typedef struct mixer {
  int32_t refs; /* atomic: the node's, and each errand's */
  char *pattern;
  char compression[8];
  float shift;
  size_t room; /* of the buffer */
  int parallel;
  pthread_mutex_t mutex; /* protects what follows, while files are read */
  uint64_t seed, draws;
  td_paths files; /* in this epoch's order; none: not looked for yet */
  size_t next;    /* of them, to be opened */
  td_record_source *open[MOST_FILES];
  int n_open, turn;
  bool any; /* this epoch has given a record */
  records buffer;
} mixer;

/* ---- life ---------------------------------------------------------------- */

static void records_free(records *v) {
  for (size_t i = 0; i < v->len; i++) td_free(v->at[i].at);
  td_vec_free(v);
}

static void mixer_release(mixer *m) {
  if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  for (int i = 0; i < m->n_open; i++) td_source_close(m->open[i]);
  records_free(&m->buffer);
  td_paths_free(&m->files);
  pthread_mutex_destroy(&m->mutex);
  td_free(m->pattern);
  td_free(m);
}

static td_status *check_range(const td_node *n, const char *name, int64_t least,
                              int64_t most) {
  int64_t v = td_node_int(n, name);
  if (v >= least && v <= most) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be from %lld to %lld, not %lld",
                  name, (long long)least, (long long)most, (long long)v);
}

static td_status *check(const td_node *n) {
  float shift = td_node_float(n, "file_shuffle_shift_ratio");
  td_source_options o = {.compression = td_node_string(n, "compression_type")};
  TD_TRY(td_source_check(&o));
  TD_TRY(check_range(n, "batch_size", 1, INT32_MAX));
  TD_TRY(check_range(n, "file_buffer_size", 1, INT32_MAX));
  TD_TRY(check_range(n, "file_parallelism", 1, MOST_FILES));
  if (td_node_string(n, "file_pattern")[0] == '\0')
    return td_error(TD_INVALID_ARGUMENT, "file_pattern is empty");
  if (shift >= 0 && shift <= 1) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "file_shuffle_shift_ratio must be from 0 to 1, not %g",
                  (double)shift);
}

static td_status *mixer_make(const td_kernel_info *info, void **state) {
  const td_node *n = info->node;
  TD_TRY(check(n));
  mixer *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  m->refs = 1;
  pthread_mutex_init(&m->mutex, NULL);
  m->pattern = td_strdup(td_node_string(n, "file_pattern"));
  strcpy(m->compression, td_node_string(n, "compression_type")); /* checked */
  m->shift = td_node_float(n, "file_shuffle_shift_ratio");
  m->room = (size_t)td_node_int(n, "file_buffer_size");
  m->parallel = (int)td_node_int(n, "file_parallelism");
  m->seed = (uint64_t)td_node_int(n, "file_random_seed");
  td_status *s = m->pattern ? NULL : td_oom();
  if (m->seed == 0) m->seed = td_entropy();
  if (td_ok(s))
    *state = m;
  else
    mixer_release(m);
  return s;
}

static void mixer_drop(void *state) {
  if (state) mixer_release(state);
}

/* ---- an epoch ------------------------------------------------------------ */

/* The n-th number of a stream (splitmix64). */
static uint64_t mix(uint64_t seed, uint64_t n) {
  uint64_t v = seed + (n + 1) * 0x9e3779b97f4a7c15u;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
  v = (v ^ v >> 27) * 0x94d049bb133111ebu;
  return v ^ v >> 31;
}

static size_t draw(mixer *m, size_t below) {
  return (size_t)(mix(m->seed, m->draws++) % below);
}

/* From their sorted order: another for each epoch, then turned by the shift. */
static void order_files(mixer *m) {
  char **at = m->files.at;
  size_t n = m->files.len;
  td_paths_sort(&m->files);
  for (size_t i = n; i > 1; i--) {
    size_t k = draw(m, i);
    char *t = at[k];
    at[k] = at[i - 1];
    at[i - 1] = t;
  }
  size_t by = (size_t)((double)m->shift * (double)n) % n;
  for (; by > 0; by--) {
    char *t = at[0];
    memmove(at, at + 1, (n - 1) * sizeof *at);
    at[n - 1] = t;
  }
}

static td_status *find_files(mixer *m) {
  td_status *s = td_matching_files(m->pattern, &m->files);
  if (!td_ok(s)) td_paths_free(&m->files);
  if (!td_ok(s) || m->files.len > 0) return s;
  return td_error(TD_NOT_FOUND, "no file fits '%s'", m->pattern);
}

static td_status *begin_epoch(mixer *m) {
  if (m->files.len == 0)
    TD_TRY(find_files(m));
  else if (!m->any)
    return td_error(TD_OUT_OF_RANGE, "the files of '%s' have no records",
                    m->pattern);
  order_files(m);
  m->next = 0;
  m->any = false;
  return NULL;
}

static td_status *open_files(mixer *m) {
  td_source_options o = {.compression = m->compression};
  while (m->n_open < m->parallel && m->next < m->files.len) {
    TD_TRY(td_source_open(m->files.at[m->next], &o, &m->open[m->n_open]));
    m->n_open++;
    m->next++;
  }
  return NULL;
}

static td_status *keep(mixer *m, const td_source_record *r) {
  char *copy = td_strndup(r->at, r->len);
  record rec = {copy, r->len};
  m->any = true;
  if (copy && td_vec_push(&m->buffer, rec)) return NULL;
  td_free(copy);
  return td_oom();
}

/* One record of the file whose turn it is, or that file's end. */
static td_status *read_one(mixer *m) {
  td_source_record r;
  bool more;
  if (m->turn >= m->n_open) m->turn = 0;
  if (!td_vec_reserve(&m->buffer, 1)) return td_oom();
  TD_TRY(td_source_next(m->open[m->turn], &r, &more));
  if (more) {
    m->turn++;
    return keep(m, &r);
  }
  td_source_close(m->open[m->turn]);
  m->open[m->turn] = m->open[--m->n_open];
  return NULL;
}

/* Full, or what is left of the epoch. */
static td_status *fill(mixer *m, size_t want) {
  size_t room = want > m->room ? want : m->room;
  while (m->buffer.len < room) {
    TD_TRY(open_files(m));
    if (m->n_open == 0) return NULL;
    TD_TRY(read_one(m));
  }
  return NULL;
}

/* ---- a batch ------------------------------------------------------------- */

typedef struct drawing {
  td_errand base; /* first */
  mixer *m;
  size_t want;
  records got;
} drawing;

/* What did not get away in a batch; there was room for it before. */
static void put_back(drawing *d) {
  records *to = &d->m->buffer;
  while (d->got.len > 0 && td_vec_reserve(to, 1))
    to->at[to->len++] = d->got.at[--d->got.len];
}

static void drawing_drop(td_errand *e) {
  drawing *d = (drawing *)e;
  pthread_mutex_lock(&d->m->mutex);
  put_back(d);
  pthread_mutex_unlock(&d->m->mutex);
  records_free(&d->got);
  mixer_release(d->m);
  td_free(d);
}

static td_status *draw_some(drawing *d) {
  mixer *m = d->m;
  while (d->got.len < d->want) {
    TD_TRY(fill(m, d->want - d->got.len));
    if (m->buffer.len == 0) TD_TRY(begin_epoch(m));
    while (d->got.len < d->want && m->buffer.len > 0) {
      size_t i = draw(m, m->buffer.len);
      d->got.at[d->got.len++] = m->buffer.at[i];
      m->buffer.at[i] = m->buffer.at[--m->buffer.len];
    }
  }
  return NULL;
}

static td_status *draw_batch(td_errand *e) {
  drawing *d = (drawing *)e;
  if (!td_vec_reserve(&d->got, d->want)) return td_oom();
  pthread_mutex_lock(&d->m->mutex);
  td_status *s = draw_some(d);
  pthread_mutex_unlock(&d->m->mutex);
  return s;
}

static td_status *give_batch(td_errand *e, td_kernel_ctx *c) {
  drawing *d = (drawing *)e;
  td_shape shape = {.rank = 1, .dim = {(int64_t)d->want}};
  td_text t = {0};
  if (!td_text_reserve(&t, shape.dim[0])) return td_oom();
  for (size_t i = 0; i < d->want; i++) {
    td_str_addn(&t.all, d->got.at[i].at, d->got.at[i].len);
    td_text_end(&t);
  }
  td_status *s = td_text_out(c, 0, &shape, &t);
  td_text_drop(&t);
  if (td_ok(s)) records_free(&d->got);
  return s;
}

static void start(td_kernel_ctx *c) {
  static const td_errand_kind kind = {"reads", draw_batch, give_batch,
                                      drawing_drop};
  drawing *d = td_calloc(1, sizeof *d);
  if (!d) {
    td_kernel_done(c, td_oom());
    return;
  }
  d->base.kind = &kind;
  d->m = c->kernel->state;
  d->base.what = d->m->pattern;
  __atomic_add_fetch(&d->m->refs, 1, __ATOMIC_RELAXED);
  d->want = (size_t)td_node_int(td_ctx_node(c), "batch_size");
  td_errand_start(&d->base, c);
}

static td_status *infer(td_infer *c) {
  int64_t n = td_infer_int(c, "batch_size");
  if (n < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "batch_size must be at least 1, not "
                    "%lld",
                    (long long)n);
  td_infer_out(c, 0, (td_shape){.rank = 1, .dim = {n}});
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "RecordInput",
     .sig = "-> records: string; file_pattern: string; "
            "file_random_seed: int = 301; "
            "file_shuffle_shift_ratio: float = 0; "
            "file_buffer_size: int = 10000; file_parallelism: int = 16; "
            "batch_size: int = 32; compression_type: string = \"\"",
     .shape = infer,
     .cost = td_cost_none,
     .doc = "Batches of TFRecords of the files that fit a pattern, shuffled, "
            "epoch after epoch.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .section = "I/O: readers, checkpoints, files"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "RecordInput",
     .device = "CPU",
     .start = start,
     .cancel = td_errand_cancel,
     .why = td_errand_why,
     .make = mixer_make,
     .drop = mixer_drop},
    {0},
};

TD_MODULE(record_input, ops, kernels)
