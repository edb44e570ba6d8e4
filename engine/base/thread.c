/* thread.c - starting threads: signals blocked, named, placed.
 *
 * A fresh thread often shares its creator's processor for milliseconds, so a
 * pool places its threads: the new thread is created on a narrow affinity mask
 * and widens it again by itself as its first act.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#include "engine/base/mem.h"

typedef struct start {
  void *(*run)(void *arg);
  void *arg;
  bool placed;
  cpu_set_t all; /* the creator's mask */
  char name[16];
} start;

static void *entry(void *arg) {
  start s = *(start *)arg;
  td_free(arg);
  pthread_setname_np(pthread_self(), s.name);
  if (s.placed) pthread_setaffinity_np(pthread_self(), sizeof s.all, &s.all);
  return s.run(s.arg);
}

/* The mask of the cpu-th allowed processor; false where the mask cannot be
 * read (more processors than cpu_set_t holds): the thread then starts
 * anywhere. */
static bool place(start *s, int cpu, cpu_set_t *one) {
  if (cpu < 0 || sched_getaffinity(0, sizeof s->all, &s->all)) return false;
  int count = CPU_COUNT(&s->all);
  if (count == 0) return false;
  int skip = cpu % count;
  CPU_ZERO(one);
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &s->all) || skip-- > 0) continue;
    CPU_SET(i, one);
    return true;
  }
  return false;
}

static void keep_crashes(sigset_t *set) {
  static const int crashes[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                SIGILL,  SIGTRAP, SIGSYS};
  sigfillset(set);
  for (size_t i = 0; i < TD_COUNT(crashes); i++) sigdelset(set, crashes[i]);
}

bool td_thread_start(pthread_t *thread, const char *name, int cpu,
                     void *(*run)(void *arg), void *arg) {
  start *s = td_calloc(1, sizeof *s);
  pthread_attr_t attr;
  if (!s) return false;
  if (pthread_attr_init(&attr)) {
    td_free(s);
    return false;
  }
  s->run = run, s->arg = arg;
  memcpy(s->name, name, strnlen(name, sizeof s->name - 1));
  cpu_set_t one;
  s->placed = place(s, cpu, &one);
  if (s->placed) pthread_attr_setaffinity_np(&attr, sizeof one, &one);
  if (!thread) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  sigset_t block, was;
  keep_crashes(&block);
  pthread_sigmask(SIG_SETMASK, &block, &was);
  pthread_t id;
  bool ok = pthread_create(thread ? thread : &id, &attr, entry, s) == 0;
  pthread_sigmask(SIG_SETMASK, &was, NULL);
  pthread_attr_destroy(&attr);
  if (!ok) td_free(s);
  return ok;
}
