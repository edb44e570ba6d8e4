/* plugins.h - the op libraries that come with Tide: libtide_*.so beside it.
 *
 * What they bring is for machines that have it (an accelerator), so they are
 * opened when devices are first asked for, not when a program starts. One that
 * cannot be opened is no error: td_plugin_at says why.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PLUGINS_H
#define TD_PLUGINS_H

#include "engine/run/library.h"

TD_BEGIN

typedef struct td_plugin {
  const char *path;
  const td_library *library; /* NULL: it could not be loaded ... */
  const char *why;           /* ... for this reason */
} td_plugin;

/* The i-th, NULL after the last. Opens them once in a process: those in the
 * folder of libtide, or those that $TIDE_PLUGINS names, a list of paths with
 * colons between; "" is none. Borrowed; valid for ever. */
const td_plugin *td_plugin_at(int i);

TD_END
#endif
