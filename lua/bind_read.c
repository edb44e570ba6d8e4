/* bind_read.c - reading on an I/O thread; see bind_read.h.
 *
 * Whoever leaves last, the thread that reads or the one that waited, frees what
 * they share: after an interrupt the read may still be about to end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_read.h"

#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/base/file_stop.h"
#include "engine/base/io_threads.h"
#include "engine/base/mem.h"
#include "engine/io/npy.h"
#include "lua/bind.h"

/* ---- what can be read ---------------------------------------------------- */

td_status *td_lua_read_bytes(const char *path, td_lua_read *r) {
  return td_file_read(path, r->limit, &r->bytes, &r->len);
}

td_status *td_lua_read_array(const char *path, td_lua_read *r) {
  return td_npy_read(path, r->limit, &r->array);
}

td_status *td_lua_read_archive(const char *path, td_lua_read *r) {
  return td_npz_open(path, r->limit, &r->archive);
}

static void drop(td_lua_read *r) {
  td_free(r->bytes);
  td_tensor_release(&r->array);
  td_npz_close(r->archive);
}

/* ---- apart --------------------------------------------------------------- */

typedef struct reading {
  td_task task; /* first */
  int32_t refs; /* atomic */
  int32_t over; /* atomic */
  td_waiter waiter;
  td_file_stop stop;
  td_status *(*read)(const char *path, td_lua_read *r);
  char *path;
  td_lua_read what;
  td_status *status;
} reading;

static void reading_release(reading *r) {
  if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_file_stop_deinit(&r->stop);
  td_status_release(r->status);
  drop(&r->what);
  td_free(r->path);
  td_free(r);
}

static void read_task(td_task *task) {
  reading *r = (reading *)task;
  td_file_stop *outer = td_file_stop_enter(&r->stop);
  r->status = r->read(r->path, &r->what);
  td_file_stop_leave(outer);
  __atomic_store_n(&r->over, 1, __ATOMIC_RELEASE);
  td_waiter_wake(&r->waiter);
  reading_release(r);
}

static bool is_over(void *arg) {
  return __atomic_load_n(&((reading *)arg)->over, __ATOMIC_ACQUIRE) != 0;
}

static td_status *start(const char *path,
                        td_status *(*read)(const char *, td_lua_read *),
                        const td_lua_read *what, reading **out) {
  reading *r = td_calloc(1, sizeof *r);
  if (!r) return td_oom();
  *r = (reading){{.run = read_task}, .refs = 2, .read = read, .what = *what};
  r->path = td_strdup(path);
  td_status *s = r->path ? NULL : td_oom();
  if (td_ok(s) && !td_io_submit(&r->task))
    s = td_error(TD_RESOURCE_EXHAUSTED, "no thread is free to read '%s'", path);
  if (td_ok(s)) {
    *out = r;
  } else {
    r->refs = 1;
    reading_release(r);
  }
  return s;
}

static td_status *read_apart(lua_State *L, const char *path,
                             td_status *(*read)(const char *, td_lua_read *),
                             td_lua_read *what) {
  td_lua_state *st = td_lua_get(L);
  reading *r = NULL;
  TD_TRY(start(path, read, what, &r));
  td_lua_unlock(st);
  td_waited why =
      td_waiter_wait(&r->waiter, INT64_MAX, td_lua_interrupt(), is_over, r);
  td_lua_lock(st);
  td_status *s = NULL;
  if (why == TD_WAITED_READY) {
    s = td_status_retain(r->status);
    *what = r->what;
    r->what = (td_lua_read){.len = 0};
  } else {
    td_file_stop_fire(&r->stop);
    s = td_error(TD_CANCELLED, "interrupted while reading '%s'", path);
  }
  reading_release(r);
  return s;
}

/* Not a file of a disk, nor of another file system. */
static bool may_wait(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

void td_lua_read_file(lua_State *L, const char *path,
                      td_status *(*read)(const char *path, td_lua_read *r),
                      td_lua_read *r) {
  if (may_wait(path))
    td_lua_check_step(L, read_apart(L, path, read, r));
  else
    td_lua_check(L, read(path, r));
}
