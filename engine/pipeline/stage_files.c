/* stage_files.c - a source: the records of files.
 *
 * Reading blocks, so it sits on an I/O thread: a few hundred records at a time,
 * and the next while these are used. Of a pipe these are as many as there are;
 * who waits for its next bytes is stopped when nobody wants them any more, and
 * goes on there when somebody does. A mark says where a record ends in its
 * file, so that a state can be had after each without asking the file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/file_stop.h"
#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "engine/pipeline/stage.h"

enum { READ_RECORDS = 256, READ_BYTES = 1 << 20 };

/* What at[] of a mark is: the file in the order of the epoch, the records of
 * the epoch so far, of all shards, and a td_source_position. */
enum { FILE_AT, RECORD, OFFSET, NUMBER, SKIPPED };

/* What was read, and where that ends. */
typedef struct item {
  td_element e;
  td_mark after;
} item;

enum reading { NOTHING = -2, SOMETHING = -1 };

typedef struct files {
  td_stage base; /* first */
  char **path;
  int64_t n_paths;
  td_source_options options;
  char *compression;
  int64_t first, step;
  bool by_record; /* of the shard */
  bool shuffle;
  uint64_t seed;
  TD_VEC(item) items; /* from items_at on not yet put */
  size_t items_at;
  bool reading;      /* the task is under way, and what follows its own */
  int32_t over;      /* atomic: it is done */
  bool broken;       /* the task's: there was no memory */
  td_file_stop stop; /* of its reads */
  int64_t reads;     /* atomic: the path that it is at, or a `reading` */
  td_task task;
  td_mark at;               /* of the next record */
  td_record_source *source; /* the file there; NULL: not open */
  TD_VEC(item) fresh;
  int64_t *order;   /* of paths, of the epoch order_of; NULL: as given */
  int64_t order_of; /* -1: none */
} files;

/* ---- the files of an epoch ----------------------------------------------- */

static bool draw_order(files *f) {
  int64_t epoch = f->at.epoch;
  if (!f->shuffle || f->order_of == epoch) return true;
  if (!td_stage_order(f->seed, epoch, f->n_paths, &f->order)) return false;
  f->order_of = epoch;
  return true;
}

/* Which path file i of the shard is; -1: there are no more. */
static int64_t path_at(const files *f, int64_t i) {
  if (!f->by_record) {
    if (i > (f->n_paths - 1 - f->first) / f->step) return -1;
    i = f->first + i * f->step;
  }
  if (i >= f->n_paths) return -1;
  return f->order ? f->order[i] : i;
}

static td_status *open_file(files *f, int64_t path) {
  td_source_position to = {.offset = (uint64_t)f->at.at[OFFSET],
                           .number = f->at.at[NUMBER],
                           .skipped = f->at.at[SKIPPED]};
  TD_TRY(td_source_open(f->path[path], &f->options, &f->source));
  td_status *s = to.offset || to.number ? td_source_seek(f->source, to) : NULL;
  if (!td_ok(s)) {
    td_source_close(f->source);
    f->source = NULL;
  }
  return s;
}

static void next_file(files *f) {
  td_source_close(f->source);
  f->source = NULL;
  f->at.at[FILE_AT]++;
  f->at.at[OFFSET] = f->at.at[NUMBER] = f->at.at[SKIPPED] = 0;
}

static void next_epoch(files *f, int64_t epoch) {
  td_source_close(f->source);
  f->source = NULL;
  f->at.epoch = epoch;
  memset(f->at.at, 0, sizeof f->at.at);
}

/* ---- reading, on an I/O thread ------------------------------------------- */

static td_status *element_of(files *f, const td_source_record *r,
                             td_element *e) {
  td_shape scalar = td_shape_scalar();
  td_str key;
  td_str_init(&key);
  td_source_key(f->source, r, &key);
  td_status *s = key.failed ? td_oom() : td_element_new(2, e);
  if (td_ok(s)) s = td_tensor_strings(&scalar, &r->at, &r->len, &e->at[0]);
  if (td_ok(s)) {
    const char *text = td_str_c(&key);
    s = td_tensor_strings(&scalar, &text, &key.len, &e->at[1]);
    if (!td_ok(s)) td_element_drop(e);
  } else if (!key.failed) {
    td_element_drop(e);
  }
  td_str_deinit(&key);
  return s;
}

/* The next record; false in *more at the end of the file. */
static td_status *read_record(files *f, td_element *e, bool *more) {
  td_source_record r;
  do {
    TD_TRY(td_source_next(f->source, &r, more));
    if (!*more) return NULL;
    f->at.at[RECORD]++;
  } while (f->by_record && (f->at.at[RECORD] - 1) % f->step != f->first);
  td_source_position p = td_source_tell(f->source);
  f->at.at[OFFSET] = (int64_t)p.offset;
  f->at.at[NUMBER] = p.number;
  f->at.at[SKIPPED] = p.skipped;
  return element_of(f, &r, e);
}

/* The next item; files without records are passed over. False: the read was
 * ended before it gave one. */
static bool read_item(files *f, item *out) {
  item x = {0};
  bool more = false;
  while (!more) {
    int64_t path = draw_order(f) ? path_at(f, f->at.at[FILE_AT]) : -2;
    td_status *s = path == -2 ? td_oom() : NULL;
    if (path == -1) {
      next_epoch(f, f->at.epoch + 1);
      x.e.end = true;
      x.e.epoch = f->at.epoch;
      break;
    }
    __atomic_store_n(&f->reads, path, __ATOMIC_RELAXED);
    if (td_ok(s) && !f->source) s = open_file(f, path);
    if (td_ok(s)) s = read_record(f, &x.e, &more);
    if (td_file_stop_ended(&f->stop, s)) {
      td_status_release(s);
      return false;
    }
    if (!td_ok(s)) {
      x.e = (td_element){.status = s};
      next_file(f);
      break;
    }
    if (!more) next_file(f);
  }
  x.after = f->at;
  *out = x;
  return true;
}

static void read_some(td_task *task) {
  files *f = (files *)((char *)task - offsetof(files, task));
  size_t bytes = 0;
  bool go = true;
  item x;
  td_file_stop *outer = td_file_stop_enter(&f->stop);
  while (go && bytes < READ_BYTES && f->fresh.len < READ_RECORDS) {
    f->broken = !td_vec_reserve(&f->fresh, 1) && f->fresh.len == 0;
    f->stop.hurry = f->fresh.len > 0; /* these are not to wait */
    if (f->fresh.len == f->fresh.cap || !read_item(f, &x)) break;
    if (x.e.at) bytes += td_tensor_bytes(&x.e.at[0]);
    go = !x.e.end && !x.e.status; /* not on through empty epochs */
    f->fresh.at[f->fresh.len++] = x;
  }
  td_file_stop_leave(outer);
  __atomic_store_n(&f->reads, NOTHING, __ATOMIC_RELAXED);
  __atomic_store_n(&f->over, 1, __ATOMIC_RELEASE);
  td_stage_poke(&f->base);
}

/* ---- at the pipeline ----------------------------------------------------- */

static void start_reading(files *f) {
  f->reading = true;
  f->over = 0;
  f->broken = false;
  __atomic_store_n(&f->reads, SOMETHING, __ATOMIC_RELAXED);
  td_file_stop_reset(&f->stop);
  f->task.run = read_some;
  td_stage_begin(&f->base);
  if (!td_io_submit(&f->task)) td_pool_submit(&f->task);
}

static bool is_read(const files *f) {
  return f->reading && __atomic_load_n(&f->over, __ATOMIC_ACQUIRE);
}

/* What was read becomes what is to be put, once that is used up. */
static bool take_over(files *f) {
  if (!is_read(f) || f->items_at < f->items.len) return false;
  f->reading = false;
  if (f->broken) td_stage_break(&f->base);
  td_vec_free(&f->items);
  f->items.at = f->fresh.at;
  f->items.len = f->fresh.len;
  f->items.cap = f->fresh.cap;
  f->items_at = 0;
  f->fresh.at = NULL;
  f->fresh.len = f->fresh.cap = 0;
  return true;
}

/* Drops items up to the epoch that is wanted; true when it was reached. */
static bool drop_rest(files *f) {
  bool there = false;
  while (!there && f->items_at < f->items.len) {
    item *x = &f->items.at[f->items_at++];
    there = x->e.end && x->e.epoch >= f->base.wanted;
    td_element_drop(&x->e);
  }
  return there;
}

/* Goes on with the epoch that is wanted. Nothing is being read. */
static void cut(files *f) {
  td_stage *s = &f->base;
  bool there = drop_rest(f);
  if (!there && take_over(f)) there = drop_rest(f);
  if (!there) next_epoch(f, s->wanted);
  td_stage_put_end(s, s->wanted);
}

static void put_item(files *f) {
  td_stage *s = &f->base;
  item x = f->items.at[f->items_at++];
  if (!x.e.end) memcpy(s->now.at, x.after.at, sizeof s->now.at);
  td_stage_put(s, x.e);
}

static bool files_advance(td_stage *s) {
  files *f = (files *)s;
  bool changed = false;
  while (td_stage_has_room(s)) {
    take_over(f);
    bool unwanted = td_stage_is_unwanted(s);
    if (unwanted && f->reading && !is_read(f)) {
      td_file_stop_fire(&f->stop); /* the task's end pokes */
      break;
    }
    if (!unwanted && !f->reading) start_reading(f);
    if (!unwanted && f->items_at == f->items.len) break;
    if (unwanted)
      cut(f);
    else
      put_item(f);
    changed = true;
  }
  return changed;
}

static td_status *files_load(td_stage *s, const char **at, const char *end) {
  files *f = (files *)s;
  (void)at;
  (void)end;
  for (int i = 0; i < TD_MARK_OWN; i++)
    if (s->now.at[i] < 0)
      return td_error(TD_DATA_LOSS, "the state of the files is damaged");
  f->at = s->now;
  return NULL;
}

static void drop_items(item *at, size_t from, size_t n) {
  for (size_t i = from; i < n; i++) td_element_drop(&at[i].e);
}

static void files_free(td_stage *s) {
  files *f = (files *)s;
  drop_items(f->items.at, f->items_at, f->items.len);
  drop_items(f->fresh.at, 0, f->fresh.len);
  td_vec_free(&f->items);
  td_vec_free(&f->fresh);
  td_file_stop_deinit(&f->stop);
  td_source_close(f->source);
  for (int64_t i = 0; f->path && i < f->n_paths; i++) td_free(f->path[i]);
  td_free(f->path);
  td_free(f->order);
  td_free(f->compression);
}

static void files_why(td_stage *s, td_str *out) {
  const files *f = (const files *)s;
  int64_t path = __atomic_load_n(&f->reads, __ATOMIC_RELAXED);
  if (path >= 0)
    td_str_addf(out, "'%s' is being read", f->path[path]);
  else if (path == SOMETHING)
    td_str_add(out, "files are being read");
}

/* Also when it is closed. */
static void files_rest(td_stage *s) {
  files *f = (files *)s;
  if (f->reading) td_file_stop_fire(&f->stop);
}

static const td_stage_kind files_kind = {.name = "files",
                                         .advance = files_advance,
                                         .load = files_load,
                                         .rest = files_rest,
                                         .free = files_free,
                                         .why = files_why};

/* ---- making one ---------------------------------------------------------- */

static td_status *fill(files *f, const td_pipeline_files *o) {
  f->options = o->options;
  f->first = o->first;
  f->step = o->step;
  f->by_record = o->step > 1 && o->n_paths < o->step;
  f->shuffle = o->shuffle;
  f->seed = o->seed;
  f->order_of = -1;
  f->reads = NOTHING;
  f->compression =
      td_strdup(o->options.compression ? o->options.compression : "");
  f->options.compression = f->compression;
  f->path = td_calloc((size_t)o->n_paths + 1, sizeof *f->path);
  if (!f->compression || !f->path) return td_oom();
  for (; f->n_paths < o->n_paths; f->n_paths++) {
    f->path[f->n_paths] = td_strdup(o->paths[f->n_paths]);
    if (!f->path[f->n_paths]) return td_oom();
  }
  return NULL;
}

td_status *td_pipeline_from_files(const td_pipeline_files *o,
                                  td_pipeline **out) {
  td_column columns[2] = {{TD_STRING, td_shape_scalar()},
                          {TD_STRING, td_shape_scalar()}};
  td_pipeline *p = NULL;
  files *f = NULL;
  TD_TRY(td_source_check(&o->options));
  if (o->n_paths < 1)
    return td_error(TD_NOT_FOUND, "there are no files to read");
  if (o->first < 0 || o->step < 1 || o->first >= o->step)
    return td_error(TD_INVALID_ARGUMENT,
                    "a shard is {i, n} with 0 <= i < n, not {%lld, %lld}",
                    (long long)o->first, (long long)o->step);
  TD_TRY(td_pipeline_new(&p));
  td_status *s = td_stage_add(p, &files_kind, sizeof *f, columns, 2, &f);
  if (td_ok(s)) s = fill(f, o);
  if (td_ok(s))
    *out = p;
  else
    td_pipeline_release(p);
  return s;
}
