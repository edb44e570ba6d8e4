/* turn.c - the actor's turn: who has it, and what runs after it.
 *
 * The lowest of its files: what it calls of the others is in td_remote_hooks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/remote/remote_impl.h"

/* What this thread hears the messages of, and will again before it sleeps. */
static _Thread_local const td_remote *hearing;

const td_remote *td_remote_hear(const td_remote *r) {
  const td_remote *was = hearing;
  hearing = r;
  return was;
}

void td_remote_enter(td_remote *r) {
  pthread_mutex_lock(&r->turn);
  if (r->channel) r->channel->soon = hearing == r;
}

static void drain(td_remote *r) {
  if (r->channel) (void)r->channel->ops->drain(r->channel, TD_DRAIN_MOST);
}

/* What this side sent may have swallowed the signal of what came: it is looked
 * for before the turn ends (channel.h). */
void td_remote_leave(td_remote *r) {
  if (hearing != r) {
    if (r->n_bundled > 0) r->hooks->send_off(r);
    drain(r);
  }
  if (r->greetings > 0) r->hooks->greet(r);
  td_task *list = r->after;
  r->after = NULL;
  r->after_end = &r->after;
  pthread_mutex_unlock(&r->turn);
  for (td_task *next; list; list = next) {
    next = list->next;
    list->run(list);
  }
}

void td_remote_send_off(td_remote *r) {
  if (__atomic_load_n(&r->n_bundled, __ATOMIC_RELAXED) == 0) return;
  td_remote_enter(r);
  r->hooks->send_off(r);
  pthread_mutex_unlock(&r->turn);
}

void td_remote_after(td_remote *r, td_task *task) {
  task->next = NULL;
  *r->after_end = task;
  r->after_end = &task->next;
}

uint64_t td_remote_number(td_remote *r) {
  return ++r->last_number;
}

void td_remote_peer_changed(td_remote *r, td_peer *p) {
  r->hooks->changed(r, p);
}

void td_remote_turn(td_remote *r) {
  td_remote_enter(r);
  int64_t now = td_clock_now();
  if (!r->closed && now - r->ticked >= TD_HEALTH_TICK) r->hooks->tick(r, now);
  if (hearing == r) drain(r);
  td_remote_leave(r);
}

td_remote *td_remote_retain(td_remote *r) {
  __atomic_fetch_add(&r->refs, 1, __ATOMIC_RELAXED);
  return r;
}

void td_remote_release(td_remote *r) {
  if (r && __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) == 0)
    r->hooks->end(r);
}

const double td_meter_edges[TD_METER_BUCKETS] = {
    1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10, 30, 100};

void td_remote_count_step(td_remote *r, int64_t took, bool failed) {
  double seconds = (double)took * 1e-9;
  int i = 0;
  while (i < TD_METER_BUCKETS && seconds > td_meter_edges[i]) i++;
  r->steps++;
  r->meter.took[i]++;
  r->meter.seconds += seconds;
  r->meter.failed += failed;
}

const char *td_remote_address(const td_remote *r) {
  return r->advertise || !r->channel
             ? r->advertise
             : r->channel->ops->address(r->channel, TD_LANE_CONTROL);
}
