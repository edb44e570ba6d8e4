/* door.c - NVIDIA's libraries, opened when they are first needed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/door.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "/usr/local/cuda/lib64"

enum { UNTRIED, OPEN, ABSENT };

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* Nothing of it shall be seen by other libraries. */
static void *open_path(td_cuda_door *d, const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const char *why = library ? NULL : dlerror();
  if (library)
    snprintf(d->from, sizeof d->from, "%s", path);
  else if (!d->why[0] && why)
    snprintf(d->why, sizeof d->why, "%s", why);
  return library;
}

static void *open_in(td_cuda_door *d, const char *folder, size_t n) {
  char path[PATH_MAX];
  int len = snprintf(path, sizeof path, "%.*s/%s", (int)n, folder, d->soname);
  if (n == 0 || len < 0 || (size_t)len >= sizeof path) return NULL;
  return open_path(d, path);
}

static void *open_any(td_cuda_door *d) {
  const char *folders = getenv("TIDE_CUDA_LIBS");
  void *library = NULL;
  if (!folders) {
    library = open_path(d, d->soname);
    return library ? library : open_in(d, FOLDER, strlen(FOLDER));
  }
  for (const char *at = folders; !library && *at;) {
    size_t n = strcspn(at, ":");
    library = open_in(d, at, n);
    at += n + (at[n] == ':');
  }
  if (!library && !d->why[0])
    snprintf(d->why, sizeof d->why, "TIDE_CUDA_LIBS names no folder");
  return library;
}

/* A table of functions is an array of addresses. */
static bool find_all(td_cuda_door *d, void *library, void *table) {
  for (const td_cuda_symbol *s = d->symbols; s->name; s++) {
    void *p = dlsym(library, s->name);
    if (!p) {
      snprintf(d->why, sizeof d->why, "%s has no %.80s", d->from, s->name);
      return false;
    }
    memcpy((char *)table + s->at, &p, sizeof p);
  }
  return true;
}

static bool fits(td_cuda_door *d, const void *table) {
  td_str why;
  if (!d->check) return true;
  td_str_init(&why);
  bool yes = d->check(table, &why);
  if (!yes) snprintf(d->why, sizeof d->why, "%s", td_str_c(&why));
  td_str_deinit(&why);
  return yes;
}

bool td_cuda_door_open(td_cuda_door *d, void *table) {
  int state = __atomic_load_n(&d->state, __ATOMIC_ACQUIRE);
  if (TD_LIKELY(state != UNTRIED)) return state == OPEN;
  pthread_mutex_lock(&opening);
  if (d->state == UNTRIED) {
    void *library = open_any(d);
    bool open = library && find_all(d, library, table) && fits(d, table);
    __atomic_store_n(&d->state, open ? OPEN : ABSENT, __ATOMIC_RELEASE);
  }
  state = d->state;
  pthread_mutex_unlock(&opening);
  return state == OPEN;
}

void td_cuda_door_tell(td_cuda_door *d, void *table, td_str *out) {
  if (td_cuda_door_open(d, table))
    td_str_addf(out, "%s: %s\n", d->what, d->from);
  else
    td_str_addf(out, "%s: not used: %s\n", d->what, d->why);
}
