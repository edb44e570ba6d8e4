/* bmp.c - libFuzzer: no bytes may break the reader of BMP pictures.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_tensor t;
  td_status *s = td_image_decode_bmp(data, size, 0, &t);
  if (td_ok(s))
    td_tensor_release(&t);
  else
    td_status_release(s);
  return 0;
}
