/* library.c - the record by which Tide knows what this plugin brings.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/library.h"
#include "kernels/cuda/cuda.h"

extern const td_module *const td_cuda_modules[]; /* make lists them */

static const td_device_factory *const devices[] = {&td_cuda_factory, NULL};

TD_BEGIN
extern const td_library td_library_record __asm__("td_library");
TD_END
const td_library td_library_record = {
    .abi = TD_ABI,
    .sizes = TD_ABI_SIZES,
    .name = "cuda",
    .modules = td_cuda_modules,
    .registry = td_modules,
    .devices = devices,
};
