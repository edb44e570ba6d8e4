/* cpu.h - what this processor can do and how much of it is ours, read once.
 *
 * TIDE_ISA=scalar|avx2|avx512 lowers the choice; a value the processor lacks is
 * an error that td_cpu_check reports at start. TIDE_THREADS=1..512 replaces the
 * number of threads found.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CPU_H
#define TD_CPU_H

#include "engine/base/status.h"

TD_BEGIN

typedef enum td_isa { TD_SCALAR = 0, TD_AVX2 = 1, TD_AVX512 = 2 } td_isa;

td_isa td_cpu_isa(void);          /* in force */
td_isa td_cpu_best(void);         /* of the processor */
const char *td_isa_name(td_isa isa);
/* TIDE_ISA is unknown or too high, TIDE_THREADS no number in its range. */
td_status *td_cpu_check(void) TD_MUST_USE;

enum { TD_CPU_MAX = 512 };
/* Threads that this process can keep busy, 1 to TD_CPU_MAX: TIDE_THREADS, else
 * the smaller of affinity mask and cgroup quota. */
int td_cpu_count(void);
/* The cgroup's CPU quota (v2 or v1, parents too) in processors, rounded up; 0
 * where there is none. `root` stands before /proc and /sys: "" but in tests. */
int td_cpu_quota(const char *root);

/* Flush-to-zero and denormals-are-zero for kernels: sets, returns what was. */
unsigned td_cpu_flush_on(void);
unsigned td_cpu_flush_get(void);
void td_cpu_flush_restore(unsigned was);

TD_END
#endif
