/* status.c - errors as values.
 *
 * A status is one block: the struct, then its strings behind each other. To
 * learn where it happened it is written anew with the place behind the message
 * (in place of the old one, or as a copy when others hold it too). Two static
 * instances, out of memory and its derived twin, have refs == 0 for ever and
 * are never written, so that an error can be reported, marked and passed on
 * when nothing can be allocated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/status.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"

enum { MESSAGE, OP, NODE, ORIGIN, DEVICE, ABOUT, APPLIED, PARTS };

struct td_status {
  int32_t refs;       /* atomic; 0: static */
  td_code code;       /* never TD_OK */
  bool derived;       /* follows from another error */
  uint32_t len;       /* bytes of text */
  uint32_t at[PARTS]; /* offset of each string in text; 0: not known */
  char text[];        /* NUL-terminated strings; the first is empty */
};

enum { MAX_TEXT = 1 << 20 }; /* a longer message is cut */

static td_status oom = {.code = TD_RESOURCE_EXHAUSTED,
                        .len = 15,
                        .at = {1},
                        .text = "\0out of memory"};
static td_status oom_derived = {.code = TD_RESOURCE_EXHAUSTED,
                                .derived = true,
                                .len = 15,
                                .at = {1},
                                .text = "\0out of memory"};

td_status *td_oom(void) {
  return &oom;
}

static bool is_static(const td_status *s) {
  return s == &oom || s == &oom_derived;
}

/* Nobody else holds `s`, so that it may be written. */
static bool is_sole(const td_status *s) {
  return __atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1;
}

static td_status *new_status(td_code code, uint32_t len) {
  td_status *s = td_malloc(sizeof *s + len);
  if (!s) return NULL;
  bool known = code > TD_OK && code <= TD_UNAUTHENTICATED;
  *s = (td_status){.refs = 1, .code = known ? code : TD_UNKNOWN, .len = len};
  s->text[0] = '\0';
  return s;
}

td_status *td_error_v(td_code code, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  size_t len = n < 0 ? 0 : n > MAX_TEXT ? MAX_TEXT : (size_t)n;
  td_status *s = new_status(code, (uint32_t)len + 2);
  if (s) {
    s->at[MESSAGE] = 1;
    s->text[1] = '\0';
    if (n >= 0) vsnprintf(s->text + 1, len + 1, fmt, again);
  }
  va_end(again);
  return s ? s : &oom;
}

td_status *td_error(td_code code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  td_status *s = td_error_v(code, fmt, args);
  va_end(args);
  return s;
}

/* A copy of `s` with `parts` where `s` has none; NULL without memory. */
static td_status *copy_with(const td_status *s,
                            const char *const parts[PARTS]) {
  size_t len = s->len, lens[PARTS] = {0};
  for (int i = 0; i < PARTS; i++) {
    if (s->at[i] || !parts[i] || !parts[i][0]) continue;
    lens[i] = strnlen(parts[i], MAX_TEXT) + 1;
    len += lens[i];
  }
  td_status *c = new_status(s->code, (uint32_t)len);
  if (!c) return NULL;
  c->derived = s->derived;
  memcpy(c->at, s->at, sizeof c->at);
  memcpy(c->text, s->text, s->len);
  uint32_t end = s->len;
  for (int i = 0; i < PARTS; i++) {
    if (!lens[i]) continue;
    c->at[i] = end;
    memcpy(c->text + end, parts[i], lens[i] - 1);
    end += (uint32_t)lens[i];
    c->text[end - 1] = '\0';
  }
  return c;
}

static bool adds_any(const td_status *s, const char *const parts[PARTS]) {
  for (int i = 0; i < PARTS; i++)
    if (!s->at[i] && parts[i] && parts[i][0]) return true;
  return false;
}

/* Takes ownership of `s`, returns it or a copy that has `parts`. */
static td_status *add_parts(td_status *s, const char *const parts[PARTS]) {
  if (!s || !adds_any(s, parts)) return s;
  td_status *c = copy_with(s, parts);
  if (!c) return s; /* better without the place than without the error */
  td_status_release(s);
  return c;
}

td_status *td_status_at(td_status *s, const char *op, const char *node,
                        const char *origin, const char *device) {
  const char *const parts[PARTS] = {
      [OP] = op, [NODE] = node, [ORIGIN] = origin, [DEVICE] = device};
  return add_parts(s, parts);
}

td_status *td_status_about(td_status *s, const char *task) {
  const char *const parts[PARTS] = {[ABOUT] = task};
  return add_parts(s, parts);
}

td_status *td_status_applied(td_status *s, const char *where) {
  const char *const parts[PARTS] = {[APPLIED] = where};
  return add_parts(s, parts);
}

td_status *td_status_derive(td_status *s) {
  static const char *const nothing[PARTS] = {NULL};
  if (!s || s->derived) return s;
  if (s == &oom) return &oom_derived;
  if (!is_sole(s)) {
    td_status *c = copy_with(s, nothing);
    td_status_release(s);
    if (!c) return &oom_derived;
    s = c;
  }
  s->derived = true;
  return s;
}

td_status *td_status_retain(td_status *s) {
  if (s && !is_static(s)) __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
  return s;
}

void td_status_release(td_status *s) {
  if (s && !is_static(s) &&
      __atomic_fetch_sub(&s->refs, 1, __ATOMIC_ACQ_REL) == 1)
    td_free(s);
}

/* How far it is from a root cause. */
static int rank(const td_status *s) {
  return s->derived ? 2 : s->at[ABOUT] ? 1 : 0;
}

td_status *td_status_first(td_status *first, td_status *second) {
  bool second_wins = !first || (second && rank(second) < rank(first));
  td_status_release(second_wins ? first : second);
  return second_wins ? second : first;
}

td_code td_status_code(const td_status *s) {
  return s ? s->code : TD_OK;
}

const char *td_code_name(td_code code) {
  static const char *const names[] = {
      "ok",
      "cancelled",
      "unknown",
      "invalid_argument",
      "deadline_exceeded",
      "not_found",
      "already_exists",
      "permission_denied",
      "resource_exhausted",
      "failed_precondition",
      "aborted",
      "out_of_range",
      "unimplemented",
      "internal",
      "unavailable",
      "data_loss",
      "unauthenticated",
  };
  return (size_t)code < TD_COUNT(names) ? names[code] : "unknown";
}

static const char *part(const td_status *s, int i) {
  return s ? s->text + s->at[i] : "";
}

const char *td_status_message(const td_status *s) {
  return part(s, MESSAGE);
}
const char *td_status_op(const td_status *s) {
  return part(s, OP);
}
const char *td_status_node(const td_status *s) {
  return part(s, NODE);
}
const char *td_status_origin(const td_status *s) {
  return part(s, ORIGIN);
}
const char *td_status_device(const td_status *s) {
  return part(s, DEVICE);
}
const char *td_status_about_task(const td_status *s) {
  return part(s, ABOUT);
}
const char *td_status_applied_where(const td_status *s) {
  return part(s, APPLIED);
}
bool td_status_derived(const td_status *s) {
  return s && s->derived;
}
