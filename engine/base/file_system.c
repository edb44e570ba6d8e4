/* file_system.c - the list of file systems that have a prefix.
 *
 * It only grows, at its head, so that readers need no lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file_system.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"

typedef struct mounted {
  const td_file_system *fs;
  struct mounted *next;
} mounted;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of writers */
static mounted *first;                                   /* atomic */

static bool begins(const char *path, const char *prefix) {
  return strncmp(path, prefix, strlen(prefix)) == 0;
}

const td_file_system *td_file_system_of(const char *path) {
  mounted *m = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
  while (m && !begins(path, m->fs->prefix)) m = m->next;
  return m ? m->fs : &td_file_disk;
}

static td_status *check(const td_file_system *fs) {
  const char *mark = fs->prefix ? strstr(fs->prefix, "://") : NULL;
  if (!mark || mark == fs->prefix || mark[3])
    return td_error(TD_INVALID_ARGUMENT,
                    "the prefix of a file system is a word and \"://\", not "
                    "\"%s\"",
                    fs->prefix ? fs->prefix : "");
  if (fs->open && fs->close && fs->read && fs->append && fs->size && fs->sync &&
      !fs->map == !fs->unmap && fs->rename && fs->remove && fs->exists &&
      fs->make_folders && fs->list && !fs->lock == !fs->unlock)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT, "file system \"%s\" lacks a function",
                  fs->prefix);
}

/* Lock held. */
static td_status *add(const td_file_system *fs) {
  for (mounted *m = first; m; m = m->next) {
    if (m->fs == fs) return NULL;
    if (strcmp(m->fs->prefix, fs->prefix) == 0)
      return td_error(TD_ALREADY_EXISTS, "\"%s\" has a file system already",
                      fs->prefix);
  }
  mounted *m = td_malloc(sizeof *m);
  if (!m) return td_oom();
  *m = (mounted){fs, first};
  __atomic_store_n(&first, m, __ATOMIC_RELEASE);
  return NULL;
}

td_status *td_file_system_register(const td_file_system *fs) {
  TD_TRY(check(fs));
  pthread_mutex_lock(&lock);
  td_status *s = add(fs);
  pthread_mutex_unlock(&lock);
  return s;
}
