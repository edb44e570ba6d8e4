/* queues.c - steps of two sessions meet at a queue, as a seed orders them.
 *
 * Who puts and who takes are actors: each starts a step, looks after it now and
 * then, cancels it perhaps, and starts the next, until somebody closes the
 * queue. All steps run on the simulated pool, on one thread. Then what came out
 * must be what a queue of that kind may give: nothing twice, lost only what
 * went with a cancelled step, in order. Each seed runs twice: the order of
 * events and all that was seen make one hash, which must be the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include "engine/run/async.h"
#include "engine/run/session.h"
#include "tests/kernels/queues.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/seeds.h"

enum { SESSIONS = 2, ACTORS = 6, OPERATIONS = 5, MOST = 3, ELEMENTS = 128 };

typedef enum act { PUT, PUT_MANY, TAKE, MANY, UP_TO, CLOSE, ACTS } act;

/* What is known of an element: times count operations begun and seen to be
 * over. */
typedef struct element {
  int64_t id; /* its place in the table is in the low bits */
  int put_begin, put_end, took_begin, took_end;
  bool certain, took; /* certain: its step did not fail */
} element;

typedef struct actor {
  bool puts, stopped;
  bool calm; /* never in a hurry */
  int left;  /* operations to begin */
  act act;
  td_async *step;
  int begin, first, n; /* elements that it puts, or how many it asks for */
} actor;

typedef struct world {
  td_graph *graph;
  td_runtime *runtime;
  td_session *session[SESSIONS];
  td_callable *callable[SESSIONS][ACTS];
  td_edge feed[ACTS], node[ACTS];
  int kind, clock, put, gone;
  bool closed;
  element at[ELEMENTS];
  actor actor[ACTORS];
  uint64_t hash;
} world;

static int64_t all_events, all_taken;

static const char *const kinds[] = {"FIFOQueueV2", "PaddingFIFOQueueV2",
                                    "RandomShuffleQueueV2", "PriorityQueueV2"};

static void note(world *w, int64_t what) {
  w->hash = (w->hash ^ (uint64_t)what) * 0x100000001B3u;
}

/* ---- the graph ----------------------------------------------------------- */

static td_edge placeholder(world *w, td_dtype dtype, td_shape shape) {
  td_build b;
  td_edge e = {NULL, 0};
  td_build_init(&b, w->graph, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(dtype));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  OK(td_build_node(&b, &e.node));
  return e;
}

static void build(world *w) {
  static const int capacities[] = {1, 2, 4, -1};
  td_graph *g = w->graph;
  td_dtype type = TD_INT64;
  td_edge q;
  queue_spec s = int_queue(kinds[w->kind], capacities[sim_draw(4)]);
  s.seed = 1 + (int64_t)sim_draw(100);
  s.container = "shared";
  OK(queue_node(g, &s, &q));
  td_edge x = placeholder(w, TD_INT64, td_shape_scalar());
  td_edge xs = placeholder(w, TD_INT64, td_shape_vector(-1));
  td_edge n = placeholder(w, TD_INT32, td_shape_scalar());
  OK(enqueue_node(g, false, q, &x, 1, &w->node[PUT]));
  OK(enqueue_node(g, true, q, &xs, 1, &w->node[PUT_MANY]));
  OK(dequeue_node(g, q, NULL, false, &type, 1, &w->node[TAKE]));
  OK(dequeue_node(g, q, &n, false, &type, 1, &w->node[MANY]));
  OK(dequeue_node(g, q, &n, true, &type, 1, &w->node[UP_TO]));
  OK(close_node(g, q, sim_draw(2), &w->node[CLOSE]));
  w->feed[PUT] = x;
  w->feed[PUT_MANY] = xs;
  w->feed[MANY] = w->feed[UP_TO] = n;
}

static bool takes(act a) {
  return a == TAKE || a == MANY || a == UP_TO;
}

static td_callable *callable_of(world *w, int session, act a) {
  td_callable **c = &w->callable[session][a];
  td_signature sig = {.feeds = &w->feed[a],
                      .n_feeds = w->feed[a].node != NULL,
                      .fetches = &w->node[a],
                      .n_fetches = takes(a),
                      .targets = &w->node[a].node,
                      .n_targets = !takes(a)};
  if (!*c) OK(td_callable_new(w->session[session], &sig, c));
  return *c;
}

static void open_world(world *w, unsigned seed) {
  *w = (world){.kind = (int)(seed % TD_COUNT(kinds))};
  OK(td_graph_new(&w->graph));
  OK(td_runtime_new(NULL, &w->runtime));
  build(w);
  for (int i = 0; i < SESSIONS; i++) {
    td_session_options o = {.threads = 1 + (int)sim_draw(3),
                            .roundtrip = sim_draw(4) == 0};
    OK(td_session_new(w->runtime, w->graph, &o, &w->session[i]));
  }
  for (int i = 0; i < ACTORS; i++)
    w->actor[i] = (actor){.puts = i % 2 == 0, .left = OPERATIONS};
}

static void close_world(world *w) {
  for (int i = 0; i < SESSIONS; i++) {
    for (int k = 0; k < ACTS; k++) td_callable_release(w->callable[i][k]);
    td_session_close(w->session[i]);
    td_session_release(w->session[i]);
  }
  while (sim_waiting()) sim_step(0);
  td_runtime_release(w->runtime);
  td_graph_release(w->graph);
}

/* ---- actors -------------------------------------------------------------- */

/* New elements, whose ids are ranks in no order. */
static td_tensor new_elements(world *w, actor *a) {
  td_tensor t;
  int64_t id[MOST] = {0};
  td_shape shape = a->act == PUT ? td_shape_scalar() : td_shape_vector(a->n);
  a->first = w->put;
  for (int i = 0; i < a->n; i++, w->put++) {
    id[i] = (int64_t)sim_draw(1000) * ELEMENTS + w->put;
    w->at[w->put] =
        (element){.id = id[i], .put_begin = a->begin, .put_end = INT32_MAX};
  }
  OK(td_tensor_from(TD_INT64, &shape, id, &t));
  return t;
}

static void start(world *w, actor *a, act what) {
  td_step_options o = {.timeout = 0};
  td_tensor feed = {.dtype = TD_INVALID};
  if (!a->calm && sim_draw(6) == 0) o.timeout = 1 + (int64_t)sim_draw(300000);
  a->act = what;
  a->stopped = o.timeout > 0;
  a->begin = w->clock++;
  a->n = what == PUT || what == TAKE ? 1 : 1 + (int)sim_draw(MOST);
  if (what == PUT || what == PUT_MANY) feed = new_elements(w, a);
  if (what == MANY || what == UP_TO)
    OK(td_tensor_scalar_i(TD_INT32, a->n, &feed));
  OK(td_async_start(callable_of(w, (int)sim_draw(SESSIONS), what), &feed, &o,
                    &a->step));
  td_tensor_release(&feed);
}

static void take_in(world *w, const actor *a, const td_tensor *t) {
  for (int64_t i = 0; i < td_tensor_count(t); i++) {
    int64_t id = td_tensor_get_i(t, i);
    element *e = &w->at[id % ELEMENTS];
    note(w, id);
    if (e->id != id) fail_msg("%d was never put", (int)id);
    if (e->took) fail_msg("%d came twice", (int)id);
    e->took = true;
    e->took_begin = a->begin;
    e->took_end = w->clock;
    all_taken++;
  }
}

/* Which errors there may be. */
static void check_code(const world *w, const actor *a, td_code code) {
  bool stop = code == TD_CANCELLED || code == TD_DEADLINE_EXCEEDED;
  bool late = code == (takes(a->act) ? TD_OUT_OF_RANGE : TD_CANCELLED);
  if (code == TD_OK || (stop && a->stopped) || (late && w->closed)) return;
  fail_msg("act %d ended with code %d", a->act, (int)code);
}

static void over(world *w, actor *a, td_status *s, td_tensor *out) {
  td_code code = td_status_code(s);
  note(w, code);
  check_code(w, a, code);
  for (int i = 0; !takes(a->act) && a->act != CLOSE && i < a->n; i++) {
    element *e = &w->at[a->first + i];
    e->put_end = w->clock;
    e->certain = code == TD_OK;
  }
  if (takes(a->act) && code == TD_OK) take_in(w, a, out);
  if (takes(a->act) && code != TD_OK && a->stopped) w->gone += a->n;
  w->clock++;
  td_status_release(s);
  td_tensor_release(out);
  td_async_release(a->step);
  a->step = NULL;
}

static void look(world *w, actor *a) {
  td_tensor out = {.dtype = TD_INVALID};
  if (sim_draw(12) == 0) {
    a->stopped = true;
    td_async_cancel(a->step);
  }
  td_status *s =
      td_async_wait(a->step, 1 + (int64_t)sim_draw(100000), &out, NULL);
  if (td_status_code(s) == TD_DEADLINE_EXCEEDED && !td_async_done(a->step))
    td_status_release(s);
  else
    over(w, a, s, &out);
}

/* Waits for it, so that there is an end. */
static void finish(world *w, actor *a) {
  td_tensor out = {.dtype = TD_INVALID};
  td_status *s = td_async_wait(a->step, -1, &out, NULL);
  over(w, a, s, &out);
}

static void look_at_queue(const world *w) {
  td_resource *r = NULL;
  td_status *s = td_resources_get(td_runtime_resources(w->runtime), "shared",
                                  td_queue_type, "q", NULL, NULL, &r);
  td_status_release(s);
  if (!r) return; /* not made yet */
  if (queue_forgot((td_queue *)r)) fail_msg("somebody waits who could go on");
  td_object_release(&r->object);
}

static void go_on(world *w, actor *a) {
  look_at_queue(w);
  if (a->step) {
    look(w, a);
  } else if (a->left > 0) {
    a->left--;
    start(w, a, (act)((a->puts ? PUT : TAKE) + sim_draw(a->puts ? 2 : 3)));
  }
}

/* Somebody closes it, at any time; then all that is left comes out. */
static void run(world *w) {
  actor closer = {.calm = true}, last = {.calm = true};
  int steps = 20 + (int)sim_draw(120);
  for (int i = 0; i < steps; i++) go_on(w, &w->actor[sim_draw(ACTORS)]);
  w->closed = true;
  start(w, &closer, CLOSE);
  for (int i = 0; i < 3 * ACTORS; i++) go_on(w, &w->actor[sim_draw(ACTORS)]);
  for (bool more = true; more;) {
    int had = w->gone + (int)all_taken;
    start(w, &last, TAKE);
    finish(w, &last);
    more = w->gone + (int)all_taken != had;
  }
  for (int i = 0; i < ACTORS; i++)
    if (w->actor[i].step) finish(w, &w->actor[i]);
  finish(w, &closer);
}

/* ---- what came out ------------------------------------------------------- */

static int earlier(int a, int b) {
  return a < b ? a : b;
}

static int later(int a, int b) {
  return a > b ? a : b;
}

/* `a` was in before `b` was, and `b` out before `a`. */
static bool turned(const element *a, const element *b) {
  return earlier(a->put_end, a->took_end) < b->put_begin &&
         b->took_end < later(a->took_begin, a->put_begin);
}

/* `a` was there while `b` was taken. */
static bool passed_over(const element *a, const element *b) {
  return a->id < b->id && a->certain && a->put_end < b->took_begin &&
         b->took_end < a->took_begin;
}

static void check(const world *w) {
  int missing = 0;
  for (int i = 0; i < w->put; i++) {
    const element *a = &w->at[i];
    missing += a->certain && !a->took;
    for (int k = 0; a->took && k < w->put; k++) {
      const element *b = &w->at[k];
      if (!b->took) continue;
      if (w->kind <= 1 && turned(a, b))
        fail_msg("%d and %d were turned around", (int)a->id, (int)b->id);
      if (w->kind == 3 && passed_over(a, b))
        fail_msg("%d came though %d was there", (int)b->id, (int)a->id);
    }
  }
  if (missing > w->gone)
    fail_msg("%d are lost, %d went with steps", missing, w->gone);
}

static uint64_t run_seed(unsigned seed) {
  world w;
  sim_begin(seed, false);
  open_world(&w, seed);
  run(&w);
  check(&w);
  close_world(&w);
  all_events += sim_events();
  return w.hash ^ sim_hash();
}

static void two_runs_of_a_seed_are_one(void **state) {
  (void)state;
  (void)run_seed(0); /* what a process does once */
  int count = run_seeds("queues", 1000, 20000, run_seed);
  print_message("%d seeds, each twice; %lld events, %lld elements\n", count,
                (long long)all_events, (long long)all_taken);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(two_runs_of_a_seed_are_one, name_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
