/* device.h - where kernels run and their tensors live.
 *
 * A device is a name, a memory space and a way to run a kernel. The CPU runs
 * them on the calling thread; an accelerator on streams of its own, with memory
 * that host code must not touch. Devices belong to a runtime.
 *
 * Two phases. A kernel given to an accelerator is first *enqueued*, later
 * *complete*. Its `done` may be called once it is enqueued and its outputs have
 * their memory; what will be in them only the device can tell. Consumers on the
 * device are then enqueued at once, behind it. So:
 *   - work on one stream runs in the order in which it was enqueued; before work
 *     on another stream touches a buffer it waits for the buffer's event, which
 *     is the last work that writes it (td_buffer.event: stream and number, plain
 *     values; complete when the stream's count of complete work is as high);
 *   - the host reads only what `copy` has brought, whose callback comes when the
 *     copy is complete, or outputs in host memory: a kernel that has such, or
 *     whose shapes depend on data, calls `done` when it is complete. No thread
 *     of the pool waits for a device;
 *   - memory returns in stream order: what the last release gives back may be
 *     handed out at once to work that is enqueued later on the same stream, to
 *     anyone else after the event. A copy holds both its tensors until it is
 *     complete, and so does work on a stream that is not the buffer's own;
 *   - an error found at completion fails the step and names the node; an
 *     execution `settle`s its device before it ends, so that errors are those of
 *     its step and no program ends under queued work.
 * Host devices leave the hooks NULL and pay nothing for any of this.
 *
 * CUDA: one `compute` stream, `h2d` and `d2h` for copies. `launch` stays NULL
 * (or sets the device and runs): `run` launches and returns, which is `done`;
 * consumers follow on `compute`, without events. Buffers are compute's own, so a
 * free hands the block on at once. `copy` to the host records an event on
 * `compute` and has `d2h` wait for it; to the device it takes a block whose last
 * use is complete, since `h2d` waits for nobody. One thread of the device asks
 * events and calls `copied` and `settle`'s callers. `copy_inside` is a copy
 * enqueued on `compute`, `copy_peer` cudaMemcpyPeerAsync behind both devices'
 * events. Where data decides a shape, the kernel is asynchronous (`start`): a
 * count, 8 bytes to pinned memory, and its second half when they are there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_H
#define TD_DEVICE_H

#include "engine/graph/device_name.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_device td_device;
typedef struct td_kernel_ctx td_kernel_ctx;
struct td_kernel_table;
struct td_strided_copy;

/* Called once when an asynchronous copy is over. Takes ownership of `s`. */
typedef void (*td_copied)(void *arg, td_status *s);

enum { TD_STREAMS = 4 }; /* a device has at most so many */

/* Who waits for the work that a device was given. Embedded in its owner. */
typedef struct td_settling {
  void (*over)(struct td_settling *w);
  struct td_settling *next;     /* the device's */
  uint64_t mark[TD_STREAMS];    /* the device's: the work waited for */
} td_settling;

struct td_device {
  int32_t refs;          /* atomic */
  const char *name;      /* "/job:localhost/replica:0/task:0/device:CPU:0" */
  const char *type;      /* "CPU", "TEST", "CUDA" */
  const char *kernels;   /* device type whose kernels it runs */
  /* (optional) The kernels it says it has, owned; NULL: those that this process
   * has for `kernels` (kernel_table.h). */
  struct td_kernel_table *table;
  bool ahead;            /* nodes that nothing binds go to it before any other
                            device, where it has kernels of its own */
  int32_t gone;          /* atomic: it was taken out of its runtime */
  int32_t index;         /* the number in its name */
  uint64_t incarnation;  /* random, new with every start */
  td_device_name parsed; /* `name` */
  td_allocator *memory;  /* its own space */
  td_allocator *host;    /* host memory for operands that stay there */
  int64_t stacked;       /* atomic: bytes of `memory` that loops keep for their
                            gradients without being allowed to swap them out */
  /* (optional; NULL: kernels run on the calling thread.) Runs c->kernel's `run`
   * on the device and calls c->done(c, status) once, on any thread: when it is
   * enqueued or when it is complete. */
  void (*launch)(td_device *d, td_kernel_ctx *c);
  /* (optional; NULL: memory may be touched.) Copies between `d`'s memory and
   * memory of the host, or inside `d`, when earlier work on either tensor is
   * complete; `to` has its buffer. Both tensors stay alive until `copied`. */
  void (*copy)(td_device *d, const td_tensor *from, td_tensor *to,
               td_copied copied, void *arg);
  /* (optional, both or none) Is `a` memory of another device of the type, in
   * this process? Then the copy out of it, into `d`'s or the host's memory. */
  bool (*is_peer)(const td_device *d, const td_allocator *a);
  void (*copy_peer)(td_device *d, const td_tensor *from, td_tensor *to,
                    td_copied copied, void *arg);
  /* (optional; NULL: td_for and memcpy do.) For a kernel that is running: a copy
   * inside `d`, in the order of what it enqueues. Both tensors as it sees them,
   * of the same size. */
  td_status *(*copy_inside)(td_device *d, const td_tensor *from, td_tensor *to);
  /* (optional; NULL: work is complete when it is done.) True when all work that
   * was enqueued so far is complete. Else w->over(w) will be called, once it
   * is, on a thread of the device; *w stays alive until then. */
  bool (*settle)(td_device *d, td_settling *w);
  /* (optional) Where a kernel running on `d` sees `p` of `d`'s memory. */
  void *(*map)(td_device *d, void *p);
  void (*free)(td_device *d);
  /* (optional; NULL: loops on the kernel's threads do.) Enqueues what `m` says,
   * for the kernel `c` that is running (kernels/strided_copy.h): elements of
   * `size` bytes at `from`; or, where `value` is not NULL, the one element that
   * this is in the host's memory. */
  td_status *(*copy_strided)(const td_kernel_ctx *c,
                             const struct td_strided_copy *m, size_t size,
                             const void *from, const void *value, void *to);
};

struct td_alloc_budget;

/* `place`: what comes before /device, e.g. "/job:localhost/replica:0/task:0".
 * Its memory counts against `budget` (retained), NULL: that of the process.
 * Caller owns the result. */
td_status *td_device_cpu_new(const char *place, int index,
                             struct td_alloc_budget *budget,
                             td_device **out) TD_MUST_USE;
/* The test device (device_test.c). `budget`: of its memory of the host. */
td_status *td_device_test_new(const char *place, int index, uint64_t seed,
                              struct td_alloc_budget *budget,
                              td_device **out) TD_MUST_USE;
/* For who makes a device: name, type, number and incarnation of a new one that
 * runs the CPU's kernels; one share. `type` is borrowed for good. */
td_status *td_device_describe(td_device *d, const char *place, const char *type,
                              int index) TD_MUST_USE;
void td_device_forget(td_device *d); /* frees what describe made, and `table` */
td_device *td_device_retain(td_device *d);
void td_device_release(td_device *d);

/* It was taken out of its runtime, or never is to be used again. */
static inline bool td_device_gone(const td_device *d) {
  return __atomic_load_n(&d->gone, __ATOMIC_ACQUIRE) != 0;
}
/* Its memory is host memory: every operand may live there. */
static inline bool td_device_on_host(const td_device *d) {
  return d->memory->host;
}
/* Code of this process may touch its memory. */
static inline bool td_device_touchable(const td_device *d) {
  return d->memory->touchable;
}
/* Takes ownership of `s`: an error of no room in d's memory also names a remedy,
 * where there is one. */
td_status *td_device_refused(const td_device *d, td_status *s) TD_MUST_USE;
/* A copy of `from`, which is in d's memory, that of a peer of d or the host's, in
 * `to_memory` (d->memory or d->host); calls copied(arg, status) once, perhaps at once. When
 * the tensor is there already it is shared, not copied. *to is set before
 * `copied` runs, and the caller's even when it failed. */
void td_device_transfer(td_device *d, const td_tensor *from,
                        td_allocator *to_memory, td_tensor *to,
                        td_copied copied, void *arg);
/* The same by the device of `c`, for that kernel: where its step is traced, the
 * copy is in the trace, if the device tells of copies. */
void td_kernel_transfer(const td_kernel_ctx *c, const td_tensor *from,
                        td_allocator *to_memory, td_tensor *to,
                        td_copied copied, void *arg);
/* For td_device.copy and copy_peer, as the first thing they do: the kernel that
 * the copy is for, of a step that is traced; NULL: there is none. */
const td_kernel_ctx *td_device_copies_for(void);
/* The same as td_device_transfer, and waits: for fetches, feeds, tests. */
td_status *td_device_transfer_wait(td_device *d, const td_tensor *from,
                                   td_allocator *to_memory, td_tensor *to)
    TD_MUST_USE;

TD_END
#endif
