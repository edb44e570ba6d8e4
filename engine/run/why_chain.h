/* why_chain.h - who waits for whom, across tasks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WHY_CHAIN_H
#define TD_WHY_CHAIN_H

#include "engine/base/str.h"

TD_BEGIN

/* `text`: what participants say their portions wait for (td_participant_ops.why,
 * program_why.c), those of others below a line that begins with their task; what
 * is before the first such line is `here`'s. Appends a line for each chain of
 * values that are waited for, from task to task, to what holds up the last. */
void td_why_chain(const char *text, const char *here, td_str *out);

TD_END
#endif
