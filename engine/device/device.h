/* device.h - where kernels run and their tensors live.
 *
 * A device is a name, a memory space and a way to run a kernel. The CPU runs
 * them on the calling thread; the test device (and CUDA) on a queue of its own,
 * with memory that host code must not touch. Devices belong to a runtime.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_H
#define TD_DEVICE_H

#include "engine/graph/device_name.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_device td_device;
typedef struct td_kernel_ctx td_kernel_ctx;

/* Called once when an asynchronous copy is over. Takes ownership of `s`. */
typedef void (*td_copied)(void *arg, td_status *s);

struct td_device {
  int32_t refs;          /* atomic */
  const char *name;      /* "/job:localhost/replica:0/task:0/device:CPU:0" */
  const char *type;      /* "CPU", "TEST", "CUDA" */
  const char *kernels;   /* device type whose kernels it runs */
  int32_t index;         /* the number in its name */
  uint64_t incarnation;  /* random, new with every start */
  td_device_name parsed; /* `name` */
  td_allocator *memory;  /* its own space */
  td_allocator *host;    /* host memory for operands that stay there */
  /* (optional; NULL: kernels run on the calling thread.) Runs c->kernel's `run`
   * on the device and then calls c->done(c, status), once, on any thread. */
  void (*launch)(td_device *d, td_kernel_ctx *c);
  /* (optional; NULL: memory is host memory.) Copies between `d`'s memory and
   * host memory, or inside `d`; `to` has its buffer. Both tensors stay alive
   * until `copied`. */
  void (*copy)(td_device *d, const td_tensor *from, td_tensor *to,
               td_copied copied, void *arg);
  /* (optional) Where a kernel running on `d` sees `p` of `d`'s memory. */
  void *(*map)(td_device *d, void *p);
  void (*free)(td_device *d);
};

/* `place`: what comes before /device, e.g. "/job:localhost/replica:0/task:0".
 * Caller owns the result. `limit` in bytes, 0: the default. */
td_status *td_device_cpu_new(const char *place, int index, size_t limit,
                             td_device **out) TD_MUST_USE;
/* The test device: the CPU's kernels on tagged pointers that fault when host
 * code follows them, run by one thread after a random delay (seeded), with
 * asynchronous copies. */
td_status *td_device_test_new(const char *place, int index, uint64_t seed,
                              td_device **out) TD_MUST_USE;
td_device *td_device_retain(td_device *d);
void td_device_release(td_device *d);

/* True when host code may touch the memory of `a`. */
static inline bool td_device_on_host(const td_device *d) {
  return d->memory->host;
}
/* A copy of `from`, which is in d's memory or the host's, in `to_memory`
 * (d->memory or d->host); calls copied(arg, status) once, perhaps at once. When
 * the tensor is there already it is shared, not copied. *to is set before
 * `copied` runs, and the caller's even when it failed. */
void td_device_transfer(td_device *d, const td_tensor *from,
                        td_allocator *to_memory, td_tensor *to,
                        td_copied copied, void *arg);
/* The same and waits: for fetches, feeds, tests. */
td_status *td_device_transfer_wait(td_device *d, const td_tensor *from,
                                   td_allocator *to_memory, td_tensor *to)
    TD_MUST_USE;

TD_END
#endif
