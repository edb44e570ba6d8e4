/* abi.c - compares the sizes in a library's record with those here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/abi.h"

static const struct {
  const char *name;
  uint32_t size;
} structs[] = {
#define TD_ABI_NAMED(type) {#type, (uint32_t)sizeof(type)},
    TD_ABI_STRUCTS(TD_ABI_NAMED)
#undef TD_ABI_NAMED
};

const char *td_abi_differs(const uint32_t sizes[TD_ABI_COUNT], uint32_t *there,
                           uint32_t *here) {
  for (int i = 0; i < TD_ABI_COUNT; i++) {
    if (sizes[i] == structs[i].size) continue;
    *there = sizes[i];
    *here = structs[i].size;
    return structs[i].name;
  }
  return NULL;
}
