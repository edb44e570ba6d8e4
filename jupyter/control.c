/* control.c - the thread of the control socket, which always answers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/thread.h"
#include "jupyter/kernel_impl.h"

enum { PARENT_MS = 1000 }; /* how often a vanished parent is looked for */

static void reply(td_kernel *k, void *socket, td_request *r, const char *type,
                  const td_str *content) {
  td_reply m = {
      .to = r, .type = type, .content = {td_str_c(content), content->len}};
  td_wire_send(&k->wire, socket, &m, NULL);
}

static bool wants_restart(const td_request *r) {
  td_bytes c = td_request_content(r);
  json_t *content = json_loadb(c.at, c.len, JSON_ALLOW_NUL, NULL);
  bool restart = json_is_true(json_object_get(content, "restart"));
  json_decref(content);
  return restart;
}

/* All output is out before the reply is. */
static void shut_down(td_kernel *k, void *socket, td_request *r) {
  td_str content;
  td_kernel_stop(k);
  td_str_init(&content);
  td_str_addf(&content, "{\"status\": \"ok\", \"restart\": %s}",
              wants_restart(r) ? "true" : "false");
  td_iopub_flush(k->iopub);
  reply(k, socket, r, "shutdown_reply", &content);
  td_iopub_send(k->iopub, r, "shutdown_reply",
                (td_bytes){td_str_c(&content), content.len}, (td_bytes){0},
                NULL, 0);
  td_str_deinit(&content);
}

/* False when that was the end. */
static bool handle(td_kernel *k, void *socket, td_request *r) {
  const char *type = td_request_type(r);
  bool goes_on = true;
  td_str content;
  td_str_init(&content);
  td_iopub_status(k->iopub, r, "busy");
  if (!strcmp(type, "kernel_info_request")) {
    td_info(&content);
    reply(k, socket, r, "kernel_info_reply", &content);
  } else if (!strcmp(type, "interrupt_request")) {
    td_worker_interrupt(&k->main);
    td_str_add(&content, "{\"status\": \"ok\"}");
    reply(k, socket, r, "interrupt_reply", &content);
  } else if (!strcmp(type, "shutdown_request")) {
    shut_down(k, socket, r);
    goes_on = false;
  }
  td_iopub_status(k->iopub, r, "idle");
  td_str_deinit(&content);
  return goes_on;
}

static bool handle_all(td_kernel *k, void *socket) {
  for (;;) {
    td_request *r;
    td_status *s = td_wire_receive(&k->wire, socket, &r);
    if (td_ok(s)) {
      bool goes_on = handle(k, socket, r);
      td_request_release(r);
      if (!goes_on) return false;
      continue;
    }
    bool none = td_status_code(s) == TD_UNAVAILABLE;
    if (!none) td_kernel_log("dropped a message: %s", td_status_message(s));
    td_status_release(s);
    if (none) return true;
  }
}

/* The process that started us, when it said so. */
static pid_t watched_parent(void) {
  const char *text = getenv("JPY_PARENT_PID");
  pid_t pid = text ? (pid_t)atol(text) : 0;
  return pid > 1 && pid == getppid() ? pid : 0;
}

typedef struct control {
  td_kernel *kernel;
  void *socket;
} control;

static control the_one; /* of the process's one kernel */

static void *run(void *arg) {
  control *c = arg;
  td_kernel *k = c->kernel;
  pid_t parent = watched_parent();
  bool goes_on = true;
  while (goes_on) {
    zmq_pollitem_t items[] = {{.socket = c->socket, .events = ZMQ_POLLIN},
                              {.fd = k->terminate, .events = ZMQ_POLLIN}};
    zmq_poll(items, 2, parent ? PARENT_MS : -1);
    goes_on = handle_all(k, c->socket);
    bool orphan = parent && getppid() != parent;
    if (goes_on && (orphan || items[1].revents)) {
      td_kernel_stop(k);
      goes_on = false;
    }
  }
  zmq_close(c->socket);
  return NULL;
}

td_status *td_control_start(td_kernel *k, void *socket) {
  the_one = (control){.kernel = k, .socket = socket};
  k->has_control = td_thread_start(&k->control, "control", -1, run, &the_one);
  return k->has_control
             ? NULL
             : td_error(TD_RESOURCE_EXHAUSTED, "no thread for control");
}

void td_control_join(td_kernel *k) {
  if (k->has_control) pthread_join(k->control, NULL);
}
