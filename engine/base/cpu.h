/* cpu.h - what this processor can do, read once.
 *
 * TIDE_ISA=scalar|avx2|avx512 lowers the choice; a value the processor lacks is
 * an error that td_cpu_check reports at start.
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
td_status *td_cpu_check(void) TD_MUST_USE; /* TIDE_ISA is unknown or too high */

/* Flush-to-zero and denormals-are-zero for kernels: sets, returns what was. */
unsigned td_cpu_flush_on(void);
void td_cpu_flush_restore(unsigned was);

TD_END
#endif
