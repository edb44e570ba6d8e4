/* device_factory.h - where the devices of one type come from.
 *
 * A runtime makes its devices by factories: those below, and those of the op
 * libraries that were loaded (engine/run/library.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_FACTORY_H
#define TD_DEVICE_FACTORY_H

#include "engine/base/str.h"
#include "engine/device/device.h"

TD_BEGIN

/* What a runtime gives to those whom it makes. */
typedef struct td_device_options {
  struct td_alloc_budget *budget; /* of all memory of the runtime that is the
                                     host's; NULL: the process's */
  uint64_t seed; /* of what a device draws by chance */
} td_device_options;

typedef struct td_device_factory {
  const char *type; /* "TEST", as in "/device:TEST:0" */
  /* How many there are on this machine; a runtime makes each once. */
  td_status *(*count)(int *out);
  /* `index` is the number in the device's name, `place` what comes before. Both
   * and `o` are borrowed during the call. Caller owns the result. */
  td_status *(*make)(int index, const char *place, const td_device_options *o,
                     td_device **out);
  /* (optional) What can be told of them without using one, for `tide doctor`: a
   * line for each, "name: text"; of none, why there are none. */
  void (*tell)(td_str *out);
} td_device_factory;

enum { TD_DEVICE_MAX_CPUS = 64 };

/* Any of the first TD_DEVICE_MAX_CPUS is made on demand. */
extern const td_device_factory td_device_factory_cpu;
/* As many as TIDE_TEST_DEVICES says. */
extern const td_device_factory td_device_factory_test;

TD_END
#endif
