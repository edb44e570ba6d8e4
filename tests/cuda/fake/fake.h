/* fake.h - a CUDA runtime without a GPU, linked in the place of the real one.
 *
 *   fake_device.c   devices, errors, the n-th call that fails
 *   fake_memory.c   memory behind tagged pointers, copies that check both ends
 *   fake_stream.c   streams: a thread each that comes late by chance; events
 *   fake_libraries.c  where NVIDIA's libraries are looked for: nowhere
 *
 * The plugin is built once more with these and with its kernels on the
 * processor (emulate.h); tide then has CUDA devices on any machine. What they
 * are like: TIDE_FAKE_GPUS how many (1), TIDE_FAKE_DELAY the longest delay of a
 * piece of work in us (20), TIDE_FAKE_MEMORY bytes of a card (4 GiB),
 * TIDE_FAKE_FAIL "cudaMalloc:3:2" has the third call of that function fail with
 * error 2, "kernel:5:719" the device be lost in the fifth kernel. A program may
 * ask for the last three itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUDA_FAKE_H
#define TEST_CUDA_FAKE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TD_FAKE_GPUS = 8, TD_FAKE_SMS = 2 };

/* ---- for kernels on the processor (emulate.h) ---- */

/* These three are for fake libraries (tests/cuda/libraries), too. */
#define TD_FAKE_EXPORT __attribute__((visibility("default")))

/* Takes the tag off all words of `at` that are pointers of device memory. */
TD_FAKE_EXPORT void td_fake_untag_words(void *at, size_t bytes);
cudaError_t td_fake_check_launch(dim3 grid, dim3 block, size_t shared);
/* run(arg) on the stream's thread, or drop(arg) when the device is lost. */
TD_FAKE_EXPORT cudaError_t td_fake_enqueue(cudaStream_t stream, void (*run)(void *arg),
                            void (*drop)(void *arg), void *arg);

/* ---- for tests: exported ---- */

/* As TIDE_FAKE_FAIL, from now on; NULL: nothing fails, lost devices are there
 * again. Calls are counted from here. */
TD_FAKE_EXPORT void td_fake_plan(const char *plan);
/* Has what was planned come to pass? */
TD_FAKE_EXPORT bool td_fake_happened(void);
TD_FAKE_EXPORT void td_fake_delay(long us);
TD_FAKE_EXPORT void td_fake_memory(size_t bytes); /* of a card */
/* What is there and was not given back. */
typedef struct td_fake_counts {
  int64_t regions, pinned, streams, events;
} td_fake_counts;
TD_FAKE_EXPORT td_fake_counts td_fake_count(void);

/* ---- among the files ---- */

extern td_fake_counts td_fake_there; /* atomic, each of them */
static inline void td_fake_add(int64_t *count, int by) {
  __atomic_fetch_add(count, by, __ATOMIC_RELAXED);
}
long td_fake_delay_now(void);
/* Waits for all work of a device: what cudaFree does. */
void td_fake_drain(int device);

/* Of each call of the runtime first: 0, or the error it is to return, which is
 * then the last error. */
TD_FAKE_EXPORT cudaError_t td_fake_call(const char *name);
/* A piece of work of that kind runs: an error loses the device. */
cudaError_t td_fake_work(const char *kind, int device);
cudaError_t td_fake_lost(int device);
cudaError_t td_fake_last(cudaError_t e); /* remembers it, and returns it */
int td_fake_device(void);                /* the calling thread's */
size_t td_fake_limit(void);
/* Bytes in use on the device; `more` false: it would be too much. */
bool td_fake_charge(int device, int64_t bytes);
size_t td_fake_in_use(int device);
/* Where both ends of a copy are; an error unless they hold `bytes`. */
cudaError_t td_fake_ends(const void *from, void *to, size_t bytes,
                         enum cudaMemcpyKind kind, const void **real_from,
                         void **real_to);
cudaError_t td_fake_push(cudaStream_t stream, const char *kind,
                         void (*run)(void *arg), void (*drop)(void *arg),
                         void *arg);

#ifdef __cplusplus
}
#endif
#endif
