/* png.c - libFuzzer: no bytes may break the reader of PNG pictures.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/image.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const int channels[] = {0, 1, 3, 4};
  if (size > 1 << 16) return 0;
  decode(data, size, channels[size % 4], TD_UINT8);
  decode(data, size, channels[size / 4 % 4], TD_UINT16);
  return 0;
}
