/* image_gif.c - GIF through giflib.
 *
 * Frames are read one after the other, up to the first that is not whole, and
 * then painted: each over what the frame before it left, whatever it says of
 * its disposal, on a canvas as wide and high as the widest and highest frame.
 * That is how TensorFlow does it; the size that the file's head gives to the
 * screen counts for nothing.
 *
 * giflib would read all at once and take memory for any size that a frame
 * claims. A code of 12 bits stands for at most 4096 pixels, so that the bytes
 * left say how large a frame can be.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <gif_lib.h>
#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/io/image.h"

#define GIF_FUNCTIONS(X)                                                       \
  X(DGifCloseFile)                                                             \
  X(DGifExtensionToGCB)                                                        \
  X(DGifGetExtension)                                                          \
  X(DGifGetExtensionNext)                                                      \
  X(DGifGetImageDesc)                                                          \
  X(DGifGetLine)                                                               \
  X(DGifGetRecordType)                                                         \
  X(DGifOpen)                                                                  \
  X(GifErrorString)

static struct {
#define GIF_FIELD(name) __typeof__(name) *name;
  GIF_FUNCTIONS(GIF_FIELD)
#undef GIF_FIELD
  bool ready;
} lib;

static void load(void) {
  void *so = dlopen("libgif.so.7", RTLD_NOW | RTLD_LOCAL);
  if (!so) return;
  lib.ready = true;
#define GIF_LOAD(name)                                                         \
  lib.name = (__typeof__(name) *)dlsym(so, #name);                             \
  if (!lib.name) lib.ready = false;
  GIF_FUNCTIONS(GIF_LOAD)
#undef GIF_LOAD
}

static td_status *need_gif(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  if (lib.ready) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "GIF pictures need giflib (libgif.so.7), which this system "
                  "does not have: install libgif7");
}

enum { CHANNELS = 3, PIXELS_A_BYTE = 4096 * 8 / 12 + 1 };

typedef struct frame {
  int64_t left, top, width, height;
  int transparent;              /* a colour's index, or -1 */
  const ColorMapObject *colors; /* the file's; may be NULL */
  GifPixelType *pixels;         /* owned */
} frame;

typedef struct job {
  const uint8_t *bytes;
  size_t len, at;
  GifFileType *gif;
  TD_VEC(frame) frames;
  int64_t pixels;        /* of all frames */
  int64_t width, height; /* of the canvas */
  int transparent;       /* of the next frame ... */
  bool told;             /* ... once a block has said so */
} job;

/* ---- reading ------------------------------------------------------------- */

static int read_bytes(GifFileType *gif, GifByteType *to, int n) {
  job *j = gif->UserData;
  size_t left = j->len - j->at, take = (size_t)n < left ? (size_t)n : left;
  memcpy(to, j->bytes + j->at, take);
  j->at += take;
  return (int)take;
}

/* The first graphics control block before a frame says what is transparent. */
static bool read_extension(job *j) {
  GraphicsControlBlock control;
  GifByteType *block;
  int code;
  if (lib.DGifGetExtension(j->gif, &code, &block) != GIF_OK) return false;
  while (block) {
    if (code == GRAPHICS_EXT_FUNC_CODE && !j->told) {
      j->told = true;
      if (lib.DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
        j->transparent = control.TransparentColor;
    }
    if (lib.DGifGetExtensionNext(j->gif, &block) != GIF_OK) return false;
  }
  return true;
}

/* Row i of an interlaced picture of that height, as it comes. */
static int64_t interlaced_row(int64_t i, int64_t height) {
  static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
  for (int pass = 0; pass < 4; pass++) {
    int64_t n = (height - first[pass] + step[pass] - 1) / step[pass];
    if (height <= first[pass]) n = 0;
    if (i < n) return first[pass] + i * step[pass];
    i -= n;
  }
  return 0;
}

static bool read_rows(job *j, const frame *f) {
  for (int64_t i = 0; i < f->height; i++) {
    int64_t y = j->gif->Image.Interlace ? interlaced_row(i, f->height) : i;
    if (lib.DGifGetLine(j->gif, f->pixels + y * f->width, (int)f->width) !=
        GIF_OK)
      return false;
  }
  return true;
}

/* *whole tells whether it was there; a status is for what has another cause
 * than the file's end. */
static td_status *read_frame(job *j, bool *whole) {
  *whole = lib.DGifGetImageDesc(j->gif) == GIF_OK;
  if (!*whole) return NULL;
  const GifImageDesc *d = &j->gif->Image;
  frame f = {.left = d->Left,
             .top = d->Top,
             .width = d->Width,
             .height = d->Height,
             .transparent = j->told ? j->transparent : NO_TRANSPARENT_COLOR};
  int64_t size = f.width * f.height; /* 16 bits each */
  f.colors =
      d->ColorMap
          ? j->gif->SavedImages[j->gif->ImageCount - 1].ImageDesc.ColorMap
          : j->gif->SColorMap;
  j->told = false;
  *whole = size > 0 && (size_t)size / PIXELS_A_BYTE <= j->len - j->at;
  if (!*whole) return NULL;
  if (size > TD_IMAGE_MAX - j->pixels)
    return td_error(TD_INVALID_ARGUMENT,
                    "the GIF picture is too large: frame %zu has %lld by %lld "
                    "pixels; at most %d are read of all frames",
                    j->frames.len, (long long)f.height, (long long)f.width,
                    (int)TD_IMAGE_MAX);
  f.pixels = td_malloc((size_t)size);
  if (!f.pixels) return td_oom();
  *whole = read_rows(j, &f);
  if (*whole && td_vec_push(&j->frames, f)) {
    j->pixels += size;
    if (f.width > j->width) j->width = f.width;
    if (f.height > j->height) j->height = f.height;
    return NULL;
  }
  td_free(f.pixels);
  return *whole ? td_oom() : NULL;
}

static td_status *read_frames(job *j) {
  GifRecordType type;
  bool whole = true;
  while (whole && lib.DGifGetRecordType(j->gif, &type) == GIF_OK &&
         type != TERMINATE_RECORD_TYPE) {
    if (type == IMAGE_DESC_RECORD_TYPE)
      TD_TRY(read_frame(j, &whole));
    else if (type == EXTENSION_RECORD_TYPE)
      whole = read_extension(j);
  }
  if (j->frames.len) return NULL;
  const char *why = whole ? NULL : lib.GifErrorString(j->gif->Error);
  return td_error(
      TD_INVALID_ARGUMENT,
      "a GIF picture of %zu bytes has no frame that can be read%s%s", j->len,
      why ? ": " : "", why ? why : "");
}

/* ---- painting ------------------------------------------------------------ */

static td_status *paint(const job *j, size_t k, uint8_t *canvas) {
  const frame *f = &j->frames.at[k];
  if (!f->colors)
    return td_error(TD_INVALID_ARGUMENT,
                    "frame %zu of the GIF picture has no colours", k);
  int64_t right = f->left + f->width, bottom = f->top + f->height;
  if (right > j->width) right = j->width;
  if (bottom > j->height) bottom = j->height;
  for (int64_t y = f->top; y < bottom; y++) {
    const GifPixelType *row = f->pixels + (y - f->top) * f->width - f->left;
    for (int64_t x = f->left; x < right; x++) {
      if (row[x] == f->transparent) continue;
      if (row[x] >= f->colors->ColorCount)
        return td_error(TD_INVALID_ARGUMENT,
                        "frame %zu of the GIF picture has colour %d of %d", k,
                        (int)row[x], f->colors->ColorCount);
      const GifColorType *c = &f->colors->Colors[row[x]];
      uint8_t *to = canvas + (y * j->width + x) * CHANNELS;
      to[0] = c->Red, to[1] = c->Green, to[2] = c->Blue;
    }
  }
  return NULL;
}

static td_status *make_room(const job *j, int64_t n, td_tensor *out) {
  int64_t one = j->width * j->height * CHANNELS;
  if (n > TD_IMAGE_MAX / one)
    return td_error(TD_INVALID_ARGUMENT,
                    "the GIF picture is too large: %lld frames of %lld by %lld "
                    "pixels; at most %d elements are read",
                    (long long)n, (long long)j->height, (long long)j->width,
                    (int)TD_IMAGE_MAX);
  td_shape shape =
      td_shape_of(4, (int64_t[]){n, j->height, j->width, CHANNELS});
  return td_tensor_new(NULL, TD_UINT8, &shape, out);
}

static td_status *paint_all(const job *j, bool animated, td_tensor *out) {
  size_t n = animated ? j->frames.len : 1;
  TD_TRY(make_room(j, (int64_t)n, out));
  size_t one = (size_t)(j->width * j->height * CHANNELS);
  td_status *s = NULL;
  for (size_t k = 0; k < n && td_ok(s); k++) {
    uint8_t *canvas = (uint8_t *)out->data + k * one;
    if (k)
      memcpy(canvas, canvas - one, one);
    else
      memset(canvas, 0, one);
    s = paint(j, k, canvas);
  }
  if (!td_ok(s)) td_tensor_release(out);
  return s;
}

td_status *td_image_decode_gif(const void *bytes, size_t len, bool animated,
                               td_tensor *out) {
  int error = 0;
  TD_TRY(need_gif());
  job j = {.bytes = bytes, .len = len};
  j.gif = lib.DGifOpen(&j, read_bytes, &error);
  if (!j.gif) {
    const char *why = lib.GifErrorString(error);
    return td_error(TD_INVALID_ARGUMENT, "not a readable GIF picture: %s",
                    why ? why : "its head cannot be read");
  }
  td_status *s = read_frames(&j);
  if (td_ok(s)) s = paint_all(&j, animated, out);
  for (size_t k = 0; k < j.frames.len; k++) td_free(j.frames.at[k].pixels);
  td_vec_free(&j.frames);
  lib.DGifCloseFile(j.gif, &error);
  return s;
}
