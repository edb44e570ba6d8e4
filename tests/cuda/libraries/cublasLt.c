/* cublasLt.c - a libcublasLt.so.13 for the fake runtime: products by their
 * definition, on its streams.
 *
 * It is strict where the real one is fast: a way that was found for other
 * layouts, an address less aligned than was promised, working memory that is
 * missing are refused; working memory is written over. What inputs lose in the
 * faster modes they lose here, too. A sum of an odd number of products takes
 * working memory.
 *
 * TIDE_FAKE_FAIL "cublasLtMatmul:2:13" and so on, as the fake runtime's own
 * functions; td_fake_blas counts what was asked for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/fake_blas.h"

#define API __attribute__((visibility("default")))

td_fake_blas_counts td_fake_blas;
#define ONE_MORE(of) __atomic_fetch_add(&td_fake_blas.of, 1, __ATOMIC_RELAXED)
#define ONE_LESS(of) __atomic_fetch_sub(&td_fake_blas.of, 1, __ATOMIC_RELAXED)

#define OK CUBLAS_STATUS_SUCCESS
#define WRONG CUBLAS_STATUS_INVALID_VALUE

/* ---- descriptors --------------------------------------------------------- */

typedef struct desc {
  int32_t compute, scale, op[2];
} desc;

typedef struct layout {
  int32_t type, batch;
  uint64_t rows, cols;
  int64_t ld, step;
} layout;

typedef struct preference {
  uint64_t workspace;
  uint32_t reduction, align[4];
} preference;

static void *make(size_t size) {
  ONE_MORE(descriptors);
  return calloc(1, size);
}

static cublasStatus_t drop(void *p) {
  if (p) ONE_LESS(descriptors);
  free(p);
  return p ? OK : WRONG;
}

static cublasStatus_t set(void *to, size_t room, const void *from,
                          size_t size) {
  if (room != size) return WRONG;
  memcpy(to, from, size);
  return OK;
}

API size_t cublasLtGetVersion(void) {
  return 130100;
}

API cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
  if (td_fake_call("cublasLtCreate") != cudaSuccess)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *out = calloc(1, 1);
  ONE_MORE(handles);
  return OK;
}

API cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
  ONE_LESS(handles);
  free(h);
  return OK;
}

API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                            cublasComputeType_t compute,
                                            cudaDataType_t scale) {
  desc *d = make(sizeof *d);
  *d = (desc){compute, scale, {CUBLAS_OP_N, CUBLAS_OP_N}};
  *out = (cublasLtMatmulDesc_t)d;
  return OK;
}

API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  return drop(d);
}

API cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t attribute,
    const void *from, size_t size) {
  desc *d = (desc *)to;
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
    return set(&d->op[0], sizeof d->op[0], from, size);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
    return set(&d->op[1], sizeof d->op[1], from, size);
  return WRONG;
}

API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
                                              cudaDataType type, uint64_t rows,
                                              uint64_t cols, int64_t ld) {
  layout *l = make(sizeof *l);
  *l = (layout){type, 1, rows, cols, ld, 0};
  *out = (cublasLtMatrixLayout_t)l;
  return OK;
}

API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  return drop(l);
}

API cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t attribute,
    const void *from, size_t size) {
  layout *l = (layout *)to;
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(&l->batch, sizeof l->batch, from, size);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(&l->step, sizeof l->step, from, size);
  return WRONG;
}

API cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  preference *p = make(sizeof *p);
  *p = (preference){0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}};
  *out = (cublasLtMatmulPreference_t)p;
  return OK;
}

API cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return drop(p);
}

API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t to,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *from,
    size_t size) {
  preference *p = (preference *)to;
  int i = (int)attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return set(&p->workspace, sizeof p->workspace, from, size);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return set(&p->reduction, sizeof p->reduction, from, size);
  if (i < 0 || i > 3) return WRONG;
  return set(&p->align[i], sizeof p->align[i], from, size);
}

/* ---- a product ----------------------------------------------------------- */

/* All there is to it; also what a way was found for. */
typedef struct product {
  desc d;
  layout in[2], to;
} product;

static product product_of(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t to) {
  product p;
  memset(&p, 0, sizeof p);
  p.d = *(desc *)d;
  p.in[0] = *(layout *)a;
  p.in[1] = *(layout *)b;
  p.to = *(layout *)to;
  return p;
}

static uint64_t mark(const product *p) {
  const unsigned char *at = (const unsigned char *)p;
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < sizeof *p; i++) h = (h ^ at[i]) * 1099511628211u;
  return h;
}

static size_t size_of(int32_t type) {
  switch (type) {
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return 2;
  case CUDA_R_32F:
    return 4;
  case CUDA_R_64F:
  case CUDA_C_32F:
    return 8;
  default:
    return 16;
  }
}

static bool kinds_fit(const product *p) {
  int32_t t = p->to.type, c = p->d.compute, s = p->d.scale;
  bool single = c == CUBLAS_COMPUTE_32F;
  bool fast =
      c == CUBLAS_COMPUTE_32F_FAST_TF32 || c == CUBLAS_COMPUTE_32F_FAST_16BF;
  if (p->in[0].type != t || p->in[1].type != t) return false;
  if (t == CUDA_R_32F) return (single || fast) && s == CUDA_R_32F;
  if (t == CUDA_R_16F || t == CUDA_R_16BF) return single && s == CUDA_R_32F;
  if (t == CUDA_C_32F) return single && s == CUDA_C_32F;
  return c == CUBLAS_COMPUTE_64F && s == t &&
         (t == CUDA_R_64F || t == CUDA_C_64F);
}

static uint64_t rows_of(const product *p, int i) {
  return p->d.op[i] ? p->in[i].cols : p->in[i].rows;
}
static uint64_t cols_of(const product *p, int i) {
  return p->d.op[i] ? p->in[i].rows : p->in[i].cols;
}

static bool layout_fits(const layout *l, int32_t batch) {
  return l->rows > 0 && l->cols > 0 && l->ld >= (int64_t)l->rows &&
         l->batch == batch;
}

static bool fits(const product *p) {
  const layout *to = &p->to;
  return kinds_fit(p) && to->batch > 0 && layout_fits(&p->in[0], to->batch) &&
         layout_fits(&p->in[1], to->batch) && layout_fits(to, to->batch) &&
         (to->batch == 1 || to->step >= to->ld * (int64_t)to->cols) &&
         rows_of(p, 0) == to->rows && cols_of(p, 1) == to->cols &&
         cols_of(p, 0) == rows_of(p, 1);
}

API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t to, cublasLtMatmulPreference_t preferred, int n,
    cublasLtMatmulHeuristicResult_t *out, int *found) {
  product p = product_of(d, a, b, to);
  const preference *want = (const preference *)preferred;
  ONE_MORE(asked);
  *found = 0;
  if (!h || c != to || n < 1 || !fits(&p)) return WRONG;
  if (__atomic_load_n(&td_fake_blas.none, __ATOMIC_RELAXED))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  memset(out, 0, sizeof *out);
  out->workspaceSize = cols_of(&p, 0) % 2 ? 1000 : 0;
  if (out->workspaceSize > want->workspace) return CUBLAS_STATUS_NOT_SUPPORTED;
  out->algo.data[0] = mark(&p);
  for (int i = 0; i < 4; i++) out->algo.data[1 + i] = want->align[i];
  out->algo.data[5] = out->workspaceSize;
  *found = 1;
  return OK;
}

/* ---- computing ----------------------------------------------------------- */

static double half(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  double v = e == 31  ? (m ? NAN : INFINITY)
             : e == 0 ? ldexp(m, -24)
                      : ldexp(1024 + m, e - 25);
  return h & 0x8000 ? -v : v;
}

/* The nearest number of `bits` behind the first; even where two are. */
static double rounded(double x, int bits, int least) {
  int e;
  if (x == 0 || !isfinite(x)) return x;
  (void)frexp(x, &e);
  if (e < least) e = least;
  return ldexp(nearbyint(ldexp(x, bits + 1 - e)), e - bits - 1);
}

static uint16_t to_half(double x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  double v = fabs(rounded(x, 10, -13));
  int e;
  if (x != x) return 0x7e00;
  if (v >= 65536) return sign | 0x7c00;
  if (v < 0x1p-14) return sign | (uint16_t)ldexp(v, 24);
  (void)frexp(v, &e);
  return (uint16_t)(sign | (e + 14) << 10 | ((int)ldexp(v, 11 - e) & 1023));
}

static double _Complex load(const product *p, const layout *l, const void *at,
                            int64_t i) {
  float f;
  uint32_t bits;
  switch (l->type) {
  case CUDA_R_16F:
    return half(((const uint16_t *)at)[i]);
  case CUDA_R_16BF:
    bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
  case CUDA_R_32F:
    f = ((const float *)at)[i];
    if (p->d.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
      return rounded(f, 10, -125);
    if (p->d.compute == CUBLAS_COMPUTE_32F_FAST_16BF)
      return rounded(f, 7, -125);
    return f;
  case CUDA_R_64F:
    return ((const double *)at)[i];
  case CUDA_C_32F:
    return ((const float _Complex *)at)[i];
  default:
    return ((const double _Complex *)at)[i];
  }
}

static void store(int32_t type, void *at, int64_t i, double _Complex v) {
  float f = (float)rounded(creal(v), type == CUDA_R_16BF ? 7 : 23, -125);
  uint32_t bits;
  switch (type) {
  case CUDA_R_16F:
    ((uint16_t *)at)[i] = to_half(creal(v));
    break;
  case CUDA_R_16BF:
    memcpy(&bits, &f, sizeof bits);
    ((uint16_t *)at)[i] = (uint16_t)(bits >> 16 | (f != f));
    break;
  case CUDA_R_32F:
    ((float *)at)[i] = f;
    break;
  case CUDA_R_64F:
    ((double *)at)[i] = creal(v);
    break;
  case CUDA_C_32F:
    ((float _Complex *)at)[i] = (float _Complex)v;
    break;
  default:
    ((double _Complex *)at)[i] = v;
  }
}

typedef struct work {
  product p;
  const void *in[2];
  void *to, *space;
  size_t bytes;
} work;

/* Element (i, k) of an operand as its operation has it. */
static double _Complex element(const work *w, int which, int64_t z, int64_t i,
                               int64_t k) {
  const layout *l = &w->p.in[which];
  int32_t op = w->p.d.op[which];
  int64_t at = z * l->step + (op ? k + i * l->ld : i + k * l->ld);
  double _Complex v = load(&w->p, l, w->in[which], at);
  return op == CUBLAS_OP_C ? conj(v) : v;
}

static void run(void *arg) {
  work *w = arg;
  const layout *to = &w->p.to;
  int64_t n = (int64_t)cols_of(&w->p, 0);
  if (w->bytes) memset(w->space, 0xa5, w->bytes);
  for (int64_t z = 0; z < to->batch; z++)
    for (int64_t j = 0; j < (int64_t)to->cols; j++)
      for (int64_t i = 0; i < (int64_t)to->rows; i++) {
        double _Complex sum = 0;
        for (int64_t k = 0; k < n; k++) {
          double _Complex x = element(w, 0, z, i, k),
                          y = element(w, 1, z, k, j);
          sum += CMPLX(creal(x) * creal(y) - cimag(x) * cimag(y),
                       creal(x) * cimag(y) + cimag(x) * creal(y));
        }
        store(to->type, w->to, z * to->step + i + j * to->ld, sum);
      }
  free(w);
}

/* ---- enqueueing ---------------------------------------------------------- */

static bool keeps(const layout *l, const void *at, uint64_t promised) {
  for (int64_t z = 0; z < l->batch; z++)
    if (((uintptr_t)at + (uintptr_t)(z * l->step) * size_of(l->type)) %
        promised)
      return false;
  return true;
}

static bool is_one(const void *alpha, int32_t scale) {
  return scale == CUDA_R_32F || scale == CUDA_C_32F
             ? *(const float *)alpha == 1
             : *(const double *)alpha == 1;
}

static bool is_zero(const void *beta, int32_t scale) {
  return scale == CUDA_R_32F || scale == CUDA_C_32F
             ? *(const float *)beta == 0
             : *(const double *)beta == 0;
}

API cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                  const void *alpha, const void *a,
                                  cublasLtMatrixLayout_t in_a, const void *b,
                                  cublasLtMatrixLayout_t in_b, const void *beta,
                                  const void *c, cublasLtMatrixLayout_t in_c,
                                  void *to, cublasLtMatrixLayout_t in_to,
                                  const cublasLtMatmulAlgo_t *algo, void *space,
                                  size_t bytes, cudaStream_t stream) {
  product p = product_of(d, in_a, in_b, in_to);
  ONE_MORE(products);
  if (td_fake_call("cublasLtMatmul") != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!h || c != to || in_c != in_to || !is_one(alpha, p.d.scale) ||
      !is_zero(beta, p.d.scale) || algo->data[0] != mark(&p) ||
      bytes < algo->data[5] || (bytes && (!space || (uintptr_t)space % 256)) ||
      !keeps(&p.in[0], a, algo->data[1]) ||
      !keeps(&p.in[1], b, algo->data[2]) || !keeps(&p.to, to, algo->data[4])) {
    ONE_MORE(refused);
    fputs("fake cuBLASLt: a product is refused\n", stderr);
    return WRONG;
  }
  work *w = malloc(sizeof *w);
  if (!w) return CUBLAS_STATUS_ALLOC_FAILED;
  *w = (work){p, {a, b}, to, space, bytes};
  td_fake_untag_words(w->in, sizeof w->in);
  td_fake_untag_words(&w->to, sizeof w->to + sizeof w->space);
  return td_fake_enqueue(stream, run, free, w) == cudaSuccess
             ? OK
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
