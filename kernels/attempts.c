/* attempts.c - lines of attempts; see attempts.h.
 *
 * Those that are over are taken out of their line and collected, and done after
 * the mutex: `done` hands outputs on, and may run anything. From then on the
 * resource may be gone, for the inputs of the kernels hold it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/attempts.h"

#include "engine/base/mem.h"

typedef struct list {
  td_attempt *first, **end;
} list;

void td_attempts_init(td_attempts *w) {
  *w = (td_attempts){0};
  pthread_mutex_init(&w->mutex, NULL);
}

void td_attempts_deinit(td_attempts *w) {
  pthread_mutex_destroy(&w->mutex);
}

/* ---- the lines, under the mutex ------------------------------------------ */

static void append(td_attempts *w, td_attempt *a) {
  int i = a->line;
  a->next = NULL;
  a->prev = w->last[i];
  *(a->prev ? &a->prev->next : &w->first[i]) = a;
  w->last[i] = a;
  w->waiting[i]++;
}

/* Moves it to those that are over. */
static void move(td_attempts *w, td_attempt *a, list *over) {
  int i = a->line;
  *(a->prev ? &a->prev->next : &w->first[i]) = a->next;
  *(a->next ? &a->next->prev : &w->last[i]) = a->prev;
  w->waiting[i]--;
  a->ctx->work = NULL;
  a->next = NULL;
  *over->end = a;
  over->end = &a->next;
}

/* The firsts of a line, until one cannot end. */
static bool advance_line(td_attempts *w, int line, list *over) {
  bool changed = false;
  for (td_attempt *a = w->first[line]; a; a = w->first[line]) {
    if (!a->over) changed |= a->kind->go(a);
    if (!a->over) return changed;
    move(w, a, over);
    changed = true;
  }
  return changed;
}

static void advance(td_attempts *w, list *over) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (int i = 0; i < TD_ATTEMPT_LINES; i++)
      changed |= advance_line(w, i, over);
  }
}

/* ---- those that are over, without the mutex ------------------------------ */

static void finish(td_attempt *a) {
  td_kernel_ctx *c = a->ctx;
  td_status *s = a->status;
  if (a->kind->finish) s = a->kind->finish(a, s);
  td_free(a);
  td_kernel_done(c, s);
}

static void finish_later(td_task *task) {
  finish((td_attempt *)((char *)task - offsetof(td_attempt, task)));
}

static void finish_all(td_attempt *first) {
  for (td_attempt *a = first, *next; a; a = next) {
    next = a->next;
    a->task.run = finish_later;
    if (a->heavy && td_ok(a->status))
      td_pool_submit(&a->task);
    else
      finish(a);
  }
}

/* ---- the interface ------------------------------------------------------- */

void td_attempts_enter(td_attempts *w) {
  pthread_mutex_lock(&w->mutex);
}

void td_attempts_leave(td_attempts *w) {
  list over = {NULL, &over.first};
  advance(w, &over);
  pthread_mutex_unlock(&w->mutex);
  finish_all(over.first);
}

static void end_early(td_attempt *a, td_status *s) {
  a->status = s;
  a->over = true;
  if (a->kind->undo) a->kind->undo(a);
}

static td_status *cancelled(void) {
  return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
}

void td_attempts_start(td_attempts *w, td_attempt *a, td_kernel_ctx *c,
                       int line) {
  a->ctx = c;
  a->line = line;
  a->status = NULL;
  a->over = a->heavy = false;
  td_attempts_enter(w);
  if (td_stopped(c)) {
    pthread_mutex_unlock(&w->mutex);
    a->status = cancelled();
    finish(a);
    return;
  }
  c->work = a; /* a cancel that comes from here on finds it */
  append(w, a);
  td_attempts_leave(w);
}

void td_attempts_cancel(td_attempts *w, td_kernel_ctx *c) {
  list over = {NULL, &over.first};
  td_attempts_enter(w);
  td_attempt *a = c->work;
  if (a && !a->over) {
    end_early(a, cancelled());
    move(w, a, &over);
  }
  advance(w, &over);
  pthread_mutex_unlock(&w->mutex);
  finish_all(over.first);
}

void td_attempts_fail(td_attempts *w, int line, td_status *s) {
  for (td_attempt *a = w->first[line]; a; a = a->next)
    if (!a->over) end_early(a, td_status_retain(s));
}
