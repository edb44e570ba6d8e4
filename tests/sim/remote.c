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

#include "engine/remote/cells.h"
#include "engine/remote/worker_impl.h"
#include "tests/sim/base/sim.h"
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
  remote_process_start(&me->base, p, w->workers);
  if (p->place == 0 || p->place > w->workers)
    me->client = remote_client_new(&me->base, w);
}

static void died(void *arg, cluster_process *p) {
  remote_workload *w = arg;
  process *me = p->self;
  history_died(w->h, p->number);
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

/* Of sessions of those that are no more nothing is left. */
static void check_left(remote_workload *w, cluster *c, int sessions) {
  for (int i = 1; i <= w->workers; i++) {
    const process *p = cluster_at(c, i)->self;
    int n = (int)p->base.remote->hosted.len;
    if (n > sessions) note_wrong(w, "%lld sessions are left (P5)", n);
  }
}

static void check_bounds(remote_workload *w, cluster *c) {
  for (int i = 1; i <= w->workers; i++) {
    const cluster_process *p = cluster_at(c, i);
    if (!p) continue;
    const td_remote *r = ((const process *)p->self)->base.remote;
    for (size_t k = 0; k < r->hosted.len; k++)
      if (r->hosted.at[k]->early_bytes > r->hosted.at[k]->early_most)
        note_wrong(w, "%lld bytes are parked (P6)",
                   (int64_t)r->hosted.at[k]->early_bytes);
  }
}

static void pass(remote_workload *w, cluster *c, int64_t ns) {
  for (int64_t at = 0; at < ns; at += second) {
    cluster_pass(c, second);
    check_bounds(w, c);
  }
}

static cluster *new_cluster(remote_workload *w, int clients) {
  cluster_options o = {.places = w->workers + clients,
                       .faults = faults,
                       .kill = clients > 1 ? 0x1E : 0xE,
                       .most = 8,
                       .span = 8 * second,
                       .shortest = ms,
                       .longest = 7 * second,
                       .start = start,
                       .stop = stop,
                       .died = died,
                       .arg = w};
  if (w->workers == 2) o.kill = clients > 1 ? 0xE : 6;
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

static uint64_t run_seed(unsigned seed, char *why, size_t room) {
  remote_workload w = {.h = history_new()};
  sim_begin(seed, false);
  remote_counts_begin(w.h);
  w.workers = 2 + (int)sim_draw(2);
  int clients = 1 + (sim_draw(4) == 0);
  cluster *c = new_cluster(&w, clients);
  pass(&w, c, 12 * second);
  cluster_heal(c);
  sim_network_fault(cluster_network(c), SIM_ANY, SIM_ANY, SIM_SLOW, 0);
  pass(&w, c, 20 * second);
  w.calm = true;
  pass(&w, c, 10 * second);
  check_recovered(&w, c, clients);
  w.over = true;
  pass(&w, c, 14 * second);
  check_left(&w, c, clients);
  look(&w, c);
  check_history(&w);
  all_events += sim_events();
  cluster_free(c);
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

static void promises_are_kept(void **state) {
  (void)state;
  const char *some = getenv("REMOTE_FAULTS");
  if (some) faults = (unsigned)strtoul(some, NULL, 0);
  char why[300];
  (void)run_seed(0, why, sizeof why); /* what is made once in a process */
  forget_seen();
  int n = run_seeds("remote", 500, 100000, good_seed);
  print_message(
      "%d seeds, each twice; %lld events, %lld steps good, %lld not\n", n,
      (long long)all_events, (long long)acknowledged, (long long)failed);
  check_seen(cluster_fault_names, CLUSTER_FAULTS, NULL, 0);
}

/* Bugs of cells.h that some of the first seeds find. */
static void bugs_are_found(void **state) {
  static const td_bug planted[] = {TD_BUG_LATE_TENSOR, TD_BUG_DONE_EARLY};
  char why[300];
  (void)state;
  for (size_t i = 0; i < TD_COUNT(planted); i++) {
    unsigned seed = 0;
    td_bug_planted = (int)planted[i];
    do (void)run_seed(seed++, why, sizeof why);
    while (!why[0] && seed < 60);
    td_bug_planted = TD_BUG_NONE;
    if (!why[0]) fail_msg("bug %d is not found", (int)planted[i]);
    print_message("bug %d: seed %u: %s\n", (int)planted[i], seed - 1, why);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(promises_are_kept, name_seed),
      cmocka_unit_test(bugs_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
