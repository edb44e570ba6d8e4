/* info.c - what kernel_info_reply and usage_reply tell.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/info.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/version.h"

static const char help_links[] =
    "[{\"text\": \"Lua 5.4 Reference Manual\", "
    "\"url\": \"https://www.lua.org/manual/5.4/\"}, "
    "{\"text\": \"TensorFlow white paper\", "
    "\"url\": \"https://arxiv.org/abs/1603.04467\"}]";

void td_jupyter_info(td_str *out) {
  td_str_addf(out,
              "{\"status\": \"ok\", \"protocol_version\": \"5.5\", "
              "\"implementation\": \"tide\", "
              "\"implementation_version\": \"" TD_VERSION "\", "
              "\"language_info\": {\"name\": \"lua\", \"version\": \"5.4\", "
              "\"mimetype\": \"text/x-lua\", \"file_extension\": \".lua\", "
              "\"pygments_lexer\": \"lua\", \"codemirror_mode\": \"lua\"}, "
              "\"banner\": \"Tide " TD_VERSION
              ": dataflow graphs in Lua 5.4. ?NAME is help.\", "
              "\"debugger\": true, "
              "\"supported_features\": [\"kernel subshells\", "
              "\"debugger\"], "
              "\"help_links\": %s}",
              help_links);
}

/* ---- usage: what the resource panel shows ---- */

/* kB behind `name` in /proc/meminfo, as bytes; 0: not there. */
static unsigned long long memory(const char *name) {
  char line[128];
  unsigned long long kb = 0;
  FILE *f = fopen("/proc/meminfo", "re");
  if (!f) return 0;
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, name, strlen(name)))
      sscanf(line + strlen(name), ": %llu", &kb);
  fclose(f);
  return kb * 1024;
}

static unsigned long long resident(void) {
  unsigned long long pages = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (!f) return 0;
  if (fscanf(f, "%*u %llu", &pages) != 1) pages = 0;
  fclose(f);
  return pages * (unsigned long long)sysconf(_SC_PAGESIZE);
}

/* Percent of one processor since the last call; control's thread alone. */
static double processor(void) {
  static int64_t then_us, used_then_us;
  struct rusage u;
  int64_t now = td_clock_now() / 1000, span = now - then_us;
  getrusage(RUSAGE_SELF, &u);
  int64_t used = ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
                 u.ru_utime.tv_usec + u.ru_stime.tv_usec;
  double percent = then_us && span > 0
                       ? 100.0 * (double)(used - used_then_us) / (double)span
                       : 0;
  then_us = now;
  used_then_us = used;
  return percent;
}

void td_jupyter_info_usage(td_str *out) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  unsigned long long total = memory("MemTotal"), left = memory("MemAvailable");
  td_str_add(out, "{\"status\": \"ok\", \"hostname\": ");
  td_str_json(out, host, strlen(host));
  td_str_addf(out,
              ", \"pid\": %d, \"kernel_cpu\": %.1f, \"kernel_memory\": %llu, "
              "\"cpu_count\": %ld, \"host_virtual_memory\": {\"total\": %llu, "
              "\"available\": %llu, \"percent\": %.1f, \"used\": %llu, "
              "\"free\": %llu}}",
              (int)getpid(), processor(), resident(),
              sysconf(_SC_NPROCESSORS_ONLN), total, left,
              total ? 100.0 * (double)(total - left) / (double)total : 0,
              total - left, memory("MemFree"));
}
