/* example.c - libFuzzer: no bytes may break the parser of Examples. The first
 * byte says where the first of two Examples ends; what both give hangs together
 * and is the same on one thread and on two.
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

static bool parse(const uint8_t *data, size_t size, int threads,
                  td_tensor out[EXAMPLE_OUTPUTS]) {
  size_t first = (size - 1) * data[0] / 255;
  const char *at[] = {(const char *)data + 1, (const char *)data + 1 + first};
  size_t len[] = {first, size - 1 - first};
  td_shape two = td_shape_vector(2);
  td_tensor batch;
  must(td_ok(td_tensor_strings(&two, at, len, &batch)));
  td_status *s = examples_parse(cpu, threads, batch, out);
  must(td_ok(s) || td_status_code(s) == TD_INVALID_ARGUMENT);
  td_status_release(s);
  return td_ok(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_tensor a[EXAMPLE_OUTPUTS], b[EXAMPLE_OUTPUTS];
  if (size == 0) return 0;
  bool good = parse(data, size, 1, a);
  must(parse(data, size, 2, b) == good);
  for (int i = 0; good && i < EXAMPLE_OUTPUTS; i++)
    must(td_tensor_same(&a[i], &b[i]));
  must(!good || examples_whole(a));
  for (int i = 0; good && i < EXAMPLE_OUTPUTS; i++) {
    td_tensor_release(&a[i]);
    td_tensor_release(&b[i]);
  }
  return 0;
}
