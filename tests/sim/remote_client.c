/* remote_client.c - see remote_client.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/remote_client.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"

#include "engine/base/clock.h"
#include "engine/remote/health.h"
#include "engine/run/async.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/remote_watch.h"
#include "tests/sim/seeds.h"

enum {
  AT_ONCE = 3,
  CALM = 12 /* rows that are kept for later */,
  SIGNATURES = 5,
  LARGE = 40000,
  MOST_LARGE = 400000
};

static const int64_t us = 1000, ms = 1000000, second = 1000000000;

typedef enum kind { STEP, LOOP, READ, RESTORE, INIT } kind;

/* What the client knows of a step's updates. */
typedef enum outcome { NEVER, ONCE, PERHAPS } outcome;

typedef struct running {
  remote_client *c;
  td_async *async;
  kind kind;
  int k, init;               /* of a STEP: its row; of an INIT: the worker */
  int64_t n;                 /* floats of x */
  td_session *s;             /* borrowed: that it was begun in */
  bool over, calm;           /* calm: it was begun when all was healed */
  int64_t began;             /* by the node's clock */
  int place[REMOTE_WORKERS]; /* in the view, when it began */
  uint64_t cancel, look;     /* timers */
  outcome was[REMOTE_WORKERS][REMOTE_ROWS]; /* when a READ began */
} running;

struct remote_client {
  remote_process *on;
  remote_workload *w;
  remote_graph g;
  td_session *s;
  td_callable *callable[SIGNATURES + REMOTE_WORKERS];
  running at[AT_ONCE];
  int k;                      /* steps begun */
  bool fresh[REMOTE_WORKERS]; /* its variable is to be initialised */
  int place[REMOTE_WORKERS];  /* the last in which it was */
  outcome is[REMOTE_WORKERS][REMOTE_ROWS];
  int64_t saved[REMOTE_WORKERS][2 * REMOTE_ROWS]; /* as it was read */
  bool has_saved;
  int failures, good;
  int64_t failing; /* since when */
  uint64_t timer;
  bool dead, inside;
};

/* ---- processes ----------------------------------------------------------- */

static void turn(void *arg) {
  remote_process *r = arg;
  td_remote_turn(r->remote);
}

static void tick(void *arg) {
  remote_process *r = arg;
  r->tick = td_timer_start(td_clock_now() + TD_HEALTH_TICK, tick, r);
  td_remote_turn(r->remote);
  if (r->watch) remote_watch_tick(r->watch, r->p->number);
}

void remote_process_start(remote_process *r, cluster_process *p,
                          const remote_workload *w) {
  char place[64];
  bool serve = p->place > 0 && p->place <= w->workers;
  *r = (remote_process){.p = p, .watch = w->watch};
  snprintf(place, sizeof place, "/job:%s/replica:0/task:%d",
           serve ? "worker" : "client", serve ? p->place - 1 : p->place);
  OK(td_runtime_new(&(td_runtime_options){.place = place}, &r->runtime));
  td_remote_options o = {.runtime = r->runtime,
                         .channel = p->channel,
                         .serve = serve,
                         .threads = 2};
  OK(td_remote_new(&o, &r->remote));
  if (w->watch) remote_watch_process(w->watch, p, r->remote);
  sim_channel_on_ready(p->channel, turn, r);
  r->tick = td_timer_start(td_clock_now() + TD_HEALTH_TICK, tick, r);
}

void remote_process_stop(remote_process *r) {
  if (r->tick) td_timer_cancel(r->tick);
  td_remote_close(r->remote);
  td_remote_release(r->remote);
  td_runtime_release(r->runtime);
}

/* ---- what is wrong ------------------------------------------------------- */

static void wrong(remote_client *c, const char *what, int64_t a, int64_t b) {
  if (c->w->why[0] || c->dead) return;
  int n =
      snprintf(c->w->why, sizeof c->w->why, "client %d: ", c->on->p->number);
  snprintf(c->w->why + n, sizeof c->w->why - (size_t)n, what, (long long)a,
           (long long)b);
}

/* ---- the session --------------------------------------------------------- */

static bool all_rest(const remote_client *c) {
  for (int i = 0; i < AT_ONCE; i++)
    if (c->at[i].async) return false;
  return true;
}

static void drop_callables(remote_client *c) {
  for (size_t i = 0; i < TD_COUNT(c->callable); i++) {
    td_callable_release(c->callable[i]);
    c->callable[i] = NULL;
  }
}

/* Waits. */
static void close_session(remote_client *c) {
  td_session *s = c->s;
  c->s = NULL;
  if (!s) return;
  drop_callables(c);
  td_session_close(s);
  td_session_release(s);
}

/* Waits. */
static td_status *attach(remote_client *c, int worker) {
  char address[32];
  td_member *m;
  snprintf(address, sizeof address, "sim://place%d", worker + 1);
  td_attach_options o = {.to = {address, NULL, NULL}, .timeout = 3 * second};
  return td_remote_attach(c->on->remote, c->s, &o, &m);
}

static void open_session(remote_client *c) {
  td_session_options o = {
      .threads = 2, .cpu_devices = 1, .passes_off = sim_draw(2) ? ~0u : 0};
  td_status *s = NULL;
  OK(td_session_new(c->on->runtime, c->g.graph, &o, &c->s));
  for (int i = 0; td_ok(s) && i < c->w->workers; i++) s = attach(c, i);
  c->failures = 0;
  for (int i = 0; i < c->w->workers; i++) {
    c->fresh[i] = true;
    memset(c->is[i], 0, sizeof c->is[i]);
  }
  c->has_saved = false;
  if (td_ok(s)) return;
  sometimes("attach fails");
  td_status_release(s);
  close_session(c);
}

/* ---- signatures ---------------------------------------------------------- */

static td_status *callable(remote_client *c, kind k, int init,
                           td_callable **out) {
  td_callable **at = &c->callable[k == INIT ? INIT + init : (int)k];
  const remote_graph *g = &c->g;
  td_edge feeds[] = {g->id, g->x}, fetches[REMOTE_WORKERS] = {g->y, g->turned};
  td_signature sig = {.feeds = feeds,
                      .n_feeds = 2,
                      .fetches = fetches,
                      .n_fetches = k == LOOP ? 2 : 1,
                      .targets = g->count,
                      .n_targets = c->w->workers};
  if (k == READ)
    sig = (td_signature){.fetches = g->read, .n_fetches = c->w->workers};
  if (k == RESTORE)
    sig = (td_signature){.feeds = g->saved,
                         .n_feeds = c->w->workers,
                         .targets = g->restore,
                         .n_targets = c->w->workers};
  if (k == INIT)
    sig = (td_signature){.targets = &g->init[init], .n_targets = 1};
  if (!*at) TD_TRY(td_callable_new(c->s, &sig, at));
  *out = *at;
  return NULL;
}

/* ---- ends ---------------------------------------------------------------- */

static void check_row(remote_client *c, const running *r, int worker, int k,
                      int64_t a, int64_t b) {
  outcome is = c->is[worker][k];
  if (a != b) wrong(c, "row %lld of worker %lld is torn (P3)", k, worker);
  if (a < 0 || a > 1)
    wrong(c, "step %lld counts %lld times (P3)", k, a);
  else if (r->was[worker][k] == ONCE && a != 1)
    wrong(c, "acknowledged step %lld is not on worker %lld (P2)", k, worker);
  else if (is == NEVER && a != 0)
    wrong(c, "step %lld is on worker %lld, whose variable is younger (P7)", k,
          worker);
}

/* Steps that run beside it may be there or not. */
static void check_read(remote_client *c, const running *r,
                       const td_tensor *values) {
  for (int i = 0; i < c->w->workers; i++) {
    const int64_t *at = values[i].data;
    for (int k = 0; k < REMOTE_ROWS; k++)
      check_row(c, r, i, k, at[2 * k], at[2 * k + 1]);
  }
  for (int i = 0; i < c->w->workers; i++)
    memcpy(c->saved[i], values[i].data, sizeof c->saved[i]);
  c->has_saved = true;
  sometimes("variables are read");
}

/* ---- variables that are there again -------------------------------------- */

/* A step that failed may be applied still. */
static outcome after_restore(outcome was, int64_t saved) {
  if (saved) return ONCE;
  return was == PERHAPS ? PERHAPS : NEVER;
}

/* From now on its variable is of that place in the view, or a later one. */
static void note_place(remote_client *c, const running *r, int worker) {
  c->fresh[worker] = false;
  c->place[worker] = remote_watch_place(c->on->remote, r->s, worker, false);
}

static void went_back(remote_client *c, const running *r) {
  sometimes("variables are restored");
  for (int i = 0; i < c->w->workers; i++) {
    note_place(c, r, i);
    for (int k = 0; k < REMOTE_ROWS; k++)
      c->is[i][k] = after_restore(r->was[i][k], c->saved[i][2 * k]);
  }
}

/* A worker that was lost and is back has nothing of what it had. */
static void check_places(remote_client *c, const running *r) {
  for (int i = 0; i < c->w->workers; i++)
    if (r->place[i] > c->place[i])
      wrong(c,
            "worker %lld was lost and came back, and its variable is mixed "
            "with what others were restored to: step %lld runs (P7)",
            i, r->k);
}

static void check_step(remote_client *c, const running *r,
                       const td_tensor *values) {
  const float *y = values[0].data;
  if (td_tensor_count(&values[0]) != r->n)
    wrong(c, "y has %lld elements of %lld", td_tensor_count(&values[0]), r->n);
  else if (y[0] != (float)r->k || y[r->n - 1] != (float)r->k)
    wrong(c, "y is %lld in step %lld", (int64_t)y[0], r->k);
  if (r->kind == LOOP && *(const float *)values[1].data != REMOTE_TURNS)
    wrong(c, "the loop made %lld turns of %lld",
          (int64_t) * (const float *)values[1].data, REMOTE_TURNS);
}

static void went_well(remote_client *c, running *r, const td_tensor *values) {
  c->failures = 0;
  c->good += c->w->calm && r->kind != INIT;
  if (r->kind == READ) check_read(c, r, values);
  if (r->kind == INIT) note_place(c, r, r->init);
  if (r->kind == RESTORE) went_back(c, r);
  if (r->kind <= READ) check_places(c, r);
  if (r->kind == STEP || r->kind == LOOP) {
    check_step(c, r, values);
    for (int i = 0; i < c->w->workers; i++) c->is[i][r->k] = ONCE;
  }
}

/* A variable that is gone: its process is another. */
static bool lacks_variable(remote_client *c, const td_status *s) {
  if (td_status_code(s) != TD_FAILED_PRECONDITION) return false;
  for (int i = 0; i < c->w->workers; i++) {
    char name[16];
    snprintf(name, sizeof name, "v%d", i);
    if (!strstr(td_status_message(s), "initial") ||
        !strstr(td_status_message(s), name))
      continue;
    if (!c->fresh[i]) sometimes("a variable is gone");
    c->fresh[i] = true;
    return true;
  }
  return false;
}

static const char *code_name(td_code code) {
  switch (code) {
  case TD_UNAVAILABLE:
    return "UNAVAILABLE";
  case TD_DEADLINE_EXCEEDED:
    return "DEADLINE_EXCEEDED";
  case TD_CANCELLED:
    return "CANCELLED";
  case TD_ABORTED:
    return "ABORTED";
  case TD_FAILED_PRECONDITION:
    return "FAILED_PRECONDITION";
  case TD_RESOURCE_EXHAUSTED:
    return "RESOURCE_EXHAUSTED";
  case TD_NOT_FOUND:
    return "NOT_FOUND";
  default:
    return "another error";
  }
}

/* Is the task named after `word` in what an error tells of updates? */
static bool is_told(const char *applied, const char *word, int worker) {
  char task[64];
  const char *from = strstr(applied, word);
  const char *to = from ? strchr(from, ';') : NULL;
  snprintf(task, sizeof task, "/job:worker/replica:0/task:%d", worker);
  const char *at = from ? strstr(from, task) : NULL;
  return at && (!to || at < to);
}

/* Reads are held to what the error says of each task. */
static void learn_applied(remote_client *c, const running *r,
                          const td_status *s) {
  const char *applied = td_status_applied_where(s);
  if (r->kind > LOOP) return;
  for (int i = 0; i < c->w->workers; i++) {
    bool all = is_told(applied, "all at ", i);
    if (all) sometimes("an error tells that a task has applied its updates");
    if (all)
      c->is[i][r->k] = ONCE;
    else if (!is_told(applied, "unknown at ", i))
      c->is[i][r->k] = NEVER;
  }
}

static void went_wrong(remote_client *c, const running *r, td_status *s) {
  if (getenv("REMOTE_LOG"))
    fprintf(stderr, "%9.3f client %d: step %d kind %d: %s\n",
            (double)sim_clock(SIM_WORLD) * 1e-9, c->on->p->number, r->k,
            r->kind, td_status_message(s));
  cell("step", code_name(td_status_code(s)));
  if (td_status_code(s) == TD_INTERNAL || td_status_code(s) == TD_UNKNOWN ||
      td_status_code(s) == TD_INVALID_ARGUMENT) {
    if (!c->w->why[0] && !c->dead)
      snprintf(c->w->why, sizeof c->w->why, "step %d: %s", r->k,
               td_status_message(s));
  }
  if (r->calm && !c->w->why[0] && !c->dead)
    snprintf(c->w->why, sizeof c->w->why,
             "step %d fails though all is healed, and others succeeded "
             "(recovery): %s",
             r->k, td_status_message(s));
  remote_watch_error(c->w->watch, c->on->p->number, r->began, s);
  if (!c->failures++) c->failing = td_clock_now();
  learn_applied(c, r, s);
  (void)lacks_variable(c, s);
}

static void note_end(running *r, bool good) {
  remote_client *c = r->c;
  int64_t now = sim_clock(SIM_WORLD),
          step = remote_step(c->on->p->number, r->k);
  if (r->over || r->kind > LOOP) return;
  if (good)
    history_acknowledged(c->w->h, step, now);
  else
    history_failed(c->w->h, step, now);
}

static void stop_timers(running *r) {
  if (r->cancel) td_timer_cancel(r->cancel);
  if (r->look) td_timer_cancel(r->look);
  r->cancel = r->look = 0;
}

/* What became of one that is over. */
static void take(running *r) {
  remote_client *c = r->c;
  td_tensor values[REMOTE_WORKERS] = {{0}};
  td_async *a = r->async;
  td_status *s = td_async_wait(a, -1, values, NULL);
  r->async = NULL;
  stop_timers(r);
  note_end(r, td_ok(s));
  r->over = true;
  if (c->s == r->s && c->s) {
    if (td_ok(s))
      went_well(c, r, values);
    else
      went_wrong(c, r, s);
  }
  for (int i = 0; i < REMOTE_WORKERS; i++) td_tensor_release(&values[i]);
  td_status_release(s);
  td_async_release(a);
}

/* Looks until it is over. */
static void look(void *arg) {
  running *r = arg;
  r->look = 0;
  if (td_async_done(r->async))
    take(r);
  else
    r->look = td_timer_start(td_clock_now() + 5 * ms, look, r);
}

static void cancel(void *arg) {
  running *r = arg;
  r->cancel = 0;
  sometimes("a step is cancelled");
  td_async_cancel(r->async);
}

/* ---- beginnings ---------------------------------------------------------- */

static int64_t draw_size(void) {
  if (sim_draw(4)) return 1 + (int64_t)sim_draw(100);
  sometimes("a value is large");
  return sim_draw(8) ? LARGE : MOST_LARGE;
}

static int64_t draw_timeout(const remote_client *c) {
  if (c->w->calm) return 10 * second;
  switch (sim_draw(4)) {
  case 0:
    return (int64_t)sim_draw((uint64_t)(200 * ms));
  case 1:
    return 20 * second;
  default:
    return second + (int64_t)sim_draw((uint64_t)(4 * second));
  }
}

/* Some overtake their RUN, where messages may. */
static int64_t draw_cancel(void) {
  return (int64_t)sim_draw((uint64_t)((sim_draw(2) ? 100 : 4) * ms));
}

static void make_saved(const running *r, td_tensor *feeds) {
  td_shape shape = td_shape_vector(2 * (int64_t)REMOTE_ROWS);
  for (int i = 0; i < r->c->w->workers; i++)
    OK(td_tensor_from(TD_INT64, &shape, r->c->saved[i], &feeds[i]));
}

static void make_feeds(const running *r, int64_t *id, td_tensor *feeds) {
  td_shape one = td_shape_scalar(), n = td_shape_vector(r->n);
  *id = remote_step(r->c->on->p->number, r->k);
  OK(td_tensor_from(TD_INT64, &one, id, &feeds[0]));
  OK(td_tensor_new(NULL, TD_FLOAT32, &n, &feeds[1]));
  float *x = feeds[1].data;
  for (int64_t i = 0; i < r->n; i++) x[i] = (float)r->k;
}

/* The latest moment of its end: two seconds after its timeout it is given up;
 * clocks stand still by a second, and a client may be paused. */
static void begin_history(running *r, int64_t timeout) {
  remote_client *c = r->c;
  int64_t now = sim_clock(SIM_WORLD),
          step = remote_step(c->on->p->number, r->k);
  int64_t slack =
      c->w->paused >> c->on->p->place & 1 ? 40 * second : 4 * second;
  if (r->kind > LOOP) return;
  history_begin(c->w->h, step, now, now + timeout + slack);
  for (int i = 0; i < c->w->workers; i++) {
    history_op(c->w->h, step, i + 1, i + 1);
    c->is[i][r->k] = PERHAPS;
  }
}

static void begin(remote_client *c, running *r, kind k, int init) {
  td_tensor feeds[REMOTE_WORKERS] = {{0}};
  int64_t id;
  td_callable *what;
  td_step_options o = {.timeout = draw_timeout(c)};
  bool counts = k == STEP || k == LOOP;
  *r = (running){.c = c,
                 .kind = k,
                 .init = init,
                 .k = counts ? c->k++ : -1,
                 .s = c->s,
                 .calm = c->w->calm && c->good > 0};
  r->n = counts ? draw_size() : 0;
  r->began = td_clock_now();
  for (int i = 0; i < c->w->workers; i++)
    r->place[i] = remote_watch_place(c->on->remote, c->s, i, true);
  if (o.timeout == 0) o.timeout = us;
  memcpy(r->was, c->is, sizeof r->was);
  begin_history(r, o.timeout);
  if (counts) make_feeds(r, &id, feeds);
  if (k == RESTORE) make_saved(r, feeds);
  td_status *s = callable(c, k, init, &what);
  if (td_ok(s)) s = td_async_start(what, feeds, &o, &r->async);
  for (int i = 0; i < REMOTE_WORKERS; i++) td_tensor_release(&feeds[i]);
  if (td_ok(s)) {
    r->look = td_timer_start(td_clock_now(), look, r);
    if (sim_draw(8) == 0 && !c->w->calm)
      r->cancel = td_timer_start(td_clock_now() + draw_cancel(), cancel, r);
    return;
  }
  note_end(r, false);
  r->over = true;
  went_wrong(c, r, s);
  td_status_release(s);
}

static running *a_place(remote_client *c) {
  for (int i = 0; i < AT_ONCE; i++)
    if (!c->at[i].async) return &c->at[i];
  return NULL;
}

/* All are set back to what they were when they were read, as who recovers from
 * a checkpoint does. When that fails, none of them is as it should be. */
static void restore(remote_client *c) {
  begin(c, &c->at[0], RESTORE, 0);
  for (int i = 0; i < c->w->workers; i++) c->fresh[i] = true;
}

/* Nothing else runs while a variable is initialised. */
static bool initialise(remote_client *c) {
  for (int i = 0; i < c->w->workers; i++)
    if (c->fresh[i] && c->has_saved && all_rest(c) && sim_draw(2)) {
      restore(c);
      return true;
    }
  for (int i = 0; i < c->w->workers; i++) {
    if (!c->fresh[i]) continue;
    if (!all_rest(c)) return true;
    memset(c->is[i], 0, sizeof c->is[i]);
    begin(c, &c->at[0], INIT, i);
    return true;
  }
  return false;
}

static bool has_failed_long(const remote_client *c) {
  return c->failures > 3 && td_clock_now() - c->failing > 15 * second;
}

/* Waits. */
static void change_session(remote_client *c) {
  c->w->busy = true;
  if (c->s) {
    sometimes(has_failed_long(c) ? "a session is given up"
                                 : "a session is closed");
    close_session(c);
  }
  if (!c->s && !c->dead && !c->w->over) open_session(c);
  c->w->busy = false;
}

static void work(remote_client *c) {
  bool tired = !c->w->calm && sim_draw(60) == 0;
  if (!c->s || has_failed_long(c) || (tired && !c->w->over)) {
    if (!c->w->busy && !(c->w->over && !c->s)) change_session(c);
    return;
  }
  running *r = a_place(c);
  if (c->w->over && c->s && !c->w->busy && all_rest(c)) change_session(c);
  if (c->w->over || !r || initialise(c)) return;
  uint64_t what = sim_draw(8);
  if (what == 0 || c->k >= (c->w->calm ? REMOTE_ROWS : REMOTE_ROWS - CALM))
    begin(c, r, READ, 0);
  else
    begin(c, r, what < 3 ? LOOP : STEP, 0);
}

static void go_on(void *arg) {
  remote_client *c = arg;
  c->timer = 0;
  work(c);
  int64_t wait = ms + (int64_t)sim_draw((uint64_t)(300 * ms));
  c->timer = td_timer_start(td_clock_now() + wait, go_on, c);
}

/* ---- life ---------------------------------------------------------------- */

remote_client *remote_client_new(remote_process *on, remote_workload *w) {
  remote_client *c = calloc(1, sizeof *c);
  assert_non_null(c);
  c->on = on;
  c->w = w;
  remote_graph_init(&c->g, w->workers);
  c->timer = td_timer_start(td_clock_now(), go_on, c);
  return c;
}

void remote_client_died(remote_client *c) {
  c->dead = true;
  for (int i = 0; i < AT_ONCE; i++) {
    if (c->at[i].async) note_end(&c->at[i], false);
    c->at[i].over = true;
  }
}

void remote_client_free(remote_client *c) {
  if (c->timer) td_timer_cancel(c->timer);
  c->dead = true;
  for (int i = 0; i < AT_ONCE; i++)
    if (c->at[i].async) {
      stop_timers(&c->at[i]);
      td_async_cancel(c->at[i].async);
    }
  td_session *s = c->s;
  c->s = NULL;
  drop_callables(c);
  if (s) td_session_close(s);
  for (int i = 0; i < AT_ONCE; i++)
    if (c->at[i].async) take(&c->at[i]);
  td_session_release(s);
  remote_graph_deinit(&c->g);
  free(c);
}

int remote_client_good(const remote_client *c) {
  return c->good;
}

bool remote_client_rests(const remote_client *c) {
  return all_rest(c);
}
