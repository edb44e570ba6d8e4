/* stage_map.c - stages that compute: a function of each element, several at
 * once, in the order of the elements.
 *
 * Each element is a step of the callable. One that is computed before those
 * ahead of it waits for them, and others are begun meanwhile, as many as may be
 * computed at once. Random ops draw by the epoch and the element's number
 * there, whichever thread computes it when, and so do when a state is restored.
 * A filter's function tells whether its element is kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/pipeline/stage.h"
#include "engine/run/async.h"

/* One element on its way. */
typedef struct job {
  td_stage *stage;
  td_element e;   /* what was taken */
  td_async *step; /* NULL: there is nothing to compute */
  int32_t over;   /* atomic */
  td_mark mark;   /* where the stage stands after it */
} job;

/* at[0]: elements of this epoch. */
typedef struct mapping {
  td_stage base; /* first */
  td_callable *f;
  int *feed;
  int n_feeds, n_fetches, parallel;
  int32_t computing; /* atomic: jobs whose steps are not over */
  bool filters;
  TD_VEC(job *) jobs; /* a queue: from jobs_at on */
  size_t jobs_at;
} mapping;

static size_t under_way(const mapping *m) {
  return m->jobs.len - m->jobs_at;
}

/* ---- beginning ----------------------------------------------------------- */

static void step_ended(void *arg) {
  job *j = arg;
  td_stage *s = j->stage;
  __atomic_fetch_sub(&((mapping *)s)->computing, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&j->over, 1, __ATOMIC_RELEASE);
  td_stage_poke(s);
}

/* The step draws what no other element does. */
static uint64_t draw_of(const td_mark *m) {
  return td_stage_draw(0x7469646570697065u, m->epoch, m->at[0]) | 1;
}

static td_status *start_step(mapping *m, job *j, const td_mark *before) {
  td_tensor few[8], *in = few;
  td_step_options o = {
      .draw = draw_of(before), .ended = step_ended, .ended_arg = j};
  if (m->n_feeds > 8) in = td_calloc((size_t)m->n_feeds, sizeof *in);
  if (!in) return td_oom();
  for (int i = 0; i < m->n_feeds; i++) in[i] = j->e.at[m->feed[i]];
  td_stage_begin(&m->base);
  __atomic_fetch_add(&m->computing, 1, __ATOMIC_RELAXED);
  td_status *s = td_async_start(m->f, in, &o, &j->step);
  if (!td_ok(s)) {
    __atomic_fetch_sub(&m->computing, 1, __ATOMIC_RELAXED);
    td_stage_not_begun(&m->base);
  }
  if (in != few) td_free(in);
  return s;
}

static void fail_job(job *j, td_status *s) {
  td_element_drop(&j->e);
  j->e.status = s;
  j->over = 1;
}

static bool push(mapping *m, job *j) {
  if (m->jobs.len == m->jobs.cap && 2 * m->jobs_at > m->jobs.len) {
    size_t n = under_way(m);
    memmove(m->jobs.at, m->jobs.at + m->jobs_at, n * sizeof *m->jobs.at);
    m->jobs.len = n;
    m->jobs_at = 0;
  }
  return td_vec_push(&m->jobs, j);
}

/* Counts the element that was taken, an end or another. */
static void count(td_stage *s, const td_element *e) {
  if (e->end) {
    s->now.epoch = e->epoch;
    s->now.at[0] = 0;
  } else {
    s->now.at[0]++;
  }
}

static void begin(mapping *m) {
  td_stage *s = &m->base;
  td_mark before = s->now;
  job *j = td_calloc(1, sizeof *j);
  td_element e = td_stage_take(s);
  count(s, &e);
  if (!j || !push(m, j)) {
    td_free(j);
    td_element_drop(&e);
    td_stage_break(s);
    return;
  }
  j->stage = s;
  j->e = e;
  j->mark = s->now;
  j->over = e.end || e.status;
  if (j->over) return;
  td_status *st = start_step(m, j, &before);
  if (!td_ok(st)) fail_job(j, st);
}

/* ---- ending -------------------------------------------------------------- */

/* A filter's answer. */
static td_status *judge(const td_element *said, bool *keep) {
  const td_tensor *t = &said->at[0];
  if (t->dtype != TD_BOOL || t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "a filter gives a bool scalar");
  *keep = *(const bool *)t->data;
  return NULL;
}

/* What comes of a job whose step is over: *out, unless the filter drops it. */
static td_status *results_of(const mapping *m, job *j, td_element *out,
                             bool *keep) {
  td_element e;
  TD_TRY(td_element_new(m->n_fetches, &e));
  td_status *s = td_async_wait(j->step, 0, e.at, NULL);
  if (td_ok(s) && !m->filters) {
    *out = e;
    return NULL;
  }
  if (td_ok(s)) s = judge(&e, keep);
  td_element_drop(&e);
  if (!td_ok(s)) return s;
  *out = j->e;
  j->e = (td_element){0};
  return NULL;
}

static void end(mapping *m) {
  job *j = m->jobs.at[m->jobs_at++];
  td_element out = {0};
  bool keep = true;
  if (j->step) {
    td_status *s = results_of(m, j, &out, &keep);
    td_element_drop(&j->e);
    if (!td_ok(s)) out = (td_element){.status = s};
  } else {
    out = j->e;
  }
  if (keep)
    td_stage_put_as(&m->base, out, &j->mark);
  else
    td_element_drop(&out);
  td_async_release(j->step);
  td_free(j);
}

static bool is_over(const mapping *m) {
  return under_way(m) > 0 &&
         __atomic_load_n(&m->jobs.at[m->jobs_at]->over, __ATOMIC_ACQUIRE);
}

static int computing(const mapping *m) {
  return __atomic_load_n(&m->computing, __ATOMIC_RELAXED);
}

static bool may_begin(const mapping *m) {
  return computing(m) < m->parallel && under_way(m) < 2 * (size_t)m->parallel &&
         td_stage_has_input(&m->base);
}

static bool map_advance(td_stage *s) {
  mapping *m = (mapping *)s;
  bool changed = false;
  for (; is_over(m) && td_stage_has_room(s); changed = true) end(m);
  for (; may_begin(m); changed = true) begin(m);
  return changed;
}

/* ---- life ---------------------------------------------------------------- */

static void map_stop(td_stage *s) {
  mapping *m = (mapping *)s;
  for (size_t i = m->jobs_at; i < m->jobs.len; i++)
    if (m->jobs.at[i]->step) td_async_cancel(m->jobs.at[i]->step);
}

/* Nothing is under way any more: that holds the pipeline. */
static void map_free(td_stage *s) {
  mapping *m = (mapping *)s;
  for (size_t i = m->jobs_at; i < m->jobs.len; i++) {
    job *j = m->jobs.at[i];
    td_element_drop(&j->e);
    td_async_release(j->step);
    td_free(j);
  }
  td_vec_free(&m->jobs);
  td_free(m->feed);
  td_callable_release(m->f);
}

static void map_why(td_stage *s, td_str *out) {
  const mapping *m = (const mapping *)s;
  td_str_addf(out, "%s computes %d of %d", s->kind->name, computing(m),
              m->parallel);
}

static const td_stage_kind map_kind = {.name = "map",
                                       .advance = map_advance,
                                       .free = map_free,
                                       .stop = map_stop,
                                       .why = map_why};
static const td_stage_kind filter_kind = {.name = "filter",
                                          .advance = map_advance,
                                          .free = map_free,
                                          .stop = map_stop,
                                          .why = map_why};

static td_status *add(td_pipeline *p, const td_stage_kind *kind,
                      const td_pipeline_call *call, const td_column *columns,
                      int n_columns) {
  enum { MOST = 1024 };
  mapping *m = NULL;
  if (call->parallel < 1 || call->parallel > MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "parallel must be from 1 to %d, not %d", MOST,
                    call->parallel);
  int *feed = td_calloc((size_t)call->n_feeds + 1, sizeof *feed);
  if (!feed) return td_oom();
  for (int i = 0; i < call->n_feeds; i++) feed[i] = call->feed[i];
  td_status *s = td_stage_add(p, kind, sizeof *m, columns, n_columns, &m);
  if (!td_ok(s)) {
    td_free(feed);
    return s;
  }
  m->f = td_callable_retain(call->f);
  m->feed = feed;
  m->n_feeds = call->n_feeds;
  m->n_fetches = columns ? n_columns : 1;
  m->parallel = call->parallel;
  m->filters = kind == &filter_kind;
  return NULL;
}

td_status *td_pipeline_map(td_pipeline *p, const td_pipeline_call *call,
                           const td_column *columns, int n_columns) {
  return add(p, &map_kind, call, columns, n_columns);
}

td_status *td_pipeline_filter(td_pipeline *p, const td_pipeline_call *call) {
  return add(p, &filter_kind, call, NULL, 0);
}
