/* check.h - what every C test begins with: cmocka, and checks of a td_status.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_CHECK_H
#define TD_TESTS_CHECK_H

/* cmocka wants these before it, in this order. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/base/status.h"

#define OK(expr)                                                               \
  do {                                                                         \
    td_status *ok_ = (expr);                                                   \
    if (ok_) fail_msg("%s: %s", #expr, td_status_message(ok_));                \
  } while (0)

/* Ends an error of that code whose message has `part` in it. */
#define FAILS(expr, code, part)                                                \
  do {                                                                         \
    td_status *fails_ = (expr);                                                \
    if (!fails_) fail_msg("%s: no error, wanted \"%s\"", #expr, part);         \
    if (!strstr(td_status_message(fails_), part))                              \
      fail_msg("%s: \"%s\" lacks \"%s\"", #expr, td_status_message(fails_),    \
               part);                                                          \
    assert_int_equal(td_status_code(fails_), code);                            \
    td_status_release(fails_);                                                 \
  } while (0)

#endif
