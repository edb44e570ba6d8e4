/* capture.c - files 1 and 2 go to temporary files for a while.
 *
 * By file and not by Lua's print, so that children and libraries are heard too.
 * In a notebook C's streams go past the files, and ask here first. Within one
 * capture there may be another. The list belongs to whoever has the
 * interpreter.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lua/bind.h"
#include "lua/console/line_impl.h"

#define CAPTURE "tide.capture"

enum { MOST = 64 << 20 }; /* bytes that are given back */

typedef struct capture {
  int saved[2]; /* where files 1 and 2 went; -1: not taken */
  FILE *text[2];
  td_line *line;
  struct capture *outer;
} capture;

static capture *innermost;

bool td_capture_write(int stream, const char *bytes, size_t len) {
  td_line *l = td_line_current();
  capture *c = innermost;
  while (c && c->line != l) c = c->outer;
  if (!l || !c) return false;
  for (size_t done = 0; done < len;) {
    ssize_t n = write(fileno(c->text[stream - 1]), bytes + done, len - done);
    if (n < 0 && errno != EINTR) break; /* the disk is full */
    if (n > 0) done += (size_t)n;
  }
  return true;
}

static void put_back(capture *c) {
  capture **at = &innermost;
  fflush(NULL);
  while (*at && *at != c) at = &(*at)->outer;
  if (*at) *at = c->outer;
  for (int i = 0; i < 2; i++) {
    if (c->saved[i] < 0) continue;
    dup2(c->saved[i], i + 1);
    close(c->saved[i]);
    c->saved[i] = -1;
  }
}

static void forget(capture *c) {
  put_back(c);
  for (int i = 0; i < 2; i++) {
    if (c->text[i]) fclose(c->text[i]);
    c->text[i] = NULL;
  }
}

static int capture_gc(lua_State *L) {
  forget(luaL_checkudata(L, 1, CAPTURE));
  return 0;
}

static void push_text(lua_State *L, FILE *f) {
  luaL_Buffer b;
  size_t n, left = MOST;
  luaL_buffinit(L, &b);
  rewind(f);
  while (left > 0) {
    char *at = luaL_prepbuffer(&b);
    n = fread(at, 1, LUAL_BUFFERSIZE < left ? LUAL_BUFFERSIZE : left, f);
    if (!n) break;
    luaL_addsize(&b, n);
    left -= n;
  }
  luaL_pushresult(&b);
}

static int capture_stop(lua_State *L) {
  capture *c = luaL_checkudata(L, 1, CAPTURE);
  put_back(c);
  for (int i = 0; i < 2; i++) {
    if (c->text[i])
      push_text(L, c->text[i]);
    else
      lua_pushliteral(L, "");
  }
  forget(c);
  return 2;
}

static bool take(capture *c, int i) {
  c->text[i] = tmpfile();
  if (!c->text[i]) return false;
  c->saved[i] = fcntl(i + 1, F_DUPFD_CLOEXEC, 3);
  return c->saved[i] >= 0 && dup2(fileno(c->text[i]), i + 1) >= 0;
}

static void set_class(lua_State *L) {
  static const luaL_Reg methods[] = {{"stop", capture_stop},
                                     {"__gc", capture_gc},
                                     {"__close", capture_gc},
                                     {NULL, NULL}};
  if (luaL_newmetatable(L, CAPTURE)) {
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
  }
  lua_setmetatable(L, -2);
}

int td_capture_start(lua_State *L) {
  capture *c = lua_newuserdatauv(L, sizeof *c, 0);
  *c = (capture){.saved = {-1, -1}};
  set_class(L);
  fflush(NULL);
  if (take(c, 0) && take(c, 1)) {
    c->line = td_line_current();
    c->outer = innermost;
    innermost = c;
    return 1;
  }
  int err = errno;
  forget(c);
  return td_lua_error(L, TD_UNAVAILABLE, "output cannot be captured: %s",
                      strerror(err));
}
