/* image_encode.c - pictures written: EncodePng, EncodeJpeg.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/io/image.h"
#include "kernels/text.h"

/* ---- shapes -------------------------------------------------------------- */

/* All axes but {height, width, channels} are pictures. */
static td_status *png_infer(td_infer *c) {
  td_shape s = *td_infer_in(c, 0);
  TD_TRY(td_infer_rank_at_least(c, 0, 3, "image"));
  if (s.rank >= 3) s.rank -= 3;
  td_infer_out(c, 0, s);
  return NULL;
}

static td_status *jpeg_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 3, "image", NULL));
  td_infer_out(c, 0, td_shape_scalar());
  return NULL;
}

/* ---- writing ------------------------------------------------------------- */

static td_status *png_each(td_kernel_ctx *c, td_text *text) {
  const td_tensor *x = td_in(c, 0);
  int compression = (int)td_node_int(td_ctx_node(c), "compression");
  int rank = x->shape.rank;
  td_tensor one = *x; /* moves along the pictures; not counted */
  one.shape = td_shape_of(3, x->shape.dim + rank - 3);
  size_t step = (size_t)td_tensor_count(&one) * td_dtype_size(x->dtype);
  int64_t n = td_shape_span(&x->shape, 0, rank - 3);
  if (!td_text_reserve(text, n)) return td_oom();
  for (int64_t i = 0; i < n; i++) {
    one.data = (char *)x->data + (size_t)i * step;
    TD_TRY(td_image_encode_png(&one, compression, &text->all));
    td_text_end(text);
  }
  return NULL;
}

static td_status *png_run(td_kernel_ctx *c) {
  td_shape shape = td_in(c, 0)->shape;
  td_shape_text shown;
  td_text text = {0};
  if (shape.rank < 3)
    return td_error(TD_INVALID_ARGUMENT,
                    "image must be {height, width, channels}, not %s",
                    td_shape_str(&shape, &shown));
  td_status *s = png_each(c, &text);
  shape.rank -= 3;
  if (td_ok(s)) s = td_text_out(c, 0, &shape, &text);
  td_text_drop(&text);
  return s;
}

/* format says how many channels there must be. */
static td_status *check_format(const td_node *n, const td_tensor *x) {
  const char *format = td_node_string(n, "format");
  int64_t want = strcmp(format, "grayscale") == 0 ? 1
                 : strcmp(format, "rgb") == 0     ? 3
                                                  : 0;
  if (want == 0 || x->shape.rank != 3 || x->shape.dim[2] == want) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "format \"%s\" takes %lld channels, not %lld", format,
                  (long long)want, (long long)x->shape.dim[2]);
}

static td_status *jpeg_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_attr *metadata = td_node_attr(n, "xmp_metadata");
  td_bytes xmp = metadata ? metadata->s : (td_bytes){0};
  td_jpeg_writing w = {
      .quality = (int)td_node_int(n, "quality"),
      .progressive = td_node_bool(n, "progressive"),
      .optimize = td_node_bool(n, "optimize_size"),
      .chroma_downsampling = td_node_bool(n, "chroma_downsampling"),
      .per_cm = strcmp(td_node_string(n, "density_unit"), "cm") == 0,
      .x_density = (int)td_node_int(n, "x_density"),
      .y_density = (int)td_node_int(n, "y_density"),
      .xmp = xmp.at,
      .xmp_len = xmp.len,
  };
  td_text text = {0};
  td_shape scalar = td_shape_scalar();
  TD_TRY(check_format(n, td_in(c, 0)));
  td_status *s = td_text_reserve(&text, 1) ? NULL : td_oom();
  if (td_ok(s)) s = td_image_encode_jpeg(td_in(c, 0), &w, &text.all);
  if (td_ok(s)) {
    td_text_end(&text);
    s = td_text_out(c, 0, &scalar, &text);
  }
  td_text_drop(&text);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "EncodePng",
     .sig = "image: T -> contents: string; compression: int = -1; "
            "T: {uint8, uint16} = uint8",
     .shape = png_infer,
     .doc = "A picture of 1 to 4 channels as the bytes of a PNG file.",
     .example = "td.decode_png(td.encode_png(td.cast({{{7}, {8}}}, "
                "\"uint8\")))  --> 7 8",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "EncodeJpeg",
     .sig = "image: uint8 -> contents: string; "
            "format: {\"\", \"grayscale\", \"rgb\"} = \"\"; "
            "quality: int = 95; progressive: bool = false; "
            "optimize_size: bool = false; chroma_downsampling: bool = true; "
            "density_unit: {\"in\", \"cm\"} = \"in\"; x_density: int = 300; "
            "y_density: int = 300; xmp_metadata: string = \"\"",
     .shape = jpeg_infer,
     .doc = "A picture of 1 or 3 channels as the bytes of a JPEG file.",
     .example = "td.extract_jpeg_shape(td.encode_jpeg(td.cast({{{1}, {2}}}, "
                "\"uint8\"), {quality = 50}))  --> 1 2 1",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "EncodePng", .device = "CPU", .run = png_run},
    {.op = "EncodeJpeg", .device = "CPU", .run = jpeg_run},
    {0},
};

TD_MODULE(image_encode, ops, kernels)
