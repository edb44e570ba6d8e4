/* table.c - which ops have a kernel on a card, and why others have none.
 *
 *   TIDE_LIBRARY=build/cuda-fake/libtide_cuda.so build/tests/cuda/table [all]
 *
 * Every op with a kernel on the CPU has one on a card, or one that is every
 * device's, or lives in host memory, or is in absent.def, with the reason. One
 * that is there and has a kernel by now is an error too. `all` prints the table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_rows.h"
#include "engine/base/map.h"
#include "tests/device.h"

#define TEXT "texts are in the host's memory"
#define CODED "files of pictures and sounds are read and written by the host"
#define SAMPLES "draws until enough are unique, one after the other"
#define SEARCH "each step of the search follows from the one before it"
#define SHUFFLES "a fixed order of exchanges, one after the other"
#define REJECTS "not written: a number takes as many draws as it takes"
#define SPECTRUM "not written: no transform for cards, no door to cuFFT"
#define MATRICES "not written: decompositions wait for a door to cuSOLVER"
#define COUNTER "the host must know whether the limit is reached"
#define UNWRITTEN "not written"

static const struct {
  const char *op, *why;
} absent[] = {
#define ABSENT(op, why) {#op, why},
#include "tests/cuda/absent.def"
#undef ABSENT
    {NULL, NULL},
};

typedef struct coverage {
  const td_op *op;
  char cpu[256], cuda[256]; /* types, by row */
  bool every;               /* a row that is every device's */
} coverage;

static td_map by_op;
static bool print_all;

static coverage *of(const td_kernel_def *d) {
  coverage *c = td_map_get(&by_op, d->op);
  if (c) return c;
  c = calloc(1, sizeof *c);
  assert_non_null(c);
  c->op = td_op_find(d->op);
  assert_true(td_map_put(&by_op, d->op, c));
  return c;
}

static void add(char *to, size_t room, const char *types) {
  size_t n = strlen(to);
  snprintf(to + n, room - n, "%s%s", n ? "; " : "", types ? types : "any");
}

static void read_rows(const char *device) {
  const td_kernel_def **rows;
  size_t n;
  OK(td_kernel_list(device, &rows, &n));
  for (size_t i = 0; i < n; i++) {
    coverage *c = of(rows[i]);
    if (strcmp(rows[i]->device, "CUDA") == 0)
      add(c->cuda, sizeof c->cuda, rows[i]->types);
    else if (strcmp(device, "CPU") == 0)
      add(c->cpu, sizeof c->cpu, rows[i]->types);
    c->every |= strcmp(device, "CUDA") == 0 && strcmp(rows[i]->device, "CPU") == 0;
  }
  td_free(rows);
}

/* All that it takes and gives is the host's, on any device. */
static bool is_of_host(const td_op *op) {
  for (int i = 0; i < op->n_in; i++)
    if (!op->in[i].host && op->in[i].type != TD_STRING &&
        op->in[i].type != TD_RESOURCE && op->in[i].type != TD_VARIANT)
      return false;
  for (int i = 0; i < op->n_out; i++)
    if (!op->out[i].host && op->out[i].type != TD_STRING &&
        op->out[i].type != TD_RESOURCE && op->out[i].type != TD_VARIANT)
      return false;
  return true;
}

static const char *why_absent(const char *op) {
  for (size_t i = 0; absent[i].op; i++)
    if (strcmp(absent[i].op, op) == 0) return absent[i].why;
  return NULL;
}

static int compare(const void *a, const void *b) {
  return strcmp((*(coverage *const *)a)->op->type,
                (*(coverage *const *)b)->op->type);
}

static int check(const coverage *c, int count[4]) {
  const char *why = why_absent(c->op->type), *is = NULL;
  int wrong = 0;
  if (*c->cuda)
    is = c->cuda, count[0]++;
  else if (c->every)
    is = "every device's", count[1]++;
  else if (is_of_host(c->op))
    is = "in host memory", count[2]++;
  else
    count[3]++;
  if (is && why) {
    print_error("%s is in absent.def (%s), and is there: %s\n", c->op->type,
                why, is);
    wrong = 1;
  } else if (!is && !why) {
    print_error("%s has no CUDA kernel, and absent.def does not say why\n",
                c->op->type);
    wrong = 1;
  }
  if (print_all)
    printf("%-36s %-40.40s %s%s\n", c->op->type, c->cpu, is ? is : "- ",
           is ? "" : why ? why : "?");
  return wrong;
}

static void test_table(void **state) {
  const td_map_entry *e;
  int wrong = 0, count[4] = {0};
  (void)state;
  read_rows("CPU");
  read_rows("CUDA");
  coverage **all = calloc(by_op.count, sizeof *all);
  size_t n = 0;
  assert_non_null(all);
  for (size_t i = 0; td_map_next(&by_op, &i, &e);)
    if (*((coverage *)e->value)->cpu) all[n++] = e->value;
  qsort(all, n, sizeof *all, compare);
  for (size_t i = 0; i < n; i++) wrong += check(all[i], count);
  for (size_t i = 0; absent[i].op; i++)
    if (!td_map_get(&by_op, absent[i].op)) {
      print_error("absent.def speaks of %s, which there is not\n",
                  absent[i].op);
      wrong++;
    }
  free(all);
  printf("%d ops on a card, %d on every device, %d in host memory, %d absent\n",
         count[0], count[1], count[2], count[3]);
  assert_int_equal(wrong, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
  print_all = argc > 1 && strcmp(argv[1], "all") == 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
