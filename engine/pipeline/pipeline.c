/* pipeline.c - a chain of stages, and who wants what comes out of it.
 *
 * `working` says that a thread is at the stages; whoever would be second sets
 * `again` and leaves, so nobody waits. The thread goes over the stages from the
 * last to the first until none changes, hands out what is ready, and looks
 * once more when `again` was set meanwhile.
 *
 * Work begun by stages counts as a reference: its end pokes, which has the pool
 * go on, and lets go.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/pipeline/pipeline_impl.h"

#include <sched.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/philox.h"

enum { AHEAD = 2, TRIM_EVERY = 64, PASSES = 200 };

/* ---- life ---------------------------------------------------------------- */

static void stage_free(td_stage *s) {
  if (s->kind->free) s->kind->free(s);
  for (size_t i = s->ready_at; i < s->ready.len; i++)
    td_element_drop(&s->ready.at[i]);
  td_vec_free(&s->ready);
  td_vec_free(&s->marks);
  td_free(s->columns);
  td_free(s);
}

static void pipeline_free(td_object *o) {
  td_pipeline *p = (td_pipeline *)o;
  for (td_stage *s = p->last, *before; s; s = before) {
    before = s->before;
    stage_free(s);
  }
  td_pipeline_let_go(p);
  pthread_mutex_destroy(&p->lock);
  td_free((void *)p->base.dtypes);
  td_free((void *)p->base.shapes);
  td_resource_deinit(&p->base.base);
  td_free(p);
}

static void go_on(td_task *task);
static void next(td_elements *e, td_element_request *r);
static td_element_request *cancel(td_elements *e, const void *owner);
static void why(td_elements *e, td_str *out);

static void removed(td_resource *r) {
  td_pipeline_close((td_pipeline *)r);
}

td_status *td_pipeline_new(td_pipeline **out) {
  td_pipeline *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->base.base.object = (td_object){
      .refs = 1, .type = TD_ELEMENTS, .free = pipeline_free, .named = true};
  p->base.base.removed = removed;
  p->base.next = next;
  p->base.cancel = cancel;
  p->base.why = why;
  p->bound = TD_PIPELINE_BYTES;
  p->task.run = go_on;
  p->end = &p->first;
  pthread_mutex_init(&p->lock, NULL);
  *out = p;
  return NULL;
}

void td_pipeline_release(td_pipeline *p) {
  if (p) td_object_release(&p->base.base.object);
}

td_stage *td_pipeline_last(td_pipeline *p) {
  return p->last;
}

td_elements *td_pipeline_elements(td_pipeline *p) {
  return &p->base;
}

int td_pipeline_columns(const td_pipeline *p) {
  return p->last->n_columns;
}

const td_column *td_pipeline_column(const td_pipeline *p, int i) {
  return &p->last->columns[i];
}

/* What kernels see of the last stage's columns. */
static td_status *tell_columns(td_pipeline *p, const td_column *columns,
                               int n) {
  td_dtype *dtypes = td_calloc((size_t)n + 1, sizeof *dtypes);
  td_shape *shapes = td_calloc((size_t)n + 1, sizeof *shapes);
  if (!dtypes || !shapes) {
    td_free(dtypes);
    td_free(shapes);
    return td_oom();
  }
  for (int i = 0; i < n; i++) {
    dtypes[i] = columns[i].dtype;
    shapes[i] = columns[i].shape;
  }
  td_free((void *)p->base.dtypes);
  td_free((void *)p->base.shapes);
  p->base.n = n;
  p->base.dtypes = dtypes;
  p->base.shapes = shapes;
  return NULL;
}

/* What is light goes on by many at a time: less is spent on each. */
static size_t room_of(const td_stage_kind *kind, const td_stage *before) {
  if (!kind->light) return AHEAD;
  return before && before->room < TD_STAGE_MANY ? before->room : TD_STAGE_MANY;
}

td_status *td_stage_add(td_pipeline *p, const td_stage_kind *kind, size_t size,
                        const td_column *columns, int n_columns, void *out) {
  if (!columns) {
    columns = p->last->columns;
    n_columns = p->last->n_columns;
  }
  td_stage *s = td_calloc(1, size);
  td_column *own = td_calloc((size_t)n_columns + 1, sizeof *own);
  td_mark start = {0};
  td_status *st = s && own ? NULL : td_oom();
  if (td_ok(st) && !td_vec_push(&s->marks, start)) st = td_oom();
  if (td_ok(st)) st = tell_columns(p, columns, n_columns);
  if (!td_ok(st)) {
    if (s) td_vec_free(&s->marks);
    td_free(s);
    td_free(own);
    return st;
  }
  memcpy(own, columns, (size_t)n_columns * sizeof *own);
  s->kind = kind;
  s->pipeline = p;
  s->before = p->last;
  s->columns = own;
  s->n_columns = n_columns;
  s->room = room_of(kind, p->last);
  p->last = s;
  *(td_stage **)out = s;
  return NULL;
}

/* ---- what stages ask ----------------------------------------------------- */

static size_t ready_count(const td_stage *s) {
  return s->ready.len - s->ready_at;
}

/* One is always ready, however large. */
static bool is_full(const td_stage *s) {
  size_t n = ready_count(s);
  return n >= s->room || (n > 0 && s->bytes >= s->pipeline->bound);
}

bool td_stage_has_room(const td_stage *s) {
  return !s->pipeline->broken && (s->skip > 0 || !is_full(s));
}

static size_t bytes_of(const td_element *e) {
  size_t sum = 0;
  for (int i = 0; e->at && i < e->n; i++) sum += td_tensor_bytes(&e->at[i]);
  return sum;
}

bool td_stage_has_input(const td_stage *s) {
  return ready_count(s->before) > 0;
}

/* The first of those that are ready. */
static td_element shift(td_stage *s) {
  td_element e = s->ready.at[s->ready_at++];
  s->bytes -= e.bytes;
  if (s->ready_at == s->ready.len) s->ready_at = s->ready.len = 0;
  s->given++;
  return e;
}

td_element td_stage_take(td_stage *s) {
  td_element e = shift(s->before);
  s->now.in++;
  if (e.end) s->now.in_epoch = e.epoch;
  return e;
}

/* Has it come to where it stood when its state was saved? */
static bool is_restored(const td_stage *s) {
  return s->skip == 0 && s->now.in >= s->refill_to;
}

/* A stage that joins epochs has numbers of its own, and cuts by itself. Whoever
 * cuts does so whenever it advances, and so once a stage is restored, too. */
void td_stage_skip_to(td_stage *s, int64_t epoch) {
  while (s->before && is_restored(s)) {
    s = s->before;
    if (s->wanted < epoch) s->wanted = epoch;
    if (s->kind->joins) return;
  }
}

/* Room in `ready` and for a mark; compacts what was taken. */
static bool make_room(td_stage *s) {
  if (s->ready.len == s->ready.cap && 2 * s->ready_at > s->ready.len) {
    size_t n = ready_count(s);
    memmove(s->ready.at, s->ready.at + s->ready_at, n * sizeof *s->ready.at);
    s->ready.len = n;
    s->ready_at = 0;
  }
  return td_vec_reserve(&s->ready, 1) && td_vec_reserve(&s->marks, 1);
}

void td_stage_break(td_stage *s) {
  s->pipeline->broken = true;
}

void td_stage_put_as(td_stage *s, td_element e, const td_mark *mark) {
  if (!make_room(s)) {
    td_stage_break(s);
    td_element_drop(&e);
    return;
  }
  s->out++;
  s->marks.at[s->marks.len++] = *mark;
  if (s->skip > 0) {
    s->skip--;
    s->given++;
    td_element_drop(&e);
  } else {
    if (e.bytes == 0) e.bytes = bytes_of(&e);
    s->bytes += e.bytes;
    s->ready.at[s->ready.len++] = e;
  }
}

void td_stage_put(td_stage *s, td_element e) {
  if (e.end) {
    s->now.epoch = e.epoch;
    memset(s->now.at, 0, sizeof s->now.at);
  }
  td_stage_put_as(s, e, &s->now);
}

void td_stage_put_end(td_stage *s, int64_t next) {
  td_stage_put(s, (td_element){.end = true, .epoch = next});
}

void td_stage_put_error(td_stage *s, td_status *status) {
  td_stage_put(s, (td_element){.status = status});
}

uint64_t td_stage_draw(uint64_t seed, int64_t epoch, int64_t k) {
  td_philox p;
  uint32_t words[4];
  td_philox_init(&p, seed, (uint64_t)epoch);
  td_philox_skip(&p, (uint64_t)k);
  td_philox_next(&p, words);
  return (uint64_t)words[0] | (uint64_t)words[1] << 32;
}

bool td_stage_order(uint64_t seed, int64_t epoch, int64_t n, int64_t **order) {
  if (!*order) *order = td_calloc((size_t)n + 1, sizeof **order);
  int64_t *at = *order;
  if (!at) return false;
  for (int64_t i = 0; i < n; i++) at[i] = i;
  for (int64_t i = n - 1; i > 0; i--) {
    uint64_t k = td_stage_draw(seed, epoch, i) % (uint64_t)(i + 1);
    int64_t was = at[i];
    at[i] = at[k];
    at[k] = was;
  }
  return true;
}

/* ---- being at it --------------------------------------------------------- */

static bool advance(td_pipeline *p) {
  bool changed = false;
  for (td_stage *s = p->last; s; s = s->alone ? NULL : s->before)
    changed |= s->kind->advance(s);
  return changed;
}

/* The states of what was given on are not asked for any more. */
static void forget(td_stage *s, int64_t upto) {
  while (s) {
    int64_t n = upto - s->first_mark;
    int64_t in = 0;
    if (s->kind->forget) {
      in = s->kind->forget(s, upto);
    } else if (n >= 0 && n < (int64_t)s->marks.len) {
      in = s->marks.at[n].in;
      memmove(s->marks.at, s->marks.at + n,
              (s->marks.len - (size_t)n) * sizeof *s->marks.at);
      s->marks.len -= (size_t)n;
      s->first_mark = upto;
    }
    upto = in;
    s = s->before;
  }
}

static td_element_request *take_request(td_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  td_element_request *r = p->first;
  if (r) {
    p->first = r->next;
    if (!p->first) p->end = &p->first;
  }
  pthread_mutex_unlock(&p->lock);
  return r;
}

static td_status *at_end(void) {
  return td_error(TD_OUT_OF_RANGE, "the pipeline has no more elements");
}

static bool is_closed(td_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  bool closed = p->closed;
  pthread_mutex_unlock(&p->lock);
  return closed;
}

/* Before anything was asked for nothing begins: a state may yet be loaded. And
 * nothing after whoever asked was interrupted, until somebody asks again. */
static bool may_advance(td_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  bool may = !p->closed && !p->resting && p->asked > 0;
  pthread_mutex_unlock(&p->lock);
  return may && !p->over && !p->broken;
}

static td_status *closed_error(void) {
  return td_error(TD_CANCELLED, "the pipeline was closed");
}

static void give(td_element_request *r, td_element e) {
  if (e.status)
    r->got(r, NULL, e.status);
  else
    r->got(r, e.at, NULL);
}

/* Hands out what is ready; true when anything was. */
static bool deliver(td_pipeline *p) {
  bool any = false, closed = is_closed(p);
  td_stage *s = p->last;
  while (closed || p->over || p->broken || ready_count(s) > 0) {
    td_element_request *r = take_request(p);
    if (!r) break;
    any = true;
    if (closed || p->broken) {
      r->got(r, NULL, closed ? closed_error() : td_oom());
      continue;
    }
    td_element e = {.end = true};
    if (!p->over) e = shift(s);
    p->over = e.end;
    if (e.end)
      r->got(r, NULL, at_end());
    else
      give(r, e);
    if (s->given % TRIM_EVERY == 0) forget(s, s->given);
  }
  return any;
}

/* Work that has no end would hold its threads for ever; and a read that waits
 * for a pipe, when nobody waits for what it gives, that pipe and a thread. */
static void tell_stages(td_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  bool stop = p->closed && !p->stopped, rest = p->closed || p->resting;
  pthread_mutex_unlock(&p->lock);
  p->stopped |= stop;
  for (td_stage *s = rest ? p->last : NULL; s; s = s->before) {
    if (stop && s->kind->stop) s->kind->stop(s);
    if (s->kind->rest) s->kind->rest(s);
  }
}

static void go_on_later(td_pipeline *p) {
  td_object_retain(&p->base.base.object);
  td_pool_submit(&p->task);
}

/* For those who want to be alone with the stages; they go on afterwards. */
static bool make_way(td_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  bool wanted = p->seizing > 0;
  if (wanted) p->working = false;
  pthread_mutex_unlock(&p->lock);
  if (wanted) td_waiter_wake(&p->idle);
  return wanted;
}

/* The caller has set `working`. What takes long, or has no end, goes on on the
 * pool, in turn with others: nobody is held here who may be interrupted. */
static void work(td_pipeline *p) {
  bool more = true;
  int passes = 0;
  while (more) {
    bool changed = true;
    while (changed) {
      if (passes++ == PASSES) {
        if (!make_way(p)) go_on_later(p);
        return;
      }
      tell_stages(p);
      changed = may_advance(p) && advance(p);
      changed |= deliver(p);
    }
    pthread_mutex_lock(&p->lock);
    more = p->again;
    p->again = false;
    p->working = more;
    pthread_mutex_unlock(&p->lock);
  }
  td_waiter_wake(&p->idle);
}

/* True: the caller is now at it. False: whoever is looks again. */
static bool enter(td_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  bool mine = !p->working;
  if (mine)
    p->working = true;
  else
    p->again = true;
  pthread_mutex_unlock(&p->lock);
  return mine;
}

static void go_on(td_task *task) {
  td_pipeline *p = (td_pipeline *)((char *)task - offsetof(td_pipeline, task));
  work(p);
  td_pipeline_release(p);
}

void td_stage_begin(td_stage *s) {
  td_object_retain(&s->pipeline->base.base.object);
}

/* The work's reference goes on with the task. */
void td_stage_poke(td_stage *s) {
  td_pipeline *p = s->pipeline;
  if (enter(p))
    td_pool_submit(&p->task);
  else
    td_pipeline_release(p);
}

void td_stage_not_begun(td_stage *s) {
  td_pipeline_release(s->pipeline);
}

/* ---- those who want elements --------------------------------------------- */

static void next(td_elements *e, td_element_request *r) {
  td_pipeline *p = (td_pipeline *)e;
  td_object_retain(&p->base.base.object); /* `got` may let go of it */
  pthread_mutex_lock(&p->lock);
  bool stopped = r->stop && __atomic_load_n(r->stop, __ATOMIC_SEQ_CST);
  if (!stopped) {
    r->next = NULL;
    *p->end = r;
    p->end = &r->next;
    p->asked++;
    p->resting = false;
  }
  pthread_mutex_unlock(&p->lock);
  if (stopped)
    r->got(r, NULL,
           td_status_derive(td_error(TD_CANCELLED, "the step was cancelled")));
  else if (enter(p))
    work(p);
  td_pipeline_release(p);
}

/* Has somebody be at the stages, not this thread: it may be one that cancels.
 */
static void look_again(td_pipeline *p) {
  if (enter(p)) go_on_later(p);
}

static td_element_request *cancel(td_elements *e, const void *owner) {
  td_pipeline *p = (td_pipeline *)e;
  td_element_request *found = NULL;
  pthread_mutex_lock(&p->lock);
  for (td_element_request **at = &p->first; *at; at = &(*at)->next) {
    if ((*at)->owner != owner) continue;
    found = *at;
    *at = found->next;
    if (!*at) p->end = at;
    break;
  }
  bool alone = found && !p->first;
  if (alone) p->resting = true;
  pthread_mutex_unlock(&p->lock);
  if (alone) look_again(p);
  return found;
}

void td_pipeline_close(td_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  p->closed = true;
  pthread_mutex_unlock(&p->lock);
  td_object_retain(&p->base.base.object);
  if (enter(p)) work(p);
  td_pipeline_release(p);
}

/* One who waits here. */
typedef struct taker {
  td_element_request base; /* first */
  td_waiter waiter;
  td_tensor *out;
  int n;
  td_status *status;
  int32_t over; /* atomic */
} taker;

static void taken(td_element_request *r, td_tensor *at, td_status *s) {
  taker *t = (taker *)r;
  for (int i = 0; at && i < t->n; i++) t->out[i] = at[i];
  t->status = s;
  td_free(at);
  __atomic_store_n(&t->over, 1, __ATOMIC_RELEASE);
  td_waiter_wake(&t->waiter);
  __atomic_store_n(&t->over, 2, __ATOMIC_RELEASE); /* `t` is its owner's */
}

static bool is_taken(void *arg) {
  return __atomic_load_n(&((taker *)arg)->over, __ATOMIC_ACQUIRE) != 0;
}

static bool is_let_go(const taker *t) {
  return __atomic_load_n(&t->over, __ATOMIC_ACQUIRE) == 2;
}

td_status *td_pipeline_take(td_pipeline *p, const int *interrupt,
                            td_tensor *out, bool *end) {
  taker t = {
      .base = {.got = taken, .owner = &t}, .out = out, .n = p->last->n_columns};
  *end = false;
  for (int i = 0; i < t.n; i++) out[i] = (td_tensor){0};
  next(&p->base, &t.base);
  if (td_waiter_wait(&t.waiter, INT64_MAX, interrupt, is_taken, &t) !=
          TD_WAITED_READY &&
      cancel(&p->base, &t))
    return td_error(TD_CANCELLED, "interrupted while waiting for input");
  while (!is_let_go(&t)) sched_yield(); /* it is being handed over */
  if (td_status_code(t.status) != TD_OUT_OF_RANGE) return t.status;
  td_status_release(t.status);
  *end = true;
  return NULL;
}

/* ---- alone with it ------------------------------------------------------- */

static bool is_idle(void *arg) {
  return enter(arg);
}

static void count_seizing(td_pipeline *p, int by) {
  pthread_mutex_lock(&p->lock);
  p->seizing += by;
  pthread_mutex_unlock(&p->lock);
}

void td_pipeline_seize(td_pipeline *p) {
  count_seizing(p, 1);
  while (td_waiter_wait(&p->idle, INT64_MAX, NULL, is_idle, p) !=
         TD_WAITED_READY) {
  }
  count_seizing(p, -1);
}

void td_pipeline_leave(td_pipeline *p) {
  work(p);
}

void td_pipeline_again(td_pipeline *p) {
  td_pipeline_seize(p);
  p->over = false;
  td_pipeline_leave(p);
}

/* ---- looking ------------------------------------------------------------- */

static void why(td_elements *e, td_str *out) {
  td_pipeline_why((td_pipeline *)e, out);
}

void td_pipeline_why(td_pipeline *p, td_str *out) {
  td_str_addf(out, "the pipeline %s",
              p->base.base.name ? p->base.base.name : "");
  for (td_stage *s = p->last; s; s = s->before)
    if (s->kind->why) {
      td_str_add(out, ", ");
      s->kind->why(s, out);
    }
}
