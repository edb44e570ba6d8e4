/* remote.c - clients and workers of the real engine, as faults happen.
 *
 * Each process of the simulated cluster has a td_remote. One client or two have
 * sessions over the workers (remote_client.h) while links are cut and slow,
 * messages lost, doubled and out of order, processes paused, killed and started
 * again. The promises P1 to P7 of engine/remote/README.md must be kept; when
 * all is healed steps succeed again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/rounds.h"

#include "engine/remote/cells.h"
#include "engine/remote/worker_impl.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/remote_cells.h"
#include "tests/sim/remote_client.h"
#include "tests/sim/seeds.h"

static const int64_t ms = 1000000, second = 1000000000;

static int64_t all_events, acknowledged, failed;
static unsigned faults = (1u << CLUSTER_FAULTS) - 1;

/* ---- processes ----------------------------------------------------------- */

typedef struct process {
  remote_process base;
  remote_client *client; /* NULL: a worker */
} process;

static void start(void *arg, cluster_process *p) {
  remote_workload *w = arg;
  process *me = calloc(1, sizeof *me);
  assert_non_null(me);
  p->self = me;
  remote_counts_process(p->node, p->number, p->place);
  history_process(w->h, p->number, p->place);
  remote_process_start(&me->base, p, w);
  if (p->place == 0 || p->place > w->workers)
    me->client = remote_client_new(&me->base, w);
}

static void died(void *arg, cluster_process *p) {
  remote_workload *w = arg;
  process *me = p->self;
  history_died(w->h, p->number);
  remote_watch_died(w->watch, p->number);
  if (me->client) remote_client_died(me->client);
}

static void stop(void *arg, cluster_process *p) {
  process *me = p->self;
  (void)arg;
  if (me->client) remote_client_free(me->client);
  remote_process_stop(&me->base);
  while (sim_waiting()) sim_step(0);
  free(me);
}

/* ---- one seed ------------------------------------------------------------ */

static void look(remote_workload *w, cluster *c) {
  for (int i = 0; i <= w->workers; i++)
    remote_counts_tell(cluster_at(c, i)->number);
}

static void note_wrong(remote_workload *w, const char *what, int64_t n) {
  if (!w->why[0]) snprintf(w->why, sizeof w->why, what, (long long)n);
}

/* Until something is wrong. */
static void pass(remote_workload *w, cluster *c, int64_t ns) {
  for (int64_t at = 0; at < ns; at += second) {
    cluster_pass(c, second);
    if (w->why[0]) return;
  }
}

/* One client or two; in some seeds any process may die, the masters too. */
static cluster *new_cluster(remote_workload *w, int clients) {
  unsigned all = (1u << (w->workers + clients)) - 1;
  unsigned workers = ((1u << w->workers) - 1) << 1;
  w->paused = sim_draw(3) ? workers : all;
  cluster_options o = {.places = w->workers + clients,
                       .faults = faults,
                       .kill = w->paused,
                       .most = 8,
                       .span = 8 * second,
                       .shortest = ms,
                       .longest = 7 * second,
                       .start = start,
                       .stop = stop,
                       .died = died,
                       .arg = w};
  return cluster_new(&o);
}

static void check_recovered(remote_workload *w, cluster *c, int clients) {
  for (int i = 0; i < clients; i++) {
    const process *p = cluster_at(c, i ? w->workers + i : 0)->self;
    if (remote_client_good(p->client) < 3)
      note_wrong(w, "only %lld steps succeed when all is healed",
                 remote_client_good(p->client));
  }
}

static void check_history(remote_workload *w) {
  char why[200] = "";
  if (!history_check(w->h, why, sizeof why) && !w->why[0])
    snprintf(w->why, sizeof w->why, "%s", why);
  history_sums sums = history_count(w->h);
  acknowledged += sums.acknowledged;
  failed += sums.failed;
}

/* How values travel: what a seed leaves out is off in all of its processes. */
static void draw_ways(void) {
  char off[64] = "";
  if (sim_draw(4)) strcat(off, "shm,");
  if (sim_draw(8) == 0) strcat(off, "eager,");
  if (sim_draw(8) == 0) strcat(off, "wanted,");
  setenv("TIDE_REMOTE_OFF", off, 1);
}

/* Faults, then peace: steps succeed again, sessions are closed, and nothing is
 * left of them. */
static void live(remote_workload *w, cluster *c, int clients) {
  pass(w, c, 12 * second);
  cluster_heal(c);
  sim_network_fault(cluster_network(c), SIM_ANY, SIM_ANY, SIM_SLOW, 0);
  pass(w, c, 20 * second);
  w->calm = true;
  pass(w, c, 10 * second);
  if (!w->why[0]) check_recovered(w, c, clients);
  remote_watch_fences(w->watch);
  w->over = true;
  pass(w, c, 14 * second);
  remote_watch_empty(w->watch);
}

static uint64_t run_seed(unsigned seed, char *why, size_t room) {
  remote_workload w = {.h = history_new()};
  sim_begin(seed, false);
  draw_ways();
  remote_counts_begin(w.h);
  w.watch = remote_watch_new(w.h, w.why, sizeof w.why);
  w.workers = 2 + (int)sim_draw(2);
  int clients = 1 + (sim_draw(4) == 0);
  cluster *c = new_cluster(&w, clients);
  remote_watch_network(w.watch, cluster_network(c));
  live(&w, c, clients);
  if (!w.why[0]) look(&w, c);
  if (!w.why[0]) check_history(&w);
  all_events += sim_events();
  sim_network_watch(cluster_network(c), NULL);
  cluster_free(c);
  remote_watch_free(w.watch);
  history_free(w.h);
  assert_int_equal(sim_frames_left(), 0);
  snprintf(why, room, "%s", w.why);
  return sim_hash();
}

static uint64_t good_seed(unsigned seed) {
  char why[300];
  uint64_t hash = run_seed(seed, why, sizeof why);
  if (why[0]) fail_msg("seed %u: %s", seed, why);
  return hash;
}

/* ---- planted bugs -------------------------------------------------------- */

/* What is planted, and what the promise is called that some seed finds broken:
 * engine/remote/cells.h says where. */
typedef struct planted {
  const char *name;
  td_bug bug;
  bool fast; /* in make test, too */
} planted;
static const planted plants[] = {
    {"zombie", TD_BUG_ZOMBIE, false},
    {"run-twice", TD_BUG_RUN_TWICE, false},
    {"early-tensor", TD_BUG_EARLY_TENSOR, false},
    {"late-tensor", TD_BUG_LATE_TENSOR, true},
    {"no-fence", TD_BUG_NO_FENCE, false},
    {"cause-lost", TD_BUG_CAUSE_LOST, false},
    {"leaked-session", TD_BUG_LEAKED_SESSION, false},
    {"window", TD_BUG_WINDOW, true},
    {"done-early", TD_BUG_DONE_EARLY, true},
    {"cancel-lost", TD_BUG_CANCEL_LOST, false},
    {"stall", TD_BUG_STALL, false},
    {"mixed-restore", TD_BUG_MIXED_RESTORE, false},
};
enum { PLANTED_SEEDS = 1000 };

static int find_bug(const char *name) {
  for (size_t i = 0; name && i < TD_COUNT(plants); i++)
    if (strcmp(plants[i].name, name) == 0) return (int)plants[i].bug;
  if (name) fail_msg("TIDE_BUG=%s: there is no such bug", name);
  return TD_BUG_NONE;
}

/* What must have happened in some seed, beside faults and cells. */
static const char *const rare[] = {
    "a RUN comes after its CANCEL", /* a tombstone answers it */
    "a RUN comes twice",
    "a peer is judged dead",
    "a session is closed",
    "a session is given up",
    "a step is cancelled",
    "a value is large",
    "a value is parked",
    "a variable is gone",
    "attach fails",
    "evidence comes",
    "evidence is the error",
    "somebody is told of a death",
    "values are pulled at once",
    "variables are read",
    "variables are restored",
};

static void promises_are_kept(void **state) {
  (void)state;
  const char *some = getenv("REMOTE_FAULTS"), *bug = getenv("TIDE_BUG");
  if (some) faults = (unsigned)strtoul(some, NULL, 0);
  td_bug_planted = find_bug(bug);
  char why[300];
  (void)run_seed(0, why, sizeof why); /* what is made once in a process */
  forget_seen();
  remote_cells_forget();
  int n = run_seeds("remote", 1000, 1000, good_seed);
  print_message(
      "%d seeds, each twice; %lld events, %lld steps good, %lld not\n", n,
      (long long)all_events, (long long)acknowledged, (long long)failed);
  remote_cells_check();
  const char *all[TD_COUNT(rare) + CLUSTER_FAULTS];
  memcpy(all, rare, sizeof rare);
  memcpy(all + TD_COUNT(rare), cluster_fault_names, sizeof cluster_fault_names);
  check_seen(all, TD_COUNT(all), NULL, 0);
}

static void look_for(const planted *p) {
  char why[300] = "";
  unsigned seed = 0;
  td_bug_planted = (int)p->bug;
  while (!why[0] && seed < PLANTED_SEEDS)
    (void)run_seed(seed++, why, sizeof why);
  td_bug_planted = TD_BUG_NONE;
  if (!why[0])
    fail_msg("bug %s is not found in %d seeds", p->name, PLANTED_SEEDS);
  print_message("bug %s: found by seed %u: %s\n", p->name, seed - 1, why);
}

/* Three of them in make test, all in make soak, or the one that TIDE_BUG names
 * (which then is in all that this program runs); none where seeds were chosen.
 */
static void bugs_are_found(void **state) {
  const char *only = getenv("TIDE_BUG");
  (void)state;
  if (getenv("TIDE_SEEDS") && !only) return;
  for (size_t i = 0; i < TD_COUNT(plants); i++)
    if (only ? strcmp(only, plants[i].name) == 0 : plants[i].fast || soaked())
      look_for(&plants[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(promises_are_kept, name_seed),
      cmocka_unit_test(bugs_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
