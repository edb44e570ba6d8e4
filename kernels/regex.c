/* regex.c - PCRE2, opened by the first pattern.
 *
 * How long a search may take is bounded twice: by the steps from one place
 * where a match may begin, and, as those are counted anew for each place, by
 * looking every few places whether the step was stopped.
 *
 * The library would look through the whole text at each call for what is no
 * UTF-8. That is done here, once a text; only a text with such bytes is given
 * to a second compiled form that takes them, slowly.
 *
 * The library's header is not needed to build: its interface is fixed, and what
 * is called of it is written down here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/regex.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"

enum {
  STEPS = 1000000, /* from one place */
  HEAP_KB = 64 << 10,
  PLACES = 256, /* tried in one call */
};

/* ---- the library --------------------------------------------------------- */

enum {
  DOLLAR_ENDONLY = 0x00000010,
  UTF = 0x00080000,
  NEVER_BACKSLASH_C = 0x00100000,
  USE_OFFSET_LIMIT = 0x00800000,
  MATCH_INVALID_UTF = 0x04000000,
  ENDANCHORED = 0x20000000,
  NO_UTF_CHECK = 0x40000000,
};
static const uint32_t ANCHORED = 0x80000000u;

enum { INFO_CAPTURECOUNT = 4 };
enum {
  ERROR_NOMATCH = -1,
  ERROR_MATCHLIMIT = -47,
  ERROR_NOMEMORY = -48,
  ERROR_DEPTHLIMIT = -53,
  ERROR_HEAPLIMIT = -63,
  ERROR_TOO_LARGE = 121, /* of compiling: no memory */
};

/* What is called: the result, the name, the arguments. */
#define PCRE2_FUNCTIONS(X)                                                     \
  X(void *, general_context_create,                                            \
    (void *(*)(size_t, void *), void (*)(void *, void *), void *))             \
  X(void, general_context_free, (void *))                                      \
  X(void *, compile_context_create, (void *))                                  \
  X(void, compile_context_free, (void *))                                      \
  X(void *, compile,                                                           \
    (const uint8_t *, size_t, uint32_t, int *, size_t *, void *))              \
  X(void, code_free, (void *))                                                 \
  X(int, pattern_info, (const void *, uint32_t, void *))                       \
  X(void *, match_data_create_from_pattern, (const void *, void *))            \
  X(void, match_data_free, (void *))                                           \
  X(void *, match_context_create, (void *))                                    \
  X(void, match_context_free, (void *))                                        \
  X(int, set_match_limit, (void *, uint32_t))                                  \
  X(int, set_heap_limit, (void *, uint32_t))                                   \
  X(int, set_offset_limit, (void *, size_t))                                   \
  X(int, match,                                                                \
    (const void *, const uint8_t *, size_t, size_t, uint32_t, void *, void *)) \
  X(size_t *, get_ovector_pointer, (void *))                                   \
  X(int, get_error_message, (int, uint8_t *, size_t))

static struct {
#define FIELD(type, name, args) type(*name) args;
  PCRE2_FUNCTIONS(FIELD)
#undef FIELD
  bool ready;
} pcre2; /* set once */

static void load(void) {
  void *library = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  pcre2.ready = true;
#define LOAD(type, name, args)                                                 \
  pcre2.name = (type(*) args)dlsym(library, "pcre2_" #name "_8");              \
  if (!pcre2.name) pcre2.ready = false;
  PCRE2_FUNCTIONS(LOAD)
#undef LOAD
}

static td_status *need_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  if (pcre2.ready) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "regular expressions need PCRE2 (libpcre2-8.so.0), which "
                  "this system does not have: install libpcre2-8-0");
}

static void *take(size_t size, void *unused) {
  (void)unused;
  return td_malloc(size);
}

static void give(void *p, void *unused) {
  (void)unused;
  td_free(p);
}

/* ---- what RE2 has -------------------------------------------------------- */

static td_status *not_taken(td_bytes p, size_t at, size_t len) {
  if (len > p.len - at) len = p.len - at;
  return td_error(TD_INVALID_ARGUMENT,
                  "pattern \"%.*s\": %.*s at byte %zu is not of RE2's "
                  "language, which has no back references, no looking around "
                  "and no possessive or atomic groups",
                  td_text_shown(p), p.at, (int)len, p.at + at, at);
}

/* The byte behind what a backslash at `i` begins, or 0. */
static size_t behind_escape(td_bytes p, size_t i) {
  static const char known[] = "aftnrxdDsSwWbBAzpPQE0";
  if (i + 1 >= p.len) return i + 1; /* PCRE2 says it */
  unsigned char c = (unsigned char)p.at[i + 1];
  bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
  if ((letter || (c >= '0' && c <= '9')) && !strchr(known, c)) return 0;
  if (c != 'Q') return i + 2;
  const char *end = memmem(p.at + i, p.len - i, "\\E", 2);
  return end ? (size_t)(end - p.at) + 2 : p.len;
}

/* The byte behind the class that begins with '[' at i, or 0; *wrong is then
 * where what is not taken stands. */
static size_t behind_class(td_bytes p, size_t i, size_t *wrong) {
  size_t k = i + 1;
  if (k < p.len && p.at[k] == '^') k++;
  if (k < p.len && p.at[k] == ']') k++;
  while (k < p.len && p.at[k] != ']') {
    size_t next = k + 1;
    if (p.at[k] == '\\') next = behind_escape(p, k);
    if (next == 0) {
      *wrong = k;
      return 0;
    }
    if (p.at[k] == '[' && k + 1 < p.len && p.at[k + 1] == ':') {
      const char *end = memmem(p.at + k, p.len - k, ":]", 2);
      if (end) next = (size_t)(end - p.at) + 2;
    }
    k = next;
  }
  return k + 1;
}

/* Is "(?" or "(*" at i the beginning of something that RE2 has? */
static bool group_taken(td_bytes p, size_t i) {
  const char *s = p.at + i, *end = p.at + p.len;
  if (s + 1 >= end || (s[1] != '?' && s[1] != '*')) return true;
  if (s[1] == '*') return false;
  for (s += 2; s < end && *s && strchr("imsU-", *s);) s++;
  if (s >= end || *s == ':' || *s == ')') return true;
  bool named = s == p.at + i + 2;
  if (*s == 'P') return named && s + 1 < end && s[1] == '<';
  return named && *s == '<' && s + 1 < end && s[1] != '=' && s[1] != '!';
}

/* Is the '+' at i behind another quantifier? `behind`: what an escape or class
 * left off. */
static bool possessive(td_bytes p, size_t i, size_t behind) {
  if (i == 0 || i == behind) return false;
  char c = p.at[i - 1];
  if (c == '*' || c == '+' || c == '?') return true;
  if (c != '}') return false;
  size_t k = i - 1;
  while (k > behind &&
         (p.at[k - 1] == ',' || (p.at[k - 1] >= '0' && p.at[k - 1] <= '9')))
    k--;
  return k > behind && p.at[k - 1] == '{' && p.at[k] != ',' && p.at[k] != '}';
}

static td_status *check(td_bytes p) {
  size_t behind = 0; /* the last escape, class or opening of a group */
  for (size_t i = 0; i < p.len;) {
    size_t next = i + 1, wrong = i;
    if (p.at[i] == '\\')
      behind = next = behind_escape(p, i);
    else if (p.at[i] == '[')
      behind = next = behind_class(p, i, &wrong);
    if (next == 0) return not_taken(p, wrong, 2);
    if (p.at[i] == '(' && !group_taken(p, i)) return not_taken(p, i, 3);
    if (p.at[i] == '+' && possessive(p, i, behind))
      return not_taken(p, i - 1, 2);
    if (p.at[i] == '(' && i + 1 < p.len && p.at[i + 1] == '?') next = i + 2;
    if (p.at[i] == '(') behind = next;
    i = next;
  }
  return NULL;
}

/* ---- patterns ------------------------------------------------------------ */

struct td_regex {
  void *general, *compile, *match; /* contexts of the library's */
  void *code, *loose; /* for texts of UTF-8; for any, made when needed */
  void *data;
  uint32_t groups;
  td_bytes pattern; /* borrowed */
  td_bytes text;    /* borrowed: what is searched */
  bool utf8;        /* it is */
};

static td_status *compile(td_regex *r, uint32_t flags, void **out) {
  td_bytes p = r->pattern;
  int code = 0;
  size_t at = 0;
  char why[128] = "";
  flags |= DOLLAR_ENDONLY | UTF | NEVER_BACKSLASH_C | USE_OFFSET_LIMIT;
  *out = pcre2.compile((const uint8_t *)(p.len ? p.at : ""), p.len, flags,
                       &code, &at, r->compile);
  if (*out) return NULL;
  if (code == ERROR_TOO_LARGE) return td_oom();
  pcre2.get_error_message(code, (uint8_t *)why, sizeof why);
  return td_error(TD_INVALID_ARGUMENT,
                  "pattern \"%.*s\" is no regular expression: %s, at byte %zu",
                  td_text_shown(p), p.at, why, at);
}

static td_status *open(td_regex *r) {
  r->general = pcre2.general_context_create(take, give, NULL);
  if (!r->general) return td_oom();
  r->compile = pcre2.compile_context_create(r->general);
  r->match = pcre2.match_context_create(r->general);
  if (!r->compile || !r->match) return td_oom();
  pcre2.set_match_limit(r->match, STEPS);
  pcre2.set_heap_limit(r->match, HEAP_KB);
  TD_TRY(compile(r, 0, &r->code));
  r->data = pcre2.match_data_create_from_pattern(r->code, r->general);
  if (!r->data) return td_oom();
  pcre2.pattern_info(r->code, INFO_CAPTURECOUNT, &r->groups);
  return NULL;
}

td_status *td_regex_new(td_bytes pattern, td_regex **out) {
  TD_TRY(need_library());
  TD_TRY(check(pattern));
  td_regex *r = td_calloc(1, sizeof *r);
  if (!r) return td_oom();
  r->pattern = pattern;
  td_status *s = open(r);
  if (td_ok(s))
    *out = r;
  else
    td_regex_free(r);
  return s;
}

void td_regex_free(td_regex *r) {
  if (!r) return;
  if (r->data) pcre2.match_data_free(r->data);
  if (r->code) pcre2.code_free(r->code);
  if (r->loose) pcre2.code_free(r->loose);
  if (r->match) pcre2.match_context_free(r->match);
  if (r->compile) pcre2.compile_context_free(r->compile);
  if (r->general) pcre2.general_context_free(r->general);
  td_free(r);
}

int td_regex_groups(const td_regex *r) {
  return (int)r->groups;
}

/* ---- texts --------------------------------------------------------------- */

/* Bytes of the character of UTF-8 at s, none of it surrogate, too large or
 * written longer than need be; 0: there is none. */
static size_t character(const unsigned char *s, size_t left) {
  size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
  if (n == 1) return 1;
  if (n > left || s[0] < 0xc2 || s[0] > 0xf4) return 0;
  for (size_t i = 1; i < n; i++)
    if (!td_text_follows((char)s[i])) return 0;
  if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
  if (s[0] == 0xed && s[1] > 0x9f) return 0;
  if (s[0] == 0xf0 && s[1] < 0x90) return 0;
  return s[0] == 0xf4 && s[1] > 0x8f ? 0 : n;
}

static bool is_utf8(td_bytes s) {
  for (size_t i = 0; i < s.len;) {
    size_t n = character((const unsigned char *)s.at + i, s.len - i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

size_t td_regex_character(td_bytes s, size_t at) {
  size_t n = character((const unsigned char *)s.at + at, s.len - at);
  return n ? n : 1;
}

td_status *td_regex_text(td_regex *r, td_bytes text) {
  r->text = text;
  r->utf8 = is_utf8(text);
  if (r->utf8 || r->loose) return NULL;
  return compile(r, MATCH_INVALID_UTF, &r->loose);
}

/* ---- matching ------------------------------------------------------------ */

/* One call; *found, or why it was given up. */
static td_status *match(td_regex *r, size_t from, uint32_t options,
                        bool *found) {
  td_bytes text = r->text, p = r->pattern;
  const uint8_t *at = (const uint8_t *)(text.len ? text.at : "");
  if (r->utf8) options |= NO_UTF_CHECK;
  int rc = pcre2.match(r->utf8 ? r->code : r->loose, at, text.len, from,
                       options, r->data, r->match);
  *found = rc > 0;
  if (rc > 0 || rc == ERROR_NOMATCH) return NULL;
  if (rc == ERROR_NOMEMORY) return td_oom();
  if (rc == ERROR_MATCHLIMIT || rc == ERROR_DEPTHLIMIT || rc == ERROR_HEAPLIMIT)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "pattern \"%.*s\" needs more than %d steps for a string of "
                    "%zu bytes: repetitions inside repetitions, such as "
                    "(a+)+, are better written as one",
                    td_text_shown(p), p.at, STEPS, text.len);
  char why[128] = "";
  pcre2.get_error_message(rc, (uint8_t *)why, sizeof why);
  return td_error(TD_INVALID_ARGUMENT, "pattern \"%.*s\": %s", td_text_shown(p),
                  p.at, why);
}

/* The first byte at or behind `at` where a character begins. */
static size_t next_character(td_bytes s, size_t at) {
  while (at < s.len && td_text_follows(s.at[at])) at++;
  return at;
}

td_status *td_regex_find(td_regex *r, size_t from, const td_kernel_ctx *c,
                         bool *found) {
  td_bytes s = r->text;
  size_t places = r->utf8 ? PLACES : PLACES + s.len / 16;
  *found = false;
  while (from <= s.len && !td_stopped(c)) {
    size_t next = from + places;
    if (r->utf8) next = next_character(s, next);
    pcre2.set_offset_limit(r->match, next - 1);
    TD_TRY(match(r, from, 0, found));
    if (*found) return NULL;
    from = next;
  }
  return NULL;
}

td_status *td_regex_whole(td_regex *r, bool *found) {
  pcre2.set_offset_limit(r->match, 0);
  TD_TRY(match(r, 0, ANCHORED | ENDANCHORED, found));
  /* Bytes that are no UTF-8 end the subject for PCRE2. */
  const size_t *at = td_regex_at(r);
  if (*found) *found = at[0] == 0 && at[1] == r->text.len;
  return NULL;
}

const size_t *td_regex_at(const td_regex *r) {
  return pcre2.get_ovector_pointer(r->data);
}
