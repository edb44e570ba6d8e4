/* log.c - what the kernel says to whoever started it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/log.h"

#include <stdarg.h>
#include <unistd.h>

#include "engine/base/str.h"

static int own_stderr = 2; /* set before a thread logs */

void td_jupyter_log_to(int fd) {
  own_stderr = fd;
}

void td_jupyter_log(const char *fmt, ...) {
  va_list args;
  td_str text;
  td_str_init(&text);
  td_str_add(&text, "tide kernel: ");
  va_start(args, fmt);
  td_str_addv(&text, fmt, args);
  va_end(args);
  td_str_addc(&text, '\n');
  ssize_t n = write(own_stderr, td_str_c(&text), text.len);
  (void)n;
  td_str_deinit(&text);
}

/* The first few, and then each time there are twice as many. */
void td_jupyter_log_dropped(td_status *why) {
  static uint64_t count; /* atomic */
  uint64_t n = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
  if (n <= 8 || (n & (n - 1)) == 0)
    td_jupyter_log("dropped a message: %s (%llu so far)",
                   td_status_message(why), (unsigned long long)n);
  td_status_release(why);
}
