/* trace_clocks.c - what the values of a step tell of its tasks' clocks.
 *
 * Question and answer give each clock within half a round trip. Values give
 * more: none arrives before it was sent, so that from A to B the difference of
 * what is still wrong of their clocks is at most the shortest time that a value
 * seems to have taken. All of it together are bounds of differences, a graph
 * whose shortest paths from and to this process are the largest and the
 * smallest that each clock may still be wrong by. Both are solutions, and so is
 * the middle of both, which is taken. Where there is none, because somebody
 * lied or a clock leapt, the clocks stay as they were measured.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/run/trace_impl.h"

enum { TASKS_MOST = 256, DRIFT = 10000 /* ns in which clocks differ by 1 */ };
#define UNKNOWN (INT64_MAX / 4)

/* ---- pairs --------------------------------------------------------------- */

/* What both ends know; no padding. */
typedef struct meeting {
  uint64_t frame;
  int64_t iteration, edge;
} meeting;

static meeting meeting_of(const td_trace_event *e) {
  return (meeting){e->frame, e->iteration, e->edge};
}

/* Sender's events by what they know. Returns how many receive; -1: no memory.
 */
static int64_t note_senders(const td_trace_event *e, int64_t n,
                            td_map *senders) {
  int64_t receivers = 0;
  for (int64_t i = 0; i < n; i++) {
    meeting m = meeting_of(&e[i]);
    receivers += e[i].way == TD_TRACE_RECEIVES;
    if (e[i].way != TD_TRACE_SENDS) continue;
    if (!td_map_putn(senders, &m, sizeof m, (void *)(uintptr_t)(i + 1)))
      return -1;
  }
  return receivers;
}

void td_trace_match(const td_trace_event *e, int64_t n, td_trace_pair **pairs,
                    size_t *count) {
  td_map senders;
  td_map_init(&senders);
  *count = 0;
  int64_t most = note_senders(e, n, &senders);
  *pairs = most >= 0 ? td_calloc((size_t)most + 1, sizeof **pairs) : NULL;
  for (int64_t i = 0; *pairs && i < n; i++) {
    meeting m = meeting_of(&e[i]);
    if (e[i].way != TD_TRACE_RECEIVES) continue;
    uintptr_t from = (uintptr_t)td_map_getn(&senders, &m, sizeof m);
    if (from) (*pairs)[(*count)++] = (td_trace_pair){(int64_t)from - 1, i};
  }
  td_map_deinit(&senders);
}

bool td_trace_is_of(const char *device, const char *task) {
  size_t n = strlen(task);
  return strncmp(device, task, n) == 0 && device[n] == '/';
}

size_t td_trace_task_of(const td_trace_task *tasks, size_t n,
                        const td_trace_event *e) {
  size_t i = 0;
  while (i < n && !td_trace_is_of(e->device, tasks[i].task)) i++;
  return i;
}

/* ---- bounds -------------------------------------------------------------- */

/* The last row and column are this process's. */
typedef struct bounds {
  int64_t *at; /* [n][n]: what is wrong of the second, less that of the first */
  size_t n;
} bounds;

static int64_t *bound(const bounds *b, size_t from, size_t to) {
  return &b->at[from * b->n + to];
}

static void tighten(const bounds *b, size_t from, size_t to, int64_t most) {
  int64_t *at = bound(b, from, to);
  if (most < -UNKNOWN) most = -UNKNOWN;
  if (most < *at) *at = most;
}

static void bound_by_clocks(const bounds *b, const td_trace_task *tasks) {
  size_t here = b->n - 1;
  for (size_t i = 0; i < b->n * b->n; i++) b->at[i] = UNKNOWN;
  for (size_t i = 0; i < b->n; i++) *bound(b, i, i) = 0;
  for (size_t i = 0; i < here; i++) {
    tighten(b, i, here, tasks[i].error);
    tighten(b, here, i, tasks[i].error);
  }
}

/* Whose each event is. Events of a device have one string. NULL: no memory. */
static size_t *owners_of(const td_trace_event *e, int64_t n,
                         const td_trace_task *tasks, size_t n_tasks) {
  size_t *of = td_calloc((size_t)n + 1, sizeof *of);
  for (int64_t i = 0; of && i < n; i++)
    of[i] = i > 0 && e[i].device == e[i - 1].device
                ? of[i - 1]
                : td_trace_task_of(tasks, n_tasks, &e[i]);
  return of;
}

typedef struct ran {
  int64_t first, last;
} ran;

/* For how long a task ran, at most: each by its own clock. */
static int64_t longest_span(const td_trace_event *e, int64_t n,
                            const size_t *of, ran *spans, size_t n_tasks) {
  int64_t longest = 0;
  for (size_t t = 0; t <= n_tasks; t++) spans[t] = (ran){INT64_MAX, INT64_MIN};
  for (int64_t i = 0; i < n; i++) {
    ran *s = &spans[of[i]];
    if (e[i].start < s->first) s->first = e[i].start;
    if (e[i].end > s->last) s->last = e[i].end;
    if (s->last - s->first > longest) longest = s->last - s->first;
  }
  return longest;
}

static bool bound_by_values(const bounds *b, const td_trace_event *e, int64_t n,
                            const size_t *of) {
  td_trace_pair *pairs;
  size_t count;
  ran *spans = td_calloc(b->n, sizeof *spans);
  int64_t apart = spans ? longest_span(e, n, of, spans, b->n - 1) / DRIFT : 0;
  td_trace_match(e, n, &pairs, &count);
  for (size_t i = 0; spans && i < count; i++) {
    size_t from = of[pairs[i].from], to = of[pairs[i].to];
    int64_t took = e[pairs[i].to].end - e[pairs[i].from].start;
    if (from != to) tighten(b, from, to, took + apart);
  }
  bool ok = pairs && spans;
  td_free(pairs);
  td_free(spans);
  return ok;
}

/* Shortest paths. False: there is no solution. */
static bool close_bounds(const bounds *b) {
  for (size_t k = 0; k < b->n; k++)
    for (size_t i = 0; i < b->n; i++)
      for (size_t j = 0; j < b->n; j++)
        tighten(b, i, j, *bound(b, i, k) + *bound(b, k, j));
  for (size_t i = 0; i < b->n; i++)
    if (*bound(b, i, i) < 0) return false;
  return true;
}

/* ---- moving -------------------------------------------------------------- */

static void move(td_trace_event *e, int64_t n, const size_t *of, size_t n_tasks,
                 const int64_t *by) {
  for (int64_t i = 0; i < n; i++) {
    if (of[i] == n_tasks) continue;
    e[i].ready -= by[of[i]];
    e[i].start -= by[of[i]];
    e[i].end -= by[of[i]];
  }
}

/* What may still be wrong between two that were moved. */
static int64_t error_of(const bounds *b, size_t i, size_t k,
                        const int64_t *by) {
  size_t here = b->n - 1;
  int64_t moved = (k < here ? by[k] : 0) - (i < here ? by[i] : 0);
  int64_t up = *bound(b, i, k) - moved, down = *bound(b, k, i) + moved;
  return (up > down ? up : down) + (i != k);
}

static void tell_errors(const bounds *b, const int64_t *by, int64_t *between) {
  for (size_t i = 0; i < b->n; i++)
    for (size_t k = 0; k < b->n; k++)
      between[i * b->n + k] = error_of(b, i, k, by);
}

static void take_middle(const bounds *b, td_trace_task *tasks, int64_t *by) {
  size_t here = b->n - 1;
  for (size_t i = 0; i < here; i++) {
    int64_t most = *bound(b, here, i), least = -*bound(b, i, here);
    by[i] = least + (most - least) / 2;
    tasks[i].clock += by[i];
    tasks[i].error = (most - least) / 2 + 1;
  }
}

/* As they were measured, all from here. */
static void tell_measured(const td_trace_task *tasks, size_t n,
                          int64_t *between) {
  for (size_t i = 0; i <= n; i++)
    for (size_t k = 0; k <= n; k++)
      between[i * (n + 1) + k] =
          i == k ? 0
                 : (i < n ? tasks[i].error : 0) + (k < n ? tasks[k].error : 0);
}

void td_trace_settle(td_trace_event *e, int64_t n, td_trace_task *tasks,
                     size_t n_tasks, int64_t *between) {
  tell_measured(tasks, n_tasks, between);
  if (n_tasks == 0 || n_tasks > TASKS_MOST) return;
  bounds b = {.n = n_tasks + 1};
  b.at = td_calloc(b.n * b.n, sizeof *b.at);
  int64_t *by = td_calloc(n_tasks, sizeof *by);
  size_t *of = owners_of(e, n, tasks, n_tasks);
  if (b.at && by && of) {
    bound_by_clocks(&b, tasks);
    if (bound_by_values(&b, e, n, of) && close_bounds(&b)) {
      take_middle(&b, tasks, by);
      tell_errors(&b, by, between);
      move(e, n, of, n_tasks, by);
    }
  }
  td_free(b.at);
  td_free(by);
  td_free(of);
}
