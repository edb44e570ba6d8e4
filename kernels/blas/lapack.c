/* lapack.c - finds the routines of LAPACK in the library, once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/blas/lapack.h"

#include <pthread.h>
#include <stdio.h>

#include "kernels/blas/blas.h"

enum { DTYPES = 4 };
static const char letters[DTYPES] = {'s', 'd', 'c', 'z'};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static td_lapack tables[DTYPES]; /* set once */
static bool whole[DTYPES];       /* set once: nothing is missing */

/* A routine by the letter of its dtype: 'd', "getrf" is dgetrf_. */
static void *routine(char letter, const char *name, bool *all) {
  char symbol[16];
  snprintf(symbol, sizeof symbol, "%c%s_", letter, name);
  void *at = td_blas_routine(symbol);
  *all &= at != NULL;
  return at;
}

static void take(td_lapack *t, char letter, bool *all) {
  bool complex = letter == 'c' || letter == 'z';
  *all = true;
  *(void **)&t->gemm = routine(letter, "gemm", all);
  *(void **)&t->getrf = routine(letter, "getrf", all);
  *(void **)&t->getrs = routine(letter, "getrs", all);
  *(void **)&t->potrf = routine(letter, "potrf", all);
  *(void **)&t->potrs = routine(letter, "potrs", all);
  *(void **)&t->trtrs = routine(letter, "trtrs", all);
  *(void **)&t->geqrf = routine(letter, "geqrf", all);
  *(void **)&t->orgqr = routine(letter, complex ? "ungqr" : "orgqr", all);
  void *svd = routine(letter, "gesdd", all);
  void *eigen = routine(letter, complex ? "heevd" : "syevd", all);
  void *any = routine(letter, "geev", all);
  void *least = routine(letter, "gelsy", all);
  if (complex) {
    *(void **)&t->gelsy_complex = least;
    *(void **)&t->gesdd_complex = svd;
    *(void **)&t->heevd = eigen;
    *(void **)&t->geev_complex = any;
  } else {
    *(void **)&t->gelsy = least;
    *(void **)&t->gesdd = svd;
    *(void **)&t->syevd = eigen;
    *(void **)&t->geev = any;
  }
}

static void start(void) {
  for (int i = 0; i < DTYPES; i++) take(&tables[i], letters[i], &whole[i]);
}

const td_lapack *td_lapack_of(td_dtype dtype) {
  static const td_dtype dtypes[DTYPES] = {TD_FLOAT32, TD_FLOAT64, TD_COMPLEX64,
                                          TD_COMPLEX128};
  pthread_once(&once, start);
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i] == dtype) return whole[i] ? &tables[i] : NULL;
  return NULL;
}
