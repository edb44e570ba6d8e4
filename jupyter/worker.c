/* worker.c - serves requests one by one: busy, handler, reply, idle.
 *
 * After a cell that failed, those that had arrived by then are refused; after
 * an interrupt, those that had arrived when it came. Other requests go on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "jupyter/kernel_impl.h"

enum { MOST_TRIES = 4000 }; /* to find a request's line busy */

static _Thread_local td_jupyter_worker *mine;

td_jupyter_request *td_jupyter_worker_request(void) {
  return mine ? mine->current : NULL;
}

/* ---- the services ---- */

/* Requests by the service of tide.console that answers them; comm messages have
 * no reply. */
static const struct {
  const char *request, *service, *reply;
} services[] = {{"execute_request", "execute", "execute_reply"},
                {"complete_request", "complete", "complete_reply"},
                {"inspect_request", "inspect", "inspect_reply"},
                {"is_complete_request", "is_complete", "is_complete_reply"},
                {"history_request", "history", "history_reply"},
                {"debug_request", "debug", "debug_reply"},
                {"comm_info_request", "comm_info", "comm_info_reply"},
                {"comm_open", "comm_open", NULL},
                {"comm_msg", "comm_msg", NULL},
                {"comm_close", "comm_close", NULL}};

static bool is_execute(const td_jupyter_request *r) {
  return td_jupyter_request_is(r, "execute_request");
}

/* {"ename": .., "evalue": .., "traceback": [..] */
static void add_error(td_str *out, const char *name, const char *value,
                      size_t len) {
  td_str_addf(out, "{\"ename\": \"%s\", \"evalue\": ", name);
  td_str_json(out, value, len);
  td_str_add(out, ", \"traceback\": [");
  td_str_json(out, value, len);
  td_str_addc(out, ']');
}

static void add_failure(td_str *out, const char *name, const char *value,
                        size_t len, int count) {
  td_str_clear(out);
  add_error(out, name, value, len);
  td_str_addf(out, ", \"status\": \"error\", \"execution_count\": %d}", count);
}

/* The service itself failed: the console says nothing more of it. */
static void failed(td_jupyter_worker *w, td_jupyter_request *r,
                   td_host_outcome o, td_str *reply) {
  const char *name = o == TD_HOST_INTERRUPTED ? "KeyboardInterrupt" : "Error";
  td_str text, shown;
  td_str_init(&text);
  td_str_init(&shown);
  if (o == TD_HOST_INTERRUPTED)
    td_str_add(&text, "interrupted");
  else
    td_str_addn(&text, td_str_c(reply), reply->len);
  if (is_execute(r) && !td_jupyter_request_flag(r, "silent", false)) {
    add_error(&shown, name, td_str_c(&text), text.len);
    td_str_addc(&shown, '}');
    td_jupyter_iopub_send(w->kernel->iopub, r, "error",
                          (td_bytes){td_str_c(&shown), shown.len},
                          (td_bytes){0}, NULL, 0);
  }
  add_failure(reply, name, td_str_c(&text), text.len, w->count);
  td_str_deinit(&text);
  td_str_deinit(&shown);
}

static void call(td_jupyter_worker *w, td_jupyter_request *r,
                 const char *service, td_str *reply) {
  td_bytes c = td_jupyter_request_part(r, TD_JUPYTER_PART_CONTENT);
  td_host_outcome o = td_line_call(w->line, service, c.at, c.len, reply);
  if (o != TD_HOST_OK) failed(w, r, o, reply);
}

/* Looks at the reply to a cell: its count, and whether cells that wait are to
 * be refused. */
static void note_reply(td_jupyter_worker *w, td_jupyter_request *r,
                       const td_str *reply) {
  json_t *a = json_loadb(td_str_c(reply), reply->len, JSON_ALLOW_NUL, NULL);
  json_t *count = json_object_get(a, "execution_count");
  const char *status = json_string_value(json_object_get(a, "status"));
  const char *name = json_string_value(json_object_get(a, "ename"));
  bool failure = status && !strcmp(status, "error") &&
                 !td_jupyter_request_flag(r, "silent", false);
  bool interrupt = name && !strcmp(name, "KeyboardInterrupt");
  if (json_is_integer(count)) w->count = (int)json_integer_value(count);
  json_decref(a);
  bool goes_on = !td_jupyter_request_flag(r, "stop_on_error", true);
  if (!failure || goes_on) return;
  uint64_t before = td_jupyter_shell_drain(w->kernel->shell);
  pthread_mutex_lock(&w->lock);
  if (interrupt && w->interrupted_at) before = w->interrupted_at;
  w->abort_before = before;
  pthread_mutex_unlock(&w->lock);
}

static void answer(td_jupyter_worker *w, td_jupyter_request *r,
                   const char *started) {
  td_jupyter_kernel *k = w->kernel;
  const char *reply_type = NULL;
  td_str reply;
  td_str_init(&reply);
  if (td_jupyter_request_is(r, "kernel_info_request")) {
    td_jupyter_info(&reply);
    reply_type = "kernel_info_reply";
  }
  for (size_t i = 0; i < TD_COUNT(services); i++) {
    if (!td_jupyter_request_is(r, services[i].request)) continue;
    reply_type = services[i].reply;
    call(w, r, services[i].service, &reply);
  }
  if (is_execute(r)) note_reply(w, r, &reply);
  if (reply_type && w == &k->debug)
    td_jupyter_control_reply(k, r, reply_type, &reply);
  else if (reply_type)
    td_jupyter_shell_reply(k->shell, r, reply_type, td_str_c(&reply), reply.len,
                           started);
  td_str_deinit(&reply);
}

static void refuse(td_jupyter_worker *w, td_jupyter_request *r) {
  td_str reply;
  td_str_init(&reply);
  add_failure(&reply, "Aborted", "a cell before it failed", 23, w->count);
  td_jupyter_shell_reply(w->kernel->shell, r, "execute_reply", td_str_c(&reply),
                         reply.len, NULL);
  td_str_deinit(&reply);
}

static void serve(td_jupyter_worker *w, const td_jupyter_job *j, bool aborted) {
  td_jupyter_iopub *io = w->kernel->iopub;
  td_str started;
  td_str_init(&started);
  td_str_add(&started, "{\"started\": ");
  td_jupyter_wire_now(&started);
  td_str_addc(&started, '}');
  td_jupyter_iopub_status(io, j->request, "busy");
  if (is_execute(j->request)) td_jupyter_iopub_owner(io, j->request);
  if (aborted)
    refuse(w, j->request);
  else
    answer(w, j->request, td_str_c(&started));
  fflush(stdout);
  td_jupyter_iopub_status(io, j->request, "idle");
  td_str_deinit(&started);
}

/* ---- the queue ---- */

/* The next job, which becomes the current one; NULL when stopping. */
static td_jupyter_job *next_job(td_jupyter_worker *w, bool *aborted) {
  pthread_mutex_lock(&w->lock);
  while (!w->first && !w->stopping) pthread_cond_wait(&w->changed, &w->lock);
  td_jupyter_job *j = w->stopping ? NULL : w->first;
  if (j) {
    w->first = j->next;
    if (!w->first) w->last = &w->first;
    w->current = j->request;
    w->interrupted_at = 0;
    *aborted = is_execute(j->request) && j->number < w->abort_before;
  }
  pthread_mutex_unlock(&w->lock);
  return j;
}

void td_jupyter_worker_run(td_jupyter_worker *w) {
  td_jupyter_job *j;
  bool aborted = false;
  mine = w;
  while ((j = next_job(w, &aborted))) {
    serve(w, j, aborted);
    pthread_mutex_lock(&w->lock);
    w->current = NULL;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    td_jupyter_request_release(j->request);
    td_free(j);
  }
  mine = NULL;
}

void td_jupyter_worker_add(td_jupyter_worker *w, td_jupyter_request *r,
                           uint64_t number) {
  td_jupyter_job *j = td_alloc_zero(1, sizeof *j);
  if (!j) {
    td_jupyter_request_release(r);
    return;
  }
  j->request = r;
  j->number = number;
  pthread_mutex_lock(&w->lock);
  *w->last = j;
  w->last = &j->next;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

bool td_jupyter_worker_has_cell(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->lock);
  bool has = w->current && is_execute(w->current);
  for (const td_jupyter_job *j = w->first; j && !has; j = j->next)
    has = is_execute(j->request);
  pthread_mutex_unlock(&w->lock);
  return has;
}

bool td_jupyter_worker_busy(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->lock);
  bool busy = w->current || w->first;
  pthread_mutex_unlock(&w->lock);
  return busy;
}

/* The request that is served, for comparing only. */
static const td_jupyter_request *served(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->lock);
  const td_jupyter_request *r = w->current;
  pthread_mutex_unlock(&w->lock);
  return r;
}

/* Between taking a request and calling into Lua there is a moment in which the
 * line is idle. */
bool td_jupyter_worker_interrupt(td_jupyter_worker *w, uint64_t number) {
  struct timespec t = {.tv_nsec = 50000};
  pthread_mutex_lock(&w->lock);
  const td_jupyter_request *r = w->current;
  w->interrupted_at = number;
  pthread_mutex_unlock(&w->lock);
  for (int i = 0; r && i < MOST_TRIES && served(w) == r; i++) {
    if (td_line_interrupt(w->line)) return true;
    nanosleep(&t, NULL);
  }
  return false;
}

td_jupyter_request *td_jupyter_worker_served(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->lock);
  td_jupyter_request *r = td_jupyter_request_retain(w->current);
  pthread_mutex_unlock(&w->lock);
  return r;
}

void td_jupyter_worker_stop(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->lock);
  w->stopping = true;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

/* ---- life ---- */

static void *run(void *arg) {
  td_jupyter_worker_run(arg);
  return NULL;
}

td_status *td_jupyter_worker_init(td_jupyter_worker *w, td_jupyter_kernel *k,
                                  td_line *line) {
  w->kernel = k;
  w->line = line;
  w->last = &w->first;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  return line ? NULL : td_oom();
}

td_status *td_jupyter_worker_start(td_jupyter_worker *w) {
  w->started = td_thread_start(&w->thread, "worker", -1, run, w);
  return w->started ? NULL
                    : td_error(TD_RESOURCE_EXHAUSTED, "no thread for a worker");
}

void td_jupyter_worker_deinit(td_jupyter_worker *w) {
  if (!w->kernel) return;
  td_jupyter_worker_stop(w);
  if (w->started) pthread_join(w->thread, NULL);
  w->started = false;
  for (td_jupyter_job *j = w->first, *next; j; j = next) {
    next = j->next;
    td_jupyter_request_release(j->request);
    td_free(j);
  }
  w->first = NULL;
  w->last = &w->first;
}
