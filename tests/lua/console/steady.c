/* steady.c - after warm-up a training step asks the system for no memory.
 *
 * A multi-layer perceptron is trained by a session's loop on a thread of its
 * own. Every hundred steps the page faults of every thread but this one (which
 * only looks) are counted, and what the process has mapped: soon neither grows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "tests/check.h"

#include "tests/lua/console/eval.h"

enum { STEPS = 100, QUIET = 5 };
#if defined(__SANITIZE_ADDRESS__) /* keeps no freed memory */
enum { CHECKED = false, MOST_STEPS = 300 };
#else
enum { CHECKED = true, MOST_STEPS = 20000 };
#endif

static const char model[] =
    "local td = require 'tide'\n"
    "td.seed(1)\n"
    "local x = td.variable(td.random_uniform{100, 784}, 'x',"
    " {trainable = false})\n"
    "local y = td.fill({100}, 3):cast('int64')\n"
    "local function weights(n, m, name)\n"
    "  return td.variable(td.truncated_normal{n, m, stddev = 0.05}, name)\n"
    "end\n"
    "local W1, b1 = weights(784, 128, 'W1'), td.variable(td.zeros{128}, 'b1')\n"
    "local W2, b2 = weights(128, 10, 'W2'), td.variable(td.zeros{10}, 'b2')\n"
    "local logits = td.relu(x:matmul(W1) + b1):matmul(W2) + b2\n"
    "local loss = td.nn.sparse_softmax_cross_entropy(logits, y):mean()\n"
    "local train = td.train.adam(1e-3):minimize(loss)\n"
    "sess = td.session{threads = %d}\n"
    "sess:init()\n"
    "loop = sess:loop({loss, train}, {threads = 1})\n";

/* ---- counting ---- */

/* What the system counts for one thread. */
static long faults_of(const char *tid) {
  char path[64], line[1024];
  snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", tid);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  size_t n = fread(line, 1, sizeof line - 1, f);
  fclose(f);
  line[n] = 0;
  long minor = 0;
  char *at = strrchr(line, ')'); /* the name may hold anything */
  if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %ld", &minor) != 1)
    return 0;
  return minor;
}

/* Of all threads but the calling one. */
static long faults(void) {
  long sum = 0;
  char own[24];
  snprintf(own, sizeof own, "%d", (int)gettid());
  DIR *d = opendir("/proc/self/task");
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));)
    if (e->d_name[0] != '.' && strcmp(e->d_name, own))
      sum += faults_of(e->d_name);
  closedir(d);
  return sum;
}

static long mapped_pages(void) {
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  assert_non_null(f);
  assert_int_equal(fscanf(f, "%ld", &pages), 1);
  fclose(f);
  return pages;
}

typedef struct usage {
  long faults, pages;
} usage;

static usage look(void) {
  return (usage){.faults = faults(), .pages = mapped_pages()};
}

/* ---- the loop ---- */

static long eval(td_host *h, const char *code) {
  td_str text;
  td_str_init(&text);
  if (eval_cell(h, code, &text) != TD_HOST_OK) fail_msg("%s", td_str_c(&text));
  long v = atol(eval_result);
  td_str_deinit(&text);
  return v;
}

static long until_step(td_host *h, long n) {
  struct timespec t = {.tv_nsec = 1000000};
  long at;
  while ((at = eval(h, "loop:steps()")) < n) nanosleep(&t, NULL);
  return at;
}

/* Windows of STEPS steps until QUIET in a row added nothing. A thread's first
 * turn at the heavy nodes is warm-up too, and comes when the scheduler likes.
 */
static void train(int threads) {
  char code[sizeof model + 16], *why;
  td_host *h = td_host_new(&eval_frontend, &why);
  if (!h) fail_msg("%s", why);
  snprintf(code, sizeof code, model, threads);
  eval(h, code);
  long at = until_step(h, STEPS), start = at, faulted = 0, total = 0;
  usage was = look();
  int quiet = 0;
  while (quiet < QUIET && at < MOST_STEPS) {
    at = until_step(h, at + STEPS);
    usage now = look();
    bool same = now.faults == was.faults && now.pages == was.pages;
    quiet = same ? quiet + 1 : 0;
    if (!same) start = at;
    faulted += !same;
    total += now.faults - was.faults;
    was = now;
  }
  print_message("%d threads: steps %ld to %ld without a page fault or new "
                "mapping; before, %ld faults in %ld windows of %d steps\n",
                threads, start, at, total, faulted, STEPS);
  if (CHECKED) assert_int_equal(quiet, QUIET);
  eval(h, "loop:cancel() pcall(loop.wait, loop) sess:close()");
  td_host_free(h);
}

static void test_steady(void **state) {
  (void)state;
  train(1);
  train(2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steady)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
