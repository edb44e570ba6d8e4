/* seeds.c - see seeds.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/seeds.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/rounds.h"

enum { MOST_SEEN = 512, MOST_LINE = 256 };

static volatile sig_atomic_t current = -1; /* the seed being run */

static void on_crash(int sig) {
  char line[40];
  (void)sig;
  int n = snprintf(line, sizeof line, "crashed at seed %d\n", (int)current);
  if (write(STDERR_FILENO, line, (size_t)n) < 0) _exit(1);
}

int name_seed(void **state) {
  (void)state;
  if (current >= 0) print_message("failed at seed %d\n", (int)current);
  current = -1;
  return 0;
}

/* The hash says something: it is another for each. */
static void run_twice(unsigned seed, uint64_t (*run)(unsigned seed)) {
  static uint64_t last;
  static unsigned last_seed;
  current = (int)seed;
  uint64_t once = run(seed), again = run(seed);
  if (once != again)
    fail_msg("seed %u: %016llx, then %016llx", seed, (unsigned long long)once,
             (unsigned long long)again);
  if (once == last && seed != last_seed)
    fail_msg("seeds %u and %u have one hash", last_seed, seed);
  last = once;
  last_seed = seed;
}

static int run_kept(const char *test, uint64_t (*run)(unsigned seed)) {
  char line[MOST_LINE], name[64];
  unsigned seed;
  int n = 0;
  FILE *f = fopen("tests/sim/seeds.txt", "r");
  if (!f) fail_msg("tests/sim/seeds.txt cannot be read");
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "%63s %u", name, &seed) == 2 && !strcmp(name, test)) {
      run_twice(seed, run);
      n++;
    }
  fclose(f);
  return n;
}

int run_seeds(const char *test, int few, int many,
              uint64_t (*run)(unsigned seed)) {
  int first = 0, count = rounds(few, many), kept = 0;
  const char *seeds = getenv("TIDE_SEEDS");
  if (seeds && strchr(seeds, ':')) first = atoi(seeds);
  if (seeds) count = atoi(strchr(seeds, ':') ? strchr(seeds, ':') + 1 : seeds);
  struct sigaction crash = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND};
  sigaction(SIGSEGV, &crash, NULL);
  sigaction(SIGABRT, &crash, NULL);
  if (!seeds) kept = run_kept(test, run);
  for (int i = first; i < first + count; i++) run_twice((unsigned)i, run);
  current = -1;
  return count + kept;
}

/* ---- what was seen ------------------------------------------------------- */

typedef struct seen {
  const char *state, *event; /* state NULL: no cell */
  int64_t times;
} seen;

static seen all[MOST_SEEN];
static size_t n_all;

static bool same(const char *a, const char *b) {
  return a == b || (a && b && !strcmp(a, b));
}

static seen *find(const char *state, const char *event) {
  for (size_t i = 0; i < n_all; i++)
    if (same(all[i].event, event) && same(all[i].state, state)) return &all[i];
  return NULL;
}

static void count(const char *state, const char *event) {
  seen *s = find(state, event);
  if (!s && n_all == MOST_SEEN) fail_msg("more than %d kinds", MOST_SEEN);
  if (!s) *(s = &all[n_all++]) = (seen){state, event, 0};
  s->times++;
}

void sometimes(const char *what) {
  count(NULL, what);
}
void cell(const char *state, const char *event) {
  count(state, event);
}

int64_t cell_times(const char *state, const char *event) {
  const seen *s = find(state, event);
  return s ? s->times : 0;
}

int64_t times(const char *what) {
  return cell_times(NULL, what);
}

void forget_seen(void) {
  n_all = 0;
}

static int by_name(const void *a, const void *b) {
  const seen *x = a, *y = b;
  int order = strcmp(x->state ? x->state : "", y->state ? y->state : "");
  return order ? order : strcmp(x->event, y->event);
}

void check_seen(const char *const *what, size_t n, const cell_name *cells,
                size_t n_cells) {
  int missing = 0;
  qsort(all, n_all, sizeof *all, by_name);
  for (size_t i = 0; i < n_all; i++)
    print_message("%s%s%s: %lld\n", all[i].state ? all[i].state : "",
                  all[i].state ? ", " : "", all[i].event,
                  (long long)all[i].times);
  if (getenv("TIDE_SEEDS") || SANITIZED) return;
  for (size_t i = 0; i < n; i++)
    if (!times(what[i])) {
      print_message("never: %s\n", what[i]);
      missing++;
    }
  for (size_t i = 0; i < n_cells; i++)
    if (!cell_times(cells[i].state, cells[i].event)) {
      print_message("never: %s, %s\n", cells[i].state, cells[i].event);
      missing++;
    }
  if (missing > 0) fail_msg("%d things never happened", missing);
}
