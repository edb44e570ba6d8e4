/* png.c - libFuzzer: no bytes may break the reader of PNG pictures.
 *
 * A changed chunk has a wrong checksum and would end there: checksums are set
 * right before the reader sees the bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <zlib.h>

#include "engine/base/mem.h"
#include "engine/io/image.h"

enum { LARGE = 1 << 12, HEAD = 8, FRAME = 12 /* length, kind, checksum */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size, int channels,
                   td_dtype dtype) {
  td_tensor t;
  td_status *s = td_image_decode_png(data, size, channels, dtype, &t);
  if (td_ok(s))
    td_tensor_release(&t);
  else
    td_status_release(s);
}

static void set_checksums(uint8_t *data, size_t size) {
  size_t at = HEAD;
  while (size >= at + FRAME) {
    const uint8_t *n = data + at;
    size_t len = (size_t)n[0] << 24 | (size_t)n[1] << 16 | (size_t)n[2] << 8 |
                 (size_t)n[3];
    if (len > size - at - FRAME) return;
    uLong sum = crc32(crc32(0, NULL, 0), data + at + 4, (uInt)(len + 4));
    for (int i = 0; i < 4; i++)
      data[at + 8 + len + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
    at += FRAME + len;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const int channels[] = {0, 1, 3, 4};
  if (size > LARGE) return 0;
  uint8_t *copy = td_malloc(size);
  if (!copy) return 0;
  memcpy(copy, data, size);
  set_checksums(copy, size);
  decode(copy, size, channels[size % 4], TD_UINT8);
  decode(copy, size, channels[size / 4 % 4], TD_UINT16);
  td_free(copy);
  return 0;
}
