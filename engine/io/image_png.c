/* image_png.c - PNG through libpng.
 *
 * libpng reports an error by a function that must not return. Ours jumps, over
 * frames of libpng only, back to `guard`, whose steps keep everything in the
 * job: no local outlives a jump.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <png.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/io/image.h"

#define PNG_FUNCTIONS(X)                                                       \
  X(png_create_info_struct)                                                    \
  X(png_create_read_struct)                                                    \
  X(png_create_write_struct)                                                   \
  X(png_destroy_read_struct)                                                   \
  X(png_destroy_write_struct)                                                  \
  X(png_error)                                                                 \
  X(png_get_IHDR)                                                              \
  X(png_get_channels)                                                          \
  X(png_get_error_ptr)                                                         \
  X(png_get_io_ptr)                                                            \
  X(png_get_rowbytes)                                                          \
  X(png_get_valid)                                                             \
  X(png_read_end)                                                              \
  X(png_read_info)                                                             \
  X(png_read_row)                                                              \
  X(png_read_update_info)                                                      \
  X(png_set_IHDR)                                                              \
  X(png_set_add_alpha)                                                         \
  X(png_set_chunk_malloc_max)                                                  \
  X(png_set_compression_level)                                                 \
  X(png_set_expand_gray_1_2_4_to_8)                                            \
  X(png_set_gray_to_rgb)                                                       \
  X(png_set_interlace_handling)                                                \
  X(png_set_packing)                                                           \
  X(png_set_palette_to_rgb)                                                    \
  X(png_set_read_fn)                                                           \
  X(png_set_rgb_to_gray_fixed)                                                 \
  X(png_set_strip_16)                                                          \
  X(png_set_strip_alpha)                                                       \
  X(png_set_swap)                                                              \
  X(png_set_tRNS_to_alpha)                                                     \
  X(png_set_user_limits)                                                       \
  X(png_set_write_fn)                                                          \
  X(png_write_end)                                                             \
  X(png_write_info)                                                            \
  X(png_write_row)

static struct {
#define PNG_FIELD(name) __typeof__(name) *name;
  PNG_FUNCTIONS(PNG_FIELD)
#undef PNG_FIELD
  bool ready;
} lib;

static void load(void) {
  void *so = dlopen("libpng16.so.16", RTLD_NOW | RTLD_LOCAL);
  if (!so) return;
  lib.ready = true;
#define PNG_LOAD(name)                                                         \
  lib.name = (__typeof__(name) *)dlsym(so, #name);                             \
  if (!lib.name) lib.ready = false;
  PNG_FUNCTIONS(PNG_LOAD)
#undef PNG_LOAD
}

static td_status *need_png(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  if (lib.ready) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "PNG pictures need libpng (libpng16.so.16), which this "
                  "system does not have: install libpng16-16");
}

/* ---- errors -------------------------------------------------------------- */

typedef struct job {
  jmp_buf back;
  char why[160];
  png_structp png;
  png_infop info;
  /* Reading. */
  const uint8_t *bytes;
  size_t len, at;
  int channels; /* of the result */
  bool want16, widen;
  int passes;
  png_uint_32 width, height;
  size_t row_bytes;
  uint8_t *rows;
  /* Writing. */
  const td_tensor *image;
  int compression;
  td_str *out;
} job;

static void on_error(png_structp png, png_const_charp why) {
  job *j = lib.png_get_error_ptr(png);
  snprintf(j->why, sizeof j->why, "%s", why);
  longjmp(j->back, 1);
}

static void on_warning(png_structp png, png_const_charp why) {
  (void)png;
  (void)why;
}

/* Runs a step that calls libpng. */
static td_status *guard(job *j, void (*step)(job *j)) {
  if (setjmp(j->back))
    return td_error(TD_INVALID_ARGUMENT, "not a readable PNG picture: %s",
                    j->why);
  step(j);
  return NULL;
}

/* ---- reading ------------------------------------------------------------- */

enum {
  DEFLATE_RATIO = 1032, /* the most that deflate can pack into a byte */
  CHUNK_MAX = 8 << 20,  /* of a chunk that is not pixels, unpacked */
  GRAY_RED = 29900,     /* weights, of 100000; blue has the rest */
  GRAY_GREEN = 58700,
};

static void read_bytes(png_structp png, png_bytep to, size_t n) {
  job *j = lib.png_get_io_ptr(png);
  if (n > j->len - j->at) lib.png_error(png, "it is truncated");
  memcpy(to, j->bytes + j->at, n);
  j->at += n;
}

/* Before the library takes memory for a row. Cannot overflow: TD_IMAGE_MAX
 * bounds both sides. */
static void check_size(job *j) {
  size_t row = lib.png_get_rowbytes(j->png, j->info) + 1;
  lib.png_get_IHDR(j->png, j->info, &j->width, &j->height, NULL, NULL, NULL,
                   NULL, NULL);
  if (row * j->height / DEFLATE_RATIO > j->len)
    lib.png_error(j->png, "its size cannot be true");
}

static void read_head(job *j) {
  lib.png_set_read_fn(j->png, j, read_bytes);
  lib.png_set_user_limits(j->png, TD_IMAGE_MAX, TD_IMAGE_MAX);
  lib.png_set_chunk_malloc_max(j->png, CHUNK_MAX);
  lib.png_read_info(j->png, j->info);
  check_size(j);
}

/* A palette with transparency becomes RGBA by itself. */
static void set_alpha(job *j, int color, bool transparent) {
  bool has = color & PNG_COLOR_MASK_ALPHA, want = j->channels % 2 == 0;
  bool gets = has || (transparent && color == PNG_COLOR_TYPE_PALETTE);
  if (gets && !want) lib.png_set_strip_alpha(j->png);
  if (has || !want) return;
  if (transparent)
    lib.png_set_tRNS_to_alpha(j->png);
  else
    lib.png_set_add_alpha(j->png, 0xffff, PNG_FILLER_AFTER);
}

/* Asks libpng for rows of j->channels samples of 8 or 16 bits. */
static void set_transforms(job *j) {
  int depth, color;
  lib.png_get_IHDR(j->png, j->info, NULL, NULL, &depth, &color, NULL, NULL,
                   NULL);
  bool transparent = lib.png_get_valid(j->png, j->info, PNG_INFO_tRNS) != 0;
  bool palette = color == PNG_COLOR_TYPE_PALETTE;
  bool gray = !(color & PNG_COLOR_MASK_COLOR);
  if (j->channels == 0)
    j->channels =
        palette ? (transparent ? 4 : 3) : lib.png_get_channels(j->png, j->info);
  set_alpha(j, color, transparent);
  if (depth == 16 && !j->want16) lib.png_set_strip_16(j->png);
  j->widen = depth <= 8 && j->want16;
  lib.png_set_packing(j->png);
  if (depth == 16 && j->want16) lib.png_set_swap(j->png); /* to our order */
  if (palette) lib.png_set_palette_to_rgb(j->png);
  if (gray && depth < 8) lib.png_set_expand_gray_1_2_4_to_8(j->png);
  if (j->channels < 3 && !gray)
    lib.png_set_rgb_to_gray_fixed(j->png, 1, GRAY_RED, GRAY_GREEN);
  if (j->channels >= 3 && gray) lib.png_set_gray_to_rgb(j->png);
  j->passes = lib.png_set_interlace_handling(j->png);
  lib.png_read_update_info(j->png, j->info);
  j->row_bytes = lib.png_get_rowbytes(j->png, j->info);
}

static void read_rows(job *j) {
  for (int pass = 0; pass < j->passes; pass++)
    for (png_uint_32 y = 0; y < j->height; y++)
      lib.png_read_row(j->png, j->rows + y * j->row_bytes, NULL);
  lib.png_read_end(j->png, NULL);
}

/* 8 bits in the front half of `t` become 16, from the end. */
static void widen(td_tensor *t) {
  const uint8_t *from = t->data;
  uint16_t *to = t->data;
  for (int64_t i = td_tensor_count(t) - 1; i >= 0; i--)
    to[i] = (uint16_t)(from[i] * 257);
}

static td_status *make_room(job *j, td_dtype dtype, td_tensor *out) {
  size_t sample = j->want16 && !j->widen ? 2 : 1;
  if (j->row_bytes != (size_t)j->width * (size_t)j->channels * sample)
    return td_error(TD_INVALID_ARGUMENT,
                    "a PNG picture of this kind cannot have %d channels",
                    j->channels);
  TD_TRY(td_image_new("PNG", dtype, j->height, j->width, j->channels, out));
  j->rows = out->data;
  return NULL;
}

td_status *td_image_decode_png(const void *bytes, size_t len, int channels,
                               td_dtype dtype, td_tensor *out) {
  if (channels < 0 || channels > 4 || channels == 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "channels must be 0, 1, 3 or 4, not %d", channels);
  TD_TRY(need_png());
  job *j = td_calloc(1, sizeof *j);
  if (!j) return td_oom();
  j->bytes = bytes, j->len = len;
  j->channels = channels;
  j->want16 = dtype == TD_UINT16;
  j->png = lib.png_create_read_struct(PNG_LIBPNG_VER_STRING, j, on_error,
                                      on_warning);
  if (j->png) j->info = lib.png_create_info_struct(j->png);
  *out = (td_tensor){0};
  td_status *s = j->info ? guard(j, read_head) : td_oom();
  if (td_ok(s)) s = guard(j, set_transforms);
  if (td_ok(s)) s = make_room(j, dtype, out);
  if (td_ok(s)) s = guard(j, read_rows);
  if (td_ok(s) && j->widen) widen(out);
  if (!td_ok(s) && td_tensor_valid(out)) td_tensor_release(out);
  if (j->png) lib.png_destroy_read_struct(&j->png, &j->info, NULL);
  td_free(j);
  return s;
}

/* ---- writing ------------------------------------------------------------- */

static void write_bytes(png_structp png, png_bytep bytes, size_t n) {
  job *j = lib.png_get_io_ptr(png);
  td_str_addn(j->out, (const char *)bytes, n);
  if (j->out->failed) lib.png_error(png, "out of memory");
}

static void flush(png_structp png) {
  (void)png;
}

static void write_all(job *j) {
  static const int colors[] = {0, PNG_COLOR_TYPE_GRAY,
                               PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                               PNG_COLOR_TYPE_RGB_ALPHA};
  const int64_t *dim = j->image->shape.dim;
  bool wide = j->image->dtype == TD_UINT16;
  lib.png_set_write_fn(j->png, j, write_bytes, flush);
  lib.png_set_user_limits(j->png, TD_IMAGE_MAX, TD_IMAGE_MAX);
  if (j->compression >= 0)
    lib.png_set_compression_level(j->png, j->compression);
  lib.png_set_IHDR(j->png, j->info, (png_uint_32)dim[1], (png_uint_32)dim[0],
                   wide ? 16 : 8, colors[dim[2]], PNG_INTERLACE_NONE,
                   PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  lib.png_write_info(j->png, j->info);
  if (wide) lib.png_set_swap(j->png);
  size_t row = (size_t)dim[1] * (size_t)dim[2] * (wide ? 2 : 1);
  for (int64_t y = 0; y < dim[0]; y++)
    lib.png_write_row(j->png,
                      (png_const_bytep)j->image->data + (size_t)y * row);
  lib.png_write_end(j->png, j->info);
}

static td_status *check_writing(const td_tensor *t, int compression) {
  td_shape_text text;
  if (t->shape.rank != 3 || t->shape.dim[2] < 1 || t->shape.dim[2] > 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "a picture for PNG is {height, width, 1 to 4 channels}, "
                    "not %s",
                    td_shape_str(&t->shape, &text));
  if (td_tensor_count(t) < 1 || td_tensor_count(t) > TD_IMAGE_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "a picture for PNG has 1 to %d elements, not the shape %s",
                    (int)TD_IMAGE_MAX, td_shape_str(&t->shape, &text));
  if (t->dtype != TD_UINT8 && t->dtype != TD_UINT16)
    return td_error(TD_INVALID_ARGUMENT,
                    "a picture for PNG is uint8 or uint16, not %s",
                    td_dtype_name(t->dtype));
  if (compression < -1 || compression > 9)
    return td_error(TD_INVALID_ARGUMENT,
                    "compression must be from -1 to 9, not %d", compression);
  return NULL;
}

td_status *td_image_encode_png(const td_tensor *image, int compression,
                               td_str *out) {
  TD_TRY(check_writing(image, compression));
  TD_TRY(need_png());
  job *j = td_calloc(1, sizeof *j);
  if (!j) return td_oom();
  j->image = image;
  j->compression = compression;
  j->out = out;
  j->png = lib.png_create_write_struct(PNG_LIBPNG_VER_STRING, j, on_error,
                                       on_warning);
  if (j->png) j->info = lib.png_create_info_struct(j->png);
  td_status *s = j->info ? guard(j, write_all) : td_oom();
  if (out->failed) {
    td_status_release(s);
    s = td_oom();
  }
  if (j->png) lib.png_destroy_write_struct(&j->png, &j->info);
  td_free(j);
  return s;
}
