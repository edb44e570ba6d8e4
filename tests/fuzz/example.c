/* example.c - libFuzzer: no bytes may break the parsers of Examples and of
 * SequenceExamples. The first byte says where the first of two ends; what both
 * give hangs together and is the same on one thread and on two.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/kernels/examples.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static td_device *cpu;

static void must(bool holds) {
  if (!holds) __builtin_trap();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  must(td_ok(td_device_cpu_new("/job:localhost/replica:0/task:0", 0, 0, &cpu)));
  return 0;
}

typedef td_status *(*parse_fn)(td_device *cpu, int threads, td_tensor batch,
                               td_tensor *out);

static bool parse(parse_fn fn, const uint8_t *data, size_t size, int threads,
                  td_tensor *out) {
  size_t first = (size - 1) * data[0] / 255;
  const char *at[] = {(const char *)data + 1, (const char *)data + 1 + first};
  size_t len[] = {first, size - 1 - first};
  td_shape two = td_shape_vector(2);
  td_tensor batch;
  must(td_ok(td_tensor_strings(&two, at, len, &batch)));
  td_status *s = fn(cpu, threads, batch, out);
  must(td_ok(s) || td_status_code(s) == TD_INVALID_ARGUMENT);
  td_status_release(s);
  return td_ok(s);
}

/* `n` outputs, which `whole` looks at. */
static void try_both(parse_fn fn, bool (*whole)(const td_tensor *), int n,
                     const uint8_t *data, size_t size) {
  td_tensor a[EXAMPLE_OUTPUTS + SEQUENCE_OUTPUTS];
  td_tensor b[EXAMPLE_OUTPUTS + SEQUENCE_OUTPUTS];
  bool good = parse(fn, data, size, 1, a);
  must(parse(fn, data, size, 2, b) == good);
  for (int i = 0; good && i < n; i++) must(td_tensor_same(&a[i], &b[i]));
  must(!good || whole(a));
  for (int i = 0; good && i < n; i++) {
    td_tensor_release(&a[i]);
    td_tensor_release(&b[i]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  try_both(examples_parse, examples_whole, EXAMPLE_OUTPUTS, data, size);
  try_both(sequences_parse, sequences_whole, SEQUENCE_OUTPUTS, data, size);
  return 0;
}
