/* random_graphs.c - random graphs give the same bits over workers.
 *
 * Each seed's graph, of tests/engine/run, is drawn over the devices of this
 * process and of the workers that there are, the same but for these. It runs in
 * one process on one thread without passes, then over one worker by ipc, over
 * one by tcp with CURVE and over two with this process between them. Sessions
 * come and go: a worker keeps nothing of theirs. TIDE_SEEDS=n or first:n
 * chooses how many; TIDE_SOAK runs ten thousand.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/remote/fleet.h"
#include "tests/engine/run/random_draw.h"

#include "engine/run/session.h"

typedef struct outcome {
  td_code code;
  td_tensor value[MOST_FETCHES + MOST_VARIABLES];
  int n;
} outcome;

/* One way of running, and what is kept for it from seed to seed. */
typedef struct setting {
  const char *name, *fleet, *first;
  int threads;
  bool passes, spread;
  fleet workers;
  td_runtime *runtime;
  td_remote *client;
} setting;

static setting settings[] = {
    {.name = "one process, one thread, no passes", .threads = 1},
    {.name = "a worker over ipc",
     .fleet = "worker-ipc",
     .first = FLEET_FIRST,
     .threads = 2,
     .passes = true},
    {.name = "a worker over ipc, spread, no passes",
     .fleet = "worker-ipc",
     .threads = 1,
     .spread = true},
    {.name = "a worker over tcp, spread",
     .fleet = "worker-tcp",
     .threads = 2,
     .passes = true,
     .spread = true},
    {.name = "two workers", .fleet = "two", .threads = 2, .passes = true},
    {.name = "two workers, spread, no passes",
     .fleet = "two",
     .threads = 2,
     .spread = true},
};

static int current = -1; /* the seed being run */

/* ---- settings ------------------------------------------------------------ */

static int start(void **state) {
  (void)state;
  for (size_t k = 0; k < TD_COUNT(settings); k++) {
    setting *w = &settings[k];
    OK(td_runtime_new(NULL, &w->runtime));
    if (!w->fleet) continue;
    fleet_start(&w->workers, w->fleet);
    w->client = fleet_client(w->runtime);
  }
  return 0;
}

static int stop(void **state) {
  (void)state;
  for (size_t k = 0; k < TD_COUNT(settings); k++) {
    setting *w = &settings[k];
    if (w->client) fleet_leave(w->client);
    fleet_stop(&w->workers);
    td_runtime_release(w->runtime);
  }
  return 0;
}

/* Nodes ask for tasks that take part. */
static void choose_devices(const setting *w) {
  const char *here = "/job:localhost/device:CPU:0",
             *zero = w->fleet ? "/job:worker/task:0/device:CPU:0" : here,
             *one = w->workers.n > 1 ? "/job:worker/task:1/device:CPU:0" : zero;
  const char *const devices[] = {here, zero, one, ""};
  memcpy(drawn_devices, devices, sizeof devices);
}

/* ---- one way of running -------------------------------------------------- */

static void run_all(td_session *s, drawn *d, const td_edge *fetch, int n,
                    outcome *o) {
  td_step_options options = {.timeout = PATIENCE};
  td_signature init = {.targets = d->init, .n_targets = d->variables};
  td_node *over[MOST_VARIABLES];
  int n_over = state_ops(d, over);
  td_signature sig = {
      .fetches = fetch, .n_fetches = n, .targets = over, .n_targets = n_over};
  td_edge reads[MOST_VARIABLES];
  for (int i = 0; i < d->variables; i++) reads[i] = (td_edge){d->read[i], 0};
  td_signature last = {.fetches = reads, .n_fetches = d->variables};
  memset(o, 0, sizeof *o);
  o->n = n + d->variables;
  td_status *st = NULL;
  if (d->variables) st = td_session_run(s, &init, NULL, NULL, &options);
  if (td_ok(st)) st = td_session_run(s, &sig, NULL, o->value, &options);
  if (td_ok(st) && d->variables)
    st = td_session_run(s, &last, NULL, o->value + n, &options);
  o->code = td_status_code(st);
  if (!td_ok(st)) print_message("%s\n", td_status_message(st));
  td_status_release(st);
}

static void drop(outcome *o) {
  for (int i = 0; i < o->n; i++) td_tensor_release(&o->value[i]);
}

static void run_once(const setting *w, unsigned seed, outcome *o, td_graph **g,
                     td_edge *fetch, int *n) {
  td_session *s;
  drawn d;
  choose_devices(w);
  OK(td_graph_new(g));
  *n = draw_graph(&d, *g, seed, fetch);
  td_session_options so = {.threads = w->threads,
                           .cpu_devices = 1,
                           .passes_off = w->passes ? 0 : ~0U,
                           .verify = true,
                           .spread = w->spread,
                           .first = w->first};
  OK(td_session_new(w->runtime, *g, &so, &s));
  if (w->client) fleet_attach(&w->workers, w->client, s);
  run_all(s, &d, fetch, *n, o);
  td_session_close(s);
  td_session_release(s);
}

static int alarms; /* workers that were thought dead */

/* A machine that has far more to do than it can lets a thread stand for
 * seconds, and who is silent for five is dead: that is no matter of the graph,
 * and must stay rare. */
static bool run_setting(const setting *w, unsigned seed, outcome *o,
                        td_graph **g, td_edge *fetch, int *n) {
  run_once(w, seed, o, g, fetch, n);
  for (int tries = 0; o->code == TD_UNAVAILABLE && tries < 3; tries++) {
    drop(o);
    td_graph_release(*g);
    alarms++;
    run_once(w, seed, o, g, fetch, n);
  }
  return o->code == TD_OK;
}

/* ---- one seed ------------------------------------------------------------ */

static bool run_seed(unsigned seed) {
  td_graph *g;
  td_edge fetch[MOST_FETCHES];
  outcome first, o;
  int n;
  bool good = run_setting(&settings[0], seed, &first, &g, fetch, &n);
  td_graph_release(g);
  for (size_t k = 1; good && k < TD_COUNT(settings); k++) {
    good = run_setting(&settings[k], seed, &o, &g, fetch, &n);
    for (int i = 0; good && i < o.n; i++)
      if (!same_value(&first.value[i], &o.value[i])) {
        good = false;
        print_message("value %d (%s) differs\n", i,
                      i < n ? fetch[i].node->name : "a variable");
      }
    if (!good) print_message("seed %u: %s\n", seed, settings[k].name);
    drop(&o);
    td_graph_release(g);
  }
  drop(&first);
  return good;
}

static int name_seed(void **state) {
  (void)state;
  if (current >= 0) print_message("failed at seed %d\n", current);
  return 0;
}

static void test_seeds(void **state) {
  (void)state;
  int first = 0, count = rounds(1000, 10000);
  const char *seeds = getenv("TIDE_SEEDS");
  if (seeds && strchr(seeds, ':')) first = atoi(seeds);
  if (seeds) count = atoi(strchr(seeds, ':') ? strchr(seeds, ':') + 1 : seeds);
  for (int i = first; i < first + count; i++) {
    current = i;
    if (!run_seed((unsigned)i)) fail_msg("seed %d", i);
  }
  current = -1;
  print_message("%d graphs; %d times a worker was thought dead\n", count,
                alarms);
  assert_true(alarms <= 1 + count / 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_seeds, name_seed)};
  return cmocka_run_group_tests(tests, start, stop);
}
