/* device_factory.c - the factories of the tree: CPU and test devices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/device_factory.h"

#include <stdlib.h>

enum { MAX_TESTS = 8 };

static td_status *count_cpus(int *out) {
  *out = TD_DEVICE_MAX_CPUS;
  return NULL;
}

static td_status *make_cpu(int index, const char *place,
                           const td_device_options *o, td_device **out) {
  return td_device_cpu_new(place, index, o->budget, out);
}

const td_device_factory td_device_factory_cpu = {
    .type = "CPU", .count = count_cpus, .make = make_cpu};

static td_status *count_tests(int *out) {
  const char *env = getenv("TIDE_TEST_DEVICES");
  int n = env ? atoi(env) : 0;
  *out = n < 0 ? 0 : n > MAX_TESTS ? MAX_TESTS : n;
  return NULL;
}

static td_status *make_test(int index, const char *place,
                            const td_device_options *o, td_device **out) {
  return td_device_test_new(place, index, o->seed, o->budget, out);
}

const td_device_factory td_device_factory_test = {
    .type = "TEST", .count = count_tests, .make = make_test};
