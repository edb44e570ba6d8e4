/* traces.c - steps that are traced over workers whose clocks differ.
 *
 * The simulator knows how far each process's clock is ahead: what a trace says
 * of it must be true within the error that it states, and no value may arrive
 * before it was sent beyond that error. Messages take as long as the seed
 * draws.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/remote/wire_impl.h"
#include "engine/run/trace.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/remote_client.h"
#include "tests/sim/seeds.h"

enum { WORKERS = 3, STEPS = 4 };

static const int64_t second = 1000000000;

typedef struct world {
  bool lies; /* the first worker, about its traces */
  remote_process at[WORKERS + 1];
  int64_t skew[WORKERS + 1];
  int64_t arrows, widest; /* of all errors, ns */
} world;

static int64_t all_arrows, refused;

/* ---- a worker that lies -------------------------------------------------- */

static const td_channel_ops *honest; /* of the channel that it sends by */
static td_channel_ops lying;

/* What may be wrong of a trace beside its bytes. */
static void lie(Td__Remote__Value *v) {
  switch (sim_draw(8)) {
  case 0:
    v->dtype = TD_FLOAT32;
    break;
  case 1:
    v->dead = true;
    break;
  case 2:
    v->bytes += 1 + sim_draw(UINT64_C(1) << 40);
    break;
  case 3:
    v->offer = 1 + sim_draw(1000); /* of nothing */
    break;
  default:
    break;
  }
}

/* A DONE with its trace, whose frame is the last, changed. */
static void change(td_raw *frames, int n) {
  td_head *head = td__remote__message__unpack(NULL, frames[0].len,
                                              (const uint8_t *)frames[0].at);
  assert_non_null(head);
  bool traced = head->body_case == TD__REMOTE__MESSAGE__BODY_DONE &&
                head->done->trace && !head->done->trace->offer;
  if (traced) {
    td_raw *last = &frames[n - 1], copy, packed;
    OK(td_raw_copy(last->at, last->len, &copy));
    for (uint64_t i = sim_draw(4); i > 0; i--)
      ((char *)copy.at)[sim_draw(copy.len)] = (char)sim_draw(256);
    td_raw_release(last);
    *last = copy;
    lie(head->done->trace);
    OK(td_wire_pack(head, &packed));
    td_raw_release(&frames[0]);
    frames[0] = packed;
  }
  td__remote__message__free_unpacked(head, NULL);
}

static td_status *send_lies(td_link *l, td_lane lane, td_raw *frames, int n) {
  if (lane == TD_LANE_CONTROL) change(frames, n);
  return honest->send(l, lane, frames, n);
}

static void corrupt(td_channel *c) {
  honest = c->ops;
  lying = *honest;
  lying.send = send_lies;
  c->ops = &lying;
}

/* ---- processes ----------------------------------------------------------- */

static void start(void *arg, cluster_process *p) {
  world *w = arg;
  remote_process *r = &w->at[p->place];
  p->self = r;
  remote_counts_process(p->node, p->number, p->place);
  if (w->lies && p->place == 1) corrupt(p->channel);
  remote_process_start(r, p, &(remote_workload){.workers = WORKERS});
}

static void stop(void *arg, cluster_process *p) {
  (void)arg;
  remote_process_stop(p->self);
}

/* ---- one step ------------------------------------------------------------ */

static td_status *run(td_session *s, const remote_graph *g, td_trace *t) {
  td_tensor in[2], out[2];
  td_shape shape = td_shape_vector(1 + (int64_t)sim_draw(40000));
  td_edge feeds[2] = {g->id, g->x}, fetches[2] = {g->y, g->turned};
  OK(td_tensor_scalar_i(TD_INT64, 1, &in[0]));
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &in[1]));
  memset(in[1].data, 0, td_tensor_bytes(&in[1]));
  td_signature sig = {
      .feeds = feeds, .n_feeds = 2, .fetches = fetches, .n_fetches = 2};
  td_status *st =
      td_session_run(s, &sig, in, out, &(td_step_options){.trace = t});
  for (int i = 0; i < 2; i++) {
    td_tensor_release(&in[i]);
    if (td_ok(st)) td_tensor_release(&out[i]);
  }
  return st;
}

/* ---- what it says -------------------------------------------------------- */

static void check_tasks(const world *w, td_trace *t) {
  size_t n;
  int64_t events;
  assert_non_null(td_trace_events(t, &events));
  const td_trace_task *task = td_trace_tasks(t, &n);
  assert_int_equal(n, WORKERS);
  for (size_t i = 0; i < n; i++) {
    int worker = task[i].task[strlen(task[i].task) - 1] - '0';
    int64_t wrong = task[i].clock - (w->skew[worker + 1] - w->skew[0]);
    assert_string_equal(task[i].trouble, "");
    if (wrong > task[i].error || -wrong > task[i].error)
      fail_msg("%s: %lld ns ahead, wrong by %lld, and not within %lld",
               task[i].task, (long long)task[i].clock, (long long)wrong,
               (long long)task[i].error);
  }
}

static void check_arrows(world *w, td_trace *t) {
  int64_t n, span = 0;
  size_t count;
  td_trace_arrow *a;
  const td_trace_event *e = td_trace_events(t, &n);
  td_trace_arrows(t, &a, &count);
  for (int64_t i = 0; i < n; i++)
    if (e[i].end - e[0].start > span) span = e[i].end - e[0].start;
  assert_true(count >= WORKERS - 1 + REMOTE_TURNS);
  for (size_t i = 0; i < count; i++) {
    /* Of a long step the clocks may run apart. */
    if (e[a[i].to].end + span / 9000 + 100 < e[a[i].from].start)
      fail_msg(
          "%s arrived %lld ns before it was sent, in %lld", e[a[i].to].node,
          (long long)(e[a[i].from].start - e[a[i].to].end), (long long)span);
    if (a[i].error > w->widest) w->widest = a[i].error;
  }
  w->arrows += (int64_t)count;
  td_free(a);
}

/* Whatever one said, the step is as good, and what is told can be shown. */
static void check_lies(td_trace *t) {
  int64_t n;
  size_t tasks;
  td_str chrome = {0};
  const td_trace_event *e = td_trace_events(t, &n);
  const td_trace_task *task = td_trace_tasks(t, &tasks);
  assert_int_equal(tasks, WORKERS);
  for (size_t i = 0; i < tasks; i++) {
    bool lied = *task[i].trouble != 0;
    assert_true(!lied || strstr(task[i].task, "task:0"));
    for (int64_t k = 0; lied && k < n; k++)
      assert_false(td_trace_is_of(e[k].device, task[i].task));
    refused += lied;
  }
  td_trace_chrome(t, &chrome);
  assert_false(chrome.failed);
  td_str_deinit(&chrome);
}

static void trace_steps(world *w, td_session *s, const remote_graph *g) {
  for (int i = 0; i < STEPS; i++) {
    td_trace *t;
    OK(td_trace_new(&t));
    OK(run(s, g, t));
    if (w->lies) {
      check_lies(t);
    } else {
      check_tasks(w, t);
      check_arrows(w, t);
    }
    td_trace_release(t);
  }
}

/* ---- a seed -------------------------------------------------------------- */

/* Inside of the client. */
static void use(world *w) {
  remote_graph g;
  td_session *s;
  remote_graph_init(&g, WORKERS);
  td_session_options o = {.threads = 2};
  OK(td_session_new(w->at[0].runtime, g.graph, &o, &s));
  for (int i = 0; i < WORKERS; i++) {
    char address[32];
    td_member *m;
    snprintf(address, sizeof address, "sim://place%d", i + 1);
    td_attach_options to = {.to = {address, NULL, NULL},
                            .timeout = 60 * second};
    OK(td_remote_attach(w->at[0].remote, s, &to, &m));
  }
  trace_steps(w, s, &g);
  td_session_close(s);
  td_session_release(s);
  remote_graph_deinit(&g);
}

static uint64_t run_world(unsigned seed, bool lies) {
  world w = {.lies = lies};
  history *h = history_new();
  sim_begin(seed, false);
  remote_counts_begin(h);
  cluster *c = cluster_new(&(cluster_options){.places = WORKERS + 1,
                                              .span = second,
                                              .shortest = 1,
                                              .longest = 2,
                                              .start = start,
                                              .stop = stop,
                                              .arg = &w});
  for (int i = 0; i <= WORKERS; i++) {
    w.skew[i] = (int64_t)sim_draw((uint64_t)(1000 * second));
    sim_shift(cluster_at(c, i)->node, w.skew[i]);
  }
  cluster_pass(c, 3 * second);
  sim_enter(cluster_at(c, 0)->node);
  use(&w);
  sim_leave();
  all_arrows += w.arrows;
  cluster_free(c);
  history_free(h);
  assert_int_equal(sim_frames_left(), 0);
  return sim_hash();
}

static uint64_t run_seed(unsigned seed) {
  return run_world(seed, false);
}

static uint64_t lying_seed(unsigned seed) {
  return run_world(seed, true);
}

static void clocks_are_known(void **state) {
  (void)state;
  (void)run_seed(0); /* what is made once in a process */
  forget_seen();
  int n = run_seeds("traces", 150, 20000, run_seed);
  print_message("%d seeds, each twice; %lld arrows\n", n,
                (long long)all_arrows);
}

static void lies_are_refused(void **state) {
  (void)state;
  int n = run_seeds("lies", 150, 20000, lying_seed);
  print_message("%d seeds, each twice; %lld traces refused\n", n,
                (long long)refused);
  assert_true(refused > n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(clocks_are_known, name_seed),
      cmocka_unit_test_teardown(lies_are_refused, name_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
