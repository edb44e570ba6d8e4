/* special.h - special functions of doubles that libm lacks.
 *
 * float32 and the halves come here too: rounding once is then exact enough.
 * Outside a function's domain the result is NaN, at a pole infinity.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SPECIAL_H
#define TD_SPECIAL_H

#include "engine/base/base.h"

TD_BEGIN

/* log |gamma(x)|; libm's writes a global variable. */
double td_special_lgamma(double x);
double td_special_digamma(double x);
/* erf(y) = x, and y below which a standard normal falls with probability p. */
double td_special_erfinv(double x);
double td_special_ndtri(double p);
/* exp(-|x|) I_order(x), order 0 or 1. */
double td_special_bessel_ie(int order, double x);

/* Sum of (q + n)^-x over n >= 0, x > 1. */
double td_special_zeta(double x, double q);
/* Derivative of order n >= 0 of digamma. */
double td_special_polygamma(double n, double x);

/* Regularised incomplete gamma functions P and Q = 1 - P; dP / da. */
double td_special_igamma(double a, double x);
double td_special_igammac(double a, double x);
double td_special_igamma_da(double a, double x);
/* d sample / d alpha while P(alpha, sample) stays the same. */
double td_special_gamma_sample_da(double alpha, double sample);
/* Regularised incomplete beta function I_x(a, b). */
double td_special_betainc(double a, double b, double x);

TD_END
#endif
