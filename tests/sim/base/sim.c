/* sim.c - virtual time, what the seed draws, and which event runs next.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/base/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/base/events.h"
#include "tests/sim/base/node.h"

enum {
  TICK = 400,     /* ns, at most, between two looks at the clock */
  PAUSE = 800000, /* ns, at most, when somebody is held up */
  DEEPEST = 4,    /* tasks that preempted each other */
  NODES = 1024,
  STACK = 512,   /* calls inside of calls */
  LEFT = 1000000 /* events of a node that is tidied away */
};

typedef struct node {
  sim_queue queue;
  int64_t offset, last; /* of its clock; what it said last */
  int64_t disk;         /* ns, at most, until a task of I/O begins */
  int frames;           /* calls of it on the stack */
  bool paused, dead;
} node;

static node nodes[NODES];

static struct {
  uint64_t seed, random, hash, number;
  bool in_order;
  int64_t now, run;
  int depth, count; /* of tasks on the stack; nodes */
  sim_node_t stack[STACK];
  int top;      /* the stack's last is where the caller is */
  int isolated; /* the only node that runs; 0: all do */
} sim = {.count = 1};

/* SplitMix64 (Steele et al. 2014). */
uint64_t sim_draw(uint64_t n) {
  uint64_t z = sim.random += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (z ^ z >> 31) % n;
}

/* FNV-1a, by words. */
void sim_note(enum sim_kind kind, uint64_t what) {
  const uint64_t words[] = {kind, what, (uint64_t)sim.now};
  for (size_t i = 0; i < TD_COUNT(words); i++)
    sim.hash = (sim.hash ^ words[i]) * 0x100000001B3u;
}

_Noreturn void sim_give_up(const char *why) {
  fprintf(stderr, "simulator: %s; node %d, seed %llu\n", why, sim_here(),
          (unsigned long long)sim.seed);
  _exit(3);
}

/* Lists keep their memory. */
static void forget(node *n) {
  sim_queue q = n->queue;
  if (sim_queue_len(&q) > 0) sim_give_up("events are left of the world before");
  *n = (node){.queue = q};
}

void sim_begin(uint64_t seed, bool in_order) {
  for (int i = 0; i < sim.count; i++) forget(&nodes[i]);
  memset(&sim, 0, sizeof sim);
  sim.seed = sim.random = seed;
  sim.in_order = in_order;
  sim.hash = 0xCBF29CE484222325u;
  sim.count = 1;
}

uint64_t sim_hash(void) {
  return sim.hash;
}
int64_t sim_events(void) {
  return sim.run;
}

/* ---- clocks -------------------------------------------------------------- */

static int64_t clock_of(node *n) {
  int64_t t = sim.now + n->offset;
  if (t > n->last) n->last = t;
  return n->last;
}

int64_t sim_clock(sim_node_t n) {
  return clock_of(&nodes[n]);
}

int64_t sim_now(void) {
  sim.now += 1 + (int64_t)sim_draw(sim_draw(16) ? TICK : PAUSE);
  return sim_clock(sim_here());
}

/* When, in the world's time, the clock of a node says t. */
static int64_t moment(node *n, int64_t t) {
  if (t == INT64_MAX) return INT64_MAX;
  return t <= clock_of(n) ? sim.now : t - n->offset;
}

void sim_shift(sim_node_t n, int64_t ns) {
  (void)sim_clock(n);
  nodes[n].offset += ns;
}

/* ---- events -------------------------------------------------------------- */

enum { NODE_BITS = 10 }; /* of a timer's id */

static uint64_t add(sim_node_t n, sim_event e) {
  e.number = ++sim.number;
  sim_queue_add(&nodes[n].queue, e);
  return e.number << NODE_BITS | (uint64_t)n;
}

void sim_push(td_task *task) {
  (void)add(sim_here(), (sim_event){.task = task});
}
bool sim_waiting(void) {
  return nodes[sim_here()].queue.tasks.len > 0;
}
bool sim_inside(void) {
  return sim.depth > 0;
}

uint64_t sim_post(sim_node_t n, int64_t at_ns, void (*fire)(void *arg),
                  void *arg) {
  return add(n, (sim_event){.at_ns = at_ns, .fire = fire, .arg = arg});
}

static void run_io(void *arg) {
  td_task *task = arg;
  task->run(task);
}

void sim_push_io(td_task *task) {
  int64_t most = nodes[sim_here()].disk;
  if (most == 0) {
    sim_push(task);
    return;
  }
  int64_t late = (int64_t)sim_draw((uint64_t)most);
  (void)sim_post(sim_here(), sim_clock(sim_here()) + late, run_io, task);
}

uint64_t sim_timer(int64_t at_ns, void (*fire)(void *arg), void *arg) {
  return sim_post(sim_here(), at_ns, fire, arg);
}

void sim_timer_cancel(uint64_t id) {
  uint64_t n = id & ((1u << NODE_BITS) - 1);
  (void)sim_queue_cancel(&nodes[n].queue, id >> NODE_BITS);
}

/* ---- running ------------------------------------------------------------- */

static void call_into(sim_node_t n) {
  if (sim.top + 1 == STACK) sim_give_up("calls wait inside of calls too deep");
  sim.stack[++sim.top] = n;
  nodes[n].frames++;
}

void sim_leave(void) {
  nodes[sim.stack[sim.top--]].frames--;
}

static void run(sim_node_t n, size_t i) {
  sim_event e = sim_queue_take(&nodes[n].queue, i);
  sim_note(e.task ? SIM_TASK : SIM_TIMER, e.number);
  sim.run++;
  sim.depth++;
  call_into(n);
  if (e.task)
    e.task->run(e.task);
  else
    e.fire(e.arg);
  sim_leave();
  sim.depth--;
}

/* A dead node runs while calls of it are on the stack, since they must end. */
static bool runs(int n) {
  if (sim.isolated) return n == sim.isolated;
  return !nodes[n].paused && (!nodes[n].dead || nodes[n].frames > 0);
}

/* An isolated node's clock is set forward, which nobody else sees. */
static void leap(int64_t until) {
  for (int i = 0; i < sim.count; i++) {
    if (!runs(i)) continue;
    int64_t at = moment(&nodes[i], sim_queue_next(&nodes[i].queue));
    if (at < until) until = at;
  }
  if (until == INT64_MAX) sim_give_up("somebody waits for ever");
  if (until > sim.now && sim.isolated)
    nodes[sim.isolated].offset += until - sim.now;
  else if (until > sim.now)
    sim.now = until;
  sim_note(SIM_LEAP, 0);
}

static void run_first(void) {
  int whose = 0;
  size_t which = SIZE_MAX;
  uint64_t least = UINT64_MAX, number = 0;
  for (int i = 0; i < sim.count; i++) {
    size_t k = runs(i) ? sim_queue_first(&nodes[i].queue, &number) : SIZE_MAX;
    if (k == SIZE_MAX || number > least) continue;
    whose = i;
    which = k;
    least = number;
  }
  run(whose, which);
}

static void step(int64_t until) {
  size_t ready = 0;
  int i = 0;
  for (int k = 0; k < sim.count; k++) {
    if (!runs(k)) continue;
    sim_queue_promote(&nodes[k].queue, clock_of(&nodes[k]));
    ready += sim_queue_ready(&nodes[k].queue);
  }
  if (ready == 0) {
    leap(until);
    return;
  }
  if (sim.in_order) {
    run_first();
    return;
  }
  size_t skip = sim_draw(ready);
  for (;; i++) {
    size_t here = runs(i) ? sim_queue_ready(&nodes[i].queue) : 0;
    if (skip < here) break;
    skip -= here;
  }
  run(i, skip);
}

/* A call of a paused node goes on when the node does. */
static void hold(void) {
  while (!runs(sim_here())) step(INT64_MAX);
}

void sim_step(int64_t until) {
  step(moment(&nodes[sim_here()], until));
  hold();
}

void sim_preempt(void) {
  size_t tasks = 0;
  if (sim.in_order || sim.depth >= DEEPEST) return;
  for (int k = 0; k < sim.count; k++)
    if (runs(k)) tasks += nodes[k].queue.tasks.len;
  if (tasks == 0 || sim_draw(3)) return;
  size_t skip = sim_draw(tasks);
  int i = 0;
  for (;; i++) {
    size_t here = runs(i) ? nodes[i].queue.tasks.len : 0;
    if (skip < here) break;
    skip -= here;
  }
  run(i, skip);
  hold();
}

/* ---- nodes --------------------------------------------------------------- */

sim_node_t sim_node(void) {
  if (sim.count == NODES) sim_give_up("too many nodes");
  return sim.count++;
}

sim_node_t sim_here(void) {
  return sim.stack[sim.top];
}

void sim_enter(sim_node_t n) {
  if (nodes[n].dead && n != sim.isolated) sim_give_up("a dead node is entered");
  call_into(n);
  hold();
}

void sim_pause(sim_node_t n) {
  nodes[n].paused = true;
}
void sim_go_on(sim_node_t n) {
  nodes[n].paused = false;
}
bool sim_paused(sim_node_t n) {
  return nodes[n].paused;
}

void sim_slow_disk(sim_node_t n, int64_t most_ns) {
  nodes[n].disk = most_ns;
}

void sim_kill(sim_node_t n) {
  nodes[n].dead = true;
  nodes[n].paused = false;
}
bool sim_dead(sim_node_t n) {
  return nodes[n].dead;
}

void sim_tidy(sim_node_t n, void (*fn)(void *arg), void *arg) {
  int before = sim.isolated;
  node *it = &nodes[n];
  int64_t most = sim.run + LEFT;
  if (it->frames > 0) sim_give_up("a node is tidied away that is at work");
  sim_kill(n);
  sim.isolated = n;
  sim_enter(n);
  if (fn) fn(arg);
  while (sim_queue_len(&it->queue) > 0) {
    if (sim.run > most) sim_give_up("a node never comes to rest");
    step(INT64_MAX);
  }
  sim_leave();
  sim.isolated = before;
}
