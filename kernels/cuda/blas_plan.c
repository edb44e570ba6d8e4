/* blas_plan.c - what cuBLASLt is told of a product.
 *
 * It has matrices column after column. What is stored row after row is, seen
 * so, the transpose: C = A B becomes C' = B' A', the operands change places,
 * and nothing is moved.
 *
 * Sums of float32 are of float32 unless td.config allows less; those of halves
 * are float32 always, also where a sum is cut into parts: parts are not added
 * in the type of the result, nor, where results must be the same in every run,
 * in the order in which they come.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/blas_plan.h"

#include <stddef.h>
#include <string.h>

enum {
  ALIGN_MOST = 256,
  WAYS = 4 /* asked for: the first that works is taken */
};

/* ---- the library --------------------------------------------------------- */

/* Attributes of 13 are set; a later one may mean something else. */
static bool check(const void *table, td_str *why) {
  size_t version = ((const td_cublaslt *)table)->GetVersion();
  if (version >= 130000 && version < 140000) return true;
  td_str_addf(why, "it is version %zu, not one of 13", version);
  return false;
}

static const td_cuda_symbol symbols[] = {
#define SYMBOL(name) {"cublasLt" #name, offsetof(td_cublaslt, name)},
    TD_CUBLASLT_EACH(SYMBOL)
#undef SYMBOL
        {NULL, 0},
};
static td_cuda_door door = {.soname = "libcublasLt.so.13",
                            .what = "cuBLASLt",
                            .symbols = symbols,
                            .check = check};
static td_cublaslt functions; /* once the door is open */

const td_cublaslt *td_cublaslt_open(void) {
  return td_cuda_door_open(&door, &functions) ? &functions : NULL;
}

void td_cublaslt_tell(td_str *out) {
  td_cuda_door_tell(&door, &functions, out);
}

/* ---- types --------------------------------------------------------------- */

typedef struct kind {
  td_dtype dtype;
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
} kind;

static const kind kinds[] = {
    {TD_FLOAT32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {TD_FLOAT64, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F},
    {TD_FLOAT16, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {TD_BFLOAT16, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {TD_COMPLEX64, CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F},
    {TD_COMPLEX128, CUDA_C_64F, CUDA_C_64F, CUBLAS_COMPUTE_64F},
};

static const kind *kind_of(int32_t dtype) {
  for (size_t i = 0; i < TD_COUNT(kinds); i++)
    if ((int32_t)kinds[i].dtype == dtype) return &kinds[i];
  return NULL;
}

static cublasComputeType_t compute_of(const td_cuda_plan_key *key) {
  if (key->dtype == TD_FLOAT32 && key->matmul == TD_PRECISION_TF32)
    return CUBLAS_COMPUTE_32F_FAST_TF32;
  if (key->dtype == TD_FLOAT32 && key->matmul == TD_PRECISION_BFLOAT16)
    return CUBLAS_COMPUTE_32F_FAST_16BF;
  return kind_of(key->dtype)->compute;
}

/* A complex 1 begins with the real one. */
const void *td_cuda_plan_one(const td_cuda_plan *plan) {
  static const float one[2] = {1, 0};
  static const double one_d[2] = {1, 0};
  bool wide = plan->key.dtype == TD_FLOAT64 || plan->key.dtype == TD_COMPLEX128;
  return wide ? (const void *)one_d : one;
}

const void *td_cuda_plan_zero(void) {
  static const double zero[2] = {0, 0};
  return zero;
}

/* ---- keys ---------------------------------------------------------------- */

static cublasOperation_t operation(bool trans, bool conj) {
  return !trans ? CUBLAS_OP_N : conj ? CUBLAS_OP_C : CUBLAS_OP_T;
}

/* All matrices of a batch are that well aligned. */
static int32_t align_of(const void *at, int64_t step, size_t size) {
  uint64_t bits = (uint64_t)(uintptr_t)at | (uint64_t)step * size | ALIGN_MOST;
  return (int32_t)(bits & (~bits + 1));
}

bool td_cuda_plan_key_of(const td_cuda_product *p, td_precision precision,
                         td_cuda_plan_key *key) {
  size_t size = td_dtype_size(p->dtype);
  bool known = kind_of(p->dtype) && p->m > 0 && p->n > 0 && p->k > 0 &&
               p->batch > 0 && p->batch <= INT32_MAX &&
               (p->trans_a || !p->conj_a) && (p->trans_b || !p->conj_b);
  if (!known) return false;
  memset(key, 0, sizeof *key);
  *key = (td_cuda_plan_key){
      .m = p->m,
      .n = p->n,
      .k = p->k,
      .batch = p->batch,
      .step_a = p->batch > 1 ? p->step_a : 0,
      .step_b = p->batch > 1 ? p->step_b : 0,
      .dtype = p->dtype,
      .matmul = p->dtype == TD_FLOAT32 ? (int32_t)precision.matmul : 0,
      .op_a = operation(p->trans_a, p->conj_a),
      .op_b = operation(p->trans_b, p->conj_b),
      .deterministic = precision.deterministic};
  key->align_a = align_of(p->a, key->step_a, size);
  key->align_b = align_of(p->b, key->step_b, size);
  key->align_to = align_of(p->to, p->batch > 1 ? p->m * p->n : 0, size);
  return true;
}

/* ---- descriptors --------------------------------------------------------- */

#define SET(f, of, attribute, value)                                           \
  ((f)(of, attribute, &(value), sizeof(value)) == CUBLAS_STATUS_SUCCESS)

/* Stored as `rows` x `columns`, row after row. */
static bool layout(const td_cublaslt *lt, const td_cuda_plan_key *key,
                   int64_t rows, int64_t columns, int64_t step,
                   cublasLtMatrixLayout_t *out) {
  int32_t batch = (int32_t)key->batch;
  cudaDataType_t type = kind_of(key->dtype)->data;
  if (lt->MatrixLayoutCreate(out, type, (uint64_t)columns, (uint64_t)rows,
                             columns) != CUBLAS_STATUS_SUCCESS)
    return false;
  if (batch == 1) return true;
  return SET(lt->MatrixLayoutSetAttribute, *out,
             CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch) &&
         SET(lt->MatrixLayoutSetAttribute, *out,
             CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
}

static bool describe(const td_cublaslt *lt, td_cuda_plan *plan) {
  const td_cuda_plan_key *k = &plan->key;
  bool a = k->op_a != CUBLAS_OP_N, b = k->op_b != CUBLAS_OP_N;
  if (lt->MatmulDescCreate(&plan->desc, compute_of(k),
                           kind_of(k->dtype)->scale) != CUBLAS_STATUS_SUCCESS)
    return false;
  return SET(lt->MatmulDescSetAttribute, plan->desc,
             CUBLASLT_MATMUL_DESC_TRANSA, k->op_b) &&
         SET(lt->MatmulDescSetAttribute, plan->desc,
             CUBLASLT_MATMUL_DESC_TRANSB, k->op_a) &&
         layout(lt, k, b ? k->n : k->k, b ? k->k : k->n, k->step_b,
                &plan->first) &&
         layout(lt, k, a ? k->k : k->m, a ? k->m : k->k, k->step_a,
                &plan->second) &&
         layout(lt, k, k->m, k->n, k->m * k->n, &plan->to);
}

bool td_cuda_plan_describe(const td_cublaslt *lt, td_cuda_plan *plan) {
  plan->none = !describe(lt, plan);
  return !plan->none;
}

/* ---- the way ------------------------------------------------------------- */

static uint32_t reductions(const td_cuda_plan_key *k) {
  bool half = k->dtype == TD_FLOAT16 || k->dtype == TD_BFLOAT16;
  uint32_t mask = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return half || k->deterministic ? mask
                                  : mask | CUBLASLT_REDUCTION_SCHEME_INPLACE;
}

static bool prefer(const td_cublaslt *lt, const td_cuda_plan_key *k,
                   size_t most, cublasLtMatmulPreference_t p) {
  uint64_t bytes = most;
  uint32_t scheme = reductions(k), a = (uint32_t)k->align_a,
           b = (uint32_t)k->align_b, to = (uint32_t)k->align_to;
  __typeof__(lt->MatmulPreferenceSetAttribute) set =
      lt->MatmulPreferenceSetAttribute;
  return SET(set, p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes) &&
         SET(set, p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, scheme) &&
         SET(set, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b) &&
         SET(set, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a) &&
         SET(set, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, to) &&
         SET(set, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, to);
}

static bool ask(const td_cublaslt *lt, cublasLtHandle_t handle, size_t most,
                cublasLtMatmulPreference_t preference, td_cuda_plan *plan) {
  cublasLtMatmulHeuristicResult_t ways[WAYS];
  int n = 0;
  if (lt->MatmulAlgoGetHeuristic(handle, plan->desc, plan->first, plan->second,
                                 plan->to, plan->to, preference, WAYS, ways,
                                 &n) != CUBLAS_STATUS_SUCCESS)
    return false;
  for (int i = 0; i < n; i++)
    if (ways[i].state == CUBLAS_STATUS_SUCCESS &&
        ways[i].workspaceSize <= most) {
      plan->algo = ways[i].algo;
      plan->workspace = ways[i].workspaceSize;
      return true;
    }
  return false;
}

bool td_cuda_plan_find(const td_cublaslt *lt, cublasLtHandle_t handle,
                       size_t most, td_cuda_plan *plan) {
  cublasLtMatmulPreference_t p;
  if (!td_cuda_plan_describe(lt, plan)) return false;
  plan->none = lt->MatmulPreferenceCreate(&p) != CUBLAS_STATUS_SUCCESS;
  if (plan->none) return false;
  plan->none =
      !prefer(lt, &plan->key, most, p) || !ask(lt, handle, most, p, plan);
  (void)lt->MatmulPreferenceDestroy(p);
  return !plan->none;
}

void td_cuda_plan_deinit(const td_cublaslt *lt, td_cuda_plan *plan) {
  if (plan->desc) (void)lt->MatmulDescDestroy(plan->desc);
  if (plan->first) (void)lt->MatrixLayoutDestroy(plan->first);
  if (plan->second) (void)lt->MatrixLayoutDestroy(plan->second);
  if (plan->to) (void)lt->MatrixLayoutDestroy(plan->to);
  *plan = (td_cuda_plan){0};
}
