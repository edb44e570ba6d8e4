/* stage_cache.c - the first epoch passes and is kept, the others are given from
 * that: from memory or from a file (cache_file.h).
 *
 * Only a whole epoch without errors is kept: when nobody wants its rest, or an
 * element of it is an error, the next one begins anew. Of a file the end of the
 * epoch is given when the file has its name, so that what goes wrong with it is
 * told before.
 *
 * The state is that of the beginning of an epoch, what was given of it is given
 * once more and dropped. The stages before it are asked where they stood at the
 * beginning of the epoch that was kept, so that it can be had again:
 * *silently*, that is without anything being put.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "engine/pipeline/cache_file.h"

/* At once to and from a file; twice as much waits at most. */
enum { SOME_ELEMENTS = 64, SOME_BYTES = 1 << 20 };

/* at[0]: elements given of this epoch, from memory. */

typedef enum phase {
  BEGIN, /* of an epoch that is not kept, as far as is known */
  FILL,  /* elements are passed on and kept */
  KEPT   /* they are given from what was kept */
} phase;

/* What the task does. */
typedef enum job { LOOK, WRITE, FINISH, DROP, READ } job;

/* Where it stood at the beginning of an epoch. */
typedef struct beginning {
  int64_t out;
  td_mark mark; /* in: at the beginning of the epoch that is kept */
  bool kept;
} beginning;

typedef TD_VEC(td_element) elements;

typedef struct cache {
  td_stage base; /* first */
  char *path;    /* NULL: in memory */
  phase phase;
  bool silent;        /* what is filled was given before */
  bool ended;         /* the end of the epoch that is filled was taken */
  bool spoiled;       /* it will not be kept */
  td_status *problem; /* to be told at its end */
  td_mark begin;      /* before the first input of what is kept */
  elements held;      /* kept in memory, or to be written */
  size_t held_bytes;  /* to be written */
  elements items;     /* read; from items_at on not yet put */
  size_t items_at;
  TD_VEC(beginning) epochs;
  /* The task's while it is under way: */
  td_task task;
  bool busy;
  int32_t over; /* atomic: it is done */
  job job;
  td_status *failed;
  elements fresh; /* to be written, or read */
  td_cache_writer *writer;
  td_cache_reader *reader;
  bool again; /* what follows is looked for once more: reading failed */
} cache;

/* ---- elements ------------------------------------------------------------ */

static void drop_all(elements *v, size_t from) {
  for (size_t i = from; i < v->len; i++) td_element_drop(&v->at[i]);
  td_vec_free(v);
}

static bool share(const td_element *e, td_element *out) {
  *out = (td_element){.at = td_calloc((size_t)e->n + 1, sizeof *out->at),
                      .n = e->n};
  for (int i = 0; out->at && i < e->n; i++)
    td_tensor_retain(&e->at[i], &out->at[i]);
  return out->at != NULL;
}

static size_t bytes_of(const td_element *e) {
  size_t n = 0;
  for (int i = 0; i < e->n; i++) n += td_tensor_bytes(&e->at[i]);
  return n;
}

/* ---- states -------------------------------------------------------------- */

/* The epoch that comes next. */
static bool begin_epoch(cache *c) {
  td_stage *s = &c->base;
  beginning b = {.out = s->out, .mark = s->now, .kept = c->phase == KEPT};
  if (b.kept) {
    b.mark.in = c->begin.in;
    b.mark.in_epoch = c->begin.in_epoch;
  }
  return td_vec_push(&c->epochs, b);
}

static void put_end(cache *c) {
  td_stage_put_end(&c->base, td_stage_next_epoch(&c->base));
  if (!begin_epoch(c)) td_stage_break(&c->base);
}

static td_status *cache_save(td_stage *s, int64_t upto, td_str *out,
                             int64_t *at, td_mark *mark) {
  const cache *c = (const cache *)s;
  size_t i = c->epochs.len - 1;
  while (i > 0 && c->epochs.at[i].out > upto) i--;
  const beginning *b = &c->epochs.at[i];
  *at = b->out;
  *mark = b->mark;
  td_stage_write(out, b->kept);
  return NULL;
}

static td_status *cache_load(td_stage *s, const char **at, const char *end) {
  cache *c = (cache *)s;
  int64_t kept;
  TD_TRY(td_stage_read(at, end, &kept));
  c->silent = kept != 0;
  c->epochs.at[0] =
      (beginning){.out = s->out, .mark = s->now, .kept = c->silent};
  c->epochs.len = 1;
  return NULL;
}

/* The stages before it are asked where they stood at the beginning of epochs
 * only; the very beginning is told without them. */
static int64_t cache_forget(td_stage *s, int64_t upto) {
  cache *c = (cache *)s;
  size_t n = c->epochs.len, gone = 0;
  while (gone + 1 < n && c->epochs.at[gone + 1].out <= upto) gone++;
  memmove(c->epochs.at, c->epochs.at + gone, (n - gone) * sizeof *c->epochs.at);
  c->epochs.len -= gone;
  int64_t least = s->now.in;
  for (size_t i = 0; i < c->epochs.len; i++) {
    int64_t in = c->epochs.at[i].mark.in;
    if (in > 0 && in < least) least = in;
  }
  if (c->phase != BEGIN && c->begin.in > 0 && c->begin.in < least)
    least = c->begin.in;
  return least;
}

/* ---- work on an I/O thread ----------------------------------------------- */

/* A file that is there is read, else one is begun. */
static void look(cache *c) {
  const td_stage *s = &c->base;
  c->failed =
      td_cache_reader_open(c->path, s->columns, s->n_columns, &c->reader);
  if (td_status_code(c->failed) != TD_NOT_FOUND) return;
  td_status_release(c->failed);
  c->failed =
      td_cache_writer_open(c->path, s->columns, s->n_columns, &c->writer);
}

static void write_some(cache *c) {
  for (size_t i = 0; td_ok(c->failed) && i < c->fresh.len; i++)
    c->failed = td_cache_write(c->writer, &c->fresh.at[i]);
  drop_all(&c->fresh, 0);
}

static void drop_file(cache *c) {
  td_cache_writer_drop(c->writer);
  c->writer = NULL;
}

static void finish(cache *c) {
  write_some(c);
  if (td_ok(c->failed)) {
    c->failed = td_cache_writer_finish(c->writer);
    c->writer = NULL;
  } else {
    drop_file(c);
  }
}

/* The next element, an error or the end; behind these the file is closed. */
static td_element read_one(cache *c) {
  td_stage *s = &c->base;
  td_element e = {0};
  bool more = false;
  td_status *st = NULL;
  if (!c->reader)
    st = td_cache_reader_open(c->path, s->columns, s->n_columns, &c->reader);
  if (td_ok(st)) st = td_cache_read(c->reader, &e, &more);
  if (td_ok(st) && more) return e;
  td_cache_reader_close(c->reader);
  c->reader = NULL;
  return (td_element){.status = st, .end = td_ok(st)};
}

static void read_some(cache *c) {
  size_t bytes = 0;
  bool stop = false;
  while (!stop && bytes < SOME_BYTES && c->fresh.len < SOME_ELEMENTS &&
         td_vec_reserve(&c->fresh, 1)) {
    td_element e = read_one(c);
    bytes += bytes_of(&e);
    stop = e.end || e.status;
    c->fresh.at[c->fresh.len++] = e;
  }
  if (c->fresh.len == 0) c->failed = td_oom();
}

static void work(td_task *task) {
  static void (*const jobs[])(cache * c) = {[LOOK] = look,
                                            [WRITE] = write_some,
                                            [FINISH] = finish,
                                            [DROP] = drop_file,
                                            [READ] = read_some};
  cache *c = (cache *)((char *)task - offsetof(cache, task));
  jobs[c->job](c);
  __atomic_store_n(&c->over, 1, __ATOMIC_RELEASE);
  td_stage_poke(&c->base);
}

static void start(cache *c, job what) {
  c->busy = true;
  c->over = 0;
  c->job = what;
  c->task.run = work;
  td_stage_begin(&c->base);
  if (!td_io_submit(&c->task)) td_pool_submit(&c->task);
}

static bool is_over(const cache *c) {
  return c->busy && __atomic_load_n(&c->over, __ATOMIC_ACQUIRE);
}

/* ---- filling ------------------------------------------------------------- */

static void set_phase(cache *c, phase to) {
  c->phase = to;
  c->base.alone = to != FILL;
}

/* It will not be kept; `why` (may be NULL) is told at the end of the epoch. */
static void spoil(cache *c, td_status *why) {
  c->spoiled = true;
  c->problem = td_status_first(c->problem, why);
  drop_all(&c->held, 0);
  c->held_bytes = 0;
}

static void begin_filling(cache *c) {
  set_phase(c, FILL);
  c->begin = c->base.now;
  c->ended = c->spoiled = false;
}

/* Has what is held written; in the end the file gets its name, or goes. */
static void start_writing(cache *c, job what) {
  c->fresh = c->held;
  c->held = (elements){0};
  c->held_bytes = 0;
  start(c, what);
}

/* Enough is there to be written. */
static bool is_due(const cache *c) {
  return c->path && !c->spoiled &&
         (c->held.len >= SOME_ELEMENTS || c->held_bytes >= SOME_BYTES);
}

static void keep(cache *c, const td_element *e) {
  td_element copy;
  if (!share(e, &copy)) {
    spoil(c, td_oom());
  } else if (!td_vec_push(&c->held, copy)) {
    td_element_drop(&copy);
    spoil(c, td_oom());
  } else if (c->path) {
    c->held_bytes += bytes_of(e);
  }
}

static void fill_one(cache *c) {
  td_stage *s = &c->base;
  td_element e = td_stage_take(s);
  bool pass = !c->silent && !td_stage_is_unwanted(s);
  if (e.end) {
    c->ended = true;
    return;
  }
  if (e.status)
    spoil(c, pass ? NULL : td_status_retain(e.status));
  else if (!c->spoiled)
    keep(c, &e);
  if (pass)
    td_stage_put(s, e);
  else
    td_element_drop(&e);
}

/* The end of an epoch that is not kept, after what went wrong. Where a part of
 * it was given before the state was saved, that is all there is of it. */
static void end_spoiled(cache *c) {
  td_stage *s = &c->base;
  td_status *problem = c->problem;
  bool tell = problem && !td_stage_is_unwanted(s);
  c->problem = NULL;
  if (c->silent) s->skip = 0;
  if (tell)
    td_stage_put_error(s, problem);
  else
    td_status_release(problem);
  c->silent = false;
  set_phase(c, BEGIN);
  put_end(c);
}

static void end_filled(cache *c) {
  bool silent = c->silent;
  c->silent = false;
  set_phase(c, KEPT);
  if (!silent) put_end(c);
}

/* The end was taken: one move more. */
static bool end_filling(cache *c) {
  if (c->busy) return false;
  if (c->writer) {
    start_writing(c, c->spoiled ? DROP : FINISH);
    return false;
  }
  if (!td_stage_has_room(&c->base)) return false;
  if (c->spoiled)
    end_spoiled(c);
  else
    end_filled(c);
  return true;
}

static bool fill(cache *c) {
  td_stage *s = &c->base;
  if (c->ended) return end_filling(c);
  if (!c->silent && td_stage_is_unwanted(s)) {
    if (!c->spoiled) spoil(c, NULL);
    td_stage_skip_to(s, s->now.in_epoch + 1);
  }
  if (is_due(c)) {
    if (!c->busy) start_writing(c, WRITE);
    if (is_due(c)) return false; /* the task's end pokes */
  }
  if (!td_stage_has_input(s) || (!c->silent && !td_stage_has_room(s)))
    return false;
  fill_one(c);
  return true;
}

/* ---- giving -------------------------------------------------------------- */

/* From memory. */
static bool give_held(cache *c) {
  td_stage *s = &c->base;
  td_element e;
  if (!td_stage_has_room(s)) return false;
  size_t i = (size_t)s->now.at[0];
  if (td_stage_is_unwanted(s) || i >= c->held.len) {
    put_end(c);
    return true;
  }
  s->now.at[0]++;
  if (share(&c->held.at[i], &e))
    td_stage_put(s, e);
  else
    td_stage_put_error(s, td_oom());
  return true;
}

static void take_over(cache *c) {
  td_vec_free(&c->items);
  c->items = c->fresh;
  c->items_at = 0;
  c->fresh = (elements){0};
}

/* Puts the end of an epoch from a file. */
static void end_read(cache *c) {
  if (c->again) set_phase(c, BEGIN);
  c->again = false;
  put_end(c);
}

/* Nobody wants the rest. */
static bool cut_read(cache *c) {
  bool end = false;
  while (!end && c->items_at < c->items.len) {
    td_element *e = &c->items.at[c->items_at++];
    end = e->end || e->status; /* an error is the last of its epoch */
    td_element_drop(e);
  }
  if (!end && c->busy) return false; /* the task's end pokes */
  if (!end) {
    td_cache_reader_close(c->reader);
    c->reader = NULL;
  }
  end_read(c);
  return true;
}

static void put_item(cache *c) {
  td_element e = c->items.at[c->items_at++];
  if (e.end) {
    end_read(c);
  } else if (e.status) {
    c->base.skip = 0; /* it is told, whatever was to be dropped */
    td_stage_put(&c->base, e);
    end_read(c);
  } else {
    td_stage_put(&c->base, e);
  }
}

/* From the file. */
static bool give_read(cache *c) {
  td_stage *s = &c->base;
  if (!td_stage_has_room(s)) return false;
  if (td_stage_is_unwanted(s)) return cut_read(c);
  bool any = c->items_at < c->items.len;
  if (!c->busy && !c->again) start(c, READ); /* while these are used */
  if (any) put_item(c);
  return any;
}

/* ---- at the pipeline ----------------------------------------------------- */

/* An epoch that cannot be had: an error and its end. */
static void refuse(cache *c, td_status *problem) {
  if (c->silent) c->base.skip = 0;
  c->silent = false;
  td_stage_put_error(&c->base, problem);
  put_end(c);
}

static void looked(cache *c, td_status *failed) {
  if (!td_ok(failed)) {
    refuse(c, failed);
  } else if (c->reader) {
    c->silent = false;
    c->begin = c->base.now;
    set_phase(c, KEPT);
  } else {
    begin_filling(c);
  }
}

/* What the task has done. */
static void collect(cache *c) {
  td_status *failed = c->failed;
  c->failed = NULL;
  c->busy = false;
  if (c->job == LOOK) {
    looked(c, failed);
  } else if (c->job == READ) {
    td_status_release(failed);
    if (failed) td_stage_break(&c->base); /* no memory */
    take_over(c);
    td_element *last = c->items.len ? &c->items.at[c->items.len - 1] : NULL;
    c->again = last && last->status;
  } else if (!td_ok(failed)) {
    spoil(c, failed);
  }
}

static bool begin(cache *c) {
  if (!c->path)
    begin_filling(c);
  else if (!c->busy && td_stage_has_room(&c->base))
    start(c, LOOK);
  return !c->path;
}

static bool step(cache *c) {
  bool used_up = c->items_at == c->items.len;
  if (is_over(c) && used_up) {
    collect(c);
    return true;
  }
  if (c->phase == BEGIN) return begin(c);
  if (c->phase == FILL) return fill(c);
  return c->path ? give_read(c) : give_held(c);
}

static bool cache_advance(td_stage *s) {
  bool changed = false;
  while (step((cache *)s)) changed = true;
  s->marks.len = 0; /* of no use here */
  s->first_mark = s->out;
  return changed;
}

/* Nothing is under way any more: that holds the pipeline. */
static void cache_free(td_stage *s) {
  cache *c = (cache *)s;
  drop_all(&c->held, 0);
  drop_all(&c->fresh, 0);
  drop_all(&c->items, c->items_at);
  td_cache_writer_drop(c->writer);
  td_cache_reader_close(c->reader);
  td_status_release(c->problem);
  td_status_release(c->failed);
  td_vec_free(&c->epochs);
  td_free(c->path);
}

static void cache_why(td_stage *s, td_str *out) {
  const cache *c = (const cache *)s;
  if (c->busy)
    td_str_addf(out, "the cache '%s' is being %s", c->path,
                c->phase == FILL ? "written" : "read");
  else if (c->phase == FILL)
    td_str_add(out, "the cache is being filled");
}

static const td_stage_kind cache_kind = {.name = "cache",
                                         .joins =
                                             true, /* its epochs are its own */
                                         .advance = cache_advance,
                                         .save = cache_save,
                                         .load = cache_load,
                                         .forget = cache_forget,
                                         .free = cache_free,
                                         .why = cache_why};

td_status *td_pipeline_cache(td_pipeline *p, const char *path) {
  cache *c = NULL;
  const td_stage *before = td_pipeline_last(p);
  if (path && !*path)
    return td_error(TD_INVALID_ARGUMENT, "cache: the path is empty");
  if (path) TD_TRY(td_cache_check(before->columns, before->n_columns));
  TD_TRY(td_stage_add(p, &cache_kind, sizeof *c, NULL, 0, &c));
  if (path && !(c->path = td_strdup(path))) return td_oom();
  set_phase(c, BEGIN);
  return begin_epoch(c) ? NULL : td_oom();
}
