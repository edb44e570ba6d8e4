/* segment_views.c - opening segments of others, and keeping them mapped.
 *
 * The descriptor in the owner's /proc is opened in two steps: first its path
 * only (O_PATH), which has no effect on whatever it is, then, if it is what the
 * name says, the thing itself by that. Neither the other process nor a new one
 * with its number can come in between.
 *
 * A view lives as long as the table has it or somebody reads; the table as long
 * as its owner or a buffer has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/segment_views.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/remote/segments_impl.h"

typedef struct segment_view {
  struct segment_view *next; /* in the order of use, newest first */
  char name[TD_SEGMENT_NAME];
  uint64_t peer;
  const char *at;
  size_t size;
  int readers;
  bool listed; /* in the table */
} segment_view;

struct td_segment_views {
  size_t most;
  pthread_mutex_t lock;
  segment_view *newest; /* under lock, as all that follows */
  size_t mapped;        /* of views that are listed or read */
  int64_t opened;
  int holds; /* the owner, and buffers */
};

/* ---- names --------------------------------------------------------------- */

/* A number of decimal digits, at most `most`, and the `end` behind it. */
static bool read_number(const char **at, uint64_t most, char end,
                        uint64_t *out) {
  const char *p = *at;
  uint64_t n = 0;
  for (; *p >= '0' && *p <= '9'; p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (n > (most - digit) / 10) return false;
    n = n * 10 + digit;
  }
  if (p == *at || *p != end) return false;
  *out = n;
  *at = p + 1;
  return true;
}

static bool read_hex(const char **at, uint64_t *out) {
  *out = 0;
  for (int i = 0; i < 16; i++) {
    static const char digits[] = "0123456789abcdef";
    const char *d = **at ? strchr(digits, **at) : NULL;
    if (!d) return false;
    *out = *out << 4 | (uint64_t)(d - digits);
    (*at)++;
  }
  return true;
}

static bool read_name(const char *text, td_segment_name *out) {
  static const char prefix[] = "tide-";
  uint64_t pid, fd;
  if (!memchr(text, '\0', TD_SEGMENT_NAME)) return false;
  if (strncmp(text, prefix, sizeof prefix - 1) != 0) return false;
  text += sizeof prefix - 1;
  if (!read_hex(&text, &out->incarnation) || *text++ != '-') return false;
  if (!read_number(&text, UINT64_MAX, '@', &out->number) ||
      !read_number(&text, INT_MAX, '/', &pid) ||
      !read_number(&text, INT_MAX, '\0', &fd))
    return false;
  out->pid = (int)pid;
  out->fd = (int)fd;
  return pid > 0;
}

/* ---- opening ------------------------------------------------------------- */

static td_status *refused(const td_segment_place *p, const char *why) {
  return td_error(TD_INVALID_ARGUMENT, "\"%.*s\" is no shared memory: %s",
                  TD_SEGMENT_NAME, p->segment, why);
}

/* Does the descriptor lead to the memfd of that name? */
static bool leads_to(int fd, const td_segment_name *n) {
  char link[64], is[128], should[128];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  snprintf(should, sizeof should, "/memfd:tide-%016" PRIx64 "-%" PRIu64,
           n->incarnation, n->number);
  ssize_t len = readlink(link, is, sizeof is - 1);
  if (len < 0) return false;
  is[len] = '\0';
  size_t same = strlen(should);
  return strncmp(is, should, same) == 0 &&
         (is[same] == '\0' || strcmp(is + same, " (deleted)") == 0);
}

/* The peer's descriptor, as a path only. */
static td_status *find_memory(const td_segment_place *p,
                              const td_segment_name *n, int *out) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", n->pid, n->fd);
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return td_error(TD_PERMISSION_DENIED,
                    "shared memory of process %d cannot be opened: %s", n->pid,
                    strerror(errno));
  if (!leads_to(fd, n)) {
    close(fd);
    return refused(p, "the process has something else there");
  }
  *out = fd;
  return NULL;
}

/* Opens for reading what descriptor `path` leads to. */
static td_status *open_memory(const td_segment_place *p, int path, int *out) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", path);
  int fd = open(link, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return td_error(TD_PERMISSION_DENIED,
                    "shared memory \"%s\" cannot be opened: %s", p->segment,
                    strerror(errno));
  *out = fd;
  return NULL;
}

/* Maps what is sealed, ours, and has the place. */
static td_status *map_memory(const td_segment_place *p, int fd,
                             segment_view *view) {
  struct stat st;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK))
    return refused(p, "it could become shorter while it is read");
  if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
    return refused(p, "it belongs to another user");
  if (st.st_size < TD_SEGMENT_ALIGN) return refused(p, "it is too short");
  view->size = (size_t)st.st_size;
  void *at = mmap(NULL, view->size, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%zu bytes of shared memory cannot be mapped: %s",
                    view->size, strerror(errno));
  view->at = at;
  return NULL;
}

static td_status *open_view(uint64_t peer, const td_segment_place *p,
                            segment_view *view) {
  td_segment_name n;
  int path = -1, fd = -1;
  if (!read_name(p->segment, &n)) return refused(p, "it has no such name");
  if (n.incarnation != peer) return refused(p, "it is another process's");
  TD_TRY(find_memory(p, &n, &path));
  td_status *s = open_memory(p, path, &fd);
  close(path);
  TD_TRY(s);
  s = map_memory(p, fd, view);
  close(fd);
  return s;
}

/* ---- views --------------------------------------------------------------- */

static bool is_gone(const segment_view *view) {
  const td_segment_head *head = (const void *)view->at;
  return __atomic_load_n(&head->gone, __ATOMIC_ACQUIRE) != 0;
}

/* The table has it no more; it goes with its last reader. */
static void unlist(td_segment_views *v, segment_view **at) {
  segment_view *view = *at;
  *at = view->next;
  view->listed = false;
  if (view->readers) return;
  munmap((void *)(uintptr_t)view->at, view->size);
  v->mapped -= view->size;
  td_free(view);
}

static void unlist_gone(td_segment_views *v) {
  for (segment_view **at = &v->newest; *at;) {
    if (is_gone(*at))
      unlist(v, at);
    else
      at = &(*at)->next;
  }
}

/* The one that was used longest ago and nobody reads; false: there is none. */
static bool unlist_oldest(td_segment_views *v) {
  segment_view **oldest = NULL;
  for (segment_view **at = &v->newest; *at; at = &(*at)->next)
    if (!(*at)->readers) oldest = at;
  if (oldest) unlist(v, oldest);
  return oldest != NULL;
}

/* `view` is mapped, and counted when there is room for it. */
static td_status *admit(td_segment_views *v, segment_view *view) {
  unlist_gone(v);
  while (view->size > v->most || v->mapped > v->most - view->size)
    if (view->size > v->most || !unlist_oldest(v))
      return td_error(
          TD_RESOURCE_EXHAUSTED,
          "%zu bytes of shared memory are mapped; %zu more pass the "
          "limit of %zu",
          v->mapped, view->size, v->most);
  v->mapped += view->size;
  v->opened++;
  view->listed = true;
  view->next = v->newest;
  v->newest = view;
  return NULL;
}

static td_status *add_view(td_segment_views *v, uint64_t peer,
                           const td_segment_place *p) {
  segment_view *view = td_calloc(1, sizeof *view);
  if (!view) return td_oom();
  td_status *s = open_view(peer, p, view);
  if (td_ok(s)) {
    view->peer = peer;
    memcpy(view->name, p->segment, sizeof view->name);
    s = admit(v, view);
    if (td_ok(s)) return NULL;
    munmap((void *)(uintptr_t)view->at, view->size);
  }
  td_free(view);
  return s;
}

static td_status *check_place(const td_segment_place *p, size_t size) {
  if (p->offset >= TD_SEGMENT_ALIGN && p->offset % TD_SEGMENT_ALIGN == 0 &&
      p->offset <= size && p->len <= size - p->offset)
    return NULL;
  return td_error(
      TD_INVALID_ARGUMENT,
      "%llu bytes at %llu are no place in shared memory of %zu bytes",
      (unsigned long long)p->len, (unsigned long long)p->offset, size);
}

/* The view that has the place, with one more reader. Under the lock. */
static td_status *find_view(td_segment_views *v, uint64_t peer,
                            const td_segment_place *p, segment_view **out) {
  segment_view **at = &v->newest;
  while (*at && ((*at)->peer != peer ||
                 strncmp((*at)->name, p->segment, sizeof(*at)->name) != 0))
    at = &(*at)->next;
  if (*at) { /* the newest from now on */
    segment_view *view = *at;
    *at = view->next;
    view->next = v->newest;
    v->newest = view;
  } else {
    TD_TRY(add_view(v, peer, p));
  }
  TD_TRY(check_place(p, v->newest->size));
  *out = v->newest;
  v->newest->readers++;
  return NULL;
}

static void end_read(td_segment_views *v, segment_view *view) {
  if (--view->readers || view->listed) return;
  unlist(v, &view);
}

/* ---- reading ------------------------------------------------------------- */

td_status *td_segment_views_read(td_segment_views *v, uint64_t peer,
                                 const td_segment_place *place, void *to) {
  segment_view *view;
  pthread_mutex_lock(&v->lock);
  td_status *s = find_view(v, peer, place, &view);
  pthread_mutex_unlock(&v->lock);
  TD_TRY(s);
  if (place->len) memcpy(to, view->at + place->offset, place->len);
  pthread_mutex_lock(&v->lock);
  end_read(v, view);
  pthread_mutex_unlock(&v->lock);
  return NULL;
}

static void let_go(td_segment_views *v) {
  if (__atomic_sub_fetch(&v->holds, 1, __ATOMIC_ACQ_REL)) return;
  pthread_mutex_destroy(&v->lock);
  td_free(v);
}

/* What a buffer has of a view. */
typedef struct view_hold {
  td_segment_views *of;
  segment_view *view;
  void (*taken)(void *arg);
  void *arg;
} view_hold;

static void end_hold(view_hold *h) {
  pthread_mutex_lock(&h->of->lock);
  end_read(h->of, h->view);
  pthread_mutex_unlock(&h->of->lock);
  let_go(h->of);
  td_free(h);
}

static void release_hold(void *arg, void *data, size_t size) {
  view_hold h = *(view_hold *)arg;
  (void)data, (void)size;
  end_hold(arg);
  if (h.taken) h.taken(h.arg);
}

td_status *td_segment_views_buffer(td_segment_views *v, uint64_t peer,
                                   const td_segment_place *place,
                                   void (*taken)(void *arg), void *arg,
                                   td_buffer **out) {
  view_hold *h = td_malloc(sizeof *h);
  if (!h) return td_oom();
  *h = (view_hold){.of = v, .taken = taken, .arg = arg};
  pthread_mutex_lock(&v->lock);
  td_status *s = find_view(v, peer, place, &h->view);
  pthread_mutex_unlock(&v->lock);
  if (!td_ok(s)) {
    td_free(h);
    return s;
  }
  __atomic_add_fetch(&v->holds, 1, __ATOMIC_RELAXED);
  char *data = (char *)(uintptr_t)h->view->at + place->offset;
  s = td_buffer_wrap(data, place->len, release_hold, h, out);
  if (td_ok(s))
    (*out)->readonly = true;
  else
    end_hold(h);
  return s;
}

/* ---- the table ----------------------------------------------------------- */

td_segment_views *td_segment_views_new(size_t most) {
  td_segment_views *v = td_calloc(1, sizeof *v);
  if (!v) return NULL;
  v->most = most;
  v->holds = 1;
  pthread_mutex_init(&v->lock, NULL);
  return v;
}

void td_segment_views_free(td_segment_views *v) {
  if (!v) return;
  pthread_mutex_lock(&v->lock);
  while (v->newest) unlist(v, &v->newest);
  pthread_mutex_unlock(&v->lock);
  let_go(v);
}

void td_segment_views_drop_peer(td_segment_views *v, uint64_t peer) {
  pthread_mutex_lock(&v->lock);
  for (segment_view **at = &v->newest; *at;) {
    if ((*at)->peer == peer)
      unlist(v, at);
    else
      at = &(*at)->next;
  }
  pthread_mutex_unlock(&v->lock);
}

void td_segment_views_trim(td_segment_views *v) {
  pthread_mutex_lock(&v->lock);
  unlist_gone(v);
  pthread_mutex_unlock(&v->lock);
}

td_segment_views_stats td_segment_views_read_stats(td_segment_views *v) {
  pthread_mutex_lock(&v->lock);
  td_segment_views_stats s = {.mapped = v->mapped, .opened = v->opened};
  for (const segment_view *i = v->newest; i; i = i->next) s.views++;
  pthread_mutex_unlock(&v->lock);
  return s;
}
