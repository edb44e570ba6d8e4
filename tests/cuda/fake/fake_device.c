/* fake_device.c - the fake runtime's devices and errors (fake.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/fake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current;
static _Thread_local cudaError_t last;
static cudaError_t lost[TD_FAKE_GPUS]; /* under the lock */
static int64_t in_use[TD_FAKE_GPUS];   /* under the lock */

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text && *text ? atol(text) : otherwise;
}

static int count(void) {
  long n = number("TIDE_FAKE_GPUS", 1);
  return n < 0 ? 0 : n > TD_FAKE_GPUS ? TD_FAKE_GPUS : (int)n;
}

/* ---- errors -------------------------------------------------------------- */

static char plan[64]; /* under the lock, as what follows */
static bool plan_known, happened;
static int64_t calls;
static long delay = -1;
static size_t memory;

static void know_plan(void) {
  const char *text = getenv("TIDE_FAKE_FAIL");
  if (plan_known) return;
  plan_known = true;
  if (text) strncpy(plan, text, sizeof plan - 1);
}

/* Is it that one's turn to fail? "name:n:error" */
static cudaError_t planned(const char *name) {
  size_t n = strlen(name);
  cudaError_t e = cudaSuccess;
  pthread_mutex_lock(&lock);
  know_plan();
  if (strncmp(plan, name, n) == 0 && plan[n] == ':') {
    char *end;
    long nth = strtol(plan + n + 1, &end, 10);
    if (++calls == nth && *end == ':') {
      e = (cudaError_t)atoi(end + 1);
      happened = true;
    }
  }
  pthread_mutex_unlock(&lock);
  return e;
}

void td_fake_plan(const char *text) {
  pthread_mutex_lock(&lock);
  memset(plan, 0, sizeof plan);
  if (text) strncpy(plan, text, sizeof plan - 1);
  if (!text) memset(lost, 0, sizeof lost);
  plan_known = true;
  happened = false;
  calls = 0;
  pthread_mutex_unlock(&lock);
}

bool td_fake_happened(void) {
  pthread_mutex_lock(&lock);
  bool now = happened;
  pthread_mutex_unlock(&lock);
  return now;
}

void td_fake_delay(long us) {
  __atomic_store_n(&delay, us, __ATOMIC_RELAXED);
}

long td_fake_delay_now(void) {
  long now = __atomic_load_n(&delay, __ATOMIC_RELAXED);
  if (now >= 0) return now;
  td_fake_delay(number("TIDE_FAKE_DELAY", 20));
  return td_fake_delay_now();
}

td_fake_counts td_fake_there;

td_fake_counts td_fake_count(void) {
  return (td_fake_counts){
      __atomic_load_n(&td_fake_there.regions, __ATOMIC_RELAXED),
      __atomic_load_n(&td_fake_there.pinned, __ATOMIC_RELAXED),
      __atomic_load_n(&td_fake_there.streams, __ATOMIC_RELAXED),
      __atomic_load_n(&td_fake_there.events, __ATOMIC_RELAXED)};
}

cudaError_t td_fake_last(cudaError_t e) {
  if (e != cudaSuccess) last = e;
  return e;
}

cudaError_t td_fake_lost(int device) {
  pthread_mutex_lock(&lock);
  cudaError_t e = lost[device];
  pthread_mutex_unlock(&lock);
  return e;
}

cudaError_t td_fake_call(const char *name) {
  if (count() == 0) return td_fake_last(cudaErrorInsufficientDriver);
  cudaError_t e = td_fake_lost(current);
  if (e == cudaSuccess) e = planned(name);
  return td_fake_last(e);
}

cudaError_t td_fake_work(const char *kind, int device) {
  cudaError_t e = planned(kind);
  pthread_mutex_lock(&lock);
  if (e != cudaSuccess && lost[device] == cudaSuccess) lost[device] = e;
  e = lost[device];
  pthread_mutex_unlock(&lock);
  return e;
}

cudaError_t cudaGetLastError(void) {
  cudaError_t e = last;
  last = cudaSuccess;
  return e;
}
cudaError_t cudaPeekAtLastError(void) {
  return last;
}
const char *cudaGetErrorName(cudaError_t e) {
  switch ((int)e) {
  case cudaErrorMemoryAllocation:
    return "cudaErrorMemoryAllocation";
  case cudaErrorInsufficientDriver:
    return "cudaErrorInsufficientDriver";
  case cudaErrorIllegalAddress:
    return "cudaErrorIllegalAddress";
  case cudaErrorLaunchFailure:
    return "cudaErrorLaunchFailure";
  default:
    return "cudaError";
  }
}
const char *cudaGetErrorString(cudaError_t e) {
  switch ((int)e) {
  case cudaErrorMemoryAllocation:
    return "out of memory";
  case cudaErrorInsufficientDriver:
    return "CUDA driver version is insufficient for CUDA runtime version";
  case cudaErrorIllegalAddress:
    return "an illegal memory access was encountered";
  case cudaErrorLaunchFailure:
    return "unspecified launch failure";
  default:
    return "an error of the fake runtime";
  }
}

/* ---- devices ------------------------------------------------------------- */

int td_fake_device(void) {
  return current;
}

cudaError_t cudaGetDeviceCount(int *out) {
  cudaError_t e = td_fake_call("cudaGetDeviceCount");
  if (e == cudaSuccess) *out = count();
  return e;
}

cudaError_t cudaDriverGetVersion(int *out) {
  *out = count() > 0 ? 13000 : 0;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *out) {
  *out = 13000;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= count())
    return td_fake_last(cudaErrorInvalidDevice);
  current = device;
  return td_fake_call("cudaSetDevice");
}
cudaError_t cudaGetDevice(int *out) {
  *out = current;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr what,
                                   int device) {
  (void)device;
  switch ((int)what) {
  case cudaDevAttrMultiProcessorCount:
    *out = TD_FAKE_SMS;
    break;
  case cudaDevAttrComputeCapabilityMajor:
    *out = 9;
    break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *out = 232448;
    break;
  default:
    *out = 0;
    break;
  }
  return td_fake_call("cudaDeviceGetAttribute");
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int room, int device) {
  cudaError_t e = td_fake_call("cudaDeviceGetPCIBusId");
  if (e != cudaSuccess || room < 13) return e;
  memcpy(out, "0000:00:0a.0", 13);
  out[9] = (char)('a' + device);
  return cudaSuccess;
}

/* ---- memory of a card ---------------------------------------------------- */

void td_fake_memory(size_t bytes) {
  __atomic_store_n(&memory, bytes, __ATOMIC_RELAXED);
}

size_t td_fake_limit(void) {
  size_t set = __atomic_load_n(&memory, __ATOMIC_RELAXED);
  return set ? set : (size_t)number("TIDE_FAKE_MEMORY", (long)4 << 30);
}

bool td_fake_charge(int device, int64_t bytes) {
  pthread_mutex_lock(&lock);
  bool room = in_use[device] + bytes <= (int64_t)td_fake_limit();
  if (room) in_use[device] += bytes;
  pthread_mutex_unlock(&lock);
  return room;
}

size_t td_fake_in_use(int device) {
  pthread_mutex_lock(&lock);
  size_t n = (size_t)in_use[device];
  pthread_mutex_unlock(&lock);
  return n;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
  cudaError_t e = td_fake_call("cudaMemGetInfo");
  *total = td_fake_limit();
  *left = *total - td_fake_in_use(current);
  return e;
}

cudaError_t cudaDeviceCanAccessPeer(int *out, int device, int peer) {
  *out = device != peer;
  return td_fake_call("cudaDeviceCanAccessPeer");
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  (void)peer;
  (void)flags;
  return td_fake_call("cudaDeviceEnablePeerAccess");
}
