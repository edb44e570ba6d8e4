/* blas.c - products enqueued by cuBLASLt; the plans of those seen before.
 *
 * Which of its ways the library takes is asked once for products of the same
 * kind, sizes and alignments, and kept, also that there is none; of too many
 * the oldest is forgotten. Working memory is taken for each product, of the
 * size that its way needs: as all memory of kernels it is free for the next
 * kernel at once, since there is one stream. Where there is none left, our own
 * kernels, which need less, have their turn.
 *
 * A device's part is made when its first product comes, and is used under the
 * device's lock, as kernels are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/blas.h"

#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "kernels/cuda/blas_plan.h"

enum {
  PLANS = 1024,
  CALLS = 64, /* a product of broadcast batches is cut into, at most */
};
#define WORK ((size_t)4 << 20)
#define WORK_9 ((size_t)32 << 20) /* from capability 9.0 on */

struct td_cuda_blas {
  const td_cublaslt *lt; /* NULL: there is none, or not for this card */
  cublasLtHandle_t handle;
  size_t most; /* bytes of working memory */
  td_map by_key;
  td_cuda_plan *plans[PLANS];
  int next; /* where the next plan goes, in the place of the oldest */
};

/* ---- of a device --------------------------------------------------------- */

static size_t working_memory(const td_cuda *d) {
  int major = 0;
  cudaError_t e = cudaDeviceGetAttribute(
      &major, cudaDevAttrComputeCapabilityMajor, d->ordinal);
  if (e != cudaSuccess) (void)cudaGetLastError();
  return major >= 9 ? WORK_9 : WORK;
}

/* NULL: no memory. */
static struct td_cuda_blas *of_device(td_cuda *d) {
  struct td_cuda_blas *b = d->blas;
  if (TD_LIKELY(b != NULL)) return b;
  if (!(b = td_calloc(1, sizeof *b))) return NULL;
  td_map_init(&b->by_key);
  b->lt = td_cublaslt_open();
  if (b->lt && b->lt->Create(&b->handle) != CUBLAS_STATUS_SUCCESS) {
    (void)cudaGetLastError();
    b->lt = NULL;
  }
  b->most = b->lt ? working_memory(d) : 0;
  d->blas = b;
  return b;
}

static void forget(struct td_cuda_blas *b, int i) {
  td_cuda_plan *p = b->plans[i];
  if (!p) return;
  (void)td_map_removen(&b->by_key, &p->key, sizeof p->key);
  td_cuda_plan_deinit(b->lt, p);
  td_free(p);
  b->plans[i] = NULL;
}

void td_cuda_blas_free(struct td_cuda_blas *b) {
  if (!b) return;
  for (int i = 0; i < PLANS; i++) forget(b, i);
  if (b->lt) (void)b->lt->Destroy(b->handle);
  td_map_deinit(&b->by_key);
  td_free(b);
}

void td_cuda_blas_tell(td_str *out) {
  td_cublaslt_tell(out);
}

/* ---- plans --------------------------------------------------------------- */

/* NULL: no memory. What the library has no way to is kept, too. */
static td_cuda_plan *new_plan(struct td_cuda_blas *b,
                              const td_cuda_plan_key *key) {
  td_cuda_plan *p = td_calloc(1, sizeof *p);
  if (!p) return NULL;
  p->key = *key;
  forget(b, b->next);
  if (!td_map_putn(&b->by_key, key, sizeof *key, p)) {
    td_free(p);
    return NULL;
  }
  (void)td_cuda_plan_find(b->lt, b->handle, b->most, p);
  b->plans[b->next] = p;
  b->next = (b->next + 1) % PLANS;
  return p;
}

static td_cuda_plan *plan_of(struct td_cuda_blas *b,
                             const td_cuda_product *product) {
  td_cuda_plan_key key;
  if (!td_cuda_plan_key_of(product, td_precision_get(), &key)) return NULL;
  td_cuda_plan *p = td_map_getn(&b->by_key, &key, sizeof key);
  if (TD_UNLIKELY(!p)) p = new_plan(b, &key);
  return p && !p->none ? p : NULL;
}

/* ---- products ------------------------------------------------------------ */

static td_status *refused(cublasStatus_t e) {
  cudaError_t last = cudaGetLastError();
  if (last != cudaSuccess) return td_cuda_error(last, "cublasLtMatmul");
  return td_error(TD_INTERNAL, "cuBLASLt failed in a product (status %d)",
                  (int)e);
}

/* What the library says it cannot do after all is not tried again. */
static td_status *multiply(td_kernel_ctx *c, struct td_cuda_blas *b,
                           td_cuda_plan *plan, const td_cuda_product *p,
                           void *work, bool *done) {
  cublasStatus_t e = b->lt->Matmul(
      b->handle, plan->desc, td_cuda_plan_one(plan), p->b, plan->first, p->a,
      plan->second, td_cuda_plan_zero(), p->to, plan->to, p->to, plan->to,
      &plan->algo, work, plan->workspace, td_cuda_stream(c));
  *done = e == CUBLAS_STATUS_SUCCESS;
  if (*done) return NULL;
  if (e != CUBLAS_STATUS_NOT_SUPPORTED && e != CUBLAS_STATUS_INVALID_VALUE &&
      e != CUBLAS_STATUS_ARCH_MISMATCH)
    return refused(e);
  (void)cudaGetLastError();
  plan->none = true;
  return NULL;
}

td_status *td_cuda_blas_product(td_kernel_ctx *c, const td_cuda_product *p,
                                bool *done) {
  struct td_cuda_blas *b = of_device(td_cuda_of(c));
  td_tensor work = {0};
  *done = false;
  if (!b || !b->lt) return NULL;
  td_cuda_plan *plan = plan_of(b, p);
  if (!plan) return NULL;
  if (plan->workspace) {
    td_shape shape = td_shape_vector((int64_t)plan->workspace);
    td_status *s = td_temp(c, TD_UINT8, &shape, &work);
    if (!td_ok(s)) {
      td_status_release(s);
      return NULL;
    }
  }
  td_status *s = multiply(c, b, plan, p, work.data, done);
  td_tensor_release(&work);
  return s;
}

/* ---- batches that broadcast ---------------------------------------------- */

/* Axes of the result before the last two, innermost first, and the elements
 * that a step along them is in both operands. */
typedef struct axes {
  int rank;
  int64_t size[TD_MAX_RANK], a[TD_MAX_RANK], b[TD_MAX_RANK];
} axes;

/* Along axis `from_end` of `s`, counted from the last; `below`: elements of
 * what is further in. */
static int64_t step_of(const td_shape *s, int from_end, int64_t *below) {
  if (from_end >= s->rank) return 0;
  int64_t size = s->dim[s->rank - 1 - from_end];
  int64_t step = size > 1 ? *below : 0;
  *below *= size;
  return step;
}

/* Those that follow each other evenly become one. */
static void add_axis(axes *x, int64_t size, int64_t a, int64_t b) {
  int k = x->rank - 1;
  if (size == 1) return;
  if (k >= 0 && x->a[k] * x->size[k] == a && x->b[k] * x->size[k] == b) {
    x->size[k] *= size;
    return;
  }
  x->size[x->rank] = size;
  x->a[x->rank] = a;
  x->b[x->rank++] = b;
}

static axes axes_of(const td_matmul *p, const td_tensor *a,
                    const td_tensor *b) {
  axes x = {.rank = 0};
  int64_t in_a = p->m * p->k, in_b = p->k * p->n;
  for (int i = 2; i < p->out.rank; i++) {
    int64_t step_a = step_of(&a->shape, i, &in_a);
    int64_t step_b = step_of(&b->shape, i, &in_b);
    add_axis(&x, p->out.dim[p->out.rank - 1 - i], step_a, step_b);
  }
  return x;
}

/* Rows of a that follow each other, times the same b, are rows of one matrix.
 */
static void fold(td_cuda_product *p) {
  if (p->batch == 1 || p->step_b != 0 || p->trans_a || p->step_a != p->m * p->k)
    return;
  p->m *= p->batch;
  p->batch = 1;
}

/* Call `i`: operands of the outer axes. */
static td_cuda_product at_call(const td_cuda_product *p, const axes *x,
                               int64_t i) {
  size_t size = td_dtype_size(p->dtype);
  td_cuda_product q = *p;
  int64_t a = 0, b = 0, inner = x->rank ? x->size[0] : 1;
  q.to = (char *)p->to + (size_t)(i * inner * p->m * p->n) * size;
  for (int k = 1; k < x->rank; k++) {
    a += i % x->size[k] * x->a[k];
    b += i % x->size[k] * x->b[k];
    i /= x->size[k];
  }
  q.a = (const char *)p->a + (size_t)a * size;
  q.b = (const char *)p->b + (size_t)b * size;
  fold(&q);
  return q;
}

td_status *td_cuda_blas_matmul(td_kernel_ctx *c, const td_matmul *p,
                               const td_tensor *a, const td_tensor *b,
                               const td_tensor *y, bool *done) {
  axes x = axes_of(p, a, b);
  td_cuda_product all = {.dtype = y->dtype,
                         .m = p->m,
                         .n = p->n,
                         .k = p->k,
                         .batch = x.rank ? x.size[0] : 1,
                         .trans_a = p->trans_a,
                         .trans_b = p->trans_b,
                         .conj_a = p->conj_a,
                         .conj_b = p->conj_b,
                         .step_a = x.rank ? x.a[0] : 0,
                         .step_b = x.rank ? x.b[0] : 0,
                         .a = a->data,
                         .b = b->data,
                         .to = y->data};
  int64_t calls = 1;
  *done = false;
  for (int k = 1; k < x.rank; k++) calls *= x.size[k];
  if (calls > CALLS || a->dtype != y->dtype || b->dtype != y->dtype)
    return NULL;
  for (int64_t i = 0; i < calls; i++) {
    td_cuda_product one = at_call(&all, &x, i);
    TD_TRY(td_cuda_blas_product(c, &one, done));
    if (!*done) return NULL;
  }
  return NULL;
}
