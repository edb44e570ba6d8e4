/* check_numerics.c - CheckNumerics: an error where a tensor holds NaN or Inf.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel.h"

enum { HAS_NAN = 1, HAS_INF = 2, SCAN_GRAIN = 1 << 16 };

typedef struct scan {
  const void *at;
  td_dtype dtype;
  unsigned found; /* atomic: HAS_NAN, HAS_INF */
} scan;

/* Without its sign a float is infinite when it equals `inf`, a NaN above. */
static unsigned scan_16(const uint16_t *x, int64_t n, unsigned inf) {
  unsigned found = 0;
  for (int64_t i = 0; i < n; i++) {
    unsigned bits = x[i] & 0x7fffu;
    found |= bits > inf ? HAS_NAN : bits == inf ? HAS_INF : 0;
  }
  return found;
}

static unsigned scan_32(const uint32_t *x, int64_t n) {
  unsigned found = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = x[i] & 0x7fffffffu, inf = 0x7f800000u;
    found |= bits > inf ? HAS_NAN : bits == inf ? HAS_INF : 0;
  }
  return found;
}

static unsigned scan_64(const uint64_t *x, int64_t n) {
  unsigned found = 0;
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = x[i] & UINT64_MAX >> 1, inf = (uint64_t)0x7ff << 52;
    found |= bits > inf ? HAS_NAN : bits == inf ? HAS_INF : 0;
  }
  return found;
}

static void scan_piece(void *arg, int64_t begin, int64_t end) {
  scan *s = arg;
  unsigned found;
  int64_t n = end - begin;
  if (s->dtype == TD_FLOAT64)
    found = scan_64((const uint64_t *)s->at + begin, n);
  else if (s->dtype == TD_FLOAT32)
    found = scan_32((const uint32_t *)s->at + begin, n);
  else
    found = scan_16((const uint16_t *)s->at + begin, n,
                    s->dtype == TD_FLOAT16 ? 0x7c00 : 0x7f80);
  if (found) __atomic_fetch_or(&s->found, found, __ATOMIC_RELAXED);
}

static td_status *check_numerics(td_kernel_ctx *c) {
  static const char *const what[] = {"", "NaN", "Inf", "Inf and NaN"};
  const td_tensor *x = td_in(c, 0);
  scan s = {.at = x->data, .dtype = x->dtype};
  td_for(c, td_tensor_count(x), SCAN_GRAIN, scan_piece, &s);
  if (s.found)
    return td_error(TD_INVALID_ARGUMENT, "%s : Tensor had %s values",
                    td_node_string(td_ctx_node(c), "message"), what[s.found]);
  td_out_pass(c, 0, 0);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "CheckNumericsV2",
     .sig = "tensor: T -> output: T; T: {bfloat16, half, float, double}; "
            "message: string",
     .shape = td_infer_same,
     .doc = "As CheckNumerics.",
     .flags = TD_STATEFUL,
     .lua = "",
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {.type = "CheckNumerics",
     .sig = "tensor: T -> output: T; T: {bfloat16, half, float, double}; "
            "message: string",
     .shape = td_infer_same,
     .doc = "The input, or an error when it holds a NaN or an infinity.",
     .flags = TD_STATEFUL,
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "CheckNumericsV2", .device = "CPU", .run = check_numerics},
    {.op = "CheckNumerics", .device = "CPU", .run = check_numerics},
    {0},
};

TD_MODULE(check_numerics, ops, kernels)
