/* metrics.c - the numbers of a worker, as text.
 *
 * They are copied inside of the turn and written outside of it. Names are of
 * one manner: tide_THING_UNIT, with _total behind what only grows; those that
 * begin with process_ are what every exporter of Prometheus has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/version.h"
#include "engine/remote/transfer_impl.h"
#include "engine/remote/worker_impl.h"

enum { DEVICES_MOST = 256, NAME_MOST = 128 };

typedef struct device_numbers {
  char name[NAME_MOST];
  td_allocator_stats memory;
} device_numbers;

typedef struct numbers {
  char task[NAME_MOST];
  td_remote_meter meter;
  td_remote_traffic values;
  uint64_t steps;
  size_t sessions, running, rolls, early_bytes;
  size_t peers[TD_HEALTH_STATES], waiting, waiting_bytes;
  td_piece_cache_stats pieces;
  td_pool_stats pool;
  int n_devices;
  device_numbers device[DEVICES_MOST];
} numbers;

/* ---- copying ------------------------------------------------------------- */

static void copy_sessions(const td_remote *r, numbers *n) {
  n->sessions = r->hosted.len;
  for (size_t i = 0; i < r->hosted.len; i++) {
    const td_hosted *h = r->hosted.at[i];
    n->running += (size_t)h->n_steps;
    n->rolls += h->rolls.len;
    n->early_bytes += h->early_bytes;
  }
}

static void copy_peers(const td_remote *r, numbers *n) {
  for (size_t i = 0; i < r->peers.len; i++) {
    const td_peer *p = r->peers.at[i];
    n->peers[p->health.state]++;
    n->waiting += p->backlog.len;
    n->waiting_bytes += p->backlog_bytes;
  }
}

static void copy_devices(const td_remote *r, numbers *n) {
  td_device **all;
  int count;
  td_status *s = td_runtime_devices(r->runtime, r->cpu_devices, &all, &count);
  if (!td_ok(s)) {
    td_status_release(s);
    return;
  }
  for (int i = 0; i < count && n->n_devices < DEVICES_MOST; i++) {
    device_numbers *d = &n->device[n->n_devices++];
    snprintf(d->name, sizeof d->name, "%s", all[i]->name);
    d->memory = td_allocator_read_stats(all[i]->memory);
  }
  td_runtime_drop_devices(all, count);
}

static void copy(td_remote *r, numbers *n) {
  memset(n, 0, sizeof *n);
  td_remote_enter(r);
  snprintf(n->task, sizeof n->task, "%s", td_runtime_place(r->runtime));
  n->meter = r->meter;
  n->steps = r->steps;
  n->values = r->transfers->traffic;
  copy_sessions(r, n);
  copy_peers(r, n);
  copy_devices(r, n);
  if (r->pieces) n->pieces = td_piece_cache_read_stats(r->pieces);
  td_remote_leave(r);
  n->pool = td_pool_read_stats();
}

/* ---- writing ------------------------------------------------------------- */

static void family(td_str *out, const char *name, const char *type,
                   const char *help) {
  td_str_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(td_str *out, const char *name, const char *type,
                const char *help, double value) {
  family(out, name, type, help);
  td_str_addf(out, "%s %.17g\n", name, value);
}

/* A label's value, in quotes. */
static void add_label(td_str *out, const char *key, const char *value) {
  td_str_addf(out, "%s=\"", key);
  for (const char *c = value; *c; c++) {
    if (*c == '\n')
      td_str_add(out, "\\n");
    else if (*c == '\\' || *c == '"')
      td_str_addf(out, "\\%c", *c);
    else
      td_str_addn(out, c, 1);
  }
  td_str_add(out, "\"");
}

static void labelled(td_str *out, const char *name, const char *key,
                     const char *label, double value) {
  td_str_addf(out, "%s{", name);
  add_label(out, key, label);
  td_str_addf(out, "} %.17g\n", value);
}

static void add_build(td_str *out, const numbers *n) {
  family(out, "tide_build_info", "gauge", "Version, instruction set and task.");
  td_str_add(out, "tide_build_info{");
  add_label(out, "version", TD_VERSION);
  td_str_add(out, ",");
  add_label(out, "isa", td_isa_name(td_cpu_isa()));
  td_str_add(out, ",");
  add_label(out, "task", n->task);
  td_str_add(out, "} 1\n");
}

/* Buckets are cumulative, the last one is all of them. */
static void add_steps(td_str *out, const numbers *n) {
  const td_remote_meter *m = &n->meter;
  uint64_t sum = 0;
  one(out, "tide_steps_total", "counter", "Steps that ended.",
      (double)n->steps);
  one(out, "tide_steps_failed_total", "counter",
      "Of these, steps that ended in an error or were cancelled.",
      (double)m->failed);
  family(out, "tide_step_seconds", "histogram",
         "From a step's message to its answer.");
  for (int i = 0; i <= TD_METER_BUCKETS; i++) {
    sum += m->took[i];
    td_str_add(out, "tide_step_seconds_bucket{le=\"");
    if (i < TD_METER_BUCKETS)
      td_str_addf(out, "%g", td_meter_edges[i]);
    else
      td_str_add(out, "+Inf");
    td_str_addf(out, "\"} %llu\n", (unsigned long long)sum);
  }
  td_str_addf(out, "tide_step_seconds_sum %.17g\n", m->seconds);
  td_str_addf(out, "tide_step_seconds_count %llu\n", (unsigned long long)sum);
  one(out, "tide_steps_running", "gauge", "Steps under way.",
      (double)n->running);
}

static void add_sessions(td_str *out, const numbers *n) {
  one(out, "tide_sessions", "gauge", "Sessions of others that are open here.",
      (double)n->sessions);
  one(out, "tide_registrations", "gauge", "Signatures that they keep here.",
      (double)n->rolls);
  one(out, "tide_early_bytes", "gauge",
      "Values that wait for their step to begin.", (double)n->early_bytes);
  one(out, "tide_graph_cache_bytes", "gauge", "Pieces of graphs that are kept.",
      (double)n->pieces.held);
  family(out, "tide_graph_pieces_total", "counter",
         "Pieces of graphs, by whether they were here.");
  labelled(out, "tide_graph_pieces_total", "cache", "hit",
           (double)n->pieces.hits);
  labelled(out, "tide_graph_pieces_total", "cache", "miss",
           (double)n->pieces.misses);
}

static void add_peers(td_str *out, const numbers *n) {
  family(out, "tide_peers", "gauge", "Other processes, by state.");
  for (int i = 0; i < TD_HEALTH_STATES; i++)
    labelled(out, "tide_peers", "state", td_health_name((td_health_state)i),
             (double)n->peers[i]);
  one(out, "tide_received_bytes_total", "counter", "Bytes of messages.",
      (double)n->meter.bytes_in);
  one(out, "tide_sent_bytes_total", "counter", "Bytes of messages.",
      (double)n->meter.bytes_out);
  one(out, "tide_received_messages_total", "counter", "Messages.",
      (double)n->meter.messages_in);
  one(out, "tide_sent_messages_total", "counter", "Messages.",
      (double)n->meter.messages_out);
  one(out, "tide_waiting_messages", "gauge",
      "Messages that wait for a connection.", (double)n->waiting);
  one(out, "tide_waiting_bytes", "gauge", "Bytes of these.",
      (double)n->waiting_bytes);
}

static void add_values(td_str *out, const numbers *n) {
  const td_remote_traffic *t = &n->values;
  static const char name[] = "tide_values_total";
  family(out, name, "counter", "Values that came and went, by how.");
  labelled(out, name, "how", "eager", (double)t->eager);
  labelled(out, name, "how", "offered", (double)t->offered);
  labelled(out, name, "how", "pulled", (double)t->pulled);
  labelled(out, name, "how", "shared", (double)t->shared);
  labelled(out, name, "how", "unshared", (double)t->unshared);
  labelled(out, name, "how", "dropped", (double)t->dropped);
  labelled(out, name, "how", "narrowed", (double)t->narrowed);
  labelled(out, name, "how", "slowed", (double)t->slowed);
  one(out, "tide_values_copied_bytes_total", "counter",
      "Bytes copied into the memory of values that came.", (double)t->copied);
}

static void add_memory(td_str *out, const numbers *n) {
  static const char *const names[] = {"tide_device_memory_bytes",
                                      "tide_device_memory_peak_bytes",
                                      "tide_device_memory_limit_bytes"};
  static const char *const helps[] = {
      "Tensors in use.", "The most there were.",
      "What tensors may take; devices of a kind share it."};
  for (int k = 0; k < 3; k++) {
    family(out, names[k], "gauge", helps[k]);
    for (int i = 0; i < n->n_devices; i++) {
      const td_allocator_stats *s = &n->device[i].memory;
      const size_t values[] = {s->in_use, s->peak, s->limit};
      labelled(out, names[k], "device", n->device[i].name, (double)values[k]);
    }
  }
}

static void add_pool(td_str *out, const numbers *n) {
  one(out, "tide_pool_threads", "gauge", "Threads that kernels may keep busy.",
      td_pool_size());
  one(out, "tide_pool_tasks_total", "counter", "Tasks given to these threads.",
      (double)n->pool.tasks);
  one(out, "tide_pool_wakeups_total", "counter",
      "How often one of them was woken.", (double)n->pool.wakeups);
  one(out, "tide_pool_wanted", "gauge", "1 while something waits for a thread.",
      td_pool_wanted());
}

/* ---- the process --------------------------------------------------------- */

static int count_files(void) {
  DIR *d = opendir("/proc/self/fd");
  int n = 0;
  if (!d) return 0;
  while (readdir(d)) n++;
  closedir(d);
  return n > 3 ? n - 3 : 0; /* . and .. and the folder itself */
}

/* Fields of /proc/self/stat behind the name: threads, start, sizes. */
static void add_stat(td_str *out) {
  char text[1024];
  unsigned long long start = 0, virtual = 0;
  long long threads = 0, resident = 0;
  FILE *f = fopen("/proc/self/stat", "re");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = '\0';
  const char *at = strrchr(text, ')');
  if (!at || sscanf(at + 1,
                    " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                    "%*d %*d %*d %lld %*d %llu %llu %lld",
                    &threads, &start, &virtual, &resident) != 4)
    return;
  struct timespec up;
  clock_gettime(CLOCK_BOOTTIME, &up);
  double since = (double)up.tv_sec + (double)up.tv_nsec * 1e-9 -
                 (double)start / (double)sysconf(_SC_CLK_TCK);
  one(out, "process_threads", "gauge", "Threads.", (double)threads);
  one(out, "process_virtual_memory_bytes", "gauge", "Size of its memory.",
      (double)virtual);
  one(out, "process_resident_memory_bytes", "gauge", "Of this, in RAM.",
      (double)resident * (double)sysconf(_SC_PAGESIZE));
  one(out, "process_start_time_seconds", "gauge", "When it began, since 1970.",
      (double)td_clock_wall_us() * 1e-6 - since);
}

static void add_process(td_str *out) {
  struct rusage u;
  struct rlimit files;
  if (getrusage(RUSAGE_SELF, &u) == 0)
    one(out, "process_cpu_seconds_total", "counter", "Time of processors.",
        (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
            (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6);
  add_stat(out);
  one(out, "process_open_fds", "gauge", "Open files.", count_files());
  if (getrlimit(RLIMIT_NOFILE, &files) == 0)
    one(out, "process_max_fds", "gauge", "How many may be.",
        (double)files.rlim_cur);
}

void td_metrics_text(td_remote *r, td_str *out) {
  numbers *n = td_malloc(sizeof *n);
  if (!n) {
    out->failed = true;
    return;
  }
  copy(r, n);
  add_build(out, n);
  add_steps(out, n);
  add_sessions(out, n);
  add_peers(out, n);
  add_values(out, n);
  add_memory(out, n);
  add_pool(out, n);
  add_process(out);
  td_free(n);
}
