/* keys_list.c - lists of public keys, in order of their bytes.
 *
 * The text is kept as it was read, and names are pieces of it. A key that
 * stands twice is there once, with the name of its first line.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/remote/keys_impl.h"

enum { MOST_BYTES = 1 << 20, MOST_NAME = 255 };

typedef struct entry {
  td_keys_key key;
  const char *name; /* in `text` of the list */
} entry;

struct td_keys_list {
  char *text;
  size_t count;
  entry *entries;
};

/* By the bytes of the key; of one key, the first line first. */
static int compare(const void *a, const void *b) {
  const entry *x = a, *y = b;
  int by_key = memcmp(&x->key, &y->key, sizeof x->key);
  return by_key ? by_key : (x->name > y->name) - (x->name < y->name);
}

static void sort(td_keys_list *list) {
  size_t n = 0;
  if (list->count > 0)
    qsort(list->entries, list->count, sizeof *list->entries, compare);
  for (size_t i = 0; i < list->count; i++)
    if (n == 0 || memcmp(&list->entries[n - 1].key, &list->entries[i].key,
                         sizeof(td_keys_key)) != 0)
      list->entries[n++] = list->entries[i];
  list->count = n;
}

/* A comment behind the name is no part of it. */
static size_t name_length(td_bytes rest) {
  for (size_t i = 0; i < rest.len; i++)
    if (rest.at[i] == '#' &&
        (i == 0 || rest.at[i - 1] == ' ' || rest.at[i - 1] == '\t'))
      rest.len = i;
  while (rest.len > 0 &&
         (rest.at[rest.len - 1] == ' ' || rest.at[rest.len - 1] == '\t'))
    rest.len--;
  return rest.len;
}

static td_status *check_name(const td_keys_line *l, size_t n,
                             const char *what) {
  if (n > MOST_NAME)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s, line %d: the name has %zu bytes, at most %d may be",
                    what, l->number, n, MOST_NAME);
  bool good = td_utf8_valid(l->rest.at, n);
  for (size_t i = 0; i < n; i++)
    good = good && (unsigned char)l->rest.at[i] >= ' ' && l->rest.at[i] != 127;
  if (good) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s, line %d: the name behind the key is no text in UTF-8",
                  what, l->number);
}

/* Lines that say something, of text that is the list's own: the byte behind a
 * name is of its line's end, and becomes its NUL. */
static td_status *fill(td_keys_list *list, size_t len, const char *what) {
  td_keys_line l = {.at = list->text, .end = list->text + len};
  while (td_keys_next_line(&l)) {
    entry *e = &list->entries[list->count++];
    size_t n = name_length(l.rest);
    TD_TRY(td_keys_of_line(&l, what, &e->key));
    TD_TRY(check_name(&l, n, what));
    size_t at = (size_t)(l.rest.at - list->text) + n;
    list->text[at] = '\0';
    e->name = l.rest.at;
  }
  return NULL;
}

td_status *td_keys_list_parse(const char *text, size_t len, const char *what,
                              td_keys_list **out) {
  size_t lines = 0;
  td_keys_line l = {.at = text, .end = text + len};
  while (td_keys_next_line(&l)) lines++;
  td_keys_list *list = td_calloc(1, sizeof *list);
  if (!list) return td_oom();
  list->text = td_malloc(len + 1);
  list->entries = td_calloc(lines + 1, sizeof *list->entries);
  td_status *s = list->text && list->entries ? NULL : td_oom();
  if (td_ok(s)) {
    memcpy(list->text, text, len);
    list->text[len] = '\0';
    s = fill(list, len, what);
  }
  if (td_ok(s)) {
    sort(list);
    *out = list;
  } else {
    td_keys_list_free(list);
  }
  return s;
}

td_status *td_keys_list_read(const char *path, td_keys_list **out) {
  char *text, what[PATH_MAX + 8];
  size_t len;
  struct stat st;
  if (stat(path, &st) == 0 && st.st_mode & S_IWOTH)
    return td_error(TD_PERMISSION_DENIED,
                    "anybody may write the list of keys '%s' (mode %04o), and "
                    "so let himself in: chmod o-w '%s'",
                    path, (unsigned)st.st_mode & 07777, path);
  TD_TRY(td_file_read(path, MOST_BYTES, &text, &len));
  snprintf(what, sizeof what, "'%s'", path);
  td_status *s = td_keys_list_parse(text, len, what, out);
  td_free(text);
  return s;
}

static int compare_key(const void *key, const void *e) {
  return memcmp(key, &((const entry *)e)->key, sizeof(td_keys_key));
}

const char *td_keys_list_find(const td_keys_list *list,
                              const td_keys_key *key) {
  if (list->count == 0) return NULL;
  const entry *e = bsearch(key, list->entries, list->count,
                           sizeof *list->entries, compare_key);
  return e ? e->name : NULL;
}

size_t td_keys_list_count(const td_keys_list *list) {
  return list->count;
}

const char *td_keys_list_at(const td_keys_list *list, size_t i,
                            td_keys_key *key) {
  *key = list->entries[i].key;
  return list->entries[i].name;
}

void td_keys_list_free(td_keys_list *list) {
  if (!list) return;
  td_free(list->text);
  td_free(list->entries);
  td_free(list);
}
