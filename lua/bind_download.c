/* bind_download.c - files from the net.
 *
 * libcurl is opened when something is downloaded, not linked: it would cost a
 * third of the start.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>

#include "lua/bind.h"

/* What a download needs of libcurl. */
typedef struct curl {
  void *(*init)(void);
  int (*setopt)(void *h, int option, ...);
  int (*perform)(void *h);
  void (*cleanup)(void *h);
  const char *(*strerror)(int code);
} curl;

enum {
  CURL_URL = 10002,
  CURL_WRITEDATA = 10001,
  CURL_WRITEFUNCTION = 20011,
  CURL_FOLLOWLOCATION = 52,
  CURL_FAILONERROR = 45,
  CURL_CONNECTTIMEOUT = 78,
  CURL_NOSIGNAL = 99,
  CURL_LOW_SPEED_LIMIT = 19,
  CURL_LOW_SPEED_TIME = 20,
};

static td_status *open_curl(curl *c) {
  void *lib = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!lib)
    return td_error(TD_UNIMPLEMENTED,
                    "downloads need libcurl (package libcurl4): %s", dlerror());
  *(void **)&c->init = dlsym(lib, "curl_easy_init");
  *(void **)&c->setopt = dlsym(lib, "curl_easy_setopt");
  *(void **)&c->perform = dlsym(lib, "curl_easy_perform");
  *(void **)&c->cleanup = dlsym(lib, "curl_easy_cleanup");
  *(void **)&c->strerror = dlsym(lib, "curl_easy_strerror");
  if (c->init && c->setopt && c->perform && c->cleanup && c->strerror)
    return NULL;
  return td_error(TD_INTERNAL, "libcurl lacks a function");
}

typedef struct body {
  td_str text;
  size_t limit;
  bool full; /* more came than the limit allows */
} body;

static size_t receive(char *at, size_t size, size_t n, void *arg) {
  body *b = arg;
  size_t len = size * n;
  b->full = len > b->limit - b->text.len;
  if (b->full) return 0;
  td_str_addn(&b->text, at, len);
  return b->text.failed ? 0 : len;
}

static td_status *fetch(const char *url, body *b) {
  curl c = {0};
  TD_TRY(open_curl(&c));
  void *h = c.init();
  if (!h) return td_oom();
  c.setopt(h, CURL_URL, url);
  c.setopt(h, CURL_WRITEDATA, b);
  c.setopt(h, CURL_WRITEFUNCTION, receive);
  c.setopt(h, CURL_FOLLOWLOCATION, 1L);
  c.setopt(h, CURL_FAILONERROR, 1L);
  c.setopt(h, CURL_CONNECTTIMEOUT, 10L);
  c.setopt(h, CURL_LOW_SPEED_LIMIT, 100L);
  c.setopt(h, CURL_LOW_SPEED_TIME, 20L);
  c.setopt(h, CURL_NOSIGNAL, 1L);
  int rc = c.perform(h);
  td_status *s = NULL;
  if (rc != 0)
    s = td_error(TD_UNAVAILABLE, "cannot download %s: %s", url,
                 b->full ? "it is too large" : c.strerror(rc));
  c.cleanup(h);
  return s;
}

/* core.download(url, limit) -> bytes. The caller checks and stores them. */
static int download(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  body b = {.limit = (size_t)luaL_optinteger(L, 2, 1 << 28)};
  const char *url = td_lua_text(L, 1);
  td_str_init(&b.text);
  td_lua_unlock(st);
  td_status *s = fetch(url, &b);
  td_lua_lock(st);
  if (td_ok(s)) lua_pushlstring(L, td_str_c(&b.text), b.text.len);
  td_str_deinit(&b.text);
  td_lua_check(L, s);
  return 1;
}

TD_LUA_OPEN(download) {
  static const luaL_Reg functions[] = {{"download", download}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
