/* reader.c - the line at a reader, and one read; see reader.h.
 *
 * The first in line has the turn: the source is its own, on whichever thread it
 * is. It goes through phases, each of which ends in the next: a name is fed, a
 * file is read, perhaps to its end without a record, and then the next name.
 * Who is cancelled while a thread reads lets go of its kernel; the turn ends
 * when the thread comes back, soon if it waits for bytes (file_stop.h). What it
 * has read goes back into the source, or the source is closed: the next opens
 * it where the state says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reader.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/file_stop.h"
#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "kernels/queue_feed.h"
#include "kernels/text.h"

const char td_reader_type[] = "reader";

enum { AT_ONCE = 16 }; /* so many records are read on the caller's thread */

typedef enum phase { IN_LINE, FEEDING, READING } phase;

/* Of the first in line: it has just begun, is carried on elsewhere, is over. */
enum turn { BEGUN, AWAY, OVER };

typedef struct job {
  int32_t refs;       /* atomic: the line's, and who cancels */
  td_kernel_ctx *ctx; /* under the reader's mutex: NULL once let go of */
  int let_go;         /* atomic: the same, for who reads */
  td_reader *r;       /* held */
  phase phase;        /* under the reader's mutex */
  bool one;           /* scalars, not vectors */
  bool restores;      /* has `state`, reads nothing */
  td_reader_state state;
  int64_t most;
  td_text keys, values;
  td_tensor out[2]; /* made of them */
  bool ended;       /* the file was read to its end */
  bool lost;        /* the source gave a record that is not here */
  bool begun;       /* reading, at: */
  td_source_position from;
  td_file_stop stop; /* fired under the reader's mutex */
  int turn;          /* atomic: a `turn` */
  td_status *status;
  td_queue *q; /* held by the kernel */
  td_queue_feed feed;
  td_task task;
  struct job *next; /* under the reader's mutex */
} job;

struct td_reader {
  td_resource base; /* first */
  const char *name; /* of its kind: static */
  bool identity;
  td_source_options o;
  char compression[8];
  pthread_mutex_t mutex;
  td_reader_state state;    /* under the mutex; changed by who has the turn */
  job *first, *last;        /* under the mutex: the line */
  bool busy;                /* under the mutex: the first has begun */
  td_record_source *source; /* of who has the turn; NULL: to be opened */
};

/* ---- life ---------------------------------------------------------------- */

static void reader_free(td_object *o) {
  td_reader *r = (td_reader *)o;
  td_source_close(r->source);
  td_reader_state_clear(&r->state);
  pthread_mutex_destroy(&r->mutex);
  td_resource_deinit(&r->base);
  td_free(r);
}

td_status *td_reader_new(const td_reader_options *o, td_resource **out) {
  const char *compression = o->source.compression;
  if (!o->identity) TD_TRY(td_source_check(&o->source));
  td_reader *r = td_calloc(1, sizeof *r);
  if (!r) return td_oom();
  r->base.object = (td_object){
      .refs = 1, .type = td_reader_type, .free = reader_free, .named = true};
  pthread_mutex_init(&r->mutex, NULL);
  r->name = o->name;
  r->identity = o->identity;
  r->o = o->source;
  if (compression)
    memcpy(r->compression, compression,
           strnlen(compression, sizeof r->compression - 1));
  r->o.compression = r->compression;
  *out = &r->base;
  return NULL;
}

td_status *td_reader_check(const td_resource *have,
                           const td_reader_options *o) {
  const td_reader *r = (const td_reader *)have;
  const td_source_options *a = &r->o, *b = &o->source;
  if (r->name != o->name)
    return td_error(TD_INVALID_ARGUMENT, "reader %s is a %s, not a %s",
                    have->name, r->name, o->name);
  if (a->header == b->header && a->record == b->record &&
      a->footer == b->footer && a->hop == b->hop &&
      a->skip_lines == b->skip_lines &&
      strcmp(r->compression, b->compression ? b->compression : "") == 0)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "reader %s was made with other attributes", have->name);
}

static void job_release(job *j) {
  if (__atomic_sub_fetch(&j->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_file_stop_deinit(&j->stop);
  td_text_drop(&j->keys);
  td_text_drop(&j->values);
  td_tensor_release(&j->out[0]);
  td_tensor_release(&j->out[1]);
  td_reader_state_clear(&j->state);
  td_status_release(j->status);
  td_object_release(&j->r->base.object);
  td_free(j);
}

/* ---- reading, by who has the turn ---------------------------------------- */

static void lock(td_reader *r) {
  pthread_mutex_lock(&r->mutex);
}
static void unlock(td_reader *r) {
  pthread_mutex_unlock(&r->mutex);
}

static void forget_source(td_reader *r) {
  td_source_close(r->source);
  r->source = NULL;
}

/* Only who has the turn changes the state: it looks at it without the mutex. */
static td_status *open_source(td_reader *r) {
  if (r->source) return NULL;
  TD_TRY(td_source_open(r->state.work, &r->o, &r->source));
  td_source_position start = td_source_tell(r->source), at = r->state.at;
  bool begun = at.number > 0 || at.skipped > 0 || at.offset > start.offset;
  td_status *s = begun ? td_source_seek(r->source, at) : NULL;
  if (!td_ok(s)) forget_source(r);
  return s;
}

/* What was appended to both texts is a record. */
static td_status *end_record(job *j) {
  td_text_end(&j->keys);
  td_text_end(&j->values);
  return j->keys.failed || j->values.failed ? td_oom() : NULL;
}

static td_status *add_record(job *j, const td_source_record *rec) {
  td_source_key(j->r->source, rec, &j->keys.all);
  td_str_addn(&j->values.all, rec->at, rec->len);
  return end_record(j);
}

static bool wants_more(const job *j) {
  return j->values.count < j->most && !j->ended &&
         !__atomic_load_n(&j->let_go, __ATOMIC_RELAXED);
}

/* Records of the open file, or the file's end; `ready` ones only, where the
 * thread must not block. Who has one waits for no more. */
static td_status *read_some(job *j, bool ready) {
  td_reader *r = j->r;
  td_source_record rec;
  bool more;
  while (wants_more(j)) {
    if (ready && !td_source_ready(r->source)) return NULL;
    j->stop.hurry = j->values.count > 0;
    TD_TRY(td_source_next(r->source, &rec, &more));
    j->ended = !more;
    td_status *s = more ? add_record(j, &rec) : NULL;
    j->lost = !td_ok(s);
    if (j->lost) return s;
  }
  return NULL;
}

static td_status *tensor_of(const td_text *t, bool one, td_tensor *out) {
  td_shape shape = td_shape_scalar();
  uint64_t *offsets;
  char *text;
  if (!one) {
    shape.rank = 1;
    shape.dim[0] = t->count;
  }
  TD_TRY(td_tensor_strings_new(&shape, t->all.len, out, &offsets, &text));
  if (t->all.len) memcpy(text, t->all.at, t->all.len);
  for (int64_t i = 0; i < t->count; i++)
    offsets[i + 1] = offsets[0] + t->ends[i];
  return NULL;
}

static td_status *make_tensors(job *j) {
  TD_TRY(tensor_of(&j->keys, j->one, &j->out[0]));
  return tensor_of(&j->values, j->one, &j->out[1]);
}

/* ---- the end of a turn --------------------------------------------------- */

static void end_work(td_reader *r) {
  r->state.finished = r->state.started;
  r->state.at = (td_source_position){0};
}

/* Under the mutex: what was read is told, and counts from here on. */
static void commit(job *j) {
  td_reader *r = j->r;
  td_reader_state old = r->state;
  if (j->restores) {
    r->state = j->state;
    j->state = old;
    return;
  }
  r->state.produced += j->values.count;
  if (j->ended)
    end_work(r);
  else if (r->source)
    r->state.at = td_source_tell(r->source);
}

/* The kernel, if it is still there: nobody else will find it. Under the
 * mutex. */
static td_kernel_ctx *part(job *j) {
  td_kernel_ctx *c = j->ctx;
  if (c) c->work = NULL;
  j->ctx = NULL;
  return c;
}

static void answer(job *j, td_kernel_ctx *c) {
  td_status *s = j->status;
  j->status = NULL;
  if (td_ok(s) && !j->restores)
    for (int i = 0; i < 2; i++) td_out_set(c, i, &j->out[i]);
  td_kernel_done(c, s);
}

/* What nobody gets is read again: of a pipe only as long as it is in memory. */
static bool step_back(job *j) {
  td_record_source *s = j->r->source;
  return s && j->begun && td_source_back(s, j->from);
}

/* The first in line is over. */
static void leave(job *j) {
  td_reader *r = j->r;
  if (td_ok(j->status) && !j->restores) j->status = make_tensors(j);
  lock(r);
  td_kernel_ctx *c = part(j);
  bool kept = td_ok(j->status) && c;
  if (kept) commit(j);
  r->first = j->next;
  if (!r->first) r->last = NULL;
  unlock(r);
  bool stays = kept ? !j->ended : !c && step_back(j);
  if (!stays || j->restores) forget_source(r);
  if (c) answer(j, c);
  lock(r);
  r->busy = false;
  unlock(r);
}

static void begin(job *j);

/* Those in line, in turn, until one must wait. `r` is held by the caller. */
static void serve(td_reader *r) {
  for (;;) {
    lock(r);
    job *j = r->busy ? NULL : r->first;
    if (j) {
      r->busy = true;
      j->phase = READING;
    }
    unlock(r);
    if (!j) return;
    begin(j);
    if (__atomic_exchange_n(&j->turn, AWAY, __ATOMIC_ACQ_REL) != OVER) return;
    leave(j);
    job_release(j);
  }
}

/* Every turn ends here, on any thread; while `serve` is still at it, it goes
 * on with the next itself. */
static void over(job *j) {
  td_reader *r = j->r;
  if (__atomic_exchange_n(&j->turn, OVER, __ATOMIC_ACQ_REL) != AWAY) return;
  td_object_retain(&r->base.object);
  leave(j);
  job_release(j);
  serve(r);
  td_object_release(&r->base.object);
}

/* ---- a file's name ------------------------------------------------------- */

static td_status *cancelled(void) {
  return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
}

/* The file becomes the work, before anything else can fail. */
static td_status *take_name(job *j, const td_tuple *t) {
  td_reader *r = j->r;
  size_t len;
  if (t->n != 1 || t->at[0].dtype != TD_STRING ||
      td_tensor_count(&t->at[0]) != 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "the queue of a reader has elements of one string, a "
                    "file's name");
  const char *at = td_tensor_str(&t->at[0], 0, &len);
  if (!r->identity && memchr(at, 0, len))
    return td_error(TD_INVALID_ARGUMENT, "a file's name holds a NUL");
  char *name = td_strndup(at, len);
  if (!name) return td_oom();
  lock(r);
  td_free(r->state.work);
  r->state.work = name;
  r->state.work_len = len;
  r->state.at = (td_source_position){0};
  r->state.started++;
  unlock(r);
  return NULL;
}

static void read_on(job *j);

static td_status *go_on(job *j) {
  td_reader *r = j->r;
  if (!r->identity) return NULL;
  j->ended = true;
  td_str_addn(&j->keys.all, r->state.work, r->state.work_len);
  td_str_addn(&j->values.all, r->state.work, r->state.work_len);
  return end_record(j);
}

static void fed(td_queue_feed *f, td_tuple *t, td_status *s) {
  job *j = (job *)((char *)f - offsetof(job, feed));
  if (td_ok(s)) s = take_name(j, t);
  td_tuple_free(t);
  lock(j->r);
  j->phase = READING;
  bool stopped = td_stopped(j->ctx); /* a cancel that found it fed */
  unlock(j->r);
  if (td_ok(s) && stopped) s = cancelled();
  if (td_ok(s)) s = go_on(j);
  j->status = s;
  if (td_ok(s) && !j->r->identity)
    read_on(j);
  else
    over(j);
}

static void feed(job *j) {
  td_reader *r = j->r;
  lock(r);
  td_kernel_ctx *c = j->ctx;
  if (c) {
    j->phase = FEEDING;
    td_queue_feed_init(&j->feed, j->q, c, fed);
  }
  unlock(r);
  if (c)
    td_queue_feed_start(&j->feed);
  else
    over(j);
}

/* ---- a file's records ---------------------------------------------------- */

/* A file that cannot be opened is passed by, but for a fault of the moment. */
static void give_up(td_reader *r, const td_status *s) {
  if (td_status_code(s) == TD_UNAVAILABLE) return;
  lock(r);
  r->state.started--;
  r->state.at = (td_source_position){0};
  unlock(r);
}

/* It had no records, or no more: the next. */
static void next_file(job *j) {
  td_reader *r = j->r;
  forget_source(r);
  lock(r);
  end_work(r);
  unlock(r);
  j->ended = j->begun = false;
  feed(j);
}

/* Records come before the error behind them, which comes again. */
static void end_reading(job *j, td_status *s) {
  j->status = s;
  if (j->values.count > 0 && !j->lost) {
    td_status_release(s);
    j->status = NULL;
  }
  over(j);
}

static void begin_reading(job *j) {
  if (!j->begun) j->from = td_source_tell(j->r->source);
  j->begun = true;
}

static void read_task(td_task *task) {
  job *j = (job *)((char *)task - offsetof(job, task));
  td_file_stop *outer = td_file_stop_enter(&j->stop);
  td_status *s = open_source(j->r);
  if (td_ok(s)) {
    begin_reading(j);
    s = read_some(j, false);
  } else if (!td_file_stop_ended(&j->stop, s)) {
    give_up(j->r, s);
  }
  td_file_stop_leave(outer);
  if (td_ok(s) && j->ended && j->values.count == 0) {
    next_file(j);
    return;
  }
  end_reading(j, s);
}

static void read_on(job *j) {
  if (j->r->source && j->most <= AT_ONCE) {
    begin_reading(j);
    td_status *s = read_some(j, true);
    if (!td_ok(s) || !wants_more(j)) {
      end_reading(j, s);
      return;
    }
  }
  j->task.run = read_task;
  if (td_io_submit(&j->task)) return;
  j->status =
      td_error(TD_RESOURCE_EXHAUSTED,
               "too many files are read at once: %d reads wait", TD_IO_QUEUED);
  over(j);
}

static void begin(job *j) {
  if (j->restores || !wants_more(j))
    over(j);
  else if (td_reader_state_within(&j->r->state))
    read_on(j);
  else
    feed(j);
}

/* ---- the line ------------------------------------------------------------ */

static job *new_job(td_reader *r, td_kernel_ctx *c) {
  job *j = td_calloc(1, sizeof *j);
  if (!j) return NULL;
  j->refs = 1;
  j->r = r;
  td_object_retain(&r->base.object);
  j->ctx = c;
  return j;
}

static void stand_in_line(td_reader *r, td_kernel_ctx *c, job *j) {
  lock(r);
  bool stopped = td_stopped(c);
  if (!stopped) {
    c->work = j; /* a cancel that comes from here on finds it */
    *(r->first ? &r->last->next : &r->first) = j;
    r->last = j;
    td_object_retain(&r->base.object);
  }
  unlock(r);
  if (stopped) {
    job_release(j);
    td_kernel_done(c, cancelled());
    return;
  }
  serve(r);
  td_object_release(&r->base.object);
}

static void start_reading(td_reader *r, td_kernel_ctx *c, int64_t most,
                          bool one) {
  td_resource *q;
  td_status *s = td_handle_in(c, 1, td_queue_type, "a queue", &q);
  job *j = td_ok(s) ? new_job(r, c) : NULL;
  if (td_ok(s) && !j) s = td_oom();
  if (!td_ok(s)) {
    td_kernel_done(c, s);
    return;
  }
  j->q = (td_queue *)q;
  j->most = most;
  j->one = one;
  stand_in_line(r, c, j);
}

void td_reader_read(td_reader *r, td_kernel_ctx *c) {
  start_reading(r, c, 1, true);
}

void td_reader_read_up_to(td_reader *r, td_kernel_ctx *c, int64_t most) {
  start_reading(r, c, most, false);
}

void td_reader_restore(td_reader *r, td_kernel_ctx *c, td_reader_state state) {
  job *j = new_job(r, c);
  if (!j) {
    td_reader_state_clear(&state);
    td_kernel_done(c, td_oom());
    return;
  }
  j->restores = true;
  j->state = state;
  stand_in_line(r, c, j);
}

/* Under the mutex: one that has not begun leaves the line. */
static void unlink_job(td_reader *r, job *j) {
  job *before = NULL;
  for (job *x = r->first; x != j; x = x->next) before = x;
  *(before ? &before->next : &r->first) = j->next;
  if (r->last == j) r->last = before;
}

void td_reader_cancel(td_reader *r, td_kernel_ctx *c) {
  lock(r);
  job *j = c->work;
  phase at = j ? j->phase : IN_LINE;
  if (j && at == IN_LINE) unlink_job(r, j);
  if (j && at == FEEDING) __atomic_add_fetch(&j->refs, 1, __ATOMIC_RELAXED);
  if (j && at == READING) {
    __atomic_store_n(&j->let_go, 1, __ATOMIC_RELAXED);
    td_file_stop_fire(&j->stop);
  }
  if (j && at != FEEDING) part(j);
  unlock(r);
  if (!j) return;
  if (at == FEEDING) td_queue_feed_cancel(&j->feed);
  if (at != READING) job_release(j);
  if (at != FEEDING) td_kernel_done(c, cancelled());
}

/* ---- looking ------------------------------------------------------------- */

void td_reader_why(td_reader *r, const td_kernel_ctx *c, td_str *out) {
  lock(r);
  const job *j = c->work;
  td_queue *q = j && j->phase == FEEDING ? j->q : NULL;
  const char *name = r->base.name ? r->base.name : "";
  if (j && j->phase == IN_LINE)
    td_str_addf(out, "its turn at reader %s", name);
  else if (j && !q)
    td_str_addf(out, "reader %s, which reads '%s'", name,
                r->state.work ? r->state.work : "");
  else if (j)
    td_str_addf(out, "reader %s, which waits for a file name from ", name);
  unlock(r);
  if (q) td_queue_feed_why(q, out); /* held by the kernel, which is here */
}

int64_t td_reader_produced(td_reader *r) {
  lock(r);
  int64_t n = r->state.produced;
  unlock(r);
  return n;
}

int64_t td_reader_finished(td_reader *r) {
  lock(r);
  int64_t n = r->state.finished;
  unlock(r);
  return n;
}

void td_reader_save(td_reader *r, td_str *out) {
  lock(r);
  td_reader_state_save(&r->state, out);
  unlock(r);
}
