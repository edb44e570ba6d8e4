/* random_graphs.c - random graphs give the same bits however they are run.
 *
 * Each seed's graph runs on one thread and device without passes, then with
 * passes, threads, two devices, the test device and parts sent through bytes. A
 * node of four asks for no device: it follows others, is spread, or tries the
 * test device first. TIDE_SEEDS=n or first:n chooses how many; TIDE_SOAK runs
 * ten thousand. TIDE_TOLERANCE=1e-4 lets floats be apart by so much of the
 * largest of a tensor: what a card adds in another order has other bits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/random_draw.h"

#include <signal.h>
#include <unistd.h>

#include "engine/base/map.h"
#include "engine/run/session.h"

typedef struct outcome {
  td_code code;
  td_tensor value[MOST_FETCHES + MOST_VARIABLES];
  int n;
} outcome;

typedef struct setting {
  const char *name;
  int threads, cpus;
  bool test, passes, roundtrip, spread;
} setting;

static const setting settings[] = {
    {"one device, one thread, no passes", 1, 1, false, false, false, false},
    {"two threads, passes", 2, 1, false, true, false, false},
    {"two devices", 1, 2, false, true, false, false},
    {"two devices, two threads, no passes", 2, 2, false, false, false, false},
    {"two devices, through bytes", 2, 2, false, true, true, false},
    {"test device", 2, 2, true, true, false, false},
    {"test device, through bytes, no passes", 1, 2, true, false, true, false},
    {"two devices, spread, through bytes", 2, 2, false, true, true, true},
    {"test device, spread, no passes", 2, 2, true, false, false, true},
};

static volatile sig_atomic_t current = -1; /* the seed being run */
static td_map histogram;
static int64_t loops, live, in_frames, across;

/* ---- one way of running ---- */

static void run_all(td_session *s, drawn *d, const td_edge *fetch, int n,
                    outcome *o) {
  td_step_options options = {.timeout = 20000000000};
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

/* ---- one seed ---- */

static double largest(const td_tensor *t) {
  double most = 0;
  for (int64_t i = 0; i < td_tensor_count(t); i++) {
    double x = fabs((double)((const float *)t->data)[i]);
    if (isfinite(x) && x > most) most = x;
  }
  return most;
}

/* Within TIDE_TOLERANCE, if there is one and these are floats. */
static bool near_value(const td_tensor *a, const td_tensor *b) {
  const char *text = getenv("TIDE_TOLERANCE");
  if (same_value(a, b)) return true;
  if (!text || a->dtype != TD_FLOAT32 || b->dtype != TD_FLOAT32 ||
      !td_shape_equal(&a->shape, &b->shape))
    return false;
  double allowed = strtod(text, NULL) * fmax(1, largest(a));
  for (int64_t i = 0; i < td_tensor_count(a); i++) {
    double x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
    if (isnan(x) != isnan(y)) return false;
    if (!isnan(x) && x != y && !(fabs(x - y) <= allowed)) return false;
  }
  return true;
}

static void count_ops(const drawn *d) {
  for (int32_t i = 0; i < td_graph_size(d->graph); i++) {
    const char *op = td_graph_node(d->graph, i)->op->type;
    uintptr_t n = (uintptr_t)td_map_get(&histogram, op);
    assert_true(td_map_put(&histogram, op, (void *)(n + 1)));
  }
  loops += d->loops;
  live += d->live_loops;
  in_frames += d->edges_in_frames;
  across += d->edges_across;
}

static bool run_setting(const setting *w, drawn *d, const td_edge *fetch, int n,
                        outcome *o) {
  td_runtime *rt;
  td_session *s;
  td_runtime_options ro = {.test_devices = w->test ? 1 : 0};
  td_session_options so = {.threads = w->threads,
                           .cpu_devices = w->cpus,
                           .passes_off = w->passes ? 0 : ~0U,
                           .verify = true,
                           .roundtrip = w->roundtrip,
                           .spread = w->spread,
                           .first = w->test && !w->spread ? device_type("TEST")
                                                          : NULL};
  OK(td_runtime_new(&ro, &rt));
  OK(td_session_new(rt, d->graph, &so, &s));
  run_all(s, d, fetch, n, o);
  td_session_close(s);
  td_session_release(s);
  td_runtime_release(rt);
  return o->code == TD_OK;
}

static bool run_seed(unsigned seed) {
  rig r;
  rig_init(&r);
  drawn d;
  td_edge fetch[MOST_FETCHES];
  int n = draw_graph(&d, r.graph, seed, fetch);
  count_ops(&d);
  outcome first, o;
  bool good = run_setting(&settings[0], &d, fetch, n, &first);
  for (size_t k = 1; good && k < TD_COUNT(settings); k++) {
    good = run_setting(&settings[k], &d, fetch, n, &o);
    for (int i = 0; good && i < o.n; i++)
      if (!near_value(&first.value[i], &o.value[i])) {
        good = false;
        print_message("value %d (%s) differs\n", i,
                      i < n ? fetch[i].node->name : "a variable");
      }
    if (!good) print_message("seed %u: %s\n", seed, settings[k].name);
    drop(&o);
  }
  drop(&first);
  rig_deinit(&r);
  return good;
}

/* A seed that crashes is named too, on whatever thread; memory may be what is
 * broken, so none is taken. */
static void on_crash(int sig) {
  char line[40];
  (void)sig;
  int n = snprintf(line, sizeof line, "crashed at seed %d\n", (int)current);
  if (write(STDERR_FILENO, line, (size_t)n) < 0) _exit(1);
}

static int name_seed(void **state) {
  (void)state;
  if (current >= 0) print_message("failed at seed %d\n", (int)current);
  return 0;
}

static void test_seeds(void **state) {
  (void)state;
  int first = 0, count = rounds(500, 10000);
  const char *seeds = getenv("TIDE_SEEDS");
  if (seeds && strchr(seeds, ':')) first = atoi(seeds);
  if (seeds) count = atoi(strchr(seeds, ':') ? strchr(seeds, ':') + 1 : seeds);
  struct sigaction crash = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND};
  sigaction(SIGSEGV, &crash, NULL);
  sigaction(SIGBUS, &crash, NULL);
  sigaction(SIGABRT, &crash, NULL);
  td_map_init(&histogram);
  for (int i = first; i < first + count; i++) {
    current = i;
    if (!run_seed((unsigned)i)) fail_msg("seed %d", i);
  }
  current = -1;
  const td_map_entry *e;
  for (size_t i = 0; td_map_next(&histogram, &i, &e);) {
    print_message("%8zu %s\n", (size_t)e->value, e->key);
    if (count >= 500 && (uintptr_t)e->value < 50)
      fail_msg("%s was drawn only %zu times", e->key, (size_t)e->value);
  }
  print_message("%d seeds, %lld loops, %.0f %% live; %.0f %% of the edges in "
                "frames and branches cross devices\n",
                count, (long long)loops, 100.0 * (double)live / (double)loops,
                100.0 * (double)across / (double)in_frames);
  assert_true(live * 5 >= loops);
  assert_true(across * 10 >= in_frames * 3);
  td_map_deinit(&histogram);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_seeds, name_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
