/* cuda.h - the CUDA device, as the files of its plugin see it.
 *
 *   library.c  what the plugin brings: devices, kernels
 *   device.c   a device: kernels enqueued, copies, what settles; calls the rest
 *   memory.c   its memory: regions of the card cut into blocks
 *   pinned.c   memory of the host that copies reach at full speed
 *   events.c   streams, and the thread that hears when their work is over
 *   error.c    what CUDA and kernels say went wrong, as a status of a node
 *   trace.c    when it ran, for a step that is traced
 *   tell.c     what is known of the cards, and of the doors (doors.def)
 *   door.c     libraries that are opened when they are needed
 *   blas.c     products of matrices by cuBLASLt, which blas_plan.c describes
 *   cudnn*.c   convolutions by cuDNN (cudnn.h)
 *
 * A kernel of the plugin is a row with .device = "CUDA" whose `run` makes its
 * outputs, enqueues work on td_cuda_stream(c) and returns. Rows and their code
 * are in kernels/<family>.cu; launch.cuh is what they are written with.
 *
 * Nothing is done with a card until it is used: counting asks the driver, a
 * context (hundreds of megabytes) is made at the first allocation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_H
#define TD_CUDA_H

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "engine/base/vec.h"
#include "engine/device/device_factory.h"
#include "engine/device/kernel.h"
#include "engine/device/precision.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_cuda td_cuda;

/* ---- errors (error.c) ---------------------------------------------------- */

/* What a call of the runtime returned; `what` says what was to be done. */
td_status *td_cuda_error(cudaError_t e, const char *what) TD_MUST_USE;
static inline td_status *td_cuda_ok(cudaError_t e, const char *what) {
  return TD_LIKELY(e == cudaSuccess) ? NULL : td_cuda_error(e, what);
}
#define TD_CUDA(call) TD_TRY(td_cuda_ok((call), #call))

/* What a kernel found in its data, which only the card sees: the first of each
 * kernel is kept. In memory that both see. */
typedef struct td_cuda_word {
  unsigned long long number; /* of the kernel; 0: nothing */
  long long value, limit;
} td_cuda_word;

/* Where a kernel that runs as `c` tells what is wrong with its data. */
typedef struct td_cuda_report {
  td_cuda_word *word;
  unsigned long long number;
} td_cuda_report;

/* What its row does not have was given to a kernel: input i. */
td_status *td_cuda_no_type(const td_kernel_ctx *c, int i) TD_MUST_USE;

/* `text` has "%lld" for the value and for the limit, in this order; static.
 * Once in a kernel, while it runs. */
td_cuda_report td_cuda_report_of(const td_kernel_ctx *c, const char *text);

/* Takes ownership of `s`, an error of something that was asked of the card: is
 * the card lost, the error is that. Without the device's lock. */
td_status *td_cuda_why(td_cuda *d, td_status *s) TD_MUST_USE;

/* ---- streams (events.c) -------------------------------------------------- */

typedef enum td_cuda_stream_name {
  TD_CUDA_COMPUTE,
  TD_CUDA_IN,  /* from the host */
  TD_CUDA_OUT, /* to the host */
  TD_CUDA_STREAMS
} td_cuda_stream_name;

/* Somebody waits for what was enqueued on a stream. Embedded in its owner. */
typedef struct td_cuda_wait {
  struct td_cuda_wait *next;
  cudaEvent_t event;
  uint64_t number; /* on compute: kernels enqueued by then */
  /* On the thread of the events. `e`: what became of the device. */
  void (*over)(struct td_cuda_wait *w, cudaError_t e);
} td_cuda_wait;

typedef struct td_cuda_events td_cuda_events;

/* The device is set on the calling thread. Caller owns the result. */
td_status *td_cuda_events_new(td_cuda *d, td_cuda_events **out) TD_MUST_USE;
/* Starts its thread, when the device is ready for it. */
td_status *td_cuda_events_start(td_cuda_events *v) TD_MUST_USE;
/* Nobody will wait any more. True when the thread has ended. False on that
 * thread itself: it calls orphaned(arg) as the last thing it does. */
bool td_cuda_events_end(td_cuda_events *v, void (*orphaned)(void *arg),
                        void *arg);
/* It has ended, or calls. */
void td_cuda_events_free(td_cuda_events *v);
cudaStream_t td_cuda_stream_of(td_cuda_events *v, td_cuda_stream_name s);
/* Has the thread look at the device again. */
void td_cuda_rouse(td_cuda_events *v);
/* Records an event on the stream; calls w->over once what was enqueued there so
 * far is complete. With the device's lock. */
td_status *td_cuda_await(td_cuda_events *v, td_cuda_stream_name s,
                         td_cuda_wait *w) TD_MUST_USE;
/* Calls of->over once kernels up to of->mark[0] are complete and what they told
 * was heard. With the device's lock, so that marks come in order. */
void td_cuda_settle(td_cuda_events *v, td_settling *of);
/* Work enqueued on `later`'s stream b from now on comes after what `first`'s
 * stream a has by now. The calling thread has the device of `first` set. */
td_status *td_cuda_order(td_cuda_events *first, td_cuda_stream_name a,
                         td_cuda_events *later,
                         td_cuda_stream_name b) TD_MUST_USE;
/* Kernels of compute that are known to be complete, and were heard. */
uint64_t td_cuda_complete(const td_cuda_events *v);

/* ---- memory (memory.c, pinned.c) ----------------------------------------- */

td_status *td_cuda_memory_new(td_cuda *d, td_allocator **out) TD_MUST_USE;
/* With the last block in use it ends. */
void td_cuda_memory_release(td_allocator *a);
bool td_cuda_is_memory(const td_allocator *a);
/* So much of the card is free when it is opened: where no limit is set, nine
 * tenths of it are the limit, from then on. */
void td_cuda_memory_found(td_allocator *a, size_t left);
/* The device whose memory it is; NULL: it is gone. Caller owns the result. */
td_cuda *td_cuda_memory_owner(td_allocator *a);
/* Kernels of compute that may use what the block held before it was handed out:
 * so many must be complete before another stream writes to it. */
uint64_t td_cuda_memory_mark(td_allocator *a, const void *p);

td_status *td_cuda_pinned_new(td_cuda *d, td_allocator **out) TD_MUST_USE;
void td_cuda_pinned_release(td_allocator *a);

/* ---- copies (strided_copy.cu) -------------------------------------------- */

/* td_device.copy_strided. */
td_status *td_cuda_copy_strided(const td_kernel_ctx *c,
                                const struct td_strided_copy *m, size_t size,
                                const void *from, const void *value,
                                void *to) TD_MUST_USE;

/* ---- kernels in two halves (halves.c) ------------------------------------ */

enum { TD_CUDA_HELD = 6 };

/* A kernel whose outputs' shapes depend on data: its first half has numbers
 * computed, its second, once the host knows them, makes the outputs. */
typedef struct td_cuda_halves {
  int64_t n;      /* numbers, set by the first half ... */
  td_tensor told; /* ... which makes this: n of int64 on the device */
  td_tensor held[TD_CUDA_HELD]; /* kept for the second, released then */
  const int64_t *number;        /* for the second half */
} td_cuda_halves;

typedef td_status *(*td_cuda_half)(td_kernel_ctx *c, td_cuda_halves *h);

/* The whole of `start`: first(c, h), then on another thread second(c, h), then
 * c->done. Both only enqueue work. */
void td_cuda_in_halves(td_kernel_ctx *c, td_cuda_half first,
                       td_cuda_half second);
/* Their `cancel`: they end soon by themselves. */
void td_cuda_no_cancel(td_kernel_ctx *c);

/* ---- what is traced (trace.c) -------------------------------------------- */

/* A piece of work of a step that is traced. NULL is none. */
typedef struct td_cuda_span td_cuda_span;
typedef struct td_cuda_tracing td_cuda_tracing; /* a device's */

/* With the device's lock, the device is set: what is enqueued on `s` between the
 * two is work of `c`, a copy of `bytes`, or -1: its kernel. NULL where `c` is, or
 * is not of a step that is traced. */
td_cuda_span *td_cuda_span_begin(td_cuda *d, td_cuda_stream_name s,
                                 const td_kernel_ctx *c, int64_t bytes);
/* Before anything else waits for the work. Not `enqueued`: it failed. */
void td_cuda_span_end(td_cuda_span *w, bool enqueued);
/* Is there work of which more is to be told when it settles? Under the lock. */
bool td_cuda_traces(const td_cuda *d);
/* On the thread of the events: what is over and due goes to its trace. */
void td_cuda_trace_due(td_cuda *d);
/* No work is left; the device is set. */
void td_cuda_tracing_free(td_cuda_tracing *t);

/* ---- doors (doors.def, tell.c) ------------------------------------------- */

/* Opens a library that need not be there: in the folders of $TIDE_CUDA_LIBS, by
 * its name, or where the toolkit is. Once and for all: nobody closes it.
 * NOT_FOUND says why not. */
td_status *td_cuda_library(const char *soname, void **out) TD_MUST_USE;
/* td_device_factory.tell */
void td_cuda_tell_all(td_str *out);
#define TD_CUDA_DOOR(id, name, without)                                        \
  td_status *td_cuda_door_##id(td_str *version) TD_MUST_USE;
#include "kernels/cuda/doors.def"
#undef TD_CUDA_DOOR

/* ---- the device (device.c) ----------------------------------------------- */

enum { TD_CUDA_RING = 1024 };

/* A kernel that was enqueued. */
typedef struct td_cuda_launch {
  uint64_t number;
  td_step *step;    /* alive as long as its execution has not settled */
  const char *text; /* of what it may find in its data; NULL: nothing */
  char node[48], op[32], origin[80];
} td_cuda_launch;

/* What one of them told, when its place was needed. */
typedef struct td_cuda_told {
  uint64_t number;
  td_step *step;
  td_status *status; /* owned */
} td_cuda_told;

struct td_cuda {
  td_device base; /* first */
  int ordinal;    /* CUDA's number of the card */
  int sms;        /* multiprocessors */
  bool sync;      /* as the environment has it: see td_cuda_sync */
  pthread_mutex_t lock; /* before those of events and memory */
  bool opened;            /* under the lock */
  td_status *unopened;    /* under the lock: why it could not be */
  td_cuda_events *events; /* once it is opened, as all that follows */
  td_cuda_word *word;     /* TD_CUDA_RING of them, in pinned memory */
  uint64_t enqueued;      /* atomic; written under the lock: kernels */
  uint64_t reporting; /* atomic; under the lock: the last that may tell */
  uint64_t heard;     /* atomic; under the lock: told up to it was taken */
  td_cuda_launch ring[TD_CUDA_RING];  /* under the lock: the last ones */
  TD_VEC(td_cuda_told) told; /* under the lock: taken, and not yet said */
  td_status *lost; /* atomic; set once, under the lock: the first cause */
  bool lost_told;  /* under the lock: steps know */
  uint32_t peers;  /* under the lock: of their ordinals: reached directly */
  td_cuda_tracing *tracing; /* atomic; under the lock: once it is needed */
  struct td_cuda_blas *blas; /* under the lock: blas.c; NULL: not yet */
  struct td_cudnn *cudnn; /* under the lock: cudnn.h; NULL: not yet */
};

extern const td_device_factory td_cuda_factory;

/* Makes the device the calling thread's, and opens it when it was not. Takes no
 * lock of a device that is open. */
td_status *td_cuda_enter(td_cuda *d) TD_MUST_USE;
/* Calls run(c), which enqueues work, as kernels of the device are run. For those
 * that are asynchronous (`start`); all others are run so already. */
td_status *td_cuda_enqueue(td_kernel_ctx *c,
                           td_status *(*run)(td_kernel_ctx *c)) TD_MUST_USE;
/* Calls w->over, on the events' thread, when all is complete that was enqueued
 * by now; w->number is set here. */
td_status *td_cuda_after(td_cuda *d, td_cuda_wait *w) TD_MUST_USE;
/* The card is lost. Without the lock. */
void td_cuda_lose(td_cuda *d, cudaError_t e);
/* On the events' thread, without the lock: fails the steps of a lost card; and
 * those whose kernels, up to `number`, told of their data. */
void td_cuda_tell(td_cuda *d);
void td_cuda_hear(td_cuda *d, uint64_t number);
/* Under the lock, all kernels that may tell are complete: takes what they told,
 * so that their places are free. */
td_status *td_cuda_take_told(td_cuda *d) TD_MUST_USE;
/* Under the lock: what a complete kernel told, which is not told again. */
td_status *td_cuda_told_by(td_cuda *d, uint64_t number) TD_MUST_USE;

/* Is every kernel waited for, so that its errors are its own? */
static inline bool td_cuda_sync(const td_cuda *d) {
  return d->sync || td_precision_get().sync;
}
static inline td_cuda *td_cuda_of(const td_kernel_ctx *c) {
  return (td_cuda *)c->kernel->device;
}
static inline cudaStream_t td_cuda_stream(const td_kernel_ctx *c) {
  return td_cuda_stream_of(td_cuda_of(c)->events, TD_CUDA_COMPUTE);
}

#ifdef __cplusplus
}
#endif
#endif
