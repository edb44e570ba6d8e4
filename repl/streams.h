/* streams.h - the process's standard streams, at its beginning and its end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STREAMS_H
#define TD_STREAMS_H

/* Called first of all. A stream that was closed takes and gives nothing from
 * then on; a process that ends by exit with output that could not be written
 * says so and fails. */
void td_streams_guard(void);

#endif
