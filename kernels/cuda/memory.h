/* memory.h - the memory of a card, as the device that copies into it sees it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_MEMORY_H
#define TD_CUDA_MEMORY_H

#include "kernels/cuda/cuda.h"

/* A block of as many bytes as `p`, which was just handed out and which nobody
 * has seen; `p` is taken back. No kernel beyond `complete` may use it, where
 * there is such a block: else it is `p`. The device is set on the calling
 * thread. */
void *td_cuda_memory_idle(td_allocator *a, void *p, uint64_t complete);

#endif
