/* device.h - the device under test: TIDE_DEVICE names its type, TIDE_LIBRARY the
 * op library that makes it where it is none of ours (make conformance).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_DEVICE_H
#define TD_TESTS_DEVICE_H

#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/run/library.h"

/* `otherwise` where the environment says nothing. */
static inline const char *device_type(const char *otherwise) {
  const char *type = getenv("TIDE_DEVICE");
  return type && *type ? type : otherwise;
}

/* Before the first runtime is made, which makes the devices of all libraries
 * that were loaded. The program exports its engine to the library (-rdynamic).
 */
__attribute__((constructor)) static void load_device(void) {
  const td_library *library;
  const char *path = getenv("TIDE_LIBRARY");
  if (!path || !*path) return;
  td_status *s = td_library_load(path, &library);
  if (!s) return;
  fprintf(stderr, "%s\n", td_status_message(s));
  exit(1);
}

#endif
