/* image_jpeg.c - JPEG through libjpeg.
 *
 * As with PNG, the library's error function jumps over the library's own
 * frames only, back to `guard`. Corrupt data that the library can go on from
 * is no error, as for every viewer; a file that ends too soon is one, unless
 * the caller asked to recover.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "engine/base/mem.h"
#include "engine/io/image.h"

#define JPEG_FUNCTIONS(X)                                                      \
  X(jpeg_CreateCompress)                                                       \
  X(jpeg_CreateDecompress)                                                     \
  X(jpeg_calc_output_dimensions)                                               \
  X(jpeg_destroy_compress)                                                     \
  X(jpeg_destroy_decompress)                                                   \
  X(jpeg_finish_compress)                                                      \
  X(jpeg_read_header)                                                          \
  X(jpeg_read_scanlines)                                                       \
  X(jpeg_resync_to_restart)                                                    \
  X(jpeg_set_defaults)                                                         \
  X(jpeg_set_quality)                                                          \
  X(jpeg_simple_progression)                                                   \
  X(jpeg_start_compress)                                                       \
  X(jpeg_start_decompress)                                                     \
  X(jpeg_std_error)                                                            \
  X(jpeg_write_marker)                                                         \
  X(jpeg_write_scanlines)

static struct {
#define JPEG_FIELD(name) __typeof__(name) *name;
  JPEG_FUNCTIONS(JPEG_FIELD)
#undef JPEG_FIELD
  bool ready;
} lib;

static void load(void) {
  void *so = dlopen("libjpeg.so.62", RTLD_NOW | RTLD_LOCAL);
  if (!so) return;
  lib.ready = true;
#define JPEG_LOAD(name)                                                        \
  lib.name = (__typeof__(name) *)dlsym(so, #name);                             \
  if (!lib.name) lib.ready = false;
  JPEG_FUNCTIONS(JPEG_LOAD)
#undef JPEG_LOAD
}

static td_status *need_jpeg(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  if (lib.ready) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "JPEG pictures need libjpeg (libjpeg.so.62), which this "
                  "system does not have: install libjpeg62-turbo");
}

/* ---- errors -------------------------------------------------------------- */

enum {
  MAX_SCANS = 100, /* a small file may ask for thousands over a large picture */
  BLOCK = 8,
  OUT_BYTES = 1 << 16,
};

typedef struct job {
  struct jpeg_error_mgr errors; /* first: what the library hands back */
  jmp_buf back;
  char why[JMSG_LENGTH_MAX];
  /* Reading. */
  struct jpeg_decompress_struct in;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  const td_jpeg_reading *o;
  size_t len;
  int64_t height, width, channels, top, left; /* of the result */
  int64_t got;                                /* rows of it */
  uint8_t *rows;                              /* of the result */
  uint8_t *line;                              /* one row of the picture */
  /* Writing. */
  struct jpeg_compress_struct to;
  struct jpeg_destination_mgr target;
  const td_jpeg_writing *w;
  const td_tensor *image;
  td_str *out;
  JOCTET *buffer; /* OUT_BYTES */
} job;

static void on_error(j_common_ptr c) {
  job *j = (job *)c->err;
  c->err->format_message(c, j->why);
  longjmp(j->back, 1);
}

static void on_message(j_common_ptr c) {
  (void)c;
}

static void on_progress(j_common_ptr c) {
  job *j = (job *)c->err;
  if (j->in.input_scan_number <= MAX_SCANS) return;
  snprintf(j->why, sizeof j->why, "it has over %d scans", MAX_SCANS);
  longjmp(j->back, 1);
}

static void set_errors(job *j) {
  lib.jpeg_std_error(&j->errors);
  j->errors.error_exit = on_error;
  j->errors.output_message = on_message;
}

static td_status *guard(job *j, const char *doing, void (*step)(job *j)) {
  if (setjmp(j->back))
    return td_error(TD_INVALID_ARGUMENT, "%s: %s", doing, j->why);
  step(j);
  return NULL;
}

static const char unreadable[] = "not a readable JPEG picture";

/* ---- the source: bytes in memory ----------------------------------------- */

static void source_start(j_decompress_ptr c) {
  (void)c;
}

/* False: the library can do no more. To recover, the picture is ended here; it
 * then makes up the rest. */
static boolean source_fill(j_decompress_ptr c) {
  static const JOCTET end[] = {0xff, JPEG_EOI};
  const job *j = (const job *)c->err;
  if (!j->o || !j->o->recover) return FALSE;
  c->src->next_input_byte = end;
  c->src->bytes_in_buffer = sizeof end;
  return TRUE;
}

static void source_skip(j_decompress_ptr c, long n) {
  if (n <= 0) return;
  size_t left = c->src->bytes_in_buffer;
  size_t skip = (size_t)n < left ? (size_t)n : left;
  c->src->next_input_byte += skip;
  c->src->bytes_in_buffer -= skip;
}

static void set_source(job *j, const void *bytes, size_t len) {
  j->len = len;
  j->source = (struct jpeg_source_mgr){
      .next_input_byte = bytes,
      .bytes_in_buffer = len,
      .init_source = source_start,
      .fill_input_buffer = source_fill,
      .skip_input_data = source_skip,
      .resync_to_restart = lib.jpeg_resync_to_restart,
      .term_source = source_start,
  };
}

/* ---- reading ------------------------------------------------------------- */

static void fail(job *j, const char *why) {
  snprintf(j->why, sizeof j->why, "%s", why);
  longjmp(j->back, 1);
}

static void read_head(job *j) {
  j->in.err = &j->errors;
  lib.jpeg_CreateDecompress(&j->in, JPEG_LIB_VERSION, sizeof j->in);
  j->in.src = &j->source;
  j->progress.progress_monitor = on_progress;
  j->in.progress = &j->progress;
  if (lib.jpeg_read_header(&j->in, TRUE) != JPEG_HEADER_OK)
    fail(j, "it is truncated");
}

static bool is_cmyk(const job *j) {
  return j->in.jpeg_color_space == JCS_CMYK ||
         j->in.jpeg_color_space == JCS_YCCK;
}

/* What the library shall make of it; known before memory is taken. */
static void set_reading(job *j) {
  int channels = j->o->channels;
  if (channels == 0) channels = j->in.num_components < 3 ? 1 : 3;
  j->channels = channels;
  j->in.out_color_space = channels == 1 ? JCS_GRAYSCALE
                          : is_cmyk(j)  ? JCS_CMYK
                                        : JCS_RGB;
  j->in.do_fancy_upsampling = j->o->fancy_upscaling;
  j->in.dct_method = j->o->fast_dct ? JDCT_IFAST : JDCT_ISLOW;
  j->in.scale_num = 1;
  j->in.scale_denom = (unsigned)j->o->ratio;
  lib.jpeg_calc_output_dimensions(&j->in);
}

/* Each block of 8 by 8 pixels takes a bit at least. */
static td_status *check_size(const job *j) {
  size_t blocks = (size_t)(j->in.image_width / BLOCK) *
                  (size_t)(j->in.image_height / BLOCK);
  if (j->o->recover || blocks / 8 <= j->len) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s: its size cannot be true",
                  unreadable);
}

static td_status *check_window(job *j) {
  const td_jpeg_reading *o = j->o;
  int64_t height = j->in.output_height, width = j->in.output_width;
  j->height = height, j->width = width;
  if (!o->crop) return NULL;
  if (o->top < 0 || o->left < 0 || o->height < 1 || o->width < 1 ||
      o->top >= height || o->left >= width || o->height > height - o->top ||
      o->width > width - o->left)
    return td_error(TD_INVALID_ARGUMENT,
                    "the window of %lld by %lld pixels at row %lld, column "
                    "%lld is not inside the picture of %lld by %lld",
                    (long long)o->height, (long long)o->width,
                    (long long)o->top, (long long)o->left, (long long)height,
                    (long long)width);
  j->height = o->height, j->width = o->width;
  j->top = o->top, j->left = o->left;
  return NULL;
}

/* Adobe's CMYK is written inverted; as RGB on black ink k. */
static void from_cmyk(const uint8_t *from, int64_t n, bool inverted,
                      uint8_t *to) {
  for (int64_t i = 0; i < n; i++, from += 4, to += 3)
    for (int k = 0; k < 3; k++) {
      int ink = inverted ? from[k] : 255 - from[k];
      int black = inverted ? from[3] : 255 - from[3];
      to[k] = (uint8_t)(ink * black / 255);
    }
}

static uint8_t *row_at(const job *j, int64_t y) {
  return j->rows + y * j->width * j->channels;
}

/* Is a row of the picture one of the result, as it is? */
static bool is_whole(const job *j) {
  return j->width == j->in.output_width &&
         j->in.output_components == j->channels;
}

/* The part of j->line that is in the window, as row `y` of the result. */
static void keep_line(job *j, int64_t y) {
  uint8_t *to = row_at(j, y);
  const uint8_t *from = j->line + j->left * j->in.output_components;
  if (j->in.out_color_space == JCS_CMYK)
    from_cmyk(from, j->width, j->in.saw_Adobe_marker, to);
  else
    memcpy(to, from, (size_t)(j->width * j->channels));
}

static void read_rows(job *j) {
  if (!lib.jpeg_start_decompress(&j->in)) return;
  bool whole = is_whole(j);
  while (j->got < j->height) {
    int64_t y = (int64_t)j->in.output_scanline - j->top;
    JSAMPROW line = whole && y >= 0 ? row_at(j, y) : j->line;
    if (lib.jpeg_read_scanlines(&j->in, &line, 1) != 1) return;
    if (y < 0) continue;
    if (!whole) keep_line(j, y);
    j->got = y + 1;
  }
}

/* Rows that are not there are black. */
static td_status *check_rows(job *j) {
  if (j->got == j->height) return NULL;
  float share = (float)j->got / (float)j->height;
  if (!j->o->recover || share < j->o->acceptable)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s: it is truncated: %lld of %lld rows are there%s",
                    unreadable, (long long)j->got, (long long)j->height,
                    j->o->recover ? ""
                                  : "; try_recover_truncated takes what is");
  int64_t row = j->width * j->channels;
  memset(j->rows + j->got * row, 0, (size_t)((j->height - j->got) * row));
  return NULL;
}

static td_status *make_room(job *j, td_tensor *out) {
  TD_TRY(check_size(j));
  TD_TRY(check_window(j));
  TD_TRY(td_image_new("JPEG", TD_UINT8, j->height, j->width, j->channels, out));
  j->rows = out->data;
  j->line = td_malloc((size_t)j->in.output_width * 4);
  return j->line ? NULL : td_oom();
}

static td_status *check_reading(const td_jpeg_reading *o) {
  if (o->channels != 0 && o->channels != 1 && o->channels != 3)
    return td_error(TD_INVALID_ARGUMENT,
                    "channels of a JPEG picture must be 0, 1 or 3, not %d",
                    o->channels);
  if (o->ratio != 1 && o->ratio != 2 && o->ratio != 4 && o->ratio != 8)
    return td_error(TD_INVALID_ARGUMENT, "ratio must be 1, 2, 4 or 8, not %d",
                    o->ratio);
  return NULL;
}

td_status *td_image_decode_jpeg(const void *bytes, size_t len,
                                const td_jpeg_reading *o, td_tensor *out) {
  TD_TRY(check_reading(o));
  TD_TRY(need_jpeg());
  job *j = td_calloc(1, sizeof *j);
  if (!j) return td_oom();
  *out = (td_tensor){0};
  j->o = o;
  set_errors(j);
  set_source(j, bytes, len);
  td_status *s = guard(j, unreadable, read_head);
  if (td_ok(s)) s = guard(j, unreadable, set_reading);
  if (td_ok(s)) s = make_room(j, out);
  if (td_ok(s)) s = guard(j, unreadable, read_rows);
  if (td_ok(s)) s = check_rows(j);
  if (!td_ok(s) && td_tensor_valid(out)) td_tensor_release(out);
  lib.jpeg_destroy_decompress(&j->in);
  td_free(j->line);
  td_free(j);
  return s;
}

td_status *td_image_jpeg_shape(const void *bytes, size_t len,
                               int64_t shape[3]) {
  TD_TRY(need_jpeg());
  job *j = td_calloc(1, sizeof *j);
  if (!j) return td_oom();
  set_errors(j);
  set_source(j, bytes, len);
  td_status *s = guard(j, unreadable, read_head);
  shape[0] = j->in.image_height;
  shape[1] = j->in.image_width;
  shape[2] = j->in.num_components;
  lib.jpeg_destroy_decompress(&j->in);
  td_free(j);
  return s;
}

/* ---- writing ------------------------------------------------------------- */

static void target_start(j_compress_ptr c) {
  job *j = (job *)c->err;
  j->target.next_output_byte = j->buffer;
  j->target.free_in_buffer = OUT_BYTES;
}

static void pass_on(job *j, size_t n) {
  td_str_addn(j->out, (const char *)j->buffer, n);
  if (j->out->failed) fail(j, "out of memory");
}

static boolean target_empty(j_compress_ptr c) {
  pass_on((job *)c->err, OUT_BYTES);
  target_start(c);
  return TRUE;
}

static void target_end(j_compress_ptr c) {
  job *j = (job *)c->err;
  pass_on(j, OUT_BYTES - j->target.free_in_buffer);
}

static void set_writing(job *j) {
  const td_jpeg_writing *w = j->w;
  lib.jpeg_set_defaults(&j->to);
  lib.jpeg_set_quality(&j->to, w->quality, TRUE);
  if (w->progressive) lib.jpeg_simple_progression(&j->to);
  if (!w->chroma_downsampling)
    for (int i = 0; i < j->to.num_components; i++) {
      j->to.comp_info[i].h_samp_factor = 1;
      j->to.comp_info[i].v_samp_factor = 1;
    }
  j->to.optimize_coding = w->optimize;
  j->to.density_unit = w->per_cm ? 2 : 1;
  j->to.X_density = (UINT16)w->x_density;
  j->to.Y_density = (UINT16)w->y_density;
}

static void write_xmp(job *j) {
  static const char name[] = "http://ns.adobe.com/xap/1.0/";
  JOCTET *at = j->buffer + OUT_BYTES / 2; /* not yet used for rows */
  memcpy(at, name, sizeof name);
  memcpy(at + sizeof name, j->w->xmp, j->w->xmp_len);
  lib.jpeg_write_marker(&j->to, JPEG_APP0 + 1, at,
                        (unsigned)(sizeof name + j->w->xmp_len));
}

static void write_all(job *j) {
  const int64_t *dim = j->image->shape.dim;
  j->to.err = &j->errors;
  lib.jpeg_CreateCompress(&j->to, JPEG_LIB_VERSION, sizeof j->to);
  j->to.dest = &j->target;
  j->to.image_height = (JDIMENSION)dim[0];
  j->to.image_width = (JDIMENSION)dim[1];
  j->to.input_components = (int)dim[2];
  j->to.in_color_space = dim[2] == 1 ? JCS_GRAYSCALE : JCS_RGB;
  set_writing(j);
  lib.jpeg_start_compress(&j->to, TRUE);
  if (j->w->xmp_len > 0) write_xmp(j);
  uint8_t *rows = j->image->data;
  while (j->to.next_scanline < j->to.image_height) {
    JSAMPROW row = rows + (int64_t)j->to.next_scanline * dim[1] * dim[2];
    lib.jpeg_write_scanlines(&j->to, &row, 1);
  }
  lib.jpeg_finish_compress(&j->to);
}

static td_status *check_writing(const td_tensor *t, const td_jpeg_writing *w) {
  td_shape_text text;
  const int64_t *dim = t->shape.dim;
  if (t->dtype != TD_UINT8 || t->shape.rank != 3 ||
      (dim[2] != 1 && dim[2] != 3))
    return td_error(TD_INVALID_ARGUMENT,
                    "a picture for JPEG is uint8 {height, width, 1 or 3 "
                    "channels}, not %s %s",
                    td_dtype_name(t->dtype), td_shape_str(&t->shape, &text));
  if (dim[0] < 1 || dim[1] < 1 || dim[0] > JPEG_MAX_DIMENSION ||
      dim[1] > JPEG_MAX_DIMENSION)
    return td_error(TD_INVALID_ARGUMENT,
                    "a picture for JPEG is 1 to %ld pixels high and wide, not "
                    "of the shape %s",
                    JPEG_MAX_DIMENSION, td_shape_str(&t->shape, &text));
  if (w->quality < 0 || w->quality > 100)
    return td_error(TD_INVALID_ARGUMENT,
                    "quality must be from 0 to 100, not %d", w->quality);
  if (w->x_density < 0 || w->y_density < 0 || w->x_density > UINT16_MAX ||
      w->y_density > UINT16_MAX)
    return td_error(TD_INVALID_ARGUMENT, "densities must be from 0 to 65535");
  if (w->xmp_len > OUT_BYTES / 2 - 64)
    return td_error(TD_INVALID_ARGUMENT,
                    "xmp_metadata of %zu bytes is too long", w->xmp_len);
  return NULL;
}

td_status *td_image_encode_jpeg(const td_tensor *image,
                                const td_jpeg_writing *w, td_str *out) {
  TD_TRY(check_writing(image, w));
  TD_TRY(need_jpeg());
  job *j = td_calloc(1, sizeof *j + OUT_BYTES);
  if (!j) return td_oom();
  j->buffer = (JOCTET *)(j + 1);
  j->image = image;
  j->w = w;
  j->out = out;
  j->target.init_destination = target_start;
  j->target.empty_output_buffer = target_empty;
  j->target.term_destination = target_end;
  set_errors(j);
  td_status *s = guard(j, "the JPEG picture cannot be made", write_all);
  if (out->failed) {
    td_status_release(s);
    s = td_oom();
  }
  lib.jpeg_destroy_compress(&j->to);
  td_free(j);
  return s;
}
