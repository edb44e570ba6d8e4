/* events.c - see events.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/base/events.h"

#include <stdlib.h>

#include "tests/sim/base/sim.h"

static void append(sim_list *l, sim_event e) {
  if (l->len == l->room) {
    l->room = l->room ? 2 * l->room : 16;
    l->at = realloc(l->at, l->room * sizeof *l->at);
    if (!l->at) sim_give_up("no memory");
  }
  l->at[l->len++] = e;
}

/* ---- the heap ------------------------------------------------------------ */

static bool sooner(const sim_event *a, const sim_event *b) {
  if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
  return a->number < b->number;
}

static void swap(sim_event *a, sim_event *b) {
  sim_event e = *a;
  *a = *b;
  *b = e;
}

static void rise(sim_list *l, size_t i) {
  for (; i > 0 && sooner(&l->at[i], &l->at[(i - 1) / 2]); i = (i - 1) / 2)
    swap(&l->at[i], &l->at[(i - 1) / 2]);
}

static void sink(sim_list *l, size_t i) {
  for (;;) {
    size_t least = i;
    for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < l->len; k++)
      if (sooner(&l->at[k], &l->at[least])) least = k;
    if (least == i) return;
    swap(&l->at[i], &l->at[least]);
    i = least;
  }
}

static sim_event pull(sim_list *l, size_t i) {
  sim_event e = l->at[i];
  l->at[i] = l->at[--l->len];
  if (i < l->len) {
    rise(l, i);
    sink(l, i);
  }
  return e;
}

/* ---- a queue ------------------------------------------------------------- */

void sim_queue_add(sim_queue *q, sim_event e) {
  if (e.task) {
    append(&q->tasks, e);
    return;
  }
  append(&q->timers, e);
  rise(&q->timers, q->timers.len - 1);
}

int64_t sim_queue_next(const sim_queue *q) {
  return q->timers.len ? q->timers.at[0].at_ns : INT64_MAX;
}

void sim_queue_promote(sim_queue *q, int64_t now) {
  while (sim_queue_next(q) <= now) append(&q->due, pull(&q->timers, 0));
}

sim_event sim_queue_take(sim_queue *q, size_t i) {
  sim_list *l = i < q->tasks.len ? &q->tasks : &q->due;
  if (l == &q->due) i -= q->tasks.len;
  sim_event e = l->at[i];
  l->at[i] = l->at[--l->len];
  return e;
}

size_t sim_queue_first(const sim_queue *q, uint64_t *number) {
  size_t first = SIZE_MAX;
  for (size_t i = 0; i < sim_queue_ready(q); i++) {
    const sim_event *e =
        i < q->tasks.len ? &q->tasks.at[i] : &q->due.at[i - q->tasks.len];
    if (first != SIZE_MAX && e->number > *number) continue;
    first = i;
    *number = e->number;
  }
  return first;
}

bool sim_queue_cancel(sim_queue *q, uint64_t number) {
  for (size_t i = 0; i < q->timers.len; i++)
    if (q->timers.at[i].number == number) {
      (void)pull(&q->timers, i);
      return true;
    }
  for (size_t i = 0; i < q->due.len; i++)
    if (q->due.at[i].number == number) {
      (void)sim_queue_take(q, q->tasks.len + i);
      return true;
    }
  return false;
}
