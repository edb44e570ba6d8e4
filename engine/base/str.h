/* str.h - a growable string.
 *
 * A td_str that ran out of memory turns `failed` and stays as it was; callers
 * check once at the end. Always NUL-terminated; may hold NULs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STR_H
#define TD_STR_H

#include "engine/base/base.h"

TD_BEGIN

/* Bytes somewhere else. Borrowed. */
typedef struct td_bytes {
  const char *at; /* NUL-terminated beyond len */
  size_t len;
} td_bytes;

typedef struct td_str {
  char *at;    /* NULL while empty: use td_str_c */
  size_t len;  /* without the NUL */
  size_t cap;
  bool failed; /* an append found no memory */
} td_str;

void td_str_init(td_str *s);
void td_str_deinit(td_str *s);
void td_str_add(td_str *s, const char *text);
void td_str_addn(td_str *s, const char *bytes, size_t len);
void td_str_addc(td_str *s, char c);
void td_str_addf(td_str *s, const char *fmt, ...) TD_PRINTF(2, 3);
void td_str_addv(td_str *s, const char *fmt, va_list args);
/* As a C string; "" while empty. Borrowed; valid until the next append. */
const char *td_str_c(const td_str *s);
/* Hands the bytes over and empties `s`. Caller owns the result (td_free);
 * NULL when an append failed. */
char *td_str_take(td_str *s);
void td_str_clear(td_str *s);

char *td_strdup(const char *s); /* Caller owns the result. */
char *td_strndup(const char *s, size_t len);

/* Appends `text` as a JSON string with its quotes; bad UTF-8 is replaced. */
void td_str_json(td_str *s, const char *text, size_t len);

TD_END
#endif
