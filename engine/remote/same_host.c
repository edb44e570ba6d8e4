/* same_host.c - what a process shows of where it runs.
 *
 * A segment is opened by its owner's number, through /proc: so /proc must be
 * there and count processes as this process's namespace does, and the kernel
 * must let others of the user look in (a process that changed its user, or
 * forbade dumps, is closed to them).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/same_host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine/base/entropy.h"
#include "engine/remote/segments_impl.h"

enum { WORD = 48 }; /* of a boot id, or the name of a namespace */

static bool read_link(const char *path, char word[WORD]) {
  ssize_t n = readlink(path, word, WORD - 1);
  word[n > 0 ? n : 0] = '\0';
  return n > 0 && n < WORD - 1;
}

static bool read_boot(char word[WORD]) {
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  bool found = f && fgets(word, WORD, f);
  if (f) fclose(f);
  if (found) word[strcspn(word, "\n")] = '\0';
  return found && *word;
}

/* Does /proc number this process as it numbers itself? */
static bool proc_is_ours(void) {
  char word[WORD];
  return read_link("/proc/self", word) && atoi(word) == (int)getpid();
}

static bool has_memfd(void) {
  int fd = td_segments_memfd("tide");
  if (fd >= 0) close(fd);
  return fd >= 0;
}

void td_same_host_text(td_str *out) {
  char boot[WORD], pids[WORD], users[WORD];
  if (proc_is_ours() && read_boot(boot) &&
      read_link("/proc/self/ns/pid", pids) &&
      read_link("/proc/self/ns/user", users) && prctl(PR_GET_DUMPABLE) == 1 &&
      has_memfd())
    td_str_addf(out, "boot %s %s %s uid %u", boot, pids, users,
                (unsigned)geteuid());
  else
    td_str_addf(out, "alone %016" PRIx64, td_entropy());
}
