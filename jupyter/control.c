/* control.c - the thread of the control socket, which always answers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "jupyter/kernel_impl.h"

enum {
  PARENT_MS = 1000, /* how often a vanished parent is looked for */
  FOLLOW_MS = 20    /* how often an interrupt that is not obeyed is */
};

typedef struct control {
  td_jupyter_kernel *kernel;
  void *socket;
  bool ended;
} control;

static control the_one; /* of the process's one kernel */

/* ---- handlers: each appends the content of its reply ---- */

static void add_error(td_str *out, const char *name, const char *value) {
  td_str_addf(out,
              "{\"status\": \"error\", \"ename\": \"%s\", \"evalue\": ", name);
  td_str_json(out, value, strlen(value));
  td_str_add(out, ", \"traceback\": []}");
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
  td_jupyter_kernel_stop(c->kernel);
  td_jupyter_iopub_flush(c->kernel->iopub);
  td_str_addf(out, "{\"status\": \"ok\", \"restart\": %s}",
              restart ? "true" : "false");
  c->ended = true;
}

static void create_subshell(control *c, const td_jupyter_request *r,
                            td_str *out) {
  char id[37];
  (void)r;
  td_status *s = td_jupyter_subshell_create(c->kernel, id);
  if (td_ok(s))
    td_str_addf(out, "{\"status\": \"ok\", \"subshell_id\": \"%s\"}", id);
  else
    add_error(out, "SubshellError", td_status_message(s));
  td_status_release(s);
}

static void delete_subshell(control *c, const td_jupyter_request *r,
                            td_str *out) {
  const char *id = td_jupyter_request_text(r, "subshell_id").at;
  if (id && td_jupyter_subshell_delete(c->kernel, id))
    td_str_add(out, "{\"status\": \"ok\"}");
  else
    add_error(out, "SubshellError", "there is no subshell of this id");
}

static void list_subshell(control *c, const td_jupyter_request *r,
                          td_str *out) {
  (void)r;
  td_str_add(out, "{\"status\": \"ok\", \"subshell_id\": ");
  td_jupyter_subshell_list(c->kernel, out);
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

/* A reply of that thread on its way out. */
typedef struct letter {
  struct letter *next;
  td_jupyter_request *to;
  char *type;
  td_str content;
} letter;

static pthread_mutex_t mail_lock = PTHREAD_MUTEX_INITIALIZER; /* of letters */
static letter *letters;                                       /* newest first */

void td_jupyter_control_reply(td_jupyter_kernel *k, td_jupyter_request *to,
                              const char *type, const td_str *content) {
  uint64_t one = 1;
  letter *l = td_alloc_zero(1, sizeof *l);
  if (!l) return;
  l->to = td_jupyter_request_retain(to);
  l->type = td_strdup(type);
  td_str_init(&l->content);
  td_str_addn(&l->content, td_str_c(content), content->len);
  pthread_mutex_lock(&mail_lock);
  l->next = letters;
  letters = l;
  pthread_mutex_unlock(&mail_lock);
  ssize_t n = write(k->mail, &one, sizeof one);
  (void)n;
}

static void send_letter(control *c, letter *l) {
  if (l->next) send_letter(c, l->next);
  td_jupyter_reply reply = {.to = l->to,
                            .type = l->type,
                            .content = {td_str_c(&l->content), l->content.len}};
  td_jupyter_wire_send(&c->kernel->wire, c->socket, &reply, NULL);
  td_jupyter_request_release(l->to);
  td_str_deinit(&l->content);
  td_free(l->type);
  td_free(l);
}

static void send_letters(control *c) {
  pthread_mutex_lock(&mail_lock);
  letter *l = letters;
  letters = NULL;
  pthread_mutex_unlock(&mail_lock);
  if (l) send_letter(c, l);
}

static bool start_debug(td_jupyter_kernel *k) {
  td_jupyter_worker *w = &k->debug;
  if (w->started) return true;
  td_status *s = td_jupyter_worker_init(w, k, td_line_new(k->host, "debug"));
  if (td_ok(s)) s = td_jupyter_worker_start(w);
  bool ok = td_ok(s);
  td_status_release(s);
  return ok;
}

/* True when the request is taken care of. */
static bool debug(control *c, td_jupyter_request *r) {
  if (!td_jupyter_request_is(r, "debug_request") || !start_debug(c->kernel))
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
    handlers[i].handle(c, r, &content);
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
    if (!none) td_jupyter_kernel_dropped(s);
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

static bool was_rung(int fd) {
  uint64_t count;
  return read(fd, &count, sizeof count) > 0;
}

static void *run(void *arg) {
  control *c = arg;
  td_jupyter_kernel *k = c->kernel;
  pid_t parent = watched_parent();
  bool follows = false;
  while (!c->ended) {
    zmq_pollitem_t items[] = {{.socket = c->socket, .events = ZMQ_POLLIN},
                              {.fd = k->terminate, .events = ZMQ_POLLIN},
                              {.fd = k->interrupt, .events = ZMQ_POLLIN},
                              {.fd = k->mail, .events = ZMQ_POLLIN}};
    bool looks = follows || k->leaving;
    zmq_poll(items, 4, looks ? FOLLOW_MS : parent ? PARENT_MS : -1);
    if (was_rung(k->interrupt)) td_jupyter_interrupt_all(k);
    if (was_rung(k->mail)) send_letters(c);
    serve_all(c);
    follows = td_jupyter_interrupt_follow(k);
    td_jupyter_subshell_reap(k, false);
    bool orphan = parent && getppid() != parent;
    if (!c->ended && (orphan || was_rung(k->terminate))) {
      td_jupyter_kernel_stop(k);
      c->ended = true;
    }
  }
  zmq_close(c->socket);
  if (td_jupyter_worker_busy(&k->main)) td_jupyter_kernel_abandon(k);
  return NULL;
}

td_status *td_jupyter_control_start(td_jupyter_kernel *k, void *socket) {
  the_one = (control){.kernel = k, .socket = socket};
  k->has_control = td_thread_start(&k->control, "control", -1, run, &the_one);
  return k->has_control
             ? NULL
             : td_error(TD_RESOURCE_EXHAUSTED, "no thread for control");
}

void td_jupyter_control_join(td_jupyter_kernel *k) {
  if (k->has_control) pthread_join(k->control, NULL);
}
