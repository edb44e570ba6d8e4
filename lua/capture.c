/* capture.c - files 1 and 2 go to temporary files for a while.
 *
 * By file and not by Lua's print, so that children and libraries are heard too.
 * Within one capture there may be another.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lua/bind.h"

#define CAPTURE "tide.capture"

enum { MOST = 64 << 20 }; /* bytes that are given back */

typedef struct capture {
  int saved[2]; /* where files 1 and 2 went; -1: not taken */
  FILE *text[2];
} capture;

static void put_back(capture *c) {
  fflush(NULL);
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

int td_capture(lua_State *L) {
  capture *c = lua_newuserdatauv(L, sizeof *c, 0);
  *c = (capture){.saved = {-1, -1}};
  set_class(L);
  fflush(NULL);
  if (take(c, 0) && take(c, 1)) return 1;
  int err = errno;
  forget(c);
  return td_lua_error(L, TD_UNAVAILABLE, "output cannot be captured: %s",
                      strerror(err));
}
