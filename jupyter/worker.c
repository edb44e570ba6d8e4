/* worker.c - serves requests one by one: busy, handler, reply, idle.
 *
 * A request is answered by a service of the console, in Lua. A cell that fails
 * takes the cells behind it along: those that had arrived by then are refused;
 * after an interrupt, those that had arrived when it came. Other requests go
 * on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/worker.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "jupyter/error.h"
#include "jupyter/info.h"
#include "jupyter/outbox.h"

enum { MOST_TRIES = 4000 }; /* to find a request's line busy */

typedef struct job {
  td_jupyter_entry entry;
  td_jupyter_request *request;
  uint64_t number; /* in the order of arrival at the kernel */
} job;

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

/* Shows an error of a request that is no cell's own: a cell's as such, else,
 * where no reply tells it, as text. */
static void show(td_jupyter_worker *w, td_jupyter_request *r, bool replies,
                 const char *name, const td_str *why) {
  td_str shown;
  td_str_init(&shown);
  if (is_execute(r)) {
    td_jupyter_error_shown(&shown, name, td_str_c(why), why->len);
    td_jupyter_iopub_send(w->iopub, r, "error",
                          (td_bytes){td_str_c(&shown), shown.len},
                          (td_bytes){0}, NULL, 0);
  } else if (!replies) {
    td_str_addf(&shown, "[%s: %s]\n", td_jupyter_request_type(r),
                td_str_c(why));
    td_jupyter_iopub_text(w->iopub, r, 2, td_str_c(&shown), shown.len);
  }
  td_str_deinit(&shown);
}

/* The service itself failed, or there is nothing for it to read: `reply`, the
 * reason so far, becomes the reply that tells it. */
static void failed(td_jupyter_worker *w, td_jupyter_request *r, bool replies,
                   td_host_outcome o, td_str *reply) {
  const char *name = o == TD_HOST_INTERRUPTED ? "KeyboardInterrupt" : "Error";
  td_str why;
  td_str_init(&why);
  if (o == TD_HOST_INTERRUPTED)
    td_str_add(&why, "interrupted");
  else
    td_str_addn(&why, td_str_c(reply), reply->len);
  if (!td_jupyter_request_flag(r, "silent", false))
    show(w, r, replies, name, &why);
  td_str_clear(reply);
  td_jupyter_error_reply(reply, name, td_str_c(&why), why.len, w->count);
  td_str_deinit(&why);
}

static td_host_outcome call(td_jupyter_worker *w, const td_jupyter_request *r,
                            const char *service, td_str *reply) {
  td_bytes c = td_jupyter_request_part(r, TD_JUPYTER_PART_CONTENT);
  return td_host_call(w->line, service, c.at, c.len, reply);
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
  uint64_t before = td_jupyter_shell_drain(w->shell);
  pthread_mutex_lock(&w->jobs.lock);
  if (interrupt && w->interrupted_at) before = w->interrupted_at;
  w->abort_before = before;
  pthread_mutex_unlock(&w->jobs.lock);
}

static void answer(td_jupyter_worker *w, td_jupyter_request *r,
                   const char *started) {
  const char *reply_type = NULL, *service = NULL,
             *problem = td_jupyter_request_problem(r);
  td_host_outcome o = problem ? TD_HOST_ERROR : TD_HOST_OK;
  bool info = td_jupyter_request_is(r, "kernel_info_request");
  td_str reply;
  td_str_init(&reply);
  if (info) reply_type = "kernel_info_reply";
  for (size_t i = 0; i < TD_COUNT(services); i++) {
    if (!td_jupyter_request_is(r, services[i].request)) continue;
    reply_type = services[i].reply;
    service = services[i].service;
  }
  if (problem)
    td_str_add(&reply, problem);
  else if (info)
    td_jupyter_info(&reply);
  else if (service)
    o = call(w, r, service, &reply);
  if (o != TD_HOST_OK) failed(w, r, reply_type, o, &reply);
  if (is_execute(r)) note_reply(w, r, &reply);
  if (reply_type)
    td_jupyter_outbox_post(w->outbox, r, reply_type, &reply, started);
  td_str_deinit(&reply);
}

static void refuse(td_jupyter_worker *w, td_jupyter_request *r) {
  static const char why[] = "a cell before it failed";
  td_str reply;
  td_str_init(&reply);
  td_jupyter_error_reply(&reply, "Aborted", why, sizeof why - 1, w->count);
  td_jupyter_outbox_post(w->outbox, r, "execute_reply", &reply, NULL);
  td_str_deinit(&reply);
}

static void serve(td_jupyter_worker *w, const job *j, bool aborted) {
  td_jupyter_iopub *io = w->iopub;
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
static job *next_job(td_jupyter_worker *w, bool *aborted) {
  td_jupyter_queue *q = &w->jobs;
  pthread_mutex_lock(&q->lock);
  while (!q->first && !w->stopping) pthread_cond_wait(&q->changed, &q->lock);
  job *j = w->stopping ? NULL : td_jupyter_queue_pop(q);
  if (j) {
    w->current = j->request;
    w->interrupted_at = 0;
    *aborted = is_execute(j->request) && j->number < w->abort_before;
  }
  pthread_mutex_unlock(&q->lock);
  return j;
}

static void job_free(job *j) {
  td_jupyter_request_release(j->request);
  td_free(j);
}

void td_jupyter_worker_run(td_jupyter_worker *w) {
  job *j;
  bool aborted = false;
  mine = w;
  while ((j = next_job(w, &aborted))) {
    serve(w, j, aborted);
    pthread_mutex_lock(&w->jobs.lock);
    w->current = NULL;
    pthread_mutex_unlock(&w->jobs.lock);
    job_free(j);
  }
  mine = NULL;
}

void td_jupyter_worker_add(td_jupyter_worker *w, td_jupyter_request *r,
                           uint64_t number) {
  job *j = td_calloc(1, sizeof *j);
  if (!j) {
    td_jupyter_request_release(r);
    return;
  }
  j->request = r;
  j->number = number;
  td_jupyter_queue_put(&w->jobs, &j->entry);
}

bool td_jupyter_worker_has_cell(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->jobs.lock);
  bool has = w->current && is_execute(w->current);
  for (const td_jupyter_entry *e = w->jobs.first; e && !has; e = e->next)
    has = is_execute(((const job *)e)->request);
  pthread_mutex_unlock(&w->jobs.lock);
  return has;
}

bool td_jupyter_worker_busy(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->jobs.lock);
  bool busy = w->current || w->jobs.first;
  pthread_mutex_unlock(&w->jobs.lock);
  return busy;
}

/* The request that is served, for comparing only. */
static const td_jupyter_request *served(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->jobs.lock);
  const td_jupyter_request *r = w->current;
  pthread_mutex_unlock(&w->jobs.lock);
  return r;
}

/* Between taking a request and calling into Lua there is a moment in which the
 * line is idle. */
bool td_jupyter_worker_interrupt(td_jupyter_worker *w, uint64_t number) {
  struct timespec t = {.tv_nsec = 50000};
  pthread_mutex_lock(&w->jobs.lock);
  const td_jupyter_request *r = w->current;
  w->interrupted_at = number;
  pthread_mutex_unlock(&w->jobs.lock);
  for (int i = 0; r && i < MOST_TRIES && served(w) == r; i++) {
    if (td_line_interrupt(w->line)) return true;
    nanosleep(&t, NULL);
  }
  return false;
}

td_jupyter_request *td_jupyter_worker_served(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->jobs.lock);
  td_jupyter_request *r = td_jupyter_request_retain(w->current);
  pthread_mutex_unlock(&w->jobs.lock);
  return r;
}

void td_jupyter_worker_stop(td_jupyter_worker *w) {
  pthread_mutex_lock(&w->jobs.lock);
  w->stopping = true;
  pthread_cond_broadcast(&w->jobs.changed);
  pthread_mutex_unlock(&w->jobs.lock);
}

/* ---- life ---- */

static void *run(void *arg) {
  td_jupyter_worker_run(arg);
  return NULL;
}

td_status *td_jupyter_worker_init(td_jupyter_worker *w, td_line *line,
                                  td_jupyter_iopub *iopub,
                                  td_jupyter_shell *shell,
                                  td_jupyter_queue *outbox) {
  if (!line) return td_oom();
  *w = (td_jupyter_worker){
      .line = line, .iopub = iopub, .shell = shell, .outbox = outbox};
  return td_jupyter_queue_init(&w->jobs, false);
}

td_status *td_jupyter_worker_start(td_jupyter_worker *w) {
  w->started = td_thread_start(&w->thread, "worker", -1, run, w);
  return w->started ? NULL
                    : td_error(TD_RESOURCE_EXHAUSTED, "no thread for a worker");
}

void td_jupyter_worker_deinit(td_jupyter_worker *w) {
  job *j;
  if (!w->line) return;
  td_jupyter_worker_stop(w);
  if (w->started) pthread_join(w->thread, NULL);
  while ((j = td_jupyter_queue_take(&w->jobs))) job_free(j);
  td_jupyter_queue_deinit(&w->jobs);
}
