/* engines.c - several engines in one world, of which some are stopped and
 * killed.
 *
 * Each node has a runtime and a session of its own and runs a few steps of the
 * random graph of a seed, looked after by a timer of the node. Meanwhile some
 * are paused, shifted in time, killed. Those that live have the ordinary
 * results, and what the others held is freed at the end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/random_draw.h"

#include "engine/run/async.h"
#include "engine/run/session.h"
#include "tests/sim/base/node.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/seeds.h"

enum { ENGINES = 3, STEPS = 3 };

static const int64_t us = 1000, ms = 1000000, second = 1000000000;

static const td_step_options options = {.timeout = 60 * (int64_t)1000000000};

typedef struct plan {
  drawn d;
  td_graph *graph;
  td_edge fetch[MOST_FETCHES];
  int n;
  td_tensor ordinary[STEPS][MOST_FETCHES];
} plan;

typedef struct engine {
  const plan *p;
  sim_node_t node;
  td_runtime *runtime;
  td_session *session;
  td_callable *callable;
  td_async *init, *step;
  td_callable *first; /* sets the variables */
  uint64_t timer;
  int done;
  td_tensor got[STEPS][MOST_FETCHES];
} engine;

static int64_t all_events;

/* ---- an engine ----------------------------------------------------------- */

static void open_engine(engine *e) {
  td_node *over[MOST_VARIABLES];
  const plan *p = e->p;
  td_signature init = {.targets = (td_node **)p->d.init,
                       .n_targets = p->d.variables};
  td_signature sig = {.fetches = p->fetch,
                      .n_fetches = p->n,
                      .targets = over,
                      .n_targets = state_ops(&p->d, over)};
  td_session_options o = {.threads = 2, .cpu_devices = 1};
  OK(td_runtime_new(NULL, &e->runtime));
  OK(td_session_new(e->runtime, p->graph, &o, &e->session));
  if (p->d.variables) OK(td_callable_new(e->session, &init, &e->first));
  OK(td_callable_new(e->session, &sig, &e->callable));
}

/* What is over is taken in. */
static bool is_over(td_async **a, td_tensor *fetches) {
  if (!td_async_done(*a)) return false;
  OK(td_async_wait(*a, -1, fetches, NULL));
  td_async_release(*a);
  *a = NULL;
  return true;
}

/* Starts the next step when the last is over. */
static void look(void *arg) {
  engine *e = arg;
  e->timer = 0;
  if (e->init && !is_over(&e->init, NULL)) goto later;
  if (e->step && is_over(&e->step, e->got[e->done])) e->done++;
  if (e->done == STEPS) return;
  if (!e->step) OK(td_async_start(e->callable, NULL, &options, &e->step));
later:
  e->timer =
      sim_timer(sim_now() + (int64_t)sim_draw((uint64_t)(50 * us)), look, e);
}

static void start(engine *e, const plan *p) {
  *e = (engine){.p = p, .node = sim_node()};
  sim_enter(e->node);
  open_engine(e);
  if (e->first) OK(td_async_start(e->first, NULL, &options, &e->init));
  e->timer = sim_timer(sim_now(), look, e);
  sim_leave();
}

static void end_step(td_async *a) {
  if (!a) return;
  td_async_cancel(a);
  td_status_release(td_async_wait(a, -1, NULL, NULL));
  td_async_release(a);
}

static void stop(void *arg) {
  engine *e = arg;
  if (e->timer) sim_timer_cancel(e->timer);
  end_step(e->init);
  end_step(e->step);
  td_callable_release(e->first);
  td_callable_release(e->callable);
  td_session_close(e->session);
  td_session_release(e->session);
  while (sim_waiting()) sim_step(0);
  td_runtime_release(e->runtime);
}

/* ---- one seed ------------------------------------------------------------ */

static void open_plan(plan *p, unsigned seed) {
  *p = (plan){.n = 0};
  OK(td_graph_new(&p->graph));
  p->n = draw_graph(&p->d, p->graph, seed, p->fetch);
}

static void run_ordinary(plan *p) {
  engine e = {.p = p};
  open_engine(&e);
  if (e.first) OK(td_async_start(e.first, NULL, &options, &e.init));
  if (e.init) {
    OK(td_async_wait(e.init, -1, NULL, NULL));
    td_async_release(e.init);
    e.init = NULL;
  }
  for (int i = 0; i < STEPS; i++) {
    OK(td_async_start(e.callable, NULL, &options, &e.step));
    OK(td_async_wait(e.step, -1, p->ordinary[i], NULL));
    td_async_release(e.step);
    e.step = NULL;
  }
  stop(&e);
}

static void drop(td_tensor got[STEPS][MOST_FETCHES]) {
  for (int i = 0; i < STEPS * MOST_FETCHES; i++)
    td_tensor_release(&got[i / MOST_FETCHES][i % MOST_FETCHES]);
}

static void resume(void *arg) {
  sim_go_on(((engine *)arg)->node);
}

static void trouble(void *arg) {
  engine *e = arg;
  switch (sim_draw(4)) {
  case 0:
    sometimes(e->done < STEPS ? "killed at work" : "killed at rest");
    sim_kill(e->node);
    break;
  case 1:
    sometimes("shifted");
    sim_shift(e->node, (int64_t)sim_draw((uint64_t)second));
    break;
  case 2:
    sometimes("disk");
    sim_slow_disk(e->node, ms);
    break;
  default:
    sometimes("paused");
    sim_pause(e->node);
    (void)sim_post(SIM_WORLD, sim_clock(SIM_WORLD) + 100 * ms, resume, e);
  }
}

static void check(const plan *p, const engine *e) {
  assert_int_equal(e->done, STEPS);
  for (int k = 0; k < STEPS; k++)
    for (int i = 0; i < p->n; i++)
      if (!same_value(&p->ordinary[k][i], &e->got[k][i]))
        fail_msg("step %d: %s differs", k, p->fetch[i].node->name);
}

static uint64_t run_seed(unsigned seed) {
  plan p;
  engine e[ENGINES];
  open_plan(&p, seed);
  sim_begin(seed, true);
  run_ordinary(&p);
  sim_begin(seed, false);
  for (int i = 0; i < ENGINES; i++) start(&e[i], &p);
  for (int i = 0; i < ENGINES; i++)
    (void)sim_post(SIM_WORLD, (int64_t)sim_draw((uint64_t)(2 * ms)), trouble,
                   &e[sim_draw(ENGINES)]);
  while (sim_clock(SIM_WORLD) < second) sim_step(second);
  for (int i = 0; i < ENGINES; i++) {
    if (!sim_dead(e[i].node)) check(&p, &e[i]);
    sim_tidy(e[i].node, stop, &e[i]);
    drop(e[i].got);
  }
  drop(p.ordinary);
  td_graph_release(p.graph);
  all_events += sim_events();
  return sim_hash();
}

static void the_living_go_on(void **state) {
  static const char *const all[] = {"killed at work", "killed at rest",
                                    "shifted", "paused", "disk"};
  (void)state;
  int n = run_seeds("engines", 150, 10000, run_seed);
  print_message("%d seeds, each twice; %lld events\n", n,
                (long long)all_events);
  check_seen(all, TD_COUNT(all), NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(the_living_go_on, name_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
