/* matching.c - patterns of paths, a folder at a time; see matching.h.
 *
 * A pattern is cut at its slashes. Folders are listed only where a part has a
 * wildcard, so that a pattern costs what it must, on any file system. A folder
 * that is not there, or that may not be read, has nothing that fits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/matching.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/file_system.h"
#include "engine/base/mem.h"

void td_paths_free(td_paths *p) {
  for (size_t i = 0; i < p->len; i++) td_free(p->at[i]);
  td_vec_free(p);
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void td_paths_sort(td_paths *p) {
  if (p->len > 1) qsort(p->at, p->len, sizeof *p->at, by_bytes);
}

static td_status *add(td_paths *out, const char *path) {
  char *copy = td_strdup(path);
  if (copy && td_vec_push(out, copy)) return NULL;
  td_free(copy);
  return td_oom();
}

static bool is_wild(const char *at, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (strchr("*?[\\", at[i])) return true;
  return false;
}

/* What fits `rest` below `here`, "" or a path up to its slash. */
static td_status *match(const char *here, const char *rest, td_paths *out);

static td_status *match_name(const char *here, const char *name,
                             const char *rest, td_paths *out) {
  td_str path = {0};
  td_str_addf(&path, "%s%s%s", here, name, *rest ? "/" : "");
  td_status *s = path.failed ? td_oom() : NULL;
  while (*rest == '/') rest++;
  if (td_ok(s))
    s = *rest ? match(td_str_c(&path), rest, out) : add(out, path.at);
  td_str_deinit(&path);
  return s;
}

/* `part` has a wildcard; `rest` begins with its slash, or is empty. */
static td_status *match_folder(const char *here, const char *part,
                               const char *rest, td_paths *out) {
  td_str names = {0};
  td_status *s = td_file_list(*here ? here : ".", &names);
  td_code code = td_status_code(s);
  if (code == TD_NOT_FOUND || code == TD_PERMISSION_DENIED ||
      code == TD_FAILED_PRECONDITION || code == TD_INVALID_ARGUMENT) {
    td_status_release(s);
    s = NULL;
  }
  if (td_ok(s) && names.failed) s = td_oom();
  for (size_t i = 0; td_ok(s) && i < names.len;) {
    const char *name = names.at + i;
    i += strlen(name) + 1;
    if (fnmatch(part, name, FNM_PERIOD) == 0)
      s = match_name(here, name, rest, out);
  }
  td_str_deinit(&names);
  return s;
}

static td_status *match(const char *here, const char *rest, td_paths *out) {
  size_t len = strcspn(rest, "/");
  td_str text = {0};
  td_status *s = NULL;
  if (!is_wild(rest, strlen(rest))) { /* nothing more to look for */
    td_str_addf(&text, "%s%s", here, rest);
    if (!text.failed && td_file_exists(td_str_c(&text)))
      s = add(out, td_str_c(&text));
  } else {
    td_str_addn(&text, rest, len);
    if (!text.failed && is_wild(rest, len))
      s = match_folder(here, td_str_c(&text), rest + len, out);
    else if (!text.failed)
      s = match_name(here, td_str_c(&text), rest + len, out);
  }
  if (td_ok(s) && text.failed) s = td_oom();
  td_str_deinit(&text);
  return s;
}

td_status *td_matching_files(const char *pattern, td_paths *out) {
  const td_file_system *fs = td_file_system_of(pattern);
  size_t begin = fs->prefix ? strlen(fs->prefix) : 0;
  begin += strspn(pattern + begin, "/");
  char *root = td_strndup(pattern, begin);
  if (!root) return td_oom();
  td_status *s = match(root, pattern + begin, out);
  td_free(root);
  return s;
}
