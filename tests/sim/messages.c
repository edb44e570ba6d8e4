/* messages.c - tests of the simulated processes and their network.
 *
 * Three processes: one asks two others, which answer each message with its own
 * bytes, until each of a hundred was answered: what is not is asked again. So
 * under every fault, which stops after a while, all comes through in the end.
 * Each seed runs twice with one hash. Over all seeds each fault must have
 * happened.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tests/check.h"
#include "tests/sim/base/sim.h"
#include "tests/sim/network.h"
#include "tests/sim/seeds.h"

enum { ASKED = 100, PROCESSES = 3, LENGTH = 300 };
static const int64_t ms = 1000000, second = 1000000000;

/* What goes wrong in a run. */
typedef enum wrong {
  NOTHING,
  DROP,
  DUPLICATE,
  REORDER,
  SLOW,
  CUT,
  CUT_ONE_WAY,
  PAUSE,
  KILL,
  KEY,
  MECHANISM,
  HANDSHAKE,
  EVERYTHING,
  WRONGS
} wrong;

static int64_t all_events;
static const char *const troubles[] = {"trouble: lost", "trouble: unreached",
                                       "trouble: key", "trouble: mechanism",
                                       "trouble: handshake"};

typedef struct world world;

typedef struct process {
  world *w;
  sim_node_t node;
  td_channel *channel;
  td_link *to[PROCESSES]; /* of the first: the others */
  bool dead;
  int64_t unreleased; /* frames it sent */
} process;

struct world {
  sim_network *net;
  process process[2 * PROCESSES]; /* behind: those that took a place */
  int n;
  int place[PROCESSES]; /* which process is there */
  bool answered[ASKED];
  int left, last[PROCESSES];
  int turned;
  wrong what;
};

/* ---- messages ------------------------------------------------------------ */

static void released(void *arg) {
  process *p = arg;
  assert_int_equal(sim_here(), p->node);
  p->unreleased--;
}

static void say(process *p, td_link *l, td_lane lane, int number) {
  static unsigned char bytes[ASKED][LENGTH];
  for (int i = 0; i < LENGTH; i++)
    bytes[number][i] = (unsigned char)(number + i);
  td_raw frame[2] = {{&bytes[number], 1, released, p},
                       {&bytes[number], LENGTH, released, p}};
  p->unreleased += 2;
  td_status *s = p->channel->ops->send(l, lane, frame, 2);
  assert_true(td_ok(s) || td_status_code(s) == TD_UNAVAILABLE);
  for (int i = 0; i < 2 && !td_ok(s); i++) td_raw_release(&frame[i]);
  td_status_release(s);
}

static void answered(process *p, td_link *l, int number) {
  world *w = p->w;
  int who = *(int *)l->owner;
  if (number < w->last[who]) w->turned++;
  w->last[who] = number;
  w->left -= !w->answered[number];
  w->answered[number] = true;
}

static void on_message(void *arg, td_link *l, td_lane lane, td_raw *frames,
                       int n) {
  process *p = arg;
  assert_int_equal(sim_here(), p->node);
  assert_int_equal(n, 2);
  assert_int_equal(frames[0].len, 1);
  assert_int_equal(frames[1].len, LENGTH);
  const unsigned char *bytes = frames[1].at;
  int number = *(const unsigned char *)frames[0].at;
  for (int i = 0; i < LENGTH; i++)
    assert_int_equal(bytes[i], (unsigned char)(number + i));
  for (int i = 0; i < n; i++) td_raw_release(&frames[i]);
  if (l->dialled)
    answered(p, l, number);
  else
    say(p, l, lane, number);
}

static void on_trouble(void *arg, td_link *l, td_trouble what) {
  process *p = arg;
  assert_int_equal(sim_here(), p->node);
  assert_true(l->dialled);
  sometimes(troubles[what]);
}

static void on_ready(void *arg) {
  process *p = arg;
  (void)p->channel->ops->drain(p->channel, 1 + (int)sim_draw(4));
}

/* ---- processes ----------------------------------------------------------- */

static void start(world *w, int place) {
  char address[20];
  process *p = &w->process[w->n];
  *p = (process){.w = w, .node = sim_node()};
  w->place[place] = w->n++;
  snprintf(address, sizeof address, "sim://p%d", place);
  OK(sim_channel_new(w->net, p->node, place ? address : NULL, &p->channel));
  p->channel->events = (td_channel_events){on_message, on_trouble, p};
  sim_channel_on_ready(p->channel, on_ready, p);
}

static void stop(void *arg) {
  process *p = arg;
  p->channel->ops->free(p->channel);
  p->channel = NULL;
}

static process *at(world *w, int place) {
  return &w->process[w->place[place]];
}

static void dial(world *w) {
  static int number[PROCESSES] = {0, 1, 2};
  process *p = at(w, 0);
  sim_enter(p->node);
  for (int i = 1; i < PROCESSES; i++) {
    td_channel *peer = at(w, i)->channel;
    td_dial to = {.control = peer->ops->address(peer, TD_LANE_CONTROL)};
    if (i == 1) to.data = peer->ops->address(peer, TD_LANE_DATA);
    OK(p->channel->ops->dial(p->channel, &to, &p->to[i]));
    p->to[i]->owner = &number[i];
    if (i > 1)
      OK(p->channel->ops->dial_data(p->to[i],
                                    peer->ops->address(peer, TD_LANE_DATA)));
  }
  sim_leave();
}

static void ask(world *w, int first, int n) {
  process *p = at(w, 0);
  sim_enter(p->node);
  for (int i = first; i < first + n && i < ASKED; i++)
    if (!w->answered[i])
      say(p, p->to[1 + i % 2], (td_lane)(i / 2 % TD_LANES), i);
  sim_leave();
}

/* The world's time passes. */
static void pass(int64_t ns) {
  for (int64_t end = sim_clock(SIM_WORLD) + ns; sim_clock(SIM_WORLD) < end;)
    sim_step(end);
}

/* ---- what goes wrong ----------------------------------------------------- */

static void restart(world *w, int place) {
  process *old = at(w, place);
  sim_network_kill(w->net, old->node);
  old->dead = true;
  pass((int64_t)sim_draw((uint64_t)second));
  start(w, place);
  sim_network_inherit(w->net, old->node, at(w, place)->node);
}

static void one_goes_wrong(world *w, wrong what) {
  sim_network *net = w->net;
  sim_node_t a = at(w, 0)->node, b = at(w, 1 + (int)sim_draw(2))->node;
  if (what >= DROP && what <= SLOW)
    sim_network_fault(net, SIM_ANY, SIM_ANY, (sim_fault)(what - DROP), 300);
  if (what == CUT || what >= KEY) sim_network_cut(net, a, b);
  if (what == CUT || what == CUT_ONE_WAY) sim_network_cut(net, b, a);
  if (what == PAUSE) sim_pause(b);
  if (what == KILL) restart(w, 1 + (int)sim_draw(2));
  if (what < KEY || what > HANDSHAKE) return;
  pass(4 * second);
  sim_network_heal(net, a, b);
  sim_network_refuse(net, a, b, (td_trouble)(TD_TROUBLE_KEY + what - KEY));
}

static void go_wrong(world *w) {
  if (w->what != EVERYTHING) {
    one_goes_wrong(w, w->what);
    return;
  }
  for (int i = DROP; i < EVERYTHING; i++)
    if (sim_draw(2)) one_goes_wrong(w, (wrong)i);
}

static void heal(world *w) {
  sim_network_heal(w->net, SIM_ANY, SIM_ANY);
  for (int i = 0; i < w->n; i++) sim_go_on(w->process[i].node);
}

/* ---- one seed ------------------------------------------------------------ */

static void close_world(world *w) {
  for (int i = 0; i < w->n; i++) {
    process *p = &w->process[i];
    assert_int_equal(sim_dead(p->node), p->dead);
    sim_tidy(p->node, stop, p);
    assert_int_equal(p->unreleased, 0);
  }
  for (int i = 0; i < SAW_KINDS; i++)
    if (sim_network_saw(w->net, (sim_saw)i)) sometimes(sim_saw_names[i]);
  sim_network_free(w->net);
  assert_int_equal(sim_frames_left(), 0);
}

static void check_calm(world *w) {
  if (w->what != NOTHING) return;
  assert_int_equal(sim_network_saw(w->net, SAW_LOST), 0);
  assert_int_equal(sim_network_saw(w->net, SAW_OVERTAKEN), 0);
}

static uint64_t run_seed(unsigned seed) {
  world w = {.left = ASKED, .what = (wrong)(seed % WRONGS)};
  sim_begin(seed, false);
  w.net = sim_network_new();
  for (int i = 0; i < PROCESSES; i++) start(&w, i);
  dial(&w);
  pass(5 * ms);
  for (int i = 0; i < ASKED; i += 10) {
    ask(&w, i, 10);
    if (i == 20) go_wrong(&w);
    pass((int64_t)sim_draw((uint64_t)(100 * ms)));
  }
  pass((int64_t)sim_draw((uint64_t)(8 * second)));
  heal(&w);
  for (int i = 0; w.left > 0; i++) {
    if (i > 40) fail_msg("%d of %d unanswered", w.left, ASKED);
    ask(&w, 0, ASKED);
    pass(second);
  }
  check_calm(&w);
  close_world(&w);
  all_events += sim_events();
  return sim_hash() + (uint64_t)w.turned;
}

static void every_fault_happens_and_all_comes_through(void **state) {
  (void)state;
  int n = run_seeds("messages", 300, 20000, run_seed);
  print_message("%d seeds, each twice; %lld events\n", n,
                (long long)all_events);
  const char *all[TD_COUNT(troubles) + SAW_FULL];
  memcpy(all, troubles, sizeof troubles);
  memcpy(all + TD_COUNT(troubles), sim_saw_names, SAW_FULL * sizeof *all);
  check_seen(all, TD_COUNT(all), NULL, 0);
}

/* ---- one by one ---------------------------------------------------------- */

/* Two processes, of which the first has dialled the second. */
typedef struct pair {
  sim_network *net;
  sim_node_t node[2];
  td_channel *channel[2];
  td_link *link[2]; /* [1]: what came */
  int came[2], lost;
  bool hang_up; /* the second, at what comes */
} pair;

static void pair_message(void *arg, td_link *l, td_lane lane, td_raw *frames,
                         int n) {
  pair *p = arg;
  (void)lane;
  for (int i = 0; i < n; i++) td_raw_release(&frames[i]);
  if (!l->dialled) p->link[1] = l;
  p->came[!l->dialled]++;
  if (l->dialled || !p->hang_up) return;
  l->of->ops->hang_up(l);
  p->link[1] = NULL;
}

static void pair_trouble(void *arg, td_link *l, td_trouble what) {
  pair *p = arg;
  (void)l;
  p->lost += what == TD_TROUBLE_LOST;
}

static void drain_all(void *arg) {
  td_channel *c = arg;
  while (c->ops->drain(c, 3)) continue;
}

static void channel_of(pair *p, int i, const char *address) {
  p->node[i] = sim_node();
  OK(sim_channel_new(p->net, p->node[i], address, &p->channel[i]));
  p->channel[i]->events = (td_channel_events){pair_message, pair_trouble, p};
  sim_channel_on_ready(p->channel[i], drain_all, p->channel[i]);
}

static void open_pair(pair *p) {
  td_dial to = {"sim://b", "sim://b/data", NULL};
  *p = (pair){.net = NULL};
  sim_begin(1, false);
  p->net = sim_network_new();
  sim_network_fault(p->net, SIM_ANY, SIM_ANY, SIM_SLOW, 0);
  channel_of(p, 0, NULL);
  channel_of(p, 1, "sim://b");
  sim_enter(p->node[0]);
  OK(p->channel[0]->ops->dial(p->channel[0], &to, &p->link[0]));
  sim_leave();
  pass(5 * ms);
}

static void free_channel(void *arg) {
  td_channel *c = arg;
  c->ops->free(c);
}

static void close_pair(pair *p) {
  for (int i = 0; i < 2; i++) sim_tidy(p->node[i], free_channel, p->channel[i]);
  sim_network_free(p->net);
  assert_int_equal(sim_frames_left(), 0);
}

static td_status *send_from(pair *p, int i, size_t len) {
  static unsigned char bytes[TD_FRAME_MOST + 1];
  td_raw frame = {bytes, len, NULL, NULL};
  sim_enter(p->node[i]);
  td_status *s =
      p->channel[i]->ops->send(p->link[i], TD_LANE_CONTROL, &frame, 1);
  sim_leave();
  return s;
}

static void a_lane_that_nobody_empties_is_full(void **state) {
  pair p;
  (void)state;
  open_pair(&p);
  sim_pause(p.node[1]);
  for (int i = 0; i < 16; i++) OK(send_from(&p, 0, TD_FRAME_MOST));
  pass(second);
  FAILS(send_from(&p, 0, 1), TD_RESOURCE_EXHAUSTED, "16777216 bytes are under");
  FAILS(send_from(&p, 0, TD_FRAME_MOST + 1), TD_INVALID_ARGUMENT, "1048577");
  assert_int_equal(p.came[1], 0);
  sim_go_on(p.node[1]);
  pass(second);
  assert_int_equal(p.came[1], 16);
  OK(send_from(&p, 0, 1));
  assert_int_equal(sim_network_saw(p.net, SAW_FULL), 1);
  close_pair(&p);
}

static void who_hangs_up_hears_nothing_more(void **state) {
  pair p;
  (void)state;
  open_pair(&p);
  OK(send_from(&p, 0, 1));
  pass(second);
  OK(send_from(&p, 1, 1)); /* a peer's link answers */
  pass(second);
  assert_int_equal(p.came[0], 1);
  OK(send_from(&p, 1, 1));
  sim_enter(p.node[0]);
  p.channel[0]->ops->hang_up(p.link[0]);
  sim_leave();
  pass(second);
  assert_int_equal(p.came[0], 1);
  FAILS(send_from(&p, 1, 1), TD_UNAVAILABLE, "no connection");
  close_pair(&p);
}

static void what_was_hung_up_may_come_as_a_new_link(void **state) {
  pair p;
  (void)state;
  open_pair(&p);
  p.hang_up = true;
  for (int i = 0; i < 3; i++) {
    OK(send_from(&p, 0, 1));
    pass(second);
    assert_int_equal(p.came[1], i + 1);
  }
  close_pair(&p);
}

static void a_new_process_takes_the_address(void **state) {
  pair p;
  td_channel *c;
  (void)state;
  open_pair(&p);
  OK(send_from(&p, 0, 1));
  pass(second);
  FAILS(sim_channel_new(p.net, p.node[0], "sim://b", &c),
        TD_FAILED_PRECONDITION, "sim://b is in use");
  sim_network_kill(p.net, p.node[1]);
  sim_tidy(p.node[1], free_channel, p.channel[1]);
  channel_of(&p, 1, "sim://b");
  pass(5 * second);
  assert_int_equal(p.lost, 2); /* of each lane */
  OK(send_from(&p, 0, 1));
  pass(second);
  assert_int_equal(p.came[1], 2);
  close_pair(&p);
}

static void who_waits_wakes(void **state) {
  pair p;
  (void)state;
  open_pair(&p);
  td_channel *c = p.channel[0];
  OK(send_from(&p, 0, 1));
  pass(second);
  sim_channel_on_ready(c, NULL, NULL);
  sim_enter(p.node[0]);
  int64_t began = sim_now();
  c->ops->wait(c, began + second);
  assert_true(sim_now() >= began + second);
  c->ops->wake(c);
  c->ops->wait(c, INT64_MAX);
  sim_leave();
  OK(send_from(&p, 1, 1));
  sim_enter(p.node[0]);
  c->ops->wait(c, INT64_MAX);
  assert_true(c->ops->drain(c, 1));
  assert_false(c->ops->drain(c, 1));
  sim_leave();
  assert_int_equal(p.came[0], 1);
  close_pair(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lane_that_nobody_empties_is_full),
      cmocka_unit_test(who_hangs_up_hears_nothing_more),
      cmocka_unit_test(what_was_hung_up_may_come_as_a_new_link),
      cmocka_unit_test(a_new_process_takes_the_address),
      cmocka_unit_test(who_waits_wakes),
      cmocka_unit_test_teardown(every_fault_happens_and_all_comes_through,
                                name_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
