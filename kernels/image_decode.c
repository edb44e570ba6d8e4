/* image_decode.c - pictures read: DecodePng, DecodeJpeg, DecodeGif, DecodeBmp,
 * DecodeImage, DecodeAndCropJpeg, ExtractJpegShape.
 *
 * As in TensorFlow, DecodePng, DecodeJpeg and DecodeGif read each other's
 * format too: the first bytes decide. Only DecodeGif and DecodeImage give
 * frames.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/io/image.h"
#include "kernels/operand.h"
#include "kernels/text.h"

/* ---- shapes -------------------------------------------------------------- */

/* {height, width, channels} of which only the last may be known. */
static td_status *decode_infer(td_infer *c) {
  td_shape s = td_shape_ranked(3);
  int64_t channels = td_infer_int(c, "channels");
  TD_TRY(td_infer_rank(c, 0, 0, "contents", NULL));
  if (channels < 0 || channels > 4 || channels == 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "channels must be 0, 1, 3 or 4, not %lld",
                    (long long)channels);
  if (channels > 0) s.dim[2] = channels;
  td_infer_out(c, 0, s);
  return NULL;
}

/* A GIF has a rank of 4. */
static td_status *any_infer(td_infer *c) {
  TD_TRY(decode_infer(c));
  if (td_infer_bool(c, "expand_animations"))
    td_infer_out(c, 0, td_shape_unknown());
  return NULL;
}

static td_status *gif_infer(td_infer *c) {
  td_shape s = td_shape_ranked(4);
  TD_TRY(td_infer_rank(c, 0, 0, "contents", NULL));
  s.dim[3] = 3;
  td_infer_out(c, 0, s);
  return NULL;
}

static td_status *crop_infer(td_infer *c) {
  td_small window;
  TD_TRY(decode_infer(c));
  TD_TRY(td_infer_rank(c, 1, 1, "crop_window", NULL));
  if (!td_infer_small(c, 1, &window) || window.count != 4) return NULL;
  td_shape s = td_shape_ranked(3);
  for (int i = 0; i < 2; i++)
    if (window.known[i + 2] && window.at[i + 2] > 0)
      s.dim[i] = window.at[i + 2];
  if (td_infer_int(c, "channels") > 0) s.dim[2] = td_infer_int(c, "channels");
  td_infer_out(c, 0, s);
  return NULL;
}

static td_status *shape_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "contents", NULL));
  td_infer_out(c, 0, td_shape_vector(3));
  return NULL;
}

/* ---- reading ------------------------------------------------------------- */

static td_status *contents_of(const td_kernel_ctx *c, td_bytes *out) {
  const td_tensor *t = td_in(c, 0);
  td_shape_text text;
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "contents must be a scalar, not of shape %s: a picture "
                    "each; td.map_fn takes many",
                    td_shape_str(&t->shape, &text));
  *out = td_text_at(t, 0);
  return NULL;
}

static td_status *jpeg_options(const td_node *n, td_jpeg_reading *o) {
  const char *dct = td_node_string(n, "dct_method");
  *o = (td_jpeg_reading){
      .channels = (int)td_node_int(n, "channels"),
      .ratio = (int)td_node_int(n, "ratio"),
      .fancy_upscaling = td_node_bool(n, "fancy_upscaling"),
      .recover = td_node_bool(n, "try_recover_truncated"),
      .acceptable = td_node_float(n, "acceptable_fraction"),
      .fast_dct = strcmp(dct, "INTEGER_ACCURATE") != 0,
  };
  if (dct[0] && o->fast_dct && strcmp(dct, "INTEGER_FAST") != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "dct_method must be \"\", \"INTEGER_FAST\" or "
                    "\"INTEGER_ACCURATE\", not \"%s\"",
                    dct);
  return NULL;
}

/* 8 bits as wider types: TensorFlow's factor for uint16 is 256. */
static td_status *convert(const td_tensor *from, td_dtype to, td_tensor *out) {
  TD_TRY(td_tensor_new(NULL, to, &from->shape, out));
  int64_t n = td_tensor_count(from);
  const uint8_t *narrow = from->data;
  const uint16_t *wide = from->data;
  if (to == TD_UINT16)
    for (int64_t i = 0; i < n; i++)
      ((uint16_t *)out->data)[i] = (uint16_t)(narrow[i] * 256);
  else if (from->dtype == TD_UINT8)
    for (int64_t i = 0; i < n; i++)
      ((float *)out->data)[i] = (float)narrow[i] * (1.0f / 255);
  else
    for (int64_t i = 0; i < n; i++)
      ((float *)out->data)[i] = (float)wide[i] * (1.0f / 65535);
  return NULL;
}

/* What an op makes of a picture that has frames, and of one that has none. */
typedef enum frames {
  FRAMES_NONE,
  FRAMES_FIRST,
  FRAMES_KEPT,
  FRAMES_ALL
} frames;

static td_status *decode_gif(const td_bytes *b, int channels, frames want,
                             td_tensor *out) {
  if (channels != 0 && channels != 3)
    return td_error(TD_INVALID_ARGUMENT,
                    "channels must be 0 or 3 for a GIF picture, not %d",
                    channels);
  TD_TRY(td_image_decode_gif(b->at, b->len, want != FRAMES_FIRST, out));
  int64_t n = out->shape.dim[0];
  if (want == FRAMES_NONE && n != 1) {
    td_tensor_release(out);
    return td_error(TD_INVALID_ARGUMENT,
                    "the GIF picture has %lld frames: DecodeGif and "
                    "DecodeImage read it",
                    (long long)n);
  }
  return NULL;
}

/* Only PNG has more than 8 bits: it is read with 16 for wider types. */
static td_status *decode_format(const td_bytes *b, td_image_format format,
                                const td_jpeg_reading *o, td_dtype dtype,
                                frames want, td_tensor *out) {
  td_dtype wide = dtype == TD_UINT8 ? TD_UINT8 : TD_UINT16;
  switch (format) {
  case TD_IMAGE_PNG:
    return td_image_decode_png(b->at, b->len, o->channels, wide, out);
  case TD_IMAGE_JPEG:
    return td_image_decode_jpeg(b->at, b->len, o, out);
  case TD_IMAGE_BMP:
    return td_image_decode_bmp(b->at, b->len, o->channels, out);
  case TD_IMAGE_GIF:
    return decode_gif(b, o->channels, want, out);
  default:
    return td_error(TD_INVALID_ARGUMENT,
                    "contents of %zu bytes are no picture in PNG, JPEG, GIF or "
                    "BMP",
                    b->len);
  }
}

/* A picture alone has a rank of 3, frames one of 4. */
static void set_rank(td_tensor *t, frames want) {
  td_shape s = t->shape;
  bool keeps = want == FRAMES_KEPT || want == FRAMES_ALL;
  if (s.rank == 4 && !keeps)
    t->shape = td_shape_of(3, &s.dim[1]);
  else if (s.rank == 3 && want == FRAMES_ALL)
    t->shape = td_shape_of(4, (int64_t[]){1, s.dim[0], s.dim[1], s.dim[2]});
}

static td_status *decode(td_kernel_ctx *c, td_image_format format,
                         const td_bytes *b, const td_jpeg_reading *o,
                         frames want) {
  td_dtype dtype = td_ctx_node(c)->out[0].dtype;
  td_tensor t, wide;
  TD_TRY(decode_format(b, format, o, dtype, want, &t));
  set_rank(&t, want);
  if (t.dtype != dtype) {
    td_status *s = convert(&t, dtype, &wide);
    td_tensor_release(&t);
    TD_TRY(s);
    t = wide;
  }
  td_out_set(c, 0, &t);
  td_tensor_release(&t);
  return NULL;
}

static td_status *decode_any(td_kernel_ctx *c, int64_t channels, frames want) {
  td_bytes b;
  td_jpeg_reading o = {.channels = (int)channels,
                       .ratio = 1,
                       .fancy_upscaling = true,
                       .fast_dct = true};
  TD_TRY(contents_of(c, &b));
  td_image_format format = td_image_sniff(b.at, b.len);
  if (format == TD_IMAGE_BMP && want == FRAMES_ALL)
    return td_error(TD_INVALID_ARGUMENT,
                    "contents are a BMP picture: DecodeImage reads it");
  return decode(c, format, &b, &o, want);
}

static td_status *png_run(td_kernel_ctx *c) {
  return decode_any(c, td_node_int(td_ctx_node(c), "channels"), FRAMES_NONE);
}

static td_status *gif_run(td_kernel_ctx *c) {
  return decode_any(c, 3, FRAMES_ALL);
}

static td_status *image_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  bool expands = td_node_bool(n, "expand_animations");
  return decode_any(c, td_node_int(n, "channels"),
                    expands ? FRAMES_KEPT : FRAMES_FIRST);
}

static td_status *bmp_run(td_kernel_ctx *c) {
  td_bytes b;
  td_jpeg_reading o = {.channels =
                           (int)td_node_int(td_ctx_node(c), "channels")};
  TD_TRY(contents_of(c, &b));
  td_image_format format = td_image_sniff(b.at, b.len);
  if (format != TD_IMAGE_BMP && format != TD_IMAGE_UNKNOWN)
    return td_error(TD_INVALID_ARGUMENT,
                    "contents are a %s picture: DecodeImage reads it",
                    td_image_format_name(format));
  return decode(c, TD_IMAGE_BMP, &b, &o, FRAMES_NONE);
}

static td_status *jpeg_run(td_kernel_ctx *c) {
  td_bytes b;
  td_jpeg_reading o;
  TD_TRY(contents_of(c, &b));
  TD_TRY(jpeg_options(td_ctx_node(c), &o));
  return decode(c, td_image_sniff(b.at, b.len), &b, &o, FRAMES_NONE);
}

static td_status *crop_run(td_kernel_ctx *c) {
  td_bytes b;
  td_jpeg_reading o;
  td_small window;
  TD_TRY(contents_of(c, &b));
  TD_TRY(jpeg_options(td_ctx_node(c), &o));
  TD_TRY(td_operand_ints(td_in(c, 1), "crop_window", &window));
  if (window.rank != 1 || window.count != 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "crop_window must be {row, column, height, width}, not %d "
                    "numbers",
                    window.count);
  o.crop = true;
  o.top = window.at[0], o.left = window.at[1];
  o.height = window.at[2], o.width = window.at[3];
  return decode(c, TD_IMAGE_JPEG, &b, &o, FRAMES_NONE);
}

static td_status *shape_run(td_kernel_ctx *c) {
  td_bytes b;
  int64_t size[3];
  td_shape shape = td_shape_vector(3);
  td_tensor *y;
  TD_TRY(contents_of(c, &b));
  TD_TRY(td_image_jpeg_shape(b.at, b.len, size));
  TD_TRY(td_out(c, 0, &shape, &y));
  for (int i = 0; i < 3; i++) td_tensor_set_i(y, i, size[i]);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define JPEG_ATTRS                                                             \
  "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; "          \
  "try_recover_truncated: bool = false; acceptable_fraction: float = 1; "      \
  "dct_method: string = \"\""

static const td_op_def ops[] = {
    {.type = "DecodePng",
     .sig = "contents: string -> image: dtype; channels: int = 0; "
            "dtype: {uint8, uint16} = uint8",
     .shape = decode_infer,
     .doc = "A PNG picture as {height, width, channels}.",
     .example = "td.decode_png(td.encode_png(td.cast({{{1, 2, 3}}}, "
                "\"uint8\")))  --> 1 2 3",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "DecodeJpeg",
     .sig = "contents: string -> image: uint8; " JPEG_ATTRS,
     .shape = decode_infer,
     .doc = "A JPEG picture as {height, width, channels}, smaller by ratio.",
     .example = "td.shape(td.decode_jpeg(td.encode_jpeg(td.cast({{{1}, {2}}}, "
                "\"uint8\"))))  --> 1 2 1",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "DecodeGif",
     .sig = "contents: string -> image: uint8",
     .shape = gif_infer,
     .doc = "The frames of a GIF picture as {frames, height, width, 3}.",
     .example = "td.decode_gif(string.pack(\"<c6I2I2I1I1I1c6c1I2I2I2I2I1c6\", "
                "\"GIF89a\", 1, 1, 0x80, 0, 0, \"\\1\\2\\3\\4\\5\\6\", "
                "\",\", 0, 0, 1, 1, 0, \"\\2\\2D\\1\\0;\"))  --> 1 2 3",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "DecodeBmp",
     .sig = "contents: string -> image: uint8; channels: int = 0",
     .shape = decode_infer,
     .doc = "A BMP picture as {height, width, channels}.",
     .example = "td.decode_bmp(string.pack(\"<c2i4i4i4i4i4i4i2i2i4i4i4i4i4i4"
                "BBBB\", \"BM\", 58, 0, 54, 40, 1, 1, 1, 24, 0, 0, 0, 0, 0, 0, "
                "3, 2, 1, 0))  --> 1 2 3",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "DecodeImage",
     .sig = "contents: string -> image: dtype; channels: int = 0; "
            "dtype: {uint8, uint16, float} = uint8; "
            "expand_animations: bool = true",
     .shape = any_infer,
     .doc = "A PNG, JPEG, GIF or BMP picture as {height, width, channels}, a "
            "GIF as {frames, height, width, 3}; floats are from 0 to 1.",
     .example = "td.decode_image(td.encode_png(td.cast({{{0, 51, 255}}}, "
                "\"uint8\")), {dtype = \"float32\"})  --> 0 0.2 1",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "DecodeAndCropJpeg",
     .sig = "contents: string, crop_window: int32 -> image: uint8; " JPEG_ATTRS,
     .shape = crop_infer,
     .doc = "The window {row, column, height, width} of a JPEG picture, the "
            "same as in the whole.",
     .example = "td.shape(td.decode_and_crop_jpeg(td.encode_jpeg(td.cast({{{1},"
                " {2}}}, \"uint8\")), {0, 1, 1, 1}))  --> 1 1 1",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "ExtractJpegShape",
     .sig = "contents: string -> image_shape: output_type; "
            "output_type: {int32, int64} = int32",
     .shape = shape_infer,
     .doc = "{height, width, channels} of a JPEG picture, from its head.",
     .example = "td.extract_jpeg_shape(td.encode_jpeg(td.cast({{{1}, {2}}}, "
                "\"uint8\")))  --> 1 2 1",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "DecodePng", .device = "CPU", .run = png_run},
    {.op = "DecodeJpeg", .device = "CPU", .run = jpeg_run},
    {.op = "DecodeGif", .device = "CPU", .run = gif_run},
    {.op = "DecodeBmp", .device = "CPU", .run = bmp_run},
    {.op = "DecodeImage", .device = "CPU", .run = image_run},
    {.op = "DecodeAndCropJpeg", .device = "CPU", .run = crop_run},
    {.op = "ExtractJpegShape", .device = "CPU", .run = shape_run},
    {0},
};

TD_MODULE(image_decode, ops, kernels)
