/* device_name.c - reading, printing and combining device strings.
 *
 * A string is a row of parts, "/" before each (optional before the first):
 * job:NAME, replica:N, task:N, device:TYPE[:N], and the old cpu[:N], gpu[:N];
 * N or NAME may be "*", the same as leaving the part away. A part may come
 * once. Index and type are read together: an index is that type's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/device_name.h"

#include <string.h>
#include <strings.h>

/* One part of the string being read: the words between its colons. */
typedef struct part {
  const char *at;
  size_t len;
} part;

enum { MAX_WORDS = 3 };

/* Which parts have been read. */
enum { SEEN_JOB = 1, SEEN_REPLICA = 2, SEEN_TASK = 4, SEEN_DEVICE = 8 };

static td_status *bad(const char *text, part p, const char *why) {
  if (p.len > 64) p.len = 64;
  return td_error(TD_INVALID_ARGUMENT, "device \"%.200s\": \"%.*s\" %s", text,
                  (int)p.len, p.at, why);
}

static bool is_word(part p, const char *word) {
  return p.len == strlen(word) && !strncasecmp(p.at, word, p.len);
}

static bool is_any(part p) {
  return p.len == 1 && p.at[0] == '*';
}

/* Of ASCII, whatever the locale. */
static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A letter, then letters, digits and "_"; shorter than `size`. */
static bool copy_name(part p, char *to, size_t size) {
  if (p.len == 0 || p.len >= size || !is_letter(p.at[0])) return false;
  for (size_t i = 0; i < p.len; i++)
    if (!is_letter(p.at[i]) && !is_digit(p.at[i]) && p.at[i] != '_')
      return false;
  memcpy(to, p.at, p.len);
  to[p.len] = '\0';
  return true;
}

static bool read_number(part p, int32_t *out) {
  int64_t v = 0;
  if (is_any(p)) {
    *out = -1;
    return true;
  }
  if (p.len == 0 || p.len > 10) return false;
  for (size_t i = 0; i < p.len; i++) {
    if (!is_digit(p.at[i])) return false;
    v = v * 10 + (p.at[i] - '0');
  }
  if (v > INT32_MAX) return false;
  *out = (int32_t)v;
  return true;
}

static td_status *once(const char *text, part whole, unsigned bit,
                       unsigned *seen) {
  if (*seen & bit) return bad(text, whole, "comes after another of its kind");
  *seen |= bit;
  return NULL;
}

static td_status *read_counted(const char *text, part whole, const part *word,
                               int words, unsigned bit, unsigned *seen,
                               int32_t *out) {
  TD_TRY(once(text, whole, bit, seen));
  if (words != 2 || !read_number(word[1], out))
    return bad(text, whole, "wants a number from 0 to 2147483647, or *");
  return NULL;
}

static td_status *read_job(const char *text, part whole, const part *word,
                           int words, unsigned *seen, td_device_name *out) {
  TD_TRY(once(text, whole, SEEN_JOB, seen));
  if (words == 2 &&
      (is_any(word[1]) || copy_name(word[1], out->job, sizeof out->job)))
    return NULL;
  return bad(text, whole,
             "wants a job name: a letter, then letters, digits and _, at most "
             "63");
}

/* TYPE, TYPE:N; `word` starts at the type. */
static td_status *read_device(const char *text, part whole, const part *word,
                              int words, unsigned *seen, td_device_name *out) {
  TD_TRY(once(text, whole, SEEN_DEVICE, seen));
  if (words < 1 ||
      (!is_any(word[0]) && !copy_name(word[0], out->type, sizeof out->type)))
    return bad(text, whole,
               "wants a device type (CPU, GPU, ...): a letter, then letters, "
               "digits and _, at most 31");
  for (char *c = out->type; *c; c++)
    if (*c >= 'a' && *c <= 'z') *c -= 'a' - 'A';
  if (words > 2 || (words == 2 && !read_number(word[1], &out->index)))
    return bad(text, whole, "wants a device number from 0 to 2147483647, or *");
  return NULL;
}

static td_status *read_part(const char *text, part whole, unsigned *seen,
                            td_device_name *out) {
  part word[MAX_WORDS + 1];
  int words = 0;
  for (part rest = whole; words <= MAX_WORDS;) {
    const char *colon = memchr(rest.at, ':', rest.len);
    word[words] = rest;
    if (colon) word[words].len = (size_t)(colon - rest.at);
    words++;
    if (!colon) break;
    rest.len -= (size_t)(colon + 1 - rest.at);
    rest.at = colon + 1;
  }
  if (is_word(word[0], "job"))
    return read_job(text, whole, word, words, seen, out);
  if (is_word(word[0], "replica"))
    return read_counted(text, whole, word, words, SEEN_REPLICA, seen,
                        &out->replica);
  if (is_word(word[0], "task"))
    return read_counted(text, whole, word, words, SEEN_TASK, seen, &out->task);
  if (is_word(word[0], "device"))
    return read_device(text, whole, word + 1, words - 1, seen, out);
  if (is_word(word[0], "cpu") || is_word(word[0], "gpu"))
    return read_device(text, whole, word, words, seen, out);
  return bad(text, whole,
             "is none of /job:NAME, /replica:N, /task:N, /device:TYPE:N, "
             "/cpu:N, /gpu:N");
}

static void clear(td_device_name *d) {
  memset(d, 0, sizeof *d);
  d->replica = d->task = d->index = -1;
}

td_status *td_device_name_parse(const char *text, td_device_name *out) {
  td_device_name d;
  unsigned seen = 0;
  clear(&d);
  const char *at = text;
  if (*at == '/') at++;
  while (*at || at != text) {
    part whole = {at, strcspn(at, "/")};
    TD_TRY(read_part(text, whole, &seen, &d));
    at += whole.len;
    if (!*at) break;
    at++;
  }
  *out = d;
  return NULL;
}

static void print_index(td_str *out, int32_t i) {
  if (i >= 0)
    td_str_addf(out, ":%d", (int)i);
  else
    td_str_add(out, ":*");
}

void td_device_name_print(const td_device_name *d, td_str *out) {
  if (d->job[0]) td_str_addf(out, "/job:%s", d->job);
  if (d->replica >= 0) td_str_addf(out, "/replica:%d", (int)d->replica);
  if (d->task >= 0) td_str_addf(out, "/task:%d", (int)d->task);
  if (!d->type[0] && d->index < 0) return;
  td_str_addf(out, "/device:%s", d->type[0] ? d->type : "*");
  print_index(out, d->index);
}

void td_device_name_merge(const td_device_name *outer,
                          const td_device_name *inner, td_device_name *out) {
  td_device_name d = *inner;
  if (!d.job[0]) memcpy(d.job, outer->job, sizeof d.job);
  if (d.replica < 0) d.replica = outer->replica;
  if (d.task < 0) d.task = outer->task;
  bool same_type = !d.type[0] || !strcmp(d.type, outer->type);
  if (d.index < 0 && (same_type || !outer->type[0])) d.index = outer->index;
  if (!d.type[0]) memcpy(d.type, outer->type, sizeof d.type);
  *out = d;
}

static bool word_matches(const char *want, const char *given) {
  return !want[0] || !strcmp(want, given);
}

static bool number_matches(int32_t want, int32_t given) {
  return want < 0 || want == given;
}

/* TensorFlow's graphs say GPU of what is CUDA here. */
static bool type_matches(const char *want, const char *is) {
  return word_matches(want, is) ||
         (!strcmp(want, "GPU") && !strcmp(is, "CUDA"));
}

bool td_device_name_matches(const td_device_name *want,
                            const td_device_name *d) {
  return word_matches(want->job, d->job) && type_matches(want->type, d->type) &&
         number_matches(want->replica, d->replica) &&
         number_matches(want->task, d->task) &&
         number_matches(want->index, d->index);
}

static bool words_meet(const char *a, const char *b) {
  return !a[0] || !b[0] || !strcmp(a, b);
}

static bool numbers_meet(int32_t a, int32_t b) {
  return a < 0 || b < 0 || a == b;
}

bool td_device_name_intersect(const td_device_name *a, const td_device_name *b,
                              td_device_name *out) {
  if (!words_meet(a->job, b->job) || !words_meet(a->type, b->type) ||
      !numbers_meet(a->replica, b->replica) ||
      !numbers_meet(a->task, b->task) || !numbers_meet(a->index, b->index))
    return false;
  td_device_name_merge(a, b, out);
  return true;
}
