/* jupyter_wire.c - libFuzzer: no frames may break the reader of messages. The
 * input is cut into frames at bytes 0xff; with its first bit set nothing is
 * signed, so that what lies behind the signature is reached.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "jupyter/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 12 };

static td_jupyter_wire with_key, without;

static void start(void) {
  static char key[] = "a key", none[] = "";
  static const td_jupyter_connection signs = {.key = key},
                                     trusts = {.key = none};
  if (with_key.seen) return;
  if (sodium_init() < 0) abort();
  td_status_release(td_jupyter_wire_init(&with_key, &signs));
  td_status_release(td_jupyter_wire_init(&without, &trusts));
}

static int cut(const char *at, size_t len, td_bytes *frames) {
  int n = 0;
  const char *end;
  while (n < MOST - 1 && (end = memchr(at, 0xff, len))) {
    frames[n++] = (td_bytes){at, (size_t)(end - at)};
    len -= (size_t)(end - at) + 1;
    at = end + 1;
  }
  frames[n++] = (td_bytes){at, len};
  return n;
}

static void look(const td_jupyter_request *r) {
  td_bytes b;
  size_t sum = strlen(td_jupyter_request_type(r)) +
               strlen(td_jupyter_request_subshell(r)) +
               strlen(td_jupyter_request_parent_id(r)) +
               td_jupyter_request_text(r, "code").len +
               td_jupyter_request_flag(r, "silent", false);
  for (int i = 1; i <= TD_JUPYTER_PART_CONTENT; i++)
    sum += td_jupyter_request_part(r, (td_jupyter_part)i).len;
  for (int i = 0; td_jupyter_request_identity(r, i, &b); i++) sum += b.len;
  for (int i = 0; td_jupyter_request_buffer(r, i, &b); i++) sum += b.len;
  if (sum == 0) __builtin_trap(); /* a message has a type */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_bytes frames[MOST];
  td_jupyter_request *r;
  if (size == 0) return 0;
  start();
  int n = cut((const char *)data + 1, size - 1, frames);
  td_status *s = td_jupyter_request_make(frames, n, &r);
  if (td_ok(s))
    s = td_jupyter_wire_check(data[0] & 1 ? &without : &with_key, r);
  if (td_ok(s))
    look(r);
  else
    td_status_release(s);
  td_jupyter_request_release(r);
  return 0;
}
