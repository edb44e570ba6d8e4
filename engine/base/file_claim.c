/* file_claim.c - claims by lock and file, or by a file that only one can make.
 *
 * With locks: the file is locked as long as it is held, and who has the lock
 * may write it. Text in it that nobody can read was being written when its
 * process died. Without: who makes the file has it, and what a process left
 * behind only a person can judge, but for this process's own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file_claim.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/file_stop.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"

enum { MOST_TEXT = 1024 };

struct td_file_claim {
  char *path;
  td_file_lock *lock;  /* NULL: the file system has none */
  int process;         /* who took it: a forked child is another */
  td_file_claim *next; /* of all, under claims_lock */
};

static pthread_mutex_t claims_lock = PTHREAD_MUTEX_INITIALIZER;
static td_file_claim *claims; /* of this process, under claims_lock */

/* ---- who ----------------------------------------------------------------- */

/* What the file says. */
typedef struct holder {
  char host[256], boot[64], space[64]; /* space: process numbers are its own */
  int process;
  unsigned long long start; /* as the system numbers it; 0: it does not tell */
} holder;

static void read_line(const char *path, char *to, size_t n) {
  FILE *f = fopen(path, "re");
  if (!f || !fgets(to, (int)n, f)) snprintf(to, n, "unknown");
  if (f) fclose(f);
  to[strcspn(to, " \n")] = '\0';
}

/* The 22nd field; the second, in brackets, is any text, the third says whether
 * it only waits to be buried: *ended. */
static unsigned long long start_of(int process, bool *ended) {
  char path[64], text[1024];
  unsigned long long start = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *f = fopen(path, "re");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = '\0';
  const char *at = strrchr(text, ')');
  *ended = at && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0);
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  if (at) start = strtoull(at, NULL, 10);
  return start;
}

static void find_self(holder *h) {
  *h = (holder){.process = (int)getpid()};
  if (gethostname(h->host, sizeof h->host - 1) || !h->host[0])
    snprintf(h->host, sizeof h->host, "unknown");
  read_line("/proc/sys/kernel/random/boot_id", h->boot, sizeof h->boot);
  ssize_t n = readlink("/proc/self/ns/pid", h->space, sizeof h->space - 1);
  if (n <= 0) snprintf(h->space, sizeof h->space, "unknown");
  bool ended;
  h->start = start_of(h->process, &ended);
}

static void print_holder(const holder *h, char *text, size_t n) {
  snprintf(text, n, "host %s\nboot %s\nspace %s\nprocess %d\nstart %llu\n",
           h->host, h->boot, h->space, h->process, h->start);
}

/* false when the file does not say who. */
static bool read_holder(const char *path, holder *h, td_status **s) {
  char *text = NULL;
  size_t len;
  *s = td_file_read(path, MOST_TEXT, &text, &len);
  bool ok =
      td_ok(*s) &&
      sscanf(text, "host %255s boot %63s space %63s process %d start %llu",
             h->host, h->boot, h->space, &h->process, &h->start) == 5 &&
      h->process > 0 && text[len - 1] == '\n';
  td_free(text);
  return ok;
}

static bool is_self(const holder *h, const holder *self) {
  return strcmp(h->boot, self->boot) == 0 &&
         strcmp(h->space, self->space) == 0 && h->process == self->process &&
         h->start == self->start;
}

/* Where no lock says otherwise. Of processes counted elsewhere on this machine
 * the lock alone tells. */
static bool may_live(const holder *h, const holder *self) {
  if (is_self(h, self)) return false; /* a claim that was not removed */
  if (strcmp(h->boot, self->boot) != 0)
    return strcmp(h->host, self->host) != 0; /* else: before it was started */
  if (strcmp(h->space, self->space) != 0) return false;
  if (kill(h->process, 0) && errno == ESRCH) return false;
  bool ended;
  unsigned long long start = start_of(h->process, &ended);
  return !ended && (h->start == 0 || start == h->start);
}

static td_status *held_by(const char *path, const holder *h,
                          const holder *self) {
  if (is_self(h, self))
    return td_error(TD_UNAVAILABLE,
                    "'%s' is held by this process already: end that first",
                    path);
  if (strcmp(h->boot, self->boot) == 0 || strcmp(h->host, self->host) == 0)
    return td_error(TD_UNAVAILABLE,
                    "'%s' is held by process %d: wait for its end, or choose "
                    "another path",
                    path, h->process);
  return td_error(TD_UNAVAILABLE,
                  "'%s' is held by process %d of host %s: wait for its end, or "
                  "remove that file if it has ended",
                  path, h->process, h->host);
}

/* ---- the file ------------------------------------------------------------ */

/* Fills the file, which is this process's to write. */
static td_status *write_self(const char *path, td_file_mode mode,
                             const holder *self) {
  char text[MOST_TEXT];
  td_file *f;
  print_holder(self, text, sizeof text);
  TD_TRY(td_file_open(path, mode, &f));
  td_status *s = td_file_append(f, text, strlen(text));
  s = td_status_first(s, td_file_close(f));
  if (!td_ok(s)) td_status_release(td_file_system_of(path)->remove(path));
  return s;
}

/* Another has the lock: it holds the claim, or is about to. */
static td_status *locked_by(td_file_claim *c, const holder *self,
                            td_status *locked, bool *again) {
  holder h;
  td_status *s;
  bool known = read_holder(c->path, &h, &s);
  td_status_release(s);
  *again = !known || (!is_self(&h, self) && !may_live(&h, self));
  if (!known) return locked;
  td_status_release(locked);
  return held_by(c->path, &h, self);
}

/* The lock is ours; a file that was made by locking it is empty. */
static td_status *judge(td_file_claim *c, const holder *self) {
  holder h;
  td_status *s;
  if (read_holder(c->path, &h, &s) && may_live(&h, self))
    s = held_by(c->path, &h, self);
  if (td_ok(s)) s = write_self(c->path, TD_FILE_WRITE, self);
  if (td_ok(s)) return NULL;
  td_file_unlock(c->lock);
  c->lock = NULL;
  return s;
}

static td_status *take_locked(td_file_claim *c, const holder *self) {
  enum { TRIES = 1000 };
  bool again = true;
  td_status *s = NULL;
  for (int i = 0; again && i < TRIES; i++) {
    td_status_release(s);
    s = td_file_lock_take(c->path, &c->lock);
    again = false;
    if (td_ok(s)) return judge(c, self);
    if (td_status_code(s) == TD_UNAVAILABLE && td_file_exists(c->path))
      s = locked_by(c, self, s, &again);
    if (again) sched_yield();
  }
  return s;
}

/* What is there is this process's own: nobody else in it has the path. */
static td_status *take_made(td_file_claim *c, const holder *self) {
  holder h;
  td_status *s = write_self(c->path, TD_FILE_CREATE, self), *unread;
  if (td_status_code(s) != TD_ALREADY_EXISTS) return s;
  bool known = read_holder(c->path, &h, &unread);
  td_status_release(unread);
  if (!known) return s;
  td_status_release(s);
  if (!is_self(&h, self)) return held_by(c->path, &h, self);
  TD_TRY(td_file_remove(c->path));
  return write_self(c->path, TD_FILE_CREATE, self);
}

/* ---- taking and releasing ------------------------------------------------ */

/* false when this process has the path; a child has not what its parent has. */
static bool enlist(td_file_claim *c) {
  bool there = false;
  pthread_mutex_lock(&claims_lock);
  for (const td_file_claim *i = claims; i && !there; i = i->next)
    there = i->process == c->process && strcmp(i->path, c->path) == 0;
  if (!there) {
    c->next = claims;
    claims = c;
  }
  pthread_mutex_unlock(&claims_lock);
  return !there;
}

static void delist(const td_file_claim *c) {
  pthread_mutex_lock(&claims_lock);
  td_file_claim **at = &claims;
  while (*at && *at != c) at = &(*at)->next;
  if (*at) *at = c->next;
  pthread_mutex_unlock(&claims_lock);
}

/* Outside of a stop: of a take that ends half way an empty file would stay. */
static td_status *take(td_file_claim *c) {
  holder self;
  find_self(&self);
  c->process = self.process;
  if (!enlist(c)) return held_by(c->path, &self, &self);
  td_file_stop *outer = td_file_stop_enter(NULL);
  td_status *s = td_file_system_of(c->path)->lock ? take_locked(c, &self)
                                                  : take_made(c, &self);
  td_file_stop_leave(outer);
  if (!td_ok(s)) delist(c);
  return s;
}

td_status *td_file_claim_take(const char *path, td_file_claim **out) {
  td_file_claim *c = td_calloc(1, sizeof *c);
  if (!c) return td_oom();
  c->path = td_strdup(path);
  td_status *s = c->path ? take(c) : td_oom();
  if (td_ok(s)) {
    *out = c;
    return NULL;
  }
  td_free(c->path);
  td_free(c);
  return s;
}

/* Someone may have removed the file, and another made one. It is read outside
 * of a stop, which may have been what ends the claim. */
static bool is_ours(const td_file_claim *c) {
  holder h, self;
  td_status *s;
  find_self(&self);
  td_file_stop *outer = td_file_stop_enter(NULL);
  bool ours = read_holder(c->path, &h, &s) && is_self(&h, &self);
  td_file_stop_leave(outer);
  td_status_release(s);
  return ours;
}

void td_file_claim_release(td_file_claim *c) {
  if (!c) return;
  if (c->process == (int)getpid()) {
    if (is_ours(c)) td_status_release(td_file_remove(c->path));
    td_file_unlock(c->lock);
  }
  delist(c);
  td_free(c->path);
  td_free(c);
}
