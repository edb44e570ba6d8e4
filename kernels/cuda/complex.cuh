/* complex.cuh - complex numbers on a card: what <complex.h> gives a processor.
 *
 * Products and quotients recover infinities as C's do (Annex G.5.1); functions
 * are those of the C library, its special values included, but for signs of
 * zeros and of NaN. complex64 goes through double: no intermediate result
 * overflows then, and rounding once is exact enough.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_COMPLEX_CUH
#define TD_CUDA_COMPLEX_CUH

#include "kernels/cuda/num.cuh"

template <class R> struct alignas(2 * sizeof(R)) td_complex {
  typedef R part;
  R re, im;

  td_complex() = default;
  __host__ __device__ constexpr td_complex(R x, R y = 0) : re(x), im(y) {}
  template <class S>
  explicit __host__ __device__ constexpr td_complex(td_complex<S> z)
      : re((R)z.re), im((R)z.im) {}

  friend __device__ inline td_complex operator+(td_complex z, td_complex w) {
    return td_complex(z.re + w.re, z.im + w.im);
  }
  friend __device__ inline td_complex operator-(td_complex z, td_complex w) {
    return td_complex(z.re - w.re, z.im - w.im);
  }
  friend __device__ inline td_complex operator-(td_complex z) {
    return td_complex(-z.re, -z.im);
  }
  friend __device__ inline bool operator==(td_complex z, td_complex w) {
    return z.re == w.re && z.im == w.im;
  }
  friend __device__ inline bool operator!=(td_complex z, td_complex w) {
    return !(z == w);
  }
  friend __device__ inline td_complex operator*(td_complex z, td_complex w) {
    R x = z.re * w.re - z.im * w.im, y = z.re * w.im + z.im * w.re;
    if (x != x && y != y) return times_rest(z, w, x, y);
    return td_complex(x, y);
  }
  friend __device__ inline td_complex operator/(td_complex z, td_complex w) {
    return over(z, w);
  }
  __device__ inline td_complex &operator+=(td_complex w) {
    return *this = *this + w;
  }
  __device__ inline td_complex &operator-=(td_complex w) {
    return *this = *this - w;
  }
  __device__ inline td_complex &operator*=(td_complex w) {
    return *this = *this * w;
  }

private:
  /* 1 of an infinity, 0 of what is finite, with its sign; of NaN 0. */
  static __device__ inline R unit(R x) {
    return copysign(isinf(x) ? (R)1 : (R)0, x);
  }
  static __device__ inline R number(R x) {
    return x != x ? copysign((R)0, x) : x;
  }
  /* Both parts came out NaN: infinity times what is not 0 is infinite. */
  static __device__ td_complex times_rest(td_complex z, td_complex w, R x,
                                          R y) {
    bool big_z = isinf(z.re) || isinf(z.im), big_w = isinf(w.re) || isinf(w.im);
    bool big = isinf(z.re * w.re) || isinf(z.im * w.im) ||
               isinf(z.re * w.im) || isinf(z.im * w.re);
    if (!big_z && !big_w && !big) return td_complex(x, y);
    if (big_z) z = td_complex(unit(z.re), unit(z.im));
    if (big_w) w = td_complex(unit(w.re), unit(w.im));
    z = td_complex(number(z.re), number(z.im));
    w = td_complex(number(w.re), number(w.im));
    return td_complex((R)INFINITY * (z.re * w.re - z.im * w.im),
                      (R)INFINITY * (z.re * w.im + z.im * w.re));
  }
  static __device__ td_complex over(td_complex z, td_complex w) {
    R most = fmax(fabs(w.re), fabs(w.im));
    int e = most > 0 && most < (R)INFINITY ? ilogb(most) : 0;
    R c = scalbn(w.re, -e), d = scalbn(w.im, -e), square = c * c + d * d;
    R x = scalbn((z.re * c + z.im * d) / square, -e);
    R y = scalbn((z.im * c - z.re * d) / square, -e);
    if (x == x || y == y) return td_complex(x, y);
    bool big = isinf(z.re) || isinf(z.im);
    if (square == 0 && (z.re == z.re || z.im == z.im))
      return td_complex(copysign((R)INFINITY, w.re) * z.re,
                        copysign((R)INFINITY, w.re) * z.im);
    if (big && isfinite(w.re) && isfinite(w.im)) {
      R a = unit(z.re), b = unit(z.im);
      return td_complex((R)INFINITY * (a * c + b * d),
                        (R)INFINITY * (b * c - a * d));
    }
    if ((isinf(w.re) || isinf(w.im)) && isfinite(z.re) && isfinite(z.im)) {
      R a = unit(w.re), b = unit(w.im);
      return td_complex((R)0 * (z.re * a + z.im * b),
                        (R)0 * (z.im * a - z.re * b));
    }
    return td_complex(x, y);
  }
};

typedef td_complex<double> td_complex_wide;

/* ---- parts --------------------------------------------------------------- */

template <class T> TD_DEVICE T td_num_conj(T x) {
  return x;
}
template <class R> TD_DEVICE td_complex<R> td_num_conj(td_complex<R> z) {
  return td_complex<R>(z.re, -z.im);
}
template <class R> TD_DEVICE R td_complex_abs(td_complex<R> z) {
  return hypot(z.re, z.im);
}
template <class R> TD_DEVICE R td_complex_angle(td_complex<R> z) {
  return atan2(z.im, z.re);
}
/* i z and -i z. */
TD_DEVICE td_complex_wide td_complex_turn(td_complex_wide z) {
  return td_complex_wide(-z.im, z.re);
}
TD_DEVICE td_complex_wide td_complex_turn_back(td_complex_wide z) {
  return td_complex_wide(z.im, -z.re);
}

/* ---- exponentials -------------------------------------------------------- */

/* exp(x) times a, in two steps where exp(x) alone overflows. */
TD_DEVICE double td_complex_grown(double x, double a) {
  double half = exp(x / 2);
  return x > 700 ? half * a * half : exp(x) * a;
}
TD_DEVICE td_complex_wide td_complex_exp(td_complex_wide z) {
  if (z.im == 0) return td_complex_wide(exp(z.re), z.im);
  if (!isfinite(z.im) && isinf(z.re))
    return z.re < 0 ? td_complex_wide(0, 0) : td_complex_wide(z.re, NAN);
  if (z.re == -INFINITY) /* a zero of the right signs */
    return td_complex_wide(copysign(0.0, cos(z.im)), copysign(0.0, sin(z.im)));
  return td_complex_wide(td_complex_grown(z.re, cos(z.im)),
                         td_complex_grown(z.re, sin(z.im)));
}
/* Through log1p, for z near 0. */
TD_DEVICE td_complex_wide td_complex_expm1(td_complex_wide z) {
  double half = sin(z.im / 2);
  return td_complex_wide(expm1(z.re) * cos(z.im) - 2 * half * half,
                         exp(z.re) * sin(z.im));
}
TD_DEVICE td_complex_wide td_complex_log(td_complex_wide z) {
  double x = fabs(z.re), y = fabs(z.im), angle = td_complex_angle(z);
  double more = fmax(x, y), less = fmin(x, y), size;
  if (more == INFINITY)
    size = more;
  else if (more > 0.5 && more < 2 && less == less)
    size = log1p((more - 1) * (more + 1) + less * less) / 2;
  else if (more > 1e300)
    size = log(hypot(x / 2, y / 2)) + M_LN2;
  else if (more < 1e-300 && more > 0)
    size = log(hypot(x * 0x1p60, y * 0x1p60)) - 60 * M_LN2;
  else
    size = log(hypot(x, y));
  /* Where the sum of squares is near 1/4 or less, nothing has cancelled. */
  return td_complex_wide(size, angle);
}
TD_DEVICE td_complex_wide td_complex_log1p(td_complex_wide z) {
  double x = z.re, y = z.im;
  if (!(fabs(x) + fabs(y) < 0x1p100))
    return td_complex_log(td_complex_wide(1 + x, y));
  return td_complex_wide(0.5 * log1p(x * (2 + x) + y * y), atan2(y, 1 + x));
}
TD_DEVICE td_complex_wide td_complex_sqrt(td_complex_wide z) {
  double x = z.re, y = z.im;
  if (isinf(y)) return td_complex_wide(INFINITY, y);
  if (x == 0 && y == 0) return td_complex_wide(0, y);
  if (isinf(x) && x > 0) return td_complex_wide(x, y == y ? 0 * y : y);
  if (isinf(x))
    return td_complex_wide(y == y ? 0 : y, copysign((double)INFINITY, y));
  if (x != x || y != y) return td_complex_wide(NAN, NAN);
  double most = fmax(fabs(x), fabs(y));
  int e = ilogb(most) & ~1; /* even: its half is whole */
  double a = scalbn(fabs(x), -e), b = scalbn(fabs(y), -e);
  double big = scalbn(sqrt((a + hypot(a, b)) / 2), e / 2);
  double small = scalbn(b, e / 2) / (2 * scalbn(big, -e / 2));
  return x >= 0 ? td_complex_wide(big, copysign(small, y))
                : td_complex_wide(small, copysign(big, y));
}

/* ---- circular and hyperbolic --------------------------------------------- */

TD_DEVICE td_complex_wide td_complex_sinh(td_complex_wide z) {
  double x = z.re, y = z.im;
  if (y == 0) return td_complex_wide(sinh(x), y);
  if (x == 0) return td_complex_wide(x, sin(y));
  if (fabs(x) < 30)
    return td_complex_wide(sinh(x) * cos(y), cosh(x) * sin(y));
  if (isinf(x) && !isfinite(y)) return td_complex_wide(x, NAN);
  double c = cos(y) / 2, s = sin(y) / 2;
  return td_complex_wide(td_complex_grown(fabs(x), copysign(1.0, x) * c),
                         td_complex_grown(fabs(x), s));
}
TD_DEVICE td_complex_wide td_complex_cosh(td_complex_wide z) {
  double x = z.re, y = z.im;
  if (y == 0) return td_complex_wide(cosh(x), 0);
  if (x == 0) return td_complex_wide(cos(y), 0);
  if (fabs(x) < 30)
    return td_complex_wide(cosh(x) * cos(y), sinh(x) * sin(y));
  if (isinf(x) && !isfinite(y)) return td_complex_wide(INFINITY, NAN);
  double c = cos(y) / 2, s = sin(y) / 2;
  return td_complex_wide(td_complex_grown(fabs(x), c),
                         td_complex_grown(fabs(x), copysign(1.0, x) * s));
}
/* With t = tan(y), s = sinh(x): tanh(z) is (s cosh(x) (1 + t^2) + i t) over
 * 1 + s^2 (1 + t^2); Kahan (1987). */
TD_DEVICE td_complex_wide td_complex_tanh(td_complex_wide z) {
  double x = z.re, y = z.im;
  if (y == 0) return td_complex_wide(tanh(x), y);
  if (isinf(x)) return td_complex_wide(copysign(1.0, x), 0);
  if (fabs(x) > 20)
    return td_complex_wide(copysign(1.0, x),
                           4 * sin(y) * cos(y) * exp(-2 * fabs(x)));
  double t = tan(y), s = sinh(x), more = 1 + t * t;
  double under = 1 + more * s * s;
  if (isinf(t)) return td_complex_wide(cosh(x) / s, 0);
  return td_complex_wide(more * cosh(x) * s / under, t / under);
}

/* ---- their inverses ------------------------------------------------------ */

/* The functions of Kahan, "Branch cuts for complex elementary functions"
 * (1987). */
TD_DEVICE td_complex_wide td_complex_asin(td_complex_wide z) {
  double x = z.re, y = z.im;
  if (isinf(x) || isinf(y)) {
    if (x != x) return td_complex_wide(x, y);
    return td_complex_wide(atan2(x, fabs(y)),
                           y != y ? INFINITY : copysign((double)INFINITY, y));
  }
  td_complex_wide a = td_complex_sqrt(td_complex_wide(1 - x, -y));
  td_complex_wide b = td_complex_sqrt(td_complex_wide(1 + x, y));
  return td_complex_wide(atan2(x, a.re * b.re - a.im * b.im),
                         asinh(a.re * b.im - a.im * b.re));
}
TD_DEVICE td_complex_wide td_complex_acos(td_complex_wide z) {
  double x = z.re, y = z.im;
  if (isinf(x) || isinf(y)) {
    if (x != x) return td_complex_wide(x, -y);
    return td_complex_wide(atan2(fabs(y), x),
                           y != y ? INFINITY : -copysign((double)INFINITY, y));
  }
  td_complex_wide a = td_complex_sqrt(td_complex_wide(1 - x, -y));
  td_complex_wide b = td_complex_sqrt(td_complex_wide(1 + x, y));
  return td_complex_wide(2 * atan2(a.re, b.re),
                         asinh(b.re * a.im - b.im * a.re));
}
TD_DEVICE td_complex_wide td_complex_acosh(td_complex_wide z) {
  double x = z.re, y = z.im;
  if (isinf(x) || isinf(y))
    return td_complex_wide(INFINITY, x != x ? x : atan2(y, x));
  td_complex_wide a = td_complex_sqrt(td_complex_wide(x - 1, y));
  td_complex_wide b = td_complex_sqrt(td_complex_wide(x + 1, y));
  return td_complex_wide(asinh(a.re * b.re + a.im * b.im),
                         2 * atan2(a.im, b.re));
}
TD_DEVICE td_complex_wide td_complex_atanh(td_complex_wide z) {
  double x = z.re, y = z.im, a = fabs(x), b = fabs(y);
  if (a > 1e150 || b > 1e150)
    return td_complex_wide(isinf(a) || isinf(b)
                               ? copysign(0.0, x)
                               : x / a / (a > b ? a + b / a * b
                                                : (a / b * a + b) * (b / a)),
                           y != y ? y : copysign(M_PI_2, y));
  double far = (1 - a) * (1 - a) + b * b; /* the distance from 1, squared */
  double size = 0.25 * log1p(4 * a / far);
  return td_complex_wide(copysign(size, x),
                         atan2(2 * y, (1 - a) * (1 + a) - b * b) / 2);
}

/* ---- the names of num.h -------------------------------------------------- */

TD_DEVICE td_complex_wide td_complex_sin(td_complex_wide z) {
  return td_complex_turn_back(td_complex_sinh(td_complex_turn(z)));
}
TD_DEVICE td_complex_wide td_complex_cos(td_complex_wide z) {
  return td_complex_cosh(td_complex_turn(z));
}
TD_DEVICE td_complex_wide td_complex_tan(td_complex_wide z) {
  return td_complex_turn_back(td_complex_tanh(td_complex_turn(z)));
}
TD_DEVICE td_complex_wide td_complex_asinh(td_complex_wide z) {
  return td_complex_turn_back(td_complex_asin(td_complex_turn(z)));
}
TD_DEVICE td_complex_wide td_complex_atan(td_complex_wide z) {
  return td_complex_turn_back(td_complex_atanh(td_complex_turn(z)));
}
TD_DEVICE td_complex_wide td_complex_sigmoid(td_complex_wide z) {
  return td_complex_wide(1) / (td_complex_wide(1) + td_complex_exp(-z));
}
TD_DEVICE td_complex_wide td_complex_sign(td_complex_wide z) {
  double size = td_complex_abs(z);
  if (z == td_complex_wide(0)) return z;
  return td_complex_wide(z.re / size, z.im / size);
}
TD_DEVICE td_complex_wide td_complex_pow(td_complex_wide z, td_complex_wide w) {
  if (w == td_complex_wide(0)) return td_complex_wide(1);
  if (z == td_complex_wide(0)) return td_complex_wide(0);
  return td_complex_exp(w * td_complex_log(z));
}

#define TD_COMPLEX_NAME(name)                                                  \
  template <class R> TD_DEVICE td_complex<R> td_num_##name(td_complex<R> z) {  \
    return td_complex<R>(td_complex_##name(td_complex_wide(z)));               \
  }
TD_COMPLEX_NAME(exp)
TD_COMPLEX_NAME(expm1)
TD_COMPLEX_NAME(log)
TD_COMPLEX_NAME(log1p)
TD_COMPLEX_NAME(sqrt)
TD_COMPLEX_NAME(sin)
TD_COMPLEX_NAME(cos)
TD_COMPLEX_NAME(tan)
TD_COMPLEX_NAME(sinh)
TD_COMPLEX_NAME(cosh)
TD_COMPLEX_NAME(tanh)
TD_COMPLEX_NAME(asin)
TD_COMPLEX_NAME(acos)
TD_COMPLEX_NAME(atan)
TD_COMPLEX_NAME(asinh)
TD_COMPLEX_NAME(acosh)
TD_COMPLEX_NAME(atanh)
TD_COMPLEX_NAME(sigmoid)
TD_COMPLEX_NAME(sign)
#undef TD_COMPLEX_NAME

#endif
