/* child.c - os.execute and io.popen for a console.
 *
 * A child is the leader of a group of processes, so that an interrupt reaches
 * what the shell started too: SIGINT, then less polite signals. On a terminal
 * it stays in our group instead: Ctrl-C comes to it from the terminal, and it
 * decides. The list of open pipes belongs to whoever has the interpreter.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "lua/console/line_impl.h"

enum { LONGEST_NAP = 20 };                 /* ms between two looks */
static const int64_t patience = 300000000; /* ns until the next signal */

typedef struct child {
  pid_t pid;
  bool group;    /* the leader of one */
  FILE *pipe;    /* to or from it */
  td_line *line; /* that opened it */
  struct child *next;
} child;

static child *pipes;
static child *orphans; /* that the collector closed: nobody waits for them */

extern char **environ;

/* ---- starting ---- */

static bool on_terminal(void) {
  return isatty(0) && tcgetpgrp(0) == getpgrp();
}

void td_child_reap(void) {
  for (child **at = &orphans; *at;) {
    child *c = *at;
    if (waitpid(c->pid, NULL, WNOHANG) == 0) {
      at = &c->next;
      continue;
    }
    *at = c->next;
    td_free(c);
  }
}

/* What we ignore or block is no business of the child. */
static void plain_signals(posix_spawnattr_t *attr) {
  sigset_t set;
  sigemptyset(&set);
  posix_spawnattr_setsigmask(attr, &set);
  sigaddset(&set, SIGPIPE);
  sigaddset(&set, SIGXFSZ);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGQUIT);
  posix_spawnattr_setsigdefault(attr, &set);
}

/* Runs `command` with file `from` as its file `to` (-1: as they are); 0 or the
 * error's number. */
static int start(child *c, const char *command, int from, int to) {
  char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                  (char *)(uintptr_t)command, NULL};
  posix_spawnattr_t attr;
  posix_spawn_file_actions_t files;
  posix_spawnattr_init(&attr);
  posix_spawn_file_actions_init(&files);
  c->group = !on_terminal();
  posix_spawnattr_setflags(
      &attr, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                     (c->group ? POSIX_SPAWN_SETPGROUP : 0)));
  plain_signals(&attr);
  if (to >= 0) posix_spawn_file_actions_adddup2(&files, from, to);
  fflush(NULL);
  td_child_reap();
  int rc = posix_spawn(&c->pid, "/bin/sh", &files, &attr, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attr);
  return rc;
}

/* ---- waiting ---- */

/* The next signal, once the last one had its time. */
static void insist(const child *c, int *sent, int64_t *since) {
  static const int signals[] = {SIGINT, SIGTERM, SIGKILL};
  int64_t now = td_clock_now();
  if (*sent > 2 || (*sent > 0 && now - *since < patience)) return;
  kill(-c->pid, signals[(*sent)++]);
  *since = now;
}

/* Its status as waitpid gives it, or -1. */
static int wait_for(const child *c, const td_line *l) {
  int status, sent = 0, nap = 1;
  int64_t since = 0;
  for (;;) {
    pid_t got = waitpid(c->pid, &status, WNOHANG);
    if (got == c->pid) return status;
    if (got < 0 && errno != EINTR) return -1;
    if (c->group && l && td_line_interrupted(l)) insist(c, &sent, &since);
    poll(NULL, 0, nap);
    if (nap < LONGEST_NAP) nap++;
  }
}

/* The same with the interpreter free for others. */
static int wait_aside(const child *c) {
  td_line *l = td_line_current();
  if (!l) { /* the end: nobody waits for it */
    if (c->group) kill(-c->pid, SIGHUP);
    return waitpid(c->pid, NULL, WNOHANG) < 0 ? -1 : 0;
  }
  td_line_wait(l);
  int status = wait_for(c, l);
  td_line_resume(l);
  return status;
}

/* true or nil, "exit" or "signal", the code: as Lua's own. */
static int push_status(lua_State *L, int status) {
  errno = status == -1 ? ECHILD : 0;
  return luaL_execresult(L, status);
}

int td_child_execute(lua_State *L) {
  if (lua_isnoneornil(L, 1)) {
    lua_pushboolean(L, access("/bin/sh", X_OK) == 0);
    return 1;
  }
  child c = {0};
  errno = start(&c, luaL_checkstring(L, 1), -1, -1);
  if (errno) return luaL_fileresult(L, 0, NULL);
  return push_status(L, wait_aside(&c));
}

/* ---- pipes ---- */

static bool by_collector(lua_State *L) {
  lua_Debug ar;
  return lua_getstack(L, 0, &ar) && lua_getinfo(L, "n", &ar) && ar.name &&
         !strcmp(ar.name, "__gc");
}

/* The collector comes at any time and must not wait; at the end there is no
 * line any more, and children are told to go. */
static int close_pipe(lua_State *L) {
  luaL_Stream *s = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  child **at = &pipes;
  while (*at && (*at)->pipe != s->f) at = &(*at)->next;
  child *c = *at;
  *at = c->next;
  fclose(c->pipe);
  if (td_line_current() && by_collector(L)) {
    c->next = orphans;
    orphans = c;
    return 0;
  }
  int status = wait_aside(c);
  td_free(c);
  return push_status(L, status);
}

/* Starts `c` with its end of a pipe; 0 or the error's number. */
static int open_pipe(child *c, const char *command, bool reads) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return errno;
  int ours = ends[reads ? 0 : 1], theirs = ends[reads ? 1 : 0];
  c->pipe = fdopen(ours, reads ? "r" : "w");
  int err = c->pipe ? start(c, command, theirs, reads ? 1 : 0) : errno;
  close(theirs);
  if (!err) return 0;
  if (c->pipe)
    fclose(c->pipe);
  else
    close(ours);
  return err;
}

int td_child_popen(lua_State *L) {
  const char *command = luaL_checkstring(L, 1);
  const char *mode = luaL_optstring(L, 2, "r");
  luaL_argcheck(L, !strcmp(mode, "r") || !strcmp(mode, "w"), 2, "invalid mode");
  luaL_Stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  s->closef = NULL;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  child *c = td_calloc(1, sizeof *c);
  errno = c ? open_pipe(c, command, *mode == 'r') : ENOMEM;
  if (errno) {
    int err = errno;
    td_free(c);
    errno = err;
    return luaL_fileresult(L, 0, command);
  }
  c->line = td_line_current();
  c->next = pipes;
  pipes = c;
  s->f = c->pipe;
  s->closef = close_pipe;
  return 1;
}

void td_child_interrupt(void) {
  for (const child *c = pipes; c; c = c->next)
    if (c->group && c->line == td_line_current()) kill(-c->pid, SIGTERM);
}
