/* image.c - what a picture is, and room for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/image.h"

#include <string.h>

td_image_format td_image_sniff(const void *bytes, size_t len) {
  static const struct {
    const char *head;
    size_t len;
    td_image_format format;
  } rows[] = {
      {"\x89PNG\r\n\x1a\n", 8, TD_IMAGE_PNG},
      {"\xff\xd8\xff", 3, TD_IMAGE_JPEG},
      {"BM", 2, TD_IMAGE_BMP},
      {"GIF8", 4, TD_IMAGE_GIF},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    if (len >= rows[i].len && memcmp(bytes, rows[i].head, rows[i].len) == 0)
      return rows[i].format;
  return TD_IMAGE_UNKNOWN;
}

const char *td_image_format_name(td_image_format f) {
  static const char *const names[] = {"unknown", "PNG", "JPEG", "BMP", "GIF"};
  return (unsigned)f < TD_COUNT(names) ? names[f] : names[0];
}

td_status *td_image_new(const char *what, td_dtype dtype, int64_t height,
                        int64_t width, int64_t channels, td_tensor *out) {
  if (height < 1 || width < 1 || channels < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "the %s picture is empty: %lld by %lld pixels, %lld "
                    "channels",
                    what, (long long)height, (long long)width,
                    (long long)channels);
  if (width > TD_IMAGE_MAX / channels ||
      height > TD_IMAGE_MAX / (channels * width))
    return td_error(TD_INVALID_ARGUMENT,
                    "the %s picture is too large: %lld by %lld pixels, %lld "
                    "channels; at most %d elements are read",
                    what, (long long)height, (long long)width,
                    (long long)channels, (int)TD_IMAGE_MAX);
  td_shape shape = td_shape_of(3, (int64_t[]){height, width, channels});
  return td_tensor_new(NULL, dtype, &shape, out);
}
