/* hostile.c - graphs and parts that mean harm: none crashes, hangs or leaks.
 *
 * Random graphs with loops, branches, functions and variables are written,
 * changed by mutate.h, read again and run with a short deadline: whole, by a
 * session, and cut into parts, of which one is changed and all are run
 * together. An error is as good as a result. TIDE_SEEDS=n or first:n chooses
 * how many; TIDE_SOAK runs 100,000 changed graphs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/mutate.h"
#include "tests/engine/run/random_call.h"

#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "engine/plan/placer.h"
#include "engine/plan/plan.h"
#include "engine/run/session.h"

enum {
  GRAPHS = 6, /* changed graphs, and changed parts, of one seed */
  PARTS = 4,
  DEADLINE = 100000000,
  SHORT = 10000000, /* parts without their peers wait until then */
  HANGS = 120,      /* s */
  MEMORY = 64 << 20,
};

static volatile sig_atomic_t current = -1; /* the seed being run */
static int64_t accepted, refused, ran, late;

static void count_end(td_status *s) {
  td_code code = td_status_code(s);
  ran += code == TD_OK;
  late += code == TD_DEADLINE_EXCEEDED;
  td_status_release(s);
}

/* ---- a graph ------------------------------------------------------------- */

typedef struct asked {
  td_edge fetch[4], feed[2];
  td_tensor value[2];
  int n_fetches, n_feeds;
} asked;

static td_edge any_edge(mutation *m, const td_graph *g) {
  td_node *n = td_graph_node(g, (int32_t)any_of(m, (size_t)td_graph_size(g)));
  return (td_edge){n, (int32_t)any_of(m, (size_t)n->n_out + 1)};
}

/* Some edges, good or not; feeds of their dtype, of any shape that fits. */
static void ask(mutation *m, const td_graph *g, asked *a) {
  *a = (asked){.n_fetches = 1 + (int)any_of(m, 4)};
  for (int i = 0; i < a->n_fetches; i++) a->fetch[i] = any_edge(m, g);
  int feeds = (int)any_of(m, 3);
  for (int i = 0; i < feeds; i++) {
    td_edge e = any_edge(m, g);
    if (e.port >= e.node->n_out) continue;
    td_dtype t = td_edge_dtype(e);
    td_shape s = *td_edge_shape(e);
    if (t == TD_STRING || t == TD_RESOURCE || t == TD_VARIANT) continue;
    if (s.rank < 0) s = td_shape_scalar();
    for (int k = 0; k < s.rank; k++)
      if (s.dim[k] < 0 || s.dim[k] > 4) s.dim[k] = (int64_t)any_of(m, 4);
    OK(td_tensor_new(NULL, t, &s, &a->value[a->n_feeds]));
    memset(a->value[a->n_feeds].data, (int)any_of(m, 2),
           td_tensor_bytes(&a->value[a->n_feeds]));
    a->feed[a->n_feeds++] = e;
  }
}

/* All of the session is gone afterwards. */
static void run_graph(mutation *m, td_graph *g) {
  td_runtime *rt;
  td_session *s;
  asked a;
  td_runtime_options ro = {.memory_limit = MEMORY, .test_devices = 1};
  td_session_options so = {.threads = 2,
                           .cpu_devices = 1 + (int)any_of(m, 2),
                           .passes_off = any_of(m, 2) ? 0 : ~0U,
                           .verify = true,
                           .roundtrip = any_of(m, 3) == 0};
  td_step_options o = {.timeout = DEADLINE};
  OK(td_runtime_new(&ro, &rt));
  OK(td_session_new(rt, g, &so, &s));
  for (int round = 0; round < 2; round++) {
    td_tensor out[4];
    memset(out, 0, sizeof out);
    ask(m, g, &a);
    td_signature sig = {.feeds = a.feed,
                        .n_feeds = a.n_feeds,
                        .fetches = a.fetch,
                        .n_fetches = a.n_fetches};
    count_end(td_session_run(s, &sig, a.value, out, &o));
    for (int i = 0; i < a.n_fetches; i++) td_tensor_release(&out[i]);
    for (int i = 0; i < a.n_feeds; i++) td_tensor_release(&a.value[i]);
  }
  td_session_close(s);
  td_session_release(s);
  td_runtime_release(rt);
}

static void try_graph(const char *bytes, size_t len, uint64_t seed) {
  mutation m = {.seed = ~seed};
  char *changed;
  size_t changed_len;
  td_graph *g;
  if (!mutate(bytes, len, seed, &changed, &changed_len)) return;
  OK(td_graph_new(&g));
  td_status *s = td_graphdef_read(g, changed, changed_len, NULL);
  if (td_ok(s) && td_graph_size(g) > 0) {
    accepted++;
    run_graph(&m, g);
  } else {
    refused++;
  }
  td_status_release(s);
  td_graph_release(g);
  td_free(changed);
}

/* ---- parts --------------------------------------------------------------- */

typedef struct run {
  td_step step;
  td_program *program[4];
  int n, left; /* left: lock */
  td_status *status;
  pthread_mutex_t lock;
  pthread_cond_t wake;
} run;

static void part_over(void *arg, td_status *s) {
  run *r = arg;
  pthread_mutex_lock(&r->lock);
  r->status = td_status_first(r->status, s);
  r->left--;
  pthread_cond_signal(&r->wake);
  pthread_mutex_unlock(&r->lock);
}

static void too_late(void *arg) {
  run *r = arg;
  td_step_fail(&r->step, td_error(TD_DEADLINE_EXCEEDED, "too late"));
}

/* Runs all programs in one step, until they end or the deadline passes. */
static void run_parts(run *r, rig *home, int n_edges) {
  td_tensor rets[4];
  bool dead[4] = {false};
  memset(rets, 0, sizeof rets);
  td_team *team;
  r->step = (td_step){.id = 1,
                      .threads = 2,
                      .own = home->own,
                      .resources = td_runtime_resources(home->runtime),
                      .rets = rets,
                      .rets_dead = dead};
  OK(td_cancel_new(&r->step.cancel));
  OK(td_rendezvous_new(n_edges, &r->step.rendezvous));
  OK(td_team_new(2, &team));
  r->step.stop = td_cancel_flag(r->step.cancel);
  r->left = r->n;
  for (int i = 0; i < r->n; i++)
    OK(td_executor_start(r->program[i], &r->step, team, part_over, r));
  uint64_t timer = td_timer_start(td_clock_now() + SHORT, too_late, r);
  td_team_wake(team);
  pthread_mutex_lock(&r->lock);
  while (r->left > 0) pthread_cond_wait(&r->wake, &r->lock);
  pthread_mutex_unlock(&r->lock);
  td_timer_cancel(timer);
  while (!td_team_idle(team)) sched_yield();
  count_end(r->status);
  for (int i = 0; i < 4; i++) td_tensor_release(&rets[i]);
  td_team_release(team);
  td_rendezvous_free(r->step.rendezvous);
  td_cancel_release(r->step.cancel);
}

/* A part as whoever is sent it takes it. */
static td_status *take_part(rig *home, const td_plan *p, const char *bytes,
                            size_t len, td_device *device, int n_rets,
                            td_program **out) {
  td_graph *g;
  OK(td_graph_new(&g));
  *out = NULL;
  td_status *s = td_graphdef_read(g, bytes, len, NULL);
  if (td_ok(s)) s = td_program_new(g, device, home->states, NULL, out);
  if (td_ok(s)) s = td_program_fits(*out, 0, n_rets, p->n_edges);
  td_graph_release(g);
  return s;
}

/* Part `changed` of the plan is changed by `seed`, the others are as they are.
 */
static void try_parts(rig *home, const td_plan *p, int n_rets, int changed,
                      uint64_t seed) {
  run r = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
  td_status *s = NULL;
  for (int i = 0; i < p->n_parts && td_ok(s); i++) {
    char *bytes, *other;
    size_t len, other_len;
    OK(td_graphdef_write(p->parts[i].graph, &bytes, &len));
    if (i == changed && mutate(bytes, len, seed, &other, &other_len)) {
      td_free(bytes);
      bytes = other;
      len = other_len;
    }
    s = take_part(home, p, bytes, len, p->parts[i].device, n_rets,
                  &r.program[i]);
    if (!td_ok(s) && i != changed)
      fail_msg("a good part: %s", td_status_message(s));
    r.n = i + 1;
    td_free(bytes);
  }
  if (td_ok(s)) {
    accepted++;
    run_parts(&r, home, p->n_edges);
  } else {
    refused++;
    td_status_release(s);
  }
  for (int i = 0; i < r.n; i++) td_program_free(r.program[i]);
}

static td_status *cut(rig *home, drawn *d, const td_edge *fetch, int n,
                      td_placer **placer, td_plan **out) {
  td_device **devices;
  int n_devices;
  OK(td_runtime_devices(home->runtime, 2, &devices, &n_devices));
  td_placer_options o = {
      .devices = devices, .n_devices = n_devices, .soft = true};
  OK(td_placer_new(&o, placer));
  td_plan_request r = {.graph = d->graph,
                       .fetches = fetch,
                       .n_fetches = n,
                       .targets = d->init,
                       .n_targets = d->variables,
                       .placer = *placer,
                       .devices = devices,
                       .n_devices = n_devices};
  td_status *s = td_plan_new(&r, out);
  td_runtime_drop_devices(devices, n_devices);
  return s;
}

/* ---- one seed ------------------------------------------------------------ */

static void draw_graph(drawn *d, context *root) {
  for (int i = 0; i < 3; i++) fresh_value(d, root, TD_INVALID);
  make_variables(d, root);
  int ops = 4 + draw(d, 8);
  draw_ops(d, root, root, ops, 0);
}

static void run_seed(unsigned seed) {
  rig home;
  char *bytes;
  size_t len;
  rig_init(&home);
  drawn d = {.graph = home.graph, .seed = seed * 2654435761u + 1};
  context *root = context_new(NULL, 'r');
  draw_graph(&d, root);
  OK(td_graphdef_write(d.graph, &bytes, &len));
  for (uint64_t k = 0; k < GRAPHS; k++)
    try_graph(bytes, len, (uint64_t)seed << 32 | k);
  td_free(bytes);
  td_edge fetch[2] = {root->value[root->n - 1], root->value[0]};
  td_placer *placer;
  td_plan *p;
  OK(cut(&home, &d, fetch, 2, &placer, &p));
  for (uint64_t k = 0; k < PARTS; k++)
    try_parts(&home, p, 2, (int)k % p->n_parts, (uint64_t)seed << 32 | k);
  td_plan_free(p);
  td_placer_free(placer);
  free(root);
  rig_deinit(&home);
}

/* ---- many imports -------------------------------------------------------- */

/* Bytes that malloc has given out. */
static size_t taken(void) {
  return mallinfo2().uordblks;
}

static void import_and_run(const char *bytes, size_t len, const char *name) {
  td_graph *g;
  td_runtime *rt;
  td_session *s;
  td_tensor out;
  td_edge fetch;
  td_step_options o = {.timeout = 60000000000};
  OK(td_graph_new(&g));
  OK(td_graphdef_read(g, bytes, len, NULL));
  OK(td_graph_edge(g, name, &fetch));
  OK(td_runtime_new(NULL, &rt));
  OK(td_session_new(rt, g, NULL, &s));
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  OK(td_session_run(s, &sig, NULL, &out, &o));
  td_tensor_release(&out);
  td_session_release(s);
  td_runtime_release(rt);
  td_graph_release(g);
}

/* What is imported, run and dropped leaves nothing behind. */
static void test_imports(void **state) {
  (void)state;
  rig r;
  char *bytes;
  size_t len, before = 0;
  int n = rounds(1000, 10000);
  rig_init(&r);
  drawn d = {.graph = r.graph, .seed = 12345};
  context *root = context_new(NULL, 'r');
  for (int i = 0; i < 3; i++) fresh_value(&d, root, TD_INVALID);
  draw_ops(&d, root, root, 20, 0);
  OK(td_graphdef_write(d.graph, &bytes, &len));
  for (int i = 0; i < n; i++) {
    if (i == n / 10) before = taken();
    import_and_run(bytes, len, root->value[root->n - 1].node->name);
  }
  if (!SANITIZED) assert_in_range(taken(), 0, before + (256 << 10));
  td_free(bytes);
  free(root);
  rig_deinit(&r);
}

/* ---- all seeds ----------------------------------------------------------- */

/* A seed that crashes or hangs is named, on whatever thread. */
static void on_crash(int sig) {
  char line[60];
  int n = snprintf(line, sizeof line, "%s at seed %d\n",
                   sig == SIGALRM ? "hangs" : "crashed", (int)current);
  if (write(STDERR_FILENO, line, (size_t)n) < 0 || sig == SIGALRM) _exit(1);
}

/* ---- ends where none belong ---------------------------------------------- */

static td_edge end_of(rig *r, const char *op, const td_edge *in,
                      int64_t index) {
  td_build b;
  td_node *n;
  td_build_init(&b, r->graph, op, NULL);
  if (in) td_build_in(&b, *in);
  td_build_attr(&b, "T", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "index", td_attr_int(index));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

/* A user's graph that has an _Arg or _Retval is not run, whatever its index. */
static void test_ends_of_users(void **state) {
  (void)state;
  static const int64_t indices[] = {0, 1, 100000000, INT64_MAX};
  for (size_t k = 0; k < 2 * TD_COUNT(indices); k++) {
    rig r;
    td_session *s;
    td_tensor out;
    rig_init(&r);
    td_edge x = make_const(&r, TD_FLOAT32, 1, NULL);
    td_edge arg = end_of(&r, k % 2 ? "_Retval" : "_Arg", k % 2 ? &x : NULL,
                         indices[k / 2]);
    td_signature sig = {.targets = &arg.node, .n_targets = 1};
    OK(td_session_new(r.runtime, r.graph, NULL, &s));
    td_status *st = td_session_run(s, &sig, NULL, &out, NULL);
    assert_int_equal(td_status_code(st), TD_INVALID_ARGUMENT);
    assert_non_null(strstr(td_status_message(st), "only a part of a plan has"));
    assert_string_equal(td_status_node(st), arg.node->name);
    td_status_release(st);
    td_session_release(s);
    rig_deinit(&r);
  }
}

/* A part reaches for what its steps have, and sets each fetch once. */
static void test_ends_of_parts(void **state) {
  (void)state;
  static const struct {
    const char *op;
    int64_t index;
    const char *says; /* NULL: it fits */
  } rows[] = {{"_Arg", 1, NULL},
              {"_Arg", 2, "of the feeds"},
              {"_Arg", INT64_MAX, "of the feeds"},
              {"_Retval", 1, NULL},
              {"_Retval", 0, "has the number of another"},
              {"_Retval", 3, "of the fetches"},
              {"_Retval", 100000000, "of the fetches"}};
  for (size_t k = 0; k < TD_COUNT(rows); k++) {
    rig r;
    td_program *p = NULL;
    rig_init(&r);
    td_edge x = make_const(&r, TD_FLOAT32, 1, NULL);
    make_ret(&r, x, 0);
    end_of(&r, rows[k].op, rows[k].op[1] == 'R' ? &x : NULL, rows[k].index);
    td_status *s = td_program_new(r.graph, r.device, r.states, NULL, &p);
    if (td_ok(s)) s = td_program_fits(p, 2, 3, 0);
    assert_int_equal(td_ok(s), rows[k].says == NULL);
    if (s) assert_non_null(strstr(td_status_message(s), rows[k].says));
    td_status_release(s);
    td_program_free(p);
    rig_deinit(&r);
  }
}

/* In a loop there would be one in each iteration. */
static void test_ends_in_loops(void **state) {
  (void)state;
  rig r;
  td_program *p;
  rig_init(&r);
  td_edge x = make_const(&r, TD_FLOAT32, 1, NULL);
  make_ret(&r, make_enter(&r, x, "loop", false, 1), 0);
  td_status *s = td_program_new(r.graph, r.device, r.states, NULL, &p);
  assert_non_null(s);
  assert_non_null(strstr(td_status_message(s), "leaves it by Exit"));
  td_status_release(s);
  rig_deinit(&r);
}

static void test_seeds(void **state) {
  (void)state;
  int first = 0, count = soaked() ? 10000 : 500;
  const char *seeds = getenv("TIDE_SEEDS");
  if (seeds && strchr(seeds, ':')) first = atoi(seeds);
  if (seeds) count = atoi(strchr(seeds, ':') ? strchr(seeds, ':') + 1 : seeds);
  struct sigaction crash = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND};
  sigaction(SIGSEGV, &crash, NULL);
  sigaction(SIGABRT, &crash, NULL);
  sigaction(SIGALRM, &crash, NULL);
  for (int i = first; i < first + count; i++) {
    current = i;
    alarm(HANGS);
    run_seed((unsigned)i);
  }
  alarm(0);
  print_message("%d seeds: %lld accepted, %lld refused; %lld steps gave "
                "values, %lld ran into the deadline\n",
                count, (long long)accepted, (long long)refused, (long long)ran,
                (long long)late);
  assert_true(accepted + refused >= (int64_t)count * GRAPHS);
  assert_true(accepted * 10 >= refused && refused * 10 >= accepted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ends_of_users),
      cmocka_unit_test(test_ends_of_parts),
      cmocka_unit_test(test_ends_in_loops),
      cmocka_unit_test(test_imports),
      cmocka_unit_test(test_seeds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
