/* ask.c - what the prompt asks of the console: Jupyter's requests.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/ask.h"

#include <jansson.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/version.h"
#include "repl/text.h"

/* The decoded reply to {"code": .., more}; NULL when there is none. `text` gets
 * the reply as it came, or the error. */
static json_t *ask(td_line *l, const char *service, const char *code,
                   size_t len, const char *more, td_host_outcome *outcome,
                   td_str *text) {
  td_str request;
  td_str_init(&request);
  td_str_add(&request, "{\"code\": ");
  td_str_json(&request, code, len);
  td_str_add(&request, more);
  td_str_addc(&request, '}');
  *outcome = TD_HOST_ERROR;
  if (!request.failed)
    *outcome = td_host_call(l, service, td_str_c(&request), request.len, text);
  td_str_deinit(&request);
  if (*outcome != TD_HOST_OK) return NULL;
  return json_loadb(td_str_c(text), text->len, JSON_ALLOW_NUL, NULL);
}

/* The same for questions whose errors say nothing to the user. */
static json_t *question(td_line *l, const char *service, const char *code,
                        size_t len, const char *more) {
  td_host_outcome outcome;
  td_str text;
  td_str_init(&text);
  json_t *reply = ask(l, service, code, len, more, &outcome, &text);
  td_str_deinit(&text);
  return reply;
}

static const char *text_of(const json_t *reply, const char *key) {
  return json_string_value(json_object_get(reply, key));
}

void td_ask_start(td_line *l) {
  json_decref(question(l, "start", "", 0, ""));
}

td_ask_state td_ask_is_complete(td_line *l, const char *code, size_t len,
                                char **indent) {
  json_t *reply = question(l, "is_complete", code, len, "");
  const char *status = text_of(reply, "status");
  const char *spaces = text_of(reply, "indent");
  bool more = status && !strcmp(status, "incomplete");
  *indent = spaces ? td_strdup(spaces) : NULL;
  json_decref(reply);
  return more ? TD_ASK_INCOMPLETE : TD_ASK_COMPLETE;
}

/* ---- completion ---- */

/* The member of a request that says where in the text it is about. */
static const char *place(const char *code, size_t cursor, char out[64]) {
  snprintf(out, 64, ", \"detail_level\": 0, \"cursor_pos\": %zu",
           td_edit_text_points(code, cursor));
  return out;
}

/* A byte of the text, from a count of code points. */
static size_t byte_at(const json_t *reply, const char *key, const char *code,
                      size_t len, size_t missing) {
  const json_t *n = json_object_get(reply, key);
  if (!json_is_integer(n) || json_integer_value(n) < 0) return missing;
  return td_edit_text_offset(code, len, (size_t)json_integer_value(n));
}

static bool printable(const char *s) {
  for (; *s; s++)
    if ((unsigned char)*s < ' ' || *s == 0x7f) return false;
  return true;
}

static void fill(td_edit_menu *menu, const json_t *reply) {
  const json_t *matches = json_object_get(reply, "matches");
  const json_t *types = json_object_get(json_object_get(reply, "metadata"),
                                        "_jupyter_types_experimental");
  for (size_t i = 0; i < json_array_size(matches); i++) {
    const char *match = json_string_value(json_array_get(matches, i));
    const json_t *t = json_array_get(types, i);
    if (!match || !printable(match)) continue;
    if (!td_edit_menu_add(menu, match, text_of(t, "type"),
                          text_of(t, "signature")))
      return;
  }
}

void td_ask_complete(td_line *l, const char *code, size_t len, size_t cursor,
                     td_edit_menu *menu) {
  char more[64];
  td_edit_menu_clear(menu);
  json_t *reply = question(l, "complete", code, len, place(code, cursor, more));
  menu->start = byte_at(reply, "cursor_start", code, len, cursor);
  menu->end = byte_at(reply, "cursor_end", code, len, cursor);
  if (menu->start > cursor) menu->start = cursor;
  if (menu->end < menu->start) menu->end = cursor;
  fill(menu, reply);
  json_decref(reply);
}

/* ---- help ---- */

/* Adds text without its SGR sequences. */
static void add_bare(td_str *out, const char *s, size_t len) {
  td_str bare;
  td_str_init(&bare);
  for (size_t at = 0; at < len; at++) {
    const char *end = s[at] == '\033' ? memchr(s + at, 'm', len - at) : NULL;
    if (end)
      at = (size_t)(end - s);
    else
      td_str_addc(&bare, s[at]);
  }
  td_edit_text_clean(out, td_str_c(&bare), bare.len);
  td_str_deinit(&bare);
}

void td_ask_inspect(td_line *l, const char *code, size_t len, size_t cursor,
                    td_str *text) {
  char more[64];
  json_t *reply = question(l, "inspect", code, len, place(code, cursor, more));
  const json_t *plain =
      json_object_get(json_object_get(reply, "data"), "text/plain");
  if (json_is_string(plain))
    add_bare(text, json_string_value(plain), json_string_length(plain));
  json_decref(reply);
}

/* ---- running ---- */

/* Jupyter's payloads: `exit` leaves, %load gives the next input. */
static void take_payload(const json_t *reply, td_ask_result *result) {
  const json_t *payload = json_object_get(reply, "payload");
  for (size_t i = 0; i < json_array_size(payload); i++) {
    const json_t *p = json_array_get(payload, i);
    const json_t *text = json_object_get(p, "text");
    const char *source = text_of(p, "source");
    if (source && !strcmp(source, "ask_exit")) result->leave = true;
    if (source && !strcmp(source, "set_next_input") && json_is_string(text)) {
      td_str_clear(&result->next);
      td_edit_text_clean(&result->next, json_string_value(text),
                         json_string_length(text));
    }
  }
}

void td_ask_execute(td_line *l, const char *code, size_t len,
                    td_ask_result *result) {
  *result = (td_ask_result){.count = -1};
  td_str_init(&result->next);
  td_str_init(&result->text);
  json_t *reply = ask(l, "execute", code, len, ", \"store_history\": true",
                      &result->outcome, &result->text);
  const json_t *n = json_object_get(reply, "execution_count");
  if (json_is_integer(n)) result->count = (int)json_integer_value(n);
  take_payload(reply, result);
  json_decref(reply);
}

void td_ask_result_deinit(td_ask_result *result) {
  td_str_deinit(&result->next);
  td_str_deinit(&result->text);
}

/* ---- history, banner ---- */

enum { HISTORY_MOST = 5000, HISTORY_PIECE = 100 };

bool td_ask_history(td_line *l, td_edit_history *h) {
  char more[96];
  if (!l || !h->before || h->entries.len >= HISTORY_MOST) return false;
  snprintf(more, sizeof more,
           ", \"hist_access_type\": \"tail\", \"n\": %d, \"before\": %d",
           HISTORY_PIECE, h->before);
  json_t *reply = question(l, "history", "", 0, more);
  const json_t *list = json_object_get(reply, "history");
  h->before = (int)json_integer_value(json_object_get(reply, "before"));
  for (size_t i = json_array_size(list); i-- > 0;) {
    const json_t *input = json_array_get(json_array_get(list, i), 2);
    td_str text;
    td_str_init(&text);
    if (json_is_string(input))
      td_edit_text_clean(&text, json_string_value(input),
                         json_string_length(input));
    if (!text.failed) td_edit_history_add_older(h, td_str_c(&text), text.len);
    td_str_deinit(&text);
  }
  json_decref(reply);
  return true;
}

void td_ask_banner(td_line *l, td_str *text) {
  json_t *reply = question(l, "banner", "", 0, "");
  const char *lines = text_of(reply, "text");
  td_str_add(text, lines ? lines : "Tide " TD_VERSION "\n");
  json_decref(reply);
}
