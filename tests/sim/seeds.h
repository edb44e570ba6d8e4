/* seeds.h - runs the seeds of a test, and counts what they have seen.
 *
 * Each seed runs twice, and both runs must give one hash: that of the events,
 * and of all that was seen. First come the seeds that once failed:
 * tests/sim/seeds.txt has a line for each, the name of the test, the seed and
 * what it found. A failing or crashing seed is named.
 *
 * TIDE_SEEDS=n or first:n chooses seeds; those that are kept do not run then,
 * and nobody asks whether all was seen.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_SEEDS_H
#define TEST_SIM_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `few` seeds in make test, `many` in make soak. Fails the cmocka test when
 * runs differ. How many ran. */
int run_seeds(const char *test, int few, int many,
              uint64_t (*run)(unsigned seed));
/* For a cmocka test's teardown: names the seed that was being run. */
int name_seed(void **state);

/* ---- what was seen ------------------------------------------------------- */

/* Counts something rare. `what` must live as long as the process. */
void sometimes(const char *what);
/* Counts a cell of a state table; the same. */
void cell(const char *state, const char *event);
int64_t times(const char *what);
int64_t cell_times(const char *state, const char *event);

typedef struct cell_name {
  const char *state, *event;
} cell_name;

/* Prints all counts, and fails the cmocka test, naming what was never seen of
 * these; not where TIDE_SEEDS chose, or a sanitizer lets few seeds run. */
void check_seen(const char *const *what, size_t n, const cell_name *cells,
                size_t n_cells);
void forget_seen(void);

#endif
