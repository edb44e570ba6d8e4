/* alloc_limit.c - how much memory there is for tensors.
 *
 * TIDE_MEMORY_LIMIT=bytes; else 80 % of the machine's, or of the tightest
 * control group this process is in (version 2 and 1, parents included). Files
 * that cannot be read do not count.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/device/alloc.h"

static size_t machine_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : SIZE_MAX;
}

/* The number in a file; SIZE_MAX for "max" and for no file. */
static size_t read_limit(const char *path) {
  char line[64] = "";
  FILE *f = fopen(path, "re");
  if (!f) return SIZE_MAX;
  char *got = fgets(line, sizeof line, f);
  fclose(f);
  if (!got || line[0] < '0' || line[0] > '9') return SIZE_MAX;
  return strtoull(line, NULL, 10);
}

/* The least limit from `group` up to the root of the hierarchy at `mount`. */
static size_t least_limit(const char *mount, char *group, const char *file) {
  size_t least = SIZE_MAX;
  for (;;) {
    char path[2048];
    snprintf(path, sizeof path, "%s%s/%s", mount, group, file);
    size_t limit = read_limit(path);
    if (limit < least) least = limit;
    char *slash = strrchr(group, '/');
    if (!slash) return least;
    *slash = 0;
  }
}

static bool lists_memory(const char *controllers) {
  const char *at = strstr(controllers, "memory");
  return at && (at == controllers || at[-1] == ',') &&
         (at[6] == 0 || at[6] == ',');
}

/* Lines are "number:controllers:group"; version 2 names no controllers. */
static size_t group_memory(void) {
  size_t least = SIZE_MAX, limit;
  char line[1536];
  FILE *f = fopen("/proc/self/cgroup", "re");
  if (!f) return least;
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    if (*++controllers == 0)
      limit = least_limit("/sys/fs/cgroup", group, "memory.max");
    else if (lists_memory(controllers))
      limit =
          least_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    else
      continue;
    if (limit < least) least = limit;
  }
  fclose(f);
  return least;
}

size_t td_alloc_default_limit(void) {
  const char *env = getenv("TIDE_MEMORY_LIMIT");
  size_t asked = env ? strtoull(env, NULL, 10) : 0;
  if (asked > 0) return asked;
  size_t machine = machine_memory(), group = group_memory();
  return (machine < group ? machine : group) / 5 * 4;
}
