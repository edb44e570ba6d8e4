/* version.h - which Tide this is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_VERSION_H
#define TD_VERSION_H

#define TD_VERSION "0.1"

#endif
