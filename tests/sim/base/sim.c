/* sim.c - the one queue of events, virtual time, and what the seed draws.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/base/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  TICK = 400,     /* ns, at most, between two looks at the clock */
  PAUSE = 800000, /* ns, at most, when somebody is held up */
  DEEPEST = 4     /* tasks that preempted each other */
};

typedef struct event {
  td_task *task; /* NULL: a timer */
  uint64_t number;
  int64_t at_ns;
  void (*fire)(void *arg);
  void *arg;
} event;

static struct {
  uint64_t seed, random, hash, number;
  bool in_order;
  int64_t now, run;
  int depth;
  event *event;
  size_t len, room, tasks;
} sim;

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

static void give_up(const char *why) {
  fprintf(stderr, "simulator: %s; seed %llu\n", why,
          (unsigned long long)sim.seed);
  _exit(3);
}

void sim_begin(uint64_t seed, bool in_order) {
  if (sim.len > 0) give_up("events are left of the world before");
  event *keep = sim.event;
  size_t room = sim.room;
  memset(&sim, 0, sizeof sim);
  sim.event = keep;
  sim.room = room;
  sim.seed = sim.random = seed;
  sim.in_order = in_order;
  sim.hash = 0xCBF29CE484222325u;
}

uint64_t sim_hash(void) {
  return sim.hash;
}
int64_t sim_events(void) {
  return sim.run;
}

int64_t sim_now(void) {
  sim.now += 1 + (int64_t)sim_draw(sim_draw(16) ? TICK : PAUSE);
  return sim.now;
}

/* ---- the queue ----------------------------------------------------------- */

static uint64_t add(event e) {
  if (sim.len == sim.room) {
    sim.room = sim.room ? 2 * sim.room : 64;
    sim.event = realloc(sim.event, sim.room * sizeof *sim.event);
    if (!sim.event) give_up("no memory");
  }
  e.number = ++sim.number;
  sim.tasks += e.task != NULL;
  sim.event[sim.len++] = e;
  return e.number;
}

static event take(size_t i) {
  event e = sim.event[i];
  sim.len--;
  sim.tasks -= e.task != NULL;
  memmove(&sim.event[i], &sim.event[i + 1], (sim.len - i) * sizeof e);
  return e;
}

void sim_push(td_task *task) {
  (void)add((event){.task = task});
}
bool sim_waiting(void) {
  return sim.tasks > 0;
}
bool sim_inside(void) {
  return sim.depth > 0;
}

uint64_t sim_timer(int64_t at_ns, void (*fire)(void *arg), void *arg) {
  return add((event){.at_ns = at_ns, .fire = fire, .arg = arg});
}

void sim_timer_cancel(uint64_t id) {
  for (size_t i = 0; i < sim.len; i++)
    if (!sim.event[i].task && sim.event[i].number == id) {
      (void)take(i);
      return;
    }
}

/* ---- running ------------------------------------------------------------- */

static bool is_due(const event *e) {
  return e->task || e->at_ns <= sim.now;
}

static void run(size_t i) {
  event e = take(i);
  sim_note(e.task ? SIM_TASK : SIM_TIMER, e.number);
  sim.run++;
  sim.depth++;
  if (e.task)
    e.task->run(e.task);
  else
    e.fire(e.arg);
  sim.depth--;
}

static void leap(int64_t until) {
  for (size_t i = 0; i < sim.len; i++)
    if (sim.event[i].at_ns < until) until = sim.event[i].at_ns;
  if (until == INT64_MAX) give_up("somebody waits for ever");
  if (until > sim.now) sim.now = until;
  sim_note(SIM_LEAP, 0);
}

void sim_step(int64_t until) {
  size_t due = 0, i = 0;
  for (size_t k = 0; k < sim.len; k++) due += is_due(&sim.event[k]);
  if (due == 0) {
    leap(until);
    return;
  }
  size_t skip = sim.in_order ? 0 : sim_draw(due);
  while (!is_due(&sim.event[i]) || skip-- > 0) i++;
  run(i);
}

void sim_preempt(void) {
  if (sim.in_order || sim.depth >= DEEPEST || sim.tasks == 0) return;
  if (sim_draw(3)) return;
  size_t i = 0, skip = sim_draw(sim.tasks);
  while (!sim.event[i].task || skip-- > 0) i++;
  run(i);
}
