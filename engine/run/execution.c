/* execution.c - an execution's life, and its end by failure or cancel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/execution.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"

/* ---- made, kept ---- */

void td_execution_free(td_execution *e) {
  td_instances_free(e);
  for (int32_t k = 0; e->spare && k < e->program->n_frames; k++)
    for (td_iteration *it; (it = e->spare[k].first);) {
      e->spare[k].first = it->next;
      td_free(it);
    }
  td_free(e->spare);
  pthread_spin_destroy(&e->frames_lock);
  pthread_mutex_destroy(&e->status_lock);
  td_free(e);
}

static td_execution *fresh(td_program *p) {
  td_execution *e = td_calloc(1, sizeof *e);
  if (!e) return NULL;
  e->program = p;
  pthread_spin_init(&e->frames_lock, PTHREAD_PROCESS_PRIVATE);
  pthread_mutex_init(&e->status_lock, NULL);
  e->spare = td_calloc((size_t)p->n_frames, sizeof *e->spare);
  if (!e->spare) {
    td_execution_free(e);
    return NULL;
  }
  return e;
}

static void list_running(td_execution *e) {
  td_program *p = e->program;
  pthread_mutex_lock(&p->lock);
  e->prev = NULL;
  e->next = p->running;
  if (e->next) e->next->prev = e;
  p->running = e;
  pthread_mutex_unlock(&p->lock);
}

td_execution *td_execution_take(td_program *p) {
  pthread_mutex_lock(&p->lock);
  td_execution *e = p->idle;
  if (e) p->idle = e->next;
  pthread_mutex_unlock(&p->lock);
  if (!e) e = fresh(p);
  if (!e) return NULL;
  e->root = td_iteration_make(e, 0);
  if (!e->root) {
    td_execution_free(e);
    return NULL;
  }
  e->failed = 0;
  e->live = 1;
  list_running(e);
  return e;
}

static void keep(td_execution *e) {
  td_program *p = e->program;
  pthread_mutex_lock(&p->lock);
  if (e->prev)
    e->prev->next = e->next;
  else
    p->running = e->next;
  if (e->next) e->next->prev = e->prev;
  e->next = p->idle;
  p->idle = e;
  pthread_mutex_unlock(&p->lock);
}

/* ---- the end ---- */

static void decay(int64_t *average, int64_t value) {
  int64_t old = __atomic_load_n(average, __ATOMIC_RELAXED);
  __atomic_store_n(average, old ? old + (value - old) / 4 : value,
                   __ATOMIC_RELAXED);
}

/* Nobody else can reach `e` any more, and once `over` has run, nobody at all:
 * its program may be gone. */
static void end(td_execution *e) {
  td_program *p = e->program;
  td_cancel_remove(e->step->cancel, &e->hook);
  if (e->started && !e->failed)
    decay(&p->cost, td_clock_now() - e->started + 1);
  if (p->n_frames > 1) td_instances_clear(e);
  td_iteration_clear(e->root);
  td_status *s = e->status;
  e->status = NULL;
  void (*over)(void *, td_status *) = e->over;
  void *arg = e->arg;
  keep(e);
  over(arg, s);
}

/* The step may have failed meanwhile, by what was still to complete. */
static void settled(td_settling *w) {
  td_execution *e =
      (td_execution *)((char *)w - offsetof(td_execution, settling));
  if (td_cancelled(e->step->stop)) td_execution_stop(e);
  end(e);
}

void td_execution_over(td_execution *e) {
  td_device *d = e->program->device;
  e->settling.over = settled;
  if (!d->settle)
    end(e);
  else if (d->settle(d, &e->settling))
    settled(&e->settling);
}

static void note(td_execution *e, td_status *s) {
  pthread_mutex_lock(&e->status_lock);
  e->status = td_status_first(e->status, s);
  pthread_mutex_unlock(&e->status_lock);
}

void td_execution_fail(td_execution *e, td_status *s, const td_xnode *n) {
  if (n) s = td_node_blame(s, n->kernel.node);
  s = td_status_at(s, NULL, NULL, NULL, e->program->device->name);
  note(e, td_status_retain(s));
  __atomic_store_n(&e->failed, 1, __ATOMIC_RELEASE);
  td_step_fail(e->step, s);
}

void td_execution_stop(td_execution *e) {
  if (__atomic_exchange_n(&e->failed, 1, __ATOMIC_ACQ_REL)) return;
  note(e, td_cancel_cause(e->step->cancel));
}
