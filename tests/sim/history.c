/* history.c - see history.h.
 *
 * The log is only written while the world runs, and read by the check. Entries
 * of a step are chained, so that a check takes little more than the log is
 * long.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/history.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/base/sim.h"

typedef enum kind {
  PROCESS,
  DIED,
  BEGIN,
  OP,
  ACKNOWLEDGED,
  FAILED,
  APPLYING,
  APPLIED,
  CANCELLED,
  FOUND
} kind;

typedef struct entry {
  kind kind;
  int process, op;
  int64_t step;
  int64_t value; /* a task, a moment, a number */
  int64_t by;
  int of, next; /* its step; the next entry of that, -1: none */
} entry;

typedef struct of_step {
  int64_t step;
  int first, last; /* entries */
} of_step;

/* Entries of a process; -1: none. */
typedef struct of_process {
  int process, began, died, found;
} of_process;

struct history {
  entry *at;
  of_step *step;
  of_process *process;
  int n, room, steps, step_room, processes, process_room;
};

history *history_new(void) {
  history *h = calloc(1, sizeof *h);
  if (!h) sim_give_up("no memory");
  return h;
}

void history_free(history *h) {
  free(h->at);
  free(h->step);
  free(h->process);
  free(h);
}

static void *more(void *list, int n, int *room, size_t size) {
  if (n < *room) return list;
  *room = 2 * *room + 64;
  list = realloc(list, (size_t)*room * size);
  if (!list) sim_give_up("no memory");
  return list;
}

/* Those of late are asked for most. */
static of_step *find_step(const history *h, int64_t step) {
  for (int i = h->steps - 1; i >= 0; i--)
    if (h->step[i].step == step) return &h->step[i];
  return NULL;
}

static of_process *find_process(const history *h, int process) {
  for (int i = h->processes - 1; i >= 0; i--)
    if (h->process[i].process == process) return &h->process[i];
  return NULL;
}

static void chain(history *h, int i) {
  of_step *s = find_step(h, h->at[i].step);
  if (s) {
    h->at[i].of = (int)(s - h->step);
    h->at[s->last].next = i;
    s->last = i;
    return;
  }
  h->at[i].of = h->steps;
  h->step = more(h->step, h->steps, &h->step_room, sizeof *h->step);
  h->step[h->steps++] = (of_step){h->at[i].step, i, i};
}

static void note_process(history *h, int i) {
  const entry *e = &h->at[i];
  of_process *p = find_process(h, e->process);
  if (!p) {
    h->process =
        more(h->process, h->processes, &h->process_room, sizeof *h->process);
    p = &h->process[h->processes++];
    *p = (of_process){e->process, -1, -1, -1};
  }
  if (e->kind == PROCESS && p->began < 0) p->began = i;
  if (e->kind == DIED && p->died < 0) p->died = i;
  if (e->kind == FOUND && p->found < 0) p->found = i;
}

static void add(history *h, entry e) {
  e.next = -1;
  h->at = more(h->at, h->n, &h->room, sizeof *h->at);
  h->at[h->n] = e;
  if (e.kind != PROCESS && e.kind != DIED) chain(h, h->n);
  if (e.kind == PROCESS || e.kind == DIED || e.kind == FOUND)
    note_process(h, h->n);
  h->n++;
}

void history_process(history *h, int process, int task) {
  add(h, (entry){.kind = PROCESS, .process = process, .value = task});
}

void history_died(history *h, int process) {
  add(h, (entry){.kind = DIED, .process = process});
}

void history_begin(history *h, int64_t step, int64_t now, int64_t by) {
  add(h, (entry){.kind = BEGIN, .step = step, .value = now, .by = by});
}

void history_op(history *h, int64_t step, int op, int task) {
  add(h, (entry){.kind = OP, .step = step, .op = op, .value = task});
}

void history_acknowledged(history *h, int64_t step, int64_t now) {
  add(h, (entry){.kind = ACKNOWLEDGED, .step = step, .value = now});
}

void history_failed(history *h, int64_t step, int64_t now) {
  add(h, (entry){.kind = FAILED, .step = step, .value = now});
}

void history_applying(history *h, int process, int64_t step, int op) {
  add(h, (entry){.kind = APPLYING, .process = process, .op = op, .step = step});
}

void history_applied(history *h, int process, int64_t step, int op) {
  add(h, (entry){.kind = APPLIED, .process = process, .op = op, .step = step});
}

void history_cancelled(history *h, int process, int64_t step) {
  add(h, (entry){.kind = CANCELLED, .process = process, .step = step});
}

void history_found(history *h, int process, int64_t step, int op, int times) {
  add(h, (entry){.kind = FOUND,
                 .process = process,
                 .op = op,
                 .step = step,
                 .value = times});
}

/* ---- looking back -------------------------------------------------------- */

/* Whoever checks, and what he says. */
typedef struct reader {
  const history *h;
  char *why;
  size_t room;
} reader;

static bool broken(const reader *r, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(r->why, r->room, fmt, args);
  va_end(args);
  return false;
}

/* The first entry of a kind about the step that `of` is about, from entry `i`;
 * -1: none. */
static int next_of_step(const history *h, int i, kind k, const entry *of) {
  for (int at = h->step[of->of].first; at >= 0; at = h->at[at].next)
    if (at >= i && h->at[at].kind == k) return at;
  return -1;
}

static int next_of_op(const history *h, int i, kind k, const entry *of) {
  while ((i = next_of_step(h, i, k, of)) >= 0 && h->at[i].op != of->op) i++;
  return i;
}

/* Was the process dead when entry i was written? */
static bool dead_by(const history *h, int i, int process) {
  const of_process *p = find_process(h, process);
  return p && p->died >= 0 && p->died < i;
}

/* How often an op was applied by the living before entry `end`. */
static int applied(const history *h, const entry *op, int end) {
  int times = 0;
  for (int i = 0; (i = next_of_op(h, i, APPLIED, op)) >= 0 && i < end; i++)
    times += !dead_by(h, i, h->at[i].process);
  return times;
}

/* ---- the promises -------------------------------------------------------- */

/* Where the step ended; -1 with the reason when it did not, as it should. */
static int end_of(const reader *r, const entry *begin) {
  const history *h = r->h;
  long long step = begin->step;
  int ok = next_of_step(h, 0, ACKNOWLEDGED, begin);
  int bad = next_of_step(h, 0, FAILED, begin);
  int end = ok >= 0 ? ok : bad;
  if (end < 0)
    broken(r, "step %lld never ended (P1)", step);
  else if ((ok >= 0 && bad >= 0) ||
           next_of_step(h, end + 1, h->at[end].kind, begin) >= 0)
    broken(r, "step %lld ended twice (P1)", step);
  else if (h->at[end].value > begin->by)
    broken(r, "step %lld ended %lld us too late (P1)", step,
           (long long)(h->at[end].value - begin->by) / 1000);
  else
    return end;
  return -1;
}

/* All times: of a step that failed it may be after the end, too. */
static bool check_op(const reader *r, const entry *op, int end) {
  const history *h = r->h;
  int before = applied(h, op, end), all = applied(h, op, h->n);
  long long step = op->step;
  if (all > 1)
    return broken(r, "op %d of step %lld was applied %d times (P%d)", op->op,
                  step, all, h->at[end].kind == FAILED ? 3 : 2);
  if (h->at[end].kind == ACKNOWLEDGED && before != 1)
    return broken(r, "step %lld was acknowledged, op %d of task %d %s (P2)",
                  step, op->op, (int)op->value,
                  all ? "was applied later" : "was not applied");
  return true;
}

static bool check_step(const reader *r, const entry *begin) {
  const history *h = r->h;
  int end = end_of(r, begin);
  if (end < 0) return false;
  for (int i = 0; (i = next_of_step(h, i, OP, begin)) >= 0; i++)
    if (!check_op(r, &h->at[i], end)) return false;
  return true;
}

/* Was there a process of the task when the step began? */
static bool had(const history *h, int64_t task, int begin) {
  for (int i = 0; i < h->processes; i++) {
    int began = h->process[i].began;
    if (began >= 0 && began < begin && h->at[began].value == task) return true;
  }
  return false;
}

/* An op that begins or ends: known, on its task, by a process that was there.
 */
static bool check_place(const reader *r, int at) {
  const history *h = r->h;
  const entry *e = &h->at[at];
  long long step = e->step;
  int op = next_of_op(h, 0, OP, e), begin = next_of_step(h, 0, BEGIN, e);
  const of_process *p = find_process(h, e->process);
  int process = p ? p->began : -1;
  if (op < 0 || begin < 0 || op > at)
    return broken(r, "op %d of step %lld is applied, which nobody began", e->op,
                  step);
  int64_t task = h->at[op].value;
  if (process < 0 || h->at[process].value != task)
    return broken(r,
                  "op %d of step %lld is applied by process %d, not task %d "
                  "(P7)",
                  e->op, step, e->process, (int)task);
  if (process > begin && had(h, task, begin))
    return broken(r,
                  "op %d of step %lld is applied by process %d, which is "
                  "younger (P7)",
                  e->op, step, e->process);
  return true;
}

/* What has begun may end after it was cancelled. */
static bool check_stopped(const reader *r, int at) {
  const history *h = r->h;
  const entry *e = &h->at[at];
  for (int i = 0; (i = next_of_step(h, i, CANCELLED, e)) >= 0 && i < at; i++)
    if (h->at[i].process == e->process)
      return broken(r,
                    "op %d of step %lld begins in process %d, where it was "
                    "cancelled (P4)",
                    e->op, (long long)e->step, e->process);
  return true;
}

/* Whole: what a process began it ended, unless it died. */
static bool check_whole(const reader *r, int at) {
  const history *h = r->h;
  const entry *e = &h->at[at];
  int begun = 0, ended = 0;
  for (int i = 0; (i = next_of_op(h, i, APPLYING, e)) >= 0; i++)
    begun += h->at[i].process == e->process;
  for (int i = 0; (i = next_of_op(h, i, APPLIED, e)) >= 0; i++)
    ended += h->at[i].process == e->process;
  if (begun == ended || dead_by(h, h->n, e->process)) return true;
  return broken(r,
                "op %d of step %lld began %d times in process %d and ended "
                "%d times (P3)",
                e->op, (long long)e->step, begun, e->process, ended);
}

/* What is there at the end is what was applied there. */
static bool check_found(const reader *r, int at) {
  const history *h = r->h;
  const entry *e = &h->at[at];
  int times = 0;
  for (int i = 0; (i = next_of_op(h, i, APPLIED, e)) >= 0; i++)
    times += h->at[i].process == e->process;
  if (times == e->value || dead_by(h, h->n, e->process)) return true;
  return broken(r,
                "op %d of step %lld is there %d times in process %d, applied "
                "%d times (P2)",
                e->op, (long long)e->step, (int)e->value, e->process, times);
}

/* Who is asked what is there has all that it applied. */
static bool check_lost(const reader *r, int at) {
  const history *h = r->h;
  const entry *e = &h->at[at];
  const of_process *p = find_process(h, e->process);
  if (!p || p->died >= 0 || p->found < 0) return true;
  for (int i = 0; (i = next_of_op(h, i, FOUND, e)) >= 0; i++)
    if (h->at[i].process == e->process) return true;
  return broken(r, "op %d of step %lld is lost from process %d (P2)", e->op,
                (long long)e->step, e->process);
}

static bool check_entry(const reader *r, int i) {
  const entry *e = &r->h->at[i];
  if (e->kind == BEGIN) return check_step(r, e);
  if (e->kind == FOUND) return check_found(r, i);
  if (e->kind != APPLYING && e->kind != APPLIED) return true;
  if (dead_by(r->h, i, e->process)) return true;
  if (!check_whole(r, i) || !check_place(r, i)) return false;
  return e->kind == APPLYING ? check_stopped(r, i) : check_lost(r, i);
}

bool history_check(const history *h, char *why, size_t room) {
  reader r = {h, why, room};
  for (int i = 0; i < h->n; i++)
    if (!check_entry(&r, i)) return false;
  return true;
}

history_sums history_count(const history *h) {
  history_sums s = {0};
  for (int i = 0; i < h->n; i++) {
    const entry *e = &h->at[i];
    s.acknowledged += e->kind == ACKNOWLEDGED;
    s.failed += e->kind == FAILED;
    s.applied += e->kind == APPLIED && !dead_by(h, i, e->process);
    if (e->kind != OP || next_of_step(h, 0, FAILED, e) < 0) continue;
    s.applied_of_failed += applied(h, e, h->n) > 0;
    s.missed_of_failed += applied(h, e, h->n) == 0;
  }
  return s;
}
