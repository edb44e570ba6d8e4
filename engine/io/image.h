/* image.h - pictures in png, jpeg, bmp and gif, to and from tensors {height,
 * width, channels}.
 *
 * libpng, libjpeg and giflib are opened when they are first needed; without them these
 * functions say so. No byte of a picture is trusted: sizes are checked before
 * memory is taken, and a library's error never leaves its file. A picture has
 * at most TD_IMAGE_MAX elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_IMAGE_H
#define TD_IMAGE_H

#include "engine/tensor/tensor.h"

TD_BEGIN

enum { TD_IMAGE_MAX = 1 << 29 };

typedef enum td_image_format {
  TD_IMAGE_UNKNOWN,
  TD_IMAGE_PNG,
  TD_IMAGE_JPEG,
  TD_IMAGE_BMP,
  TD_IMAGE_GIF,
} td_image_format;

/* By the first bytes. */
td_image_format td_image_sniff(const void *bytes, size_t len);
/* "PNG", "JPEG", ...; "unknown". */
const char *td_image_format_name(td_image_format f);

/* channels: 1 gray, 3 RGB, 4 RGBA, 0 as in the picture (2: gray and alpha).
 * uint8 or uint16; 8 bits become 16 by repeating them. */
td_status *td_image_decode_png(const void *bytes, size_t len, int channels,
                               td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* uint8 or uint16, of rank 3 with 1 to 4 channels. compression: 0 to 9, -1 the
 * library's. Appends to `out`. */
td_status *td_image_encode_png(const td_tensor *image, int compression,
                               td_str *out) TD_MUST_USE;

typedef struct td_jpeg_reading {
  int channels;         /* 1, 3, or 0: as in the picture */
  int ratio;            /* 1, 2, 4, 8: the picture is made smaller by it */
  bool fancy_upscaling; /* smooth chroma */
  bool recover;         /* fill what a truncated file lacks ... */
  float acceptable;     /* ... when at least this share of rows is there */
  bool fast_dct;        /* faster, less exact */
  bool crop;            /* only the window below, in result pixels */
  int64_t top, left, height, width;
} td_jpeg_reading;

typedef struct td_jpeg_writing {
  int quality; /* 0 to 100 */
  bool progressive, optimize, chroma_downsampling;
  bool per_cm; /* unit of the densities; else per inch */
  int x_density, y_density;
  const char *xmp; /* metadata, len bytes; may be NULL */
  size_t xmp_len;
} td_jpeg_writing;

td_status *td_image_decode_jpeg(const void *bytes, size_t len,
                                const td_jpeg_reading *o,
                                td_tensor *out) TD_MUST_USE;
/* {height, width, channels} from the head. */
td_status *td_image_jpeg_shape(const void *bytes, size_t len,
                               int64_t shape[3]) TD_MUST_USE;
/* uint8 of rank 3 with 1 or 3 channels. Appends to `out`. */
td_status *td_image_encode_jpeg(const td_tensor *image,
                                const td_jpeg_writing *o,
                                td_str *out) TD_MUST_USE;

/* Uncompressed pictures of 8, 24 and 32 bits; channels: 1, 3, 4 as it has, or
 * 0. One byte a pixel is gray: a palette is not looked at. */
td_status *td_image_decode_bmp(const void *bytes, size_t len, int channels,
                               td_tensor *out) TD_MUST_USE;

/* {frames, height, width, 3}; unless `animated` the first frame only. A file that
 * ends early has the frames that are whole. */
td_status *td_image_decode_gif(const void *bytes, size_t len, bool animated,
                               td_tensor *out) TD_MUST_USE;

/* For the files behind this header: a tensor {height, width, channels} within
 * the limit; `what` names the format. */
td_status *td_image_new(const char *what, td_dtype dtype, int64_t height,
                        int64_t width, int64_t channels,
                        td_tensor *out) TD_MUST_USE;

TD_END
#endif
