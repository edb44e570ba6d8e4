/* image_color.h - the operands of ops on colours, on any device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_IMAGE_COLOR_H
#define TD_IMAGE_COLOR_H

#include "engine/device/kernel.h"

TD_BEGIN

/* RGBToHSV and HSVToRGB; AdjustHue and AdjustSaturation, of two inputs. */
td_status *td_colors_check(const td_kernel_ctx *c) TD_MUST_USE;
/* AdjustContrastv2. */
td_status *td_contrast_check(const td_kernel_ctx *c) TD_MUST_USE;

TD_END
#endif
