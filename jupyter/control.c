/* control.c - the thread of the control socket, which always answers.
 *
 * It serves its requests itself, one after the other, but for those of the
 * debugger, which run Lua code and so get a worker. It calls no Lua and waits
 * for none: a cell that holds the interpreter cannot hold it. Between requests
 * it follows up interrupts, frees subshells that have ended, and ends the
 * kernel when it is told to or when the process that started it is gone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/thread.h"
#include "jupyter/error.h"
#include "jupyter/event.h"
#include "jupyter/info.h"
#include "jupyter/kernel_impl.h"
#include "jupyter/log.h"
#include "jupyter/outbox.h"

enum {
  PARENT_MS = 1000, /* how often a vanished parent is looked for */
  FOLLOW_MS = 20    /* how often an interrupt that is not obeyed is */
};

typedef struct control {
  td_jupyter_kernel *kernel;
  void *socket;
  td_jupyter_queue outbox; /* the debugger's replies; its event wakes us */
  bool ended;
} control;

static control the_one; /* of the process's one kernel */

/* ---- handlers: each appends the content of its reply ---- */

static void unreadable(control *c, const td_jupyter_request *r, td_str *out) {
  const char *why = td_jupyter_request_problem(r);
  (void)c;
  td_jupyter_error_reply(out, "Error", why, strlen(why), -1);
}

static void add_error(td_str *out, const char *why) {
  td_jupyter_error_reply(out, "SubshellError", why, strlen(why), -1);
}

static void kernel_info(control *c, const td_jupyter_request *r, td_str *out) {
  (void)c;
  (void)r;
  td_jupyter_info(out);
}

static void usage(control *c, const td_jupyter_request *r, td_str *out) {
  (void)c;
  (void)r;
  td_jupyter_info_usage(out);
}

static void interrupt(control *c, const td_jupyter_request *r, td_str *out) {
  (void)r;
  td_jupyter_interrupt_all(c->kernel);
  td_str_add(out, "{\"status\": \"ok\"}");
}

/* All output is out before the reply is. */
static void shut_down(control *c, const td_jupyter_request *r, td_str *out) {
  bool restart = td_jupyter_request_flag(r, "restart", false);
  td_jupyter_shutdown(c->kernel);
  td_jupyter_iopub_flush(c->kernel->iopub);
  td_str_addf(out, "{\"status\": \"ok\", \"restart\": %s}",
              restart ? "true" : "false");
  c->ended = true;
}

static void create_subshell(control *c, const td_jupyter_request *r,
                            td_str *out) {
  char id[37];
  (void)r;
  td_status *s = td_jupyter_subshell_create(&c->kernel->subshells, id);
  if (td_ok(s))
    td_str_addf(out, "{\"status\": \"ok\", \"subshell_id\": \"%s\"}", id);
  else
    add_error(out, td_status_message(s));
  td_status_release(s);
}

static void delete_subshell(control *c, const td_jupyter_request *r,
                            td_str *out) {
  const char *id = td_jupyter_request_text(r, "subshell_id").at;
  if (id && td_jupyter_subshell_delete(&c->kernel->subshells, id))
    td_str_add(out, "{\"status\": \"ok\"}");
  else
    add_error(out, "there is no subshell of this id");
}

static void list_subshell(control *c, const td_jupyter_request *r,
                          td_str *out) {
  (void)r;
  td_str_add(out, "{\"status\": \"ok\", \"subshell_id\": ");
  td_jupyter_subshell_list(&c->kernel->subshells, out);
  td_str_addc(out, '}');
}

static const struct {
  const char *request, *reply;
  void (*handle)(control *c, const td_jupyter_request *r, td_str *out);
} handlers[] = {
    {"kernel_info_request", "kernel_info_reply", kernel_info},
    {"interrupt_request", "interrupt_reply", interrupt},
    {"shutdown_request", "shutdown_reply", shut_down},
    {"usage_request", "usage_reply", usage},
    {"create_subshell_request", "create_subshell_reply", create_subshell},
    {"delete_subshell_request", "delete_subshell_reply", delete_subshell},
    {"list_subshell_request", "list_subshell_reply", list_subshell},
};

/* ---- debugging: on a line and thread of its own ---- */

static bool start_debug(control *c) {
  td_jupyter_kernel *k = c->kernel;
  td_jupyter_worker *w = &k->debug;
  if (w->started) return true;
  td_status *s = NULL;
  if (!w->line)
    s = td_jupyter_worker_init(w, td_line_new(k->host, "debug"), k->iopub,
                               k->shell, &c->outbox);
  if (td_ok(s)) s = td_jupyter_worker_start(w);
  td_status_release(s);
  return w->started;
}

/* True when the request is taken care of. */
static bool debug(control *c, td_jupyter_request *r) {
  if (!td_jupyter_request_is(r, "debug_request") || !start_debug(c))
    return false;
  td_jupyter_worker_add(&c->kernel->debug, td_jupyter_request_retain(r), 0);
  return true;
}

static void serve(control *c, td_jupyter_request *r) {
  td_jupyter_kernel *k = c->kernel;
  if (debug(c, r)) return;
  td_str content;
  td_str_init(&content);
  td_jupyter_iopub_status(k->iopub, r, "busy");
  for (size_t i = 0; i < TD_COUNT(handlers); i++) {
    if (!td_jupyter_request_is(r, handlers[i].request)) continue;
    bool readable = !td_jupyter_request_problem(r);
    (readable ? handlers[i].handle : unreadable)(c, r, &content);
    td_bytes bytes = {td_str_c(&content), content.len};
    td_jupyter_reply reply = {
        .to = r, .type = handlers[i].reply, .content = bytes};
    td_jupyter_wire_send(&k->wire, c->socket, &reply, NULL);
    if (c->ended)
      td_jupyter_iopub_send(k->iopub, r, reply.type, bytes, (td_bytes){0}, NULL,
                            0);
  }
  td_jupyter_iopub_status(k->iopub, r, "idle");
  td_str_deinit(&content);
}

static void serve_all(control *c) {
  while (!c->ended) {
    td_jupyter_request *r;
    td_status *s = td_jupyter_wire_receive(&c->kernel->wire, c->socket, &r);
    if (td_ok(s)) {
      serve(c, r);
      td_jupyter_request_release(r);
      continue;
    }
    bool none = td_status_code(s) == TD_UNAVAILABLE;
    if (!none) td_jupyter_iopub_dropped(c->kernel->iopub, s);
    if (none) {
      td_status_release(s);
      return;
    }
  }
}

/* ---- the thread ---- */

/* The process that started us, when it said so. */
static pid_t watched_parent(void) {
  const char *text = getenv("JPY_PARENT_PID");
  pid_t pid = text ? (pid_t)atol(text) : 0;
  return pid > 1 && pid == getppid() ? pid : 0;
}

static void *run(void *arg) {
  control *c = arg;
  td_jupyter_kernel *k = c->kernel;
  pid_t parent = watched_parent();
  bool follows = false, all_left = true;
  while (!c->ended) {
    zmq_pollitem_t items[] = {{.socket = c->socket, .events = ZMQ_POLLIN},
                              {.fd = k->terminate, .events = ZMQ_POLLIN},
                              {.fd = k->interrupt, .events = ZMQ_POLLIN},
                              {.fd = c->outbox.event, .events = ZMQ_POLLIN}};
    bool looks = follows || !all_left;
    zmq_poll(items, 4, looks ? FOLLOW_MS : parent ? PARENT_MS : -1);
    if (td_jupyter_event_clear(k->interrupt)) td_jupyter_interrupt_all(k);
    if (td_jupyter_event_clear(c->outbox.event))
      td_jupyter_outbox_send(&c->outbox, &k->wire, c->socket);
    serve_all(c);
    follows = td_jupyter_interrupt_follow(k);
    all_left = td_jupyter_subshell_reap(&k->subshells);
    bool orphan = parent && getppid() != parent;
    if (!c->ended && (orphan || td_jupyter_event_clear(k->terminate))) {
      td_jupyter_shutdown(k);
      c->ended = true;
    }
  }
  zmq_close(c->socket);
  if (td_jupyter_worker_busy(&k->main)) td_jupyter_shutdown_abandon(k);
  return NULL;
}

td_status *td_jupyter_control_start(td_jupyter_kernel *k, void *socket) {
  the_one = (control){.kernel = k, .socket = socket};
  TD_TRY(td_jupyter_queue_init(&the_one.outbox, true));
  k->has_control = td_thread_start(&k->control, "control", -1, run, &the_one);
  return k->has_control
             ? NULL
             : td_error(TD_RESOURCE_EXHAUSTED, "no thread for control");
}

void td_jupyter_control_join(td_jupyter_kernel *k) {
  if (k->has_control) pthread_join(k->control, NULL);
}
