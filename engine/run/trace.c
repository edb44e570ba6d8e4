/* trace.c - events of a traced step, in shards by thread.
 *
 * A thread adds to the shard of its number, so that threads do not wait for
 * each other: thread 3 and thread 19 share one, most share none. A step that is
 * traced pays that shard's lock per node; one that is not pays a predictable
 * branch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/trace_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"

enum { SHARDS = 16 };

typedef TD_VEC(td_trace_event) events;

struct td_trace {
  int32_t refs;    /* atomic */
  int64_t room;    /* atomic: events that it still takes */
  int64_t names;   /* atomic: bytes of names that it still takes */
  int64_t dropped; /* atomic */
  struct shard {
    pthread_mutex_t lock;
    events list;  /* lock: lock */
    td_map names; /* lock: lock. Copies of the strings, by themselves */
  } shard[SHARDS];
  events all;    /* merged and sorted, by td_trace_events... */
  size_t merged; /* ...when there were so many, tasks too */
  pthread_mutex_t lock;
  TD_VEC(td_trace_task) tasks; /* lock: lock; their strings are copies */
  td_trace_task
      *settled; /* the same, as of td_trace_events; borrowed strings */
  size_t n_settled;
  int64_t *between; /* see td_trace_settle */
};

td_status *td_trace_new(td_trace **out) {
  td_trace *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->refs = 1;
  t->room = t->names = INT64_MAX / 2;
  pthread_mutex_init(&t->lock, NULL);
  for (int i = 0; i < SHARDS; i++) {
    pthread_mutex_init(&t->shard[i].lock, NULL);
    td_map_init(&t->shard[i].names);
  }
  *out = t;
  return NULL;
}

static void free_task(td_trace_task *x) {
  td_free((char *)x->task);
  td_free((char *)x->trouble);
}

td_trace *td_trace_retain(td_trace *t) {
  if (t) __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
  return t;
}

void td_trace_release(td_trace *t) {
  if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  for (int i = 0; i < SHARDS; i++) {
    const td_map_entry *e;
    for (size_t k = 0; td_map_next(&t->shard[i].names, &k, &e);)
      td_free(e->value);
    td_map_deinit(&t->shard[i].names);
    td_vec_free(&t->shard[i].list);
    pthread_mutex_destroy(&t->shard[i].lock);
  }
  for (size_t i = 0; i < t->tasks.len; i++) free_task(&t->tasks.at[i]);
  td_vec_free(&t->tasks);
  td_vec_free(&t->all);
  td_free(t->settled);
  td_free(t->between);
  pthread_mutex_destroy(&t->lock);
  td_free(t);
}

void td_trace_limit(td_trace *t, int64_t most) {
  __atomic_store_n(&t->room, most, __ATOMIC_RELAXED);
  __atomic_store_n(&t->names, most * 64, __ATOMIC_RELAXED);
}

int64_t td_trace_dropped(const td_trace *t) {
  return __atomic_load_n(&t->dropped, __ATOMIC_RELAXED);
}

/* Takes `n` of what is left there; false: there is not so much. */
static bool take(int64_t *left, int64_t n) {
  if (__atomic_sub_fetch(left, n, __ATOMIC_RELAXED) >= 0) return true;
  __atomic_add_fetch(left, n, __ATOMIC_RELAXED);
  return false;
}

/* One copy of each string; NULL when there is no memory, or no room. */
static const char *keep(td_trace *t, struct shard *s, const char *text) {
  char *copy = td_map_get(&s->names, text);
  if (copy) return copy;
  if (!take(&t->names, (int64_t)strlen(text) + 1)) return NULL;
  copy = td_strdup(text);
  if (copy && !td_map_put(&s->names, text, copy)) {
    td_free(copy);
    copy = NULL;
  }
  return copy;
}

void td_trace_add(td_trace *t, const td_trace_event *e) {
  struct shard *s = &t->shard[(unsigned)e->thread % SHARDS];
  td_trace_event own = *e;
  bool kept = take(&t->room, 1);
  if (kept) {
    pthread_mutex_lock(&s->lock);
    own.node = keep(t, s, e->node);
    own.op = keep(t, s, e->op);
    own.device = keep(t, s, e->device);
    own.value = keep(t, s, e->value ? e->value : "");
    own.stream = keep(t, s, e->stream ? e->stream : "");
    kept = own.node && own.op && own.device && own.value && own.stream &&
           td_vec_push(&s->list, own);
    pthread_mutex_unlock(&s->lock);
  }
  if (!kept) __atomic_fetch_add(&t->dropped, 1, __ATOMIC_RELAXED);
}

/* ---- tasks ---- */

void td_trace_add_task(td_trace *t, const td_trace_task *x) {
  td_trace_task own = *x;
  own.task = td_strdup(x->task);
  own.trouble = td_strdup(x->trouble ? x->trouble : "");
  pthread_mutex_lock(&t->lock);
  bool kept = own.task && own.trouble && td_vec_push(&t->tasks, own);
  pthread_mutex_unlock(&t->lock);
  if (!kept) free_task(&own);
}

const td_trace_task *td_trace_tasks(const td_trace *t, size_t *count) {
  *count = t->n_settled;
  return t->settled;
}

/* ---- reading ---- */

static int by_start(const void *a, const void *b) {
  const td_trace_event *x = a, *y = b;
  return x->start < y->start ? -1 : x->start > y->start;
}

/* The times of other tasks are those of clocks as they were measured: all of
 * the trace together says more. */
static void settle(td_trace *t) {
  pthread_mutex_lock(&t->lock);
  size_t n = t->tasks.len;
  td_free(t->settled);
  td_free(t->between);
  t->settled = td_calloc(n + 1, sizeof *t->settled);
  t->between = td_calloc((n + 1) * (n + 1), sizeof *t->between);
  t->n_settled = t->settled && t->between ? n : 0;
  if (t->n_settled) memcpy(t->settled, t->tasks.at, n * sizeof *t->settled);
  pthread_mutex_unlock(&t->lock);
  if (t->n_settled)
    td_trace_settle(t->all.at, (int64_t)t->all.len, t->settled, t->n_settled,
                    t->between);
}

int64_t td_trace_error(const td_trace *t, size_t a, size_t b) {
  return t->n_settled ? t->between[a * (t->n_settled + 1) + b] : 0;
}

/* Events and tasks that there are. */
static size_t count_all(td_trace *t) {
  size_t n = 0;
  for (int i = 0; i < SHARDS; i++) {
    pthread_mutex_lock(&t->shard[i].lock);
    n += t->shard[i].list.len;
    pthread_mutex_unlock(&t->shard[i].lock);
  }
  pthread_mutex_lock(&t->lock);
  n += t->tasks.len;
  pthread_mutex_unlock(&t->lock);
  return n;
}

const td_trace_event *td_trace_events(td_trace *t, int64_t *count) {
  size_t n = count_all(t);
  *count = (int64_t)t->all.len;
  if (n == t->merged) return t->all.at;
  t->merged = n;
  t->all.len = 0;
  for (int i = 0; i < SHARDS; i++) {
    struct shard *s = &t->shard[i];
    pthread_mutex_lock(&s->lock);
    if (td_vec_reserve(&t->all, s->list.len)) {
      if (s->list.len)
        memcpy(t->all.at + t->all.len, s->list.at,
               s->list.len * sizeof *s->list.at);
      t->all.len += s->list.len;
    }
    pthread_mutex_unlock(&s->lock);
  }
  settle(t);
  if (t->all.len) qsort(t->all.at, t->all.len, sizeof *t->all.at, by_start);
  *count = (int64_t)t->all.len;
  return t->all.at;
}

void td_trace_blame(td_trace *t, const char *node) {
  int64_t n;
  td_trace_event *last = NULL;
  (void)td_trace_events(t, &n);
  for (int64_t i = 0; i < n; i++)
    if (strcmp(t->all.at[i].node, node) == 0 && !(last && last->failed) &&
        !td_trace_is_work(&t->all.at[i]))
      last = &t->all.at[i];
  if (last) last->failed = true;
}

/* ---- totals by op ---- */

typedef struct total {
  const char *op, *stream;
  int64_t calls, ns, bytes;
} total;

static int by_time(const void *a, const void *b) {
  const total *x = a, *y = b;
  if (x->ns != y->ns) return x->ns > y->ns ? -1 : 1;
  int order = strcmp(x->op, y->op);
  return order ? order : strcmp(x->stream, y->stream);
}

static void name_total(td_str *out, const char *op, const char *stream) {
  td_str_addf(out, "%s%s%s", op, *stream ? ", " : "", stream);
}

static total *total_of(total *list, size_t *n, td_map *index,
                       const td_trace_event *e) {
  td_str key;
  td_str_init(&key);
  name_total(&key, e->op, e->stream);
  uintptr_t at = (uintptr_t)td_map_get(index, td_str_c(&key));
  bool fits = at || (!key.failed &&
                     td_map_put(index, td_str_c(&key), (void *)(*n + 1)));
  td_str_deinit(&key);
  if (!fits) return NULL;
  if (at) return &list[at - 1];
  list[*n] = (total){.op = e->op, .stream = e->stream};
  return &list[(*n)++];
}

static void write_total(td_str *out, const total *x, int64_t all) {
  td_str name;
  td_str_init(&name);
  name_total(&name, x->op, x->stream);
  td_str_addf(out, "%-32s %8lld calls %10.3f ms %5.1f %% %10.2f MB\n",
              td_str_c(&name), (long long)x->calls, (double)x->ns * 1e-6,
              all ? 100.0 * (double)x->ns / (double)all : 0.0,
              (double)x->bytes * 1e-6);
  td_str_deinit(&name);
}

void td_trace_totals(td_trace *t, td_str *out) {
  int64_t count, all = 0;
  const td_trace_event *e = td_trace_events(t, &count);
  total *list = td_calloc((size_t)count + 1, sizeof *list);
  td_map index;
  size_t n = 0;
  td_map_init(&index);
  for (int64_t i = 0; list && i < count; i++) {
    total *x = total_of(list, &n, &index, &e[i]);
    if (!x) break;
    x->calls++;
    x->ns += e[i].end - e[i].start;
    x->bytes += e[i].bytes;
    all += e[i].end - e[i].start;
  }
  if (list) qsort(list, n, sizeof *list, by_time);
  for (size_t i = 0; list && i < n; i++) write_total(out, &list[i], all);
  td_map_deinit(&index);
  td_free(list);
}
