/* image_bmp.c - Windows bitmaps: rows of BGR, the lowest first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/io/image.h"

/* Offsets in the head. */
enum {
  AT_PIXELS = 10,
  AT_WIDTH = 18,
  AT_HEIGHT = 22,
  AT_BITS = 28,
  AT_COMPRESSION = 30,
  HEAD = 54,
};

typedef struct bmp {
  const uint8_t *pixels;
  int64_t width, height, channels;
  int64_t stride; /* bytes of a row, a multiple of 4 */
  bool top_down;
} bmp;

static td_status *bad(const char *why) {
  return td_error(TD_INVALID_ARGUMENT, "not a readable BMP picture: %s", why);
}

static uint32_t word(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
         (uint32_t)at[3] << 24;
}

static td_status *read_head(const uint8_t *b, size_t len, bmp *out) {
  if (len < HEAD) return bad("it is shorter than its head");
  if (b[0] != 'B' || b[1] != 'M') return bad("it does not begin with \"BM\"");
  uint32_t at = word(b + AT_PIXELS), packing = word(b + AT_COMPRESSION);
  int bits = b[AT_BITS] | b[AT_BITS + 1] << 8;
  out->width = (int32_t)word(b + AT_WIDTH);
  out->height = (int32_t)word(b + AT_HEIGHT);
  out->top_down = out->height < 0;
  if (out->top_down) out->height = -out->height;
  if (bits != 8 && bits != 24 && bits != 32)
    return td_error(TD_INVALID_ARGUMENT,
                    "BMP pictures of 8, 24 or 32 bits a pixel are read, not "
                    "of %d",
                    bits);
  if (packing != 0 && !(packing == 3 && bits == 32)) /* 3: masks */
    return td_error(TD_UNIMPLEMENTED,
                    "compressed BMP pictures (kind %u) are not read", packing);
  if (out->width < 1 || out->width > TD_IMAGE_MAX) return bad("its width");
  if (out->height < 1 || out->height > TD_IMAGE_MAX) return bad("its height");
  out->channels = bits / 8;
  out->stride = (out->width * out->channels + 3) / 4 * 4;
  if (at < HEAD || at > len) return bad("where its pixels begin");
  /* The last row may lack its padding. */
  int64_t room = (int64_t)(len - at), row = out->width * out->channels;
  if (room < row || (room - row) / out->stride < out->height - 1)
    return bad("it is shorter than its pixels");
  out->pixels = b + at;
  return NULL;
}

static void copy_row(const uint8_t *from, int64_t width, int64_t channels,
                     uint8_t *to) {
  if (channels == 1) {
    memcpy(to, from, (size_t)width);
    return;
  }
  for (int64_t i = 0; i < width; i++, from += channels, to += channels) {
    to[0] = from[2];
    to[1] = from[1];
    to[2] = from[0];
    if (channels == 4) to[3] = from[3];
  }
}

td_status *td_image_decode_bmp(const void *bytes, size_t len, int channels,
                               td_tensor *out) {
  bmp b = {0};
  TD_TRY(read_head(bytes, len, &b));
  if (channels != 0 && channels != b.channels)
    return td_error(TD_INVALID_ARGUMENT,
                    "channels is %d, but the BMP picture has %lld", channels,
                    (long long)b.channels);
  TD_TRY(td_image_new("BMP", TD_UINT8, b.height, b.width, b.channels, out));
  int64_t row = b.width * b.channels;
  for (int64_t y = 0; y < b.height; y++) {
    int64_t from = b.top_down ? y : b.height - 1 - y;
    copy_row(b.pixels + from * b.stride, b.width, b.channels,
             (uint8_t *)out->data + y * row);
  }
  return NULL;
}
