/* jpeg.c - libFuzzer: no bytes may break the reader of JPEG pictures: whole,
 * made smaller, recovered, a window.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size, const td_jpeg_reading *o) {
  td_tensor t;
  td_status *s = td_image_decode_jpeg(data, size, o, &t);
  if (td_ok(s))
    td_tensor_release(&t);
  else
    td_status_release(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_jpeg_reading o = {.ratio = 1 << size % 4, .fast_dct = true};
  td_jpeg_reading window = {
      .ratio = 1, .channels = 1, .crop = true, .height = 2, .width = 2};
  int64_t shape[3];
  if (size > 1 << 16) return 0;
  td_status *s = td_image_jpeg_shape(data, size, shape);
  bool small = td_ok(s) && shape[0] * shape[1] <= 1 << 20; /* for speed */
  td_status_release(s);
  if (!small) return 0;
  decode(data, size, &o);
  o.fancy_upscaling = o.recover = true;
  o.channels = 3;
  decode(data, size, &o);
  decode(data, size, &window);
  return 0;
}
