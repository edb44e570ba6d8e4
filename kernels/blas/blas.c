/* blas.c - OpenBLAS, opened at run time and kept to the calling thread.
 *
 * Several builds of the library may lie on a machine under one name, so it is
 * looked for by the path that Debian gives the right one, then by name, and is
 * asked what it is. How many threads it may start is read from the environment
 * when it is opened, hence the visit there.
 *
 * The library maps a large working buffer for each call that runs at once, and
 * tries for ever when there is no address space left. So buffers for every
 * thread of the pool are had at the start, after asking the system for as much.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/blas/blas.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/cpu.h"
#include "engine/base/mem.h"
#include "engine/base/pool.h"
#include "engine/base/str.h"

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, CONJUGATED = 113 };
enum { POSIX_THREADS = 1 }; /* openblas_get_parallel */
/* Of one working buffer, at most; and callers beside the pool's threads. */
enum { BUFFER_BYTES = 128 << 20, MORE_BUFFERS = 2 };

typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k,
                         float alpha, const float *a, int lda, const float *b,
                         int ldb, float beta, float *c, int ldc);
typedef void (*dgemm_fn)(int order, int ta, int tb, int m, int n, int k,
                         double alpha, const double *a, int lda,
                         const double *b, int ldb, double beta, double *c,
                         int ldc);
typedef void (*zgemm_fn)(int order, int ta, int tb, int m, int n, int k,
                         const void *alpha, const void *a, int lda,
                         const void *b, int ldb, const void *beta, void *c,
                         int ldc);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
  void *library; /* NULL: not found, or not fit */
  sgemm_fn sgemm;
  dgemm_fn dgemm;
  zgemm_fn cgemm, zgemm;
  char about[256];
} blas; /* set once */

/* ---- the environment ----------------------------------------------------- */

typedef struct variable {
  const char *name;
  char *was; /* owned; NULL: not set */
} variable;

static void set_variable(variable *v, const char *name, const char *value) {
  const char *was = getenv(name);
  *v = (variable){.name = name, .was = was ? td_strdup(was) : NULL};
  if (was && !v->was)
    v->name = NULL; /* no memory to remember it by: left alone */
  else
    setenv(name, value, 1);
}

static void restore_variable(variable *v) {
  if (!v->name) return;
  if (v->was)
    setenv(v->name, v->was, 1);
  else
    unsetenv(v->name);
  td_free(v->was);
}

/* ---- opening ------------------------------------------------------------- */

/* Beside the C library lie those of this processor's kind. */
static void *open_beside_libc(void) {
  char path[512];
  Dl_info libc;
  if (!dladdr((void *)(uintptr_t)qsort, &libc) || !libc.dli_fname) return NULL;
  const char *slash = strrchr(libc.dli_fname, '/');
  if (!slash) return NULL;
  int n = snprintf(path, sizeof path, "%.*s/openblas-pthread/libopenblas.so.0",
                   (int)(slash - libc.dli_fname), libc.dli_fname);
  if (n < 0 || (size_t)n >= sizeof path) return NULL;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *open_by_name(void) {
  static const char *const names[] = {"libopenblasp.so.0", "libopenblas.so.0"};
  void *library = NULL;
  for (size_t i = 0; !library && i < TD_COUNT(names); i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  return library;
}

static void *open_library(void) {
  variable threads = {0}, core = {0};
  set_variable(&threads, "OPENBLAS_NUM_THREADS", "1");
  if (td_cpu_isa() < td_cpu_best()) /* TIDE_ISA: not all of the processor */
    set_variable(&core, "OPENBLAS_CORETYPE",
                 td_cpu_isa() == TD_AVX2 ? "Haswell" : "Nehalem");
  void *library = open_beside_libc();
  if (!library) library = open_by_name();
  restore_variable(&core);
  restore_variable(&threads);
  return library;
}

/* Is there address space for the buffers to come? */
static bool has_room(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, bytes);
  return true;
}

static bool map_buffers(void *library) {
  void *(*get)(int) = (void *(*)(int))dlsym(library, "blas_memory_alloc");
  void (*put)(void *) = (void (*)(void *))dlsym(library, "blas_memory_free");
  void *at[TD_CPU_MAX + MORE_BUFFERS];
  int n = td_pool_size() + MORE_BUFFERS;
  if (!get || !put) return true;
  if (!has_room((size_t)n * BUFFER_BYTES)) return false;
  for (int i = 0; i < n; i++) at[i] = get(1);
  while (n-- > 0) put(at[n]);
  return true;
}

static const char *call_text(void *library, const char *name) {
  const char *(*fn)(void) = (const char *(*)(void))dlsym(library, name);
  return fn ? fn() : "";
}

/* NULL, or why it cannot be used. */
static const char *take(void *library) {
  int (*parallel)(void) =
      (int (*)(void))dlsym(library, "openblas_get_parallel");
  int (*threads)(void) =
      (int (*)(void))dlsym(library, "openblas_get_num_threads");
  void (*set)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
  if (!parallel || !threads || !set) return "it is no OpenBLAS";
  if (parallel() != POSIX_THREADS)
    return "it is not the build with POSIX threads (libopenblas0-pthread)";
  if (threads() != 1) set(1);
  blas.sgemm = (sgemm_fn)dlsym(library, "cblas_sgemm");
  blas.dgemm = (dgemm_fn)dlsym(library, "cblas_dgemm");
  blas.cgemm = (zgemm_fn)dlsym(library, "cblas_cgemm");
  blas.zgemm = (zgemm_fn)dlsym(library, "cblas_zgemm");
  if (!blas.sgemm || !blas.dgemm || !blas.cgemm || !blas.zgemm)
    return "it lacks matrix products";
  if (!map_buffers(library)) return "there is no address space for its buffers";
  return NULL;
}

static void start(void) {
  void *library = open_library();
  const char *why = library ? take(library) : "it was not found";
  if (why) {
    snprintf(blas.about, sizeof blas.about, "OpenBLAS is not used: %s", why);
    return;
  }
  snprintf(blas.about, sizeof blas.about, "%s, for %s",
           call_text(library, "openblas_get_config"),
           call_text(library, "openblas_get_corename"));
  blas.library = library;
}

bool td_blas_ready(void) {
  pthread_once(&once, start);
  return blas.library != NULL;
}

const char *td_blas_about(void) {
  pthread_once(&once, start);
  return blas.about;
}

void *td_blas_routine(const char *name) {
  return td_blas_ready() ? dlsym(blas.library, name) : NULL;
}

/* ---- products ------------------------------------------------------------ */

static bool fits(int64_t size) {
  return size <= INT_MAX;
}

bool td_blas_takes(const td_product *p) {
  bool known = p->dtype == TD_FLOAT32 || p->dtype == TD_FLOAT64 ||
               td_dtype_is_complex(p->dtype);
  return known && fits(p->m) && fits(p->n) && fits(p->k) && fits(p->lda) &&
         fits(p->ldb) && fits(p->ldc);
}

static int form(bool trans, bool conj) {
  return trans ? conj ? CONJUGATED : TRANSPOSED : PLAIN;
}

void td_blas_multiply(const td_product *p) {
  static const float one[2] = {1, 0}, zero[2] = {0, 0};
  static const double one_d[2] = {1, 0}, zero_d[2] = {0, 0};
  int ta = form(p->trans_a, p->conj_a), tb = form(p->trans_b, p->conj_b);
  int m = (int)p->m, n = (int)p->n, k = (int)p->k;
  int lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
  if (p->dtype == TD_FLOAT32)
    blas.sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, p->a, lda, p->b, ldb, 0, p->c,
               ldc);
  else if (p->dtype == TD_FLOAT64)
    blas.dgemm(ROW_MAJOR, ta, tb, m, n, k, 1, p->a, lda, p->b, ldb, 0, p->c,
               ldc);
  else if (p->dtype == TD_COMPLEX64)
    blas.cgemm(ROW_MAJOR, ta, tb, m, n, k, one, p->a, lda, p->b, ldb, zero,
               p->c, ldc);
  else
    blas.zgemm(ROW_MAJOR, ta, tb, m, n, k, one_d, p->a, lda, p->b, ldb, zero_d,
               p->c, ldc);
}
