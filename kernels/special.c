/* special.c - special functions from their series, continued fractions and
 * recurrences (Digital Library of Mathematical Functions, by equation).
 *
 * Each is taken where it converges fast; the number of terms is bounded
 * whatever the arguments, so that no element can hold a step up.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/special.h"

#include <float.h>
#include <math.h>

/* On a card these are functions of its own (cuda/special.cuh). */
#ifdef __cplusplus
#define OWN static __device__ inline
#define SHARED static __device__ inline
#define lgamma_r(x, sign) ((void)(sign), lgamma(x))
#else
#define OWN static
#define SHARED
#endif

enum {
  TERMS = 10000,   /* at most, of a series or fraction */
  SHIFT = 10,      /* from there on asymptotic series hold */
  LARGE = 1000000, /* from there on a series in 1 / a needs two terms */
};

/* ---- logarithms ---------------------------------------------------------- */

/* log(1 + x) - x, of which near 0 nothing would be left. */
OWN double log_without_line(double x) {
  double sum = 0, power = -x * x;
  if (!(fabs(x) < 0.2)) return log1p(x) - x;
  for (int k = 2; fabs(power) > fabs(sum) * DBL_EPSILON / 4; k++, power *= -x)
    sum += power / k;
  return sum;
}

/* 5.11.1: log gamma(a + 1) is log(2 pi a) / 2 + a log(a) - a and this, a at
 * least SHIFT. */
OWN double stirling_rest(double a) {
  double s = 1 / (a * a);
  return (1.0 / 12 -
          s * (1.0 / 360 -
               s * (1.0 / 1260 -
                    s * (1.0 / 1680 - s * (1.0 / 1188 - s * 691 / 360360))))) /
         a;
}

/* ---- gamma and its derivatives ------------------------------------------- */

SHARED double td_special_lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

OWN bool is_whole(double x) {
  return x == floor(x);
}

/* 5.11.2, after 5.5.2 and 5.5.4. */
SHARED double td_special_digamma(double x) {
  static const double c[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                             1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double y = 0, power, square;
  if (x <= 0 && is_whole(x)) return NAN;
  if (x < 0) { /* from the nearest pole: x - floor(x) would round to 1 */
    y = -M_PI / tan(M_PI * (x - rint(x)));
    x = 1 - x;
  }
  for (; x < SHIFT; x++) y -= 1 / x;
  if (isinf(x)) return x;
  square = power = 1 / (x * x);
  y += log(x) - 0.5 / x;
  for (size_t k = 0; k < TD_COUNT(c); k++, power *= square) y -= c[k] * power;
  return y;
}

/* 25.11.5 with 2.10.1: the first terms, then Euler and Maclaurin's tail. q > 0.
 */
OWN double zeta_positive(double x, double q) {
  /* B(2k) / (2k)! */
  static const double c[] = {1.0 / 12,
                             -1.0 / 720,
                             1.0 / 30240,
                             -1.0 / 1209600,
                             1.0 / 47900160,
                             -691.0 / 1307674368000,
                             1.0 / 74724249600,
                             -3617.0 / 10670622842880000,
                             43867.0 / 5109094217170944000};
  double sum = 0, a = q;
  for (int n = 0; n < SHIFT; n++, a++) sum += pow(a, -x);
  double term = pow(a, -x);
  sum += term * (a / (x - 1) + 0.5);
  term *= x / a;
  for (size_t k = 0; k < TD_COUNT(c); k++) {
    double more = c[k] * term;
    sum += more;
    if (fabs(more) <= fabs(sum) * DBL_EPSILON / 4) break;
    double next = x + 2 * (double)k + 1;
    term *= next / a * ((next + 1) / a);
  }
  return sum;
}

/* Terms with q + n < 0 are, but for their sign, those of another zeta without
 * its tail. */
SHARED double td_special_zeta(double x, double q) {
  if (x == 1) return INFINITY;
  if (isnan(q) || !(x > 1)) return NAN;
  if (isinf(x)) return q > 1 ? 0 : q == 1 ? 1 : INFINITY;
  if (q > 0) return isinf(q) ? 0 : zeta_positive(x, q);
  if (!is_whole(x)) return NAN;
  bool even = is_whole(x / 2);
  if (is_whole(q)) return even ? INFINITY : NAN;
  double rest = q - floor(q), below = ceil(q) - q; /* neither rounds */
  double sum = zeta_positive(x, below) - zeta_positive(x, 1 - q);
  return zeta_positive(x, rest) + (even ? sum : -sum);
}

/* 25.11.12 */
SHARED double td_special_polygamma(double n, double x) {
  if (!(n >= 0) || !is_whole(n)) return NAN;
  if (n == 0) return td_special_digamma(x);
  double y = tgamma(n + 1) * td_special_zeta(n + 1, x);
  return is_whole((n + 1) / 2) ? y : -y;
}

/* ---- error function ------------------------------------------------------ */

/* Where erf is y and erfc is q = 1 - y, y >= 0: Winitzki's formula, then
 * Halley's steps, each of which triples the digits, on whichever of the two is
 * small. */
OWN double erf_at(double y, double q) {
  const double k = 0.147;
  double w = y < 0.5 ? log1p(-y * y) : log(q) + log(2 - q);
  double t = 2 / (M_PI * k) + w / 2, root = sqrt(t * t - w / k);
  double z = sqrt(t > 0 ? -w / k / (root + t) : root - t);
  for (int i = 0; i < 3; i++) {
    double slope = M_2_SQRTPI * exp(-z * z);
    double u = (y < 0.5 ? erf(z) - y : q - erfc(z)) / slope;
    z -= u / (1 + z * u);
  }
  return z;
}

SHARED double td_special_erfinv(double x) {
  double y = fabs(x);
  if (!(y <= 1)) return NAN;
  if (y == 1) return x * INFINITY;
  if (y == 0) return x;
  return copysign(erf_at(y, 1 - y), x);
}

SHARED double td_special_ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return NAN;
  if (p == 0) return -INFINITY;
  if (p < 0.25) return -M_SQRT2 * erf_at(1 - 2 * p, 2 * p);
  return M_SQRT2 * td_special_erfinv(2 * p - 1);
}

/* ---- Bessel functions ---------------------------------------------------- */

/* 10.25.2, and far out 10.40.1, whose terms grow only after they are small. */
SHARED double td_special_bessel_ie(int order, double x) {
  double a = fabs(x), term = 1, sum = 1;
  if (isnan(x)) return x;
  if (a < 20) {
    double square = a * a / 4;
    for (int k = 1; term > sum * DBL_EPSILON / 4; k++)
      sum += term *= square / (k * (double)(k + order));
    sum *= exp(-a) * (order ? a / 2 : 1);
  } else {
    for (int k = 1; fabs(term) > DBL_EPSILON / 4 && k < 2 * SHIFT; k++) {
      double odd = 2 * k - 1;
      sum += term *= (odd * odd - 4 * order) / (k * 8 * a);
    }
    sum /= sqrt(2 * M_PI * a);
  }
  return order && x < 0 ? -sum : sum;
}

/* ---- incomplete gamma functions ------------------------------------------ */

/* A number and its derivative in a. */
typedef struct dual {
  double is, by_a;
} dual;

/* x^a exp(-x) / gamma(a + 1): at a small a nothing cancels, as it would with
 * 1 / a in front; at a large one the parts that cancel are left out. */
OWN dual gamma_front(double a, double x) {
  double is = a < SHIFT
                  ? exp(a * log(x) - x - td_special_lgamma(a + 1))
                  : exp(a * log_without_line((x - a) / a) - stirling_rest(a)) /
                        sqrt(2 * M_PI * a);
  return (dual){is, is * (log(x) - td_special_digamma(a + 1))};
}

OWN dual times(dual x, dual y) {
  return (dual){x.is * y.is, x.by_a * y.is + x.is * y.by_a};
}

/* P, by 8.11.4: for x up to a. */
OWN dual gamma_series(double a, double x) {
  dual term = {1, 0}, sum = term;
  for (int n = 1; n < TERMS; n++) {
    double of = a + n;
    term.by_a = (term.by_a - term.is / of) * x / of;
    term.is *= x / of;
    sum.is += term.is;
    sum.by_a += term.by_a;
    if (term.is <= sum.is * DBL_EPSILON / 4 &&
        fabs(term.by_a) <= fabs(sum.by_a) * DBL_EPSILON / 4)
      break;
  }
  return times(gamma_front(a, x), sum);
}

/* Q, by 8.9.2 with Lentz's method: for x above a. */
OWN dual gamma_fraction(double a, double x) {
  dual b = {x + 1 - a, -1}, c = {1e300, 0};
  dual d = {1 / b.is, 1 / (b.is * b.is)}, h = d;
  for (int i = 1; i < TERMS; i++) {
    dual up = {i * (a - i), (double)i}, by;
    b.is += 2;
    d.by_a = up.by_a * d.is + up.is * d.by_a + b.by_a;
    d.is = 1 / (up.is * d.is + b.is);
    d.by_a *= -d.is * d.is;
    c.by_a = b.by_a + (up.by_a - up.is * (c.by_a / c.is)) / c.is;
    c.is = b.is + up.is / c.is;
    by = times(c, d);
    h = times(h, by);
    if (fabs(by.is - 1) <= DBL_EPSILON &&
        fabs(h.is * by.by_a) <= fabs(h.by_a) * DBL_EPSILON)
      break;
  }
  return times(gamma_front(a, x), times((dual){a, 1}, h));
}

/* P, by 8.12.3 to 8.12.10, a at least LARGE: sums would need as many terms as
 * the root of a. */
OWN dual gamma_large(double a, double x) {
  static const double c[] = {-1.0 / 3,  1.0 / 12,   -2.0 / 135,
                             1.0 / 864, 1.0 / 2835, -139.0 / 777600};
  double far = (x - a) / a, half = -log_without_line(far); /* eta^2 / 2 */
  double eta = copysign(sqrt(2 * half), far), c0 = 0, slope = 0;
  double bell = exp(-a * half) / sqrt(2 * M_PI * a);
  double turn = eta == 0 ? 1 : far / eta; /* -a times eta's derivative */
  if (bell == 0) return (dual){far > 0 ? 1.0 : 0.0, 0};
  for (int k = TD_COUNT(c) - 1; k >= 0; k--) {
    slope = slope * eta + (k + 1 < (int)TD_COUNT(c) ? (k + 1) * c[k + 1] : 0);
    c0 = c0 * eta + c[k];
  }
  return (dual){erfc(-eta * sqrt(a / 2)) / 2 - bell * (c0 - 1 / (540 * a)),
                bell * (eta / 2 - turn - c0 * (log1p(far) - 1 / (2 * a)) +
                        slope * turn / a)};
}

/* P and Q where no sum is needed. */
OWN bool gamma_simple(double a, double x, double *p) {
  if (x == 0 || (isinf(a) && a > 0 && x > 0)) /* whatever a is */
    *p = 0;
  else if (!(a > 0) || !(x > 0))
    *p = NAN;
  else if (isinf(x))
    *p = 1;
  else
    return false;
  return true;
}

SHARED double td_special_igamma(double a, double x) {
  double p;
  if (gamma_simple(a, x, &p)) return p;
  if (a >= LARGE) return gamma_large(a, x).is;
  return x > 1 && x > a ? 1 - gamma_fraction(a, x).is : gamma_series(a, x).is;
}

SHARED double td_special_igammac(double a, double x) {
  double p;
  if (x == 0 && !(a > 0)) return NAN;
  if (x == INFINITY && a > 0) return 0;
  if (gamma_simple(a, x, &p)) return 1 - p;
  if (a >= LARGE) return 1 - gamma_large(a, x).is;
  return x > 1 && x > a ? gamma_fraction(a, x).is
                        : fmax(0, 1 - gamma_series(a, x).is);
}

SHARED double td_special_igamma_da(double a, double x) {
  double p;
  if (gamma_simple(a, x, &p)) return isnan(p) ? p : 0;
  if (a >= LARGE) return gamma_large(a, x).by_a;
  return x > 1 && x > a ? -gamma_fraction(a, x).by_a : gamma_series(a, x).by_a;
}

/* So far out that there is no density, the sample stays. */
SHARED double td_special_gamma_sample_da(double alpha, double sample) {
  double p;
  if (gamma_simple(alpha, sample, &p)) return isnan(p) ? p : 0;
  double density = gamma_front(alpha, sample).is * alpha / sample;
  return density ? -td_special_igamma_da(alpha, sample) / density : 0;
}

/* ---- incomplete beta function -------------------------------------------- */

/* 8.17.22 with Lentz's method: for x < (a + 1) / (a + b + 2). */
OWN double beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 - (a + b) * x / (a + 1), h;
  d = h = 1 / d;
  for (int m = 1; m < TERMS; m++) {
    double even = m / (a + 2 * m - 1) * ((b - m) / (a + 2 * m)) * x;
    double odd = -(a + m) / (a + 2 * m) * ((a + b + m) / (a + 2 * m + 1)) * x;
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    h *= c * d;
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    h *= c * d;
    if (fabs(c * d - 1) <= DBL_EPSILON) break;
  }
  return h;
}

/* x^a (1 - x)^b / B(a, b); what cancels of large ones is left out. */
OWN double beta_front(double a, double b, double x) {
  double more = fmax(a, b), less = fmin(a, b);
  double p = 1 / (1 + b / a), q = 1 / (1 + a / b);
  if (more < SHIFT)
    return exp(td_special_lgamma(a + b) - td_special_lgamma(a) -
               td_special_lgamma(b) + a * log(x) + b * log1p(-x));
  if (less < SHIFT) /* gamma(more + less) / gamma(more) by 5.11.1 */
    return exp((more - 0.5) * log1p(less / more) + less * log(more + less) -
               less + stirling_rest(more + less) - stirling_rest(more) -
               td_special_lgamma(less) + a * log(x) + b * log1p(-x));
  double far = x < 0.5 ? x - p : q - (1 - x); /* neither rounds */
  return exp(a * log_without_line(far / p) + b * log_without_line(-far / q) +
             stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b)) *
         sqrt(a * q / (2 * M_PI));
}

SHARED double td_special_betainc(double a, double b, double x) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || isinf(a) || isinf(b)) return NAN;
  if (x == 0 || x == 1) return x;
  double front = beta_front(a, b, x);
  if (front == 0) return x > 1 / (1 + b / a);
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return fmax(0, 1 - front * beta_fraction(b, a, 1 - x) / b);
}
