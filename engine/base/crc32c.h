/* crc32c.h - CRC-32C (Castagnoli), the check of records and checkpoints.
 *
 * By the processor's instruction where it has one; the same value everywhere.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CRC32C_H
#define TD_CRC32C_H

#include "engine/base/base.h"

TD_BEGIN

/* Of bytes that go on where those of `crc` ended; 0 before the first. */
uint32_t td_crc32c_add(uint32_t crc, const void *bytes, size_t n);

static inline uint32_t td_crc32c(const void *bytes, size_t n) {
  return td_crc32c_add(0, bytes, n);
}

/* What is stored beside data: the check of bytes that hold checks is weak, so
 * these are turned and moved. */
static inline uint32_t td_crc32c_mask(uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
static inline uint32_t td_crc32c_unmask(uint32_t masked) {
  uint32_t turned = masked - 0xa282ead8u;
  return turned >> 17 | turned << 15;
}

TD_END
#endif
