/* device_name.h - device strings: /job:x/replica:0/task:1/device:CPU:0.
 *
 * Any subset in any order; the old /cpu:0; "*" for any number. A part not given
 * is unconstrained.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_NAME_H
#define TD_DEVICE_NAME_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef struct td_device_name {
  char job[64];   /* "" any */
  char type[32];  /* upper case, "" any */
  int32_t replica, task, index; /* -1 any */
} td_device_name;

td_status *td_device_name_parse(const char *text, td_device_name *out)
    TD_MUST_USE;
void td_device_name_print(const td_device_name *d, td_str *out);
/* `inner` fills what `outer` leaves open and wins where both speak: nested
 * td.device scopes. A type in `inner` other than that in `outer` drops the
 * index too: CPU:* within GPU:1 is any CPU. */
void td_device_name_merge(const td_device_name *outer,
                          const td_device_name *inner, td_device_name *out);
/* Does the full name `d` satisfy `want`? */
bool td_device_name_matches(const td_device_name *want,
                            const td_device_name *d);
/* What both allow; false when nothing. */
bool td_device_name_intersect(const td_device_name *a, const td_device_name *b,
                              td_device_name *out);

TD_END
#endif
