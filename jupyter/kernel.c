/* kernel.c - starts the kernel, hands requests out, ends it.
 *
 * Threads, and what each owns; a ZeroMQ socket is its thread's alone:
 *
 *   main       a worker: the notebook's cells, and other requests (worker.c)
 *   side       a worker: while main runs a cell, it answers what needs none,
 *              such as completion, inspection and comm messages
 *   subshells  a worker each, opened and closed by clients (subshell.c)
 *   debug      a worker for the debugger, started by the first debug_request
 *   shell      the shell and stdin sockets: receives and dispatches requests,
 *              sends replies, asks for input (shell.c)
 *   control    the control socket: interrupts, shutdown and subshells while all
 *              workers are busy; SIGINT and SIGTERM reach it as events, since a
 *              signal's handler may do little more (control.c)
 *   iopub      the IOPub socket, and what the process writes on descriptors 1
 *              and 2 (iopub.c)
 *   heartbeat  the heartbeat socket, in a ZeroMQ context of its own
 *
 * The life of a cell: shell's thread receives an execute_request and `dispatch`
 * puts it into main's queue. Main calls the service "execute" of the console,
 * which takes the interpreter. What the cell shows comes back by `publish` and
 * by the streams of stdio.c, and waits in iopub's queue; the reply waits in the
 * shell's outbox. Their threads send both.
 *
 * Locks: each queue has one (queue.h), the shell one for open questions and
 * drains, the subshells one for their list, the wire one for the signatures
 * seen. Under the list's a worker's queue may be locked; else no thread holds two
 * of these. A print locks iopub's queue, and waits while that is full, with the
 * interpreter held.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/kernel.h"

#include <malloc.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/reserve.h"
#include "jupyter/error.h"
#include "jupyter/event.h"
#include "jupyter/kernel_impl.h"
#include "jupyter/limits.h"
#include "jupyter/log.h"
#include "jupyter/outbox.h"
#include "jupyter/output.h"
#include "jupyter/probe.h"
#include "jupyter/registration.h"
#include "jupyter/socket.h"

enum {
  LEAVE_NS = 1000000000, /* at the end, for threads to end */
  LARGE = 1 << 20        /* pieces that go back to the system when freed */
};

static td_jupyter_kernel kernel; /* the process's: signals mean it */

typedef struct options {
  const char *file; /* the connection file, or NULL */
  bool no_key;
  size_t output_limit;
} options;

static const char usage[] =
    "usage: tide kernel [--output-limit BYTES] [--allow-no-key] "
    "[CONNECTION_FILE]\n";

/* ---- dispatch ---- */

/* A request for a subshell that is not there. */
static void refuse(td_jupyter_kernel *k, td_jupyter_request *r) {
  static const char why[] = "there is no subshell of this id";
  const char *type = td_jupyter_request_type(r),
             *end = strstr(type, "_request");
  td_str reply_type, reply;
  td_str_init(&reply_type);
  td_str_init(&reply);
  td_jupyter_iopub_status(k->iopub, r, "busy");
  if (end) {
    td_str_addf(&reply_type, "%.*s_reply", (int)(end - type), type);
    td_jupyter_error_reply(&reply, "SubshellError", why, sizeof why - 1, 0);
    td_jupyter_outbox_post(td_jupyter_shell_outbox(k->shell), r,
                           td_str_c(&reply_type), &reply, NULL);
  }
  td_jupyter_iopub_status(k->iopub, r, "idle");
  td_str_deinit(&reply);
  td_str_deinit(&reply_type);
}

/* While a cell runs, what needs no cell is answered aside; a comm message stays
 * behind those that went there before. */
static bool goes_aside(td_jupyter_kernel *k, const td_jupyter_request *r) {
  bool comm = !strncmp(td_jupyter_request_type(r), "comm_", 5) &&
              !td_jupyter_request_is(r, "comm_info_request");
  if (td_jupyter_request_is(r, "execute_request")) return false;
  return td_jupyter_worker_has_cell(&k->main) ||
         (comm && td_jupyter_worker_busy(&k->side));
}

/* Takes a request over and hands it to the worker that is to serve it; on the
 * shell's thread. */
static void dispatch(void *arg, td_jupyter_request *r, uint64_t number) {
  td_jupyter_kernel *k = arg;
  bool stopping = __atomic_load_n(&k->stopping, __ATOMIC_ACQUIRE);
  if (stopping || td_jupyter_request_is(r, "shutdown_request")) {
    if (!stopping) td_jupyter_event_set(k->terminate); /* by an old client */
    td_jupyter_request_release(r);
  } else if (!*td_jupyter_request_subshell(r)) {
    td_jupyter_worker_add(goes_aside(k, r) ? &k->side : &k->main, r, number);
  } else if (!td_jupyter_subshell_add(&k->subshells, r, number)) {
    refuse(k, r);
    td_jupyter_request_release(r);
  }
}

/* ---- signals ---- */

static void on_interrupt(int number) {
  (void)number;
  td_jupyter_event_set(kernel.interrupt);
}

static void on_terminate(int number) {
  (void)number;
  td_jupyter_event_set(kernel.terminate);
}

static void listen_to_signals(void) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_flags = SA_RESTART; /* what is to end a wait comes from control */
  a.sa_handler = on_interrupt;
  sigaction(SIGINT, &a, NULL);
  a.sa_handler = on_terminate;
  sigaction(SIGTERM, &a, NULL);
  a.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &a, NULL);
}

/* ---- the console's frontend ---- */

static void publish(void *arg, td_line *line, const td_frontend_message *m) {
  td_jupyter_kernel *k = arg;
  (void)line;
  td_jupyter_iopub_send(k->iopub, td_jupyter_worker_request(), m->type,
                        m->content, m->metadata, m->buffers, m->n_buffers);
}

static td_host_outcome input(void *arg, td_line *line, const char *prompt,
                             bool password, td_str *out) {
  td_jupyter_kernel *k = arg;
  return td_jupyter_shell_input(k->shell, td_jupyter_worker_request(), line,
                                prompt, password, out);
}

static bool part(void *arg, td_line *line, int n, td_bytes *out) {
  const td_jupyter_request *r = td_jupyter_worker_request();
  (void)arg, (void)line;
  if (!r) return false;
  if (n >= 0) return td_jupyter_request_buffer(r, n, out);
  *out = td_jupyter_request_part(r, TD_JUPYTER_PART_METADATA);
  return true;
}

static td_frontend frontend = {.arg = &kernel,
                               .kind = "notebook",
                               .publish = publish,
                               .input = input,
                               .part = part};

/* ---- the beginning ---- */

static td_status *make_host(td_jupyter_kernel *k) {
  char *why;
  k->host = td_host_new(&frontend, &why);
  if (k->host) return NULL;
  td_status *s = td_error(TD_INTERNAL, "%s", why ? why : "out of memory");
  td_free(why);
  return s;
}

/* The process's own worker, which this thread becomes, and the one beside. */
static td_status *make_workers(td_jupyter_kernel *k) {
  td_jupyter_queue *outbox = td_jupyter_shell_outbox(k->shell);
  td_jupyter_subshell_init(&k->subshells, k->host, k->iopub, k->shell);
  TD_TRY(td_jupyter_worker_init(&k->main, td_host_line(k->host), k->iopub,
                                k->shell, outbox));
  TD_TRY(td_jupyter_worker_init(&k->side, td_line_new(k->host, "side"),
                                k->iopub, k->shell, outbox));
  return td_jupyter_worker_start(&k->side);
}

static td_status *start_threads(td_jupyter_kernel *k,
                                void *sockets[TD_JUPYTER_N_CHANNELS]) {
  TD_TRY(td_jupyter_iopub_new(&k->iopub, &k->wire, sockets[TD_JUPYTER_IOPUB],
                              k->output_limit));
  TD_TRY(td_jupyter_heartbeat_start(k, sockets[TD_JUPYTER_HEARTBEAT]));
  TD_TRY(td_jupyter_shell_new(&k->shell, &k->wire, k->iopub,
                              sockets[TD_JUPYTER_SHELL],
                              sockets[TD_JUPYTER_STDIN]));
  TD_TRY(td_jupyter_stdio_take(k));
  TD_TRY(make_host(k));
  TD_TRY(make_workers(k));
  TD_TRY(td_jupyter_shell_start(k->shell, dispatch, k));
  return td_jupyter_control_start(k, sockets[TD_JUPYTER_CONTROL]);
}

/* Appends "$NAME" and `more`; false where it is not set. */
static bool below(td_str *path, const char *name, const char *more) {
  const char *dir = getenv(name);
  if (!dir || !*dir) return false;
  td_str_add(path, dir);
  td_str_add(path, more);
  return true;
}

/* A file in Jupyter's runtime folder, as clients look for it. */
static td_status *announce(td_jupyter_kernel *k) {
  td_str path;
  td_str_init(&path);
  if (!below(&path, "JUPYTER_RUNTIME_DIR", "") &&
      !below(&path, "JUPYTER_DATA_DIR", "/runtime") &&
      !below(&path, "XDG_DATA_HOME", "/jupyter/runtime") &&
      !below(&path, "HOME", "/.local/share/jupyter/runtime"))
    td_str_add(&path, ".");
  td_status *s = td_file_mkdirs(td_str_c(&path));
  td_str_addf(&path, "/kernel-%d.json", (int)getpid());
  if (td_ok(s))
    s = td_jupyter_connection_write(&k->connection, td_str_c(&path));
  if (td_ok(s))
    td_jupyter_log("to attach: jupyter console --existing %s", td_str_c(&path));
  if (td_ok(s)) k->announced = td_strdup(td_str_c(&path));
  td_str_deinit(&path);
  return s;
}

static td_status *start(td_jupyter_kernel *k, const options *o) {
  const char *file = o->file;
  td_jupyter_connection *c = &k->connection;
  void *sockets[TD_JUPYTER_N_CHANNELS] = {0};
  td_status *s = file ? td_jupyter_connection_read(&k->connection, file)
                      : td_jupyter_connection_make(&k->connection);
  if (td_ok(s) && !k->connection.key[0] && !o->no_key)
    s = td_error(TD_PERMISSION_DENIED,
                 "the connection file has no key: whoever reaches the ports "
                 "could run code; write a key into it, or say --allow-no-key");
  if (td_ok(s)) s = td_jupyter_wire_init(&k->wire, &k->connection);
  if (!td_ok(s)) return s;
  k->output_limit = o->output_limit;
  k->terminate = td_jupyter_event_open();
  k->interrupt = td_jupyter_event_open();
  if (k->terminate < 0 || k->interrupt < 0)
    return td_error(TD_RESOURCE_EXHAUSTED, "no file descriptors are left");
  listen_to_signals(); /* before anybody knows of the kernel */
  k->context = zmq_ctx_new();
  k->heart_context = zmq_ctx_new();
  if (!k->context || !k->heart_context) return td_oom();
  s = td_jupyter_socket_open_all(&k->connection, k->context, k->heart_context,
                                 sockets);
  if (td_ok(s) && c->registration_port)
    s = td_jupyter_registration_send(&k->wire, c, k->context);
  if (td_ok(s) && (!file || c->registration_port)) s = announce(k);
  if (td_ok(s)) s = start_threads(k, sockets);
  return s;
}

/* What was shown is out; what holds a thread in C is not waited for. */
static void leave(void *arg) {
  (void)arg;
  _exit(0);
}

static void finish(td_jupyter_kernel *k) {
  td_jupyter_control_join(k);
  td_timer_start(td_clock_now() + LEAVE_NS, leave, NULL);
  td_jupyter_subshell_deinit(&k->subshells);
  if (k->debug.line) {
    td_line_interrupt(k->debug.line);
    td_jupyter_worker_deinit(&k->debug);
    td_line_free(k->debug.line);
  }
  td_jupyter_worker_deinit(&k->side);
  td_line_free(k->side.line);
  td_jupyter_worker_deinit(&k->main);
  td_jupyter_shell_free(k->shell);
  td_jupyter_iopub_flush(k->iopub);
  td_jupyter_stdio_give_back();
  td_jupyter_iopub_free(k->iopub);
  td_jupyter_heartbeat_join(k);
  zmq_ctx_term(k->context);
  zmq_ctx_term(k->heart_context);
  td_host_free(k->host);
  td_jupyter_wire_deinit(&k->wire);
  td_jupyter_connection_deinit(&k->connection);
  if (k->announced) unlink(k->announced);
  td_free(k->announced);
}

static bool read_options(int argc, char **argv, options *o) {
  for (int i = 0; i < argc; i++) {
    char *end;
    if (!strcmp(argv[i], "--allow-no-key")) {
      o->no_key = true;
    } else if (!strcmp(argv[i], "--output-limit") && i + 1 < argc) {
      long long n = strtoll(argv[++i], &end, 10);
      if (*end || end == argv[i] || n < 0) return false;
      o->output_limit = (size_t)n;
    } else if (o->file) {
      continue; /* jupyter run adds words of its own behind */
    } else if (argv[i][0] == '-') {
      return false;
    } else {
      o->file = argv[i];
    }
  }
  return true;
}

int td_jupyter_kernel_main(int argc, char **argv) {
  td_jupyter_kernel *k = &kernel;
  options o = {.output_limit = TD_JUPYTER_OUTPUT_LIMIT};
  if (sodium_init() < 0) return 1;
  if (argc && !strcmp(argv[0], "--probe"))
    return td_jupyter_probe_main(argc - 1, argv + 1);
  if (!read_options(argc, argv, &o)) {
    fputs(usage, stderr);
    return 2;
  }
  mallopt(M_MMAP_THRESHOLD, LARGE); /* else it grows with what is freed */
  td_reserve_take(); /* before there are threads */
  td_status *s = td_jupyter_limits_check();
  if (td_ok(s)) s = start(k, &o);
  if (!td_ok(s)) {
    td_jupyter_log("%s", td_status_message(s));
    td_status_release(s);
    _exit(1); /* threads may run already */
  }
  td_jupyter_worker_run(&k->main);
  finish(k);
  return 0;
}
