/* checkpoint_state.c - CheckpointState as text, both ways; removing.
 *
 * Of the text form of protocol buffers this is what scalar fields need: strings
 * with their escapes, in one or several pieces, numbers, comments. The text may
 * come from anywhere: nothing but what stands in it makes memory be taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/file_claim.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"

enum { NUMBER_MOST = 63, FIELD_MOST = 63 }; /* characters */

/* ---- words --------------------------------------------------------------- */

typedef struct state_text {
  td_bytes left;
  int line;
} state_text;

static td_status *broken(const state_text *r, const char *what) {
  return td_error(TD_DATA_LOSS, "line %d: %s", r->line, what);
}

static char peek(const state_text *r) {
  return r->left.len > 0 ? *r->left.at : 0;
}

static char take(state_text *r) {
  char c = *r->left.at++;
  r->left.len--;
  if (c == '\n') r->line++;
  return c;
}

/* Blanks, what stands between fields, and comments. */
static void skip(state_text *r) {
  while (r->left.len > 0) {
    char c = peek(r);
    if (c == '#')
      while (r->left.len > 0 && peek(r) != '\n') take(r);
    else if (strchr(" \t\r\n,;", c) && c)
      take(r);
    else
      return;
  }
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static td_status *take_field(state_text *r, char *name) {
  size_t n = 0;
  while (is_letter(peek(r)) || is_digit(peek(r))) {
    if (n == FIELD_MOST) return broken(r, "a field's name is too long");
    name[n++] = take(r);
  }
  name[n] = 0;
  if (n == 0) return broken(r, "expected the name of a field");
  skip(r);
  if (peek(r) != ':') return broken(r, "expected : behind a field's name");
  take(r);
  skip(r);
  return NULL;
}

static int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

/* Up to `most` digits of `base`; -1: there is none. */
static int take_digits(state_text *r, int base, int most) {
  int v = -1;
  for (int n = 0; n < most && digit_of(peek(r)) < base; n++)
    v = (v < 0 ? 0 : v) * base + digit_of(take(r));
  return v;
}

/* What stands behind a backslash. */
static td_status *take_escape(state_text *r, td_str *out) {
  static const char names[] = "nrtabfv\\'\"?", means[] = "\n\r\t\a\b\f\v\\'\"?";
  char c = peek(r);
  int v;
  if (is_digit(c)) {
    v = take_digits(r, 8, 3);
  } else if (c == 'x' || c == 'X') {
    take(r);
    v = take_digits(r, 16, 2);
  } else {
    const char *at = c ? strchr(names, c) : NULL;
    v = at ? (unsigned char)means[at - names] : -1;
    if (at) take(r);
  }
  if (v < 0 || v > 255) return broken(r, "a string has a wrong escape");
  td_str_addc(out, (char)v);
  return NULL;
}

static td_status *take_piece(state_text *r, td_str *out) {
  char quote = take(r);
  while (r->left.len > 0 && peek(r) != quote) {
    if (peek(r) == '\n') break;
    char c = take(r);
    if (c == '\\')
      TD_TRY(take_escape(r, out));
    else
      td_str_addc(out, c);
  }
  if (peek(r) != quote || r->left.len == 0)
    return broken(r, "a string has no end");
  take(r);
  return NULL;
}

static bool at_string(const state_text *r) {
  return peek(r) == '"' || peek(r) == '\'';
}

/* "a" 'b' is one string. */
static td_status *take_string(state_text *r, td_str *out) {
  if (!at_string(r)) return broken(r, "expected a string");
  while (at_string(r)) {
    TD_TRY(take_piece(r, out));
    skip(r);
  }
  return NULL;
}

static td_status *take_path(state_text *r, char **out) {
  td_str s = {0};
  td_status *st = take_string(r, &s);
  if (td_ok(st) &&
      (s.len == 0 || s.len > TD_CHECKPOINT_PATH_MOST || memchr(s.at, 0, s.len)))
    st = s.failed ? td_oom() : broken(r, "a string is no path");
  if (td_ok(st)) {
    *out = td_str_take(&s);
    if (!*out) st = td_oom();
  }
  td_str_deinit(&s);
  return st;
}

static td_status *take_number(state_text *r, double *out) {
  char text[NUMBER_MOST + 1], *end;
  size_t n = 0;
  while (is_letter(peek(r)) || is_digit(peek(r)) ||
         (peek(r) && strchr("+-.", peek(r)))) {
    if (n == NUMBER_MOST) return broken(r, "a number is too long");
    text[n++] = take(r);
  }
  text[n] = 0;
  *out = strtod(text, &end);
  if (n > 0 && (*end == 'f' || *end == 'F')) end++;
  if (n == 0 || *end || !isfinite(*out)) return broken(r, "expected a number");
  return NULL;
}

/* ---- the message --------------------------------------------------------- */

static td_status *take_unknown(state_text *r) {
  if (!at_string(r)) {
    if (peek(r) == '{' || peek(r) == '[') return broken(r, "expected a value");
    while (is_letter(peek(r)) || is_digit(peek(r)) ||
           (peek(r) && strchr("+-.", peek(r))))
      take(r);
    return NULL;
  }
  td_str s = {0};
  td_status *st = take_string(r, &s);
  td_str_deinit(&s);
  return st;
}

static td_status *add_path(state_text *r, td_checkpoint_state *out) {
  char *path;
  TD_TRY(take_path(r, &path));
  if (td_vec_push(&out->paths, path)) return NULL;
  td_free(path);
  return td_oom();
}

static td_status *add_time(state_text *r, td_checkpoint_state *out) {
  double t;
  TD_TRY(take_number(r, &t));
  return td_vec_push(&out->times, t) ? NULL : td_oom();
}

static td_status *take_newest(state_text *r, td_checkpoint_state *out) {
  char *path;
  TD_TRY(take_path(r, &path));
  td_free(out->newest);
  out->newest = path;
  return NULL;
}

static td_status *parse_field(state_text *r, td_checkpoint_state *out) {
  char name[FIELD_MOST + 1];
  TD_TRY(take_field(r, name));
  if (!strcmp(name, "model_checkpoint_path")) return take_newest(r, out);
  if (!strcmp(name, "all_model_checkpoint_paths")) return add_path(r, out);
  if (!strcmp(name, "all_model_checkpoint_timestamps")) return add_time(r, out);
  if (!strcmp(name, "last_preserved_timestamp"))
    return take_number(r, &out->preserved);
  return take_unknown(r);
}

td_status *td_checkpoint_state_parse(td_bytes text, td_checkpoint_state *out) {
  state_text r = {text, 1};
  memset(out, 0, sizeof *out);
  td_status *s = NULL;
  if (text.len > TD_CHECKPOINT_STATE_MOST) s = broken(&r, "it is too long");
  for (skip(&r); td_ok(s) && r.left.len > 0; skip(&r)) s = parse_field(&r, out);
  if (td_ok(s) && out->times.len > out->paths.len)
    s = broken(&r, "there are more times than checkpoints");
  if (!td_ok(s)) td_checkpoint_state_deinit(out);
  return s;
}

void td_checkpoint_state_deinit(td_checkpoint_state *s) {
  for (size_t i = 0; i < s->paths.len; i++) td_free(s->paths.at[i]);
  td_vec_free(&s->paths);
  td_vec_free(&s->times);
  td_free(s->newest);
  s->newest = NULL;
}

/* ---- printing ------------------------------------------------------------ */

static void print_string(const char *field, const char *text, td_str *out) {
  td_str_addf(out, "%s: \"", field);
  for (const char *at = text; *at; at++) {
    unsigned char c = (unsigned char)*at;
    if (c == '\\' || c == '"' || c == '\'')
      td_str_addf(out, "\\%c", c);
    else if (c == '\n')
      td_str_add(out, "\\n");
    else if (c < 32 || c > 126)
      td_str_addf(out, "\\%03o", c);
    else
      td_str_addc(out, (char)c);
  }
  td_str_add(out, "\"\n");
}

static void print_number(const char *field, double v, td_str *out) {
  char text[NUMBER_MOST + 1];
  td_str_addf(out, "%s: ", field);
  (void)snprintf(text, sizeof text, "%.15g", v);
  bool same = strtod(text, NULL) == v;
  td_str_addf(out, same ? "%.15g\n" : "%.17g\n", v);
}

void td_checkpoint_state_print(const td_checkpoint_state *s, td_str *out) {
  if (s->newest) print_string("model_checkpoint_path", s->newest, out);
  for (size_t i = 0; i < s->paths.len; i++)
    print_string("all_model_checkpoint_paths", s->paths.at[i], out);
  for (size_t i = 0; i < s->times.len; i++)
    print_number("all_model_checkpoint_timestamps", s->times.at[i], out);
  if (s->preserved != 0)
    print_number("last_preserved_timestamp", s->preserved, out);
}

/* ---- removing ------------------------------------------------------------ */

static td_status *remove_file(const char *path) {
  td_status *s = td_file_remove(path);
  if (td_status_code(s) != TD_NOT_FOUND) return s;
  td_status_release(s);
  return NULL;
}

static td_status *remove_beside(const char *prefix, const char *ending) {
  td_str path = {0};
  td_str_addf(&path, "%s%s", prefix, ending);
  td_status *s = path.failed ? td_oom() : NULL;
  if (td_ok(s) && td_file_exists(path.at)) s = remove_file(path.at);
  td_str_deinit(&path);
  return s;
}

/* ".data-00000-of-00001" */
static bool is_shard(const char *ending) {
  static const char form[] = ".data-00000-of-00000";
  for (size_t i = 0; i < sizeof form; i++)
    if (form[i] == '0' ? !is_digit(ending[i]) : form[i] != ending[i])
      return false;
  return true;
}

/* ".index.tempstate": what a writer that died left. */
static bool is_beside(const char *ending) {
  static const char form[] = ".tempstate";
  size_t n = strlen(ending), len = sizeof form - 1;
  return *ending == '.' && n > len && !strcmp(ending + n - len, form);
}

static td_status *remove_named(const char *prefix, const char *base,
                               const td_str *names) {
  size_t len = strlen(base);
  for (size_t i = 0; i < names->len; i += strlen(names->at + i) + 1) {
    const char *name = names->at + i;
    if (strncmp(name, base, len) != 0) continue;
    if (is_shard(name + len) || is_beside(name + len))
      TD_TRY(remove_beside(prefix, name + len));
  }
  return NULL;
}

/* The index, so that it stays gone. */
static td_status *remove_index(const char *folder, const char *prefix) {
  td_str path = {0};
  td_str_addf(&path, "%s.index", prefix);
  td_status *s = path.failed ? td_oom() : NULL;
  if (td_ok(s) && td_file_exists(path.at)) {
    s = remove_file(path.at);
    if (td_ok(s)) s = td_file_sync_folder(folder);
  }
  td_str_deinit(&path);
  return s;
}

static td_status *remove_data(const char *folder, const char *prefix,
                              const char *base) {
  td_str names = {0};
  td_status *s = td_file_list(folder, &names);
  if (td_ok(s) && names.failed) s = td_oom();
  if (td_ok(s)) s = remove_named(prefix, base, &names);
  td_str_deinit(&names);
  return td_ok(s) ? remove_beside(prefix, ".meta") : s;
}

/* Alone with the prefix, as its writers are. */
static td_status *remove_alone(const char *folder, const char *prefix,
                               const char *base) {
  td_str path = {0};
  td_file_claim *claim;
  td_str_addf(&path, "%s.lock", prefix);
  td_status *s = path.failed ? td_oom() : td_file_claim_take(path.at, &claim);
  td_str_deinit(&path);
  TD_TRY(s);
  s = remove_index(folder, prefix);
  if (td_ok(s)) s = remove_data(folder, prefix, base);
  td_file_claim_release(claim);
  return s;
}

td_status *td_checkpoint_remove(const char *prefix) {
  const char *slash = strrchr(prefix, '/');
  const char *base = slash ? slash + 1 : prefix;
  if (!*base)
    return td_error(TD_INVALID_ARGUMENT,
                    "a checkpoint's prefix \"%s\" names no file", prefix);
  char *folder = !slash            ? td_strdup(".")
                 : slash == prefix ? td_strdup("/")
                                   : td_strndup(prefix, slash - prefix);
  if (!folder) return td_oom();
  td_status *s = remove_alone(folder, prefix, base);
  td_free(folder);
  if (td_status_code(s) != TD_NOT_FOUND) return s;
  td_status_release(s); /* there is no such folder */
  return NULL;
}
