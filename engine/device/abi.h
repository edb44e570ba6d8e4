/* abi.h - the structs that an op library and Tide both look into.
 *
 * A library is compiled with headers of its own day. Its record (td_library)
 * says how large each of these was there; one that differs is refused by name,
 * before anything of it is read. What keeps its size but changes its meaning
 * makes TD_ABI one more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ABI_H
#define TD_ABI_H

#include "engine/base/file_system.h"
#include "engine/device/device_factory.h"
#include "engine/device/kernel.h"
#include "engine/device/kernel_table.h"
#include "engine/device/variable.h"

TD_BEGIN

/* All that a row, a kernel, a shape function or a device of a library sees. */
#define TD_ABI_STRUCTS(X)                                                      \
  X(td_module) X(td_op_def) X(td_kernel_def) X(td_op) X(td_arg)                \
  X(td_attr_def) X(td_attr) X(td_func_attr) X(td_small) X(td_cost)             \
  X(td_node) X(td_edge) X(td_result) X(td_note) X(td_flow)                     \
  X(td_shape) X(td_shape_text) X(td_tensor) X(td_buffer) X(td_allocator)       \
  X(td_object) X(td_str) X(td_bytes)                                           \
  X(td_device) X(td_device_name) X(td_step) X(td_caller) X(td_cancel_hook)     \
  X(td_key)                                                                    \
  X(td_receiver) X(td_kernel_info) X(td_kernel) X(td_kernel_ctx)               \
  X(td_resource) X(td_lock) X(td_variable)                                     \
  X(td_file_system) X(td_device_options) X(td_device_factory)                   \
  X(td_settling) X(td_allocator_stats) X(td_allocator_block)                   \
  X(td_kernel_offer)

#define TD_ABI_ONE(type) +1
#define TD_ABI_SIZE(type) (uint32_t)sizeof(type),
enum { TD_ABI_COUNT = 0 TD_ABI_STRUCTS(TD_ABI_ONE) };
/* The sizes here: for `uint32_t sizes[TD_ABI_COUNT] = TD_ABI_SIZES`. */
#define TD_ABI_SIZES                                                           \
  { TD_ABI_STRUCTS(TD_ABI_SIZE) }

/* The first struct whose size is another here, and both sizes; NULL: none. */
const char *td_abi_differs(const uint32_t sizes[TD_ABI_COUNT], uint32_t *there,
                           uint32_t *here);

TD_END
#endif
