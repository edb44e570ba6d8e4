/* blas.h - the only door to OpenBLAS.
 *
 * The library is opened at the first use, not linked. It must be the build with
 * POSIX threads: the serial one is not safe to be called from two threads. It
 * runs on the calling thread alone; our pool is the only one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BLAS_H
#define TD_BLAS_H

#include "kernels/blas/product.h"

TD_BEGIN

/* May it be called? Opens it. Without it, kernels use code of their own. */
bool td_blas_ready(void);
/* What was found, or why nothing was, for a person. Opens it. */
const char *td_blas_about(void);

/* Is the product one that the library can do? Its sizes are 32 bits wide. */
bool td_blas_takes(const td_product *p);
/* On the calling thread. Only when ready and taken. */
void td_blas_multiply(const td_product *p);

/* A LAPACK routine by its Fortran name, "dgesvd_"; NULL when there is none. */
void *td_blas_routine(const char *name);

TD_END
#endif
