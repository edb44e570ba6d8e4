/* session_states.c - what kernels of a session keep, as bytes.
 *
 * Each participant has its own (states.h). Where this process is alone, its
 * bytes are the session's. Else they are "TDMEMBER", version, how many; of
 * each, in order of tasks, two lengths, the task and what it wrote. Nothing
 * else may follow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/run/session_impl.h"

static const char magic[] = "TDMEMBER";
enum { MAGIC = sizeof magic - 1, VERSION = 1, MAX_TASK = 1 << 10 };

/* ---- who takes part ------------------------------------------------------ */

typedef TD_VEC(td_participant *) crowd;

static int compare(const void *a, const void *b) {
  return strcmp((*(td_participant *const *)a)->task,
                (*(td_participant *const *)b)->task);
}

static void let_go(crowd *all) {
  for (size_t i = 0; i < all->len; i++) td_participant_release(all->at[i]);
  td_vec_free(all);
}

/* What a member that is lost kept is lost too. */
static td_status *lost_with(const td_participant *p, td_status *why) {
  td_status *s = td_error(TD_UNAVAILABLE, "the states of %s are lost: %s",
                          p->task, td_status_message(why));
  td_status_release(why);
  return s;
}

/* All, retained, in order of tasks. */
static td_status *gather(td_session *s, crowd *all) {
  uint64_t at = 0;
  td_status *st = NULL, *lost;
  for (td_participant *p;
       td_ok(st) && (p = td_members_next(&s->members, &at, &lost));) {
    if (lost)
      st = lost_with(p, lost);
    else if (!td_vec_reserve(all, 1))
      st = td_oom();
    if (td_ok(st))
      all->at[all->len++] = p;
    else
      td_participant_release(p);
  }
  if (td_ok(st)) qsort(all->at, all->len, sizeof all->at[0], compare);
  return st;
}

/* ---- saving -------------------------------------------------------------- */

static td_status *save_one(td_participant *p, td_str *out) {
  td_str bytes;
  td_str_init(&bytes);
  td_status *st = p->ops->save(p, &bytes);
  if (td_ok(st) && bytes.failed) st = td_oom();
  size_t len = strlen(p->task);
  td_bytes_put(out, len, 4);
  td_bytes_put(out, bytes.len, 8);
  td_str_addn(out, p->task, len);
  td_str_addn(out, td_str_c(&bytes), bytes.len);
  td_str_deinit(&bytes);
  return st;
}

static td_status *save_all(const crowd *all, td_str *out) {
  td_str_addn(out, magic, MAGIC);
  td_bytes_put(out, VERSION, 4);
  td_bytes_put(out, all->len, 4);
  for (size_t i = 0; i < all->len; i++) TD_TRY(save_one(all->at[i], out));
  return out->failed ? td_oom() : NULL;
}

td_status *td_session_save_states(td_session *s, td_str *out) {
  crowd all = {0};
  td_status *st = gather(s, &all);
  if (td_ok(st))
    st = all.len == 1 ? all.at[0]->ops->save(all.at[0], out)
                      : save_all(&all, out);
  let_go(&all);
  return st;
}

/* ---- loading ------------------------------------------------------------- */

static td_status *broken(const char *what) {
  return td_error(TD_DATA_LOSS, "saved states of several tasks are broken: %s",
                  what);
}

static bool is_of_several(td_bytes from) {
  return from.len >= MAGIC && memcmp(from.at, magic, MAGIC) == 0;
}

/* How many there are. */
static td_status *read_head(td_bytes *from, uint64_t *count) {
  td_bytes head;
  uint64_t version;
  if (!td_bytes_take(from, MAGIC, &head) || !td_bytes_get(from, 4, &version) ||
      !td_bytes_get(from, 4, count))
    return broken("they end early");
  if (version == VERSION) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "saved states of several tasks are of version %u, this Tide "
                  "reads %d",
                  (unsigned)version, VERSION);
}

/* The next task and bytes. `last`: the task before, which this one follows. */
static td_status *next(td_bytes *from, td_bytes *last, td_bytes *bytes) {
  uint64_t task_len, len;
  td_bytes task;
  if (!td_bytes_get(from, 4, &task_len) || !td_bytes_get(from, 8, &len) ||
      task_len == 0 || task_len > MAX_TASK ||
      !td_bytes_take(from, (size_t)task_len, &task) ||
      !td_bytes_take(from, (size_t)len, bytes))
    return broken("they end early");
  size_t least = task.len < last->len ? task.len : last->len;
  int order = memcmp(task.at, last->at, least);
  if (order < 0 || (order == 0 && task.len <= last->len))
    return broken("tasks are not in order");
  *last = task;
  return NULL;
}

static td_status *find(const crowd *all, td_bytes task, td_participant **out) {
  for (size_t i = 0; i < all->len; i++) {
    *out = all->at[i];
    if (strlen((*out)->task) == task.len &&
        memcmp((*out)->task, task.at, task.len) == 0)
      return NULL;
  }
  return td_error(TD_FAILED_PRECONDITION,
                  "there are saved states of %.*s, which takes no part in this "
                  "session",
                  (int)task.len, task.at);
}

/* Reads all and sees that everybody is there; with `load`, hands it out. */
static td_status *read_all(const crowd *all, td_bytes from, bool load,
                           td_str *waiting) {
  td_bytes task = {"", 0}, bytes = task;
  uint64_t count = 0;
  td_participant *p = NULL;
  TD_TRY(read_head(&from, &count));
  for (uint64_t i = 0; i < count; i++) {
    TD_TRY(next(&from, &task, &bytes));
    TD_TRY(find(all, task, &p));
    if (load) TD_TRY(p->ops->load(p, bytes, waiting));
  }
  return from.len == 0 ? NULL : broken("something follows them");
}

td_status *td_session_load_states(td_session *s, td_bytes from,
                                  td_str *waiting) {
  td_participant *here = td_members_here(&s->members);
  if (!is_of_several(from)) return here->ops->load(here, from, waiting);
  crowd all = {0};
  td_status *st = gather(s, &all);
  if (td_ok(st)) st = read_all(&all, from, false, NULL);
  if (td_ok(st)) st = read_all(&all, from, true, waiting);
  let_go(&all);
  return st;
}
