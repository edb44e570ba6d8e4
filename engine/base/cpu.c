/* cpu.c - the processor's instruction sets, its share, and its float mode.
 *
 * What is read from the processor and the environment is read once, so that a
 * later setenv cannot make two kernels of one process disagree.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/cpu.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xmmintrin.h>

static const char *const names[] = {"scalar", "avx2", "avx512"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static td_isa best, in_force;
static char asked[32]; /* a TIDE_ISA that cannot be had, else empty */
static bool asked_known;
static int count;
static char asked_threads[32]; /* a bad TIDE_THREADS, else empty */

/* __builtin_cpu_supports also asks whether the system keeps the registers. */
static td_isa probe(void) {
  unsigned a, b, c, d;
  bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  if (!f16c || !__builtin_cpu_supports("avx2") ||
      !__builtin_cpu_supports("fma"))
    return TD_SCALAR;
  bool wide =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide ? TD_AVX512 : TD_AVX2;
}

static void read_isa(void) {
  best = in_force = probe();
  const char *want = getenv("TIDE_ISA");
  if (!want || !*want) return;
  for (size_t i = 0; i < TD_COUNT(names); i++) {
    if (strcmp(want, names[i])) continue;
    asked_known = true;
    if ((td_isa)i > best) break;
    in_force = (td_isa)i;
    return;
  }
  memcpy(asked, want, strnlen(want, sizeof asked - 1));
}

/* ---- how many ------------------------------------------------------------ */

/* The first bytes of a small file, NUL-terminated; "" when it has none. */
static void read_small(const char *path, char *buf, size_t size) {
  ssize_t n = -1;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    do n = read(fd, buf, size - 1);
    while (n < 0 && errno == EINTR);
    close(fd);
  }
  buf[n > 0 ? n : 0] = '\0';
}

/* quota / period rounded up; 0 for "max", -1 and what is no quota. */
static int processors(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  long long n = quota / period + (quota % period != 0);
  return n > INT_MAX ? INT_MAX : (int)n;
}

/* What the files in one folder of the cgroup tree say. */
static int quota_in(const char *dir, bool v2) {
  char path[PATH_MAX + 32], text[64];
  long long quota = 0, period = 0;
  snprintf(path, sizeof path, "%s/%s", dir,
           v2 ? "cpu.max" : "cpu.cfs_quota_us");
  read_small(path, text, sizeof text);
  int found = sscanf(text, "%lld %lld", &quota, &period);
  if (found < 1) return 0;
  if (v2) return found == 2 ? processors(quota, period) : 0;
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
  read_small(path, text, sizeof text);
  if (sscanf(text, "%lld", &period) != 1) return 0;
  return processors(quota, period);
}

static int smaller(int a, int b) {
  return !a || (b && b < a) ? b : a;
}

/* The least quota from `group` up to the root of the hierarchy at `top`. A
 * container may not see its own group there; then the root's counts. */
static int quota_above(const char *top, const char *group, bool v2) {
  char dir[PATH_MAX];
  int least = 0, n = snprintf(dir, sizeof dir, "%s%s", top, group);
  size_t stop = strlen(top);
  if (n < 0 || (size_t)n >= sizeof dir) return 0;
  for (;;) {
    least = smaller(least, quota_in(dir, v2));
    char *slash = strrchr(dir, '/');
    if (!slash || (size_t)(slash - dir) < stop) return least;
    *slash = '\0';
  }
}

/* Whether the comma-separated list names the controller "cpu". */
static bool has_cpu(const char *list) {
  for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL)
    if (!strncmp(p, "cpu", 3) && (p[3] == ',' || !p[3])) return true;
  return false;
}

int td_cpu_quota(const char *root) {
  char path[PATH_MAX], groups[8192], *rest = groups;
  int least = 0;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  read_small(path, groups, sizeof groups);
  for (char *line; (line = strsep(&rest, "\n"));) { /* id:controllers:group */
    char *list = strchr(line, ':'), *group = list ? strchr(++list, ':') : NULL;
    if (!group) continue;
    *group++ = '\0';
    bool v2 = !*list;
    if (!v2 && !has_cpu(list)) continue;
    snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, v2 ? "" : "/cpu");
    least = smaller(least, quota_above(path, group, v2));
  }
  return least;
}

static int affinity(void) {
  for (int max = 1024; max <= 1 << 20; max *= 4) { /* the kernel's mask */
    cpu_set_t *set = CPU_ALLOC(max);
    if (!set) break;
    size_t bytes = CPU_ALLOC_SIZE(max);
    int n = sched_getaffinity(0, bytes, set) ? 0 : CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (n > 0) return n;
  }
  return 1;
}

static void read_count(void) {
  const char *want = getenv("TIDE_THREADS");
  count = smaller(affinity(), td_cpu_quota(""));
  if (count > TD_CPU_MAX) count = TD_CPU_MAX;
  if (!want || !*want) return;
  char *end;
  long n = strtol(want, &end, 10);
  if (!*end && n >= 1 && n <= TD_CPU_MAX)
    count = (int)n;
  else
    memcpy(asked_threads, want, strnlen(want, sizeof asked_threads - 1));
}

/* ---- the interface ------------------------------------------------------- */

static void read_once(void) {
  read_isa();
  read_count();
}

int td_cpu_count(void) {
  pthread_once(&once, read_once);
  return count;
}

/* Kernels ask for every node: one load once it is known. */
td_isa td_cpu_isa(void) {
  static int known; /* atomic: the answer + 1 */
  int isa = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (TD_LIKELY(isa)) return (td_isa)(isa - 1);
  pthread_once(&once, read_once);
  __atomic_store_n(&known, (int)in_force + 1, __ATOMIC_RELAXED);
  return in_force;
}

td_isa td_cpu_best(void) {
  pthread_once(&once, read_once);
  return best;
}

const char *td_isa_name(td_isa isa) {
  return (size_t)isa < TD_COUNT(names) ? names[isa] : "unknown";
}

td_status *td_cpu_check(void) {
  pthread_once(&once, read_once);
  if (asked_threads[0])
    return td_error(TD_INVALID_ARGUMENT,
                    "TIDE_THREADS=%s: expected a number from 1 to %d",
                    asked_threads, TD_CPU_MAX);
  if (!asked[0]) return NULL;
  if (asked_known)
    return td_error(TD_FAILED_PRECONDITION,
                    "TIDE_ISA=%s: this processor has %s at most", asked,
                    names[best]);
  return td_error(TD_INVALID_ARGUMENT,
                  "TIDE_ISA=%s: expected scalar, avx2 or avx512", asked);
}

enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };

unsigned td_cpu_flush_get(void) {
  return _mm_getcsr();
}

unsigned td_cpu_flush_on(void) {
  unsigned was = _mm_getcsr();
  _mm_setcsr(was | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
  return was;
}

/* Only the two modes go back: exception flags raised meanwhile stay. */
void td_cpu_flush_restore(unsigned was) {
  unsigned modes = FLUSH_TO_ZERO | DENORMALS_ARE_ZERO;
  _mm_setcsr((_mm_getcsr() & ~modes) | (was & modes));
}
