/* trace_chrome.c - a trace over tasks: its arrows, and a file for viewers.
 *
 * An arrow joins what the two ends of an edge told: they know the same number
 * of the edge, and in loops the same frame and iteration. Where the two ends
 * are of different processes, it is only as good as what is known of their
 * clocks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/run/trace_impl.h"

/* ---- arrows -------------------------------------------------------------- */

void td_trace_arrows(td_trace *t, td_trace_arrow **arrows, size_t *count) {
  int64_t n;
  size_t n_tasks;
  td_trace_pair *pairs;
  const td_trace_event *e = td_trace_events(t, &n);
  const td_trace_task *tasks = td_trace_tasks(t, &n_tasks);
  td_trace_match(e, n, &pairs, count);
  *arrows = td_calloc(*count + 1, sizeof **arrows);
  if (!*arrows) *count = 0;
  for (size_t i = 0; i < *count; i++) {
    td_trace_pair p = pairs[i];
    int64_t error =
        td_trace_error(t, td_trace_task_of(tasks, n_tasks, &e[p.from]),
                       td_trace_task_of(tasks, n_tasks, &e[p.to]));
    (*arrows)[i] = (td_trace_arrow){p.from, p.to, error};
  }
  td_free(pairs);
}

/* ---- rows ---------------------------------------------------------------- */

/* A thread or a stream of a device, a row of a process. */
typedef struct row {
  const char *device, *stream;
  int32_t thread; /* 0 of a stream */
  int pid, tid;
} row;

typedef struct chart {
  const td_trace_event *e;
  int64_t n, zero;
  const td_trace_task *tasks;
  size_t n_tasks;
  row *rows, **of; /* of: by event */
  int n_rows;
  td_str *out;
  bool first;
} chart;

/* "/job:a/replica:0/task:0" of a device's name. */
static size_t task_length(const char *device) {
  const char *end = strstr(device, "/device:");
  return end ? (size_t)(end - device) : strlen(device);
}

/* A process for each task, in the order in which they come up. */
static void number_row(chart *c, row *r) {
  size_t len = task_length(r->device);
  int most = 0;
  for (row *o = c->rows; o < r; o++) {
    bool same =
        task_length(o->device) == len && memcmp(o->device, r->device, len) == 0;
    if (o->pid > most) most = o->pid;
    if (same) r->pid = o->pid;
    if (same) r->tid++;
  }
  if (!r->pid) r->pid = most + 1;
  r->tid++;
}

static row *row_of(chart *c, td_map *known, const td_trace_event *e) {
  td_str key = {0};
  int32_t thread = td_trace_is_work(e) ? 0 : e->thread;
  td_str_addf(&key, "%d %s %s", (int)thread, e->stream, e->device);
  row *r = td_map_get(known, td_str_c(&key));
  if (!r) {
    r = &c->rows[c->n_rows];
    *r = (row){e->device, e->stream, thread, 0, 0};
    if (key.failed || !td_map_put(known, td_str_c(&key), r))
      r = NULL;
    else
      c->n_rows++;
    if (r) number_row(c, r);
  }
  td_str_deinit(&key);
  return r;
}

static bool make_rows(chart *c) {
  td_map known;
  bool ok = true;
  td_map_init(&known);
  c->rows = td_calloc((size_t)c->n + 1, sizeof *c->rows);
  c->of = td_calloc((size_t)c->n + 1, sizeof *c->of);
  for (int64_t i = 0; c->rows && c->of && ok && i < c->n; i++)
    ok = (c->of[i] = row_of(c, &known, &c->e[i])) != NULL;
  td_map_deinit(&known);
  return ok && c->rows && c->of;
}

/* ---- what is written ----------------------------------------------------- */

static void begin(chart *c, const char *kind, const row *r) {
  td_str_addf(c->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d",
              c->first ? "" : ",", kind, r->pid, r->tid);
  c->first = false;
}

static void text(chart *c, const char *key, const char *value) {
  td_str_addf(c->out, ",\"%s\":", key);
  td_str_json(c->out, value, strlen(value));
}

static void moment(chart *c, const char *key, int64_t at) {
  td_str_addf(c->out, ",\"%s\":%.3f", key, (double)at * 1e-3);
}

static void named(chart *c, const row *r, const char *what, const char *name) {
  begin(c, "M", r);
  text(c, "name", what);
  td_str_add(c->out, ",\"args\":{\"name\":");
  td_str_json(c->out, name, strlen(name));
  td_str_add(c->out, "}}");
}

static void name_process(chart *c, const row *r) {
  td_str name = {0};
  td_str_addn(&name, r->device, task_length(r->device));
  for (size_t i = 0; i < c->n_tasks; i++)
    if (td_trace_is_of(r->device, c->tasks[i].task))
      td_str_addf(&name, " (clock %+.3f us, within %.3f us)",
                  (double)c->tasks[i].clock * 1e-3,
                  (double)c->tasks[i].error * 1e-3);
  named(c, r, "process_name", td_str_c(&name));
  td_str_deinit(&name);
}

static void name_rows(chart *c) {
  for (int i = 0; i < c->n_rows; i++) {
    const row *r = &c->rows[i];
    const char *d = strstr(r->device, "/device:");
    td_str name = {0};
    if (r->tid == 1) name_process(c, r);
    td_str_addf(&name, "%s, ", d ? d + 8 : r->device);
    if (*r->stream)
      td_str_add(&name, r->stream);
    else
      td_str_addf(&name, "thread %d", (int)r->thread);
    named(c, r, "thread_name", td_str_c(&name));
    td_str_deinit(&name);
  }
}

static void add_event(chart *c, const td_trace_event *e, const row *r) {
  begin(c, "X", r);
  text(c, "name", e->op);
  moment(c, "ts", e->start - c->zero);
  moment(c, "dur", e->end - e->start);
  td_str_add(c->out, ",\"args\":{\"node\":");
  td_str_json(c->out, e->node, strlen(e->node));
  td_str_addf(c->out, ",\"iteration\":%lld,\"bytes\":%lld",
              (long long)e->iteration, (long long)e->bytes);
  moment(c, "waited_us", e->start - e->ready);
  if (td_trace_is_work(e) && *e->value) text(c, "kernel", e->value);
  td_str_add(c->out,
             e->failed ? ",\"failed\":true},\"cname\":\"terrible\"}" : "}}");
}

/* The end of an arrow lies within its box, else viewers take the next one. */
static void add_arrow(chart *c, const td_trace_arrow *a, size_t number) {
  const td_trace_event *from = &c->e[a->from], *to = &c->e[a->to];
  for (int k = 0; k < 2; k++) {
    int64_t at = k ? to->end - (to->end > to->start) : from->start;
    begin(c, k ? "f" : "s", c->of[k ? a->to : a->from]);
    td_str_addf(c->out, ",\"id\":%zu%s", number, k ? ",\"bp\":\"e\"" : "");
    text(c, "name", to->value);
    text(c, "cat", "transfer");
    moment(c, "ts", at - c->zero);
    td_str_addf(c->out, ",\"args\":{\"edge\":%d,\"bytes\":%lld", (int)to->edge,
                (long long)to->bytes);
    moment(c, "waited_us", to->end - to->start);
    moment(c, "error_us", a->error);
    td_str_add(c->out, "}}");
  }
}

/* From within the node's box, at the moment when the work was enqueued. */
static void add_launch(chart *c, const td_trace_arrow *a, size_t number) {
  const td_trace_event *from = &c->e[a->from], *to = &c->e[a->to];
  int64_t left = to->ready < from->start ? from->start : to->ready;
  if (left > from->end) left = from->end;
  for (int k = 0; k < 2; k++) {
    begin(c, k ? "f" : "s", c->of[k ? a->to : a->from]);
    td_str_addf(c->out, ",\"id\":%zu%s", number, k ? ",\"bp\":\"e\"" : "");
    text(c, "name", "enqueued");
    text(c, "cat", "launch");
    moment(c, "ts", (k ? to->start : left) - c->zero);
    td_str_add(c->out, ",\"args\":{\"node\":");
    td_str_json(c->out, to->node, strlen(to->node));
    moment(c, "waited_us", to->start - to->ready);
    td_str_add(c->out, "}}");
  }
}

/* Where it has changed: events of a device have one string, mostly. */
static void add_memory(chart *c) {
  int64_t *last = td_calloc((size_t)c->n_rows + 1, sizeof *last);
  for (int64_t i = 0; last && i < c->n; i++) {
    const td_trace_event *e = &c->e[i];
    const row *r = c->of[i];
    if (!e->memory) continue;
    const char *d = strstr(r->device, "/device:");
    int64_t *of = &last[r - c->rows];
    if (*of == e->memory) continue;
    *of = e->memory;
    begin(c, "C", r);
    td_str_addf(c->out, ",\"name\":\"memory of %s\"", d ? d + 8 : "a card");
    moment(c, "ts", e->end - c->zero);
    td_str_addf(c->out, ",\"args\":{\"in use\":%lld}}", (long long)e->memory);
  }
  td_free(last);
}

static void add_tasks(chart *c) {
  td_str_add(c->out, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{");
  for (size_t i = 0; i < c->n_tasks; i++) {
    const td_trace_task *t = &c->tasks[i];
    td_str_add(c->out, i ? ",\n" : "\n");
    td_str_json(c->out, t->task, strlen(t->task));
    td_str_addf(c->out, ":{\"dropped\":%lld", (long long)t->dropped);
    moment(c, "clock_us", t->clock);
    moment(c, "error_us", t->error);
    text(c, "trouble", t->trouble);
    td_str_add(c->out, "}");
  }
  td_str_add(c->out, "}}\n");
}

void td_trace_chrome(td_trace *t, td_str *out) {
  chart c = {.out = out, .first = true};
  td_trace_arrow *arrows, *launches;
  size_t n_arrows, n_launches;
  td_trace_arrows(t, &arrows, &n_arrows);
  td_trace_launches(t, &launches, &n_launches);
  c.e = td_trace_events(t, &c.n);
  c.tasks = td_trace_tasks(t, &c.n_tasks);
  c.zero = c.n ? c.e[0].start : 0;
  td_str_add(out, "{\"traceEvents\":[");
  if (make_rows(&c)) {
    name_rows(&c);
    for (int64_t i = 0; i < c.n; i++) add_event(&c, &c.e[i], c.of[i]);
    for (size_t i = 0; i < n_arrows; i++) add_arrow(&c, &arrows[i], i + 1);
    for (size_t i = 0; i < n_launches; i++)
      add_launch(&c, &launches[i], n_arrows + i + 1);
    add_memory(&c);
  }
  add_tasks(&c);
  td_free(arrows);
  td_free(launches);
  td_free(c.rows);
  td_free(c.of);
}
