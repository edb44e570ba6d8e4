/* graphs.c - random graphs with loops, as one thread and a seed order them.
 *
 * The graph of a seed runs three ways in a simulated process. In order, on one
 * device without passes, a few steps one after the other: these are the
 * ordinary results. Then the real thing, events drawn by the seed: sessions on
 * two devices, each a queue of steps one behind the other, one of them a loop,
 * all sessions at once. All of it twice: the order of events and every bit of
 * every result go into one hash, which must be the same. No thread is ever
 * made.
 *
 * TIDE_SEEDS=n or first:n chooses seeds; TIDE_SIM_ORDER=1 runs all in order:
 * what only another order shows, such as a planted bug, is not found then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/random_draw.h"

#include <dirent.h>

#include "engine/run/async.h"
#include "engine/run/callable.h"
#include "engine/run/loop.h"
#include "engine/run/session.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/seeds.h"

enum { SESSIONS = 3, STEPS = 3, LIMIT = 60 };

static int64_t events;
static uint64_t all; /* hashes */
static bool as_they_come;

/* What one session gives: every step's fetches, then the variables. */
typedef struct outcome {
  td_tensor value[STEPS][MOST_FETCHES];
  td_tensor variable[MOST_VARIABLES];
} outcome;

typedef struct world {
  drawn d;
  td_edge fetch[MOST_FETCHES];
  int n;
  td_runtime *runtime;
  outcome ordinary;
} world;

static const td_step_options options = {.timeout = LIMIT * (int64_t)1000000000};

/* A session and its queue of steps. */
typedef struct chain {
  td_session *session;
  td_callable *callable;
  td_async *step; /* that runs, or NULL */
  td_loop *loop;  /* of the last session: all steps */
  int done;
  outcome got;
} chain;

static void open_world(world *w) {
  OK(td_runtime_new(NULL, &w->runtime));
}

/* Pool tasks that come too late to do anything are run first. */
static void close_world(world *w) {
  while (sim_waiting()) sim_step(0);
  td_runtime_release(w->runtime);
}

/* ---- one session --------------------------------------------------------- */

static void run_init(const world *w, td_session *s) {
  td_signature init = {.targets = w->d.init, .n_targets = w->d.variables};
  if (w->d.variables) OK(td_session_run(s, &init, NULL, NULL, &options));
}

static td_signature step_of(const world *w, td_node **over) {
  return (td_signature){.fetches = w->fetch,
                        .n_fetches = w->n,
                        .targets = over,
                        .n_targets = state_ops(&w->d, over)};
}

static void read_variables(const world *w, td_session *s, td_tensor *to) {
  td_edge reads[MOST_VARIABLES];
  for (int i = 0; i < w->d.variables; i++)
    reads[i] = (td_edge){w->d.read[i], 0};
  td_signature sig = {.fetches = reads, .n_fetches = w->d.variables};
  if (w->d.variables) OK(td_session_run(s, &sig, NULL, to, &options));
}

static void drop(outcome *o) {
  for (int k = 0; k < STEPS; k++)
    for (int i = 0; i < MOST_FETCHES; i++) td_tensor_release(&o->value[k][i]);
  for (int i = 0; i < MOST_VARIABLES; i++) td_tensor_release(&o->variable[i]);
}

static void run_ordinary(world *w) {
  td_session *s;
  td_node *over[MOST_VARIABLES];
  td_signature sig = step_of(w, over);
  td_session_options o = {.threads = 1, .cpu_devices = 1, .passes_off = ~0U};
  OK(td_session_new(w->runtime, w->d.graph, &o, &s));
  run_init(w, s);
  for (int k = 0; k < STEPS; k++)
    OK(td_session_run(s, &sig, NULL, w->ordinary.value[k], &options));
  read_variables(w, s, w->ordinary.variable);
  td_session_close(s);
  td_session_release(s);
}

/* ---- all at once --------------------------------------------------------- */

static void open_chain(const world *w, chain *c, int number) {
  td_node *over[MOST_VARIABLES];
  td_signature sig = step_of(w, over);
  td_session_options o = {.threads = 2 + number,
                          .cpu_devices = 2,
                          .passes_off = sim_draw(2) ? 0 : ~0U,
                          .roundtrip = sim_draw(4) == 0};
  *c = (chain){0};
  OK(td_session_new(w->runtime, w->d.graph, &o, &c->session));
  run_init(w, c->session);
  OK(td_callable_new(c->session, &sig, &c->callable));
}

/* Starts the next step, or looks for a moment whether the last is over. */
static void go_on(chain *c) {
  if (!c->step) {
    OK(td_async_start(c->callable, NULL, &options, &c->step));
    return;
  }
  td_status *s = td_async_wait(c->step, 1 + (int64_t)sim_draw(200000),
                               c->got.value[c->done], NULL);
  if (td_status_code(s) == TD_DEADLINE_EXCEEDED && !td_async_done(c->step)) {
    td_status_release(s);
    return;
  }
  OK(s);
  td_async_release(c->step);
  c->step = NULL;
  c->done++;
}

/* The same of a loop, which goes from step to step by itself. */
static void loop_on(const world *w, chain *c) {
  int64_t numbers[STEPS];
  td_tensor value[STEPS * MOST_FETCHES];
  td_loop_options o = {.steps = STEPS, .log = c->callable, .n_log = w->n};
  if (!c->loop) {
    OK(td_loop_start(c->callable, &o, &c->loop));
    return;
  }
  td_status *s = td_loop_wait(c->loop, 1 + (int64_t)sim_draw(200000), NULL);
  if (td_status_code(s) == TD_DEADLINE_EXCEEDED && !td_loop_over(c->loop)) {
    td_status_release(s);
    return;
  }
  OK(s);
  assert_int_equal(td_loop_log(c->loop, numbers, value, STEPS), STEPS);
  for (int i = 0; i < STEPS * w->n; i++)
    c->got.value[i / w->n][i % w->n] = value[i];
  td_loop_release(c->loop);
  c->done = STEPS;
}

static void run_chains(const world *w, chain *c) {
  int left = SESSIONS;
  for (int i = 0; i < SESSIONS; i++) open_chain(w, &c[i], i);
  while (left > 0) {
    chain *next = &c[sim_draw(SESSIONS)];
    if (next->done == STEPS) continue;
    if (next == &c[SESSIONS - 1])
      loop_on(w, next);
    else
      go_on(next);
    left -= next->done == STEPS;
  }
  for (int i = 0; i < SESSIONS; i++) {
    read_variables(w, c[i].session, c[i].got.variable);
    td_callable_release(c[i].callable);
    td_session_close(c[i].session);
    td_session_release(c[i].session);
  }
}

/* ---- one seed ------------------------------------------------------------ */

static uint64_t hash_bits(uint64_t h, const td_tensor *t) {
  const unsigned char *bytes = t->data;
  size_t n = td_tensor_valid(t) ? td_tensor_bytes(t) : 0;
  for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001B3u;
  return h;
}

static uint64_t hash_outcome(uint64_t h, const outcome *o) {
  for (int k = 0; k < STEPS; k++)
    for (int i = 0; i < MOST_FETCHES; i++) h = hash_bits(h, &o->value[k][i]);
  for (int i = 0; i < MOST_VARIABLES; i++) h = hash_bits(h, &o->variable[i]);
  return h;
}

static bool same_outcome(const world *w, const outcome *o) {
  bool same = true;
  for (int k = 0; k < STEPS; k++)
    for (int i = 0; i < w->n; i++)
      if (!same_value(&w->ordinary.value[k][i], &o->value[k][i])) {
        print_message("step %d: %s differs\n", k, w->fetch[i].node->name);
        same = false;
      }
  for (int i = 0; i < w->d.variables; i++)
    if (!same_value(&w->ordinary.variable[i], &o->variable[i])) {
      print_message("variable %d differs\n", i);
      same = false;
    }
  return same;
}

/* The hash of order and results; false: they are not the ordinary ones. */
static bool run_seed(unsigned seed, uint64_t *hash) {
  world w = {.n = 0};
  chain c[SESSIONS];
  td_graph *g;
  sim_begin(seed, true);
  OK(td_graph_new(&g));
  w.n = draw_graph(&w.d, g, seed, w.fetch);
  open_world(&w);
  run_ordinary(&w);
  close_world(&w);
  sim_begin(seed, as_they_come);
  open_world(&w);
  run_chains(&w, c);
  close_world(&w);
  *hash = sim_hash();
  events += sim_events();
  bool same = true;
  for (int i = 0; i < SESSIONS; i++) {
    *hash = hash_outcome(*hash, &c[i].got);
    same = same_outcome(&w, &c[i].got) && same;
    drop(&c[i].got);
  }
  drop(&w.ordinary);
  td_graph_release(g);
  return same;
}

static int threads(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/task");
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
  closedir(dir);
  return n;
}

static uint64_t good_seed(unsigned seed) {
  uint64_t hash;
  if (!run_seed(seed, &hash)) fail_msg("seed %u", seed);
  all = (all ^ hash) * 0x100000001B3u;
  return hash;
}

static void two_runs_of_a_seed_are_one(void **state) {
  (void)state;
  as_they_come = getenv("TIDE_SIM_ORDER") != NULL;
  int count = run_seeds("graphs", 1000, 20000, good_seed);
  assert_int_equal(threads(), 1);
  print_message("%d seeds, each twice; %lld events; hash of all %016llx\n",
                count, (long long)events, (unsigned long long)all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(two_runs_of_a_seed_are_one, name_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
