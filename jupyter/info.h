/* info.h - what kernel_info_reply and usage_reply tell.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_INFO_H
#define TD_JUPYTER_INFO_H

#include "engine/base/str.h"

/* Appends the content of kernel_info_reply; any thread. */
void td_jupyter_info(td_str *out);
/* Appends that of usage_reply; control's thread alone. */
void td_jupyter_info_usage(td_str *out);

#endif
