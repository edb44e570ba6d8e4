/* gif.c - libFuzzer: no bytes may break the reader of GIF pictures.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/image.h"

enum { LARGE = 1 << 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_tensor t;
  if (size > LARGE) return 0;
  td_status *s = td_image_decode_gif(data, size, size % 4 != 0, &t);
  if (td_ok(s))
    td_tensor_release(&t);
  else
    td_status_release(s);
  return 0;
}
