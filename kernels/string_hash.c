/* string_hash.c - strings to buckets: StringToHashBucketFast,
 * StringToHashBucket.
 *
 * The first is FarmHash's Fingerprint64, whose values are fixed for ever; the
 * second, deprecated, MurmurHash64A with TensorFlow's seed. A bucket is the
 * remainder of the hash, unsigned.
 * Sources: github.com/google/farmhash (the algorithm "na"); Appleby,
 * MurmurHash2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/text.h"

static uint64_t get64(const char *s) {
  uint64_t v;
  memcpy(&v, s, sizeof v);
  return v;
}

static uint64_t get32(const char *s) {
  uint32_t v;
  memcpy(&v, s, sizeof v);
  return v;
}

static uint64_t rotate(uint64_t v, int by) {
  return v >> by | v << (64 - by);
}

/* ---- Fingerprint64 ------------------------------------------------------- */

static const uint64_t K0 = 0xc3a5c85c97cb3127u, K1 = 0xb492b66fbe98f273u,
                      K2 = 0x9ae16a3b2f90404fu;

typedef struct pair {
  uint64_t a, b;
} pair;

static uint64_t fold(uint64_t v) {
  return v ^ v >> 47;
}

static uint64_t mix(uint64_t u, uint64_t v, uint64_t by) {
  return fold((v ^ fold((u ^ v) * by)) * by) * by;
}

static uint64_t hash_16(const char *s, size_t len) {
  if (len >= 8) {
    uint64_t by = K2 + len * 2, a = get64(s) + K2, b = get64(s + len - 8);
    return mix(rotate(b, 37) * by + a, (rotate(a, 25) + b) * by, by);
  }
  if (len >= 4)
    return mix(len + (get32(s) << 3), get32(s + len - 4), K2 + len * 2);
  if (len == 0) return K2;
  uint32_t first = (unsigned char)s[0], middle = (unsigned char)s[len >> 1];
  uint32_t last = (unsigned char)s[len - 1];
  uint32_t y = first + (middle << 8), z = (uint32_t)len + (last << 2);
  return fold(y * K2 ^ z * K0) * K2;
}

static uint64_t hash_32(const char *s, size_t len) {
  uint64_t by = K2 + len * 2, a = get64(s) * K1, b = get64(s + 8);
  uint64_t c = get64(s + len - 8) * by, d = get64(s + len - 16) * K2;
  return mix(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + K2, 18) + c,
             by);
}

static uint64_t hash_64(const char *s, size_t len) {
  uint64_t by = K2 + len * 2, a = get64(s) * K2, b = get64(s + 8);
  uint64_t c = get64(s + len - 8) * by, d = get64(s + len - 16) * K2;
  uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d;
  uint64_t z = mix(y, a + rotate(b + K2, 18) + c, by);
  uint64_t e = get64(s + 16) * by, f = get64(s + 24);
  uint64_t g = (y + get64(s + len - 32)) * by;
  uint64_t h = (z + get64(s + len - 24)) * by;
  return mix(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g,
             by);
}

/* 32 bytes with two seeds. */
static pair weak(const char *s, uint64_t a, uint64_t b) {
  uint64_t x = get64(s), z = get64(s + 24);
  a += x;
  b = rotate(b + a + z, 21);
  uint64_t c = a;
  a += get64(s + 8) + get64(s + 16);
  b += rotate(a, 44);
  return (pair){a + z, b + c};
}

typedef struct long_hash {
  uint64_t x, y, z;
  pair v, w;
} long_hash;

/* 64 bytes; the last block has another factor and weights. */
static void block(long_hash *h, const char *s, uint64_t by, uint64_t weight) {
  h->x = rotate(h->x + h->y + h->v.a + get64(s + 8), 37) * by;
  h->y = rotate(h->y + h->v.b + get64(s + 48), 42) * by;
  h->x ^= h->w.b * weight;
  h->y += h->v.a * weight + get64(s + 40);
  h->z = rotate(h->z + h->w.a, 33) * by;
  h->v = weak(s, h->v.b * by, h->x + h->w.a);
  h->w = weak(s + 32, h->z + h->w.b, h->y + get64(s + 16));
  uint64_t z = h->z;
  h->z = h->x;
  h->x = z;
}

static uint64_t fingerprint(const char *s, size_t len) {
  const uint64_t seed = 81;
  if (len <= 16) return hash_16(s, len);
  if (len <= 32) return hash_32(s, len);
  if (len <= 64) return hash_64(s, len);
  long_hash h = {.x = seed * K2 + get64(s), .y = seed * K1 + 113};
  h.z = fold(h.y * K2 + 113) * K2;
  size_t rest = (len - 1) & 63;
  const char *last = s + (len - 1) / 64 * 64;
  for (; s != last; s += 64) block(&h, s, K1, 1);
  uint64_t by = K1 + ((h.z & 0xff) << 1);
  h.w.a += rest;
  h.v.a += h.w.a;
  h.w.a += h.v.a;
  block(&h, last + rest - 63, by, 9);
  return mix(mix(h.v.a, h.w.a, by) + fold(h.y) * K0 + h.z,
             mix(h.v.b, h.w.b, by) + h.x, by);
}

/* ---- MurmurHash64A ------------------------------------------------------- */

static uint64_t murmur(const char *s, size_t len) {
  const uint64_t m = 0xc6a4a7935bd1e995u;
  uint64_t h = UINT64_C(0xdecafcaffe) ^ len * m;
  for (; len >= 8; s += 8, len -= 8) {
    uint64_t k = get64(s) * m;
    h = (h ^ (k ^ k >> 47) * m) * m;
  }
  if (len) {
    uint64_t tail = 0;
    memcpy(&tail, s, len);
    h = (h ^ tail) * m;
  }
  h = fold(h) * m;
  return fold(h);
}

/* ---- running ------------------------------------------------------------- */

static td_status *run(td_kernel_ctx *c,
                      uint64_t (*hash)(const char *s, size_t len)) {
  uint64_t buckets = (uint64_t)td_node_int(td_ctx_node(c), "num_buckets");
  const td_tensor *x = td_in(c, 0);
  td_tensor *y;
  TD_TRY(td_out(c, 0, &x->shape, &y));
  int64_t n = td_tensor_count(x), *to = y->data;
  for (int64_t i = 0; i < n; i++) {
    td_bytes s = td_text_at(x, i);
    to[i] = (int64_t)(hash(s.at, s.len) % buckets);
  }
  return NULL;
}

static td_status *fast_run(td_kernel_ctx *c) {
  return run(c, fingerprint);
}

static td_status *plain_run(td_kernel_ctx *c) {
  return run(c, murmur);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "StringToHashBucketFast",
     .sig = "input: string -> output: int64; num_buckets: int >= 1",
     .shape = td_infer_same,
     .doc = "A number below num_buckets for each string, from FarmHash; not "
            "safe against strings made to collide.",
     .lua = "string_to_hash_bucket_fast",
     .example = "td.string_to_hash_bucket_fast(\"a\", {num_buckets = "
                "10}).dtype  --> int64",
     .section = "Strings"},
    {.type = "StringToHashBucket",
     .sig = "string_tensor: string -> output: int64; num_buckets: int >= 1",
     .shape = td_infer_same,
     .doc = "A number below num_buckets for each string, from an old hash; "
            "StringToHashBucketFast is better.",
     .lua = "string_to_hash_bucket",
     .example =
         "td.string_to_hash_bucket(\"a\", {num_buckets = 10}).dtype  --> int64",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StringToHashBucketFast", .device = "CPU", .run = fast_run},
    {.op = "StringToHashBucket", .device = "CPU", .run = plain_run},
    {0},
};

TD_MODULE(string_hash, ops, kernels)
