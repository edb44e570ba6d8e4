/* image_color.cu - contrast, hue and saturation; RGB and HSV, on a card: in
 * double, as on the processor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/group.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/image_color.h"

namespace {

/* ---- one colour ---------------------------------------------------------- */

enum map { RGB_TO_HSV, HSV_TO_RGB, HUE, SATURATION };

__device__ inline double most(double a, double b) {
  return a > b ? a : b;
}
__device__ inline double least(double a, double b) {
  return a < b ? a : b;
}
__device__ inline double clip(double x) {
  return x < 0 ? 0 : x > 1 ? 1 : x;
}

__device__ inline void to_hsv(const double *c, double *hsv) {
  double r = c[0], g = c[1], b = c[2];
  double v = most(most(r, g), b), range = v - least(least(r, g), b), h = 0;
  if (range > 0) {
    double norm = 1 / (6 * range);
    h = r == v   ? norm * (g - b)
        : g == v ? norm * (b - r) + 2.0 / 6
                 : norm * (r - g) + 4.0 / 6;
    if (h < 0) h += 1;
  }
  hsv[0] = h;
  hsv[1] = v > 0 ? range / v : 0;
  hsv[2] = v;
}

/* The colour of hue h whose channels lie from `low` to low + range. */
__device__ inline void paint(double h, double low, double range, double *rgb) {
  rgb[0] = low + range * clip(fabs(h * 6 - 3) - 1);
  rgb[1] = low + range * clip(2 - fabs(h * 6 - 2));
  rgb[2] = low + range * clip(2 - fabs(h * 6 - 4));
}

template <map how>
__device__ inline void recolor(const double *in, double by, double *out) {
  double c[3] = {in[0], in[1], in[2]};
  if (how != HSV_TO_RGB) to_hsv(in, c);
  if (how == RGB_TO_HSV) {
    for (int k = 0; k < 3; k++) out[k] = c[k];
  } else if (how == HUE) { /* channels below 0 have a range, no saturation */
    double low = least(least(in[0], in[1]), in[2]), h = c[0] + by;
    paint(h - floor(h), low, c[2] - low, out);
  } else {
    if (how == SATURATION) c[1] = clip(c[1] * by);
    paint(c[0], (1 - c[1]) * c[2], c[1] * c[2], out);
  }
}

/* ---- maps ---------------------------------------------------------------- */

template <map how, class T>
__global__ void map_all(int64_t n, const T *x, const float *by, T *y) {
  TD_EACH(i, n) {
    double in[3], out[3];
    for (int k = 0; k < 3; k++) in[k] = (double)td_num<T>::load(x[3 * i + k]);
    recolor<how>(in, by ? (double)*by : 0, out);
    for (int k = 0; k < 3; k++)
      y[3 * i + k] = td_num<T>::store((typename td_num<T>::in)out[k]);
  }
}

template <map how, class T> td_status *launch(td_kernel_ctx *c, td_tensor *y) {
  int64_t n = td_tensor_count(y) / 3;
  const float *by =
      c->n_in > 1 ? td_cuda_at<const float>(td_in(c, 1)) : nullptr;
  return TD_LAUNCH(c, (map_all<how, T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, td_cuda_at<const T>(td_in(c, 0)), by, td_cuda_at<T>(y));
}

template <map how> td_status *map_run(td_kernel_ctx *c) {
  td_tensor *y;
  TD_TRY(td_colors_check(c));
  TD_TRY(td_out_like(c, 0, 0, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  switch ((int)y->dtype) {
  case TD_FLOAT16:
    return launch<how, td_half>(c, y);
  case TD_BFLOAT16:
    return launch<how, td_bfloat>(c, y);
  case TD_FLOAT32:
    return launch<how, float>(c, y);
  default:
    return launch<how, double>(c, y);
  }
}

/* ---- contrast ------------------------------------------------------------ */

/* A block makes a channel of a picture. */
template <class T>
__global__ void stretch(int64_t n, int64_t pixels, int64_t channels,
                        const float *factor, const T *x, T *y) {
  for (int64_t p = blockIdx.x; p < n; p += gridDim.x) {
    int64_t at = p / channels * pixels * channels + p % channels;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < pixels; i += blockDim.x)
      sum += (double)td_num<T>::load(x[at + i * channels]);
    double mean = group_join<group_add, 256>(sum) / (double)pixels;
    for (int64_t i = threadIdx.x; i < pixels; i += blockDim.x) {
      double v = (double)td_num<T>::load(x[at + i * channels]);
      y[at + i * channels] = td_num<T>::store(
          (typename td_num<T>::in)((v - mean) * (double)*factor + mean));
    }
  }
}

template <class T> td_status *stretch_all(td_kernel_ctx *c, td_tensor *y) {
  const td_shape *s = &y->shape;
  int64_t channels = s->dim[s->rank - 1];
  int64_t pixels = s->dim[s->rank - 3] * s->dim[s->rank - 2];
  int64_t n = td_tensor_count(y) / pixels;
  return TD_LAUNCH(c, (stretch<T>), td_cuda_grid(c, n * TD_CUDA_BLOCK), 256, 0,
                   n, pixels, channels, td_cuda_at<const float>(td_in(c, 1)),
                   td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<T>(y));
}

td_status *contrast_run(td_kernel_ctx *c) {
  td_tensor *y;
  TD_TRY(td_contrast_check(c));
  TD_TRY(td_out(c, 0, &td_in(c, 0)->shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  return y->dtype == TD_FLOAT16 ? stretch_all<td_half>(c, y)
                                : stretch_all<float>(c, y);
}

/* ---- tables -------------------------------------------------------------- */

#define ROW(op_, types_, run_)                                                 \
  {.op = op_, .device = "CUDA", .types = "T=" types_, .run = run_}

const td_kernel_def kernels[] = {
    ROW("RGBToHSV", "half|bfloat16|float|double", map_run<RGB_TO_HSV>),
    ROW("HSVToRGB", "half|bfloat16|float|double", map_run<HSV_TO_RGB>),
    ROW("AdjustHue", "half|float", map_run<HUE>),
    ROW("AdjustSaturation", "half|float", map_run<SATURATION>),
    ROW("AdjustContrastv2", "half|float", contrast_run),
    {},
};

} // namespace

TD_CUDA_MODULE(image_color, kernels)
