/* probe.c - starts a kernel and asks it for its kernel_info: `tide doctor`'s
 * question, from a client of our own, so that no Python is needed.
 *
 * The kernel listens on sockets in a folder of its own, which nobody else finds
 * and which go with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "jupyter/wire.h"

enum { MOST_ARGS = 64, MOST_SAID = 4096, SLICE_MS = 10, END_MS = 1000 };

/* What the path of a socket has room for, without the name of ours. */
enum { MOST_DIR = 107 - sizeof "/socket-1" };

extern char **environ;

typedef struct probe {
  td_str dir;  /* of its sockets and files */
  td_str file; /* the connection file's path */
  td_str stderr_file;
  td_jupyter_connection connection;
  td_jupyter_wire wire;
  void *context, *socket;
  pid_t child; /* 0: none */
  int status;  /* once it has ended */
} probe;

/* ---- the kernel ---- */

static td_status *make_connection(probe *p) {
  TD_TRY(td_file_temp_dir(MOST_DIR, &p->dir));
  const char *dir = td_str_c(&p->dir);
  td_str_addf(&p->file, "%s/connection.json", dir);
  td_str_addf(&p->stderr_file, "%s/stderr", dir);
  TD_TRY(td_jupyter_connection_make(&p->connection));
  td_str path;
  td_str_init(&path);
  td_str_addf(&path, "%s/socket", dir);
  td_free(p->connection.ip);
  p->connection.ip = td_strdup(td_str_c(&path));
  td_str_deinit(&path);
  if (!p->connection.ip) return td_oom();
  p->connection.ipc = true;
  for (int i = 0; i < TD_JUPYTER_N_CHANNELS; i++) p->connection.port[i] = i + 1;
  TD_TRY(td_jupyter_wire_init(&p->wire, &p->connection));
  return td_jupyter_connection_write(&p->connection, td_str_c(&p->file));
}

static td_status *spawn(probe *p, int argc, char **argv) {
  char *args[MOST_ARGS + 1];
  if (argc > MOST_ARGS)
    return td_error(TD_INVALID_ARGUMENT, "argv has more than %d words",
                    MOST_ARGS);
  for (int i = 0; i < argc; i++)
    args[i] = strcmp(argv[i], "{connection_file}") ? argv[i] : p->file.at;
  args[argc] = NULL;
  posix_spawn_file_actions_t files;
  if (posix_spawn_file_actions_init(&files)) return td_oom();
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, td_str_c(&p->stderr_file),
                                   O_WRONLY | O_CREAT, 0600);
  int why = posix_spawnp(&p->child, args[0], &files, NULL, args, environ);
  posix_spawn_file_actions_destroy(&files);
  if (!why) return NULL;
  p->child = 0;
  return td_error(TD_NOT_FOUND, "cannot run %s: %s", args[0], strerror(why));
}

static bool has_ended(probe *p) {
  if (p->child && waitpid(p->child, &p->status, WNOHANG) == p->child)
    p->child = 0;
  return !p->child;
}

/* What the kernel wrote on stderr, without the end of its last line. */
static td_status *ended_early(const probe *p) {
  char *said = NULL;
  size_t len = 0;
  td_status *s =
      td_file_read(td_str_c(&p->stderr_file), MOST_SAID, &said, &len);
  td_status_release(s);
  while (said && len && said[len - 1] == '\n') said[--len] = 0;
  s = td_error(TD_UNAVAILABLE, "the kernel ended with %s %d%s%s",
               WIFSIGNALED(p->status) ? "signal" : "exit code",
               WIFSIGNALED(p->status) ? WTERMSIG(p->status)
                                      : WEXITSTATUS(p->status),
               len ? ": " : "", len ? said : "");
  td_free(said);
  return s;
}

static void end_kernel(probe *p) {
  if (has_ended(p)) return;
  kill(p->child, SIGTERM);
  for (int i = 0; i < END_MS / SLICE_MS && !has_ended(p); i++)
    usleep(SLICE_MS * 1000);
  if (has_ended(p)) return;
  kill(p->child, SIGKILL);
  waitpid(p->child, &p->status, 0);
  p->child = 0;
}

/* ---- asking ---- */

static td_status *connect_shell(probe *p) {
  int soon = SLICE_MS, none = 0;
  td_str endpoint;
  p->context = zmq_ctx_new();
  p->socket = p->context ? zmq_socket(p->context, ZMQ_DEALER) : NULL;
  if (!p->socket) return td_oom();
  zmq_setsockopt(p->socket, ZMQ_RECONNECT_IVL, &soon, sizeof soon);
  zmq_setsockopt(p->socket, ZMQ_LINGER, &none, sizeof none);
  td_str_init(&endpoint);
  td_jupyter_connection_endpoint(&p->connection, TD_JUPYTER_SHELL, &endpoint);
  int bad = zmq_connect(p->socket, td_str_c(&endpoint));
  td_str_deinit(&endpoint);
  if (bad)
    return td_error(TD_UNAVAILABLE, "cannot connect: %s",
                    zmq_strerror(zmq_errno()));
  td_jupyter_reply question = {.type = "kernel_info_request"};
  if (td_jupyter_wire_send(&p->wire, p->socket, &question, NULL)) return NULL;
  return td_error(TD_UNAVAILABLE, "cannot send: %s", zmq_strerror(zmq_errno()));
}

/* Waits for the answer; *out is the caller's. */
static td_status *await_reply(probe *p, double seconds,
                              td_jupyter_request **out) {
  int64_t end = td_clock_now() + (int64_t)(seconds * 1e9);
  zmq_pollitem_t item = {.socket = p->socket, .events = ZMQ_POLLIN};
  while (td_clock_now() < end) {
    if (zmq_poll(&item, 1, SLICE_MS) > 0) {
      TD_TRY(td_jupyter_wire_receive(&p->wire, p->socket, out));
      if (td_jupyter_request_is(*out, "kernel_info_reply")) return NULL;
      td_jupyter_request_release(*out);
      *out = NULL;
    } else if (has_ended(p)) {
      return ended_early(p);
    }
  }
  return td_error(TD_DEADLINE_EXCEEDED,
                  "no kernel_info_reply within %g seconds", seconds);
}

static void clean_up(probe *p) {
  end_kernel(p);
  if (p->socket) zmq_close(p->socket);
  if (p->context) zmq_ctx_term(p->context);
  td_str path;
  td_str_init(&path);
  for (int i = 0; i < TD_JUPYTER_N_CHANNELS; i++) {
    td_str_clear(&path);
    td_str_addf(&path, "%s/socket-%d", td_str_c(&p->dir), i + 1);
    unlink(td_str_c(&path));
  }
  td_str_deinit(&path);
  unlink(td_str_c(&p->file));
  unlink(td_str_c(&p->stderr_file));
  rmdir(td_str_c(&p->dir));
  td_str_deinit(&p->dir);
  td_str_deinit(&p->file);
  td_str_deinit(&p->stderr_file);
  td_jupyter_wire_deinit(&p->wire);
  td_jupyter_connection_deinit(&p->connection);
}

static void print(const td_status *s, double ms,
                  const td_jupyter_request *reply) {
  td_str text;
  td_str_init(&text);
  if (td_ok(s)) {
    td_bytes content = td_jupyter_request_part(reply, TD_JUPYTER_PART_CONTENT);
    td_str_addf(&text, "{\"ms\": %.1f, \"reply\": ", ms);
    td_str_addn(&text, content.at, content.len);
  } else {
    const char *why = td_status_message(s);
    td_str_add(&text, "{\"error\": ");
    td_str_json(&text, why, strlen(why));
  }
  td_str_addc(&text, '}');
  puts(td_str_c(&text));
  td_str_deinit(&text);
}

/* "SECONDS ARGV...": how long it may take, and how the kernel is started. */
static int ask(int argc, char **argv) {
  probe p = {0};
  td_jupyter_request *reply = NULL;
  td_str_init(&p.dir);
  td_str_init(&p.file);
  td_str_init(&p.stderr_file);
  td_status *s = make_connection(&p);
  int64_t start = td_clock_now();
  if (td_ok(s)) s = spawn(&p, argc - 1, argv + 1);
  if (td_ok(s)) s = connect_shell(&p);
  if (td_ok(s)) s = await_reply(&p, atof(argv[0]), &reply);
  print(s, (double)(td_clock_now() - start) * 1e-6, reply);
  int code = td_ok(s) ? 0 : 1;
  td_status_release(s);
  td_jupyter_request_release(reply);
  clean_up(&p);
  return code;
}

/* The version of ZeroMQ, and whether it can encrypt. */
static int tell(void) {
  int major, minor, patch;
  zmq_version(&major, &minor, &patch);
  printf("{\"zmq\": \"%d.%d.%d\", \"curve\": %s, \"ipc\": %s}\n", major, minor,
         patch, zmq_has("curve") ? "true" : "false",
         zmq_has("ipc") ? "true" : "false");
  return 0;
}

int td_jupyter_probe_main(int argc, char **argv) {
  if (argc == 0) return tell();
  if (argc > 1) return ask(argc, argv);
  fputs("usage: tide kernel --probe [SECONDS COMMAND ...]\n", stderr);
  return 2;
}
