/* bind_live.c - lines at the bottom of a terminal that change while a program
 * runs, below all that is printed meanwhile.
 *
 * The cursor always stands where the next text goes. The live lines are drawn
 * in the rows below it, by going there and back, so that who writes to the
 * terminal without knowing of them (a child, the echo of ^C) writes in the
 * right place. What this process writes comes through here: while there are
 * live lines, C's stdout and stderr are streams of ours, and Lua's files for
 * them too; each text is written with the lines erased before and drawn again
 * behind it, in one write. No row is drawn to its last column, so that nothing
 * wraps, and a row that text has filled is left at once: a cursor that waits
 * behind the last column is not brought back by all terminals.
 *
 * Descriptor 2 is the terminal. Where it is none, nobody calls; a descriptor 1
 * that goes elsewhere is left alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/str.h"
#include "lua/bind.h"

enum { MOST = 8 }; /* lines; further ones are not drawn */

typedef enum place { TEXT, ESCAPE, CONTROL, STRING } place;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* All under the lock. */
static struct {
  struct {
    lua_Integer id;
    td_str text;
    int columns; /* of the terminal that it was made for */
  } lines[MOST];
  int n;
  bool aside;    /* nothing is drawn: a child has the terminal */
  place place;   /* where the text written last has stopped */
  int rest;      /* bytes that its last character lacks */
  int64_t count; /* columns since its last newline */
  bool left;     /* the full row was left: a newline has been written */
} live;
static FILE *ours[2], *theirs[2]; /* of 1 and 2; under Lua's lock */

/* ---- the terminal ---- */

static void size_of(int *rows, int *columns) {
  struct winsize w = {0};
  if (ioctl(2, TIOCGWINSZ, &w)) w.ws_row = 0;
  *rows = w.ws_row ? w.ws_row : 24;
  *columns = w.ws_col ? w.ws_col : 80;
}

/* False: not all of it could be written. */
static bool put(int fd, const char *bytes, size_t len) {
  for (size_t done = 0; done < len;) {
    ssize_t n = write(fd, bytes + done, len - done);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) done += (size_t)n;
  }
  return true;
}

static bool put_str(td_str *s) {
  bool done = !s->failed && put(2, td_str_c(s), s->len);
  td_str_deinit(s);
  return done;
}

/* Spaces as many as there are columns run into the next row, unless the cursor
 * was at the start of one. */
static void fresh_row(td_str *s, int columns) {
  for (int i = 0; i < columns; i++) td_str_addc(s, ' ');
  td_str_add(s, "\r\033[K");
  live.count = 0;
  live.left = false;
}

static void erase(td_str *s) {
  if (!live.aside) td_str_add(s, "\033[J");
}

/* The lines that fit, below the cursor. */
static void draw(td_str *s, int rows, int columns) {
  int n = live.n < rows - 1 ? live.n : rows - 1;
  if (n <= 0 || live.aside || live.place != TEXT || live.rest) return;
  for (int i = 0; i < n; i++) td_str_add(s, "\033D");
  td_str_addf(s, "\033[%dA\0337", n);
  for (int i = live.n - n; i < live.n; i++) {
    td_str_add(s, "\033[B\r");
    if (live.lines[i].columns == columns)
      td_str_addn(s, td_str_c(&live.lines[i].text), live.lines[i].text.len);
  }
  td_str_add(s, "\0338");
}

/* ---- what is printed ---- */

static void follow_text(unsigned char c, int columns) {
  if (c == 27) {
    live.place = ESCAPE;
  } else if (c == '\n' || c == '\r') {
    live.count = 0;
  } else if (c == '\b') {
    live.count -= live.count > 0;
  } else if (c == '\t') {
    int64_t in_row = live.count % columns, to = (in_row / 8 + 1) * 8;
    live.count += (to < columns ? to : columns - 1) - in_row;
  } else if (c >= 0xC0) {
    live.rest = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
    live.count++;
  } else if (c >= 32 && c < 127) {
    live.count++;
  }
}

/* Where the cursor is after one more byte. */
static void follow(unsigned char c, int columns) {
  if (live.place == TEXT && live.rest && (c & 0xC0) == 0x80) {
    live.rest--;
  } else if (live.place == TEXT) {
    live.rest = 0;
    follow_text(c, columns);
  } else if (live.place == ESCAPE) {
    if (c == '[')
      live.place = CONTROL;
    else if (c == ']' || c == 'P')
      live.place = STRING;
    else if (c < 0x20 || c > 0x2F)
      live.place = TEXT;
  } else if (live.place == CONTROL) {
    if (c >= 0x40 && c <= 0x7E) live.place = TEXT;
  } else if (c == 7) {
    live.place = TEXT;
  } else if (c == 27) {
    live.place = ESCAPE;
  }
}

static bool put_above(const char *bytes, size_t len) {
  int rows, columns;
  td_str s;
  size_of(&rows, &columns);
  td_str_init(&s);
  if (live.place == TEXT && !live.rest) erase(&s);
  bool left = live.left && len;
  if (left) live.left = false;
  if (left && bytes[0] == '\n') bytes++, len--;
  td_str_addn(&s, bytes, len);
  for (size_t i = 0; i < len; i++) follow((unsigned char)bytes[i], columns);
  if (live.count && live.count % columns == 0 && live.place == TEXT &&
      !live.rest) {
    td_str_add(&s, " \r");
    live.count = 0;
    live.left = true;
  }
  draw(&s, rows, columns);
  bool refused = s.failed;
  return put_str(&s) || (refused && put(2, bytes, len));
}

static ssize_t write_to(int fd, const char *bytes, size_t len) {
  pthread_mutex_lock(&lock);
  /* A capture may have taken it meanwhile. */
  bool done =
      live.n && isatty(fd) ? put_above(bytes, len) : put(fd, bytes, len);
  pthread_mutex_unlock(&lock);
  return done ? (ssize_t)len : 0; /* as fopencookie wants it */
}

static ssize_t write_out(void *cookie, const char *bytes, size_t len) {
  (void)cookie;
  return write_to(1, bytes, len);
}

static ssize_t write_err(void *cookie, const char *bytes, size_t len) {
  (void)cookie;
  return write_to(2, bytes, len);
}

/* ---- the streams ---- */

static bool same_terminal(void) {
  struct stat a, b;
  return isatty(1) && !fstat(1, &a) && !fstat(2, &b) && a.st_rdev == b.st_rdev;
}

/* A stream of ours, kept for ever: another thread may be writing to it. */
static FILE *stream(int i) {
  static cookie_write_function_t *const writers[] = {write_out, write_err};
  if (!ours[i])
    ours[i] =
        fopencookie(NULL, "w", (cookie_io_functions_t){.write = writers[i]});
  return ours[i];
}

/* One that has not been written to yet has no buffer. */
static void same_buffering(FILE *to, FILE *like, int unused) {
  size_t size = __fbufsize(like);
  int mode = size == 0      ? unused
             : size == 1    ? _IONBF
             : __flbf(like) ? _IOLBF
                            : _IOFBF;
  setvbuf(to, NULL, mode, BUFSIZ);
}

/* Lua's file on top of the stack, which is popped, goes where `from` went. */
static void retarget(lua_State *L, FILE *from, FILE *to) {
  luaL_Stream *s = luaL_testudata(L, -1, LUA_FILEHANDLE);
  if (s && s->f == from) s->f = to;
  lua_pop(L, 1);
}

static void retarget_all(lua_State *L, FILE *from, FILE *to) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_IOLIBNAME) == LUA_TTABLE) {
    lua_getfield(L, -1, "stdout");
    retarget(L, from, to);
    lua_getfield(L, -1, "stderr");
    retarget(L, from, to);
  }
  lua_pop(L, 2);
  lua_getfield(L, LUA_REGISTRYINDEX, "_IO_output");
  retarget(L, from, to);
}

static void take_streams(lua_State *L) {
  FILE *now[] = {stdout, stderr};
  fflush(stdout);
  for (int i = same_terminal() ? 0 : 1; i < 2; i++) {
    if (!stream(i)) continue;
    same_buffering(ours[i], now[i], i ? _IONBF : _IOLBF);
    theirs[i] = now[i];
    retarget_all(L, theirs[i], ours[i]);
    *(i ? &stderr : &stdout) = ours[i];
  }
}

static void give_streams_back(lua_State *L) {
  for (int i = 0; i < 2; i++) {
    if (!theirs[i]) continue;
    fflush(ours[i]);
    *(i ? &stderr : &stdout) = theirs[i];
    retarget_all(L, ours[i], theirs[i]);
    theirs[i] = NULL;
  }
}

/* ---- lines ---- */

static int find(lua_Integer id) {
  int i = 0;
  while (i < live.n && live.lines[i].id != id) i++;
  return i;
}

/* What stands there at the end, as a line of what is printed. */
static void leave(int i, const char *text, size_t len) {
  int rows, columns;
  td_str s;
  size_of(&rows, &columns);
  td_str_init(&s);
  erase(&s);
  fresh_row(&s, columns);
  td_str_addn(&s, text, len);
  td_str_addc(&s, '\n');
  td_str_deinit(&live.lines[i].text);
  for (live.n--; i < live.n; i++) live.lines[i] = live.lines[i + 1];
  draw(&s, rows, columns);
  put_str(&s);
}

/* The process ends without a word to Lua: os.exit. */
static void leave_all(void) {
  if (!live.n) return;
  fflush(stdout);
  pthread_mutex_lock(&lock);
  while (live.n) {
    td_str text = live.lines[0].text;
    td_str_init(&live.lines[0].text);
    leave(0, td_str_c(&text), text.len);
    td_str_deinit(&text);
  }
  pthread_mutex_unlock(&lock);
}

static void show(lua_Integer id, const char *text, size_t len) {
  int rows, columns, i = find(id);
  td_str s;
  if (i == MOST) return;
  size_of(&rows, &columns);
  td_str_init(&s);
  if (!live.n) {
    fresh_row(&s, columns);
    live.place = TEXT;
    live.rest = 0;
  }
  if (i == live.n) {
    live.lines[live.n++].id = id;
    td_str_init(&live.lines[i].text);
  }
  td_str_clear(&live.lines[i].text);
  td_str_addn(&live.lines[i].text, text, len);
  live.lines[i].columns = columns;
  if (live.place == TEXT && !live.rest) erase(&s);
  draw(&s, rows, columns);
  put_str(&s);
}

/* core.live_show(id, text): the live line of that number, an integer; text of
 * one row, shorter than the terminal is wide. */
static int live_show(lua_State *L) {
  static bool told;
  size_t len;
  lua_Integer id = luaL_checkinteger(L, 1);
  const char *text = luaL_checklstring(L, 2, &len);
  if (!told) told = !atexit(leave_all);
  if (!live.n) take_streams(L);
  fflush(stdout);
  pthread_mutex_lock(&lock);
  show(id, text, len);
  pthread_mutex_unlock(&lock);
  return 0;
}

/* core.live_end(id, text): it ends; the text stays, as if it were printed. */
static int live_end(lua_State *L) {
  size_t len;
  lua_Integer id = luaL_checkinteger(L, 1);
  const char *text = luaL_checklstring(L, 2, &len);
  fflush(stdout);
  pthread_mutex_lock(&lock);
  int i = find(id);
  bool was = i < live.n;
  if (was) leave(i, text, len);
  bool last = was && !live.n;
  pthread_mutex_unlock(&lock);
  if (last) give_streams_back(L);
  lua_pushboolean(L, was);
  return 1;
}

/* core.live_aside(on): a child has the terminal, or has had it. */
static int live_aside(lua_State *L) {
  bool on = lua_toboolean(L, 1);
  int rows, columns;
  td_str s;
  fflush(stdout);
  pthread_mutex_lock(&lock);
  if (live.n && on != live.aside) {
    size_of(&rows, &columns);
    td_str_init(&s);
    erase(&s);
    live.aside = on;
    if (!on) {
      fresh_row(&s, columns);
      draw(&s, rows, columns);
    }
    put_str(&s);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

TD_LUA_OPEN(live) {
  static const luaL_Reg functions[] = {{"live_show", live_show},
                                       {"live_end", live_end},
                                       {"live_aside", live_aside},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
