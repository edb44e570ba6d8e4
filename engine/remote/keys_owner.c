/* keys_owner.c - is the worker that left a key there still?
 *
 * Beside its key it leaves its number, when it began, and whose table of
 * processes counts so: a number is given out again, and another container's
 * numbers say nothing here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/remote/keys_impl.h"

enum { MOST_WORD = 64, MOST_STAT = 1024, BEGAN = 22 - 2 };

static bool read_table(char word[MOST_WORD]) {
  ssize_t n = readlink("/proc/self/ns/pid", word, MOST_WORD - 1);
  word[n > 0 ? n : 0] = '\0';
  return n > 0 && n < MOST_WORD - 1;
}

/* In ticks since the machine's start: the 22nd word of /proc/PID/stat, of which
 * the second may hold anything, in brackets. 0: there is no such process. */
static unsigned long long began(long pid) {
  char path[MOST_WORD], text[MOST_STAT + 1];
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  size_t n = fread(text, 1, MOST_STAT, f);
  fclose(f);
  text[n] = '\0';
  const char *at = strrchr(text, ')');
  for (int i = 0; at && i < BEGAN; i++) at = strchr(at + 1, ' ');
  return at ? strtoull(at, NULL, 10) : 0;
}

void td_keys_owner_text(td_str *out) {
  char table[MOST_WORD];
  unsigned long long since = began(getpid());
  if (since > 0 && read_table(table))
    td_str_addf(out, "process %ld %llu %s", (long)getpid(), since, table);
}

bool td_keys_owner_gone(const char *text) {
  long pid;
  unsigned long long since;
  char table[MOST_WORD], ours[MOST_WORD];
  if (sscanf(text, "process %ld %llu %63s", &pid, &since, table) != 3 ||
      pid <= 0 || !read_table(ours) || strcmp(table, ours) != 0)
    return false;
  if (kill((pid_t)pid, 0) && errno == ESRCH) return true;
  unsigned long long now = began(pid);
  return now > 0 && now != since;
}
