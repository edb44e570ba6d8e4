/* batcher.c - a ring of finished batches between a task and one reader.
 *
 * The task runs on an I/O thread while there is room in the ring; the reader
 * has it run again when he took a batch. Each holds the batcher; whoever lets
 * go last frees it, so that a reader who leaves never waits for a copy under
 * way. Everything but the ring belongs to whoever assembles: the task while it
 * is busy, else the reader, who does it himself where no thread is to be had.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/batcher.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "engine/base/waiter.h"

typedef struct batch {
  td_tensor *parts; /* one per column */
  td_batch_place place;
} batch;

struct td_batcher {
  int32_t refs; /* atomic */
  td_batch_column *columns;
  int n_columns;
  td_batch_options o;
  int64_t *rows; /* row numbers of the shard, in the order of this epoch */
  int64_t n_rows, per_epoch;
  /* The assembler's: what comes next. */
  uint64_t random;
  int64_t at;           /* batches of this epoch that are made */
  int64_t given;        /* to be stepped over first */
  td_batch_place place; /* of the batch made last */

  td_task task;     /* assembles while there is room in the ring */
  td_waiter waiter; /* the reader's */
  pthread_mutex_t lock;
  batch ring[TD_BATCHES_AHEAD]; /* lock: lock */
  int first, ready;             /* lock: lock */
  bool busy;                    /* lock: lock. The task is under way */
  bool stop, ended;             /* lock: lock. Reader left; nothing follows */
  td_status *status;            /* lock: lock. Why it ended */
};

/* ---- making -------------------------------------------------------------- */

static td_status *check_columns(const td_batch_column *c, int n) {
  if (n < 1) return td_error(TD_INVALID_ARGUMENT, "a batch needs a column");
  for (int i = 0; i < n; i++) {
    const td_tensor *t = &c[i].rows;
    if (t->shape.rank < 1 || !td_tensor_touchable(t) ||
        (!td_dtype_is_plain(t->dtype) && t->dtype != TD_STRING))
      return td_error(TD_INVALID_ARGUMENT,
                      "column %d of a data set must be rows of numbers or "
                      "strings in host memory",
                      i);
    if (t->shape.dim[0] != c[0].rows.shape.dim[0])
      return td_error(TD_INVALID_ARGUMENT,
                      "column %d of a data set has %lld rows, the first %lld",
                      i, (long long)t->shape.dim[0],
                      (long long)c[0].rows.shape.dim[0]);
    if (c[i].scale != 0 && t->dtype != TD_UINT8)
      return td_error(TD_INVALID_ARGUMENT, "only uint8 can be scaled, not %s",
                      td_dtype_name(t->dtype));
  }
  return NULL;
}

static td_status *check_options(const td_batch_options *o) {
  if (o->size < 1)
    return td_error(TD_INVALID_ARGUMENT, "a batch has at least one row");
  if (o->step < 1 || o->first < 0 || o->first >= o->step)
    return td_error(TD_INVALID_ARGUMENT,
                    "shard is {k, n}: part k of n, counted from 0");
  if (o->given < 0)
    return td_error(TD_INVALID_ARGUMENT, "%lld batches cannot have been given",
                    (long long)o->given);
  return NULL;
}

static td_status *list_rows(td_batcher *b) {
  int64_t n = b->columns[0].rows.shape.dim[0];
  int64_t step = b->o.step, first = b->o.first;
  b->n_rows = first < n ? (n - 1 - first) / step + 1 : 0;
  b->rows = td_calloc(b->n_rows ? (size_t)b->n_rows : 1, sizeof *b->rows);
  if (!b->rows) return td_oom();
  for (int64_t i = 0; i < b->n_rows; i++) b->rows[i] = first + i * step;
  b->per_epoch = b->n_rows / b->o.size;
  if (!b->o.drop_remainder && b->n_rows % b->o.size) b->per_epoch++;
  return NULL;
}

static td_status *make_parts(td_batcher *b) {
  b->columns = td_calloc((size_t)b->n_columns, sizeof *b->columns);
  if (!b->columns) return td_oom();
  for (int i = 0; i < TD_BATCHES_AHEAD; i++) {
    b->ring[i].parts =
        td_calloc((size_t)b->n_columns, sizeof *b->ring[i].parts);
    if (!b->ring[i].parts) return td_oom();
  }
  return NULL;
}

static void fill(td_task *t);

td_status *td_batcher_new(const td_batch_column *columns, int n_columns,
                          const td_batch_options *o, td_batcher **out) {
  TD_TRY(check_columns(columns, n_columns));
  TD_TRY(check_options(o));
  td_batcher *b = td_calloc(1, sizeof *b);
  if (!b) return td_oom();
  b->refs = 1;
  b->n_columns = n_columns;
  b->o = *o;
  b->random = o->seed;
  b->given = o->given;
  pthread_mutex_init(&b->lock, NULL);
  b->task.run = fill;
  td_status *s = make_parts(b);
  for (int i = 0; td_ok(s) && i < n_columns; i++) {
    b->columns[i].scale = columns[i].scale;
    td_tensor_retain(&columns[i].rows, &b->columns[i].rows);
  }
  if (td_ok(s)) s = list_rows(b);
  if (td_ok(s)) b->at = b->per_epoch;
  if (td_ok(s))
    *out = b;
  else
    td_batcher_release(b);
  return s;
}

int64_t td_batcher_per_epoch(const td_batcher *b) {
  return b->per_epoch;
}

static void drop_parts(const td_batcher *b, td_tensor *parts) {
  for (int i = 0; parts && i < b->n_columns; i++)
    if (td_tensor_valid(&parts[i])) td_tensor_release(&parts[i]);
}

static void let_go(td_batcher *b) {
  if (__atomic_fetch_sub(&b->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (int i = 0; i < TD_BATCHES_AHEAD; i++) {
    drop_parts(b, b->ring[i].parts);
    td_free(b->ring[i].parts);
  }
  for (int i = 0; b->columns && i < b->n_columns; i++)
    if (td_tensor_valid(&b->columns[i].rows))
      td_tensor_release(&b->columns[i].rows);
  td_status_release(b->status);
  pthread_mutex_destroy(&b->lock);
  td_free(b->rows);
  td_free(b->columns);
  td_free(b);
}

void td_batcher_release(td_batcher *b) {
  if (!b) return;
  pthread_mutex_lock(&b->lock);
  b->stop = true;
  pthread_mutex_unlock(&b->lock);
  let_go(b);
}

/* ---- order --------------------------------------------------------------- */

/* SplitMix64 (Steele et al. 2014): the generator of lua/tide/base/rng.lua. */
static uint64_t random_bits(td_batcher *b) {
  uint64_t z = b->random += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

/* Fisher and Yates. */
static void shuffle(td_batcher *b) {
  for (int64_t i = b->n_rows - 1; i > 0; i--) {
    int64_t k = (int64_t)((random_bits(b) >> 1) % (uint64_t)(i + 1));
    int64_t row = b->rows[i];
    b->rows[i] = b->rows[k];
    b->rows[k] = row;
  }
}

static bool is_stopped(td_batcher *b) {
  pthread_mutex_lock(&b->lock);
  bool stopped = b->stop;
  pthread_mutex_unlock(&b->lock);
  return stopped;
}

/* False: there are no more, or nobody wants them. */
static bool next_epoch(td_batcher *b) {
  if (b->per_epoch == 0 || b->place.epoch == b->o.epochs || is_stopped(b))
    return false;
  b->place.epoch++;
  b->at = 0;
  if (b->o.shuffle) shuffle(b);
  return true;
}

/* To the next batch, over those that were given; false at the end. */
static bool find_next(td_batcher *b) {
  do {
    if (b->at == b->per_epoch && !next_epoch(b)) return false;
    int64_t left = b->per_epoch - b->at, n = b->given < left ? b->given : left;
    b->at += n;
    b->place.step += n;
    b->given -= n;
  } while (b->at == b->per_epoch);
  return true;
}

/* Row numbers of the next batch; false at the end. */
static bool next_rows(td_batcher *b, const int64_t **rows, int64_t *n) {
  if (!find_next(b)) return false;
  int64_t from = b->at * b->o.size;
  *rows = b->rows + from;
  *n = b->n_rows - from < b->o.size ? b->n_rows - from : b->o.size;
  b->at++;
  b->place.step++;
  return true;
}

/* ---- copying ------------------------------------------------------------- */

static int64_t row_elements(const td_tensor *t) {
  int64_t rows = t->shape.dim[0];
  return rows ? td_tensor_count(t) / rows : 0;
}

static void copy_plain(const td_tensor *from, const int64_t *rows, int64_t n,
                       td_tensor *to) {
  size_t bytes = (size_t)row_elements(from) * td_dtype_size(from->dtype);
  char *at = to->data;
  for (int64_t i = 0; i < n; i++, at += bytes)
    memcpy(at, (const char *)from->data + (size_t)rows[i] * bytes, bytes);
}

static void copy_scaled(const td_tensor *from, float scale, const int64_t *rows,
                        int64_t n, td_tensor *to) {
  int64_t width = row_elements(from);
  float *at = to->data;
  for (int64_t i = 0; i < n; i++, at += width) {
    const uint8_t *row = (const uint8_t *)from->data + rows[i] * width;
    for (int64_t k = 0; k < width; k++) at[k] = (float)row[k] * scale;
  }
}

static td_status *copy_strings(const td_tensor *from, const int64_t *rows,
                               int64_t n, const td_shape *shape,
                               td_tensor *out) {
  int64_t width = row_elements(from);
  size_t total = 0, len;
  uint64_t *offsets;
  char *text;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < width; k++) {
      td_tensor_str(from, rows[i] * width + k, &len);
      if (!td_add(total, len, &total)) return td_oom();
    }
  TD_TRY(td_tensor_strings_new(shape, total, out, &offsets, &text));
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < width; k++) {
      const char *s = td_tensor_str(from, rows[i] * width + k, &len);
      memcpy(text, s, len);
      text += len;
      offsets[1] = offsets[0] + len;
      offsets++;
    }
  return NULL;
}

static td_status *copy_column(const td_batch_column *c, const int64_t *rows,
                              int64_t n, td_tensor *out) {
  td_shape shape = c->rows.shape;
  shape.dim[0] = n;
  if (c->rows.dtype == TD_STRING)
    return copy_strings(&c->rows, rows, n, &shape, out);
  td_dtype dtype = c->scale != 0 ? TD_FLOAT32 : c->rows.dtype;
  TD_TRY(td_tensor_new(NULL, dtype, &shape, out));
  if (c->scale != 0)
    copy_scaled(&c->rows, c->scale, rows, n, out);
  else
    copy_plain(&c->rows, rows, n, out);
  return NULL;
}

/* The next batch into `parts`, which are invalid; *done at the end. */
static td_status *assemble(td_batcher *b, td_tensor *parts,
                           td_batch_place *place, bool *done) {
  const int64_t *rows;
  int64_t n;
  *done = !next_rows(b, &rows, &n);
  if (*done) return NULL;
  *place = b->place;
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < b->n_columns; i++)
    s = copy_column(&b->columns[i], rows, n, &parts[i]);
  if (!td_ok(s)) drop_parts(b, parts);
  return s;
}

/* ---- ahead of the reader ------------------------------------------------- */

/* May another be kept? Lock held. */
static bool has_room(const td_batcher *b) {
  size_t bytes = 0, bound = b->o.bound ? b->o.bound : TD_BATCHES_BYTES;
  if (b->ready == 0 || b->ready == TD_BATCHES_AHEAD) return b->ready == 0;
  const batch *first = &b->ring[b->first];
  for (int i = 0; i < b->n_columns; i++)
    bytes += td_tensor_bytes(&first->parts[i]);
  return bytes < bound;
}

/* A free place in the ring; NULL when it is full, at the end, or when the
 * reader has left: the task is over then. */
static batch *free_place(td_batcher *b) {
  pthread_mutex_lock(&b->lock);
  b->busy = !b->stop && !b->ended && has_room(b);
  batch *to =
      b->busy ? &b->ring[(b->first + b->ready) % TD_BATCHES_AHEAD] : NULL;
  pthread_mutex_unlock(&b->lock);
  return to;
}

static void fill(td_task *t) {
  td_batcher *b = (td_batcher *)((char *)t - offsetof(td_batcher, task));
  for (batch *to; (to = free_place(b));) {
    bool done;
    td_status *s = assemble(b, to->parts, &to->place, &done);
    done = done || !td_ok(s);
    pthread_mutex_lock(&b->lock);
    b->ready += !done;
    b->ended = done;
    b->status = s;
    pthread_mutex_unlock(&b->lock);
    td_waiter_wake(&b->waiter);
  }
  let_go(b);
}

/* Has the free places filled. Lock held. */
static void go_ahead(td_batcher *b) {
  if (b->busy || b->ended || !has_room(b)) return;
  __atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED);
  b->busy = td_io_submit(&b->task);
  if (!b->busy) __atomic_fetch_sub(&b->refs, 1, __ATOMIC_RELAXED);
}

/* A batch is there, none will be, or nobody works on one. */
static bool is_settled(void *arg) {
  td_batcher *b = arg;
  pthread_mutex_lock(&b->lock);
  bool settled = b->ready > 0 || b->ended || !b->busy;
  pthread_mutex_unlock(&b->lock);
  return settled;
}

/* The first of the ring, and the place it takes up free again. False when the
 * ring is empty. Lock held. */
static bool take_first(td_batcher *b, td_tensor *out, td_batch_place *place) {
  if (b->ready == 0) return false;
  batch *from = &b->ring[b->first];
  *place = from->place;
  memcpy(out, from->parts, (size_t)b->n_columns * sizeof *out);
  memset(from->parts, 0, (size_t)b->n_columns * sizeof *out);
  b->first = (b->first + 1) % TD_BATCHES_AHEAD;
  b->ready--;
  return true;
}

td_status *td_batcher_next(td_batcher *b, const int *interrupt, td_tensor *out,
                           td_batch_place *place, bool *done) {
  for (int i = 0; i < b->n_columns; i++) out[i] = (td_tensor){0};
  pthread_mutex_lock(&b->lock);
  go_ahead(b);
  pthread_mutex_unlock(&b->lock);
  if (td_waiter_wait(&b->waiter, INT64_MAX, interrupt, is_settled, b) ==
      TD_WAITED_INTERRUPT)
    return td_error(TD_CANCELLED, "interrupted");
  pthread_mutex_lock(&b->lock);
  bool got = take_first(b, out, place), here = !got && !b->ended;
  td_status *s = got ? NULL : td_status_retain(b->status);
  if (got) go_ahead(b);
  pthread_mutex_unlock(&b->lock);
  *done = !got;
  return here ? assemble(b, out, place, done) : s; /* here: no thread */
}
