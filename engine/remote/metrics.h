/* metrics.h - what a worker does, in numbers, for Prometheus: text format 0.0.4
 * over HTTP.
 *
 * It answers GET and HEAD of /metrics and nothing else, on a thread of its own.
 * Who asks is not known and has no key, so that it listens on this machine only,
 * unless its maker says otherwise, tells nothing of graphs and values, and
 * whatever comes is bounded: sixteen connections, of which the oldest goes for
 * the seventeenth, 4 KiB of a request, five seconds for all of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_METRICS_H
#define TD_METRICS_H

#include "engine/base/str.h"
#include "engine/remote/remote.h"

TD_BEGIN

/* Appends the numbers of now. */
void td_metrics_text(td_remote *r, td_str *out);

typedef struct td_metrics td_metrics;

/* Listens; port 0: any that is free. Retains `r`. Caller owns the result
 * (td_metrics_free). */
td_status *td_metrics_new(td_remote *r, const char *host, int port,
                          td_metrics **out) TD_MUST_USE;
int td_metrics_port(const td_metrics *m);
void td_metrics_free(td_metrics *m); /* NULL is ok */

TD_END
#endif
