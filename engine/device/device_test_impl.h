/* device_test_impl.h - what the files of the test device share.
 *
 *   device_test.c         the device: kernels in two phases, copies; calls the rest
 *   device_test_memory.c  tagged memory that returns in stream order
 *   device_test_stream.c  streams: threads, queues, events, delays
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_TEST_IMPL_H
#define TD_DEVICE_TEST_IMPL_H

#include <pthread.h>

#include "engine/base/philox.h"
#include "engine/device/device.h"
#include "engine/device/device_test.h"

enum {
  TD_TEST_COMPUTE = 2,             /* streams 0 and 1 run kernels */
  TD_TEST_COPY = TD_TEST_COMPUTE,  /* the copy engine's */
  TD_TEST_STREAMS = TD_TEST_COPY + 1,
  TD_TEST_NONE = -1,
};
_Static_assert((int)TD_TEST_STREAMS <= (int)TD_STREAMS, "settling has room");

/* ---- events: the stream above, the number below ---- */

static inline uint64_t td_test_event(int stream, uint64_t number) {
  return (uint64_t)(stream + 1) << 56 | number;
}
static inline int td_test_event_stream(uint64_t event) {
  return (int)(event >> 56) - 1;
}
static inline uint64_t td_test_event_number(uint64_t event) {
  return event & (((uint64_t)1 << 56) - 1);
}

/* What must be complete before something: a number of each stream. */
typedef struct td_test_after {
  uint64_t number[TD_TEST_STREAMS];
} td_test_after;

static inline void td_test_after_add(td_test_after *a, uint64_t event) {
  int stream = td_test_event_stream(event);
  uint64_t number = td_test_event_number(event);
  if (stream >= 0 && a->number[stream] < number) a->number[stream] = number;
}

/* ---- streams (device_test_stream.c) ---- */

typedef struct td_test_streams td_test_streams;

/* In a queue. Work has a number on its stream; a block on its way back to the
 * allocator has none: nobody waits for it. */
typedef struct td_test_job {
  struct td_test_job *prev, *next;
  void (*run)(struct td_test_job *j); /* ends the job */
  uint64_t number;
  size_t block;          /* bytes of a block that later work may take, else 0 */
  td_test_after after;
  td_test_streams *peer; /* another device, or NULL ... */
  td_test_after peer_after; /* ... whose work must be complete, too */
} td_test_job;

typedef struct td_test_stream {
  td_test_streams *all;
  pthread_t thread;
  bool started;
  td_philox random;         /* the thread's */
  td_test_job *first, *last; /* under all->mutex, as all that follows */
  uint64_t enqueued, complete; /* numbers of work */
  bool over;                /* its thread takes nothing more */
} td_test_stream;

struct td_test_streams {
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* something was enqueued or is complete, or quit */
  td_test_stream stream[TD_TEST_STREAMS];
  td_settling *settling; /* under the mutex */
  bool quit;             /* under the mutex */
  int running;           /* under the mutex; threads */
  void (*orphaned)(void *arg); /* under the mutex; for the last thread to call */
  void *orphan;          /* under the mutex */
  int64_t delay;         /* atomic; ns */
  td_device_test_counts counts; /* atomic */
};

td_status *td_test_streams_new(uint64_t seed, int index,
                               td_test_streams **out) TD_MUST_USE;
td_status *td_test_streams_start(td_test_streams *all) TD_MUST_USE;
/* Runs what is queued and ends the threads. On one of them it returns at once,
 * and the last calls orphaned(arg) when it ends; else true when all have. */
bool td_test_streams_end(td_test_streams *all, void (*orphaned)(void *arg),
                         void *arg);
void td_test_streams_free(td_test_streams *all);
/* Under the mutex: appends; the number of work on the stream. */
uint64_t td_test_push(td_test_streams *all, int stream, td_test_job *j);
/* Under the mutex: appends what has no number; false when the stream has no
 * work left that it could be behind. */
bool td_test_push_behind(td_test_streams *all, int stream, td_test_job *j);
/* Under the mutex: takes the latest block of the very size that lies in the
 * queue back out of it; NULL when there is none. */
td_test_job *td_test_take_block(td_test_streams *all, int stream, size_t bytes);
/* Under the mutex: takes all blocks out of the queues whose `after` is complete,
 * linked by `next`. */
td_test_job *td_test_take_complete(td_test_streams *all);
/* Under the mutex: all that is enqueued by now. */
td_test_after td_test_everything(const td_test_streams *all);
bool td_test_settle(td_test_streams *all, td_settling *w);

static inline void td_test_count(int64_t *counter) {
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- memory (device_test_memory.c) ---- */

void *td_test_tag(void *p);
void *td_test_untag(void *p);
/* Its blocks may outlive the device and hold its streams. */
td_status *td_test_memory_new(const char *name, td_test_streams *streams,
                              td_allocator **out) TD_MUST_USE;
/* Lets go of it; ends with the last block, and the streams with it. */
void td_test_memory_release(td_allocator *a);
bool td_test_is_memory(const td_allocator *a);
td_test_streams *td_test_memory_streams(const td_allocator *a);
/* From now on this thread's blocks of `a` are for work that will be enqueued on
 * `stream`; TD_TEST_NONE: for anyone. */
void td_test_memory_for(td_allocator *a, int stream);
/* Under the streams' mutex. Will work on `stream` find the contents of the
 * block although nobody holds it until then? */
bool td_test_memory_stays(void *data, int stream);
/* Under the streams' mutex: somebody may keep the block or write over it, so
 * that from now on all work holds it. */
void td_test_memory_keep(void *data);
/* Under the streams' mutex: work `number` of its stream uses the block without
 * holding it. */
void td_test_memory_used(void *data, uint64_t number);
/* Overwrites what nobody may read any more. */
void td_test_poison(void *p, size_t bytes);

#endif
