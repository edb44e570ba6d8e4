/* fake_memory.c - the fake runtime's memory (fake.h).
 *
 * It is host memory whose pointers carry a tag no address has: code that
 * follows one faults. All regions are known, so that a copy is refused which
 * leaves one, or says the wrong direction.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/fake.h"

#define TAG ((uintptr_t)0x3a5c << 48)
#define TAGGED ((uintptr_t)0xffff << 48)
enum { ALIGN = 512 };

typedef struct region {
  struct region *next;
  char *at; /* untagged */
  size_t size;
  int device; /* -1: pinned memory of the host */
} region;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static region *regions; /* under the lock */

static bool is_tagged(uintptr_t p) {
  return (p & TAGGED) == TAG;
}
static void *untag(const void *p) {
  return is_tagged((uintptr_t)p) ? (void *)((uintptr_t)p & ~TAGGED) : (void *)p;
}
static void *tag(void *p) {
  return (void *)((uintptr_t)p | TAG);
}

void td_fake_untag_words(void *at, size_t bytes) {
  char *words = at;
  for (size_t i = 0; i + sizeof(uintptr_t) <= bytes; i += sizeof(uintptr_t)) {
    uintptr_t w;
    memcpy(&w, words + i, sizeof w);
    if (!is_tagged(w)) continue;
    w &= ~TAGGED;
    memcpy(words + i, &w, sizeof w);
  }
}

/* ---- regions ------------------------------------------------------------- */

static cudaError_t add(size_t bytes, int device, void **out) {
  region *r = malloc(sizeof *r);
  char *at = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
  if (!r || !at || (device >= 0 && !td_fake_charge(device, (int64_t)bytes))) {
    free(r);
    free(at);
    return td_fake_last(cudaErrorMemoryAllocation);
  }
  memset(at, 0xa5, bytes);
  *r = (region){.at = at, .size = bytes, .device = device};
  pthread_mutex_lock(&lock);
  r->next = regions;
  regions = r;
  pthread_mutex_unlock(&lock);
  td_fake_add(device >= 0 ? &td_fake_there.regions : &td_fake_there.pinned, 1);
  *out = device >= 0 ? tag(at) : at;
  return cudaSuccess;
}

/* Where a region is; -2: it is none. */
static int device_of(void *p) {
  int device = -2;
  pthread_mutex_lock(&lock);
  for (const region *r = regions; r; r = r->next)
    if (r->at == (char *)untag(p)) device = r->device;
  pthread_mutex_unlock(&lock);
  return device;
}

/* All work is waited for: a pinned region may be used by any device. */
static void drain_for(int device) {
  for (int i = 0; i < TD_FAKE_GPUS; i++)
    if (device == -1 || device == i) td_fake_drain(i);
}

static cudaError_t take(void *p, bool pinned) {
  drain_for(device_of(p));
  pthread_mutex_lock(&lock);
  region *r, **at = &regions;
  while (*at && (*at)->at != (char *)untag(p)) at = &(*at)->next;
  r = *at;
  if (r && (r->device < 0) != pinned) r = NULL;
  if (r) *at = r->next;
  pthread_mutex_unlock(&lock);
  if (!r) return td_fake_last(cudaErrorInvalidValue);
  td_fake_add(pinned ? &td_fake_there.pinned : &td_fake_there.regions, -1);
  if (r->device >= 0) (void)td_fake_charge(r->device, -(int64_t)r->size);
  free(r->at);
  free(r);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes) {
  cudaError_t e = td_fake_call("cudaMalloc");
  return e == cudaSuccess ? add(bytes, td_fake_device(), out) : e;
}
cudaError_t cudaFree(void *p) {
  cudaError_t e = td_fake_call("cudaFree");
  cudaError_t freed = p ? take(p, false) : cudaSuccess;
  return e == cudaSuccess ? freed : e;
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
  cudaError_t e = td_fake_call("cudaHostAlloc");
  (void)flags;
  return e == cudaSuccess ? add(bytes, -1, out) : e;
}
cudaError_t cudaFreeHost(void *p) {
  cudaError_t e = td_fake_call("cudaFreeHost");
  cudaError_t freed = p ? take(p, true) : cudaSuccess;
  return e == cudaSuccess ? freed : e;
}
/* What the device sees of pinned memory. */
cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned flags) {
  (void)flags;
  *out = p;
  return td_fake_call("cudaHostGetDevicePointer");
}

/* ---- copies -------------------------------------------------------------- */

static bool holds(const void *p, size_t bytes) {
  const char *at = untag(p);
  bool inside = false;
  pthread_mutex_lock(&lock);
  for (const region *r = regions; r && !inside; r = r->next)
    inside = r->device >= 0 && at >= r->at && at + bytes <= r->at + r->size;
  pthread_mutex_unlock(&lock);
  return inside;
}

cudaError_t td_fake_ends(const void *from, void *to, size_t bytes,
                         enum cudaMemcpyKind kind, const void **real_from,
                         void **real_to) {
  bool from_device =
      kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  bool to_device =
      kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (is_tagged((uintptr_t)from) != from_device ||
      is_tagged((uintptr_t)to) != to_device ||
      (from_device && !holds(from, bytes)) || (to_device && !holds(to, bytes)))
    return td_fake_last(cudaErrorInvalidValue);
  *real_from = untag(from);
  *real_to = untag(to);
  return cudaSuccess;
}

typedef struct move {
  void *to;
  const void *from;
  int value;
  size_t bytes;
} move;

static void run_copy(void *arg) {
  move *m = arg;
  memcpy(m->to, m->from, m->bytes);
  free(m);
}
static void run_fill(void *arg) {
  move *m = arg;
  memset(m->to, m->value, m->bytes);
  free(m);
}

static cudaError_t push(cudaStream_t s, const char *kind,
                        void (*run)(void *arg), const move *what) {
  move *m = malloc(sizeof *m);
  if (!m) return td_fake_last(cudaErrorMemoryAllocation);
  *m = *what;
  cudaError_t e = td_fake_push(s, kind, run, free, m);
  if (e != cudaSuccess) free(m);
  return e;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t s) {
  move m = {.bytes = bytes};
  cudaError_t e = td_fake_call("cudaMemcpyAsync");
  if (e == cudaSuccess) e = td_fake_ends(from, to, bytes, kind, &m.from, &m.to);
  return e == cudaSuccess ? push(s, "copy", run_copy, &m) : e;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                int from_device, size_t bytes, cudaStream_t s) {
  move m = {.bytes = bytes};
  cudaError_t e = td_fake_call("cudaMemcpyPeerAsync");
  (void)to_device;
  (void)from_device;
  if (e == cudaSuccess)
    e = td_fake_ends(from, to, bytes, cudaMemcpyDeviceToDevice, &m.from, &m.to);
  return e == cudaSuccess ? push(s, "copy", run_copy, &m) : e;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s) {
  const void *from;
  move m = {.bytes = bytes, .value = value};
  cudaError_t e = td_fake_call("cudaMemsetAsync");
  if (e == cudaSuccess)
    e = td_fake_ends(to, to, bytes, cudaMemcpyDeviceToDevice, &from, &m.to);
  return e == cudaSuccess ? push(s, "copy", run_fill, &m) : e;
}
