/* error.c - errors as the protocol writes them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/error.h"

/* All but the closing brace. */
static void add_error(td_str *out, const char *name, const char *text,
                      size_t len) {
  td_str_addf(out, "{\"ename\": \"%s\", \"evalue\": ", name);
  td_str_json(out, text, len);
  td_str_add(out, ", \"traceback\": [");
  td_str_json(out, text, len);
  td_str_addc(out, ']');
}

void td_jupyter_error_shown(td_str *out, const char *name, const char *text,
                            size_t len) {
  add_error(out, name, text, len);
  td_str_addc(out, '}');
}

void td_jupyter_error_reply(td_str *out, const char *name, const char *text,
                            size_t len, int count) {
  add_error(out, name, text, len);
  td_str_add(out, ", \"status\": \"error\"");
  if (count >= 0) td_str_addf(out, ", \"execution_count\": %d", count);
  td_str_addc(out, '}');
}
