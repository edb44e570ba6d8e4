/* special.c - special functions against 20 digits, and outside their domains.
 *
 * The digits are from mpmath at 40 digits and more. Errors are in units in the
 * last place; those of the incomplete functions grow with the exponent of a
 * tail, of which they are a part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <float.h>
#include <math.h>

#include "kernels/special.h"

typedef struct row {
  const char *call;
  double got, want, bound; /* bound in units in the last place */
} row;

#define ROW(name, args, want, bound)                                           \
  { #name #args, td_special_##name args, want, bound }

static void test_values(void **state) {
  /* clang-format off */
  const row rows[] = {
    ROW(digamma, (0.25), -4.2274535333762654081, 16),
    ROW(digamma, (1.25), -0.22745353337626540809, 16),
    ROW(digamma, (12.5), 2.4851956512749120482, 16),
    ROW(digamma, (-3.25), 4.4662758723502799671, 16),
    ROW(digamma, (1e-5), -100000.57719921567289, 16),
    ROW(digamma, (1e8), 18.420680738952365464, 16),
    ROW(digamma, (-1e-10), 9999999999.4227839706, 16),
    ROW(digamma, (-1e-30), 9.9999999999999991666e+29, 16),
    ROW(digamma, (-1e-300), 9.9999999999999997494e+299, 16),
    ROW(digamma, (-9.999999999999), -999911107317.91822965, 16),
    ROW(digamma, (-0.5000001), 0.036489080498352792364, 64),
    ROW(erfinv, (0.25), 0.22531205501217810473, 4),
    ROW(erfinv, (-0.75), -0.81341984759761854169, 4),
    ROW(erfinv, (1e-300), 8.8622692545275803586e-301, 4),
    ROW(erfinv, (0.999999), 3.4589107372754987775, 4),
    ROW(erfinv, (0x1.fffffffffffffp-1), 5.8635847487551679272, 4),
    ROW(ndtri, (0.25), -0.6744897501960817432, 16),
    ROW(ndtri, (0.9), 1.2815515655446005935, 16),
    ROW(ndtri, (1e-10), -6.3613409024040561991, 16),
    ROW(ndtri, (1e-200), -30.205594179579643063, 16),
    ROW(bessel_ie, (0, 1e-8), 0.999999990000000075, 8),
    ROW(bessel_ie, (0, 0.5), 0.64503527044915006811, 8),
    ROW(bessel_ie, (0, -7.25), 0.15095349002867583539, 8),
    ROW(bessel_ie, (0, 19.5), 0.090939432095156483305, 8),
    ROW(bessel_ie, (0, 20.5), 0.088664429015745248147, 8),
    ROW(bessel_ie, (0, 1e5), 0.0012615678379767767669, 8),
    ROW(bessel_ie, (1, 1e-8), 4.9999999500000004171e-9, 8),
    ROW(bessel_ie, (1, 0.5), 0.15642080318487169714, 8),
    ROW(bessel_ie, (1, -7.25), -0.14011851895630762384, 8),
    ROW(bessel_ie, (1, 19.5), 0.088576086094314852457, 8),
    ROW(bessel_ie, (1, 20.5), 0.086474113494087245571, 8),
    ROW(bessel_ie, (1, 1e5), 0.0012615615301218171273, 8),
    ROW(zeta, (2, 1), 1.6449340668482264365, 16),
    ROW(zeta, (1.001, 0.5), 1001.9648639703558565, 16),
    ROW(zeta, (3.5, 250), 4.0680012050753267223e-7, 16),
    ROW(zeta, (20, 0.01), 9.9999999999999958367e+39, 16),
    ROW(zeta, (3, -2.25), -61.948474887030082791, 16),
    ROW(zeta, (4, -1000.5), 32.469697011001810581, 16),
    ROW(polygamma, (1, 0.5), 4.9348022005446793094, 16),
    ROW(polygamma, (2, 3.25), -0.12815694713911512072, 16),
    ROW(polygamma, (10, 40), -3.9130747998980848931e-11, 16),
    ROW(igamma, (0.5, 0.25), 0.52049987781304653768, 256),
    ROW(igammac, (0.5, 0.25), 0.47950012218695346232, 256),
    ROW(igamma_da, (0.5, 0.25), -0.79794731678322294051, 512),
    ROW(igamma, (3, 2.5), 0.456186884116670482, 256),
    ROW(igammac, (3, 2.5), 0.543813115883329518, 256),
    ROW(igamma_da, (3, 2.5), -0.247117357483268238, 512),
    ROW(igamma, (3, 9), 0.99376780489362268275, 256),
    ROW(igammac, (3, 9), 0.0062321951063773172496, 256),
    ROW(igamma_da, (3, 9), -0.0086954664197425258759, 512),
    ROW(igamma, (100, 90), 0.1582209891864301681, 1024),
    ROW(igammac, (100, 90), 0.8417790108135698319, 1024),
    ROW(igamma_da, (100, 90), -0.024611916843979909579, 2048),
    ROW(igamma, (100, 130), 0.99724959163269347372, 1024),
    ROW(igammac, (100, 130), 0.002750408367306526277, 1024),
    ROW(igamma_da, (100, 130), -0.00081013002856228990205, 2048),
    ROW(igamma, (0.01, 1e-5), 0.89633679826719720097, 256),
    ROW(igammac, (0.01, 1e-5), 0.10366320173280279903, 256),
    ROW(igamma_da, (0.01, 1e-5), -9.816725261192565275, 512),
    ROW(igamma, (1e5, 1e5), 0.50042052211036517669, 64),
    ROW(igammac, (1e5, 1e5), 0.49957947788963482331, 64),
    ROW(igamma_da, (1e5, 1e5), -0.0012615673123160860018, 1024),
    ROW(igamma, (1e5, 99000), 0.00075741992117476797412, 512),
    ROW(igammac, (1e5, 99000), 0.99924258007882523203, 16),
    ROW(igamma_da, (1e5, 99000), -8.2610007359684174287e-6, 4096),
    ROW(igamma, (1.5e6, 1.501e6), 0.79291785901709080248, 4096),
    ROW(igammac, (1.5e6, 1.501e6), 0.20708214098290919752, 4096),
    ROW(igamma_da, (1.5e6, 1.501e6), -0.00023335613132509898653, 4096),
    ROW(igamma, (1e8, 100010000), 0.84134474647179881357, 16),
    ROW(igammac, (1e8, 100010000), 0.15865525352820118643, 16),
    ROW(igamma_da, (1e8, 100010000), -2.4196669180817915619e-5, 16),
    ROW(igamma, (1e8, 99950000), 2.854642139958626143e-7, 512),
    ROW(igammac, (1e8, 99950000), 0.99999971453578600414, 16),
    ROW(igamma_da, (1e8, 99950000), -1.4809056819852581987e-10, 4096),
    ROW(igamma_da, (1e-5, 0.25), -1.0442838821956276292, 64),
    ROW(igamma_da, (1e-30, 0.5), -0.55977359477616081175, 64),
    ROW(igamma_da, (1e-200, 1e-200), -459.93980293390761, 64),
    ROW(gamma_sample_da, (1e-5, 0.25), 33522.447399053556007, 64),
    ROW(gamma_sample_da, (1e-30, 0.5), 4.6145531624186525e29, 64),
    ROW(gamma_sample_da, (1e8, 1.0001e8), 1.00005000000016666, 512),
    ROW(betainc, (1000, 2000, 0.34), 0.78121509116064272515, 64),
    ROW(betainc, (1e6, 5, 0.999995), 0.440489337042438717, 64),
    ROW(betainc, (5, 1e6, 5e-6), 0.5595106629518137277, 64),
    ROW(betainc, (1e5, 1e5, 0.501), 0.81445325544244324535, 64),
    ROW(betainc, (0.5, 1e8, 1e-9), 0.3452791536585545291, 64),
    ROW(betainc, (1e-10, 3, 0.5), 0.99999999999318528194, 64),
    ROW(zeta, (134.4625490142048, 133.27665959587654), 3.1561022509700072645e-286, 128),
    ROW(betainc, (0.5, 2, 0.25), 0.6875, 256),
    ROW(betainc, (3, 0.5, 0.9), 0.44541555534797052797, 256),
    ROW(betainc, (20, 30, 0.4), 0.50770019965764800544, 256),
    ROW(betainc, (200, 100, 0.7), 0.89115693435508984738, 256),
  };
  /* clang-format on */
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    double off = fabs(rows[i].got - rows[i].want) / fabs(rows[i].want);
    if (!(off <= rows[i].bound * DBL_EPSILON))
      fail_msg("%s is %.17g, not %.17g: %.3g units off", rows[i].call,
               rows[i].got, rows[i].want, off / DBL_EPSILON);
  }
}

static void test_poles_and_ends(void **state) {
  (void)state;
  const double none[] = {
      td_special_digamma(0),         td_special_digamma(-3),
      td_special_erfinv(1.5),        td_special_ndtri(-0.5),
      td_special_zeta(0.5, 1),       td_special_zeta(2.5, -0.5),
      td_special_zeta(3, -2),        td_special_polygamma(0.5, 1),
      td_special_polygamma(-1, 1),   td_special_igamma(-1, 1),
      td_special_igammac(1, -1),     td_special_igamma_da(0, 1),
      td_special_betainc(0, 1, 0.5), td_special_betainc(1, 1, 1.5),
      td_special_bessel_ie(0, NAN),
  };
  for (size_t i = 0; i < TD_COUNT(none); i++)
    if (!isnan(none[i])) fail_msg("number %zu is %g", i, none[i]);
  assert_true(td_special_erfinv(1) == INFINITY);
  assert_true(td_special_erfinv(-1) == -INFINITY);
  assert_true(td_special_ndtri(0) == -INFINITY);
  assert_true(td_special_zeta(1, 2) == INFINITY);
  assert_true(td_special_zeta(2, 0) == INFINITY);
  assert_true(td_special_zeta(INFINITY, -0.5) == INFINITY);
  assert_true(td_special_zeta(1, NAN) == INFINITY);
  assert_true(td_special_igamma(-1, 0) == 0); /* as in TensorFlow */
  assert_true(isnan(td_special_igammac(-1, 0)));
  assert_true(td_special_igamma(INFINITY, INFINITY) == 0);
  assert_true(td_special_igammac(INFINITY, INFINITY) == 0);
  assert_true(isnan(td_special_igammac(1, -INFINITY)));
  assert_true(td_special_gamma_sample_da(28, 1e9) == 0); /* no density */
  assert_true(td_special_gamma_sample_da(1e30, 1e29) == 0);
  assert_true(td_special_betainc(1e209, 0.9, 0.7) == 0);
  assert_true(td_special_betainc(0.9, 1e300, 0.7) == 1);
  assert_true(td_special_igamma(2, INFINITY) == 1);
  assert_true(td_special_igammac(2, 0) == 1);
  assert_true(td_special_betainc(2, 3, 1) == 1);
  assert_true(td_special_bessel_ie(1, 0) == 0);
}

/* However large the arguments, the number of terms is bounded. */
static void test_huge_arguments_end(void **state) {
  (void)state;
  assert_true(td_special_zeta(3, -1e15 - 0.5) < 10);
  assert_true(fabs(td_special_igamma(1e12, 1e12) - 0.5) < 1e-6);
  assert_true(fabs(td_special_igamma(1e30, 1e30) - 0.5) < 1e-12);
  assert_true(fabs(td_special_gamma_sample_da(1e30, 1e30) - 1) < 1e-12);
  assert_true(td_special_betainc(1e12, 1e12, 0.5) >= 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_poles_and_ends),
      cmocka_unit_test(test_huge_arguments_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
