/* cluster.c - see cluster.h.
 *
 * Faults overlap. So when one ends all links are healed, and what still goes on
 * is done to them once more, which changes nothing for a link that is cut.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/base/sim.h"
#include "tests/sim/seeds.h"

enum { MOST_FAULTS = 64, MOST_PROCESSES = 60 };

static const int64_t second = 1000000000;

const char *const cluster_fault_names[CLUSTER_FAULTS] = {
    "fault: drop", "fault: duplicate",   "fault: reorder", "fault: slow",
    "fault: cut",  "fault: one-way cut", "fault: alone",   "fault: pause",
    "fault: kill", "fault: refuse",      "fault: clock",   "fault: disk"};

/* One that is scheduled, goes on or is over. */
typedef struct event {
  cluster *of;
  cluster_fault what;
  int a, b;   /* places */
  int64_t ns; /* how long */
  bool going;
  td_trouble refuse; /* why */
  uint64_t timer;    /* when it begins, ends; 0: never */
} event;

struct cluster {
  cluster_options o;
  sim_network *net;
  cluster_process *process[MOST_PROCESSES]; /* by number */
  cluster_process *at[CLUSTER_PLACES];
  int last[CLUSTER_PLACES]; /* the number of who was there last */
  int n, events;
  event event[MOST_FAULTS];
};

static void *memory(size_t n) {
  void *p = calloc(1, n);
  if (!p) sim_give_up("no memory");
  return p;
}

/* ---- processes ----------------------------------------------------------- */

static void start(cluster *c, int place) {
  char address[32];
  if (c->n == MOST_PROCESSES) sim_give_up("too many processes");
  cluster_process *p = memory(sizeof *p);
  *p = (cluster_process){
      .of = c, .place = place, .number = c->n, .node = sim_node()};
  if (c->last[place] >= 0)
    sim_network_inherit(c->net, c->process[c->last[place]]->node, p->node);
  c->process[c->n] = c->at[place] = p;
  c->last[place] = c->n++;
  snprintf(address, sizeof address, "sim://place%d", place);
  if (!td_ok(sim_channel_new(c->net, p->node, address, &p->channel)))
    sim_give_up("no channel");
  sim_enter(p->node);
  c->o.start(c->o.arg, p);
  sim_leave();
}

static void kill_at(cluster *c, int place) {
  cluster_process *p = c->at[place];
  if (!p) return;
  c->at[place] = NULL;
  sim_network_kill(c->net, p->node);
  if (c->o.died) c->o.died(c->o.arg, p);
}

static void stop(void *arg) {
  cluster_process *p = arg;
  p->of->o.stop(p->of->o.arg, p);
}

cluster_process *cluster_at(const cluster *c, int place) {
  return c->at[place];
}

bool cluster_down(const cluster *c, int place) {
  return !c->at[place] || sim_paused(c->at[place]->node);
}

sim_network *cluster_network(cluster *c) {
  return c->net;
}

/* ---- faults -------------------------------------------------------------- */

/* The node of a place, also of one that is dead: its successor inherits. */
static sim_node_t node_at(const cluster *c, int place) {
  return c->process[c->last[place]]->node;
}

static void cut(cluster *c, int a, int b, bool both) {
  sim_network_cut(c->net, node_at(c, a), node_at(c, b));
  if (both) sim_network_cut(c->net, node_at(c, b), node_at(c, a));
}

static void mistreat(cluster *c, sim_fault what, int a, int b, int often) {
  sim_network_fault(c->net, node_at(c, a), node_at(c, b), what, often);
  sim_network_fault(c->net, node_at(c, b), node_at(c, a), what, often);
}

/* What harms nobody who is right may happen often. */
static void mistreat_all(cluster *c, const event *e) {
  for (int i = 0; i < c->o.places; i++)
    if (i != e->a) mistreat(c, (sim_fault)(SIM_DROP + e->what), e->a, i, 250);
}

/* What a fault does to links; done again while it goes on. */
static void to_links(cluster *c, const event *e) {
  if (e->what == FAULT_DUPLICATE || e->what == FAULT_REORDER)
    mistreat_all(c, e);
  else if (e->what <= FAULT_SLOW)
    mistreat(c, (sim_fault)(SIM_DROP + e->what), e->a, e->b, 100);
  if (e->what == FAULT_CUT) cut(c, e->a, e->b, true);
  if (e->what == FAULT_CUT_ONE_WAY) cut(c, e->a, e->b, false);
  for (int i = 0; e->what == FAULT_ALONE && i < c->o.places; i++)
    if (i != e->a) cut(c, e->a, i, true);
  if (e->what == FAULT_REFUSE)
    sim_network_refuse(c->net, node_at(c, e->a), node_at(c, e->b), e->refuse);
}

static void set_links(cluster *c) {
  sim_network_heal(c->net, SIM_ANY, SIM_ANY);
  for (int i = 0; i < c->events; i++)
    if (c->event[i].going) to_links(c, &c->event[i]);
}

static bool held(const cluster *c, cluster_fault what, int place) {
  for (int i = 0; i < c->events; i++)
    if (c->event[i].going && c->event[i].what == what && c->event[i].a == place)
      return true;
  return false;
}

static void to_process(cluster *c, const event *e) {
  cluster_process *p = c->at[e->a];
  if (!p) return;
  if (e->what == FAULT_PAUSE) sim_pause(p->node);
  if (e->what == FAULT_KILL) kill_at(c, e->a);
  if (e->what == FAULT_DISK) sim_slow_disk(p->node, 3 * second);
  if (e->what == FAULT_CLOCK)
    sim_shift(p->node, sim_draw(2) ? (int64_t)sim_draw(60 * (uint64_t)second)
                                   : -(int64_t)sim_draw((uint64_t)second));
}

static void end(void *arg) {
  event *e = arg;
  cluster *c = e->of;
  e->timer = 0;
  e->going = false;
  set_links(c);
  cluster_process *p = c->at[e->a];
  if (e->what == FAULT_KILL && !p && !held(c, FAULT_KILL, e->a))
    start(c, e->a);
  else if (p && e->what == FAULT_PAUSE && !held(c, FAULT_PAUSE, e->a))
    sim_go_on(p->node);
  else if (p && e->what == FAULT_DISK && !held(c, FAULT_DISK, e->a))
    sim_slow_disk(p->node, 0);
}

static void begin(void *arg) {
  event *e = arg;
  cluster *c = e->of;
  e->timer = sim_post(SIM_WORLD, sim_clock(SIM_WORLD) + e->ns, end, e);
  e->going = true;
  sometimes(cluster_fault_names[e->what]);
  if (e->what == FAULT_REFUSE) { /* those that are connected would stay so */
    cut(c, e->a, e->b, true);
    set_links(c);
  }
  to_links(c, e);
  to_process(c, e);
}

static event *plan(cluster *c, cluster_fault what, int a, int b, int64_t ns) {
  if (c->events == MOST_FAULTS) sim_give_up("too many faults");
  event *e = &c->event[c->events++];
  *e = (event){.of = c, .what = what, .a = a, .b = b, .ns = ns};
  e->refuse = (td_trouble)(TD_TROUBLE_KEY + sim_draw(3));
  return e;
}

void cluster_inflict(cluster *c, cluster_fault what, int a, int b, int64_t ns) {
  begin(plan(c, what, a, b, ns));
}

int cluster_faults(const cluster *c) {
  int n = 0;
  for (int i = 0; i < c->events; i++) n += c->event[i].going;
  return n;
}

/* ---- the schedule -------------------------------------------------------- */

static int draw_bit(unsigned bits) {
  int n = (int)sim_draw((uint64_t)__builtin_popcount(bits)), i = 0;
  for (;; i++)
    if (bits >> i & 1 && n-- == 0) return i;
}

static bool needs_kill(cluster_fault what) {
  return what == FAULT_KILL || what == FAULT_PAUSE;
}

static void draw_fault(cluster *c) {
  const cluster_options *o = &c->o;
  cluster_fault what = (cluster_fault)draw_bit(o->faults);
  if (needs_kill(what) && !o->kill) return;
  int a =
      needs_kill(what) ? draw_bit(o->kill) : (int)sim_draw((uint64_t)o->places);
  int b = (a + 1 + (int)sim_draw((uint64_t)o->places - 1)) % o->places;
  int64_t ns =
      o->shortest + (int64_t)sim_draw((uint64_t)(o->longest - o->shortest + 1));
  event *e = plan(c, what, a, b, ns);
  int64_t at = sim_clock(SIM_WORLD) + (int64_t)sim_draw((uint64_t)o->span);
  e->timer = sim_post(SIM_WORLD, at, begin, e);
}

cluster *cluster_new(const cluster_options *o) {
  cluster *c = memory(sizeof *c);
  c->o = *o;
  c->net = sim_network_new();
  for (int i = 0; i < CLUSTER_PLACES; i++) c->last[i] = -1;
  for (int i = 0; i < o->places; i++) start(c, i);
  int n = o->most && o->faults ? (int)sim_draw((uint64_t)o->most + 1) : 0;
  for (int i = 0; i < n; i++) draw_fault(c);
  return c;
}

void cluster_pass(cluster *c, int64_t ns) {
  int64_t until = sim_clock(SIM_WORLD) + ns;
  (void)c;
  while (sim_clock(SIM_WORLD) < until) sim_step(until);
}

void cluster_heal(cluster *c) {
  for (int i = 0; i < c->events; i++) {
    event *e = &c->event[i];
    if (e->timer) sim_timer_cancel(e->timer);
    e->timer = 0;
    e->going = false;
  }
  set_links(c);
  for (int i = 0; i < c->o.places; i++) {
    cluster_process *p = c->at[i];
    if (!p) {
      start(c, i);
      continue;
    }
    sim_go_on(p->node);
    sim_slow_disk(p->node, 0);
  }
}

void cluster_free(cluster *c) {
  for (int i = 0; i < c->events; i++)
    if (c->event[i].timer) sim_timer_cancel(c->event[i].timer);
  for (int i = 0; i < c->n; i++) {
    sim_tidy(c->process[i]->node, stop, c->process[i]);
    free(c->process[i]);
  }
  sim_network_free(c->net);
  free(c);
}
